/** Diverts: copies, or detours, of what an exchange gets, to another exchange. */

import { go } from "../address.js";
import { ask, path } from "../api.js";
import { changeDialog } from "../changes.js";
import { h } from "../dom.js";
import { action, DEFAULT_EXCHANGE, field, named, object, panel, rightsOf, table } from "../parts.js";
import { sections } from "./sections.js";
import { vhostChoice } from "./vhosts.js";

export function diverts([vhost = "/"], query) {
  const part = panel({
    class: "bare",
    load: async (live, signal) => {
      const found = await ask(path("diverts", vhost), { query: { sort: "name" }, live, signal });
      const shown = query.name === undefined ? found : found.filter((one) => one.name === query.name);
      const sources = [...new Set(shown.map((one) => one.source))];
      const rights = await Promise.all(sources.slice(0, 50).map((one) => rightsOf(vhost, one || DEFAULT_EXCHANGE, signal)));
      return { shown, mayChange: new Map(sources.map((one, place) => [one, rights[place]?.configure])) };
    },
    empty: "No divert. A divert sends what an exchange gets to another exchange as well, or instead.",
    view: ({ shown, mayChange }) =>
      shown.length
        ? table({
            caption: "Diverts",
            rows: shown,
            key: (one) => one.name,
            columns: [
              { title: "Divert", cell: (one) => named(one.name) },
              { title: "From", cell: (one) => object("exchange", vhost, one.source) },
              { title: "To", cell: (one) => object("exchange", vhost, one.destination) },
              { title: "Filter", cell: (one) => (one.filter ? h("code", { dir: "auto" }, one.filter) : "–") },
              { title: "Takes", cell: (one) => (one.exclusive ? "the message away" : "a copy") },
              { title: "New key", cell: (one) => (one.routing_key === null || one.routing_key === undefined ? "–" : h("code", { dir: "auto" }, one.routing_key)) },
              { title: "Changes", cell: (one) => (one.transform ? h("code", { dir: "auto" }, one.transform) : "–") },
              {
                title: h("span", { class: "unseen" }, "actions"),
                cell: (one) =>
                  mayChange.get(one.source)
                    ? h("div", { class: "buttons" }, action("Change", () => edit(vhost, one, part.again), { kind: "small" }), action("Delete", () => remove(vhost, one, part.again), { kind: "small" }))
                    : null,
              },
            ],
          })
        : null,
  });
  return {
    title: "Diverts",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Diverts"), vhostChoice("diverts", vhost), action("New divert", () => edit(vhost, null, () => go(["diverts", vhost])), { kind: "primary" })),
      sections(vhost, "diverts"),
      part,
    ],
  };
}

function edit(vhost, one, ondone) {
  const name = h("input", { required: true, spellcheck: "false", value: one?.name ?? "", readonly: one !== null });
  const source = h("input", { required: true, spellcheck: "false", value: one?.source ?? "" });
  const destination = h("input", { required: true, spellcheck: "false", value: one?.destination ?? "" });
  const filter = h("textarea", { rows: 2, class: "mono", spellcheck: "false", value: one?.filter ?? "" });
  const exclusive = h("input", { type: "checkbox", checked: one?.exclusive });
  const key = h("input", { class: "mono", spellcheck: "false", value: one?.routing_key ?? "" });
  const transform = h("textarea", { rows: 2, class: "mono", spellcheck: "false", value: one?.transform ?? "" });
  changeDialog({
    title: one ? `Change divert ${one.name}` : "New divert",
    vhost,
    body: [
      field("Name", name),
      field("From exchange", source),
      field("To exchange", destination),
      field("Filter", filter, "Artemis: price > 10 AND region = 'EU'. Empty: every message"),
      h("div", { class: "checks" }, h("label", {}, exclusive, " exclusive: what it takes does not go on from here")),
      field("New routing key", key, "empty: the message keeps its own"),
      field("Transformation", transform, "SET a.region = 'eu'; REMOVE a.internal. Empty: the message as it is"),
    ],
    change: () => {
      if (!name.value || !source.value || !destination.value) return null;
      const stated = { name: name.value, source: source.value, destination: destination.value, filter: filter.value, exclusive: exclusive.checked };
      const keyed = key.value ? { ...stated, routing_key: key.value } : stated;
      const item = transform.value.trim() ? { ...keyed, transform: transform.value } : keyed;
      return { [one ? "change" : "add"]: { bindery_diverts: [item] } };
    },
    confirm: one ? "Change" : "Create",
    ondone,
  });
}

function remove(vhost, one, ondone) {
  changeDialog({
    title: `Delete divert ${one.name}`,
    vhost,
    body: h("p", {}, "What it has sent on stays where it is, and the history of the topology leads back."),
    change: () => ({ delete: { diverts: [one.name] } }),
    confirm: "Delete",
    kind: "danger",
    ondone,
  });
}
