// Server-sent events over fetch: unlike EventSource it tells why a connection ended, and it resumes
// where it stopped even after the server was away for long.

import { signal } from "./signal.js";

const RETRY_MS = [200, 500, 1000, 2000, 4000];
/** The server writes at least a comment every few seconds. Silence this long is a dead connection. */
const SILENCE_MS = 20_000;

/** @typedef {{event: string, data: any, id: string}} Message */

/**
 * Splits a stream of text into messages.
 * @param {(message: Message) => void} onMessage
 */
export function parser(onMessage) {
  let rest = "";
  let id = "";
  return (text) => {
    rest += text;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      let event = "message";
      const data = [];
      for (const line of block.split(/\r?\n/)) {
        const colon = line.indexOf(":");
        if (colon < 1) continue; // a comment keeps the connection alive
        const value = line.slice(colon + 1).replace(/^ /, "");
        const field = line.slice(0, colon);
        if (field === "event") event = value;
        else if (field === "id") id = value;
        else if (field === "data") data.push(value);
      }
      if (data.length) onMessage({ event, data: JSON.parse(data.join("\n")), id });
    }
  };
}

/**
 * One stream that comes back by itself.
 * @param {string} url
 * @param {(message: Message) => void} onMessage
 * @param {{onSignedOut?: () => void}} [more]
 */
export function openStream(url, onMessage, more = {}) {
  const state = signal("connecting");
  let lastId = "";
  let failures = 0;
  let closed = false;
  let attempt = new AbortController();
  let timer;

  async function connect() {
    attempt = new AbortController();
    const watchdog = { timer: 0 };
    const alive = () => {
      clearTimeout(watchdog.timer);
      watchdog.timer = setTimeout(() => attempt.abort(), SILENCE_MS);
    };
    try {
      alive();
      const headers = { Accept: "text/event-stream" };
      if (lastId) headers["Last-Event-ID"] = lastId;
      const answer = await fetch(url, { headers, signal: attempt.signal, cache: "no-store" });
      if (answer.status === 401) more.onSignedOut?.();
      if (answer.status === 400) lastId = ""; // a place that this server does not know: begin anew
      if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
      const feed = parser((message) => {
        if (closed) return;
        if (message.id) lastId = message.id;
        try {
          onMessage(message);
        } catch (error) {
          reportError(error); // a mistake of a page is no reason to connect again
        }
      });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      state.value = "open";
      failures = 0;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        alive();
        feed(value);
      }
    } catch {
      // Whatever ended it, the answer is the same: try again, later each time.
    } finally {
      clearTimeout(watchdog.timer);
    }
    if (closed) return;
    state.value = "reconnecting";
    timer = setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }

  const now = () => {
    if (state.peek() !== "reconnecting" || closed) return;
    clearTimeout(timer);
    connect();
  };
  addEventListener("online", now);
  connect();
  return {
    state,
    retry: now,
    close() {
      closed = true;
      clearTimeout(timer);
      removeEventListener("online", now);
      attempt.abort();
      state.value = "closed";
    },
  };
}
