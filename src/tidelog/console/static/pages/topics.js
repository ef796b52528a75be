// All topics: found on the server, page by page, with the lag of who reads them.

import { withQuery } from "../lib/api.js";
import { h, render } from "../lib/dom.js";
import { fetched } from "../lib/fetched.js";
import { bytes, count, plural, rate } from "../lib/format.js";
import { effect, signal } from "../lib/signal.js";
import { Badge, Card, Command, Empty, Field, Heading, Pager, Table, confirmed } from "../lib/widgets.js";

const TYPING_MS = 200;

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
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
    { name: "Size", number: true, cell: (topic) => bytes(topic.bytes) },
    { name: "In", number: true, cell: (topic) => rate(topic.in_rate) },
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

export function configsOf(text) {
  const configs = {};
  for (const line of text.split("\n").map((part) => part.trim()).filter(Boolean)) {
    const equals = line.indexOf("=");
    if (equals < 1) throw { message: `“${line}” is not name=value.`, hint: "" };
    configs[line.slice(0, equals).trim()] = line.slice(equals + 1).trim();
  }
  return configs;
}
