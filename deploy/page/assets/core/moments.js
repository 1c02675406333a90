// Times: local or UTC by the user's choice, the other one on hover; relative ones move on by themselves.

import { h } from "./view.js";

let skew = 0;
let zone = remembered();

function remembered() {
  try {
    return localStorage.getItem("penstock.clock") === "utc" ? "utc" : "local";
  } catch {
    return "local";
  }
}

/** Sets the difference between the server's clock and this one. text: the server's time. */
export function setServerTime(text) {
  const at = Date.parse(text);
  if (Number.isFinite(at)) skew = at - Date.now();
}

/** Returns the server's present time in milliseconds. */
export const now = () => Date.now() + skew;

/** Returns `local` or `utc`. */
export const chosenZone = () => zone;

/** Chooses the zone for every time on the page. */
export function chooseZone(chosen) {
  zone = chosen;
  try {
    localStorage.setItem("penstock.clock", chosen);
  } catch {
    // Storage may be forbidden; the choice lasts until the next reload.
  }
  refresh();
}

const formats = new Map();
function format(options, utc) {
  const key = JSON.stringify([options, utc]);
  if (!formats.has(key)) {
    const zoned = utc ? { ...options, timeZone: "UTC" } : options;
    formats.set(key, new Intl.DateTimeFormat(undefined, zoned));
  }
  return formats.get(key);
}

const DAY = { year: "numeric", month: "short", day: "numeric" };
const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };

/** Returns the full text of a moment (milliseconds). */
export function full(at, utc = zone === "utc") {
  return `${format({ ...DAY, ...CLOCK }, utc).format(at)}${utc ? " UTC" : ""}`;
}

/** Returns the time of day, with the day when it is not today's. seconds: false leaves them out. */
export function clock(at, { seconds = true } = {}) {
  const utc = zone === "utc";
  const today = format(DAY, utc).format(at) === format(DAY, utc).format(now());
  const { second, ...minutes } = CLOCK;
  const time = format(seconds ? { ...minutes, second } : minutes, utc).format(at);
  return today ? time : `${format({ month: "short", day: "numeric" }, utc).format(at)}, ${time}`;
}

const UNITS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Returns a span of seconds in its largest unit, or in two: `45 s`, `3 min`, `2 h 5 min`. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "unknown";
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  const index = UNITS.findIndex(([size]) => seconds >= size);
  const [size, unit] = UNITS[index];
  const count = Math.floor(seconds / size);
  const next = UNITS[index + 1];
  const rest = next && count < 10 ? Math.floor((seconds - count * size) / next[0]) : 0;
  return `${count} ${unit}${rest && size > 60 ? ` ${rest} ${next[1]}` : ""}`;
}

/** Returns `3 min ago` or `in 2 h`. */
function relative(at) {
  const seconds = Math.round((now() - at) / 1000);
  if (Math.abs(seconds) < 2) return "now";
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

/** Returns a `<time>` of a text of RFC 3339. style: `relative`, `clock` or `full`. Null gives a dash. */
export function moment(text, style = "relative") {
  const at = text ? Date.parse(text) : NaN;
  if (!Number.isFinite(at)) return h("span", { class: "none" }, text || "–");
  const node = h("time", { datetime: text, data: { style } });
  show(node);
  return node;
}

function show(node) {
  const at = Date.parse(node.dateTime);
  const text = { relative, clock, full }[node.dataset.style](at);
  if (node.textContent !== text) node.textContent = text;
  const hover = zone === "utc" ? full(at, true) : `${full(at, true)} · ${full(at, false)} local`;
  if (node.title !== hover) node.title = hover;
}

function refresh() {
  for (const node of document.querySelectorAll("time[data-style]")) show(node);
}

setInterval(() => document.hidden || refresh(), 1000);
