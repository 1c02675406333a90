// All objects: search, filters, order, pages; rows change as they stand.

import { get, path } from "../core/api.js";
import { amount, counted } from "../core/amounts.js";
import { announce } from "../core/announce.js";
import { kindName, loadKinds } from "../core/kinds.js";
import { address, go } from "../core/router.js";
import { h, replace } from "../core/view.js";
import { failure, heading, throttled } from "../parts/frames.js";
import { ageColumn, messageColumn, nameColumn, nextColumn, numbersColumn, objectColumn, phaseColumn, rowKey } from "../parts/rows.js";
import { table } from "../parts/table.js";
import { TONE_WORDS, TONES } from "../parts/tone.js";

const LIMIT = 50;

export async function objects({ main, query, signal, watch }) {
  const asked = Object.fromEntries(["kind", "namespace", "q", "tone", "sort"].map((name) => [name, query.get(name) ?? ""]));
  const after = query.getAll("after");
  const place = h("div");
  const state = h("p", { class: "soft", role: "status" });
  const columns = [asked.kind ? nameColumn : objectColumn, phaseColumn, messageColumn, numbersColumn, ...(SCHEDULED.has(asked.kind) ? [nextColumn] : []), ageColumn];
  const list = table({ caption: "Objects", columns, keyOf: rowKey, empty: "No object matches." });
  const pages = h("nav", { class: "pages", "aria-label": "Pages" });
  const kinds = await loadKinds(signal).catch(() => []);
  if (signal.aborted) return;
  replace(main, heading(asked.kind ? kindName(asked.kind) : "Objects"), filters(asked, kinds), place, state, list.node, pages);
  let shown = [];
  let loaded = false;
  const load = async () => {
    try {
      const page = await get(path(["objects"], { ...asked, after: after.at(-1), limit: LIMIT }), { signal });
      shown = page.items;
      list.update(shown);
      replace(place);
      const text = page.total === null ? counted(shown.length, "object") : `${amount(page.total)} ${page.total === 1 ? "object" : "objects"}`;
      state.textContent = `${text}${after.length ? `, page ${after.length + 1}` : ""}`;
      replace(pages, pageLinks(asked, after, page.next));
      if (!loaded) announce(text);
      loaded = true;
    } catch (error) {
      if (error.name !== "AbortError") replace(place, failure(error));
    }
  };
  await load();
  const again = throttled(load, 1500, signal);
  const watched = asked.kind ? [asked.kind] : kinds.map(({ id }) => id).filter((id) => id !== "pods");
  watch(
    watched.map((id) => `objects:${id}`),
    {
      row: (row) => {
        const index = shown.findIndex((each) => rowKey(each) === rowKey(row));
        if (index < 0) return again();
        shown[index] = row;
        list.update(shown);
        return asked.tone && row.tone !== asked.tone ? again() : undefined;
      },
      gone: (object) => {
        shown = shown.filter((each) => rowKey(each) !== rowKey(object));
        list.update(shown);
        again();
      },
      resync: load,
    },
  );
}

const SCHEDULED = new Set(["cronjobs.batch", "scheduledjobs.penstock.dev", "cronjobs.batch.volcano.sh"]);

function filters(asked, kinds) {
  const to = (changed) => go(address(["objects"], { ...asked, ...changed }));
  const select = (label, name, options) =>
    h(
      "label",
      { class: "filter" },
      h("span", {}, label),
      h("select", { on: { change: (event) => to({ [name]: event.target.value }) } }, options.map(([value, text]) => h("option", { value, selected: value === asked[name] }, text))),
    );
  const text = (label, name, placeholder) =>
    h("label", { class: "filter" }, h("span", {}, label), h("input", { type: "search", value: asked[name], placeholder, name, spellcheck: "false", autocomplete: "off" }));
  const submit = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    to({ namespace: given.get("namespace").trim(), q: given.get("q").trim() });
  };
  return h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filters", on: { submit } },
    select("Kind", "kind", [["", "All but pods"], ...kinds.map(({ id, count }) => [id, `${kindName(id)} (${amount(count)})`])]),
    text("Namespace", "namespace", "all"),
    select("State", "tone", [["", "All"], ...TONES.map((tone) => [tone, TONE_WORDS[tone]])]),
    select("Order", "sort", [["", "By name"], ["-created", "Newest first"], ["tone", "Most urgent first"]]),
    text("Text", "q", "name or reason"),
    h("button", { type: "submit" }, "Filter"),
  );
}

/** The address has the cursors of all pages before: the way back needs no other call. */
function pageLinks(asked, after, next) {
  const link = (cursors, text, rel) => {
    const to = address(["objects"], asked);
    const added = new URLSearchParams(cursors.map((cursor) => ["after", cursor])).toString();
    return h("a", { class: "button", href: added ? `${to}${to.includes("?") ? "&" : "?"}${added}` : to, rel }, text);
  };
  return [
    after.length > 0 && link([], "First page"),
    after.length > 0 && link(after.slice(0, -1), "Previous", "prev"),
    next !== null && link([...after, next], "Next", "next"),
  ];
}
