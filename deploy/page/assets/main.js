// Starts the page: the frame, the views by address, the keys.

import { get, path } from "./core/api.js";
import { chooseZone, chosenZone, setServerTime } from "./core/moments.js";
import { address, go, parse } from "./core/router.js";
import { token } from "./core/token.js";
import { watch } from "./core/updates.js";
import { h, replace } from "./core/view.js";
import { failure, heading } from "./parts/frames.js";
import { bindKeys } from "./parts/keys.js";
import { signIn, signOut } from "./parts/sign_in.js";
import { events } from "./views/events.js";
import { flows } from "./views/flows.js";
import { object } from "./views/object.js";
import { objects } from "./views/objects.js";
import { overview } from "./views/overview.js";
import { pipeline } from "./views/pipeline.js";
import { podLog } from "./views/pod_log.js";
import { queues } from "./views/queues.js";
import { schedules } from "./views/schedules.js";

/** The views that the navigation has: path, word, key after `g`. */
const PLACES = [
  ["", "Overview", "o"],
  ["objects", "Objects", "l"],
  ["schedules", "Schedules", "s"],
  ["flows", "Flows", "f"],
  ["queues", "Queues", "q"],
  ["events", "Events", "e"],
  ["pipeline", "Pipeline", "p"],
];
const VIEWS = { "": overview, objects, object, schedules, flows, queues, events, pipeline, log: podLog };
/** The place of the navigation that a view without its own belongs to. */
const BELONGS = { object: "objects", log: "objects" };

const element = (id) => document.getElementById(id);
const main = element("main");
let present = new AbortController();
let begun = false;

async function show() {
  present.abort();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  present = new AbortController();
  const { signal } = present;
  const { parts: [name = "", ...parts], query } = parse(location.hash);
  const places = PLACES.map(([path, word]) => h("li", {}, h("a", { href: address(path ? [path] : []), "aria-current": path === (BELONGS[name] ?? name) ? "page" : null }, word)));
  replace(element("places"), h("ul", {}, places));
  element("search").value = name === "objects" ? (query.get("q") ?? "") : "";
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : nowhere;
  main.setAttribute("aria-busy", "true");
  replace(main);
  const titled = new MutationObserver(opened);
  titled.observe(main, { childList: true });
  function opened() {
    const title = main.querySelector("h1");
    if (!title) return;
    titled.disconnect();
    document.title = `${title.textContent} · Penstock`;
    // The first view leaves the focus at the page's beginning.
    if (begun) title.focus({ preventScroll: true });
    if (begun) scrollTo(0, 0);
    begun = true;
  }
  try {
    await view({ main, parts, query, signal, watch: (topics, handlers) => watch(topics, handlers, signal) });
  } catch (error) {
    if (error.name === "AbortError") return;
    replace(main, heading("This view failed"), failure(error));
    if (error.name !== "Problem") console.error(error);
  } finally {
    titled.disconnect();
    if (!signal.aborted) main.removeAttribute("aria-busy");
  }
}

function nowhere() {
  replace(main, heading("There is no such view"), h("p", {}, h("a", { href: "#/" }, "To the overview")));
}

const CONNECTION_WORDS = { live: "Live", connecting: "Connecting", lost: "Connection lost, trying again", hidden: "Paused" };

function tellConnection({ detail: state }) {
  const node = element("connection");
  if (node.dataset.state === state) return;
  // A change of view opens a new stream: no reason to say so unless it takes its time.
  if (state === "connecting" && node.dataset.state === "live") return;
  node.dataset.state = state;
  node.querySelector(".words").textContent = CONNECTION_WORDS[state];
}

const THEMES = { "": "System colours", light: "Light", dark: "Dark" };

function bindTools() {
  const theme = element("theme");
  const nameTheme = () => {
    theme.textContent = THEMES[document.documentElement.dataset.theme ?? ""];
  };
  theme.addEventListener("click", () => {
    const keys = Object.keys(THEMES);
    const next = keys[(keys.indexOf(document.documentElement.dataset.theme ?? "") + 1) % keys.length];
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    try {
      localStorage.setItem("penstock.theme", next);
    } catch {
      // Storage may be forbidden; the choice lasts until the next reload.
    }
    nameTheme();
  });
  const zone = element("clock");
  const nameZone = () => {
    zone.textContent = chosenZone() === "utc" ? "UTC" : "Local time";
  };
  zone.addEventListener("click", () => {
    chooseZone(chosenZone() === "utc" ? "local" : "utc");
    nameZone();
    show();
  });
  nameTheme();
  nameZone();
  // The address belongs to the views: the link moves the focus without it.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  element("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    go(address(["objects"], { q: element("search").value.trim() }));
  });
}

let user = null;

function bindUser() {
  const button = element("user");
  button.addEventListener("click", () => (token() ? signOut(user ?? "this user") : signIn()));
  document.addEventListener("token-changed", ({ detail }) => {
    user = detail;
    button.textContent = user ?? "Use a token";
  });
  // A page that only shows itself to users asks once; a refused action says so where it was asked for.
  document.addEventListener("token-needed", async () => {
    if (reading !== "token") return;
    if (await signIn("This page shows itself to users with a token only.")) show();
  });
}

let reading = "token";

async function session() {
  try {
    const given = await get(path(["session"]));
    reading = given.page;
    setServerTime(given.now);
    element("about").textContent = `Penstock ${given.version}`;
    if (given.user) document.dispatchEvent(new CustomEvent("token-changed", { detail: given.user }));
  } catch (error) {
    if (error.status !== 401) console.warn(error.message);
  }
}

document.addEventListener("connection", tellConnection);
bindTools();
bindUser();
bindKeys(PLACES.map(([path, word, key]) => ({ key, word, to: address(path ? [path] : []) })));
addEventListener("hashchange", show);
await session();
await show();
