/** What a vhost's topology is made of: the pages that belong together. */

import { to } from "../address.js";
import { h } from "../dom.js";

const PAGES = [
  ["topology", "Graph"],
  ["diverts", "Diverts"],
  ["policies", "Policies"],
  ["lint", "Lint"],
  ["apply", "Apply a document"],
];

export function sections(vhost, place) {
  return h(
    "nav",
    { class: "sections", "aria-label": "parts of the topology" },
    PAGES.map(([name, text]) => h("a", { href: to([name, vhost]), "aria-current": name === place ? "page" : null }, text)),
    h("a", { href: to(["vhosts"]), "aria-current": place === "vhosts" ? "page" : null }, "Vhosts"),
  );
}
