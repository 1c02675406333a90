// Flows as graphs, a page of them at a time.

import { get, objectParts, path } from "../core/api.js";
import { address } from "../core/router.js";
import { h, replace } from "../core/view.js";
import { failure, heading, loading, throttled } from "../parts/frames.js";
import { graph } from "../parts/graph.js";
import { numbers, objectLink, rowKey } from "../parts/rows.js";
import { badge } from "../parts/tone.js";

const KIND = "jobflows.flow.volcano.sh";
const LIMIT = 8;

export async function flows({ main, query, signal, watch }) {
  const place = h("div");
  replace(main, heading("Flows"), place);
  const page = await loading(place, () => get(path(["objects"], { kind: KIND, sort: "tone", limit: LIMIT, after: query.get("after") }), { signal }));
  if (page === undefined) return;
  if (!page.items.length) {
    replace(place, h("p", { class: "nothing" }, "There is no flow."));
    return;
  }
  const cards = new Map(page.items.map((row) => [rowKey(row), card(row, signal)]));
  replace(place, [...cards.values()].map(({ node }) => node), page.next && h("nav", { class: "pages", "aria-label": "Pages" }, h("a", { class: "button", href: address(["flows"], { after: page.next }) }, "Next")));
  for (const each of cards.values()) await each.load();
  const renew = (object) => cards.get(rowKey(object))?.renew(object);
  watch([`objects:${KIND}`], { row: renew, resync: () => cards.forEach((each) => each.load()) });
}

function card(row, signal) {
  const head = h("header", { class: "flow-head" });
  const body = h("div");
  const drawing = graph(`Flow ${row.name}`);
  const show = (given) => replace(head, h("h2", {}, objectLink(given)), badge(given.tone, given.phase), numbers(given.numbers), given.message && h("p", { class: "soft" }, given.message));
  const load = async () => {
    try {
      const given = await get(path(["objects", ...objectParts(row), "graph"]), { signal });
      if (!drawing.node.isConnected) replace(body, drawing.node);
      drawing.update(given);
    } catch (error) {
      if (error.name !== "AbortError") replace(body, failure(error));
    }
  };
  const again = throttled(load, 1000, signal);
  show(row);
  return {
    node: h("article", { class: "flow" }, head, body),
    load,
    renew(given) {
      show(given);
      again();
    },
  };
}
