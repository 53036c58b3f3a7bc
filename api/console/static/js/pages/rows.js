/** The rows of a queue as a table: typed columns that one chooses, a filter, pages; all of it stands in the address. */

import { go, to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { dialectChoice, filterBox } from "../filter_box.js";
import { action, object, panel, rightsOf, table, time } from "../parts.js";
import { bytes, counted, number, shortened } from "../words.js";
import { askedOf, isPast, pastOf, travel } from "./past.js";
import { deleteChosen, transfer } from "./queue_actions.js";

const SHOWN = 50;
/** Bytes of a body that are asked for, and characters of it in a cell. */
const PREVIEW = 400;
const IN_CELL = 120;
/** Headers that are columns where nobody has chosen any. */
const HEADERS = 6;

/** Columns that every row has. */
const FIXED = [
  { id: "row", title: "Row", cell: (one, page) => h("a", { class: "mono", dir: "auto", href: page.link(one) }, shortened(one.row, 32)) },
  { id: "routed", title: "Routed", cell: (one) => time(one.routed_at) },
  { id: "exchange", title: "Exchange", cell: (one, page) => object("exchange", page.vhost, one.exchange) },
  { id: "key", title: "Routing key", cell: (one) => text(one.routing_key) },
  { id: "properties", title: "Properties", cell: (one) => brief(one.properties) },
  { id: "body", title: "Body", cell: (one) => bodyOf(one.body) },
  { id: "size", title: "Size", number: true, cell: (one) => bytes(one.body.bytes) },
  { id: "version", title: "Topology", number: true, cell: (one) => number(one.topology_version) },
  { id: "bindings", title: "Bindings", cell: (one) => one.bindings.join(", ") || "–" },
  { id: "source", title: "Source", cell: (one) => sourceWords(one.source) },
];
const USUAL = ["row", "routed", "key", "headers", "body", "size"];

export function rows({ vhost, name, query, again }) {
  const { form, box } = filterForm(vhost, name, query);
  const body = {
    limit: SHOWN,
    preview: PREVIEW,
    newest: query.order !== "oldest",
    ...askedOf(query),
    ...(query.filter ? { filter: query.filter, dialect: query.dialect ?? "jms" } : {}),
    ...(query.after ? { after: query.after } : query.before ? { before: query.before } : {}),
  };
  return panel({
    title: "Messages",
    class: "rows",
    aside: form,
    every: 0,
    load: async (live, signal) => {
      try {
        const [page, rights] = await Promise.all([
          ask(path("queues", vhost, name, "rows"), { method: "POST", body, live, signal }),
          rightsOf(vhost, name, signal),
        ]);
        return { page, rights };
      } catch (error) {
        if (error instanceof Problem && error.body.filter) {
          box.mark(error);
          return { refused: true };
        }
        throw error;
      }
    },
    view: ({ page, rights, refused }) => (refused ? h("p", { class: "empty" }, "The filter cannot be read: nothing is shown.") : shown({ vhost, name, query, again, page, rights })),
  });
}

/** A page of rows. Choosing columns draws it anew without asking for it again. */
function shown({ vhost, name, query, again, page, rights }) {
  const area = h("div", {});
  area.isOwn = true;
  const times = travel(vhost, name, query);
  times.isOwn = true;
  const draw = (state) => {
    const here = (changed) => to(["queues", vhost, name], { ...state, ...changed });
    const choose = (columns) => {
      history.replaceState(null, "", here({ columns }));
      draw({ ...state, columns });
    };
    const oldest = state.order === "oldest";
    fill(
      area,
      h(
        "div",
        { class: "row-bar" },
        page.rows.length ? chooser(state, page, choose, here({ columns: undefined })) : null,
        times,
        h("span", { class: "muted" }, oldest ? "oldest first, " : "newest first, ", h("a", { href: here({ order: oldest ? undefined : "oldest", after: undefined, before: undefined }) }, oldest ? "newest first" : "oldest first")),
      ),
      page.rows.length ? list({ vhost, name, query: state, again, page, rights, here }) : h("p", { class: "empty" }, nothing(state, page)),
    );
  };
  draw(query);
  return area;
}

function list({ vhost, name, query, again, page, rights, here }) {
  const link = (one) => to(["queues", vhost, name, "rows", one.row], pastOf(query));
  const count = counted(page.rows.length, "row");
  return [
    table({
      caption: "Messages",
      rows: page.rows,
      key: (one) => one.row,
      columns: chosen(query, page).map((column) => ({ ...column, cell: (one) => column.cell(one, { vhost, link }) })),
    }),
    h(
      "div",
      { class: "foot" },
      h(
        "span",
        { class: "muted" },
        query.filter ? `${count} that the filter accepts, of ${number(page.held)}` : `${count} of ${number(page.held)}`,
        page.further_columns ? `; ${counted(page.further_columns, "further header")} have no column` : "",
      ),
      rights.read && !isPast(query) ? chosenActions({ vhost, name, query, again }) : null,
      leaves(page, here),
    ),
  ];
}

/** Where the filter is written; what it is goes into the address. */
function filterForm(vhost, name, query) {
  const dialect = dialectChoice(query.dialect, { onchange: () => box.refresh() });
  const box = filterBox({
    value: query.filter ?? "",
    input: { type: "search", placeholder: "price > 10 AND region = 'EU'", "aria-label": "Only messages that a filter accepts" },
    dialect: () => dialect.value,
    names: () => ask(path("queues", vhost, name, "properties")),
  });
  const form = h(
    "form",
    {
      class: "filter",
      onsubmit: (event) => {
        event.preventDefault();
        const filter = box.field.value;
        go(["queues", vhost, name], { ...query, after: undefined, before: undefined, filter, dialect: filter && dialect.value !== "jms" ? dialect.value : undefined });
      },
    },
    box,
    dialect,
    h("button", { class: "button" }, "Filter"),
  );
  return { form, box };
}

function nothing(query, page) {
  if (query.after || query.before) return "There are no further messages.";
  if (query.filter && page.held) return `The filter accepts no message of the ${counted(page.held, "message")} that the queue holds.`;
  return isPast(query) ? "The queue was empty then." : "The queue is empty.";
}

function leaves(page, here) {
  if (!page.previous && !page.next) return null;
  const step = (place, words, changed) =>
    place ? h("a", { href: here({ after: undefined, before: undefined, ...changed }) }, words) : h("span", { class: "off", "aria-hidden": "true" }, words);
  return h("nav", { class: "pages", "aria-label": "pages" }, step(page.previous, "← previous", { before: page.previous }), step(page.next, "next →", { after: page.next }));
}

/** What can be done with the messages that are meant: those of the filter, or all. */
function chosenActions({ vhost, name, query, again }) {
  return h(
    "span",
    { class: "buttons" },
    action("Move or copy …", () => transfer({ vhost, name, query, again }), { kind: "small" }),
    query.filter ? action("Delete these …", () => deleteChosen({ vhost, name, query, again }), { kind: "small danger" }) : null,
  );
}

// -- columns -----------------------------------------------------------------------------------------------

/** The columns that the address names, or else the usual ones with the most frequent headers. */
function chosen(query, page) {
  return idsOf(query, page)
    .map((id) => FIXED.find((one) => one.id === id) ?? (id.startsWith("h:") ? headerColumn(id.slice(2), page) : null))
    .filter(Boolean);
}

function idsOf(query, page) {
  try {
    const stated = JSON.parse(query.columns ?? "null");
    if (Array.isArray(stated)) return stated.map(String);
  } catch {
    // an address that somebody has changed: the usual columns are shown
  }
  const headers = page.columns.slice(0, HEADERS).map(({ name }) => `h:${name}`);
  return USUAL.flatMap((id) => (id === "headers" ? headers : [id]));
}

function headerColumn(name, page) {
  const known = page.columns.find((one) => one.name === name);
  const types = known?.types ?? [];
  return {
    title: [h("span", { class: "name", dir: "auto" }, shortened(name, 40)), h("small", { class: "type" }, known ? types.join(", ") : "not on this page")],
    number: types.length > 0 && types.every((type) => type === "integer" || type === "double"),
    cell: (one) => valueOf(one.headers[name]),
  };
}

/** Which columns are shown, as boxes to tick. */
function chooser(query, page, onchoose, usual) {
  const ids = new Set(idsOf(query, page));
  const box = (id, words) =>
    h(
      "label",
      {},
      h("input", {
        type: "checkbox",
        checked: ids.has(id),
        onchange: (event) => {
          const chosen = new Set(ids);
          if (event.currentTarget.checked) chosen.add(id);
          else chosen.delete(id);
          const order = ["row", "routed", "exchange", "key", ...page.columns.map(({ name }) => `h:${name}`), ...[...chosen].filter((one) => one.startsWith("h:")), "properties", "body", "size", "version", "bindings", "source"];
          onchoose(JSON.stringify([...new Set(order)].filter((one) => chosen.has(one))));
        },
      }),
      words,
    );
  return h(
    "details",
    { class: "chooser" },
    h("summary", {}, "Columns"),
    h(
      "div",
      { class: "chooser-boxes" },
      h("fieldset", {}, h("legend", {}, "Of every row"), FIXED.map((one) => box(one.id, one.title))),
      page.columns.length
        ? h("fieldset", {}, h("legend", {}, "Headers on this page"), page.columns.map((one) => box(`h:${one.name}`, [h("span", { dir: "auto" }, shortened(one.name, 40)), " ", h("small", {}, one.types.join(", "))])))
        : null,
      query.columns === undefined ? null : h("a", { href: usual }, "The usual columns"),
    ),
  );
}

// -- values ------------------------------------------------------------------------------------------------

/** A value of a header: its text as text, whatever it holds. */
function valueOf(value) {
  if (value === undefined) return h("span", { class: "muted", title: "this message does not have it" }, "–");
  if (value.type === "null") return h("span", { class: "muted" }, "null");
  if (value.type === "timestamp") return h("time", { datetime: value.text, title: value.text }, value.text.replace("T", " ").replace(/\.000Z$/, "Z"));
  return [text(value.text, value.type), value.length ? h("small", {}, ` of ${counted(value.length, "character")}`) : null];
}

function text(given, type = "string") {
  const shown = shortened(given, 60);
  if (given === "") return h("span", { class: "muted" }, "(empty)");
  return h("code", { dir: "auto", title: shown === given ? null : given.slice(0, 1_000) }, type === "binary" ? `0x${shown}` : shown);
}

function bodyOf(body) {
  if (body.form === "none" || !body.bytes) return h("span", { class: "muted" }, "(none)");
  const shown = body.form === "binary" ? `0x${body.text}` : body.text;
  return h("span", { class: "cell-body", dir: "auto" }, shown.length > IN_CELL ? `${shown.slice(0, IN_CELL)}…` : shown);
}

function brief(properties) {
  const stated = Object.entries(properties);
  if (!stated.length) return "–";
  return h("span", { class: "cell-body", dir: "auto" }, stated.map(([name, value]) => `${name} ${shortened(value.text, 30)}`).join("  ·  "));
}

/** Where a record stood in its source, in words. */
function sourceWords(source) {
  const stated = Object.entries(source);
  if (!stated.length) return h("span", { class: "muted" }, "–");
  return h("span", { class: "cell-body", dir: "auto" }, stated.map(([name, value]) => `${name.replaceAll("_", " ")} ${shortened(String(value), 60)}`).join(", "));
}
