/** The vhosts: make one, describe it, protect it from deletion, delete it. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { action, dialog, field, named } from "../parts.js";
import { counted, number } from "../words.js";
import { listPage } from "./list.js";
import { sections } from "./sections.js";
import { Wrong } from "../written.js";

export function vhostList(_, query, session) {
  const may = session.roles.includes("administrator");
  const page = listPage({
    resource: "vhosts",
    noun: "vhost",
    title: "Vhosts",
    query,
    fields: ["name", "description", "tags", "messages"],
    create: may ? action("New vhost", () => edit(null), { kind: "primary" }) : null,
    empty: "There is no vhost that you may see.",
    columns: [
      { title: "Vhost", key: "name", cell: (one) => named(one.name, to(["topology", one.name])) },
      { title: "Description", cell: (one) => h("span", { dir: "auto" }, one.description || "–") },
      { title: "Tags", cell: (one) => (one.tags?.length ? one.tags.join(", ") : "–") },
      { title: "Messages", number: true, cell: (one) => number(one.messages ?? 0) },
      {
        title: h("span", { class: "unseen" }, "actions"),
        cell: (one) => (may ? h("div", { class: "buttons" }, action("Describe", () => edit(one), { kind: "small" }), action("Delete", () => remove(one), { kind: "small" })) : null),
      },
    ],
  });
  page.content.splice(1, 0, sections("/", "vhosts"));
  return page;
}

function edit(one) {
  const name = h("input", { required: true, spellcheck: "false", value: one?.name ?? "", readonly: one !== null });
  const description = h("input", { value: one?.description ?? "" });
  const tags = h("input", { value: one?.tags?.join(", ") ?? "", spellcheck: "false" });
  dialog({
    title: one ? `Describe vhost ${one.name}` : "New vhost",
    body: [field("Name", name), field("Description", description), field("Tags", tags, "separated by commas"), one ? null : h("p", { class: "muted" }, "You get every permission in it.")],
    confirm: one ? "Save" : "Create",
    work: async () => {
      await ask(path("vhosts", name.value), { method: "PUT", body: { description: description.value, tags: tags.value } });
      if (one) go(["vhosts"]);
      else go(["topology", name.value]);
      return one ? "saved" : "created";
    },
  });
}

function remove(one) {
  const typed = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  const said = h("p", {}, "…");
  Promise.all(["exchanges", "queues"].map((list) => ask(path(list, one.name), { query: { page: 1, page_size: 1, columns: "name" } }))).then(([exchanges, queues]) =>
    fill(said, `${counted(queues.filtered_count, "queue")} with ${counted(one.messages ?? 0, "message")} and ${counted(exchanges.filtered_count, "exchange")} go with it, and every permission in it. A rollback of the topology brings it back, its queues empty, without the permissions.`),
    (problem) => fill(said, problem.message),
  );
  dialog({
    title: `Delete vhost ${one.name}`,
    body: [said, field("Type its name", typed)],
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      if (typed.value !== one.name) throw new Wrong("That is another name.");
      await ask(path("vhosts", one.name), { method: "DELETE" });
      go(["vhosts"]);
      return "deleted";
    },
  });
}
