// Server-sent events over fetch: unlike EventSource it sends a header with the token.

import { answered, authorization } from "./api.js";

/** Parses a stream of server-sent events. Feed it text in pieces of any size; it calls back with {type, data, id}. */
export class Parser {
  constructor(callback) {
    this.callback = callback;
    this.rest = "";
    this.id = null;
    this.clear();
  }

  clear() {
    this.type = "message";
    this.data = [];
  }

  feed(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      if (this.data.length) this.callback({ type: this.type, data: this.data.join("\n"), id: this.id });
      this.clear();
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "event") this.type = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
  }
}

/**
 * Reads a stream to its end. opened: called with the accepted answer. quiet: milliseconds without a byte after which the
 * connection counts as lost. Raises Problem, or AbortError at the signal.
 */
export async function follow(to, { signal, lastId, opened, received, quiet = 45_000 }) {
  const watchdog = new AbortController();
  const stop = () => watchdog.abort();
  signal.addEventListener("abort", stop, { once: true });
  let timer = setTimeout(stop, quiet);
  try {
    const headers = { Accept: "text/event-stream", ...authorization() };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const answer = await answered(to, { headers, signal: watchdog.signal });
    opened?.(answer);
    const parser = new Parser(received);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, quiet);
      parser.feed(value);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    stop();
  }
}
