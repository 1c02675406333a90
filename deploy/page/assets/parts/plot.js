// The plot of an object's work over time: lines of what waits, is pending and runs, bars of what was finished, and the
// decisions as buttons on the time line.

import { amount, compact } from "../core/amounts.js";
import { chosenZone, clock, full, now } from "../core/moments.js";
import { growth, timeTicks, wholeTicks } from "../core/scales.js";
import { h, keyed, replace, s } from "../core/view.js";
import { asTable } from "./frames.js";

const LINES = [
  ["waiting", "Waiting"],
  ["pending", "Pending"],
  ["running", "Running"],
];
const HEIGHT = 190;
const BARS = 44;
const GAP = 18;
const EDGE = { left: 44, right: 12, top: 10, bottom: 22 };

/** A plot of {at, waiting, pending, running, done}; `at` are texts of RFC 3339. */
export class Plot {
  /** minutes: the length of the time line. chosen: called with a decision that is looked at, or null. */
  constructor({ label, minutes, chosen }) {
    this.label = label;
    this.minutes = minutes;
    this.chosen = chosen;
    this.data = { at: [], waiting: [], pending: [], running: [], done: [] };
    this.decisions = [];
    this.drawing = s("svg", { class: "plot-drawing", role: "img", on: { pointermove: (event) => this.look(event), pointerleave: () => this.look(null) } });
    this.marks = h("div", { class: "marks", role: "toolbar", "aria-label": "Decisions on the time line", on: { keydown: (event) => this.walk(event) } });
    this.legend = h("div", { class: "legend" });
    this.rows = h("tbody");
    const head = ["Time", ...LINES.map(([, word]) => word), "Done"].map((text) => h("th", { scope: "col" }, text));
    this.table = asTable(
      "The figures as a table",
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures" }, h("table", {}, h("thead", {}, h("tr", {}, head)), this.rows)),
    );
    this.table.addEventListener("toggle", () => this.tabulate());
    this.canvas = h("div", { class: "plot-canvas" }, this.drawing, this.marks);
    this.node = h("figure", { class: "plot" }, this.legend, this.canvas, this.table);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** Shows a series. */
  setSeries(series) {
    this.data = { ...series, at: series.at.map((text) => Date.parse(text)) };
    this.draw();
  }

  /** Adds a point. */
  addPoint(point) {
    const at = Date.parse(point.at);
    if (!Number.isFinite(at) || at <= (this.data.at.at(-1) ?? 0)) return;
    for (const name of ["waiting", "pending", "running", "done"]) this.data[name] = [...this.data[name], point[name] ?? null];
    this.data.at = [...this.data.at, at];
    this.trim(at - this.minutes * 60_000);
    this.draw();
  }

  /** Shows decisions, in any order. */
  setDecisions(decisions) {
    this.decisions = [...decisions].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
    this.draw();
  }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (this.node.isConnected) this.paint();
    });
  }

  paint() {
    const width = this.canvas.clientWidth;
    if (width < 40) return;
    const to = Math.max(now(), this.data.at.at(-1) ?? 0);
    const from = to - this.minutes * 60_000;
    this.trim(from);
    const wide = width - EDGE.left - EDGE.right;
    const x = (at) => EDGE.left + ((at - from) / (to - from)) * wide;
    this.scale = { from, to, x, width };
    const most = Math.max(0, ...LINES.flatMap(([name]) => this.data[name].filter((value) => value !== null)));
    const ticks = wholeTicks(most);
    const bottom = EDGE.top + HEIGHT;
    const y = (value) => bottom - (value / ticks.at(-1)) * HEIGHT;
    const total = bottom + GAP + BARS + EDGE.bottom;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${total}`);
    this.drawing.setAttribute("height", total);
    this.drawing.setAttribute("aria-label", this.summary());
    this.cursor = s("line", { class: "cursor", y1: EDGE.top, y2: bottom + GAP + BARS, hidden: true });
    replace(
      this.drawing,
      this.axes({ ticks, y, x, from, to, width, bottom }),
      LINES.map(([name]) => this.line(name, x, y, bottom)),
      this.bars(x, bottom + GAP),
      this.cursor,
    );
    this.paintMarks(x, from, to);
    this.tell(this.data.at.length - 1);
    this.tabulate();
  }

  /** Drops the points that left the time line. */
  trim(from) {
    const old = this.data.at.findIndex((at) => at >= from);
    if (old === 0) return;
    const kept = old < 0 ? this.data.at.length : old;
    this.data = Object.fromEntries(Object.entries(this.data).map(([name, values]) => [name, values.slice(kept)]));
  }

  axes({ ticks, y, x, from, to, width, bottom }) {
    const offset = chosenZone() === "utc" ? 0 : new Date(to).getTimezoneOffset();
    const moments = timeTicks(from, to, Math.floor(width / 90), offset);
    const foot = bottom + GAP + BARS;
    return [
      ticks.map((tick) => [
        s("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick) }),
        s("text", { class: "tick", x: EDGE.left - 8, y: y(tick) + 4, "text-anchor": "end" }, compact(tick)),
      ]),
      moments.map((at) => [
        s("line", { class: "grid faint", x1: x(at), x2: x(at), y1: EDGE.top, y2: foot }),
        s("text", { class: "tick", x: x(at), y: foot + 16, "text-anchor": "middle" }, clock(at, { seconds: this.minutes < 5 })),
      ]),
      s("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: foot, y2: foot }),
      s("text", { class: "tick", x: EDGE.left - 8, y: foot - 2, "text-anchor": "end" }, "done"),
    ];
  }

  /** A line with gaps where the value is not known; the first one stands on an area. */
  line(name, x, y, bottom) {
    const runs = [[]];
    this.data[name].forEach((value, index) => {
      if (value === null || value === undefined) runs.push([]);
      else runs.at(-1).push([x(this.data.at[index]), y(value)]);
    });
    return runs
      .filter((run) => run.length)
      .map((run) => {
        const path = run.map(([px, py], index) => `${index ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
        const last = run.at(-1);
        return [
          name === "waiting" && s("path", { class: "area area-waiting", d: `${path}V${bottom}H${run[0][0].toFixed(1)}Z` }),
          s("path", { class: `line line-${name}`, d: run.length > 1 ? path : `${path}h0.1` }),
          s("circle", { class: `dot dot-${name}`, cx: last[0], cy: last[1], r: 2.5 }),
        ];
      });
  }

  bars(x, top) {
    const grown = growth(this.data.done);
    const most = Math.max(1, ...grown.filter((value) => value !== null));
    return grown.map((value, index) => {
      if (!value) return null;
      const left = x(this.data.at[index - 1]) + 0.5;
      const tall = Math.max(2, (value / most) * BARS);
      return s("rect", { class: "bar", x: left, width: Math.max(1, x(this.data.at[index]) - left - 0.5), y: top + BARS - tall, height: tall });
    });
  }

  paintMarks(x, from, to) {
    const seen = this.decisions.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) <= to);
    this.marks.hidden = seen.length === 0;
    keyed(this.marks, seen, (decision) => decision.at, (decision) => this.mark(decision));
    for (const button of this.marks.children) {
      button.style.setProperty("left", `${x(Date.parse(button.dataset.key)).toFixed(1)}px`);
    }
    const buttons = [...this.marks.children];
    const current = buttons.find((button) => button.tabIndex === 0) ?? buttons.at(-1);
    for (const button of buttons) button.tabIndex = button === current ? 0 : -1;
  }

  mark(decision) {
    const show = () => this.chosen(decision);
    const label = `Decision at ${full(Date.parse(decision.at))}: ${decision.why}`;
    return h("button", {
      type: "button",
      class: decision.failed ? "mark failed" : decision.did.length ? "mark acted" : "mark",
      tabindex: "-1",
      "aria-label": label,
      title: decision.why,
      on: { focus: show, pointerenter: show, click: show },
    });
  }

  /** Arrow keys walk from decision to decision. */
  walk(event) {
    const buttons = [...this.marks.children];
    const index = buttons.indexOf(event.target);
    const place = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (index < 0 || place === undefined || !buttons[place]) return;
    event.preventDefault();
    for (const button of buttons) button.tabIndex = -1;
    buttons[place].tabIndex = 0;
    buttons[place].focus();
  }

  /** Shows the values under the pointer. */
  look(event) {
    if (!this.scale || !this.data.at.length) return;
    if (!event) {
      this.cursor.setAttribute("hidden", "");
      this.tell(this.data.at.length - 1);
      return;
    }
    const px = event.clientX - this.drawing.getBoundingClientRect().left;
    const distance = (index) => Math.abs(this.scale.x(this.data.at[index]) - px);
    let nearest = 0;
    for (let index = 1; index < this.data.at.length; index += 1) if (distance(index) < distance(nearest)) nearest = index;
    const at = this.scale.x(this.data.at[nearest]);
    this.cursor.removeAttribute("hidden");
    this.cursor.setAttribute("x1", at);
    this.cursor.setAttribute("x2", at);
    this.tell(nearest, true);
  }

  /** Writes the values of one moment into the legend. */
  tell(index, looked = false) {
    const value = (name) => this.data[name][index] ?? null;
    const entry = (name, word, text) =>
      h("span", { class: "entry" }, h("span", { class: `swatch swatch-${name}`, "aria-hidden": "true" }), `${word} `, h("b", {}, text));
    replace(
      this.legend,
      LINES.map(([name, word]) => entry(name, word, amount(value(name)))),
      entry("done", "Done", amount(value("done"))),
      h("span", { class: "entry when" }, index < 0 ? "no figures yet" : looked ? clock(this.data.at[index]) : "latest"),
    );
  }

  /** The text alternative in one sentence. */
  summary() {
    if (!this.data.at.length) return `${this.label}: no figures yet`;
    const words = LINES.map(([name, word]) => {
      const given = this.data[name].filter((value) => value !== null);
      if (!given.length) return `${word.toLowerCase()} unknown`;
      return `${word.toLowerCase()} ${amount(this.data[name].at(-1))}, at most ${amount(Math.max(...given))}`;
    });
    return `${this.label}, the last ${this.minutes} minutes: ${words.join("; ")}; ${this.decisions.length} decisions`;
  }

  /** Fills the table while it is open: the newest first, at most sixty of them. */
  tabulate() {
    if (!this.table.open) return;
    const every = Math.ceil(this.data.at.length / 60);
    const indexes = this.data.at.map((_, index) => index).reverse().filter((index) => (this.data.at.length - 1 - index) % every === 0);
    replace(
      this.rows,
      indexes.map((index) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, clock(this.data.at[index])),
          [...LINES.map(([name]) => name), "done"].map((name) => h("td", {}, amount(this.data[name][index]))),
        ),
      ),
    );
  }
}
