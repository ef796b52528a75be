// All topics, found on the server page by page; and one of them: its partitions, records, a form to
// produce, configs and groups.

import { withQuery } from "../lib/api.js";
import {
  Badge, bytes, Card, Command, Configs, confirmed, count, effect, Empty, fetched, Field, h, Heading, Pager,
  PartitionTable, plural, rate, render, signal, Table, Tabs, untracked,
} from "../lib/kit.js";
import { mountRecords } from "./records.js";

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export const mount = (root, context) => (context.params.name ? mountOne : mountAll)(root, context);

const TYPING_MS = 200;

function mountAll(root, context) {
  context.title("Topics");
  const search = signal(context.query.get("search") ?? "");
  const page = signal(Number(context.query.get("page")) || 1);
  const creating = signal(context.query.has("create"));
  const topics = fetched(() => context.api.get(withQuery("/api/topics", { search: search.peek(), page: page.peek() })));
  const look = () => {
    history.replaceState(null, "", withQuery("/topics", { search: search.peek(), page: page.peek() > 1 ? page.peek() : "" }));
    return topics.refresh();
  };
  let typing;
  const find = (event) => {
    search.value = event.target.value;
    page.value = 1;
    clearTimeout(typing);
    typing = setTimeout(look, TYPING_MS);
  };
  const go = (next) => { page.value = next; look(); };
  const remove = async (name) => {
    const text = "All its records are deleted on every broker. This cannot be taken back.";
    if (!await confirmed({ title: `Delete ${name}?`, text, action: "Delete the topic", typed: name })) return;
    await context.attempt(() => context.api.delete(`/api/topics/${encodeURIComponent(name)}`), `Topic ${name} is deleted.`);
    topics.refresh();
  };
  const may = context.session.may;
  context.onKey("n", "create a topic", () => { if (may.admin) creating.value = true; });
  context.every(topics.refresh, 3000);
  const stop = effect(() => render(root,
    h(Heading, { title: "Topics", facts: topics.data.value ? plural(topics.data.value.total, "topic") : null },
      may.admin && h("button", { class: "primary",
        onclick: () => { creating.value = !creating.peek(); }, "aria-expanded": String(creating.value) }, "Create a topic ",
        h("kbd", null, "n"))),
    creating.value && h(CreateForm, { context, done: (name) => { creating.value = false; if (name) context.navigate(`/topics/${encodeURIComponent(name)}`); } }),
    h(Card, null,
      h("div", { class: "toolbar" }, h(Field, { label: "Search by name", class: "grow" },
        h("input", { type: "search", value: search.value, oninput: find, placeholder: "orders",
          ref: (field) => { if (context.query.get("focus")) field.focus(); } }))),
      topics.show("topics", (data) => [
        h(TopicTable, { data, search: search.value, remove: may.admin ? remove : null }),
        h(Pager, { page: page.value, size: data.per_page, total: data.total, go }),
      ]))));
  return { unmount: () => { clearTimeout(typing); stop(); } };
}

function TopicTable({ data, search, remove }) {
  const empty = search
    ? h(Empty, { title: `No topic has “${search}” in its name` }, "Search for less, or clear the field to see all.")
    : h(Empty, { title: "There are no topics yet" }, "Create one here, or in a terminal: ",
      h(Command, { command: "tidelog topic create orders --partitions 3" }));
  return h(Table, { caption: "Topics", rows: data.topics, rowKey: (topic) => topic.name, empty, columns: [
    { name: "Topic", cell: (topic) => [h("a", { href: `/topics/${encodeURIComponent(topic.name)}` }, topic.name), topic.internal && h("small", null, " internal")] },
    { name: "State", cell: (topic) => h(Badge, { state: topic.state }) },
    { name: "Partitions", number: true, cell: (topic) => [count(topic.partitions),
      h("small", null, ` × ${topic.replication_factor}`)] },
    { name: "Records", number: true, cell: (topic) => count(topic.records) },
    { name: "Size", number: true, optional: true, cell: (topic) => bytes(topic.bytes) },
    { name: "In", number: true, optional: true, cell: (topic) => rate(topic.in_rate) },
    { name: "Groups and their lag", wide: true, cell: (topic) => h(Lags, { groups: topic.groups }) },
    remove && { name: h("span", { class: "unseen" }, "Delete"), number: true,
      cell: (topic) => !topic.internal && h("button", { class: "quiet small danger", "aria-label": `Delete ${topic.name}`,
      onclick: () => remove(topic.name) }, "Delete") },
  ].filter(Boolean) });
}

function Lags({ groups }) {
  if (!groups?.length) return h("span", { class: "muted" }, "none");
  return groups.map((group, index) => [index ? ", " : "",
    h("a", { href: `/groups/${encodeURIComponent(group.group)}` }, group.group), h("small", null, ` ${count(group.lag)}`)]);
}

function CreateForm({ context, done }) {
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const name = String(form.get("name"));
    const button = event.target.querySelector("[type=submit]");
    button.disabled = true;
    const made = await context.attempt(async () => context.api.post("/api/topics", {
      name,
      partitions: Number(form.get("partitions")),
      replication_factor: Number(form.get("replicas")) || null,
      configs: configsOf(String(form.get("configs"))),
    }), `Topic ${name} is created.`);
    button.disabled = false;
    if (made) done(name);
  };
  return h(Card, { title: "Create a topic" }, h("form", { class: "card-body form", onsubmit: submit },
    h(Field, { label: "Name", hint: "Letters, digits, dot, dash, underscore" },
      h("input", { name: "name", required: true, maxlength: 249, pattern: "[A-Za-z0-9._\\-]+", autocomplete: "off", spellcheck: "false", ref: (field) => field.focus() })),
    h(Field, { label: "Partitions", hint: "Can grow later, never shrink" },
      h("input", { name: "partitions", type: "number", min: 1, max: 10000, value: "3", required: true })),
    h(Field, { label: "Replication factor", hint: "Copies of each partition" },
      h("input", { name: "replicas", type: "number", min: 1, max: 99, placeholder: "the default" })),
    h(Field, { label: "Configs, one name=value a line", class: "span" },
      h("textarea", { name: "configs", placeholder: "retention.ms=86400000\nmin.insync.replicas=2", spellcheck: "false" })),
    h("div", { class: "row span" }, h("button", { class: "primary", type: "submit" }, "Create"), h("button", { type: "button",
      onclick: () => done(null) }, "Cancel"))));
}

function configsOf(text) {
  const configs = {};
  for (const line of text.split("\n").map((part) => part.trim()).filter(Boolean)) {
    const equals = line.indexOf("=");
    if (equals < 1) throw { message: `“${line}” is not name=value.`, hint: "" };
    configs[line.slice(0, equals).trim()] = line.slice(equals + 1).trim();
  }
  return configs;
}

const TABS = { partitions: "Partitions", records: "Records", produce: "Produce", configs: "Configs", groups: "Groups" };

function mountOne(root, context) {
  const name = context.params.name;
  const path = `/topics/${encodeURIComponent(name)}`;
  context.title(name);
  const may = context.session.may;
  const tabs = may.produce ? TABS : withoutProduce();
  const wanted = context.query.get("tab") ?? "partitions";
  const tab = signal(wanted in tabs ? wanted : "partitions");
  const topic = fetched(() => context.api.get(`/api${path}`));
  const go = (next) => {
    tab.value = next;
    history.replaceState(null, "", next === "partitions" ? path : `${path}?tab=${next}`);
  };
  const remove = async () => {
    const text = "All its records are deleted on every broker. This cannot be taken back.";
    if (!await confirmed({ title: `Delete ${name}?`, text, action: "Delete the topic", typed: name })) return;
    if (await context.attempt(() => context.api.delete(`/api${path}`), `Topic ${name} is deleted.`)) context.navigate("/topics");
  };
  const recordsRoot = document.createElement("div");
  let leaveRecords = () => {};
  const stopRecords = effect(() => {
    leaveRecords();
    leaveRecords = tab.value === "records" ? untracked(() => mountRecords(recordsRoot, context, name)) : () => {};
  });
  if (may.produce) context.onKey("n", "produce a record", () => go("produce"));
  context.every(topic.refresh, 2000);
  const stop = effect(() => render(root, topic.show(name, (data) => [
    h(Heading, { title: name, facts: facts(data), crumbs: h("a", { href: "/topics" }, "Topics") },
      may.admin && !data.internal && h("button", { class: "danger", onclick: remove }, "Delete")),
    h(Tabs, { label: "Parts of the topic", tabs, active: tab.value, go }),
    h("div", { role: "tabpanel", "aria-label": TABS[tab.value], key: tab.value }, panel(tab.value, data, context, recordsRoot)),
  ])));
  return { unmount: () => { stop(); stopRecords(); leaveRecords(); } };
}

function withoutProduce() {
  const { produce: _, ...rest } = TABS;
  return rest;
}

function facts(data) {
  const records = data.partitions.reduce((sum, row) => sum + Math.max(0, row.high_watermark - row.log_start), 0);
  const size = data.partitions.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
  const first = data.partitions[0];
  return `${plural(data.partitions.length, "partition")} · replication factor ${first?.replicas.length ?? 0} · min ISR ${first?.min_isr ?? "–"} · ${plural(records, "record")} · ${bytes(size)}`;
}

function panel(name, data, context, recordsRoot) {
  switch (name) {
    case "records": return h("div", { opaque: true, ref: (place) => place.append(recordsRoot) });
    case "produce": return h(ProduceForm, { data, context });
    case "configs": return h(Card, null, h(Configs, { configs: data.configs }));
    case "groups": return h(Card, null, h(Groups, { groups: data.groups }));
    default: return h(Card, null, h(PartitionTable, { rows: data.partitions, caption: `Partitions of ${data.name}` }));
  }
}

function Groups({ groups }) {
  return h(Table, { caption: "Groups that read this topic", rows: groups, rowKey: (group) => group.group,
    empty: h(Empty, { title: "No group has read this topic" }, "Start one: ",
      h(Command, { command: "tidelog consume TOPIC --group billing" })), columns: [
      { name: "Group", cell: (group) => h("a", { href: `/groups/${encodeURIComponent(group.group)}` }, group.group) },
      { name: "State", cell: (group) => (group.state ? h(Badge, { state: group.state }) : "–") },
      { name: "Lag", number: true, cell: (group) => count(group.lag) },
    ] });
}

function ProduceForm({ data, context }) {
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const partition = String(form.get("partition"));
    await context.attempt(async () => {
      const written = await context.api.post("/api/records", {
        topic: data.name,
        partition: partition === "" ? null : Number(partition),
        key: form.get("key") === "" ? null : form.get("key"),
        value: form.has("tombstone") ? null : form.get("value"),
        headers: Object.entries(configsOf(String(form.get("headers")))),
      });
      context.notify(`Written to ${data.name}-${written.partition} at offset ${written.offset}.`);
    });
  };
  return h(Card, { title: "Produce a record", aside: "with acks=all" }, h("form", { class: "card-body form", onsubmit: submit },
    h(Field, { label: "Partition" }, h("select", { name: "partition" }, h("option", { value: "" }, "by key"),
      data.partitions.map((row) => h("option", { value: String(row.partition) }, String(row.partition))))),
    h(Field, { label: "Key, empty for none" }, h("input", { name: "key", autocomplete: "off", spellcheck: "false" })),
    h(Field, { label: "Value", class: "span" },
      h("textarea", { name: "value", spellcheck: "false", placeholder: '{"order": 17, "amount": 12.5}' })),
    h(Field, { label: "Headers, one name=value a line", class: "span" }, h("textarea", { name: "headers", spellcheck: "false" })),
    h("label", { class: "check span" },
      h("input", { type: "checkbox", name: "tombstone" }), "Write a tombstone: no value, the key is forgotten when the log is compacted"),
    h("div", { class: "row span" }, h("button", { class: "primary", type: "submit" }, "Produce"))));
}
