// An object in one row: its link, phase, message and numbers.

import { compact } from "../core/amounts.js";
import { kindName } from "../core/kinds.js";
import { moment } from "../core/moments.js";
import { objectAddress } from "../core/router.js";
import { h } from "../core/view.js";
import { badge } from "./tone.js";

/** Returns the key of an object. */
export const rowKey = ({ kind, namespace, name }) => `${kind}/${namespace ?? ""}/${name}`;

/** Returns the link to an object. */
export function objectLink(object, { withKind = false } = {}) {
  const where = object.namespace ? h("span", { class: "namespace" }, `${object.namespace} /`, h("wbr")) : null;
  const kind = withKind ? h("span", { class: "kind" }, `${kindName(object.kind)} `) : null;
  return h("a", { class: "object", href: objectAddress(object) }, kind, where, " ", h("b", {}, object.name));
}

const NUMBER_WORDS = { waiting: "waiting", pending: "pending", running: "running", done: "done", failed: "failed" };

/** Returns the numbers of a row as small pairs. Zeros are left out, unless all are zero. */
export function numbers(given) {
  const all = Object.entries(given ?? {}).filter(([, value]) => value !== null && value !== undefined);
  const shown = all.filter(([, value]) => value !== 0);
  return h(
    "span",
    { class: "numbers" },
    (shown.length ? shown : all.slice(0, 1)).map(([name, value]) =>
      h("span", { class: `number number-${name}` }, h("b", {}, compact(value)), ` ${NUMBER_WORDS[name] ?? name}`),
    ),
  );
}

export const phaseColumn = { label: "Phase", class: "phase", cell: (row) => badge(row.tone, row.phase) };
export const messageColumn = { label: "Why", class: "message", cell: (row) => row.message };
export const numbersColumn = { label: "Numbers", class: "amounts", cell: (row) => numbers(row.numbers) };
export const ageColumn = { label: "Created", class: "age", cell: (row) => moment(row.created) };
export const nextColumn = { label: "Next", class: "age", cell: (row) => moment(row.next) };
export const objectColumn = { label: "Object", class: "name", cell: (row) => objectLink(row, { withKind: true }) };
export const nameColumn = { label: "Object", class: "name", cell: (row) => objectLink(row) };
