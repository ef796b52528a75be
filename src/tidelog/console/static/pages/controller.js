// The metadata quorum: who leads it, what it decides, and why.

import {
  Badge, BrokerLink, Card, count, effect, Empty, Fact, fetched, Field, h, Heading, ids, PartitionLink, render,
  signal, Table,
} from "../lib/kit.js";

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Controller");
  const controller = fetched(() => context.api.get("/api/controller"));
  const search = signal("");
  context.every(controller.refresh, 1500);
  const stop = effect(() => render(root, controller.show("the controller", (data) => draw(data, search))));
  return { unmount: stop };
}

function draw(data, search) {
  const { quorum } = data;
  return [
    h(Heading, { title: "Controller", facts: "The metadata quorum decides about topics, leaders and ISRs. Its log is the cluster's memory." }),
    h("dl", { class: "facts-row" },
      h(Fact, { name: "Active controller", value: quorum.leader ?? "nobody", state: quorum.leader === null ? "bad" : "" }),
      h(Fact, { name: "Controller epoch", value: count(quorum.epoch) }),
      h(Fact, { name: "Committed up to", value: count(quorum.high_watermark) }),
      h(Fact, { name: "Voters", value: count(quorum.voters.length) }),
      h(Fact, { name: "Pending ISR proposals", value: count(data.pending_isr.length), state: data.pending_isr.length ? "warn" : "" })),
    h("div", { class: "columns" },
      h(Card, { title: "Quorum" }, h(Quorum, { quorum })),
      h(Card, { title: "Broker registrations" }, h(Registrations, { rows: data.registrations }))),
    h(Card, { title: "Pending ISR proposals" }, h(Pending, { rows: data.pending_isr })),
    h(Card, { title: "Metadata log" },
      h("div", { class: "toolbar" }, h(Field, { label: "Search the log", class: "grow" },
        h("input", { type: "search", placeholder: "orders, fenced, PartitionChange", value: search.value,
          oninput: (event) => { search.value = event.target.value; } }))),
      h(Log, { log: data.log, search: search.value })),
  ];
}

function Quorum({ quorum }) {
  const rows = [...quorum.voters, ...(quorum.observers ?? []).map((node) => ({ role: "observer", ...node }))];
  return h(Table, { caption: "Voters and observers", rows, rowKey: (node) => `${node.role === "observer" ? "o" : "v"}${node.id}`,
    columns: [
    { name: "Node", cell: (node) => h(BrokerLink, { id: node.id }) },
    { name: "Role", cell: (node) => [node.id === quorum.leader && h("span", { class: "crown", "aria-hidden": "true" }, "♛ "), node.role] },
    { name: "Log end", number: true, cell: (node) => count(node.log_end) },
    { name: "Lag", number: true, cell: (node) => count(node.lag) },
  ] });
}

function Registrations({ rows }) {
  return h(Table, { caption: "Broker registrations", rows, rowKey: (row) => row.broker,
    empty: h(Empty, { title: "No broker is registered" }, "A broker registers when it starts and finds the controller."),
      columns: [
      { name: "Broker", cell: (row) => h(BrokerLink, { id: row.broker }) },
      { name: "State", cell: (row) => h(Badge, { state: row.in_controlled_shutdown ? "stopping" : row.fenced ? "fenced" : "alive" }) },
      { name: "Broker epoch", number: true, cell: (row) => count(row.broker_epoch) },
      { name: "Endpoints", cell: (row) => h("span", { class: "mono" }, row.endpoints.join(" ")) },
    ] });
}

function Pending({ rows }) {
  return h(Table, { caption: "Pending ISR proposals", rows, rowKey: (row) => row.partition,
    empty: h(Empty, { title: "No leader waits for an answer" }, "When a leader wants to change an ISR, its proposal stands here until the controller has committed it."), columns: [
      { name: "Partition", cell: (row) => h(PartitionLink, { name: row.partition }) },
      { name: "Leader", cell: (row) => h(BrokerLink, { id: row.broker }) },
      { name: "ISR", cell: (row) => ids(row.isr) },
      { name: "Proposed", cell: (row) => ids(row.proposed) },
    ] });
}

/** The newest first. */
function Log({ log, search }) {
  const wanted = search.toLowerCase();
  // Records that only keep an idle log moving hide the ones that mean something.
  const told = wanted ? log : log.filter((entry) => entry.record !== "NoOp");
  const rows = told.filter((entry) => `${entry.record} ${entry.meaning}`.toLowerCase().includes(wanted)).sort((a, b) => b.offset - a.offset);
  return h(Table, { caption: "Metadata log, the newest first", rows, rowKey: (entry) => entry.offset,
    empty: h(Empty, { title: wanted ? `No record mentions “${search}”` : "The log is not known" }, wanted ? "The last 200 records were searched." : "Only Tidelog's controllers tell what is in it."), columns: [
      { name: "Offset", number: true, cell: (entry) => count(entry.offset) },
      { name: "Epoch", number: true, cell: (entry) => count(entry.epoch) },
      { name: "Record", cell: (entry) => h("span", { class: "mono" }, entry.record) },
      { name: "Meaning", wide: true, cell: (entry) => entry.meaning },
    ] });
}
