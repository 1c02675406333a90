// The runs of one schedule: a time line, and a table of the newest.

import { get } from "../core/api.js";
import { amount } from "../core/amounts.js";
import { moment, span } from "../core/moments.js";
import { h, replace } from "../core/view.js";
import { failure, sectionWith, throttled } from "../parts/frames.js";
import { Lane, LaneAxis, runTone } from "../parts/lanes.js";
import { objectLink } from "../parts/rows.js";
import { table } from "../parts/table.js";
import { badge } from "../parts/tone.js";
import { legend, rangeControl, rangeOf, runsPath, spanOf } from "./schedules.js";

const SHOWN = 20;
/** The kind of a schedule's runs, where it is no Job of Kubernetes. */
const JOBS_OF = { "cronjobs.batch.volcano.sh": "jobs.batch.volcano.sh", "jobflows.flow.volcano.sh": "jobflows.flow.volcano.sh" };

/** Returns the section of an object's runs. */
export function runs({ object, signal }) {
  let range = "24h";
  const track = new Lane(object.name);
  const axis = new LaneAxis();
  const trouble = h("div");
  const coming = h("p", { class: "soft" });
  const list = table({
    caption: "Newest runs",
    keyOf: ({ at, job }) => `${at} ${job}`,
    empty: "No run in this time.",
    columns: [
      { label: "Planned", class: "age", cell: ({ at }) => moment(at, "clock") },
      { label: "State", class: "phase", cell: ({ state }) => badge(runTone(state), state) },
      { label: "Job", class: "name", cell: ({ job }) => (job ? objectLink({ kind: JOBS_OF[object.kind] ?? "jobs.batch", namespace: object.namespace, name: job }) : "–") },
      { label: "Lasted", class: "amount", cell: lasted },
      { label: "Attempts", class: "amount", cell: ({ attempts }) => amount(attempts) },
      { label: "Why", class: "message", cell: ({ reason }) => reason },
    ],
  });
  const control = h("div");
  const choose = (key) => {
    range = key;
    replace(control, rangeControl(range, choose));
    control.querySelector("[aria-pressed=true]").focus();
    load();
  };
  replace(control, rangeControl(range, choose));
  const load = async () => {
    const shown = spanOf(rangeOf(range));
    try {
      const given = await get(runsPath(object, shown), { signal });
      axis.update(shown);
      track.update(given, shown);
      const newest = [...given.past].sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
      list.update(newest.slice(0, SHOWN));
      replace(coming, given.next.length ? ["Next: ", given.next.slice(0, 5).map((at, index) => [index ? ", " : "", moment(at, "clock")])] : "No run is ahead.");
      replace(trouble);
    } catch (error) {
      if (error.name !== "AbortError") replace(trouble, failure(error));
    }
  };
  const again = throttled(load, 2000, signal);
  const timer = setInterval(() => document.hidden || load(), 30_000);
  signal.addEventListener("abort", () => clearInterval(timer));
  const node = sectionWith("Runs", control, legend(), trouble, h("div", { class: "lane-single" }, axis.node, track.node), coming, list.node);
  return { node, load, changed: again };
}

function lasted({ started, ended }) {
  if (!started || !ended) return "–";
  return span((Date.parse(ended) - Date.parse(started)) / 1000);
}
