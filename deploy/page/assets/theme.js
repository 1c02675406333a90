// The chosen colours, before the first paint: a module would run after it.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("penstock.theme");
  } catch {
    // Storage may be forbidden; the system's colours are used then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
