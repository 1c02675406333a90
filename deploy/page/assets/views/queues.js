// Volcano's queues: their share, what they are guaranteed, and who waits and why.

import { get, path } from "../core/api.js";
import { amount, percent } from "../core/amounts.js";
import { moment } from "../core/moments.js";
import { objectAddress } from "../core/router.js";
import { h, keyed, replace } from "../core/view.js";
import { heading, loading, throttled } from "../parts/frames.js";
import { toneShape } from "../parts/tone.js";

const AMOUNTS = [
  ["allocated", "Allocated"],
  ["deserved", "Deserved"],
  ["guarantee", "Guarantee"],
  ["capability", "Capability"],
];

export async function queues({ main, signal, watch }) {
  const place = h("div");
  const list = h("ul", { class: "queues" });
  replace(main, heading("Queues"), place);
  const show = (given) => {
    const sorted = [...given].sort((one, other) => other.waiting.length - one.waiting.length || (other.share ?? 0) - (one.share ?? 0) || one.name.localeCompare(other.name));
    keyed(list, sorted, ({ name }) => name, queue);
  };
  const load = async () => show(await get(path(["queues"]), { signal }));
  const first = await loading(place, () => get(path(["queues"]), { signal }));
  if (first === undefined) return;
  replace(place, first.length ? list : h("p", { class: "nothing" }, "There is no queue."));
  show(first);
  const again = throttled(() => load().catch(() => {}), 2000, signal);
  watch(["objects:queues.scheduling.volcano.sh", "objects:podgroups.scheduling.volcano.sh"], { row: again, gone: again, resync: again });
}

function queue({ name, weight, share, waiting, ...amounts }) {
  const object = { kind: "queues.scheduling.volcano.sh", namespace: "", name };
  return h(
    "li",
    { class: "queue" },
    h("h2", {}, h("a", { href: objectAddress(object) }, name), " ", h("span", { class: "soft" }, `weight ${amount(weight)}`)),
    h(
      "div",
      { class: "share" },
      h("span", { class: "share-bar", "aria-hidden": "true" }, h("span", { class: share > 1 ? "over" : "", style: { width: `${Math.min(100, Math.max(0, (share ?? 0) * 100))}%` } })),
      h("span", {}, share === null ? "share unknown" : [h("b", {}, percent(share)), " of its share"]),
    ),
    resources(name, amounts),
    waiting.length
      ? h("div", {}, h("h3", {}, toneShape("waiting"), ` ${waiting.length} waiting`), h("ul", { class: "waiting" }, waiting.map(waits)))
      : h("p", { class: "soft" }, "No group waits."),
  );
}

function waits({ group, since, why }) {
  const name = typeof group === "string" ? group : `${group.namespace}/${group.name}`;
  const [namespace, own] = name.includes("/") ? name.split("/") : ["", name];
  const object = { kind: "podgroups.scheduling.volcano.sh", namespace, name: own };
  return h("li", {}, namespace ? h("a", { href: objectAddress(object) }, name) : h("b", {}, name), since ? [" since ", moment(since, "clock")] : null, h("span", { class: "why" }, why));
}

/** The amounts of each resource, one row per resource. */
function resources(name, amounts) {
  const names = [...new Set(AMOUNTS.flatMap(([key]) => Object.keys(amounts[key] ?? {})))];
  if (!names.length) return null;
  const cell = (key, resource) => h("td", {}, amounts[key]?.[resource] ?? "–");
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": `Resources of ${name}` },
    h(
      "table",
      { class: "plain" },
      h("caption", { class: "unseen" }, `Resources of ${name}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Resource"), AMOUNTS.map(([, word]) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, names.map((resource) => h("tr", {}, h("th", { scope: "row" }, resource), AMOUNTS.map(([key]) => cell(key, resource))))),
    ),
  );
}
