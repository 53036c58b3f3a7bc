/**
 * Where a filter is written: its parts in colours, the names that messages have offered while one types, and a mark
 * where it cannot be read. The field itself is an ordinary one; the colours lie behind it and are for the eye alone.
 */

import { fill, h } from "./dom.js";

/** The languages of filters, by the names that the service gives them. */
const DIALECTS = ["jms", "artemis", "apache-selector", "amqp-sql", "cesql", "eventbridge", "sns", "service-bus"];
/** Names that are offered at a time. */
const OFFERED = 8;
const PARTS = /('(?:[^']|'')*'?)|("(?:[^"]|"")*"?|\[[^\]]*\]?)|(\d[\w.]*)|([\p{L}_$][\p{L}\p{N}_$.]*)|([<>=!+\-*/%(),]+)|(\s+|[^])/gu;
/** Words that every language has, for colours before the service has said which there are. */
const KEYWORDS = ["AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "ESCAPE", "TRUE", "FALSE"];
/** What may be named where nobody says so. */
const NOTHING = { properties: [], fields: {}, keywords: {} };
const KINDS = [null, "string", "quoted", "number", "word", "operator", null];
let boxes = 0;

/** A choice of the language that a filter is written in. */
export function dialectChoice(chosen, attributes = {}) {
  const select = h("select", { "aria-label": "Dialect", ...attributes }, DIALECTS.map((one) => h("option", { value: one }, one)));
  select.value = DIALECTS.includes(chosen) ? chosen : "jms";
  return select;
}

/**
 * A box for a filter. value: its text; input: attributes of the field; lines: how many (1: a field of one line);
 * dialect(): the language it is written in; names(): a promise of what may be named, as `…/properties` answers it,
 * asked for when somebody first types.
 * Gives the element, with `field`, `refresh()` and `mark(error)` for what the service refused.
 */
export function filterBox({ value = "", input = {}, lines = 1, dialect, names }) {
  const id = `filter-${(boxes += 1)}`;
  const field = h(lines > 1 ? "textarea" : "input", {
    ...input,
    id: input.id,
    class: ["mono", "filter-field"],
    value,
    rows: lines > 1 ? lines : null,
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    role: lines > 1 ? null : "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": lines > 1 ? null : "false",
    "aria-controls": `${id}-names`,
  });
  const colours = h("pre", { class: "filter-colours", "aria-hidden": "true" });
  const list = h("ul", { class: "filter-names", role: "listbox", id: `${id}-names`, "aria-label": "Names to complete", hidden: true });
  const trouble = h("p", { class: "filter-trouble", id: `${id}-trouble` });
  const box = h("div", { class: ["filter-box", lines > 1 && "tall"] }, h("div", { class: "filter-layers" }, colours, field), list, trouble);
  box.isOwn = true;
  let known = null;
  let asking = null;
  let turns = 0;
  let offered = [];
  let active = -1;
  let wrong = null;

  const paint = () => {
    fill(colours, coloured(field.value, known?.keywords[dialect()] ?? KEYWORDS, wrong));
    colours.scrollLeft = field.scrollLeft;
    colours.scrollTop = field.scrollTop;
  };
  const show = () => {
    list.hidden = !offered.length;
    if (lines === 1) field.setAttribute("aria-expanded", String(offered.length > 0));
    if (active >= 0) field.setAttribute("aria-activedescendant", `${id}-${active}`);
    else field.removeAttribute("aria-activedescendant");
    fill(
      list,
      offered.map((one, place) =>
        h(
          "li",
          {
            role: "option",
            id: `${id}-${place}`,
            "aria-selected": String(place === active),
            // before the field loses the focus
            onmousedown: (event) => (event.preventDefault(), take(one)),
          },
          h("code", { dir: "auto" }, one.text),
          h("small", {}, one.about),
        ),
      ),
    );
  };
  const close = () => {
    offered = [];
    active = -1;
    show();
  };
  const take = ({ text }) => {
    const { start } = begun(field.value, field.selectionStart);
    field.setRangeText(text, start, field.selectionStart, "end");
    close();
    changed();
  };
  const offer = async (asked) => {
    const turn = (turns += 1);
    if (!known) {
      asking ??= names().catch(() => null);
      const answer = await asking;
      // a key that came later offers, or the names are another queue's by now
      if (turn !== turns) return;
      // without names there is still something to write
      known = answer ?? NOTHING;
    }
    paint();
    const { prefix, quoted } = begun(field.value, field.selectionStart);
    if (document.activeElement !== field) return;
    offered = !quoted && (prefix || asked) ? candidates(known, dialect(), prefix).slice(0, OFFERED) : [];
    active = -1;
    show();
  };
  const changed = () => {
    wrong = null;
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
    fill(trouble);
    paint();
  };
  const step = (by) => {
    active = (active + by + offered.length + (active < 0 && by < 0 ? 1 : 0)) % offered.length;
    show();
  };
  const onkey = (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      offer(true);
    } else if (event.key === "ArrowDown" && !offered.length && lines === 1) {
      event.preventDefault();
      offer(true);
    } else if (offered.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (offered.length && active >= 0 && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      take(offered[active]);
    } else if (offered.length && event.key === "Escape") {
      event.preventDefault();
      close();
    }
  };
  for (const [event, listener] of Object.entries({ input: () => (changed(), offer(false)), keydown: onkey, scroll: paint, blur: close })) {
    field.addEventListener(event, listener);
  }
  paint();
  return Object.assign(box, {
    field,
    /** Take another language, or names of another queue. */
    refresh() {
      known = null;
      asking = null;
      turns += 1;
      paint();
    },
    /** Mark where the filter cannot be read, and put the cursor there. */
    mark(error) {
      const { offset = 0, length = 0 } = error.body.filter ?? {};
      const points = [...field.value];
      const start = points.slice(0, offset).join("").length;
      wrong = { start, end: start + points.slice(offset, offset + Math.max(length, 1)).join("").length };
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", trouble.id);
      fill(trouble, h("span", { role: "alert" }, error.message));
      paint();
      field.focus();
      field.setSelectionRange(start, start);
    },
  });
}

/** What is being written before a place: a name's beginning, and whether the place is within a literal. */
function begun(text, place) {
  const before = text.slice(0, place);
  const quoted = (before.match(/'/g) ?? []).length % 2 === 1;
  const prefix = /[\p{L}\p{N}_$.-]*$/u.exec(before)[0];
  return { prefix: /^[\d.-]/.test(prefix) ? "" : prefix, start: place - (/^[\d.-]/.test(prefix) ? 0 : prefix.length), quoted };
}

/** Names that may go on what is written: those that begin so first, of messages before those of the language. */
function candidates(known, dialect, prefix) {
  const wanted = prefix.toLowerCase();
  const named = [
    ...known.properties.filter((one) => one.names[dialect]).map((one) => ({ text: one.names[dialect], about: Object.keys(one.families).join(", ") })),
    ...(known.fields[dialect] ?? []).map((text) => ({ text, about: "field" })),
    ...(wanted ? (known.keywords[dialect] ?? []).map((text) => ({ text, about: "keyword" })) : []),
  ];
  const begins = named.filter(({ text }) => text.toLowerCase().replace(/^["[]/, "").startsWith(wanted));
  const has = wanted ? named.filter((one) => !begins.includes(one) && one.about !== "keyword" && one.text.toLowerCase().includes(wanted)) : [];
  return [...begins, ...has].filter(({ text }) => text !== prefix);
}

/** The text in parts by their kinds; `wrong` is where it cannot be read. */
function coloured(text, keywords, wrong) {
  const parts = [];
  for (const found of text.matchAll(PARTS)) {
    const at = found.findIndex((group, number) => number && group !== undefined);
    const kind = KINDS[at] === "word" ? (keywords.includes(found[0].toUpperCase()) ? "keyword" : "word") : KINDS[at];
    parts.push({ start: found.index, end: found.index + found[0].length, kind });
  }
  const cuts = wrong ? [wrong.start, wrong.end] : [];
  return [
    parts.flatMap(({ start, end, kind }) => {
      const places = [start, ...cuts.filter((cut) => cut > start && cut < end), end];
      return places.slice(1).map((to, number) => {
        const from = places[number];
        const marked = wrong && from >= wrong.start && to <= wrong.end;
        return h("span", { class: [kind && `part-${kind}`, marked && "part-wrong"] }, text.slice(from, to));
      });
    }),
    wrong && wrong.start >= text.length ? h("span", { class: "part-wrong" }, " ") : null,
    "\n",
  ];
}
