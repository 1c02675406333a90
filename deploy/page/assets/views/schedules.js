// Schedules on one time line.

import { get, objectParts, path } from "../core/api.js";
import { announce } from "../core/announce.js";
import { moment, now } from "../core/moments.js";
import { address, go } from "../core/router.js";
import { h, replace } from "../core/view.js";
import { failure, heading, loading, throttled } from "../parts/frames.js";
import { Lane, LaneAxis } from "../parts/lanes.js";
import { objectLink, rowKey } from "../parts/rows.js";
import { badge, toneShape } from "../parts/tone.js";

const KINDS = ["cronjobs.batch", "scheduledjobs.penstock.dev", "cronjobs.batch.volcano.sh", "jobflows.flow.volcano.sh"];
const LIMIT = 25;
const HOUR = 3_600_000;
const RANGES = [
  ["1h", "1 hour", HOUR],
  ["6h", "6 hours", 6 * HOUR],
  ["24h", "1 day", 24 * HOUR],
  ["7d", "7 days", 168 * HOUR],
];
const AT_ONCE = 4;

/** Returns the span of a time line: a third of the past is ahead. */
export const spanOf = (past) => ({ from: now() - past, to: now() + past / 3 });

/** Returns the call of an object's runs within a span. */
export function runsPath(object, { from, to }) {
  const text = (at) => new Date(at).toISOString();
  return path(["objects", ...objectParts(object), "runs"], { from: text(from), to: text(to) });
}

/** Returns the control that chooses how much of the past is shown. */
export function rangeControl(chosen, choose) {
  return h(
    "div",
    { class: "choice", role: "group", "aria-label": "Shown past" },
    RANGES.map(([key, word]) => h("button", { type: "button", "aria-pressed": String(key === chosen), on: { click: () => choose(key) } }, word)),
  );
}

/** Returns the milliseconds of a range. */
export const rangeOf = (key) => (RANGES.find(([each]) => each === key) ?? RANGES[2])[2];

export async function schedules({ main, query, signal, watch }) {
  const range = RANGES.some(([key]) => key === query.get("past")) ? query.get("past") : "24h";
  const place = h("div");
  const to = (past) => go(address(["schedules"], { past }));
  replace(main, h("div", { class: "view-head" }, heading("Schedules"), rangeControl(range, to)), legend(), place);
  const page = await loading(place, () => get(path(["objects"], { kind: KINDS, sort: "name", limit: LIMIT, after: query.get("after") }), { signal }));
  if (page === undefined) return;
  // A flow without a schedule has no next run.
  const rows = page.items.filter((row) => row.kind !== KINDS[3] || row.next);
  if (!rows.length) {
    replace(place, h("p", { class: "nothing" }, "There is no schedule."));
    return;
  }
  const axis = new LaneAxis();
  const lanes = new Map(rows.map((row) => [rowKey(row), lane(row, signal)]));
  replace(
    place,
    h("div", { class: "lanes" }, h("div", { class: "lane axis-row" }, h("span"), axis.node), h("ul", { class: "lane-list" }, [...lanes.values()].map(({ node }) => node))),
    page.next && h("nav", { class: "pages", "aria-label": "Pages" }, h("a", { class: "button", href: address(["schedules"], { past: range, after: page.next }) }, "Next")),
  );
  const shift = () => {
    const span = spanOf(rangeOf(range));
    axis.update(span);
    return span;
  };
  const load = async () => {
    const span = shift();
    const waiting = [...lanes.values()];
    const worker = async () => {
      for (let each = waiting.shift(); each; each = waiting.shift()) await each.load(span);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  };
  await load();
  announce(`${rows.length} schedules`);
  const again = throttled(load, 5000, signal);
  const timer = setInterval(() => document.hidden || load(), 30_000);
  signal.addEventListener("abort", () => clearInterval(timer));
  watch(
    KINDS.map((id) => `objects:${id}`),
    {
      row: (row) => {
        const each = lanes.get(rowKey(row));
        each?.show(row);
        if (each) again();
      },
      resync: load,
    },
  );
}

function lane(row, signal) {
  const track = new Lane(row.name);
  const head = h("div", { class: "lane-head" });
  const trouble = h("div");
  const show = (given) => replace(head, objectLink(given), h("span", { class: "lane-state" }, badge(given.tone, given.phase), given.next ? h("span", { class: "soft" }, "next ", moment(given.next)) : null));
  show(row);
  return {
    node: h("li", { class: "lane" }, head, h("div", {}, track.node, trouble)),
    show,
    async load(span) {
      try {
        track.update(await get(runsPath(row, span), { signal }), span);
        replace(trouble);
      } catch (error) {
        if (error.name !== "AbortError") replace(trouble, failure(error));
      }
    },
  };
}

/** Returns what the shapes on a time line mean. */
export function legend() {
  const entry = (tone, word) => h("li", {}, toneShape(tone), ` ${word}`);
  return h(
    "ul",
    { class: "lane-legend" },
    entry("ok", "succeeded"),
    entry("error", "failed"),
    entry("active", "running"),
    entry("warning", "missed"),
    h("li", {}, h("span", { class: "coming-swatch", "aria-hidden": "true" }), " ahead"),
  );
}
