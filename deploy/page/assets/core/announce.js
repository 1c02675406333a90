// Says something to users of screen readers, at most every two seconds: only the last of several texts.

let waiting = null;
let timer = null;

/** Says a text politely. */
export function announce(text) {
  const node = document.getElementById("announcer");
  if (timer) {
    waiting = text;
    return;
  }
  node.textContent = text;
  timer = setTimeout(() => {
    timer = null;
    if (waiting !== null) {
      const next = waiting;
      waiting = null;
      announce(next);
    }
  }, 2000);
}
