/** Lists that the service sorts, filters and cuts into pages: every state of one is in its address. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { pages, panel, table } from "../parts.js";
import { counted } from "../words.js";

const SIZE = 50;
const DELAY = 250;

/**
 * A page with a list. resource: "queues"; noun: "queue"; columns as of a table; fields: what is asked for;
 * create: a button that makes one more; marks(items, live, signal): gives mark(item), what stands beside a name.
 */
export function listPage({ resource, noun, title, columns, fields, query, create, empty, marks }) {
  const page = Number(query.page ?? 1);
  const reverse = query.reverse === "true";
  const move = (changed, options) => go([resource], { ...query, page: undefined, ...changed }, options);
  let typing;
  const search = h("input", {
    type: "search",
    value: query.name ?? "",
    placeholder: `Find ${noun}s by name  ( / )`,
    "aria-label": `Find ${noun}s by name`,
    spellcheck: "false",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => move({ name: search.value }, { replace: true }), DELAY);
    },
  });
  // the page is drawn anew while somebody types: the cursor goes on where it was
  if (query.name !== undefined && document.activeElement?.type === "search") setTimeout(() => search.focus());
  const asked = {
    page,
    page_size: SIZE,
    name: query.name,
    sort: query.sort,
    sort_reverse: reverse || undefined,
    columns: fields.join(","),
  };
  return {
    title,
    content: [
      h("div", { class: "heading" }, h("h1", {}, title), search, create),
      panel({
        class: "bare",
        load: async (live, signal) => {
          const list = await ask(path(resource), { query: asked, live, signal });
          return { ...list, mark: marks ? await marks(list.items, live, signal) : () => null };
        },
        empty: query.name ? `No ${noun} has ${JSON.stringify(query.name)} in its name.` : empty,
        view: (list) =>
          list.items.length
            ? [
                table({
                  caption: title,
                  columns: marks ? [{ ...columns[0], cell: (one) => [columns[0].cell(one), list.mark(one)] }, ...columns.slice(1)] : columns,
                  rows: list.items,
                  key: (one) => `${one.vhost}\n${one.name}`,
                  sorted: {
                    by: query.sort,
                    reverse,
                    onsort: (sort, reversed) => move({ sort, reverse: reversed || undefined }),
                  },
                }),
                h(
                  "div",
                  { class: "foot" },
                  h("span", { class: "muted" }, counted(list.filtered_count, noun)),
                  pages(list, (number) => to([resource], { ...query, page: number })),
                ),
              ]
            : null,
      }),
    ],
  };
}
