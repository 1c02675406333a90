// What a user may do with an object: buttons, the question before each, the request, and its answer.

import { get, objectParts, path, post } from "../core/api.js";
import { kindName } from "../core/kinds.js";
import { token } from "../core/token.js";
import { h, replace, uniqueId } from "../core/view.js";
import { ask, field, toast } from "./dialog.js";
import { signIn } from "./sign_in.js";

const WORDS = {
  run: "Run now",
  suspend: "Suspend",
  resume: "Resume",
  pause: "Pause",
  unpause: "Unpause",
  replay: "Replay parked",
  drop: "Drop parked",
  delete: "Delete",
};
const MEANING = {
  suspend: "Nothing new is started until it is resumed. What runs goes on.",
  resume: "What was held back may start at once.",
  pause: "It stays as it is until it is unpaused.",
  unpause: "It follows its triggers again.",
  replay: "Every parked event gets a Job again, with its attempts counted anew.",
  drop: "Every parked event is given up. This cannot be undone.",
  delete: "The object and what it owns are deleted. This cannot be undone.",
};
const ALL_PARKED = { state: "parked" };
const PARAMETERS = { replay: ALL_PARKED, drop: ALL_PARKED };
const KINDS_WITHOUT_ACTIONS = new Set(["pods"]);

/** Sends an action. Returns the answer's text. Raises Problem. */
export async function act(object, action, parameters = {}) {
  const { done } = await post(path(["actions", ...objectParts(object), action]), { parameters });
  return done;
}

/** The buttons of an object. changed: called after an action was done. */
export function actionBar(object, { signal, changed }) {
  const node = h("div", { class: "actions", role: "group", "aria-label": "Actions" });
  if (KINDS_WITHOUT_ACTIONS.has(object.kind)) return node;
  const show = async () => {
    if (!token()) {
      replace(node, h("button", { type: "button", on: { click: () => signIn() } }, "Use a token to act"));
      return;
    }
    try {
      const allowed = await get(path(["actions", ...objectParts(object)]), { signal });
      replace(node, allowed.map((each) => button(object, each, changed)));
    } catch (error) {
      if (error.name !== "AbortError") replace(node, h("span", { class: "soft" }, error.message));
    }
  };
  document.addEventListener("token-changed", show, { signal });
  show();
  return node;
}

/** An action that is not allowed stays reachable, so that its reason is. */
function button(object, { action, allowed, reason }, changed) {
  const id = uniqueId("reason");
  const word = WORDS[action] ?? action;
  const name = action === "delete" || action === "drop" ? "danger quiet" : action === "run" ? "primary" : "";
  const click = async () => {
    if (!allowed) {
      toast(`${word}: ${reason}`, { failed: true });
      return;
    }
    const done = await question(object, action, PARAMETERS[action]);
    if (done) changed?.();
  };
  return h(
    "span",
    {},
    h("button", { type: "button", class: name, "aria-disabled": allowed ? null : "true", "aria-describedby": allowed ? null : id, title: allowed ? null : reason, on: { click } }, word),
    !allowed && h("span", { id, class: "unseen" }, reason),
  );
}

/** Asks before an action and does it. Returns true once it is done. parameters: given to the action. */
export async function question(object, action, parameters = {}, { title } = {}) {
  const word = WORDS[action] ?? action;
  const named = `${kindName(object.kind)} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;
  const form = action === "run" ? environmentForm() : action === "delete" ? nameForm(object.name) : null;
  const done = await ask({
    title: title ?? `${word}: ${named}`,
    confirm: title ? word.split(" ")[0] : word,
    danger: action === "delete" || action === "drop",
    content: [MEANING[action] && !title && h("p", {}, MEANING[action]), form?.node],
    submit: () => act(object, action, { ...parameters, ...form?.parameters() }),
  });
  if (done === null) return false;
  toast(done || `${word}: done`);
  return true;
}

function nameForm(name) {
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true });
  return {
    node: field(`Type the name ${name} to confirm`, input),
    parameters() {
      if (input.value !== name) throw new Error(`The name is ${name}`);
      return {};
    },
  };
}

/** Variables of the environment for one run. */
function environmentForm() {
  const rows = h("div", { class: "variables" });
  const add = (focused) => {
    const name = h("input", { type: "text", "aria-label": "Variable's name", placeholder: "NAME", autocomplete: "off", spellcheck: "false" });
    const value = h("input", { type: "text", "aria-label": "Variable's value", placeholder: "value", autocomplete: "off", spellcheck: "false" });
    const row = h("div", { class: "variable" }, name, value, h("button", { type: "button", class: "quiet", "aria-label": "Remove this variable", on: { click: () => row.remove() } }, "×"));
    rows.append(row);
    if (focused) name.focus();
  };
  add(false);
  return {
    node: h(
      "fieldset",
      {},
      h("legend", {}, "Variables of this run alone"),
      rows,
      h("button", { type: "button", class: "quiet", on: { click: () => add(true) } }, "Add a variable"),
    ),
    parameters() {
      const environment = {};
      for (const row of rows.children) {
        const [name, value] = [...row.querySelectorAll("input")].map((input) => input.value);
        if (name.trim()) environment[name.trim()] = value;
        else if (value) throw new Error(`The variable with the value ${value} needs a name`);
      }
      return Object.keys(environment).length ? { environment } : {};
    },
  };
}
