// The drawing of a flow: nodes with a state, edges with arrows, and a list that says the same.

import { layered } from "../core/layered.js";
import { objectAddress } from "../core/router.js";
import { h, replace, s, uniqueId } from "../core/view.js";
import { asTable } from "./frames.js";
import { badge, knownTone, toneShape } from "./tone.js";

const WIDE = 176;
const TALL = 46;
/** Characters of an edge's label. */
const LABEL = 18;
/** A drawing that is wider than its frame shrinks to this; then it is scrolled. */
const SMALLEST = 0.66;

/** Returns {node, update(graph)} of {nodes, edges}. */
export function graph(label) {
  const arrow = uniqueId("arrow");
  const drawing = s("svg", { class: "graph-drawing", role: "group", "aria-label": label });
  const frame = h("div", { class: "graph-frame", tabindex: "0", role: "region", "aria-label": `${label}: drawing` }, drawing);
  const list = h("ul", { class: "graph-list" });
  const node = h("figure", { class: "graph" }, frame, asTable("The steps as a list", list));
  let shown = { nodes: [], edges: [] };
  let narrow = null;
  const paint = () => {
    const { nodes, edges } = shown;
    const places = layered(
      nodes.map(({ id }) => id),
      edges,
      narrow
        ? { along: TALL + 34, across: WIDE + 16, vertical: true }
        : { along: WIDE + Math.max(40, 24 + 6 * longestLabel(edges)), across: TALL + 18 },
    );
    drawing.setAttribute("viewBox", `0 0 ${places.width} ${places.height}`);
    drawing.style.setProperty("max-width", `${places.width}px`);
    drawing.style.setProperty("min-width", `${Math.round(places.width * SMALLEST)}px`);
    replace(
      drawing,
      s("defs", {}, s("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { class: "arrow", d: "M0 0 8 4 0 8z" }))),
      s("g", { "aria-hidden": "true" }, places.edges.map((edge) => edgeShape(edge, arrow, narrow))),
      nodes.map((each) => nodeShape(each, places.nodes.get(each.id))),
    );
  };
  new ResizeObserver(() => {
    const now = frame.clientWidth < 620;
    if (now !== narrow && shown.nodes.length) {
      narrow = now;
      paint();
    }
  }).observe(frame);
  return {
    node,
    update(given) {
      if (JSON.stringify(given) === JSON.stringify(shown)) return;
      shown = given;
      narrow = (frame.clientWidth || innerWidth) < 620;
      paint();
      describe(list, given);
    },
  };
}

const longestLabel = (edges) => Math.max(0, ...edges.map(({ label }) => Math.min(LABEL, label?.length ?? 0)));

function nodeShape({ label, state, tone, detail, object }, { x, y }) {
  const parts = [
    s("title", {}, [label, state, detail].filter(Boolean).join(" · ")),
    s("rect", { class: `node tone-${knownTone(tone)}`, x: x - WIDE / 2, y: y - TALL / 2, width: WIDE, height: TALL, rx: 6 }),
    s("svg", { x: x - WIDE / 2 + 12, y: y - 8, width: 16, height: 16, overflow: "visible" }, toneShape(tone, { width: 16, height: 16 })),
    s("text", { class: "node-label", x: x - WIDE / 2 + 38, y: y - 3 }, cut(label, 19)),
    s("text", { class: "node-state", x: x - WIDE / 2 + 38, y: y + 13 }, cut([state, detail].filter(Boolean).join(" · "), 20)),
  ];
  const name = `${label}: ${[state, detail].filter(Boolean).join(", ")}`;
  if (object) return s("a", { href: objectAddress(object), "aria-label": name }, parts);
  return s("g", { role: "img", "aria-label": name }, parts);
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function edgeShape({ points, label }, arrow, vertical) {
  const off = vertical ? [0, TALL / 2] : [WIDE / 2, 0];
  const along = vertical ? 1 : 0;
  const sign = Math.sign(points.at(-1)[along] - points[0][along]) || 1;
  // A bend passes a layer in a straight line, beside the nodes.
  const way = points.flatMap(([x, y], index) => {
    if (index === 0 || index === points.length - 1) return [[x, y]];
    return [
      [x - sign * off[0], y - sign * off[1]],
      [x + sign * off[0], y + sign * off[1]],
    ];
  });
  way[0] = [way[0][0] + sign * off[0], way[0][1] + sign * off[1]];
  const end = way.length - 1;
  way[end] = [way[end][0] - sign * off[0], way[end][1] - sign * off[1]];
  let path = `M${way[0].join(" ")}`;
  for (let index = 1; index < way.length; index += 1) {
    const [fx, fy] = way[index - 1];
    const [tx, ty] = way[index];
    path += vertical
      ? `C${fx} ${(fy + ty) / 2} ${tx} ${(fy + ty) / 2} ${tx} ${ty}`
      : `C${(fx + tx) / 2} ${fy} ${(fx + tx) / 2} ${ty} ${tx} ${ty}`;
  }
  const middle = way[Math.floor(end / 2)].map((value, axis) => (value + way[Math.ceil((end + 1) / 2)][axis]) / 2);
  return [
    s("path", { class: "edge", d: path, "marker-end": `url(#${arrow})` }),
    label && s("text", { class: "edge-label", x: middle[0] + (vertical ? 8 : 0), y: middle[1] + (vertical ? 2 : -5), "text-anchor": vertical ? "start" : "middle" }, cut(label, LABEL)),
  ];
}

function describe(list, { nodes, edges }) {
  const labels = new Map(nodes.map(({ id, label }) => [id, label]));
  replace(
    list,
    nodes.map(({ id, label, state, tone, detail }) => {
      const before = edges.filter(({ to }) => to === id).map(({ from, label: why }) => `${labels.get(from) ?? from}${why ? ` (${why})` : ""}`);
      return h("li", {}, badge(tone, state), " ", h("b", {}, label), detail && ` ${detail}`, before.length > 0 && ` after ${before.join(", ")}`);
    }),
  );
}
