/**
 * Numbers, sizes and times as people read them.
 */

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "always" });

/** 12,345 */
export function number(value) {
  return value === null || value === undefined ? "–" : WHOLE.format(value);
}

/** 1 message, 12,345 messages */
export function counted(value, noun, plural = noun + "s") {
  return `${number(value)} ${value === 1 ? noun : plural}`;
}

/** 1.4 MB */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const power = value < 1_000 ? 0 : Math.min(Math.floor(Math.log10(value) / 3), 4);
  return `${SHORT.format(value / 1_000 ** power)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** 850 ms, 2.4 s, 3 min */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 120_000) return `${SHORT.format(milliseconds / 1_000)} s`;
  return `${SHORT.format(milliseconds / 60_000)} min`;
}

/** 4 minutes */
export function lasting(seconds) {
  const [unit, size] = UNITS.find(([, length]) => seconds >= length) ?? UNITS.at(-1);
  return counted(Math.trunc(seconds / size), unit);
}

/** 4 minutes ago */
export function ago(time, now = Date.now()) {
  const seconds = (new Date(time).getTime() - now) / 1_000;
  if (Number.isNaN(seconds)) return "–";
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  return RELATIVE.format(Math.trunc(seconds / size), unit);
}

/** 12 /s, 0.4 /s */
export function perSecond(value) {
  if (value === null || value === undefined) return "–";
  return `${value < 10 ? SHORT.format(value) : WHOLE.format(Math.round(value))} /s`;
}

/** The whole time, in the reader's zone. */
export function exact(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : EXACT.format(date);
}

/** A text with its middle left out. */
export function shortened(text, length = 60) {
  const half = Math.floor((length - 1) / 2);
  return text.length <= length ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** A code of the product in words: no_binding is "no binding". */
export function spoken(code) {
  return code.replaceAll("_", " ");
}
