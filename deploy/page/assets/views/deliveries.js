// The deliveries of an EventJob: which event became which Job, and what to do with those that are parked.

import { get, path, objectParts } from "../core/api.js";
import { amount, counted } from "../core/amounts.js";
import { moment } from "../core/moments.js";
import { h, keyed, replace } from "../core/view.js";
import { question } from "../parts/actions.js";
import { ask } from "../parts/dialog.js";
import { failure, pairs, section, throttled } from "../parts/frames.js";
import { objectLink } from "../parts/rows.js";
import { signedIn } from "../parts/sign_in.js";
import { table } from "../parts/table.js";
import { badge } from "../parts/tone.js";

const STATES = ["waiting", "delayed", "running", "retrying", "done", "parked", "dropped"];
const TONE_OF_STATE = { waiting: "waiting", delayed: "waiting", running: "active", retrying: "warning", done: "ok", parked: "error", dropped: "paused" };
const LIMIT = 25;

/** Returns the section of an object's deliveries. */
export function deliveries({ object, signal }) {
  return new Deliveries(object, signal);
}

class Deliveries {
  constructor(object, signal) {
    this.object = object;
    this.signal = signal;
    this.state = "";
    this.type = "";
    this.cursors = [];
    this.chosen = new Set();
    this.counts = h("div", { class: "choice", role: "group", "aria-label": "State of the deliveries" });
    this.trouble = h("div");
    this.bulk = h("div", { class: "bulk", role: "group", "aria-label": "Chosen deliveries" });
    this.pages = h("nav", { class: "pages", "aria-label": "Pages of deliveries" });
    this.list = table({ caption: "Deliveries", keyOf: ({ entry }) => entry, empty: "No delivery.", columns: this.columns() });
    const type = h("input", { type: "search", name: "type", placeholder: "all", spellcheck: "false", autocomplete: "off" });
    const submit = (event) => {
      event.preventDefault();
      this.type = type.value.trim();
      this.turn([]);
    };
    this.node = section(
      "Deliveries",
      this.counts,
      h("form", { class: "filters", on: { submit } }, h("label", { class: "filter" }, h("span", {}, "Type of the event"), type), h("button", { type: "submit" }, "Filter")),
      this.trouble,
      this.bulk,
      this.list.node,
      this.pages,
    );
    this.changed = throttled(() => this.load(), 1500, signal);
  }

  columns() {
    return [
      { label: "Choose", hidden: true, class: "choose", cell: (delivery) => this.box(delivery) },
      { label: "Event", class: "name", cell: (delivery) => this.opener(delivery) },
      { label: "State", class: "phase", cell: ({ state }) => badge(TONE_OF_STATE[state] ?? "waiting", state) },
      { label: "Arrived", class: "age", cell: ({ arrived }) => moment(arrived) },
      { label: "Attempts", class: "amount", cell: ({ attempts, replays }) => [amount(attempts.length), replays > 0 && h("span", { class: "soft" }, `, ${counted(replays, "replay")}`)] },
      { label: "Why", class: "message", cell: (delivery) => why(delivery, this.object) },
    ];
  }

  box({ entry, state, id }) {
    const possible = state === "parked" || state === "done" || state === "dropped";
    const change = (event) => {
      if (event.target.checked) this.chosen.add(entry);
      else this.chosen.delete(entry);
      this.tellBulk();
    };
    return h("input", { type: "checkbox", "aria-label": `Choose event ${id}`, checked: this.chosen.has(entry), disabled: !possible, on: { change } });
  }

  opener({ entry, type, id, subject }) {
    // A long type goes on in the next line behind a dot.
    const pieces = (type || "event").split(/(?<=\.)/).map((piece) => [piece, h("wbr")]);
    return [
      h("button", { type: "button", class: "link", on: { click: () => this.open(entry) } }, h("b", {}, pieces), " ", h("span", { class: "soft" }, id)),
      subject && h("div", { class: "soft" }, subject),
    ];
  }

  turn(cursors) {
    this.cursors = cursors;
    this.chosen.clear();
    this.tellBulk();
    this.load();
  }

  async load() {
    const query = { state: this.state, type: this.type, after: this.cursors.at(-1), limit: LIMIT };
    try {
      const page = await get(path(["objects", ...objectParts(this.object), "deliveries"], query), { signal: this.signal });
      this.list.update(page.items);
      this.tellCounts(page.counts);
      const to = (cursors, word) => h("button", { type: "button", on: { click: () => this.turn(cursors) } }, word);
      replace(this.pages, this.cursors.length > 0 && to(this.cursors.slice(0, -1), "Previous"), page.next !== null && to([...this.cursors, page.next], "Next"));
      replace(this.trouble);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.trouble, failure(error));
    }
  }

  tellCounts(counts) {
    const choose = (state) => {
      this.state = state;
      this.turn([]);
    };
    const shown = ["", ...STATES].map((state) => ({ state, count: state ? counts[state] : null, pressed: state === this.state }));
    keyed(this.counts, shown, ({ state }) => state || "all", ({ state, count, pressed }) =>
      h("button", { type: "button", "aria-pressed": String(pressed), on: { click: () => choose(state) } }, state || "all", state && h("span", { class: "count" }, ` ${amount(count)}`)),
    );
    this.parked = counts.parked ?? 0;
    this.tellBulk();
  }

  tellBulk() {
    const entries = [...this.chosen];
    const offer = (action, parameters, word, title, name = "") =>
      h("button", { type: "button", class: name, on: { click: () => this.act(action, parameters, title) } }, word);
    const many = counted(entries.length, "event");
    const parked = counted(this.parked ?? 0, "parked event");
    replace(
      this.bulk,
      entries.length > 0 && [offer("replay", { entries }, `Replay ${many}`, `Replay ${many}`), offer("drop", { entries }, `Drop ${many}`, `Drop ${many}`, "danger quiet")],
      !entries.length && this.parked > 0 && [offer("replay", { state: "parked" }, `Replay all ${parked}`, `Replay all ${parked}`), offer("drop", { state: "parked" }, `Drop all ${parked}`, `Drop all ${parked}`, "danger quiet")],
    );
  }

  async act(action, parameters, title) {
    if (!(await signedIn("Replaying and dropping events needs a token."))) return;
    if (await question(this.object, action, parameters, { title })) this.turn(this.cursors);
  }

  async open(entry) {
    try {
      const given = await get(path(["objects", ...objectParts(this.object), "deliveries", entry]), { signal: this.signal });
      await ask({ title: `Event ${given.id}`, content: detail(given, this.object), confirm: null, cancel: "Close" });
    } catch (error) {
      if (error.name !== "AbortError") replace(this.trouble, failure(error));
    }
  }
}

function jobLink(name, { namespace }) {
  return objectLink({ kind: "jobs.batch", namespace, name });
}

function why({ state, reason, due, key, job, attempts }, object) {
  if (reason) return reason;
  if (job) return ["Job ", jobLink(job, object)];
  const last = attempts.at(-1);
  if (state === "delayed" || state === "retrying") return ["due ", moment(due)];
  if (state === "waiting" && key) return `ordering key ${key}`;
  return last?.reason ?? "";
}

function detail(given, object) {
  const job = (name) => (name ? jobLink(name, object) : "–");
  return [
    h("p", {}, badge(TONE_OF_STATE[given.state] ?? "waiting", given.state), given.reason && ` ${given.reason}`),
    pairs([["Type", given.type], ["Source", given.source], ["Subject", given.subject], ["Time", given.time && moment(given.time, "full")], ["Arrived", moment(given.arrived, "full")], ["Due", given.due && moment(given.due, "full")], ["Ordering key", given.key], ["Job now", given.job && jobLink(given.job, object)], ["Entry", given.entry]]),
    given.attempts.length > 0 && h("h3", {}, "Attempts"),
    h(
      "ol",
      { class: "attempts" },
      given.attempts.map(({ job: name, ended, outcome, reason }) => h("li", {}, badge(outcome === "done" ? "ok" : outcome === "failed" ? "error" : "paused", outcome), " ", job(name), " ", moment(ended, "clock"), reason && h("span", { class: "soft" }, ` ${reason}`))),
    ),
    h("h3", {}, "Data"),
    given.data === null || given.data === undefined
      ? h("p", { class: "soft" }, "The event has no data, or it is gone.")
      : h("pre", { class: "manifest", tabindex: "0", role: "region", "aria-label": "Data" }, typeof given.data === "string" ? given.data : JSON.stringify(given.data, null, 2)),
  ];
}
