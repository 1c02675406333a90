// The names of kinds, by id; loaded once, with the counts renewed by the overview.

import { get, path } from "./api.js";

const names = new Map();

/** Returns the kinds with their counts. Raises Problem. */
export async function loadKinds(signal) {
  const kinds = await get(path(["kinds"]), { signal });
  const spelled = new Map();
  for (const { kind } of kinds) spelled.set(kind, (spelled.get(kind) ?? 0) + 1);
  for (const { id, kind, group } of kinds) {
    names.set(id, spelled.get(kind) > 1 && group.includes("volcano") ? `Volcano ${kind}` : kind);
  }
  return kinds;
}

/** Returns the name of a kind for people; the id of one that is not known. */
export const kindName = (id) => names.get(id) ?? id;

/** True once the names are known. */
export const kindsKnown = () => names.size > 0;
