/** Users, what they may do, and who changed it. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, dialog, fact, field, named, object, pages, panel, table, time } from "../parts.js";
import { counted, number } from "../words.js";
import { crumbs } from "./exchanges.js";
import { vhostField } from "./vhosts.js";

const TAGS = ["management", "policymaker", "monitoring", "administrator"];
const LIMITS = ["max-connections", "max-channels"];
const OPERATIONS = ["configure", "write", "read"];
const SIZE = 50;
const CHANGES = 50;
const DELAY = 250;

export function access(_, query, session) {
  const administers = session.roles.includes("administrator");
  let typing;
  const search = h("input", {
    type: "search",
    value: query.name ?? "",
    placeholder: "Find users by name  ( / )",
    "aria-label": "Find users by name",
    spellcheck: "false",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => go(["access"], { ...query, page: undefined, name: search.value }, { replace: true }), DELAY);
    },
  });
  // the page is drawn anew while somebody types: the cursor goes on where it was
  if (query.name !== undefined && document.activeElement?.type === "search") setTimeout(() => search.focus());
  const users = panel({
    class: "bare",
    load: async (live, signal) => {
      const [list, permissions] = await Promise.all([
        ask(path("users"), { query: { columns: "name,tags", page: query.page ?? 1, page_size: SIZE, name: query.name }, live, signal }),
        ask(path("permissions"), { query: { columns: "user,vhost" }, live, signal }),
      ]);
      return { list, permissions };
    },
    empty: `No user has ${JSON.stringify(query.name ?? "")} in the name.`,
    view: ({ list, permissions }) => (list.items.length ? userTable(list, permissions, query) : null),
  });
  return {
    title: "Access",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Access"), search, administers ? action("New user", create, { kind: "primary" }) : null),
      users,
      administers ? audit("Who changed users and permissions", ["access"], query) : null,
    ],
  };
}

function userTable(list, permissions, query) {
  const vhosts = Map.groupBy(permissions, (one) => one.user);
  return [
    table({
      caption: "Users",
      rows: list.items,
      key: (one) => one.name,
      columns: [
        { title: "User", cell: (one) => named(one.name, to(["access", one.name])) },
        { title: "Tags", cell: (one) => one.tags.join(", ") || h("span", { class: "muted" }, "none: cannot log in here") },
        { title: "May do something in", cell: (one) => inVhosts(vhosts.get(one.name) ?? []) },
      ],
    }),
    h("div", { class: "foot" }, h("span", { class: "muted" }, counted(list.filtered_count, "user")), pages(list, (page) => to(["access"], { ...query, page }))),
  ];
}

function inVhosts(permissions) {
  if (!permissions.length) return h("span", { class: "muted" }, "no vhost");
  const shown = permissions.slice(0, 5).map((one, place) => [place ? ", " : "", named(one.vhost)]);
  return permissions.length > 5 ? [shown, ` and ${number(permissions.length - 5)} more`] : shown;
}

/** One user: tags, password, limits, permissions, and what was changed about them. */
export function user([name], query, session) {
  const administers = session.roles.includes("administrator");
  const parts = [];
  const again = () => parts.forEach((part) => part.again());
  const own = (kind) => (live, signal) => ask(path("users", name, ...kind), { live, signal });
  parts.push(
    panel({
      class: "bare",
      load: own([]),
      view: (found) => [
        h(
          "dl",
          { class: "facts" },
          fact("Tags", found.tags.join(", ") || "none: cannot log in here"),
          fact("Password", found.password_hash ? "set" : "none: cannot log in"),
          Object.entries(found.limits).map(([limit, value]) => fact(limit, number(value))),
        ),
        h(
          "div",
          { class: "actions" },
          action("Tags …", () => retag(found, again)),
          action("Password …", () => repassword(found, again)),
          action("Limits …", () => limit(found, again)),
          // nobody may delete themselves
          name === session.name ? null : action("Delete", () => remove(name), { kind: "danger" }),
        ),
      ],
    }),
    panel({
      title: "Permissions",
      aside: action("Grant …", () => grant(name, again), { kind: "small" }),
      load: own(["permissions"]),
      empty: "None: every operation on exchanges and queues is refused.",
      view: (found) =>
        found.length
          ? table({
              caption: "Permissions",
              rows: found,
              key: (one) => one.vhost,
              columns: [
                { title: "Vhost", cell: (one) => named(one.vhost) },
                ...OPERATIONS.map((operation) => ({ title: operation, cell: (one) => pattern(one[operation]) })),
                { title: h("span", { class: "unseen" }, "actions"), cell: (one) => action("Revoke", () => revoke(one, ["permissions", one.vhost, name], again), { kind: "small" }) },
              ],
            })
          : null,
    }),
    panel({
      title: "Permissions for routing keys",
      aside: action("Narrow …", () => narrow(name, again), { kind: "small" }),
      load: own(["topic-permissions"]),
      empty: "None: every routing key of a topic exchange may be used.",
      view: (found) =>
        found.length
          ? table({
              caption: "Permissions for routing keys",
              rows: found,
              key: (one) => `${one.vhost}\n${one.exchange}`,
              columns: [
                { title: "Vhost", cell: (one) => named(one.vhost) },
                { title: "Exchange", cell: (one) => object("exchange", one.vhost, one.exchange) },
                { title: "write", cell: (one) => pattern(one.write) },
                { title: "read", cell: (one) => pattern(one.read) },
                { title: h("span", { class: "unseen" }, "actions"), cell: (one) => action("Revoke", () => revoke(one, ["topic-permissions", one.vhost, name, one.exchange], again), { kind: "small" }) },
              ],
            })
          : null,
    }),
  );
  // to others the first part says that it is not for them
  if (!administers) parts.splice(1).forEach((part) => part.leave());
  return { title: name, content: [crumbs("access", "Access", name), parts, administers ? audit("Changes about this user", ["access", name], query, name) : null] };
}

function pattern(text) {
  return text === "" ? h("span", { class: "muted" }, "nothing") : h("code", { dir: "auto" }, text);
}

/** Milliseconds at the beginning of a day in the viewer's zone, so many days later. */
function day(text, later = 0) {
  if (!text) return undefined;
  const date = new Date(`${text}T00:00`);
  date.setDate(date.getDate() + later);
  return Number.isNaN(date.getTime()) ? undefined : date.getTime();
}

/** Who changed users and permissions, narrowed as the address says. */
function audit(title, place, query, about) {
  const inputs = {
    by: h("input", { value: query.by ?? "", spellcheck: "false", autocomplete: "off" }),
    ...(about === undefined ? { text: h("input", { value: query.text ?? "", spellcheck: "false", autocomplete: "off" }) } : {}),
    since: h("input", { type: "date", value: query.since ?? "" }),
    until: h("input", { type: "date", value: query.until ?? "" }),
  };
  const labels = { by: "By", text: "What was changed", since: "From", until: "To" };
  const asked = { limit: CHANGES, by: query.by, text: about ?? query.text, since: day(query.since), until: day(query.until, 1) };
  return panel({
    title,
    aside: h(
      "form",
      {
        class: "narrow",
        onsubmit: (event) => {
          event.preventDefault();
          go(place, { ...query, ...Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input.value])) });
        },
      },
      Object.entries(inputs).map(([key, input]) => field(labels[key], input)),
      h("button", { class: "button" }, "Show"),
    ),
    load: (live, signal) => ask(path("audit"), { query: asked, live, signal }),
    empty: Object.values(query).some(Boolean) ? "No change is like that." : "Nobody has changed anything yet.",
    view: ({ changes }) =>
      changes.length
        ? h(
            "ol",
            { class: "log plain-log" },
            changes.map((one) => h("li", { key: one.change }, h("span", { dir: "auto" }, one.action), h("small", {}, h("b", { dir: "auto" }, one.user), " ", time(new Date(one.at_ms).toISOString())))),
          )
        : null,
  });
}

function tagBoxes(chosen) {
  const boxes = TAGS.map((tag) => h("input", { type: "checkbox", value: tag, checked: chosen.includes(tag) }));
  return {
    element: h("fieldset", {}, h("legend", {}, "Tags"), boxes.map((box) => h("label", {}, box, " ", box.value))),
    // tags that other programs gave stay
    value: () => [...chosen.filter((tag) => !TAGS.includes(tag)), ...boxes.filter((box) => box.checked).map((box) => box.value)].join(","),
  };
}

function create() {
  const name = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  const password = h("input", { type: "password", required: true, autocomplete: "new-password" });
  const tags = tagBoxes([]);
  dialog({
    title: "New user",
    body: [field("Name", name), field("Password", password), tags.element],
    confirm: "Create",
    work: async () => {
      await ask(path("users", name.value), { method: "PUT", body: { password: password.value, tags: tags.value() } });
      go(["access", name.value]);
      return "created";
    },
  });
}

function retag(found, ondone) {
  const tags = tagBoxes(found.tags);
  dialog({
    title: `Tags of ${found.name}`,
    body: [tags.element, h("p", { class: "muted" }, "They hold at once, also for those who are logged in.")],
    confirm: "Change",
    work: async () => {
      const { password_hash, hashing_algorithm } = found;
      await ask(path("users", found.name), { method: "PUT", body: { password_hash, hashing_algorithm, tags: tags.value() } });
      ondone();
      return "changed";
    },
  });
}

function repassword(found, ondone) {
  const password = h("input", { type: "password", required: true, autocomplete: "new-password" });
  dialog({
    title: `Password of ${found.name}`,
    body: field("New password", password, "their sessions end"),
    confirm: "Change",
    work: async () => {
      await ask(path("users", found.name), { method: "PUT", body: { password: password.value, tags: found.tags.join(",") } });
      ondone();
      return "changed";
    },
  });
}

function limit(found, ondone) {
  const inputs = LIMITS.map((one) => [one, h("input", { type: "number", min: -1, value: found.limits[one] ?? "" })]);
  dialog({
    title: `Limits of ${found.name}`,
    body: [
      inputs.map(([one, input]) => field(one, input, "empty: none")),
      h("p", { class: "muted" }, "They are kept and shown; nothing connects here that they could bound."),
    ],
    confirm: "Change",
    work: async () => {
      for (const [one, input] of inputs) {
        const where = path("user-limits", found.name, one);
        if (input.value !== "") await ask(where, { method: "PUT", body: { value: Number(input.value) } });
        else if (one in found.limits) await ask(where, { method: "DELETE" });
      }
      ondone();
      return "changed";
    },
  });
}

function patternFields(operations) {
  return operations.map((operation) => [operation, h("input", { class: "mono", value: ".*", spellcheck: "false" })]);
}

async function grant(name, ondone) {
  const vhost = await vhostField();
  const fields = patternFields(OPERATIONS);
  dialog({
    title: `Grant ${name} a permission`,
    body: [field("Vhost", vhost), fields.map(([operation, input]) => field(operation, input, "a regular expression on names; empty: none"))],
    confirm: "Grant",
    work: async () => {
      const body = Object.fromEntries(fields.map(([operation, input]) => [operation, input.value]));
      await ask(path("permissions", vhost.value, name), { method: "PUT", body });
      ondone();
      return "granted";
    },
  });
}

async function narrow(name, ondone) {
  const vhost = await vhostField();
  const exchange = h("input", { required: true, spellcheck: "false" });
  const fields = patternFields(["write", "read"]);
  dialog({
    title: `Routing keys that ${name} may use`,
    body: [
      field("Vhost", vhost),
      field("Exchange", exchange, "a topic exchange"),
      fields.map(([operation, input]) => field(operation, input, "a regular expression on routing keys; empty: none")),
    ],
    confirm: "Narrow",
    work: async () => {
      const body = Object.fromEntries(fields.map(([operation, input]) => [operation, input.value]));
      await ask(path("topic-permissions", vhost.value, name), { method: "PUT", body: { exchange: exchange.value, ...body } });
      ondone();
      return "narrowed";
    },
  });
}

function revoke(permission, where, ondone) {
  dialog({
    title: `Revoke ${permission.user}'s permission`,
    body: h("p", {}, "In vhost ", h("b", { dir: "auto" }, permission.vhost), ". It holds at once, also for those who are logged in."),
    confirm: "Revoke",
    kind: "danger",
    work: async () => {
      await ask(path(...where), { method: "DELETE" });
      ondone();
      return "revoked";
    },
  });
}

function remove(name) {
  dialog({
    title: `Delete user ${name}`,
    body: h("p", {}, "Their permissions and sessions end with them."),
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      await ask(path("users", name), { method: "DELETE" });
      go(["access"]);
      return "deleted";
    },
  });
}
