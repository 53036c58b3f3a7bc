/** What people write into forms. */

import { Problem } from "./api.js";

/** A JSON object that somebody has written; nothing is an empty one. Raises a Problem in words for anything else. */
export function read(text) {
  if (!text.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Wrong(`This is no JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Wrong("A JSON object is needed: {…}");
  return value;
}

/** What is wrong with what was written, found before it was sent. */
export class Wrong extends Problem {
  constructor(reason) {
    super(400, reason);
  }
}
