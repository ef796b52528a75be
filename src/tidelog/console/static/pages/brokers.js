// All brokers and how evenly they lead; and one of them: what it holds, leads and is asked for.

import {
  Badge, BrokerLink, BrokerTable, bytes, Card, Command, Configs, count, effect, Empty, Fact, fetched, h,
  Heading, PartitionLink, PartitionTable, percent, plural, render, signal, since, Table,
} from "../lib/kit.js";

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export const mount = (root, context) => (context.params.id ? mountOne : mountAll)(root, context);

function mountAll(root, context) {
  context.title("Brokers");
  const brokers = fetched(() => context.api.get("/api/brokers"));
  const plan = signal(null);
  const show = () => context.attempt(async () => { plan.value = await context.api.get("/api/balance"); });
  const apply = () => context.attempt(async () => {
    const { moved, failed } = await context.api.post("/api/balance", {});
    plan.value = null;
    context.notify([`Moved ${plural(moved, "leadership")}.`, ...failed].join(" "), failed.length ? "bad" : "ok");
    brokers.refresh();
  });
  context.stream.watch("overview", {
    node: ({ node, state }) => {
      const known = brokers.data.peek();
      if (known) brokers.data.value = known.map((broker) => (broker.id === node ? { ...broker, state } : broker));
    },
  });
  context.every(brokers.refresh, 2000);
  const stop = effect(() => render(root, brokers.show("brokers", (data) => [
    h(Heading, { title: "Brokers", facts: facts(data) }),
    h(Card, null, h(BrokerTable, { brokers: data })),
    (uneven(data) || plan.value) && h(Balance, { plan: plan.value, show, apply, may: context.session.may.admin }),
  ])));
  return { unmount: stop };
}

function facts(brokers) {
  const alive = brokers.filter((broker) => broker.state === "alive").length;
  return `${alive} of ${plural(brokers.length, "broker")} alive`;
}

function Balance({ plan, show, apply, may }) {
  return h(Card, { title: "Leaders are not where they should be", aside: "a plan first, then apply" },
    !plan && h("div", { class: "card-body" },
      h("p", null, "Some partitions are led by another than their preferred replica. They move back by themselves after a while; to do it now, here or in a terminal: ",
        h(Command, { command: "tidelog leaders balance" })),
      h("button", { onclick: show }, "Show the plan")),
    plan && [h(Shares, { rows: plan.brokers }), h(Moves, { rows: plan.partitions }),
      h("div", { class: "card-body row spread" },
        h("span", { role: "status" }, plan.moving ? `${plural(plan.moving, "leadership")} would move.` : "Nothing can move now."),
        may && plan.moving > 0 && h("button", { class: "danger", onclick: apply }, "Apply the plan"))]);
}

/** How many partitions each broker leads, before and after. */
function Shares({ rows }) {
  const most = Math.max(...rows.map((row) => Math.max(row.before, row.after)), 1);
  const bar = (part) => [h("span", { class: "share", "aria-hidden": "true" },
    h("span", { style: { width: `${(100 * part) / most}%` } })), ` ${count(part)}`];
  return h(Table, { caption: "Leaderships before and after", rows, rowKey: (row) => row.broker, columns: [
    { name: "Broker", cell: (row) => h(BrokerLink, { id: row.broker }) },
    { name: "Leads now", cell: (row) => bar(row.before) },
    { name: "After", cell: (row) => bar(row.after) },
    { name: "Should lead", number: true, cell: (row) => count(row.preferred) },
  ] });
}

function Moves({ rows }) {
  return h(Table, { caption: "Partitions that are led by another", rows, rowKey: (row) => row.name, columns: [
    { name: "Partition", cell: (row) => h(PartitionLink, { name: row.name }) },
    { name: "From", cell: (row) => h(BrokerLink, { id: row.leader }) },
    { name: "To", cell: (row) => (row.obstacle ? h("span", { class: "warn-text" }, `stays: ${row.obstacle}`) : h(BrokerLink, { id: row.preferred })) },
  ] });
}

const uneven = (brokers) => brokers.every((broker) => broker.state === "alive") && brokers.some((broker) => broker.leaders !== broker.preferred);

function mountOne(root, context) {
  const id = context.params.id;
  context.title(`Broker ${id}`);
  const broker = fetched(() => context.api.get(`/api/brokers/${encodeURIComponent(id)}`));
  context.stream.watch("overview", {
    node: ({ node, state }) => {
      if (String(node) === id && broker.data.peek()) broker.data.value = { ...broker.data.peek(), state };
    },
  });
  context.every(broker.refresh, 2000);
  const stop = effect(() => render(root, broker.show(`broker ${id}`, draw)));
  return { unmount: stop };
}

function draw(data) {
  const requests = Object.entries(data.requests ?? {}).filter(([, times]) => times).sort((a, b) => b[1] - a[1]);
  const asked = requests.reduce((sum, [, times]) => sum + times, 0);
  return [
    h(Heading, { title: `Broker ${data.id}`, crumbs: h("a", { href: "/brokers" }, "Brokers"), facts: [
      h(Badge, { state: data.state }), data.state !== "alive" && data.since_ms ? ` for ${since(data.since_ms)}` : "", ` ${data.address ?? ""}`, data.rack ? ` · rack ${data.rack}` : ""] },
      h("a", { class: "button", href: `/chaos?node=${data.id}` }, "Break it")),
    data.findings?.length > 0 && h("ul", { class: "health", "aria-label": "Findings" }, data.findings.map((finding) =>
      h("li", { class: "warn" }, finding.problem, finding.advice && h("span", { class: "next" }, "next: ",
        h(Command, { command: finding.advice }))))),
    h("dl", { class: "facts-row" },
      h(Fact, { name: "Leads", value: count(data.leaders), more: `preferred for ${count(data.preferred)}`, state: data.leaders !== data.preferred ? "warn" : "" }),
      h(Fact, { name: "Replicas", value: count(data.replicas) }),
      h(Fact, { name: "Disk free", value: bytes(data.usable_bytes), more: data.disk_bytes === null ? null : `${bytes(data.disk_bytes)} used` }),
      h(Fact, { name: "Quorum", value: data.quorum ?? "–", more: data.quorum_lag !== null && data.quorum_lag !== undefined ? `lag ${count(data.quorum_lag)}` : null }),
      h(Fact, { name: "Requests", value: count(asked), more: "since it started" }),
      h(Fact, { name: "Up", value: since(data.up_ms) || "–" })),
    h(Card, { title: "Replicas hosted", aside: `${percent(data.leaders, data.replicas)} led here` },
      h(PartitionTable, { rows: data.partitions ?? [], caption: `Replicas on broker ${data.id}`,
      empty: h(Empty, { title: "No replica lives here" }, "New topics will place some on this broker.") })),
    h(Card, { title: "Requests by API" }, h(Requests, { requests, asked })),
    h(Card, { title: "Config" }, h(Configs, { configs: data.config ?? [] })),
  ];
}

function Requests({ requests, asked }) {
  return h(Table, { caption: "Requests by API", rows: requests, rowKey: ([api]) => api,
    empty: h(Empty, { title: "No request was counted" }, "A broker that is down, or not Tidelog's, does not tell."), columns: [
      { name: "API", cell: ([api]) => api },
      { name: "Requests", number: true, cell: ([, times]) => count(times) },
      { name: "Share", cell: ([, times]) => [h("span", { class: "share", "aria-hidden": "true" },
        h("span", { style: { width: percent(times, asked).replace(" ", "") } })), " ", h("small", null, percent(times, asked))] },
    ] });
}
