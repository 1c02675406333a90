// Keyboard shortcuts and the dialog that lists them.

import { go } from "../core/router.js";
import { h } from "../core/view.js";
import { ask } from "./dialog.js";

const PLACE = "penstock.keys";
/** Milliseconds in which the second key of a pair counts. */
const PAIR = 1500;

const enabled = () => {
  try {
    return localStorage.getItem(PLACE) !== "off";
  } catch {
    return true;
  }
};

/** Listens to the keys. places: [{key, word, to}], each reached by `g` and its key. */
export function bindKeys(places) {
  let begun = 0;
  const help = () => showHelp(places);
  document.getElementById("help").addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "Escape" && event.target.id === "search") event.target.blur();
    if (typing || document.querySelector("dialog[open]") || !enabled()) return;
    const pair = Date.now() - begun < PAIR;
    begun = 0;
    const place = pair && places.find(({ key }) => key === event.key);
    if (place) go(place.to);
    else if (event.key === "g") begun = Date.now();
    else if (event.key === "?") help();
    else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search").focus();
    }
  });
}

function showHelp(places) {
  const row = (keys, text) => h("div", {}, h("dt", {}, keys.map((key, index) => [index ? " " : "", h("kbd", {}, key)])), h("dd", {}, text));
  const change = (event) => {
    try {
      localStorage.setItem(PLACE, event.target.checked ? "on" : "off");
    } catch {
      // Storage may be forbidden; the keys stay on.
    }
  };
  ask({
    title: "Keyboard shortcuts",
    confirm: null,
    cancel: "Close",
    content: [
      h(
        "dl",
        { class: "keys" },
        row(["/"], "Find objects"),
        places.map(({ key, word }) => row(["g", key], word)),
        row(["↑", "↓"], "In a table: the row above, the row below"),
        row(["Home", "End"], "In a table: the first row, the last row"),
        row(["←", "→"], "On the time line of decisions: the one before, the next one"),
        row(["Esc"], "Close a dialog, leave the search"),
        row(["?"], "This list"),
      ),
      h("p", {}, h("label", { class: "check" }, h("input", { type: "checkbox", checked: enabled(), on: { change } }), " Shortcuts of single keys")),
    ],
  });
}
