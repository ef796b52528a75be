// Groups of consumers and how far behind they are.

import { h, render } from "../lib/dom.js";
import { fetched } from "../lib/fetched.js";
import { count, plural } from "../lib/format.js";
import { effect, signal } from "../lib/signal.js";
import { Badge, BrokerLink, Card, Command, Empty, Field, Heading, Table } from "../lib/widgets.js";

/** What each state means. */
export const BURROW = {
  OK: "keeps up",
  WARN: "falls behind while it commits",
  STALL: "commits the same offset although records wait",
  STOP: "has stopped to commit although records wait",
  REWIND: "went back to an earlier offset",
};
const SHOWN_MAX = 200;

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Groups");
  const search = signal(context.query.get("search") ?? "");
  const groups = fetched(() => context.api.get("/api/groups"));
  context.every(groups.refresh, 2000);
  const stop = effect(() => render(root,
    h(Heading, { title: "Groups", facts: groups.data.value ? summary(groups.data.value) : null }),
    h(Card, null,
      h("div", { class: "toolbar" }, h(Field, { label: "Search by name", class: "grow" },
        h("input", { type: "search", value: search.value, placeholder: "billing",
          oninput: (event) => { search.value = event.target.value; } }))),
      groups.show("groups", (data) => list(data, search.value)))));
  return { unmount: stop };
}

function summary(all) {
  const behind = all.filter((group) => group.burrow && group.burrow !== "OK").length;
  return `${plural(all.length, "group")} · ${behind ? `${behind} not well` : "all keep up"}`;
}

function list(all, search) {
  const found = all.filter((group) => group.group.includes(search));
  const empty = search
    ? h(Empty, { title: `No group has “${search}” in its name` }, "Clear the field to see all.")
    : h(Empty, { title: "No group reads from this cluster" }, "Start one: ",
      h(Command, { command: "tidelog consume orders --group billing" }));
  return [
    h(Table, { caption: "Groups", rows: found.slice(0, SHOWN_MAX), rowKey: (group) => group.group, empty, columns: [
      { name: "Group", cell: (group) => h("a", { href: `/groups/${encodeURIComponent(group.group)}` }, group.group) },
      { name: "Lag", number: true, cell: (group) => count(group.lag) },
      { name: "Health", cell: (group) => h(Burrow, { state: group.burrow }) },
      { name: "State", cell: (group) => h(Badge, { state: group.state }) },
      { name: "Members", number: true, cell: (group) => count(group.members?.length ?? group.members) },
      { name: "Type", cell: (group) => group.type ?? "–" },
      { name: "Coordinator", number: true, cell: (group) => h(BrokerLink, { id: group.coordinator }) },
    ] }),
    found.length > SHOWN_MAX && h("p", { class: "pager" }, `The first ${SHOWN_MAX} of ${count(found.length)}: search for the others.`),
  ];
}

export function Burrow({ state }) {
  if (!state) return h("span", { class: "muted" }, "not known yet");
  return [h(Badge, { state }), h("small", null, ` ${BURROW[state] ?? ""}`)];
}
