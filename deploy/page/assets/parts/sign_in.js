// The dialog that takes a bearer token.

import { get, path, Problem } from "../core/api.js";
import { forget, hold, token } from "../core/token.js";
import { h } from "../core/view.js";
import { ask, field, toast } from "./dialog.js";

let open = null;

/** Asks for a token. Returns true once one is held that the server accepted. why: said above the field. */
export function signIn(why = "") {
  open ??= dialog(why).finally(() => {
    open = null;
  });
  return open;
}

async function dialog(why) {
  const text = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const kept = h("input", { type: "checkbox" });
  const user = await ask({
    title: "Use a token",
    confirm: "Use it",
    content: [
      why && h("p", {}, why),
      h("p", { class: "soft" }, "Actions are done as the user of this token, with the permissions that the cluster gives it."),
      field("Bearer token", text, "For example the answer of: kubectl create token NAME"),
      h("p", {}, h("label", { class: "check" }, kept, " Keep it in this tab until the tab is closed")),
    ],
    submit: async () => {
      const given = text.value.trim();
      const session = await get(path(["session"]), { as: given }).catch((error) => {
        throw error.status === 401 ? new Problem(401, "The cluster does not accept this token") : error;
      });
      if (!session.user) throw new Problem(401, "The cluster does not accept this token");
      hold(given, { kept: kept.checked });
      return session.user;
    },
  });
  if (!user) return false;
  toast(`Actions are done as ${user}.`);
  document.dispatchEvent(new CustomEvent("token-changed", { detail: user }));
  return true;
}

/** Forgets the token after a question. */
export async function signOut(user) {
  const agreed = await ask({ title: "Forget the token", confirm: "Forget it", content: h("p", {}, `Actions are done as ${user}.`) });
  if (!agreed) return;
  forget();
  document.dispatchEvent(new CustomEvent("token-changed", { detail: null }));
}

/** Returns true if a token is held, after the question for one if need be. */
export const signedIn = async (why) => Boolean(token()) || signIn(why);
