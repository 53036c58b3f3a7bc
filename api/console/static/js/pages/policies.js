/** Policies: settings for every exchange or queue whose name has a pattern. */

import { go } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { argumentsField } from "../forms.js";
import { action, dialog, field, named, object, panel, table } from "../parts.js";
import { counted } from "../words.js";
import { argumentsOf } from "./bindings.js";
import { sections } from "./sections.js";
import { vhostChoice } from "./vhosts.js";

/** What a policy may be applied to -> the lists of objects that it can cover. */
const APPLY_TO = { all: ["exchanges", "queues"], exchanges: ["exchanges"], queues: ["queues"], classic_queues: ["queues"], quorum_queues: [], streams: [] };
const KNOWN = ["alternate-exchange", "payload"];
const SHOWN = 8;
const DELAY = 300;

export function policies([vhost = "/"], query, session) {
  const may = session.roles.includes("policymaker");
  const part = panel({
    class: "bare",
    load: async (live, signal) => {
      const found = await ask(path("policies", vhost), { live, signal });
      const shown = query.name === undefined ? found : found.filter((one) => one.name === query.name);
      return shown.sort((one, other) => other.priority - one.priority || (one.name < other.name ? -1 : 1));
    },
    empty: "No policy. A policy gives an alternate or a format of bodies to every exchange or queue whose name has a pattern.",
    view: (shown) =>
      shown.length
        ? table({
            caption: "Policies, those that win first",
            rows: shown,
            key: (one) => one.name,
            columns: [
              { title: "Policy", cell: (one) => named(one.name) },
              { title: "Pattern", cell: (one) => h("code", { dir: "auto" }, one.pattern) },
              { title: "Applies to", cell: (one) => one["apply-to"].replaceAll("_", " ") },
              { title: "Definition", cell: (one) => argumentsOf(one.definition) },
              { title: "Priority", number: true, cell: (one) => one.priority },
              {
                title: h("span", { class: "unseen" }, "actions"),
                cell: (one) =>
                  may ? h("div", { class: "buttons" }, action("Change", () => edit(vhost, one, part.again), { kind: "small" }), action("Delete", () => remove(vhost, one, part.again), { kind: "small" })) : null,
              },
            ],
          })
        : null,
  });
  return {
    title: "Policies",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Policies"), vhostChoice("policies", vhost), may ? action("New policy", () => edit(vhost, null, () => go(["policies", vhost])), { kind: "primary" }) : null),
      sections(vhost, "policies"),
      part,
    ],
  };
}

function edit(vhost, one, ondone) {
  const name = h("input", { required: true, spellcheck: "false", value: one?.name ?? "", readonly: one !== null });
  const pattern = h("input", { class: "mono", required: true, spellcheck: "false", value: one?.pattern ?? "^" });
  const to = h("select", {}, Object.keys(APPLY_TO).map((kind) => h("option", { value: kind }, kind.replaceAll("_", " "))));
  to.value = one?.["apply-to"] ?? "all";
  const priority = h("input", { type: "number", value: String(one?.priority ?? 0), class: "short" });
  const more = argumentsField(one?.definition ?? { "alternate-exchange": "" }, KNOWN, "Definition");
  const covered = h("div", { class: "planned", "aria-live": "polite" });
  covered.isOwn = true;
  let timer;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => fill(covered, await effect(vhost, pattern.value, to.value)), DELAY);
  };
  dialog({
    title: one ? `Change policy ${one.name}` : "New policy",
    body: [
      field("Name", name),
      h("div", { class: "changing", oninput: soon, onchange: soon }, field("Pattern", pattern, "a regular expression, searched in names: ^orders is every name that begins so"), field("Applies to", to), covered),
      field("Priority", priority, "of several policies the one with the highest applies"),
      more.element,
    ],
    confirm: one ? "Change" : "Create",
    work: async () => {
      const body = { pattern: pattern.value, "apply-to": to.value, priority: Number(priority.value), definition: more.read() };
      await ask(path("policies", vhost, name.value), { method: "PUT", body });
      ondone();
      return one ? "changed" : "created";
    },
  });
  soon();
}

/** Which objects a pattern covers, by the service's own regular expressions. */
async function effect(vhost, pattern, to) {
  try {
    const lists = await Promise.all(
      APPLY_TO[to].map(async (list) => {
        const found = await ask(path(list, vhost), { query: { page: 1, page_size: SHOWN, name: pattern, use_regex: "true", columns: "name,vhost" } });
        const kind = list === "queues" ? "queue" : "exchange";
        return h("p", {}, counted(found.filtered_count, kind), found.items.length ? ": " : "", found.items.map((item, place) => [place ? ", " : "", object(kind, vhost, item.name)]), found.filtered_count > found.items.length ? " …" : "");
      }),
    );
    return lists.length ? [h("small", {}, "It covers"), lists] : h("p", { class: "muted" }, "There are no such queues here: it covers nothing.");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return h("p", { class: "notice bad" }, error.message);
  }
}

function remove(vhost, one, ondone) {
  dialog({
    title: `Delete policy ${one.name}`,
    body: h("p", {}, "What it gave to exchanges and queues ends with it; the history of the topology leads back."),
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      await ask(path("policies", vhost, one.name), { method: "DELETE" });
      ondone();
      return "deleted";
    },
  });
}
