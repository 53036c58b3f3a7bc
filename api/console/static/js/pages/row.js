/** One row of a queue: everything that it holds, and how it came here. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { announce, h } from "../dom.js";
import { action, code, fact, object, panel, table, time } from "../parts.js";
import { bytes, counted, number, spoken } from "../words.js";
import { argumentsOf } from "./bindings.js";
import { bannerOf, isPast, pastOf } from "./past.js";

/** Bytes of a body that are asked for at first: what a page can show without waiting. */
const BODY = 20_000;
const SECTIONS = {
  application_properties: "Headers",
  properties: "Properties",
  header: "Delivery",
  message_annotations: "Message annotations",
  delivery_annotations: "Delivery annotations",
  footer: "Footer",
};
const BINDINGS = { binding: "binding", divert: "divert", default: "default binding" };

export function row({ vhost, name, id, query, session }) {
  const where = path("queues", vhost, name, "rows", id);
  const asked = { table_version: query.version, at: query.at };
  return {
    title: `${id} · ${name}`,
    content: [
      h(
        "div",
        { class: "heading" },
        h(
          "h1",
          { dir: "auto" },
          h("a", { class: "up", href: to(["queues"]) }, "Queues"),
          " ",
          h("a", { class: "up", dir: "auto", href: to(["queues", vhost, name], pastOf(query)) }, name),
          " ",
          h("span", { class: "name" }, id),
        ),
      ),
      isPast(query) ? bannerOf(vhost, name, query) : null,
      panel({
        class: "bare",
        every: 0,
        load: (live, signal) => ask(where, { query: { ...asked, body: BODY }, live, signal }),
        view: (found) => shown(found, { vhost, name, id, where, asked, session }),
      }),
    ],
  };
}

function shown(found, { vhost, name, id, where, asked, session }) {
  const { body } = found;
  return [
    lineage(found, vhost, session),
    h(
      "div",
      { class: "actions" },
      h("a", { class: "button", href: to(["try"], { vhost, row: id }) }, "Try it again"),
      h("a", { class: "button", href: to(["queues", vhost, name], { at: `${found.stream}:${found.batch_id}` }) }, "The queue as of its batch"),
      body.bytes ? action(`Download the body (${bytes(body.bytes)})`, () => download(where, asked, name, id)) : null,
    ),
    part(
      "Body",
      body.form === "none" ? h("p", { class: "empty" }, "The message has no body.") : code(body.form === "binary" ? `0x${body.text}` : body.text, { copy: body.form !== "binary" }),
      body.shown < body.bytes ? h("p", { class: "muted" }, `The first ${bytes(body.shown)} of ${bytes(body.bytes)}; all of it can be downloaded.`) : null,
    ),
    Object.entries(SECTIONS)
      .filter(([section]) => found.sections[section])
      .map(([section, title]) => part(title, values(title, found.sections[section]))),
    part(`Bindings that matched, as they stood in version ${number(found.topology_version)}`, bindings(found.bindings, vhost)),
    part(
      "Other queues that hold it",
      found.queues.length
        ? h("p", {}, found.queues.map((queue, place) => [place ? ", " : "", h("a", { class: "name", dir: "auto", href: to(["queues", vhost, queue, "rows", found.row]) }, queue)]))
        : h("p", { class: "empty" }, "No copy is in another queue that you may read; consumers may have taken some."),
    ),
  ];
}

function part(title, ...content) {
  return [h("h2", {}, title), content];
}

function values(caption, section) {
  return table({
    caption,
    rows: Object.entries(section),
    key: ([name]) => name,
    columns: [
      { title: "Name", cell: ([name]) => h("code", { class: "name", dir: "auto" }, name) },
      { title: "Type", cell: ([, value]) => h("span", { class: "muted" }, value.type) },
      {
        title: "Value",
        cell: ([, value]) => [
          h("code", { class: "whole", dir: "auto" }, value.type === "binary" ? `0x${value.text}` : value.text),
          value.length ? h("small", {}, ` the first ${number(value.text.length)} of ${counted(value.length, "character")}`) : null,
        ],
      },
    ],
  });
}

function lineage(found, vhost, session) {
  const version = number(found.topology_version);
  return h(
    "dl",
    { class: "facts" },
    fact("Routed", time(found.routed_at)),
    fact("Stream", h("span", { dir: "auto" }, found.stream)),
    fact("Batch", number(found.batch_id)),
    fact("Number in it", number(found.seq)),
    fact("Topology version", session?.roles.includes("monitoring") ? h("a", { href: to(["history", String(found.topology_version)]) }, version) : version),
    fact("Exchange", object("exchange", vhost, found.exchange)),
    fact("Routing key", h("code", { dir: "auto" }, found.routing_key || "(empty)")),
    found.cc.length ? fact("Further keys (CC)", h("code", { dir: "auto" }, found.cc.join(", "))) : null,
    found.connection === null ? null : fact("Connection", h("span", { dir: "auto" }, found.connection)),
    Object.entries(found.source).map(([key, value]) => fact(`Source: ${spoken(key)}`, h("code", { dir: "auto" }, String(value)))),
  );
}

function bindings(links, vhost) {
  if (links === null) return h("p", { class: "empty" }, "That version of the topology cannot be read any more.");
  if (!links.length) return h("p", { class: "empty" }, "None is on record: the message was moved or copied here.");
  return table({
    caption: "Bindings that matched",
    rows: links,
    key: (one) => `${one.id} ${one.kind}`,
    columns: [
      { title: "Id", number: true, cell: (one) => number(one.id) },
      { title: "Kind", cell: (one) => `${BINDINGS[one.kind] ?? spoken(one.kind)}${one.name ? ` ${one.name}` : ""}` },
      { title: "From", cell: (one) => (one.source === undefined ? "(default exchange)" : object("exchange", vhost, one.source)) },
      { title: "To", cell: (one) => (one.destination === undefined ? "the queue that the key names" : object(one.destination_type, vhost, one.destination)) },
      { title: "Routing key", cell: (one) => (one.routing_key ? h("code", { dir: "auto" }, one.routing_key) : h("span", { class: "muted" }, "(empty)")) },
      { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
    ],
  });
}

/** The whole body as a file. It is asked for with the session, which a link alone does not carry. */
async function download(where, asked, name, id) {
  const { body } = await ask(where, { query: { ...asked, body: 2 ** 31, encoding: "base64" } });
  // a value that is no bytes comes as its text
  const content = body.form === "base64" ? Uint8Array.from(atob(body.text), (one) => one.charCodeAt(0)) : body.text;
  const address = URL.createObjectURL(new Blob([content]));
  const link = h("a", { href: address, download: `${name}-${id}`.replaceAll(/[^\w.-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  announce("downloaded");
}
