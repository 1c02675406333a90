// The places of a graph's nodes and the ways of its edges, in layers; pure.
//
// 1. An edge that closes a cycle is turned round. 2. A node's layer is one after its last predecessor's. 3. An edge over
// several layers gets a bend in each. 4. The order within layers follows the neighbours' mean place, over several sweeps;
// the order with the fewest crossings is kept. 5. Places move towards the neighbours' mean without overlaps.

const SWEEPS = 8;

/**
 * Returns {nodes: Map(id -> {x, y}), edges: [{from, to, points: [[x, y]]}], width, height}; x and y are of a node's middle.
 * nodes: ids. edges: [{from, to}]; those with an unknown end are left out. along, across: the distance of layers, and of
 * places within a layer. vertical: layers follow each other downwards, not to the right.
 */
export function layered(nodes, edges, { along, across, vertical = false }) {
  const known = new Set(nodes);
  const given = edges.filter(({ from, to }) => known.has(from) && known.has(to) && from !== to);
  const forward = withoutCycles(nodes, given);
  const rank = ranks(nodes, forward);
  const { layers, chains, next, previous } = withBends(nodes, forward, rank);
  const ordered = fewestCrossings(layers, next, previous);
  const place = places(ordered, next, previous);
  const most = Math.max(0, ...place.values());
  const point = (id, layer) => {
    const there = [(layer + 0.5) * along, (place.get(id) + 0.5) * across];
    return vertical ? there.reverse() : there;
  };
  const layerOf = new Map(ordered.flatMap((layer, index) => layer.map((id) => [id, index])));
  const size = [ordered.length * along, (most + 1) * across];
  return {
    nodes: new Map(nodes.map((id) => [id, ((at) => ({ x: at[0], y: at[1] }))(point(id, layerOf.get(id)))])),
    edges: chains.map(({ edge, turned, chain }) => {
      const points = chain.map((id) => point(id, layerOf.get(id)));
      return { ...edge, points: turned ? points.reverse() : points };
    }),
    width: vertical ? size[1] : size[0],
    height: vertical ? size[0] : size[1],
  };
}

function withoutCycles(nodes, edges) {
  const out = new Map(nodes.map((id) => [id, []]));
  for (const edge of edges) out.get(edge.from).push(edge);
  const state = new Map();
  const turned = new Set();
  for (const root of nodes) {
    if (state.has(root)) continue;
    const stack = [[root, 0]];
    state.set(root, "open");
    while (stack.length) {
      const top = stack.at(-1);
      const edge = out.get(top[0])[top[1]];
      top[1] += 1;
      if (!edge) {
        state.set(top[0], "done");
        stack.pop();
      } else if (state.get(edge.to) === "open") {
        turned.add(edge);
      } else if (!state.has(edge.to)) {
        state.set(edge.to, "open");
        stack.push([edge.to, 0]);
      }
    }
  }
  return edges.map((edge) =>
    turned.has(edge) ? { edge, turned: true, from: edge.to, to: edge.from } : { edge, turned: false, from: edge.from, to: edge.to },
  );
}

function ranks(nodes, edges) {
  const into = new Map(nodes.map((id) => [id, 0]));
  const out = new Map(nodes.map((id) => [id, []]));
  for (const { from, to } of edges) {
    into.set(to, into.get(to) + 1);
    out.get(from).push(to);
  }
  const rank = new Map(nodes.map((id) => [id, 0]));
  const ready = nodes.filter((id) => into.get(id) === 0);
  for (const id of ready) {
    for (const to of out.get(id)) {
      rank.set(to, Math.max(rank.get(to), rank.get(id) + 1));
      into.set(to, into.get(to) - 1);
      if (into.get(to) === 0) ready.push(to);
    }
  }
  return rank;
}

function withBends(nodes, edges, rank) {
  const layers = Array.from({ length: Math.max(-1, ...rank.values()) + 1 }, () => []);
  for (const id of nodes) layers[rank.get(id)].push(id);
  const next = new Map(nodes.map((id) => [id, []]));
  const previous = new Map(nodes.map((id) => [id, []]));
  const chains = edges.map(({ edge, turned, from, to }, index) => {
    const chain = [from];
    for (let layer = rank.get(from) + 1; layer < rank.get(to); layer += 1) {
      const bend = Symbol(`bend ${index}`);
      layers[layer].push(bend);
      next.set(bend, []);
      previous.set(bend, []);
      chain.push(bend);
    }
    chain.push(to);
    for (let step = 1; step < chain.length; step += 1) {
      next.get(chain[step - 1]).push(chain[step]);
      previous.get(chain[step]).push(chain[step - 1]);
    }
    return { edge, turned, chain };
  });
  return { layers, chains, next, previous };
}

function fewestCrossings(layers, next, previous) {
  let present = layers.map((layer) => [...layer]);
  let best = present;
  let fewest = crossings(present, next);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep += 1) {
    const down = sweep % 2 === 0;
    const neighbours = down ? previous : next;
    present = present.map((layer) => [...layer]);
    const indexes = present.map((_, index) => index);
    for (const index of down ? indexes.slice(1) : indexes.slice(0, -1).reverse()) {
      const beside = new Map(present[down ? index - 1 : index + 1].map((id, place) => [id, place]));
      const own = new Map(present[index].map((id, place) => [id, place]));
      const wish = new Map(present[index].map((id) => [id, mean(neighbours.get(id).map((each) => beside.get(each))) ?? own.get(id)]));
      present[index].sort((one, other) => wish.get(one) - wish.get(other) || own.get(one) - own.get(other));
    }
    const count = crossings(present, next);
    if (count < fewest) {
      fewest = count;
      best = present;
    }
  }
  return best;
}

/** Returns how many edges between neighbouring layers cross. */
function crossings(layers, next) {
  let count = 0;
  for (let index = 0; index + 1 < layers.length; index += 1) {
    const place = new Map(layers[index + 1].map((id, at) => [id, at]));
    const ends = layers[index].map((id) => next.get(id).map((to) => place.get(to)).sort((one, other) => one - other));
    for (let left = 0; left < ends.length; left += 1) {
      for (let right = left + 1; right < ends.length; right += 1) {
        for (const end of ends[left]) count += ends[right].filter((other) => other < end).length;
      }
    }
  }
  return count;
}

function places(layers, next, previous) {
  const place = new Map();
  for (const layer of layers) layer.forEach((id, index) => place.set(id, index));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wishes = layer.map((id) => mean((down ? previous : next).get(id).map((each) => place.get(each))) ?? place.get(id));
      apart(wishes).forEach((at, index) => place.set(layer[index], at));
    }
  }
  const lowest = Math.min(...place.values());
  for (const [id, at] of place) place.set(id, at - lowest);
  return place;
}

/** Returns places as near to the wishes as can be, in their order and at least 1 apart: the mean of two greedy ways. */
export function apart(wishes) {
  const right = [];
  for (const wish of wishes) right.push(Math.max(wish, (right.at(-1) ?? -Infinity) + 1));
  const left = [];
  for (const wish of [...wishes].reverse()) left.unshift(Math.min(wish, (left[0] ?? Infinity) - 1));
  return right.map((at, index) => (at + left[index]) / 2);
}

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
