/**
 * The shell: login, navigation, one page at a time, keys that work everywhere.
 */

import { present, to } from "./address.js";
import { ask, Problem, SESSION, whenLoggedOut } from "./api.js";
import { fill, h } from "./dom.js";
import { dialog, notice } from "./parts.js";
import { access, user } from "./pages/access.js";
import { applyDocument } from "./pages/apply.js";
import { diverts } from "./pages/diverts.js";
import { exchange, exchanges } from "./pages/exchanges.js";
import { filters } from "./pages/filters.js";
import { history as versions, oneVersion } from "./pages/history.js";
import { job, jobs } from "./pages/jobs.js";
import { lint } from "./pages/lint.js";
import { login } from "./pages/login.js";
import { overview } from "./pages/overview.js";
import { policies } from "./pages/policies.js";
import { queue } from "./pages/queue.js";
import { queues } from "./pages/queues.js";
import { replay } from "./pages/replay.js";
import { topology } from "./pages/topology.js";
import { tryMessage } from "./pages/try.js";
import { unroutable } from "./pages/unroutable.js";
import { vhostList } from "./pages/vhost_list.js";

/** Pages by the first segment of their address; a page gets its other segments, the query and the session. */
const PAGES = {
  "": overview,
  topology,
  exchanges: either(exchanges, exchange, 2),
  queues: either(queues, queue, 2),
  try: tryMessage,
  filters,
  unroutable,
  diverts,
  policies,
  lint,
  apply: applyDocument,
  vhosts: vhostList,
  replay,
  jobs: either(jobs, job, 1),
  history: either(versions, oneVersion, 1),
  access: either(access, user, 1),
};
/** What the navigation offers: text, first segment, key behind `g`, and the role that sees it. */
const PLACES = [
  ["Overview", "", "o"],
  ["Topology", "topology", "t"],
  ["Exchanges", "exchanges", "e"],
  ["Queues", "queues", "q"],
  ["Try a message", "try", "m"],
  ["Filters", "filters", "f"],
  ["Unroutable", "unroutable", "u"],
  ["Replay", "replay", "r"],
  ["Jobs", "jobs", "j", "monitoring"],
  ["History", "history", "h", "monitoring"],
  ["Access", "access", "a", "administrator"],
];

/** A list, or one of its objects where the address names one, by so many segments. */
function either(list, one, length) {
  return (segments, ...more) => (segments.length >= length ? one : list)(segments, ...more);
}

function places() {
  return PLACES.filter(([, , , role]) => !role || session.roles.includes(role));
}

let session = null;
/** The place that is shown, without its query. */
let shown = null;
const main = h("main", { id: "main", tabindex: "-1" });
main.isOwn = true;

function shell() {
  const { segments } = present();
  return [
    h("a", { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), main.focus()) }, "Skip to content"),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: to([]) }, h("b", {}, "Bindery"), h("span", { dir: "auto" }, session.cluster_name)),
      h(
        "nav",
        { "aria-label": "pages" },
        places().map(([text, place]) =>
          h("a", { href: to(place ? [place] : []), "aria-current": (segments[0] ?? "") === place ? "page" : null }, text),
        ),
      ),
      h(
        "div",
        { class: "who" },
        themeChoice(),
        h("button", { class: "plain", "aria-label": "Keys", title: "Keys ( ? )", onclick: keys }, "?"),
        h("a", { href: "docs" }, "API"),
        h("span", { dir: "auto", title: session.tags.join(", ") }, session.name),
        h("button", { class: "plain", onclick: logOut }, "Log out"),
      ),
    ),
    main,
    h("div", { id: "said", class: "unseen", role: "status" }),
  ];
}

function themeChoice() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  return h(
    "select",
    {
      "aria-label": "Theme",
      onchange: (event) => document.dispatchEvent(new CustomEvent("theme", { detail: event.currentTarget.value })),
    },
    [["system", "System"], ["light", "Light"], ["dark", "Dark"]].map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
}

/** What the keys do. */
function keys() {
  const rows = [
    ...places().map(([text, , key]) => [["g", key], text]),
    [["/"], "Search a list, filter a queue"],
    [["Enter"], "Open what has the focus"],
    [["Esc"], "Close a dialog"],
    [["?"], "These keys"],
  ];
  dialog({
    title: "Keys",
    body: h("dl", { class: "keys" }, rows.map(([pressed, text]) => [h("dt", {}, pressed.map((key) => h("kbd", {}, key))), h("dd", {}, text)])),
  });
}

function leave() {
  for (const part of main.querySelectorAll(".panel")) part.leave?.();
}

function show() {
  if (!session) return;
  const { segments, query } = present();
  const page = PAGES[segments[0] ?? ""];
  leave();
  fill(document.body, shell());
  const { title, content } = page
    ? page(segments.slice(1), query, session)
    : { title: "Not found", content: h("p", { class: "empty" }, "There is no such page. ", h("a", { href: to([]) }, "To the overview")) };
  document.title = `${title} · Bindery`;
  const had = main.contains(document.activeElement);
  main.replaceChildren(...[content].flat(Infinity).filter(Boolean));
  // a page begins at its top, and what had the focus is gone with the page before
  if (shown !== segments.join("/")) window.scrollTo(0, 0);
  if (had && document.activeElement === document.body) main.focus({ preventScroll: true });
  shown = segments.join("/");
}

async function logOut() {
  await ask(SESSION, { method: "DELETE" });
  askForLogin();
}

function askForLogin(why) {
  if (session === null && document.querySelector("form.login")) return;
  session = null;
  leave();
  document.title = "Log in · Bindery";
  fill(
    document.body,
    login(why, (begun) => {
      session = begun;
      show();
    }),
  );
}

let waiting = false;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !session) return;
  if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
  if (waiting) {
    waiting = false;
    const place = places().find(([, , key]) => key === event.key);
    if (place) location.hash = to(place[1] ? [place[1]] : []);
    return;
  }
  if (event.key === "g") {
    waiting = true;
    setTimeout(() => (waiting = false), 1_500);
  } else if (event.key === "?") {
    keys();
  } else if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
}

window.addEventListener("hashchange", show);
document.addEventListener("keydown", onKey);
whenLoggedOut(() => askForLogin("The session has ended. Log in to go on where you were."));

try {
  session = await ask(SESSION);
  if (session) show();
  else askForLogin();
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  fill(document.body, h("main", {}, notice(error)));
}
