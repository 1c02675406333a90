// The first view: what needs attention, then every kind with its counts by tone.

import { get, path } from "../core/api.js";
import { amount, counted } from "../core/amounts.js";
import { kindName, loadKinds } from "../core/kinds.js";
import { moment } from "../core/moments.js";
import { address } from "../core/router.js";
import { h, keyed, replace } from "../core/view.js";
import { failure, heading, section, throttled } from "../parts/frames.js";
import { messageColumn, numbersColumn, objectColumn, objectLink, phaseColumn, rowKey } from "../parts/rows.js";
import { table } from "../parts/table.js";
import { TONE_WORDS, TONES, toneBar, toneShape } from "../parts/tone.js";

const URGENT = ["error", "warning", "waiting"];
const SHOWN = 12;

export async function overview({ main, signal, watch }) {
  const urgent = table({
    caption: "Objects that need attention, the most urgent first",
    columns: [objectColumn, phaseColumn, messageColumn, numbersColumn],
    keyOf: rowKey,
    empty: "Nothing fails, and nothing waits.",
  });
  const more = h("p", { class: "soft" });
  const parked = h("ul", { class: "notices" });
  const problems = h("ul", { class: "notices" });
  const cards = h("ul", { class: "cards" });
  const trouble = h("div");
  replace(
    main,
    heading("Overview"),
    trouble,
    section("Needs attention", problems, parked, urgent.node, more),
    section("Kinds", cards),
  );
  const notices = async () => {
    const [held, pipeline] = await Promise.all([get(path(["parked"]), { signal }), get(path(["pipeline"]), { signal })]);
    keyed(parked, held, parkedKey, parkedNotice);
    keyed(problems, pipeline.problems, ({ what }) => what, problemNotice);
  };
  const load = async () => {
    let kinds = [];
    try {
      kinds = await loadKinds(signal);
      keyed(cards, kinds, ({ id }) => id, card);
      // By tone one after the other: a server has them sorted, and the first ones are enough.
      const rows = [];
      for (const tone of URGENT) {
        const left = SHOWN - rows.length;
        if (left > 0) rows.push(...(await get(path(["objects"], { tone, sort: "-created", limit: left }), { signal })).items);
      }
      urgent.update(rows);
      const total = kinds.reduce((sum, { id, tones }) => sum + (id === "pods" ? 0 : URGENT.reduce((all, tone) => all + (tones[tone] ?? 0), 0)), 0);
      replace(more, total > rows.length && [`${amount(total - rows.length)} more: `, URGENT.map((tone) => [h("a", { href: address(["objects"], { tone }) }, TONE_WORDS[tone].toLowerCase()), " "])]);
      replace(trouble);
      await notices();
    } catch (error) {
      if (error.name !== "AbortError") replace(trouble, failure(error));
      if (error.name !== "AbortError" && error.name !== "Problem") console.error(error);
    }
    return kinds;
  };
  const kinds = await load();
  if (signal.aborted) return;
  const again = throttled(load, 2000, signal);
  const topics = kinds.filter(({ id }) => id !== "pods").map(({ id }) => `objects:${id}`);
  watch([...topics, "pipeline"], { row: again, gone: again, pipeline: ({ problems: given }) => keyed(problems, given, ({ what }) => what, problemNotice), resync: load });
}

function card({ id, count, tones }) {
  const given = TONES.filter((tone) => tones[tone] > 0);
  return h(
    "li",
    { class: count ? "card" : "card empty" },
    h("h3", {}, h("a", { href: address(["objects"], { kind: id }) }, kindName(id), " ", h("span", { class: "count" }, amount(count)))),
    toneBar(tones),
    h(
      "ul",
      { class: "tone-counts" },
      given.map((tone) =>
        h("li", {}, h("a", { href: address(["objects"], { kind: id, tone }) }, toneShape(tone), amount(tones[tone]), h("span", {}, TONE_WORDS[tone].toLowerCase()))),
      ),
    ),
  );
}

/** Returns the key of a notice of parked things. */
export const parkedKey = ({ object, todo }) => `${object ? rowKey(object) : ""} ${todo}`;

/** Returns the notice of parked events of one object, or of unreadable entries. */
export function parkedNotice({ object, count, oldest, todo }) {
  return h(
    "li",
    { class: "notice" },
    toneShape("error"),
    h(
      "div",
      {},
      h("p", {}, object ? objectLink(object, { withKind: true }) : null, object ? ": " : null, h("b", {}, object ? counted(count, object.kind === "scaledjobs.keda.sh" ? "parked item" : "parked event") : counted(count, "unreadable entry", "unreadable entries")), oldest ? [", the oldest ", moment(oldest)] : null),
      h("p", { class: "soft" }, todo),
    ),
  );
}

/** Returns the notice of a problem of the pipeline. */
export function problemNotice({ what, why, todo }) {
  return h("li", { class: "notice" }, toneShape("warning"), h("div", {}, h("p", {}, h("b", {}, what), why && ` ${why}`), h("p", { class: "soft" }, todo)));
}
