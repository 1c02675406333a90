// The address of a view is the part after "#": a path of encoded parts and a query.

/** Returns {parts, query} of an address such as `#/object/jobs.batch/default/crunch?tab=log`. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the address of a view. query: values that are null, undefined or empty are left out. */
export function address(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Returns the address of an object's view. */
export const objectAddress = ({ kind, namespace, name }) => address(["object", kind, namespace || "-", name]);

/** Goes to an address. replaced: the present one is left out of the browser's history. */
export function go(to, { replaced = false } = {}) {
  if (replaced) location.replace(to);
  else location.hash = to;
}
