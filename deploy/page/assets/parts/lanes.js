// Runs of schedules on one time line: those of the past with the tone of their end, the coming ones hollow.

import { chosenZone, clock, full, now } from "../core/moments.js";
import { timeTicks } from "../core/scales.js";
import { h, replace, s } from "../core/view.js";
import { counted } from "../core/amounts.js";

const TONE_OF_STATE = { Succeeded: "ok", Complete: "ok", Failed: "error", Running: "active", Missed: "warning", Waiting: "waiting", Skipped: "paused", Deleted: "paused", Retrying: "warning" };
const TALL = 26;

/** Returns the tone of a run's state. */
export const runTone = (state) => TONE_OF_STATE[state] ?? "waiting";

/** Returns the sentence that says what a lane shows. */
function lanesSentence({ past, next }) {
  const counts = new Map();
  for (const { state } of past) counts.set(state, (counts.get(state) ?? 0) + 1);
  const ended = [...counts].map(([state, count]) => `${count} ${state.toLowerCase()}`).join(", ");
  const coming = next.length ? `next at ${full(Date.parse(next[0]))}` : "none ahead";
  return `${counted(past.length, "run")}${ended ? `: ${ended}` : ""}; ${coming}`;
}

/** The time line of one schedule. span: {from, to} in milliseconds. */
export class Lane {
  constructor(label) {
    this.label = label;
    this.runs = { past: [], next: [] };
    this.span = { from: 0, to: 1 };
    this.drawing = s("svg", { class: "lane-drawing", role: "img", height: TALL });
    this.node = h("div", { class: "lane-track" }, this.drawing);
    new ResizeObserver(() => this.paint()).observe(this.node);
  }

  update(runs, span) {
    this.runs = runs;
    this.span = span;
    this.paint();
  }

  paint() {
    const width = this.node.clientWidth;
    if (!width) return;
    const { from, to } = this.span;
    const x = (at) => ((at - from) / (to - from)) * width;
    const within = (at) => at >= from && at <= to;
    const here = x(now());
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${TALL}`);
    this.drawing.setAttribute("aria-label", `${this.label}: ${lanesSentence(this.runs)}`);
    replace(
      this.drawing,
      s("rect", { class: "ahead", x: here, y: 0, width: Math.max(0, width - here), height: TALL }),
      s("line", { class: "rail", x1: 0, x2: width, y1: TALL / 2, y2: TALL / 2 }),
      this.runs.past.map((run) => pastRun(run, x, within, width)),
      this.runs.next
        .map((text) => Date.parse(text))
        .filter(within)
        .map((at) => s("circle", { class: "coming", cx: x(at), cy: TALL / 2, r: 4 }, s("title", {}, `Next: ${full(at)}`))),
      s("line", { class: "present", x1: here, x2: here, y1: 0, y2: TALL }),
    );
  }
}

function pastRun(run, x, within, width) {
  const at = Date.parse(run.at);
  const begin = Date.parse(run.started ?? run.at);
  const end = run.ended ? Date.parse(run.ended) : run.state === "Running" ? now() : begin;
  if (!within(at) && !within(end)) return null;
  const tone = runTone(run.state);
  const left = Math.max(0, x(begin));
  const long = Math.min(width, x(end)) - left;
  const words = [`${full(at)}: ${run.state}`, run.attempts > 1 && counted(run.attempts, "attempt"), run.reason].filter(Boolean).join(", ");
  return s("g", { class: `run tone-${tone}` }, s("title", {}, words), long > 9 ? s("rect", { x: left, y: TALL / 2 - 5, width: long, height: 10, rx: 3 }) : runShape(tone, x(at)));
}

/** A run that is too short for its length: a shape per tone. */
function runShape(tone, x) {
  const y = TALL / 2;
  if (tone === "error") return s("path", { d: `M${x - 5} ${y - 5}h10v10h-10z` });
  if (tone === "warning") return s("path", { d: `M${x} ${y - 6}l6 11h-12z` });
  if (tone === "active") return s("path", { d: `M${x - 4} ${y - 6}l9 6-9 6z` });
  return s("rect", { x: x - 2, y: y - 7, width: 4, height: 14, rx: 1.5 });
}

/** The axis of lanes, for eyes: a screen reader has the sentences. span: as of a lane. */
export class LaneAxis {
  constructor() {
    this.node = h("div", { class: "lane-axis", "aria-hidden": "true" });
    new ResizeObserver(() => this.paint()).observe(this.node);
  }

  update(span) {
    this.span = span;
    this.paint();
  }

  paint() {
    const width = this.node.clientWidth;
    if (!width || !this.span) return;
    const { from, to } = this.span;
    const offset = chosenZone() === "utc" ? 0 : new Date(to).getTimezoneOffset();
    const ticks = timeTicks(from, to, Math.floor(width / 110), offset);
    // No text reaches over an end, or into the word that marks the present.
    const x = (at) => ((at - from) / (to - from)) * width;
    const clear = (at) => x(at) > 45 && x(at) < width - 45 && Math.abs(x(at) - x(now())) > 62;
    const place = (at) => `${(((at - from) / (to - from)) * 100).toFixed(2)}%`;
    replace(
      this.node,
      ticks.filter(clear).map((at) => h("span", { style: { left: place(at) } }, clock(at, { seconds: false }))),
      h("span", { class: "now", style: { left: place(now()) } }, "now"),
    );
  }
}
