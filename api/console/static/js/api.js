/**
 * Requests to the REST API, as the session's user. What it refuses becomes a Problem in the API's own words.
 */

/** Why a request was refused: `status` of HTTP (0: no answer came), and what the API says about it. */
export class Problem extends Error {
  constructor(status, reason, body = {}) {
    super(reason);
    this.status = status;
    this.body = body;
  }

  /** Whether it is a right that is missing, not a mistake. */
  get isForbidden() {
    return this.status === 401 || this.status === 403;
  }
}

/** Where the page logs in and out. */
export const SESSION = "console/session";

let onLoggedOut = () => {};

/** What is called when the session has ended. */
export function whenLoggedOut(listener) {
  onLoggedOut = listener;
}

/** A path of the API: segments are percent-encoded one by one. */
export function path(...segments) {
  return "api/" + segments.map(encodeURIComponent).join("/");
}

/** Ask the API. `live` marks what nobody has asked for: it does not keep the session alive. `text` is a body as it is. */
export async function ask(url, { method = "GET", query = {}, body, text: document_, live = false, signal } = {}) {
  const stated = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = stated.length ? "?" + new URLSearchParams(stated) : "";
  let answer;
  try {
    answer = await fetch(url + text, {
      method,
      signal,
      credentials: "same-origin",
      headers: { "x-bindery-console": live ? "live" : "asked" },
      body: document_ ?? (body === undefined ? undefined : JSON.stringify(body)),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service does not answer. It may be restarting; this page tries again.");
  }
  const content = await answer.text();
  let data = null;
  try {
    data = content ? JSON.parse(content) : null;
  } catch {
    throw new Problem(answer.status, `The service answered ${answer.status} with something that is no JSON.`);
  }
  if (answer.ok) return data;
  if (answer.status === 401 && !content) onLoggedOut();
  throw new Problem(answer.status, reason(data) ?? `The service answered ${answer.status}.`, data ?? {});
}

function reason(data) {
  if (data === null || data.reason === undefined) return null;
  return typeof data.reason === "string" ? data.reason : JSON.stringify(data.reason);
}
