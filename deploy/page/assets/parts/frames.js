// The frame of a view: its heading, sections, and the state of what is loaded.

import { h, replace, uniqueId } from "../core/view.js";

/** Returns a section with a heading. extra: stands beside the heading. */
export function section(title, ...children) {
  const id = uniqueId("section");
  return h("section", { "aria-labelledby": id }, h("header", { class: "section-head" }, h("h2", { id }, title)), children);
}

/** Returns a section whose heading has controls beside it. */
export function sectionWith(title, controls, ...children) {
  const node = section(title, children);
  node.querySelector(".section-head").append(...[controls].flat());
  return node;
}

/** Returns the heading of a view; it takes the focus when the view opens. */
export const heading = (...children) => h("h1", { tabindex: "-1" }, children);

/**
 * Runs a load and shows in the place that it waits or failed. Returns the value, or undefined. unknown: an object that is
 * not known is thrown.
 */
export async function loading(place, load, { unknown = false } = {}) {
  const marker = setTimeout(() => replace(place, h("p", { class: "nothing" }, "Loading…")), 200);
  try {
    const value = await load();
    clearTimeout(marker);
    replace(place);
    return value;
  } catch (error) {
    clearTimeout(marker);
    if (unknown && error.status === 404) throw error;
    if (error.name !== "AbortError") replace(place, failure(error));
    if (error.name !== "AbortError" && error.name !== "Problem") console.error(error);
    return undefined;
  }
}

/**
 * Runs a load as `loading` does and passes its value on. While the object is not known (404) and the server says when to
 * look again, the place says so, and it is looked for until the view is left.
 */
export async function awaited(place, load, signal, show) {
  try {
    const value = await loading(place, load, { unknown: true });
    if (value !== undefined) show(value);
  } catch (error) {
    if (error.retryAfter === null) replace(place, failure(error));
    else {
      replace(place, h("p", { class: "nothing", role: "status" }, `${error.message}. This page looks again every ${error.retryAfter} seconds.`));
      lookAgain(place, load, signal, show, error.retryAfter);
    }
  }
}

async function lookAgain(place, load, signal, show, seconds) {
  for (;;) {
    await new Promise((done) => setTimeout(done, seconds * 1000));
    if (signal.aborted) return;
    try {
      const value = await load();
      replace(place);
      return show(value);
    } catch (error) {
      // The server may be away for a moment; a refusal is told.
      if (error.status && error.status !== 404 && error.status < 500) return replace(place, failure(error));
    }
  }
}

/** Returns the text of a failed call. */
export const failure = (error) => h("p", { class: "failure", role: "alert" }, error.message);

/** Returns a disclosure that holds the text alternative of a drawing. */
export function asTable(label, ...children) {
  return h("details", { class: "as-table" }, h("summary", {}, label), children);
}

/** Returns pairs of a term and its value. pairs: [[term, value]]; values that are null are left out. */
export function pairs(given, name = "pairs") {
  const kept = given.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: name }, kept.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/** Calls a function at most once per so many milliseconds, the last time after the last call. */
export function throttled(call, milliseconds, signal) {
  let timer = null;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      if (!signal.aborted) call();
    }, milliseconds);
  };
}
