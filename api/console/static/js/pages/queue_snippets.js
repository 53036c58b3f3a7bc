/** How a queue is read elsewhere: texts to paste, with the filter and the state of the address in them. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { code, fact, panel } from "../parts.js";
import { askedOf } from "./past.js";

export function readElsewhere(vhost, name, query) {
  const body = { ...askedOf(query), ...(query.filter ? { filter: query.filter, dialect: query.dialect ?? "jms" } : {}) };
  return panel({
    title: "Read it elsewhere",
    every: 0,
    load: (live, signal) => ask(path("queues", vhost, name, "snippets"), { method: "POST", body, live, signal }),
    view: ({ location, snippets }) => {
      const shown = snippets.find((one) => one.title === query.language) ?? snippets[0];
      return [
        h("dl", { class: "facts" }, fact("The table", h("code", { dir: "auto" }, location)), query.filter ? fact("With the filter", h("code", { dir: "auto" }, query.filter)) : null),
        h(
          "nav",
          { class: "tabs", "aria-label": "languages" },
          snippets.map(({ title }) => h("a", { href: to(["queues", vhost, name], { ...query, language: title }), "aria-current": title === shown.title ? "true" : null }, title)),
        ),
        code(shown.code, { copy: true }),
        shown.note ? h("p", { class: "muted" }, shown.note) : null,
      ];
    },
  });
}
