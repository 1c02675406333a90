// Modal dialogs: the browser keeps the focus inside, Escape closes them, and the focus returns.

import { h, uniqueId } from "../core/view.js";

/**
 * Opens a dialog and returns a promise: of `submit()`'s value once the user agreed and it did not throw, or of null when
 * it was closed. submit: may be asynchronous; the message of what it throws is shown and the dialog stays.
 */
export function ask({ title, content, confirm = "OK", cancel = "Cancel", danger = false, submit = () => true }) {
  const id = uniqueId("dialog");
  const failure = h("p", { class: "failure", role: "alert", hidden: true });
  const agree = confirm && h("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
  const dialog = h("dialog", { "aria-labelledby": id });
  return new Promise((resolve) => {
    let answer = null;
    const submitted = async (event) => {
      event.preventDefault();
      if (agree) agree.disabled = true;
      failure.hidden = true;
      try {
        answer = await submit();
        dialog.close();
      } catch (error) {
        failure.textContent = error.message;
        failure.hidden = false;
      } finally {
        if (agree) agree.disabled = false;
      }
    };
    dialog.append(
      h(
        "form",
        { on: { submit: submitted } },
        h("h2", { id }, title),
        content,
        failure,
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", on: { click: () => dialog.close() } }, cancel),
          agree,
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Returns a labelled input. input: the element; hint: a text below it. */
export function field(label, input, hint = null) {
  const id = uniqueId("field");
  const hintId = `${id}-hint`;
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", hintId);
  return h("p", { class: "field" }, h("label", { for: id }, label), input, hint && h("span", { id: hintId, class: "hint" }, hint));
}

/** Shows a text at the bottom for some seconds, and says it. */
export function toast(text, { failed = false } = {}) {
  let place = document.getElementById("toasts");
  if (!place) {
    place = h("div", { id: "toasts", class: "toasts", role: "status" });
    document.body.append(place);
  }
  const node = h("p", { class: failed ? "toast failed" : "toast" }, text);
  place.append(node);
  setTimeout(() => node.remove(), 8000);
}
