/**
 * The parts that pages are made of.
 */

import { ask, path, Problem } from "./api.js";
import { to } from "./address.js";
import { announce, fill, h } from "./dom.js";
import { ago, bytes, counted, exact, lasting, shortened } from "./words.js";

/** What the default exchange, which has no name, is called in paths. */
export const DEFAULT_EXCHANGE = "amq.default";
/** Milliseconds after which something that loads says so, and between two looks at what is live. */
const PATIENCE = 200;
const EACH = 5_000;

/**
 * A part of a page that asks for its own data and shows it: its title, what it waits for, what it cannot have.
 *
 * load(live, signal)  gives the data
 * view(data)          gives what is shown; null where there is nothing: then `empty` is
 * every               milliseconds between two looks while the page is seen; 0: it is looked at once
 * hidden              whether the part goes away where the user lacks the right to see it
 */
export function panel({ title, aside, load, view, empty = null, every = EACH, hidden = false, class: extra }) {
  const content = h("div", { class: "content" });
  const head = title ? h("header", {}, h("h2", {}, title), aside ?? null) : null;
  const element = h("section", { class: ["panel", extra], "aria-busy": "true" }, head, content);
  element.isOwn = true;
  const leaving = new AbortController();
  let timer;
  let shown = false;

  const slow = setTimeout(() => fill(content, h("div", { class: "skeleton", "aria-label": "loading" }, ...[1, 2, 3].map(() => h("i")))), PATIENCE);

  async function look(live) {
    try {
      const data = await load(live, leaving.signal);
      clearTimeout(slow);
      fill(content, view(data) ?? h("p", { class: "empty" }, empty));
      shown = true;
    } catch (error) {
      clearTimeout(slow);
      if (error.name === "AbortError") return;
      if (!(error instanceof Problem)) throw error;
      if (hidden && error.isForbidden) {
        element.remove();
        return;
      }
      // what would work on something that may not be seen would fail, too
      if (error.isForbidden) aside?.remove();
      // what was seen stays where only the way to it is broken
      if (!(shown && error.status === 0)) fill(content, notice(error));
      if (error.isForbidden || error.status === 404) return;
    } finally {
      element.setAttribute("aria-busy", "false");
    }
    plan();
  }

  function plan() {
    if (every) timer = setTimeout(() => (document.hidden ? plan() : look(true)), every);
  }

  element.again = () => {
    clearTimeout(timer);
    return look(false);
  };
  element.leave = () => {
    clearTimeout(timer);
    clearTimeout(slow);
    leaving.abort();
  };
  look(false);
  return element;
}

/** An error in the API's words. */
export function notice(problem) {
  const forbidden = problem.isForbidden;
  return h(
    "div",
    { class: ["notice", forbidden ? "quiet" : "bad"], role: forbidden ? "note" : "alert" },
    h("b", {}, forbidden ? "Not for this user. " : ""),
    problem.message,
  );
}

/** A time as it is said, with the exact one on it. */
export function time(value) {
  return value ? h("time", { datetime: value, title: exact(value) }, ago(value)) : "–";
}

/** A name, shortened in its middle, as a link or as text. The default exchange has no name. */
export function named(name, href) {
  const shown = name === "" ? "(default exchange)" : shortened(name);
  const attributes = { class: "name", title: shown === name ? null : name, dir: "auto" };
  return href ? h("a", { ...attributes, href }, shown) : h("span", attributes, shown);
}

/** A link to a queue's or an exchange's page. */
export function object(kind, vhost, name) {
  return named(name, to(kind === "queue" ? ["queues", vhost, name] : ["exchanges", vhost, name || DEFAULT_EXCHANGE]));
}

/** A term and what it stands for, in a list of class `facts`. */
export function fact(term, description) {
  return h("div", {}, h("dt", {}, term), h("dd", {}, description));
}

/** How far a stream is behind; what is still to be read where its source knows. */
export function lag(found) {
  if (!found) return "–";
  const left = [
    found.files ? counted(found.files, "file") : null,
    found.bytes ? bytes(found.bytes) : null,
    found.offsets ? counted(found.offsets, "message") : null,
  ].filter(Boolean);
  const behind = found.seconds >= 1 ? lasting(found.seconds) : "none";
  return h("span", {}, left.length ? `${behind}, ${left.join(", ")}` : behind);
}

/** A word for a state: never colour alone. */
export function state(kind, text) {
  const signs = { good: "●", warn: "▲", bad: "■", off: "○" };
  return h("span", { class: ["state", kind] }, h("i", { "aria-hidden": "true" }, signs[kind]), text);
}

/**
 * A table. columns: {title, cell(row), number, key}; a column with a `key` can be sorted by.
 * sorted: {by, reverse, onsort(key, reverse)} where the whole list is sorted by the service.
 */
export function table({ caption, columns, rows, key, sorted }) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => headOf(column, sorted)))),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            { key: key?.(row) },
            columns.map((column) => h("td", { class: column.number && "number" }, column.cell(row))),
          ),
        ),
      ),
    ),
  );
}

function headOf(column, sorted) {
  const attributes = { scope: "col", class: column.number && "number" };
  if (!sorted || !column.key) return h("th", attributes, column.title);
  const by = sorted.by === column.key;
  const direction = by ? (sorted.reverse ? "descending" : "ascending") : "none";
  const mark = by ? (sorted.reverse ? " ↓" : " ↑") : "";
  const next = by ? !sorted.reverse : Boolean(column.number);
  return h(
    "th",
    { ...attributes, "aria-sort": direction },
    h("button", { class: "plain", onclick: () => sorted.onsort(column.key, next) }, column.title, mark),
  );
}

/** Pages of a list that the service has cut; `link(page)` is the address of one. */
export function pages(list, link) {
  if (list.page_count <= 1) return null;
  const step = (page, text, label) =>
    page < 1 || page > list.page_count
      ? h("span", { class: "off", "aria-hidden": "true" }, text)
      : h("a", { href: link(page), "aria-label": label }, text);
  return h(
    "nav",
    { class: "pages", "aria-label": "pages" },
    step(list.page - 1, "← previous", "previous page"),
    h("span", {}, `page ${list.page} of ${list.page_count}`),
    step(list.page + 1, "next →", "next page"),
  );
}

/** A button that works on something, and cannot be pressed twice meanwhile. */
export function action(text, work, { kind = "", ...attributes } = {}) {
  return h(
    "button",
    {
      ...attributes,
      class: ["button", kind],
      onclick: async (event) => {
        const button = event.currentTarget;
        // not `disabled`, which would take the focus away
        if (button.ariaDisabled) return;
        button.ariaDisabled = "true";
        try {
          await work(event);
        } finally {
          button.ariaDisabled = null;
        }
      },
    },
    text,
  );
}

/** A field of a form with its label; `hint` says what belongs there. */
export function field(label, input, hint) {
  const id = `f-${label.replaceAll(/\W+/g, "-")}-${Math.random().toString(36).slice(2, 8)}`;
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", id + "-hint");
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    hint ? h("small", { id: id + "-hint" }, hint) : null,
  );
}

/**
 * A dialog that does something: `work()` may raise a Problem, which is shown in it; Escape and "cancel" close it, and
 * focus goes back to where it was. It closes when the work is done, unless `work()` gives an element, which is shown in it.
 * One without `work` tells something.
 */
export function dialog({ title, body, confirm, kind = "primary", work }) {
  const before = document.activeElement;
  const trouble = h("div", { class: "trouble" });
  const close = () => element.close();
  const element = h(
    "dialog",
    { "aria-label": title, onclose: () => (element.remove(), before?.focus()) },
    h(
      "form",
      {
        method: "dialog",
        onsubmit: async (event) => {
          event.preventDefault();
          fill(trouble);
          const button = element.querySelector("button[type=submit]");
          button.disabled = true;
          try {
            const done = (await work()) ?? "done";
            announce(done.textContent ?? done);
            if (done instanceof Node) fill(trouble, done);
            else close();
          } catch (error) {
            if (!(error instanceof Problem)) throw error;
            fill(trouble, notice(error));
          } finally {
            button.disabled = false;
          }
        },
      },
      h("h2", {}, title),
      body,
      trouble,
      h(
        "footer",
        {},
        h("button", { type: "button", class: "button", onclick: close }, work ? "Cancel" : "Close"),
        work ? h("button", { type: "submit", class: ["button", kind] }, confirm) : null,
      ),
    ),
  );
  document.body.append(element);
  element.showModal();
  element.querySelector("input, select, textarea, button")?.focus();
}

/** A body or a header's value, as text in a box that can be copied. */
export function code(text, { copy = false } = {}) {
  const box = h("pre", { class: "code", tabindex: "0", dir: "auto" }, text);
  if (!copy) return box;
  return h(
    "div",
    { class: "copied" },
    box,
    action("Copy", async () => {
      await navigator.clipboard.writeText(text);
      announce("copied");
    }),
  );
}

/** What the user may do with objects of those names: name → rights. */
export async function rightsOfMany(vhost, names, signal) {
  if (!names.length) return {};
  return (await ask(path("rights", vhost), { method: "POST", body: { names: [...new Set(names)] }, live: true, signal })).names;
}

/** What the user may do with an object of that name. */
export function rightsOf(vhost, name, signal) {
  return ask(path("rights", vhost, name), { signal });
}
