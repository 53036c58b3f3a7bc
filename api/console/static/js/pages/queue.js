/** One queue: its messages as rows, now or as they were, what leads to it, its table, and how it is read elsewhere. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, DEFAULT_EXCHANGE, fact, named, panel, rightsOf, rightsOfMany, time } from "../parts.js";
import { bytes, number } from "../words.js";
import { publishing } from "../publish.js";
import { argumentsOf, bind, bindingTable, farRights, onePage } from "./bindings.js";
import { crumbs, historyLink } from "./exchanges.js";
import { findings } from "./lint.js";
import { bannerOf, isPast, pastOf } from "./past.js";
import { getMessages, purge, remove } from "./queue_actions.js";
import { backfill } from "./queue_journal.js";
import { readElsewhere } from "./queue_snippets.js";
import { tableOf } from "./queue_table.js";
import { change } from "./queues.js";
import { row } from "./row.js";
import { rows } from "./rows.js";

/** Parts of the page: what the address calls it, and what it is called. */
const PARTS = [
  [undefined, "Messages"],
  ["table", "Table and arrivals"],
  ["read", "Read it elsewhere"],
];

export function queue([vhost, name, below, id], query, session) {
  if (below === "rows" && id !== undefined) return row({ vhost, name, id, query, session });
  const where = path("queues", vhost, name);
  const parts = [];
  const again = () => parts.forEach((part) => part.again?.());
  const past = isPast(query);
  const got = h("div", { class: "got" });
  got.isOwn = true;
  parts.push(
    panel({
      class: "bare",
      load: async (live, signal) => {
        const [item, rights] = await Promise.all([ask(where, { live, signal }), rightsOfMany(vhost, [name, DEFAULT_EXCHANGE], signal)]);
        return { item, rights: rights[name], mayPublish: rights[DEFAULT_EXCHANGE].write };
      },
      view: ({ item, rights, mayPublish }) => facts({ vhost, name, item, rights, mayPublish, again, past, got, query, session }),
    }),
  );
  if (!past) parts.push(findings("queue", vhost, name));
  const top = parts.length;
  if (query.show === "table") parts.push(...tableOf(vhost, name, query, again));
  else if (query.show === "read") parts.push(readElsewhere(vhost, name, query));
  else parts.push(got, rows({ vhost, name, query, again }), leadingHere(vhost, name, past, query, again));
  return { title: name, content: [crumbs("queues", "Queues", name), past ? bannerOf(vhost, name, query) : null, parts.slice(0, top), places(vhost, name, query), parts.slice(top)] };
}

/** Links to the parts of the page; a filter and what is shown of the past go with them. */
function places(vhost, name, query) {
  const kept = { filter: query.filter, dialect: query.dialect, ...pastOf(query) };
  return h(
    "nav",
    { class: "tabs", "aria-label": "parts of the queue" },
    PARTS.map(([show, text]) => h("a", { href: to(["queues", vhost, name], { ...kept, show }), "aria-current": query.show === show ? "page" : null }, text)),
  );
}

function facts({ vhost, name, item, rights, mayPublish, again, past, got, query, session }) {
  return [
    h(
      "dl",
      { class: "facts" },
      fact(past ? "Messages now" : "Messages", number(item.messages)),
      item.waiting ? fact("Waiting", h("span", { title: "Among the messages: they are in the journal of their stream, and come into the table with the next flush." }, number(item.waiting), " in journals")) : null,
      fact("Size", bytes(item.message_bytes)),
      fact("Last change", item.messages ? time(item.idle_since) : "–"),
      fact("Vhost", named(vhost)),
      fact("Arguments", argumentsOf(item.arguments)),
      item.policy ? fact("Policy", h("span", { dir: "auto" }, item.policy)) : null,
    ),
    h(
      "div",
      { class: "actions" },
      h("a", { class: "button", href: to(["try"], { vhost, queue: name }) }, "Why not here?"),
      historyLink(session, { kind: "queue", vhost, name }),
      past
        ? null
        : [
            mayPublish ? publishing({ vhost, exchange: "", key: name, onpublished: again }) : null,
            rights.write ? action("Bind to an exchange …", () => bind({ vhost, destination: name, destinationType: "queue", ondone: again })) : null,
            rights.configure ? action("Change", () => change(vhost, item, again)) : null,
            rights.read && item.messages ? action("Get messages …", () => getMessages({ vhost, name, query, into: got, again })) : null,
            rights.read && rights.write ? action("Backfill …", () => backfill({ vhost, name, query, again })) : null,
            rights.read && item.messages ? action("Purge", () => purge(vhost, name, item.messages, again), { kind: "danger" }) : null,
            rights.configure ? action("Delete", () => remove(vhost, name, item.messages), { kind: "danger" }) : null,
          ],
    ),
  ];
}

function leadingHere(vhost, name, past, query, again) {
  const ofSources = farRights(vhost, "source");
  return panel({
    title: past ? "What leads here now" : "What leads here",
    load: async (live, signal) => {
      const [bindings, rights] = await Promise.all([ask(path("queues", vhost, name, "bindings"), { query: onePage(query.bindings), live, signal }), rightsOf(vhost, name, signal)]);
      const stated = bindings.filter((one) => one.source !== "");
      return { bindings: stated, rights, may: await ofSources(stated, signal) };
    },
    empty: "No exchange is bound to it: only messages that name it reach it, by the default exchange.",
    view: ({ bindings, rights, may }) =>
      bindings.length
        ? bindingTable({ caption: "What leads here", bindings, here: { kind: "queue", name }, far: "source", may, skip: query.bindings, turn: (skip) => to(["queues", vhost, name], { ...query, bindings: skip }), onchange: rights.write && !past ? again : undefined })
        : null,
  });
}
