// What every page shares: who is signed in, how grave things are, what is announced.

import { signal } from "./signal.js";

/**
 * @typedef {{cluster: string, cluster_id: string, mode: "live" | "polled" | "sim", secure: boolean,
 *   user: string | null, may: {chaos: boolean, produce: boolean, admin: boolean},
 *   lab: "sim" | "cluster" | null, bootstrap_servers: string, csrf: string}} Session
 */

/** @type {import("./signal.js").Signal<Session | null>} */
export const session = signal(null);
/** @type {import("./signal.js").Signal<{severity: string, text: string}[]>} */
export const health = signal([]);
/** @type {import("./signal.js").Signal<{text: string, kind: string} | null>} */
export const notice = signal(null);

const ANNOUNCE_MS = 1000;
const WAITING_MAX = 4;
const waiting = [];
let speaking = false;

function speak() {
  const text = waiting.splice(0).join(". ");
  const live = document.getElementById("live");
  speaking = Boolean(text);
  if (!text || !live) return;
  live.textContent = text;
  setTimeout(speak, ANNOUNCE_MS);
}

/**
 * Tells those who do not see the page, at most once a second; of a burst the newest are kept.
 * @param {string} text
 */
export function announce(text) {
  if (waiting.at(-1) === text) return;
  waiting.push(text);
  if (waiting.length > WAITING_MAX) waiting.shift();
  if (!speaking) speak();
}

let noticeTimer;

/**
 * A short message at the foot of the page.
 * @param {string} text
 * @param {"ok" | "bad"} [kind]
 */
export function notify(text, kind = "ok") {
  notice.value = { text, kind };
  announce(text);
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { notice.value = null; }, kind === "bad" ? 12_000 : 6_000);
}

const THEMES = ["system", "light", "dark"];
export const theme = signal(document.documentElement.dataset.theme ?? "system");

/** System, light, dark, and round again. */
export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.peek()) + 1) % THEMES.length];
  const root = document.documentElement;
  if (theme.peek() === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.peek();
  try {
    localStorage.setItem("tidelog.theme", theme.peek());
  } catch {
    // Without storage the choice lasts until the page is left.
  }
}
