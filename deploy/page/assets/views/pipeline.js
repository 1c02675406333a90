// How the pipeline itself does: lanes, lateness, processes, API server and broker.

import { get, path } from "../core/api.js";
import { amount, bytes, compact } from "../core/amounts.js";
import { moment, span } from "../core/moments.js";
import { h, keyed, replace } from "../core/view.js";
import { heading, loading, pairs, section } from "../parts/frames.js";
import { table } from "../parts/table.js";
import { badge } from "../parts/tone.js";
import { problemNotice } from "./overview.js";

const OLD = 10;

export async function pipeline({ main, signal, watch }) {
  const place = h("div");
  replace(main, heading("Pipeline"), place);
  const problems = h("ul", { class: "notices" });
  const figures = h("div", { class: "tiles" });
  const broker = h("div");
  const lanes = table({
    caption: "Lanes of the work queue",
    keyOf: ({ name }) => name,
    columns: [
      { label: "Lane", class: "name", cell: ({ name }) => h("b", {}, name) },
      { label: "State", class: "phase", cell: laneBadge },
      { label: "Ready", class: "amount", cell: ({ ready }) => amount(ready) },
      { label: "Oldest", class: "amount", cell: ({ oldestSeconds }) => (oldestSeconds === null ? "–" : span(oldestSeconds)) },
      { label: "Leased", class: "amount", cell: ({ leased }) => amount(leased) },
      { label: "Later", class: "amount", cell: ({ later }) => amount(later) },
    ],
  });
  const processes = table({
    caption: "Processes",
    keyOf: ({ id }) => id,
    columns: [
      { label: "Process", class: "name", cell: ({ kind, id }) => [h("b", {}, kind), " ", h("span", { class: "soft" }, id)] },
      { label: "State", class: "phase", cell: ({ alive }) => (alive ? badge("ok", "Alive") : badge("error", "Silent")) },
      { label: "Since", class: "age", cell: ({ since }) => moment(since) },
      { label: "Memory", class: "amount", cell: ({ memoryBytes }) => bytes(memoryBytes) },
    ],
  });
  const show = (given) => {
    keyed(problems, given.problems, ({ what }) => what, problemNotice);
    lanes.update(given.lanes);
    processes.update(given.processes);
    replace(figures, tile("Polls late, median", late(given.polls?.p50), late(given.polls?.p99)), tile("API server, median", late(given.api?.p50), late(given.api?.p99)), tile("Ready", compact(given.lanes.reduce((sum, { ready }) => sum + ready, 0))));
    const { memoryBytes, connectedClients, version, aof } = given.broker;
    replace(broker, pairs([["Version", version], ["Memory", bytes(memoryBytes)], ["Clients", amount(connectedClients)], ["Append-only file", typeof aof === "boolean" ? (aof ? "on" : "off") : aof]]));
  };
  const first = await loading(place, () => get(path(["pipeline"]), { signal }));
  if (first === undefined) return;
  replace(place, problems, figures, section("Lanes", lanes.node), section("Processes", processes.node), section("Broker", broker));
  show(first);
  watch(["pipeline"], { pipeline: show, resync: async () => show(await get(path(["pipeline"]), { signal })) });
}

const late = (seconds) => (seconds === null || seconds === undefined ? "–" : span(seconds));

function laneBadge({ ready, oldestSeconds }) {
  if (oldestSeconds > OLD) return badge("warning", "Late");
  return ready > 0 ? badge("active", "Working") : badge("ok", "Empty");
}

function tile(label, value, p99) {
  return h("div", { class: "tile" }, h("span", { class: "tile-label" }, label), h("b", {}, value), p99 !== undefined && h("span", { class: "soft" }, `99 %: ${p99}`));
}
