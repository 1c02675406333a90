// A pod's log as it is written: search, wrap, pause.

import { get, getText, objectParts, path } from "../core/api.js";
import { amount, counted } from "../core/amounts.js";
import { follow } from "../core/event_stream.js";
import { address, go, objectAddress } from "../core/router.js";
import { h, replace } from "../core/view.js";
import { failure, heading } from "../parts/frames.js";

const TAIL = 500;
/** Lines that are kept; the oldest are dropped. */
const MOST = 5000;

export async function podLog({ main, parts: [namespace, name], query, signal }) {
  const pod = { kind: "pods", namespace, name };
  const { containers = [], row } = await get(path(["objects", ...objectParts(pod)]), { signal }).catch(() => ({}));
  const container = query.get("container") ?? containers[0] ?? "";
  const log = new Log();
  const trouble = h("div");
  const choose = (event) => go(address(["log", namespace, name], { container: event.target.value }));
  replace(
    main,
    h("p", { class: "crumbs" }, h("a", { href: objectAddress(pod) }, `Pod ${namespace}/${name}`)),
    heading("Log of ", name),
    h(
      "div",
      { class: "filters" },
      containers.length > 1 && h("label", { class: "filter" }, h("span", {}, "Container"), h("select", { on: { change: choose } }, containers.map((each) => h("option", { value: each, selected: each === container }, each)))),
      log.controls,
    ),
    trouble,
    log.node,
  );
  const options = { container, tail: TAIL };
  const to = (more) => path(["pods", namespace || "-", name, "log"], { ...options, ...more });
  try {
    if (row && ["Succeeded", "Failed"].includes(row.phase)) {
      log.add((await getText(to({}), { signal })).split("\n"));
      log.end("The pod has ended.");
      return;
    }
    await follow(to({ follow: 1 }), { signal, received: ({ type, data }) => type === "line" && log.add([data]) });
    log.end("The log has ended.");
  } catch (error) {
    if (!signal.aborted) replace(trouble, failure(error.name === "AbortError" ? new Error("The connection was lost.") : error));
  }
}

class Log {
  constructor() {
    this.lines = [];
    this.waiting = [];
    this.paused = false;
    this.output = h("pre", { class: "log wrapped", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log" });
    this.state = h("span", { class: "soft", role: "status" });
    this.search = h("input", { type: "search", placeholder: "text", spellcheck: "false", autocomplete: "off", on: { input: () => this.paint() } });
    const toggle = (word, pressed, change) => {
      const button = h("button", { type: "button", "aria-pressed": String(pressed) }, word);
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        change(on);
      });
      return button;
    };
    this.controls = [
      h("label", { class: "filter" }, h("span", {}, "Lines with"), this.search),
      toggle("Wrap", true, (on) => this.output.classList.toggle("wrapped", on)),
      toggle("Pause", false, (on) => this.pause(on)),
      this.state,
    ];
    this.node = h("div", { class: "log-frame" }, this.output);
  }

  /** Adds lines; while paused they are kept back. */
  add(lines) {
    this.waiting.push(...lines);
    if (this.waiting.length > MOST) this.waiting.splice(0, this.waiting.length - MOST);
    if (this.paused) this.tell();
    else this.asked ??= requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.asked = null;
    const added = this.waiting;
    this.waiting = [];
    this.lines.push(...added);
    const dropped = Math.max(0, this.lines.length - MOST);
    this.lines.splice(0, dropped);
    const atEnd = this.output.scrollTop + this.output.clientHeight >= this.output.scrollHeight - 24;
    if (this.search.value) {
      this.paint();
    } else {
      this.output.append(...added.map(lineNode));
      while (this.output.childElementCount > this.lines.length) this.output.firstElementChild.remove();
    }
    if (atEnd) this.output.scrollTop = this.output.scrollHeight;
    this.tell();
  }

  paint() {
    const text = this.search.value.toLowerCase();
    const found = text ? this.lines.filter((line) => line.toLowerCase().includes(text)) : this.lines;
    replace(this.output, found.map((line) => lineNode(line, text)));
    this.output.scrollTop = this.output.scrollHeight;
    this.found = text ? found.length : null;
    this.tell();
  }

  pause(on) {
    this.paused = on;
    if (!on) this.flush();
    this.tell();
  }

  end(text) {
    this.ended = text;
    this.tell();
  }

  tell() {
    const shown = this.search.value ? `${amount(this.found ?? 0)} of ${counted(this.lines.length, "line")}` : counted(this.lines.length, "line");
    this.state.textContent = [shown, this.paused && `paused, ${amount(this.waiting.length)} waiting`, this.ended].filter(Boolean).join(" · ");
  }
}

function lineNode(line, text = "") {
  const at = text ? line.toLowerCase().indexOf(text) : -1;
  if (at < 0) return h("span", { class: "log-line" }, `${line}\n`);
  return h("span", { class: "log-line" }, line.slice(0, at), h("mark", {}, line.slice(at, at + text.length)), `${line.slice(at + text.length)}\n`);
}
