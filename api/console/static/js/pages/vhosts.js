/** The choice of a vhost. */

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
