/** The login. */

import { ask, Problem, SESSION } from "../api.js";
import { fill, h } from "../dom.js";
import { field, notice } from "../parts.js";

/** A form that calls `onbegun(session)`; `why` says why it is shown. */
export function login(why, onbegun) {
  const name = h("input", { name: "username", autocomplete: "username", required: true, autofocus: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const trouble = h("div", {}, why ? h("div", { class: "notice quiet", role: "note" }, why) : null);

  async function submit(event) {
    event.preventDefault();
    const button = event.currentTarget.querySelector("button");
    button.disabled = true;
    try {
      onbegun(await ask(SESSION, { method: "POST", body: { name: name.value, password: password.value } }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      password.value = "";
      fill(trouble, notice(error.status === 401 ? new Problem(400, loginWords(error.message)) : error));
      password.focus();
    } finally {
      button.disabled = false;
    }
  }

  return h(
    "main",
    { class: "login" },
    h(
      "form",
      { class: "login", onsubmit: submit },
      h("h1", {}, "Bindery"),
      trouble,
      field("Name", name),
      field("Password", password),
      h("button", { class: "button primary" }, "Log in"),
    ),
  );
}

function loginWords(reason) {
  return reason === "Login failed" ? "Name or password is wrong." : reason;
}
