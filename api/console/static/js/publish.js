/** Publishing a message to an exchange, or through the default one to a queue. */

import { ask, path } from "./api.js";
import { h } from "./dom.js";
import { action, DEFAULT_EXCHANGE, dialog, field, state } from "./parts.js";
import { read } from "./written.js";

/** A button that opens the form; key: what a queue is called, whose messages come through the default exchange. */
export function publishing({ vhost, exchange, key, onpublished = () => {} }) {
  return action("Publish …", () => publish(vhost, exchange, key, onpublished));
}

function publish(vhost, exchange, fixed, onpublished) {
  const key = h("input", { class: "mono", value: fixed ?? "", readonly: fixed !== undefined, spellcheck: "false" });
  const headers = h("textarea", { class: "mono", rows: 3, spellcheck: "false", placeholder: '{"carrier": "UA", "dep_delay": 75}' });
  const properties = h("textarea", { class: "mono", rows: 2, spellcheck: "false", placeholder: '{"content_type": "application/json", "priority": 4}' });
  const body = h("textarea", { class: "mono", rows: 4, spellcheck: "false" });
  const encoding = h("select", {}, h("option", { value: "string" }, "text"), h("option", { value: "base64" }, "Base64"));
  dialog({
    title: fixed === undefined ? `Publish to ${exchange || "the default exchange"}` : `Publish to queue ${fixed}`,
    body: [
      field("Routing key", key, fixed === undefined ? null : "through the default exchange, which leads to the queue that the key names"),
      field("Headers", headers, "a JSON object; filters know them as properties"),
      field("Properties", properties, "a JSON object"),
      field("Body", body),
      field("The body is", encoding),
    ],
    confirm: "Publish",
    work: async () => {
      const stated = { ...read(properties.value), ...(headers.value.trim() ? { headers: read(headers.value) } : {}) };
      const done = await ask(path("exchanges", vhost, exchange || DEFAULT_EXCHANGE, "publish"), {
        method: "POST",
        body: { routing_key: key.value, properties: stated, payload: body.value, payload_encoding: encoding.value },
      });
      onpublished();
      return done.routed
        ? h("p", {}, state("good", "Published: it is in a queue."))
        : h("p", {}, state("warn", "Published, and it reached no queue: it is among the unroutable messages."));
    },
  });
}
