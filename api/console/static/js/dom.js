/**
 * Elements, made from values and never from markup: whatever a name or a payload holds, it is shown as text.
 */

const SVG = "http://www.w3.org/2000/svg";
/** Elements of pictures; a link in one is written "svg:a". */
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "text", "title"]);

/**
 * An element. Keys that begin with `on` are listeners, `key` tells elements of one list apart when they are brought
 * up to date, `class` may be a list with holes; null, undefined and false leave an attribute out.
 */
export function h(tag, attributes = {}, ...children) {
  const drawn = SVG_TAGS.has(tag) || tag.startsWith("svg:");
  const element = drawn ? document.createElementNS(SVG, tag.replace("svg:", "")) : document.createElement(tag);
  element.listeners = {};
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") element.key = value;
    else if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (name === "class") element.setAttribute("class", [value].flat().filter(Boolean).join(" "));
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function listen(element, event, listener) {
  if (!(event in element.listeners)) element.addEventListener(event, dispatch);
  element.listeners[event] = listener;
}

function dispatch(event) {
  return event.currentTarget.listeners[event.type]?.(event);
}

function append(element, children) {
  element.append(...nodes(children));
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/**
 * Put other children into an element, keeping those that are alike: focus, selection and scroll positions stay. An
 * element with `isOwn` looks after its own children: it stays as it is where it is given again.
 */
export function fill(element, ...children) {
  reconcile(element, nodes(children));
}

function reconcile(element, wanted) {
  const keyed = new Map();
  for (const node of element.childNodes) if (node.key !== undefined) keyed.set(node.key, node);
  let present = element.firstChild;
  for (const node of wanted) {
    if (node.parentNode === element) {
      if (node === present) present = present.nextSibling;
      else element.insertBefore(node, present);
      continue;
    }
    const same = node.key === undefined ? (present?.key === undefined ? present : null) : keyed.get(node.key);
    if (same && alike(same, node)) {
      if (same === present) present = present.nextSibling;
      else element.insertBefore(same, present);
      update(same, node);
    } else {
      element.insertBefore(node, present);
    }
  }
  while (present) {
    const next = present.nextSibling;
    present.remove();
    present = next;
  }
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && !one.isOwn && !other.isOwn;
}

function update(element, wanted) {
  if (element.nodeType === Node.TEXT_NODE) {
    if (element.data !== wanted.data) element.data = wanted.data;
    return;
  }
  for (const { name } of [...element.attributes]) {
    // what a reader has opened stays open
    if (!wanted.hasAttribute(name) && name !== "open") element.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (element.getAttribute(name) !== value && name !== "open") element.setAttribute(name, value);
  }
  for (const [event, listener] of Object.entries(wanted.listeners ?? {})) listen(element, event, listener);
  if ("value" in wanted && element !== document.activeElement && element.value !== wanted.value) {
    element.value = wanted.value;
  }
  reconcile(element, [...wanted.childNodes]);
}

/** Say something to those who listen to a screen reader. */
export function announce(text) {
  document.getElementById("said").textContent = text;
}
