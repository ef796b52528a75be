// Groups of consumers and how far behind they are; and one of them, with a seek that is planned
// before it is applied.

import {
  Badge, BrokerLink, Card, Command, confirmed, count, effect, Empty, Failed, fetched, Field, h, Heading,
  PartitionLink, plural, render, signal, Table,
} from "../lib/kit.js";

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export const mount = (root, context) => (context.params.name ? mountOne : mountAll)(root, context);

/** What each state means. */
const BURROW = {
  OK: "keeps up",
  WARN: "falls behind while it commits",
  STALL: "commits the same offset although records wait",
  STOP: "has stopped to commit although records wait",
  REWIND: "went back to an earlier offset",
};
const SHOWN_MAX = 200;

function mountAll(root, context) {
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
  const unknown = all.filter((group) => !group.burrow).length;
  const behind = all.filter((group) => group.burrow && group.burrow !== "OK").length;
  const words = [plural(all.length, "group"), behind && `${behind} not well`, unknown && `${unknown} not known yet`];
  return (behind || unknown || !all.length ? words : [words[0], "all keep up"]).filter(Boolean).join(" · ");
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

function Burrow({ state }) {
  if (!state) return h("span", { class: "muted" }, "not known yet");
  return [h(Badge, { state }), h("small", null, ` ${BURROW[state] ?? ""}`)];
}

const TARGETS = { earliest: "the earliest", latest: "the end", offset: "an offset", time: "a time", ago: "a while ago" };

function mountOne(root, context) {
  const name = context.params.name;
  const path = `/api/groups/${encodeURIComponent(name)}`;
  context.title(name);
  const group = fetched(() => context.api.get(path));
  const seek = makeSeek(context, path, group.refresh);
  context.every(group.refresh, 2000);
  const stop = effect(() => render(root, group.show(`the group ${name}`, (data) => [
    h(Heading, { title: name, crumbs: h("a", { href: "/groups" }, "Groups"), facts: [
      h(Badge, { state: data.state }), ` ${plural(data.members?.length ?? 0, "member")} · coordinator `,
        h(BrokerLink, { id: data.coordinator }), ` · lag ${count(data.lag)} · `, h(Burrow, { state: data.burrow })] }),
    h(Card, { title: "Partitions", aside: `lag ${count(data.lag)}` }, h(Positions, { rows: data.partitions ?? [] })),
    h("div", { class: "columns" },
      h(Card, { title: "Members" }, h(Members, { members: data.members ?? [] })),
      context.session.may.admin && h(Seek, { seek, data })),
  ])));
  return { unmount: stop };
}

function Positions({ rows }) {
  return h(Table, { caption: "Committed offsets and lag", rows, rowKey: (row) => `${row.topic}-${row.partition}`,
    empty: h(Empty, { title: "This group has committed nothing" }, "Its offsets appear here after its first commit."), columns: [
      { name: "Partition", cell: (row) => h(PartitionLink, { name: `${row.topic}-${row.partition}` }) },
      { name: "Lag", number: true, cell: (row) => h("strong", null, count(row.lag)) },
      { name: "Committed", number: true, cell: (row) => count(row.committed) },
      { name: "End", number: true, cell: (row) => count(row.end) },
      { name: "Health", cell: (row) => (row.state ? h(Badge, { state: row.state, title: BURROW[row.state] }) : "–") },
      { name: "Member", wide: true,
        cell: (row) => (row.member ? [row.client ?? row.member, row.host && h("small", null, ` ${row.host}`)] : h("span", { class: "muted" }, "nobody")) },
    ] });
}

function Members({ members }) {
  return h(Table, { caption: "Members", rows: members, rowKey: (member) => member.member,
    empty: h(Empty, { title: "Nobody is in the group now" }, "Its committed offsets are kept. Start the consumer again, or move it with a seek."), columns: [
      { name: "Client", cell: (member) => member.client ?? "–" },
      { name: "Host", cell: (member) => member.host ?? "–" },
      { name: "Assigned", wide: true,
        cell: (member) => (member.partitions?.length ? member.partitions.join(", ") : h("span", { class: "muted" }, "nothing")) },
    ] });
}

function makeSeek(context, path, refresh) {
  const to = signal("earliest");
  const at = signal("");
  const topic = signal("");
  const plan = signal(null);
  const error = signal(null);
  const ask = async (apply) => {
    error.value = null;
    try {
      const answer = await context.api.post(`${path}/seek`, { to: target(to.peek(), at.peek()), topics: topic.peek() ? [topic.peek()] : [], apply });
      plan.value = answer.applied ? null : answer.plan;
      if (answer.applied) context.notify(`Moved ${plural(answer.plan.length, "partition")}.`);
      refresh();
    } catch (failure) {
      error.value = failure;
    }
  };
  return {
    to, at, topic, plan, error,
    plan_: () => ask(false),
    forget: () => { plan.value = null; error.value = null; },
    async apply() {
      const text = "Its members go on from the new offsets: records are read again, or skipped.";
      if (await confirmed({ title: "Move the group?", text, action: "Apply the plan" })) await ask(true);
    },
  };
}

/** In the grammar of the command line. */
function target(to, at) {
  if (to === "offset") return at;
  if (to === "ago") return `@-${at}`;
  return to === "time" ? `@${new Date(at).toISOString()}` : to;
}

function Seek({ seek, data }) {
  const topics = [...new Set((data.partitions ?? []).map((row) => row.topic))];
  const to = seek.to.value;
  const set = (field) => (event) => { field.value = event.target.value; seek.forget(); };
  const submit = (event) => { event.preventDefault(); seek.plan_(); };
  return h(Card, { title: "Seek", aside: "a plan first, then apply" }, h("div", { class: "card-body" },
    data.members?.length > 0 && h("p", { class: "warn-text" }, "The group is in use. Stop its members first, or the cluster refuses to move it."),
    h("form", { class: "form", onsubmit: submit },
      h(Field, { label: "Topic" }, h("select", { value: seek.topic.value, onchange: set(seek.topic) },
        h("option", { value: "" }, "all"), topics.map((name) => h("option", { value: name }, name)))),
      h(Field, { label: "Go to" }, h("select", { value: to,
        onchange: set(seek.to) }, Object.entries(TARGETS).map(([value, words]) => h("option", { value }, words)))),
      to === "offset" && h(Field, { label: "Offset" }, h("input", { value: seek.at.value,
        oninput: set(seek.at), inputmode: "numeric", pattern: "[0-9]+", required: true })),
      to === "time" && h(Field, { label: "Time" }, h("input", { type: "datetime-local", step: 1, value: seek.at.value,
        oninput: set(seek.at), required: true })),
      to === "ago" && h(Field, { label: "How long ago" }, h("input", { value: seek.at.value,
        oninput: set(seek.at), placeholder: "1h", pattern: "[0-9]+(ms|s|m|h|d)", required: true })),
      h("button", { type: "submit" }, "Show the plan")),
    seek.error.value && h(Failed, { error: seek.error.value }),
    seek.plan.value && h(Plan, { plan: seek.plan.value, apply: seek.apply })));
}

function Plan({ plan, apply }) {
  const moved = plan.filter((row) => row.from !== row.to).length;
  return [
    h("p", { role: "status" }, moved ? `${plural(moved, "partition")} would move.` : "Nothing would move: the group is already there."),
    h(Table, { caption: "The plan", rows: plan, rowKey: (row) => `${row.topic}-${row.partition}`, columns: [
      { name: "Partition", cell: (row) => `${row.topic}-${row.partition}` },
      { name: "From", number: true, cell: (row) => count(row.from) },
      { name: "To", number: true, cell: (row) => h("strong", null, count(row.to)) },
      { name: "What that means", wide: true, cell: (row) => row.note || moveWords(row) },
    ] }),
    moved > 0 && h("div", { class: "row end" }, h("button", { class: "danger", onclick: apply }, "Apply the plan")),
  ];
}

function moveWords(row) {
  if (row.from === null || row.from === row.to) return "";
  return row.to < row.from ? `reads ${plural(row.from - row.to, "record")} again` : `skips ${plural(row.to - row.from, "record")}`;
}
