// Tables: real ones for screen readers, arrow keys from row to row, and cards on a narrow screen.

import { h, keyed, uniqueId } from "../core/view.js";

/**
 * Returns {node, update(items)}. columns: [{label, cell(item) -> nodes, class, hidden}], hidden labels are for screen
 * readers only. keyOf: names an item. empty: the text without items.
 */
export function table({ caption, columns, keyOf, empty = "There is nothing here." }) {
  const id = uniqueId("table");
  const body = h("tbody", { role: "rowgroup" });
  const head = columns.map(({ label, hidden, class: name }) =>
    h("th", { scope: "col", role: "columnheader", class: name }, hidden ? h("span", { class: "unseen" }, label) : label),
  );
  const grid = h(
    "table",
    { role: "table", "aria-labelledby": id, on: { keydown: arrows } },
    h("caption", { id, class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    body,
  );
  const nothing = h("p", { class: "nothing", hidden: true }, empty);
  const node = h("div", { class: "table" }, grid, nothing);
  const make = (item) =>
    h(
      "tr",
      { role: "row" },
      columns.map(({ label, cell, class: name }) =>
        h("td", { role: "cell", class: name, data: { label } }, h("div", { class: "cell" }, cell(item))),
      ),
    );
  return {
    node,
    body,
    update(items) {
      keyed(body, items, keyOf, make);
      nothing.hidden = items.length > 0;
      grid.hidden = items.length === 0;
    },
  };
}

const FOCUSABLE = "a[href], button, input, select";

/** Moves the focus to the same place of another row. */
function arrows(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input[type=text], input[type=search]")) return;
  const row = event.target.closest("tbody tr");
  if (!row) return;
  const rows = [...row.parentNode.children];
  const index = rows.indexOf(row);
  const place = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (place === undefined) return;
  event.preventDefault();
  const at = [...row.querySelectorAll(FOCUSABLE)].indexOf(event.target);
  const there = rows[place]?.querySelectorAll(FOCUSABLE);
  if (there?.length) there[Math.min(at, there.length - 1)].focus();
}
