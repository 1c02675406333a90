// Events: what is parked and what to do about it, then every EventJob.

import { get, path } from "../core/api.js";
import { kindsKnown, loadKinds } from "../core/kinds.js";
import { address } from "../core/router.js";
import { h, keyed, replace } from "../core/view.js";
import { heading, loading, section, throttled } from "../parts/frames.js";
import { messageColumn, nameColumn, numbersColumn, phaseColumn, rowKey } from "../parts/rows.js";
import { table } from "../parts/table.js";
import { moment } from "../core/moments.js";
import { parkedKey, parkedNotice } from "./overview.js";

const KIND = "eventjobs.penstock.dev";
const LIMIT = 50;

export async function events({ main, query, signal, watch }) {
  const place = h("div");
  replace(main, heading("Events"), place);
  const notices = h("ul", { class: "notices" });
  const none = h("p", { class: "nothing" }, "Nothing is parked.");
  const last = { label: "Last event", class: "age", cell: (row) => moment(row.last) };
  const list = table({ caption: "EventJobs", columns: [nameColumn, phaseColumn, numbersColumn, messageColumn, last], keyOf: rowKey, empty: "There is no EventJob." });
  const pages = h("nav", { class: "pages", "aria-label": "Pages" });
  if (!kindsKnown()) await loadKinds(signal).catch(() => []);
  const load = async () => {
    const [parked, page] = await Promise.all([get(path(["parked"]), { signal }), get(path(["objects"], { kind: KIND, sort: "tone", limit: LIMIT, after: query.get("after") }), { signal })]);
    keyed(notices, parked, parkedKey, parkedNotice);
    none.hidden = parked.length > 0;
    list.update(page.items);
    replace(pages, page.next && h("a", { class: "button", href: address(["events"], { after: page.next }) }, "Next"));
    return true;
  };
  if (!(await loading(place, load))) return;
  replace(place, section("Parked", notices, none), section("EventJobs", list.node, pages));
  const again = throttled(() => load().catch(() => {}), 2000, signal);
  watch([`objects:${KIND}`], { row: again, gone: again, resync: again });
}
