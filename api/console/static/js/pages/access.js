/** Users, what they may do, and who changed it. */

import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, dialog, field, named, panel, table, time } from "../parts.js";
import { vhostField } from "./vhosts.js";

const TAGS = ["management", "policymaker", "monitoring", "administrator"];
const CHANGES = 30;

export function access() {
  const parts = [];
  const again = () => parts.forEach((part) => part.again());
  parts.push(
    panel({
      class: "bare",
      load: async (live, signal) => {
        const [users, permissions] = await Promise.all([
          ask(path("users"), { query: { columns: "name,tags" }, live, signal }),
          ask(path("permissions"), { live, signal }),
        ]);
        return users.map((user) => ({ ...user, permissions: permissions.filter((one) => one.user === user.name) }));
      },
      view: (users) =>
        table({
          caption: "Users",
          rows: users,
          key: (one) => one.name,
          columns: [
            { title: "User", cell: (one) => named(one.name) },
            { title: "Tags", cell: (one) => one.tags.join(", ") || h("span", { class: "muted" }, "none: cannot log in here") },
            { title: "May", cell: (one) => permissionsOf(one, again) },
            {
              title: h("span", { class: "unseen" }, "actions"),
              cell: (one) =>
                h(
                  "div",
                  { class: "buttons" },
                  action("Grant …", () => grant(one, again), { kind: "small" }),
                  action("Password, tags …", () => edit(one, again), { kind: "small" }),
                  action("Delete", () => remove(one.name, again), { kind: "small" }),
                ),
            },
          ],
        }),
    }),
    panel({
      title: "Who changed users and permissions",
      load: (live, signal) => ask(path("audit"), { query: { limit: CHANGES }, live, signal }),
      empty: "Nobody has changed anything yet.",
      view: ({ changes }) =>
        changes.length
          ? h(
              "ol",
              { class: "log plain-log" },
              changes.map((one) => h("li", { key: one.change }, h("span", { dir: "auto" }, one.action), h("small", {}, h("b", { dir: "auto" }, one.user), " ", time(new Date(one.at_ms).toISOString())))),
            )
          : null,
    }),
  );
  return {
    title: "Access",
    content: [h("div", { class: "heading" }, h("h1", {}, "Access"), action("New user", () => edit(null, again), { kind: "primary" })), parts],
  };
}

function permissionsOf(user, again) {
  if (!user.permissions.length) return h("span", { class: "muted" }, "nothing");
  return h(
    "ul",
    { class: "arguments" },
    user.permissions.map((one) =>
      h(
        "li",
        {},
        "in ",
        named(one.vhost),
        ": ",
        ["configure", "write", "read"].filter((operation) => one[operation]).map((operation, place) => [place ? ", " : "", `${operation} `, h("code", { dir: "auto" }, one[operation])]),
        " ",
        action("Revoke", () => revoke(one, again), { kind: "small" }),
      ),
    ),
  );
}

function edit(user, ondone) {
  const name = h("input", { value: user?.name ?? "", readonly: user !== null, required: true, autocomplete: "off", spellcheck: "false" });
  const password = h("input", { type: "password", required: true, autocomplete: "new-password" });
  const tags = TAGS.map((tag) => h("input", { type: "checkbox", value: tag, checked: user?.tags.includes(tag) }));
  dialog({
    title: user ? `User ${user.name}` : "New user",
    body: [
      field("Name", name),
      field("Password", password, user ? "their sessions end" : null),
      h("fieldset", {}, h("legend", {}, "Tags"), tags.map((box) => h("label", {}, box, " ", box.value))),
    ],
    confirm: user ? "Change" : "Create",
    work: async () => {
      const chosen = tags.filter((box) => box.checked).map((box) => box.value);
      await ask(path("users", name.value), { method: "PUT", body: { password: password.value, tags: chosen.join(",") } });
      ondone();
      return user ? "changed" : "created";
    },
  });
}

async function grant(user, ondone) {
  const vhost = await vhostField();
  const fields = ["configure", "write", "read"].map((operation) => [operation, h("input", { class: "mono", value: ".*", spellcheck: "false" })]);
  dialog({
    title: `Grant ${user.name} a permission`,
    body: [field("Vhost", vhost), fields.map(([operation, input]) => field(operation, input, "a regular expression on names; empty: none"))],
    confirm: "Grant",
    work: async () => {
      const body = Object.fromEntries(fields.map(([operation, input]) => [operation, input.value]));
      await ask(path("permissions", vhost.value, user.name), { method: "PUT", body });
      ondone();
      return "granted";
    },
  });
}

function revoke(permission, ondone) {
  dialog({
    title: `Revoke ${permission.user}'s permission`,
    body: h("p", {}, "In vhost ", h("b", { dir: "auto" }, permission.vhost), ". It holds at once, also for those who are logged in."),
    confirm: "Revoke",
    kind: "danger",
    work: async () => {
      await ask(path("permissions", permission.vhost, permission.user), { method: "DELETE" });
      ondone();
      return "revoked";
    },
  });
}

function remove(name, ondone) {
  dialog({
    title: `Delete user ${name}`,
    body: h("p", {}, "Their permissions and sessions end with them."),
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      await ask(path("users", name), { method: "DELETE" });
      ondone();
      return "deleted";
    },
  });
}
