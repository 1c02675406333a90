// Builds nodes. Text from data becomes text nodes and attributes only; nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Returns an HTML element. properties: `class`, `style` (an object of CSS properties, set one by one), `on` (an object of
 * listeners), `data` (data attributes), other names are attributes: true is an empty one, null, undefined and false none.
 * children: nodes, texts, numbers, lists of them; null, undefined and false are left out.
 */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Returns an SVG element, see `h`. */
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, listener] of Object.entries(value)) node.addEventListener(type, listener);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces a node's children. */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/**
 * Makes a parent's children the nodes of these items, in order. An item whose text form is as before keeps its node; the
 * focus stays at the same place of a node that is made anew.
 */
export function keyed(parent, items, keyOf, make) {
  const before = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const focused = document.activeElement;
  const times = new Map();
  const wanted = items.map((item) => {
    const name = keyOf(item);
    const time = times.get(name) ?? 0;
    times.set(name, time + 1);
    // Items of the same name are told apart by their order.
    const key = time ? `${name} ${time}` : name;
    const text = JSON.stringify(item);
    const old = before.get(key);
    before.delete(key);
    if (old?.keyedText === text) return old;
    const node = make(item);
    node.dataset.key = key;
    node.keyedText = text;
    if (old) {
      const place = old.contains(focused) ? focusables(old).indexOf(focused) : -1;
      old.replaceWith(node);
      if (place >= 0) focusables(node)[place]?.focus({ preventScroll: true });
    }
    return node;
  });
  for (const node of before.values()) node.remove();
  wanted.forEach((node, index) => {
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
  });
}

const focusables = (node) => [...node.querySelectorAll("a[href], button, input, select, [tabindex]")];

let numbered = 0;
/** Returns an id that no other node has. */
export const uniqueId = (prefix) => `${prefix}-${(numbered += 1)}`;
