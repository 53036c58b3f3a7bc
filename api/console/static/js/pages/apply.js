/** A document that changes the topology: its plan, what is wrong with it, and applying it; and the topology as a document. */

import { go, to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { applyDialog, doesSomething, fromAddress, inAddress, planOf, planView, problemView } from "../changes.js";
import { h } from "../dom.js";
import { download, fileButton, pointTo } from "../forms.js";
import { action, field, panel } from "../parts.js";
import { sections } from "./sections.js";
import { vhostChoice } from "./vhosts.js";

const EXAMPLE = `# definitions, or a change: delete, add, change, definitions
queues:
  - name: late
bindings:
  - {source: flights, destination: late, routing_key: "#"}`;

export function applyDocument([vhost = "/"], query, session) {
  const text = fromAddress(query);
  const area = h("textarea", { rows: 14, class: "mono", spellcheck: "false", placeholder: EXAMPLE, value: text ?? "", required: true });
  const prune = h("input", { type: "checkbox", checked: query.prune === "true" });
  const show = (document_) => go(["apply", vhost], { ...inAddress(document_), prune: prune.checked ? "true" : undefined });
  const form = h(
    "form",
    { class: "panel written", onsubmit: (event) => (event.preventDefault(), show(area.value)) },
    field("Document", area, "definitions or a change, in JSON or YAML; objects that state no vhost are of this one"),
    h("label", {}, prune, " delete what the document does not name, in the vhosts that it names"),
    h(
      "div",
      { class: "actions" },
      h("button", { class: "button primary" }, "Plan"),
      fileButton("Choose a file …", (content) => {
        area.value = content;
        show(content);
      }),
      session.roles.includes("administrator") ? action("Download the vhost", () => exported(vhost), { type: "button" }) : null,
    ),
  );
  const parts = [h("div", { class: "heading" }, h("h1", {}, "Apply a document"), vhostChoice("apply", vhost)), sections(vhost, "apply"), form];
  if (text !== null) parts.push(planned(vhost, text, query.prune === "true", area, session));
  else if (query.kept) parts.push(h("p", { class: "empty" }, "The document of this address was too long to stand in it, and is gone with the page that held it. Choose it again."));
  return { title: "Apply a document", content: parts };
}

function planned(vhost, text, prune, area, session) {
  return panel({
    title: "What it would do",
    every: 0,
    load: async (live, signal) => {
      try {
        return { plan: await planOf(vhost, text, { prune, signal }) };
      } catch (problem) {
        if (!(problem instanceof Problem) || problem.isForbidden || problem.status === 404) throw problem;
        return { problem };
      }
    },
    view: ({ plan, problem }) =>
      problem
        ? problemView(problem, (line, column) => pointTo(area, line, column))
        : [
            planView(plan),
            h(
              "div",
              { class: "actions" },
              doesSomething(plan)
                ? action("Apply …", () => applyDialog({ vhost, text, prune, plan, session }), { kind: "primary" })
                : null,
              doesSomething(plan) ? h("a", { class: "button", href: to(["replay", vhost], { ...inAddress(text), prune: prune ? "true" : undefined }) }, "Try it on the newest messages") : null,
            ),
            h("p", { class: "muted" }, `Compared with version ${plan.base} of the topology.`),
          ],
  });
}

async function exported(vhost) {
  const found = await ask(path("definitions", vhost));
  download(`${vhost.replaceAll(/[^\w.-]+/g, "_").replace(/^_$/, "default")}.json`, JSON.stringify(found, null, 2) + "\n");
}
