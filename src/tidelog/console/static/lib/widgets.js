// The parts that pages are made of.

import { h, render } from "./dom.js";
import { duration } from "./format.js";

/** What a state is called, and how grave it is. */
const GRAVITY = {
  healthy: "ok", alive: "ok", ok: "ok", OK: "ok", Stable: "ok", committed: "ok", leader: "ok",
  "under-replicated": "warn", warn: "warn", WARN: "warn", STALL: "warn", REWIND: "warn", fenced: "warn",
  paused: "warn", open: "warn", PreparingRebalance: "warn", CompletingRebalance: "warn",
  Assigning: "warn", Reconciling: "warn", stopping: "warn",
  "under-min-isr": "bad", offline: "bad", bad: "bad", down: "bad", STOP: "bad", aborted: "bad",
};

/** A word with its colour; the word says it all. */
export function Badge({ state, children, title }) {
  const words = children?.length ? children : [state];
  return h("span", { class: `badge ${GRAVITY[state] ?? "plain"}`, title }, words);
}

/** The head of a page. */
export function Heading({ title, facts, children, crumbs }) {
  return h("header", { class: "page-head" },
    h("div", null,
      crumbs && h("p", { class: "crumbs" }, crumbs),
      h("h1", null, title),
      facts && h("p", { class: "facts" }, facts)),
    h("div", { class: "actions" }, children));
}

/** */
export function Card({ title, aside, children, ...more }) {
  return h("section", { ...more, class: `card ${more.class ?? ""}` },
    (title || aside) && h("div", { class: "card-head" }, title && h("h2", null, title), h("div", { class: "aside" }, aside)),
    children);
}

/** A card whose content keeps off its edges. */
export const Panel = ({ children, ...more }) =>
  h(Card, more, h("div", { class: more.title ? "card-body" : "card-body top" }, children));

/** A number with its name. */
export function Fact({ name, value, more, state }) {
  return h("div", { class: `fact ${state ?? ""}` },
    h("dt", null, name), h("dd", null, value, more && h("small", null, more)));
}

/**
 * A table that scrolls inside itself when the screen is small.
 * Columns: `{name, cell(row), number?, wide?, optional?}`; an optional one is left out if nothing in
 * it is known.
 * @param {any} props
 */
export function Table({ caption, columns, rows, rowKey, rowClass, empty }) {
  if (!rows.length && empty) return empty;
  columns = columns.filter((column) => !column.optional || rows.some((row) => column.cell(row) !== "–"));
  return h("div", { class: "table-wrap", tabindex: 0, role: "region", "aria-label": caption },
    h("table", null,
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, columns.map((column) =>
        h("th", { scope: "col", class: kind(column), title: column.title }, column.name)))),
      h("tbody", null, rows.map((row, index) =>
        h("tr", { key: rowKey ? rowKey(row) : index, class: rowClass?.(row) }, columns.map((column) =>
          h("td", { class: kind(column) }, column.cell(row))))))));
}

const kind = (column) => (column.number ? "number" : column.wide ? "wide" : null);

/** Nothing there yet: what that means and what to do. */
export function Empty({ title, children }) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("div", null, children));
}

/** */
export function Loading({ what = "" }) {
  return h("div", { class: "loading", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }), `Loading ${what}…`);
}

/** What went wrong, what to try, and a way to try again. */
export function Failed({ error, retry }) {
  return h("div", { class: "failed", role: "alert" },
    h("p", { class: "empty-title" }, error.message ?? String(error)),
    error.hint && h("p", null, "Try: ", h(Words, { text: error.hint })),
    retry && h("button", { onclick: retry }, "Try again"));
}

/** Plain words in which `this` is code. */
export function Words({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

/** A command to copy. */
export function Command({ command, what = command }) {
  return h("span", { class: "command" }, h("code", null, command),
    h("button", {
      class: "quiet small", type: "button", "aria-label": `Copy ${what}`,
      onclick: async (event) => {
        const button = event.currentTarget;
        const done = await navigator.clipboard?.writeText(command).then(() => true, () => false);
        button.textContent = done ? "copied" : "not allowed";
        setTimeout(() => { button.firstChild.data = "copy"; }, 1500);
      },
    }, "copy"));
}

/** */
export function Field({ label, hint, children, ...more }) {
  return h("label", { ...more, class: `field ${more.class ?? ""}` },
    h("span", { class: "label" }, label), children, hint && h("small", null, hint));
}

/** Pages of a list that the server keeps. */
export function Pager({ page, size, total, go }) {
  const last = Math.max(1, Math.ceil(total / size));
  if (last === 1) return null;
  return h("nav", { class: "pager", "aria-label": "Pages of the list" },
    h("button", { disabled: page <= 1, onclick: () => go(page - 1) }, "Previous"),
    h("span", null, `page ${page} of ${last}`),
    h("button", { disabled: page >= last, onclick: () => go(page + 1) }, "Next"));
}

/** Parts of a page, one at a time; arrow keys move between them. */
export function Tabs({ label, tabs, active, go }) {
  const names = Object.keys(tabs);
  return h("div", { class: "tabs", role: "tablist", "aria-label": label,
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = names[(names.indexOf(active) + step + names.length) % names.length];
      go(next);
      event.currentTarget.querySelector(`[data-tab=${next}]`)?.focus();
    } },
    names.map((name) => h("button", { role: "tab", "data-tab": name, "aria-selected": String(name === active),
      tabindex: name === active ? 0 : -1, onclick: () => go(name) }, tabs[name])));
}

/** How long something has lasted. */
export const since = (sinceMs) => (sinceMs ? duration(Math.max(0, Date.now() - sinceMs)) : "");

/** A partition's name that leads to its picture. */
export const PartitionLink = ({ name }) => h("a", { href: `/p/${encodeURIComponent(name)}` }, name);

/** @param {{id: number | null | undefined}} props */
export const BrokerLink = ({ id }) =>
  id === null || id === undefined || id < 0 ? "nobody" : h("a", { href: `/b/${id}` }, String(id));

/** Leader with the crown; hollow when another is preferred. */
export function Leader({ row }) {
  if (row.leader === undefined) return "–";
  if (row.leader === null || row.leader < 0) return h("span", { class: "bad-text" }, "nobody");
  const preferred = row.leader === row.preferred;
  return [h("span", { "aria-hidden": "true", class: "crown" }, preferred ? "♛" : "♕"), " ", h(BrokerLink, { id: row.leader }),
    !preferred && h("small", null, ` pref. ${row.preferred}`)];
}

/** Replicas in order, those outside the ISR struck through and said so. */
export function Replicas({ row }) {
  return (row.replicas ?? []).map((id, index) => {
    const inSync = row.isr.includes(id);
    return [index ? " " : "",
      h("span", { class: inSync ? "replica" : "replica out", title: inSync ? `broker ${id} is in the ISR` : `broker ${id} is not in the ISR` },
      String(id), !inSync && h("span", { class: "unseen" }, " not in the ISR"))];
  });
}

/**
 * Asks before something that cannot be taken back. With `typed`, that name has to be written.
 * @param {{title: string, text: any, action: string, typed?: string}} question
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, action, typed }) {
  const dialog = document.createElement("dialog");
  document.body.append(dialog);
  return new Promise((resolve) => {
    let written = "";
    const draw = () => render(dialog, h("form", { method: "dialog", class: "stack",
      onsubmit: (event) => { if (typed && written !== typed) event.preventDefault(); } },
      h("h2", { id: "dialog-title" }, title),
      h("p", null, text),
      typed && h(Field, { label: ["Write ", h("code", null, typed), " to confirm"] },
        h("input", { autocomplete: "off", spellcheck: "false", oninput: (event) => { written = event.target.value; draw(); } })),
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => dialog.close("no") }, "Cancel"),
        h("button", { class: "danger", value: "yes", disabled: Boolean(typed) && written !== typed }, action))));
    draw();
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.onclose = () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    };
    dialog.showModal();
  });
}
