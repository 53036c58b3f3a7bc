/** Exchanges: the list, and one with what leads to it and from it. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { action, DEFAULT_EXCHANGE, dialog, fact, field, named, object, panel, rightsOf } from "../parts.js";
import { changeDialog } from "../changes.js";
import { argumentsField } from "../forms.js";
import { publishing } from "../publish.js";
import { argumentsOf, bind, bindingTable, farRights, onePage, Wrong } from "./bindings.js";
import { findings, markedLists } from "./lint.js";
import { listPage } from "./list.js";
import { vhostField } from "./vhosts.js";

const TYPES = ["direct", "topic", "fanout", "headers", "x-consistent-hash", "x-modulus-hash"];
const KNOWN = ["alternate-exchange", "alternate-binding", "unroutable-message-behaviour", "x-payload", "x-payload-schema", "hash-header", "hash-property"];

export function exchanges(_, query) {
  return listPage({
    resource: "exchanges",
    noun: "exchange",
    title: "Exchanges",
    query,
    fields: ["name", "vhost", "type", "internal", "arguments", "policy"],
    create: action("New exchange", () => create(), { kind: "primary" }),
    empty: "There is no exchange that you may see.",
    columns: [
      { title: "Exchange", key: "name", cell: (one) => object("exchange", one.vhost, one.name) },
      { title: "Vhost", key: "vhost", cell: (one) => named(one.vhost) },
      { title: "Type", key: "type", cell: (one) => one.type + (one.internal ? ", internal" : "") },
      { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
    ],
    marks: markedLists("exchange"),
  });
}

async function create() {
  const vhost = await vhostField();
  const name = h("input", { required: true, spellcheck: "false" });
  const type = h("select", {}, TYPES.map((one) => h("option", { value: one }, one)));
  const internal = h("input", { type: "checkbox" });
  const passing = h("input", { type: "checkbox" });
  const more = argumentsField({}, KNOWN);
  type.value = "topic";
  dialog({
    title: "New exchange",
    body: [
      field("Vhost", vhost),
      field("Name", name),
      field("Type", type),
      h("div", { class: "checks" }, h("label", {}, internal, " internal: only other exchanges send to it"), h("label", {}, passing, " goes with its last binding")),
      more.element,
    ],
    confirm: "Create",
    work: async () => {
      const body = { type: type.value, durable: true, internal: internal.checked, auto_delete: passing.checked, arguments: more.read() };
      await ask(path("exchanges", vhost.value, name.value), { method: "PUT", body });
      go(["exchanges", vhost.value, name.value]);
      return "created";
    },
  });
}

/** Another type and other arguments: an exchange that exists gets them, its bindings stay. */
function change(item, ondone) {
  const type = h("select", {}, TYPES.map((one) => h("option", { value: one }, one)));
  type.value = item.type;
  const internal = h("input", { type: "checkbox", checked: item.internal });
  const more = argumentsField(item.arguments, KNOWN);
  changeDialog({
    title: `Change exchange ${item.name}`,
    vhost: item.vhost,
    body: [field("Type", type), h("div", { class: "checks" }, h("label", {}, internal, " internal: only other exchanges send to it")), more.element],
    change: () => {
      const { name, durable, auto_delete: passing } = item;
      return { change: { exchanges: [{ name, durable, auto_delete: passing, type: type.value, internal: internal.checked, arguments: more.read() }] } };
    },
    confirm: "Change",
    ondone,
  });
}

export function exchange([vhost, segment], query, session) {
  const where = path("exchanges", vhost, segment);
  const name = segment === DEFAULT_EXCHANGE ? "" : segment;
  const parts = [];
  const again = () => parts.forEach((part) => part.again());
  const loaded = (end, far) => {
    const ofFar = farRights(vhost, far);
    return async (live, signal) => {
      const [bindings, rights] = await Promise.all([
        ask(`${where}/bindings/${end}`, { query: onePage(query[end]), live, signal }),
        rightsOf(vhost, segment, signal),
      ]);
      return { bindings, rights, may: await ofFar(bindings, signal) };
    };
  };
  const ways = (end, far, caption, empty) =>
    panel({
      title: caption,
      load: loaded(end, far),
      empty,
      view: ({ bindings, rights, may }) =>
        bindings.length
          ? bindingTable({
              caption,
              bindings,
              here: { kind: "exchange", name },
              far,
              may,
              skip: query[end],
              turn: (skip) => to(["exchanges", vhost, segment], { ...query, [end]: skip }),
              onchange: (far === "source" ? rights.write : rights.read) && name !== "" ? again : undefined,
            })
          : null,
    });
  const head = panel({
    class: "bare",
    load: async (live, signal) => {
      const [item, rights] = await Promise.all([ask(where, { live, signal }), rightsOf(vhost, segment, signal)]);
      return { item, rights };
    },
    view: ({ item, rights }) => [
      h(
        "dl",
        { class: "facts" },
        fact("Type", item.type + (item.internal ? ", internal" : "")),
        fact("Vhost", named(vhost)),
        fact("Arguments", argumentsOf(item.arguments)),
        item.policy ? fact("Policy", h("span", { dir: "auto" }, item.policy)) : null,
      ),
      h(
        "div",
        { class: "actions" },
        h("a", { class: "button", href: to(["try"], { vhost, exchange: name }) }, "Try a message"),
        rights.write && !item.internal ? publishing({ vhost, exchange: name }) : null,
        rights.read && name !== "" ? action("Bind to …", () => bind({ vhost, source: name, ondone: again })) : null,
        rights.configure && name !== "" && !name.startsWith("amq.") ? action("Change", () => change(item, again)) : null,
        historyLink(session, { kind: "exchange", vhost, name }),
        rights.configure && name !== "" && !name.startsWith("amq.")
          ? action("Delete", () => remove(vhost, name), { kind: "danger" })
          : null,
      ),
    ],
  });
  parts.push(head, findings("exchange", vhost, name), ways("source", "destination", "What it sends on", "Nothing leaves it: bind a queue to it."));
  if (name !== "") parts.push(ways("destination", "source", "What comes from other exchanges", "No exchange leads here."));
  return { title: name || "default exchange", content: [crumbs("exchanges", "Exchanges", name || "(default exchange)"), parts] };
}

/** The way to what happened to an object, for those who may see it. */
export function historyLink(session, object_) {
  return session.roles.includes("monitoring") ? h("a", { class: "button", href: to(["history"], object_) }, "History") : null;
}

/** A heading that leads back to the list. */
export function crumbs(place, list, name) {
  return h("div", { class: "heading" }, h("h1", { dir: "auto" }, h("a", { class: "up", href: to([place]) }, list), " ", h("span", { class: "name" }, name)));
}

function remove(vhost, name) {
  const typed = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  const count = h("p", {}, "…");
  ask(`${path("exchanges", vhost, name)}/bindings/source`).then((found) =>
    fill(count, `Its bindings go with it: ${found.length} lead from it. Rows of queues stay, and the history of the topology leads back.`),
  );
  dialog({
    title: `Delete exchange ${name}`,
    body: [count, field("Type its name", typed)],
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      if (typed.value !== name) throw new Wrong("That is another name.");
      await ask(path("exchanges", vhost, name), { method: "DELETE" });
      go(["exchanges"]);
      return "deleted";
    },
  });
}
