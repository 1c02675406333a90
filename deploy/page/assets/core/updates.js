// The stream of changes for the present view: opened again when it drops, closed while the tab is hidden.

import { path } from "./api.js";
import { follow } from "./event_stream.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;

/** Tells the page's frame of the connection: `live`, `connecting`, `lost` or `hidden`. */
function tell(state) {
  document.dispatchEvent(new CustomEvent("connection", { detail: state }));
}

/**
 * Watches topics until the signal. handlers: functions by type of message (`row`, `gone`, `decision`, `point`,
 * `pipeline`), each called with the message's value, and `resync`, called when messages may have been missed.
 */
export async function watch(topics, handlers, signal) {
  if (!topics.length) return;
  let pause = FIRST_PAUSE;
  let lastId = null;
  let opened = false;
  const received = ({ type, data, id }) => {
    if (id) lastId = id;
    if (type === "hello") {
      if (opened && !JSON.parse(data).resumed) handlers.resync?.();
      opened = true;
      pause = FIRST_PAUSE;
      tell("live");
    } else {
      handlers[type]?.(JSON.parse(data));
    }
  };
  tell("connecting");
  while (!signal.aborted) {
    await visible(signal);
    const attempt = new AbortController();
    const hide = () => document.hidden && attempt.abort();
    const end = () => attempt.abort();
    document.addEventListener("visibilitychange", hide);
    signal.addEventListener("abort", end, { once: true });
    try {
      await follow(path(["updates"], { topic: topics }), { signal: attempt.signal, lastId, received });
    } catch (error) {
      if (!(error.name === "Problem" || error.name === "AbortError" || error instanceof TypeError)) console.error(error);
    } finally {
      document.removeEventListener("visibilitychange", hide);
      signal.removeEventListener("abort", end);
    }
    if (signal.aborted) return;
    tell(document.hidden ? "hidden" : "lost");
    if (!document.hidden) await elapsed(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

function visible(signal) {
  if (!document.hidden) return Promise.resolve();
  return until(signal, (resolve) => {
    const seen = () => !document.hidden && resolve();
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  });
}

function elapsed(milliseconds, signal) {
  return until(signal, (resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    return () => clearTimeout(timer);
  });
}

function until(signal, begin) {
  return new Promise((resolve) => {
    let end = () => {};
    const finish = () => {
      end();
      resolve();
    };
    signal.addEventListener("abort", finish, { once: true });
    end = begin(finish);
  });
}
