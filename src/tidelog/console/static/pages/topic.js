// One topic: its partitions, records, a form to produce, configs and groups.

import { h, render } from "../lib/dom.js";
import { fetched } from "../lib/fetched.js";
import { bytes, count, plural } from "../lib/format.js";
import { effect, signal, untracked } from "../lib/signal.js";
import { Badge, Card, Command, Empty, Field, Heading, Table, Tabs, confirmed } from "../lib/widgets.js";
import { Configs, PartitionTable } from "../lib/tables.js";
import { configsOf } from "./topics.js";
import { mountRecords } from "./records.js";

const TABS = { partitions: "Partitions", records: "Records", produce: "Produce", configs: "Configs", groups: "Groups" };

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
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
