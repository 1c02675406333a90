// Calls of the JSON interface under api/v1.

import { token } from "./token.js";

const ROOT = "api/v1";

/**
 * A refused or failed call. status: 0 without an answer. The message is the detail where there is one. retryAfter: the
 * seconds after which the answer may be another; null if the server does not say so.
 */
export class Problem extends Error {
  constructor(status, title, detail = "", retryAfter = null) {
    super(detail || title);
    this.name = "Problem";
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }
}

/** Returns the path of a call. parts are encoded; query values may be lists; empty ones are left out. */
export function path(parts, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) {
      if (each !== null && each !== undefined && each !== "") search.append(name, each);
    }
  }
  const text = search.toString();
  return `${ROOT}/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** The parts of a path that name an object. */
export const objectParts = ({ kind, namespace, name }) => [kind, namespace || "-", name];

/** Returns the headers that carry the token. given: a token to use in place of the stored one. */
export function authorization(given = token()) {
  return given ? { Authorization: `Bearer ${given}` } : {};
}

/** Returns the answer's JSON. Raises Problem. */
export async function get(to, { signal, as } = {}) {
  return (await answered(to, { signal, headers: { Accept: "application/json", ...authorization(as) } })).json();
}

/** Returns the answer's text. Raises Problem. */
export async function getText(to, { signal } = {}) {
  return (await answered(to, { signal, headers: authorization() })).text();
}

/** Sends JSON and returns the answer's JSON. Raises Problem. */
export async function post(to, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json", ...authorization() };
  return (await answered(to, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/**
 * Returns a successful answer. Raises Problem, and tells the page about calls that need another token than it holds: one
 * that was sent before the user gave a token may be refused after it.
 */
export async function answered(to, options) {
  let answer;
  try {
    answer = await fetch(to, { credentials: "omit", cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer");
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  const outdated = options.headers?.Authorization !== authorization().Authorization;
  if (answer.status === 401 && !outdated) document.dispatchEvent(new CustomEvent("token-needed", { detail: problem }));
  throw problem;
}

async function problemOf(answer) {
  const after = Number.parseInt(answer.headers.get("Retry-After") ?? "", 10) || null;
  try {
    const { title, detail } = await answer.json();
    return new Problem(answer.status, String(title ?? answer.statusText), String(detail ?? ""), after);
  } catch {
    return new Problem(answer.status, `${answer.status} ${answer.statusText}`.trim(), "", after);
  }
}
