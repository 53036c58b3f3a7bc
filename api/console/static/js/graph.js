/**
 * A graph in layers from left to right: what leads to nothing else stands on the right, what nothing leads to on the
 * left. A way across several layers passes between the nodes of each. Positions depend on names alone, so that the
 * same graph looks the same to everybody.
 */

export const WIDTH = 170;
export const HEIGHT = 34;
const ACROSS = 104;
const DOWN = 14;
/** Height of a way that passes a layer. */
const LANE = 10;
const SWEEPS = 8;

/**
 * Places nodes and ways. nodes: {id, last}, where `last` puts a node into the last layer; edges: {from, to} by id;
 * `across` is the room between two layers. Gives {at: id → {x, y}, ways: an SVG path for each edge, width, height}.
 */
export function placed(nodes, edges, across = ACROSS) {
  const layerOf = layered(nodes, edges);
  const layers = Array.from({ length: 1 + Math.max(...layerOf.values()) }, () => []);
  for (const { id } of nodes) layers[layerOf.get(id)].push({ id, height: HEIGHT });
  const chains = edges.map((edge, number) => chain(edge, number, layerOf, layers));
  order(layers, chains);
  return positions(layers, chains, across);
}

/** The layer of each node: behind everything that leads to it; an edge that closes a circle does not count. */
function layered(nodes, edges) {
  const leaving = new Map(nodes.map(({ id }) => [id, []]));
  for (const { from, to } of edges) leaving.get(from).push(to);
  // what has its place at the end stands there alone
  const least = new Map(nodes.map(({ id, last }) => [id, last ? 0 : 1]));
  const depth = new Map();
  const open = new Set();
  const reach = (id) => {
    if (depth.has(id)) return depth.get(id);
    if (open.has(id)) return -1;
    open.add(id);
    const found = Math.max(least.get(id), 1 + Math.max(-1, ...leaving.get(id).map(reach)));
    open.delete(id);
    depth.set(id, found);
    return found;
  };
  nodes.forEach(({ id }) => reach(id));
  const used = [...new Set(depth.values())].sort((one, other) => other - one);
  return new Map(nodes.map(({ id }) => [id, used.indexOf(depth.get(id))]));
}

/** The nodes that an edge touches, with a lane in each layer between its ends. */
function chain({ from, to }, number, layerOf, layers) {
  const [first, last] = [layerOf.get(from), layerOf.get(to)];
  const ids = [from];
  for (let layer = first + 1; layer < last; layer += 1) {
    const id = `lane ${number} ${layer}`;
    layers[layer].push({ id, height: LANE });
    ids.push(id);
  }
  ids.push(to);
  return ids;
}

/** Stand what is joined side by side: sweeps of the barycentre method. */
function order(layers, chains) {
  const near = new Map();
  const join = (one, other) => near.set(one, [...(near.get(one) ?? []), other]);
  for (const ids of chains) {
    for (let at = 1; at < ids.length; at += 1) {
      join(ids[at - 1], ids[at]);
      join(ids[at], ids[at - 1]);
    }
  }
  const place = new Map();
  const note = (layer) => layer.forEach(({ id }, row) => place.set(id, (row + 0.5) / layer.length));
  layers.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const wish = new Map(layer.map(({ id }) => [id, middle((near.get(id) ?? []).map((other) => place.get(other)), place.get(id))]));
      layer.sort((one, other) => wish.get(one.id) - wish.get(other.id));
      note(layer);
    }
  }
}

function middle(places, otherwise) {
  return places.length ? places.reduce((sum, one) => sum + one, 0) / places.length : otherwise;
}

function positions(layers, chains, across) {
  const tall = (layer) => layer.reduce((sum, { height }) => sum + height + DOWN, -DOWN);
  const height = Math.max(...layers.map(tall));
  const at = new Map();
  layers.forEach((layer, column) => {
    let y = (height - tall(layer)) / 2;
    for (const one of layer) {
      at.set(one.id, { x: column * (WIDTH + across), y, middle: y + one.height / 2 });
      y += one.height + DOWN;
    }
  });
  return { at, ways: chains.map((ids) => way(ids.map((id) => at.get(id)))), width: layers.length * (WIDTH + across) - across, height };
}

/** From the right side of one node, through the lanes, to the left side of another. */
function way(stops) {
  const [from, to] = [stops[0], stops.at(-1)];
  const start = { x: from.x + WIDTH, y: from.middle };
  if (to.x <= from.x) {
    // back to the left, or within a layer: around
    const dip = Math.max(from.middle, to.middle) + HEIGHT + DOWN;
    return `M${start.x} ${start.y}C${start.x + 60} ${start.y} ${start.x + 60} ${dip} ${(start.x + to.x) / 2} ${dip}S${to.x - 60} ${to.middle} ${to.x} ${to.middle}`;
  }
  const parts = [`M${start.x} ${start.y}`];
  let here = start;
  stops.slice(1).forEach((stop, number) => {
    const bend = (stop.x - here.x) / 2;
    parts.push(`C${here.x + bend} ${here.y} ${stop.x - bend} ${stop.middle} ${stop.x} ${stop.middle}`);
    here = { x: stop.x, y: stop.middle };
    if (number < stops.length - 2) {
      here.x += WIDTH;
      parts.push(`L${here.x} ${here.y}`);
    }
  });
  return parts.join("");
}
