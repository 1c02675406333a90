// One object: its state and why, its work over time with the decisions, what belongs to it, and its manifest.

import { get, objectParts, path } from "../core/api.js";
import { announce } from "../core/announce.js";
import { kindName, kindsKnown, loadKinds } from "../core/kinds.js";
import { moment } from "../core/moments.js";
import { address } from "../core/router.js";
import { h, keyed, replace } from "../core/view.js";
import { actionBar } from "../parts/actions.js";
import { decisionBody, decisionItem, decisionKey } from "../parts/decisions.js";
import { awaited, failure, heading, pairs, section, throttled } from "../parts/frames.js";
import { graph } from "../parts/graph.js";
import { Plot } from "../parts/plot.js";
import { ageColumn, messageColumn, numbers, numbersColumn, objectColumn, objectLink, phaseColumn, rowKey } from "../parts/rows.js";
import { table } from "../parts/table.js";
import { badge } from "../parts/tone.js";
import { deliveries } from "./deliveries.js";
import { runs } from "./runs.js";

const MINUTES = 15;
/** The newest Events that are shown. */
const SHOWN_EVENTS = 20;
const WITH_SERIES = new Set(["scaledjobs.keda.sh", "scaledobjects.keda.sh", "eventjobs.penstock.dev"]);
const WITH_RUNS = new Set(["cronjobs.batch", "scheduledjobs.penstock.dev", "cronjobs.batch.volcano.sh"]);
const WITH_GRAPH = new Set(["jobflows.flow.volcano.sh", "jobs.batch.volcano.sh"]);
const WITH_DELIVERIES = new Set(["eventjobs.penstock.dev"]);

export async function object({ main, parts: [kind, place, name], signal, watch }) {
  const asked = { kind, namespace: place === "-" ? "" : place, name };
  const own = (...more) => path(["objects", ...objectParts(asked), ...more]);
  const frame = h("div");
  if (!kindsKnown()) await loadKinds(signal).catch(() => []);
  if (signal.aborted) return;
  const title = heading(name);
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: address(["objects"], { kind }) }, kindName(kind)), asked.namespace && [" in ", h("a", { href: address(["objects"], { kind, namespace: asked.namespace }) }, asked.namespace)]);
  const head = h("div", { class: "object-head" }, h("div", {}, crumbs, title));
  replace(main, head, frame);
  await awaited(frame, () => get(own(), { signal }), signal, (given) => show({ asked, own, head, frame, signal, watch }, given));
}

/** Shows an object that is known, and follows it. */
function show({ asked, own, head, frame, signal, watch }, given) {
  const { kind, name } = asked;
  const state = new State();
  const load = async () => {
    try {
      state.show(await get(own(), { signal }));
    } catch (error) {
      if (error.status === 404) state.gone();
    }
  };
  const again = throttled(load, 1500, signal);
  head.append(actionBar(asked, { signal, changed: again }));
  if (kind === "pods") head.querySelector(".actions").append(h("a", { class: "button", href: address(["log", asked.namespace, name]) }, "Log"));
  const context = { object: asked, own, signal };
  const extras = [
    WITH_SERIES.has(kind) && work(context),
    WITH_GRAPH.has(kind) && steps(context),
    (WITH_RUNS.has(kind) || (kind === "jobflows.flow.volcano.sh" && given.row.next)) && runs(context),
    WITH_DELIVERIES.has(kind) && deliveries(context),
    !WITH_SERIES.has(kind) && decided(context),
  ].filter(Boolean);
  replace(frame, state.top, extras.map(({ node }) => node), state.bottom);
  state.show(given);
  let phase = given.row.phase;
  watch([`object:${kind}/${asked.namespace || "-"}/${name}`], {
    row(row) {
      if (rowKey(row) === rowKey(asked)) {
        state.showRow(row);
        if (row.phase !== phase) announce(`${name}: ${row.phase}`);
        phase = row.phase;
      }
      again();
      for (const extra of extras) extra.changed?.(row);
    },
    gone: (other) => (rowKey(other) === rowKey(asked) ? state.gone() : again()),
    decision: (decision) => extras.forEach((extra) => extra.decision?.(decision)),
    point: (point) => extras.forEach((extra) => extra.point?.(point)),
    resync() {
      load();
      for (const extra of extras) extra.load();
    },
  });
  for (const extra of extras) extra.load();
}

/** The parts that every object has. */
class State {
  constructor() {
    this.now = h("div", { class: "now-box" });
    this.conditions = h("ul", { class: "conditions" });
    const columns = [objectColumn, phaseColumn, messageColumn, numbersColumn, ageColumn];
    this.children = table({ caption: "Objects that belong to it", columns, keyOf: rowKey });
    this.events = table({
      caption: "Events of the object",
      keyOf: ({ reason, message }) => `${reason} ${message}`,
      columns: [
        { label: "Last", class: "age", cell: ({ last }) => moment(last) },
        { label: "Reason", class: "reason", cell: ({ type, reason }) => badge(type === "Warning" ? "warning" : "ok", reason) },
        { label: "Message", class: "message", cell: ({ message, count }) => [message, count > 1 && h("span", { class: "soft" }, ` (${count} times)`)] },
      ],
    });
    this.manifest = h("pre", { class: "manifest", tabindex: "0", role: "region", "aria-label": "Manifest" });
    const conditions = section("Conditions", this.conditions);
    this.sections = { conditions, children: section("Belongs to it", this.children.node), events: section("Events", this.events.node) };
    const copy = h("button", { type: "button", class: "quiet", on: { click: () => navigator.clipboard?.writeText(this.manifest.textContent).then(() => announce("Copied")) } }, "Copy");
    const manifest = h("details", { class: "disclosure" }, h("summary", {}, h("h2", {}, "Manifest")), copy, this.manifest);
    this.top = h("div", { class: "object-top" }, this.now, conditions);
    this.bottom = h("div", {}, this.sections.children, this.sections.events, manifest);
  }

  show({ row, manifest, children, events }) {
    this.showRow(row);
    this.sections.children.hidden = !children.length;
    this.children.update(children);
    this.sections.events.hidden = !events.length;
    this.events.update(events.slice(0, SHOWN_EVENTS));
    if (this.manifest.textContent !== manifest) this.manifest.textContent = manifest;
  }

  showRow(row) {
    replace(
      this.now,
      h("p", { class: "phase-line" }, badge(row.tone, row.phase), numbers(row.numbers)),
      row.message && h("p", {}, row.message),
      pairs([
        ["Created", moment(row.created)],
        ["Next", row.next ? moment(row.next) : null],
        ["Last", row.last ? moment(row.last) : null],
        ["Belongs to", row.owner ? objectLink(row.owner, { withKind: true }) : null],
      ]),
    );
    this.sections.conditions.hidden = !row.conditions.length;
    keyed(this.conditions, row.conditions, ({ type }) => type, condition);
  }

  gone() {
    replace(this.now, h("p", { class: "failure", role: "alert" }, "The object is gone. What follows is its last known state."));
  }
}

/** Conditions that say something bad when they are true. */
const BAD = /Fail|Invalid|Pressure|Fallback|Unavailable|Full|Taken|Parked|Missed|Capped/;
const QUIET = /Paused|Suspend|Active/;

function condition({ type, status, reason, message, since }) {
  const good = (status === "True") !== BAD.test(type);
  const tone = status === "Unknown" ? "waiting" : QUIET.test(type) ? (status === "True" ? (type === "Active" ? "active" : "paused") : "ok") : good ? "ok" : "error";
  const value = { True: "yes", False: "no" }[status] ?? "unknown";
  return h(
    "li",
    {},
    h("p", {}, badge(tone, `${type}: ${value}`), reason && h("b", {}, reason), since && h("span", { class: "soft" }, moment(since))),
    message && h("p", { class: "soft" }, message),
  );
}

/** The plot with its decisions. */
function work({ own, signal }) {
  const panel = h("div", { class: "decision-panel", "aria-live": "polite" });
  const list = new DecisionList();
  const trouble = h("div");
  const choose = (decision) => replace(panel, h("p", {}, moment(decision.at, "full"), " ", h("b", {}, decision.why)), decisionBody(decision));
  const plot = new Plot({ label: "Work", minutes: MINUTES, chosen: choose });
  const node = h("div", {}, section("Work over time", trouble, plot.node, panel), list.node);
  const take = (decisions) => {
    plot.setDecisions(decisions);
    list.show(decisions);
  };
  return {
    node,
    async load() {
      try {
        const [series, decisions] = await Promise.all([get(`${own("series")}?minutes=${MINUTES}`, { signal }), get(own("decisions"), { signal })]);
        plot.setSeries(series);
        take(decisions);
        replace(trouble);
      } catch (error) {
        if (error.name !== "AbortError") replace(trouble, failure(error));
      }
    },
    point: (point) => plot.addPoint(point),
    decision: (decision) => take(list.merged(decision)),
  };
}

/** The decisions of an object without a plot. */
function decided({ own, signal }) {
  const list = new DecisionList();
  return {
    node: list.node,
    load: async () => list.show(await get(own("decisions"), { signal }).catch(() => [])),
    decision: (decision) => list.show(list.merged(decision)),
  };
}

/** Decisions that are kept on the page. */
const MOST = 50;

class DecisionList {
  constructor() {
    this.given = [];
    this.items = h("ol", { class: "decisions" });
    this.node = section("Decisions", this.items);
    this.node.hidden = true;
  }

  show(decisions) {
    this.given = decisions;
    keyed(this.items, decisions, decisionKey, decisionItem);
    this.node.hidden = !decisions.length;
  }

  /** Returns the decisions with a newer one; one that was repeated takes the place of the same one. */
  merged(decision) {
    const [newest, ...others] = this.given;
    const same = newest && newest.why === decision.why && decision.times > newest.times;
    return [decision, ...(same ? others : this.given.filter((each) => each.at !== decision.at))].slice(0, MOST);
  }
}

/** The graph of a flow, or of a Volcano Job's tasks. */
function steps({ object: { name }, own, signal }) {
  const drawing = graph(`Steps of ${name}`);
  const trouble = h("div");
  const load = async () => {
    try {
      drawing.update(await get(own("graph"), { signal }));
      replace(trouble);
    } catch (error) {
      if (error.name !== "AbortError") replace(trouble, failure(error));
    }
  };
  const again = throttled(load, 1000, signal);
  return { node: section("Steps", trouble, drawing.node), load, changed: again };
}
