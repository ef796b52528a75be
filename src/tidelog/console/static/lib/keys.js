// Keys of the console: pages name what a key does, people may give it another key.

import { signal } from "./signal.js";

const STORED = "tidelog.keys";
const SEQUENCE_MS = 1500;
const NAMES = { " ": "space", ArrowRight: "→", ArrowLeft: "←", ArrowUp: "↑", ArrowDown: "↓", Escape: "esc" };

/** @typedef {{key: string, label: string, perform: () => void, everywhere: boolean}} Action */

/** @param {string} key */
export const keyName = (key) => NAMES[key] ?? (key.length === 1 ? key : key.toLowerCase());

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}");
  } catch {
    return {};
  }
}

/** Typing into a field, or working a control with its own keys, is not a command. */
function isTyping(target, name) {
  if (target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return true;
  if (target.closest?.("dialog") && name !== "?") return true;
  return (name === "space" || name === "enter") && target.closest?.("button, a, summary, input") != null;
}

export function makeKeys() {
  /** @type {Map<string, Action>} by label */
  const actions = new Map();
  /** Label → the key that was chosen instead. */
  let chosen = stored();
  const version = signal(0);
  let typed = "";
  let typedAt = 0;

  const keyOf = (action) => chosen[action.label] ?? action.key;

  function save() {
    try {
      localStorage.setItem(STORED, JSON.stringify(chosen));
    } catch {
      // Without storage the choice lasts until the page is left.
    }
    version.value += 1;
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || chosen.off) return;
    const name = keyName(event.key);
    if (event.defaultPrevented || event.key === "Shift" || isTyping(event.target, name)) return;
    const sequence = typed && event.timeStamp - typedAt < SEQUENCE_MS ? `${typed} ${name}` : name;
    const all = [...actions.values()];
    const found = all.find((action) => keyOf(action) === sequence) ?? all.find((action) => keyOf(action) === name);
    typed = all.some((action) => keyOf(action).startsWith(`${name} `)) ? name : "";
    typedAt = event.timeStamp;
    if (!found) return;
    event.preventDefault();
    typed = "";
    found.perform();
  });

  return {
    version,
    add(key, label, perform, everywhere = false) {
      const action = { key, label, perform, everywhere };
      actions.set(label, action);
      version.value += 1;
      return () => {
        if (actions.get(label) === action) actions.delete(label);
        version.value += 1;
      };
    },
    list: () =>
      [...actions.values()].map((action) => ({
        key: keyOf(action),
        label: action.label,
        everywhere: action.everywhere,
        changed: action.label in chosen,
      })),
    /** Who else has this key now. */
    taken: (key, label) =>
      [...actions.values()].find((action) => action.label !== label && keyOf(action) === key)?.label,
    remap(label, key) {
      chosen = { ...chosen, [label]: key };
      save();
    },
    reset() {
      chosen = {};
      save();
    },
    areOff: () => Boolean(chosen.off),
    switchOff(off) {
      const { off: _, ...rest } = chosen;
      chosen = off ? { ...rest, off: "yes" } : rest;
      save();
    },
  };
}
