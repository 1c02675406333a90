// Decisions with their arithmetic.

import { amount } from "../core/amounts.js";
import { moment } from "../core/moments.js";
import { h } from "../core/view.js";

/** Returns the key of a decision. */
export const decisionKey = ({ at, why }) => `${at} ${why}`;

/** Returns everything about a decision but its time and reason. */
export function decisionBody({ figures, did, failed }) {
  return [
    failed && h("p", { class: "failure" }, `The attempt before failed: ${failed}`),
    figures.length > 0 && arithmetic(figures),
    did.length > 0 && h("ul", { class: "did" }, did.map((step) => h("li", {}, step))),
    did.length === 0 && !failed && h("p", { class: "soft" }, "Nothing was changed."),
  ];
}

function arithmetic(figures) {
  return h(
    "dl",
    { class: "arithmetic" },
    figures.map(({ name, value, how }) =>
      h(
        "div",
        {},
        h("dt", {}, name),
        h("dd", { class: "value" }, typeof value === "number" ? amount(value) : (value ?? "–")),
        h("dd", { class: "how" }, how),
      ),
    ),
  );
}

/** Returns one decision as a disclosure. */
export function decisionItem(decision) {
  const times = decision.times > 1 ? h("span", { class: "soft" }, ` ${amount(decision.times)} times`) : null;
  return h(
    "li",
    {},
    h(
      "details",
      { class: decision.failed ? "decision failed" : "decision" },
      h("summary", {}, moment(decision.at, "clock"), h("span", { class: "why" }, decision.why), times),
      decisionBody(decision),
    ),
  );
}
