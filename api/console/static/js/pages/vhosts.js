/** The choice of a vhost. */

import { go } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";

/** A select of the vhosts that the user sees, or a text field where there are very many. */
export async function vhostField(chosen = "/") {
  const found = await ask(path("vhosts"), { query: { page: 1, page_size: 100, columns: "name" } });
  if (found.filtered_count > found.items.length) return h("input", { value: chosen, required: true });
  const select = h("select", {}, found.items.map((one) => h("option", { value: one.name }, one.name)));
  select.value = chosen;
  return select;
}

/** The same for a page about one vhost, at [place, vhost]: another choice leads to that vhost's page. */
export function vhostChoice(place, vhost) {
  const choice = h("span", {});
  choice.isOwn = true;
  vhostField(vhost).then((field) => {
    field.setAttribute("aria-label", "Vhost");
    field.addEventListener("change", () => go([place, field.value]));
    choice.replaceChildren(field);
  });
  return choice;
}
