/**
 * The address of a state: `#/queues/%2F/late.majors?page=2`. Every state has one, so that it can be shared and left.
 */

/** The segments and the query of the present address. */
export function present() {
  const [place, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const segments = place === "" ? [] : place.split("/").map(decoded);
  return { segments, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A link to a state. */
export function to(segments, query = {}) {
  const stated = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return "#/" + segments.map(encodeURIComponent).join("/") + (stated.length ? "?" + new URLSearchParams(stated) : "");
}

/** Go to a state; `replace` does without a step back to the present one. */
export function go(segments, query = {}, { replace = false } = {}) {
  const address = to(segments, query);
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  window.dispatchEvent(new Event("hashchange"));
}
