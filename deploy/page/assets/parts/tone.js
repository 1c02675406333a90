// The six tones: each has a shape and a word, so that none depends on its colour.

import { h, s } from "../core/view.js";

/** The tones, the most urgent first. */
export const TONES = ["error", "warning", "waiting", "active", "paused", "ok"];

export const TONE_WORDS = {
  error: "Failing",
  warning: "Warning",
  waiting: "Waiting",
  active: "Active",
  ok: "Fine",
  paused: "Paused",
};

const SHAPES = {
  error: "M5 1h6l4 4v6l-4 4H5l-4-4V5zM5 6.2 6.8 8 5 9.8 6.2 11 8 9.2 9.8 11 11 9.8 9.2 8 11 6.2 9.8 5 8 6.8 6.2 5z",
  warning: "M8 1 15.5 15h-15zM7.2 6v4.5h1.6V6zm0 5.6v1.6h1.6v-1.6z",
  waiting: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1zm0 2a5 5 0 1 0 0 10A5 5 0 0 0 8 3zm-.8 1.5h1.6v3.2l2.2 1.3-.8 1.4-3-1.8z",
  active: "M3 1.5 14 8 3 14.5z",
  ok: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1zM4.2 8.2 7 11l5-5.2-1.2-1.1L7 8.7 5.4 7.1z",
  paused: "M3 2h4v12H3zm6 0h4v12H9z",
};

/** Returns a tone that is one of the six; others count as waiting. */
export const knownTone = (tone) => (Object.hasOwn(SHAPES, tone) ? tone : "waiting");

/** Returns the shape of a tone, for eyes only. */
export function toneShape(tone, properties = {}) {
  const known = knownTone(tone);
  return s(
    "svg",
    { class: `tone-shape tone-${known}`, viewBox: "0 0 16 16", width: 12, height: 12, "aria-hidden": "true", ...properties },
    s("path", { d: SHAPES[known], "fill-rule": "evenodd" }),
  );
}

/** Returns a shape with a text; the word of the tone is added for screen readers where the text is another one. */
export function badge(tone, text) {
  const word = TONE_WORDS[knownTone(tone)];
  const unseen = text && text !== word ? h("span", { class: "unseen" }, ` (${word.toLowerCase()})`) : null;
  return h("span", { class: `badge tone-${knownTone(tone)}` }, toneShape(tone), h("span", {}, text || word), unseen);
}

/** Returns a bar of how many objects have each tone. tones: counts by tone. */
export function toneBar(tones) {
  const present = TONES.filter((tone) => tones[tone] > 0);
  return h(
    "span",
    { class: "tone-bar", "aria-hidden": "true" },
    present.map((tone) => h("span", { class: `tone-${tone}`, style: { "flex-grow": String(tones[tone]) } })),
  );
}
