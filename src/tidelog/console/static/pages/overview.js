// How the cluster is, in words first.

import {
  BrokerTable, byteRate, Card, clock, Command, count, effect, Empty, Fact, fetched, h, Heading, plural, rate, render,
  since,
} from "../lib/kit.js";

const EVENTS_MAX = 20;
/** Too frequent to be news: the partition page shows them. */
const CHATTER = new Set(["RecordsAppended", "HighWatermarkAdvanced"]);
const GRAVITY = { ok: "Healthy", warn: "Attention", bad: "Broken" };

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Overview");
  const overview = fetched(() => context.api.get("/api/overview"));
  const take = (change) => {
    if (overview.data.peek()) overview.data.value = { ...overview.data.peek(), ...change };
  };
  context.stream.watch("overview", {
    snapshot: ({ overview: whole }) => { if (whole) overview.data.value = whole; },
    frame: ({ events = [], health, overview: counts }) => {
      const news = events.filter((event) => !CHATTER.has(event.kind));
      for (const event of news) if (TOLD.has(event.kind)) context.announce(event.sentence);
      take({ ...counts, ...(health && { health }), events: newest(overview.data.peek()?.events ?? [], news) });
    },
    node: ({ node, state }) => {
      const brokers = overview.data.peek()?.brokers.map((broker) => (broker.id === node ? { ...broker, state } : broker));
      if (brokers) take({ brokers });
    },
  });
  // The stream tells of events at once; sizes, rates and quorum positions are asked for.
  context.every(overview.refresh, 3000);
  const stop = effect(() => render(root, overview.show("the overview", draw)));
  return { unmount: stop };
}

const TOLD = new Set(["LeaderElected", "IsrChanged", "IsrCommitted", "BrokerFenced", "BrokerUnfenced"]);

/** The newest first, each once. */
export function newest(known, news) {
  const seen = new Set();
  return [...news.slice().reverse(), ...known].filter((event) => {
    const key = eventKey(event);
    return !seen.has(key) && seen.add(key);
  }).slice(0, EVENTS_MAX);
}

const eventKey = (event) => `${event.node}/${event.stream}/${event.number}`;

function draw(data) {
  const alive = data.brokers.filter((broker) => broker.state === "alive").length;
  return [
    h(Heading, { title: "Overview", facts: `${alive} of ${plural(data.brokers.length, "broker")} · ${plural(data.topics, "topic")}, ${plural(data.partitions, "partition")}` }),
    h("ul", { class: "health", "aria-label": "Health" }, data.health.map((item) => HealthLine(item, data))),
    h("dl", { class: "facts-row" },
      h(Fact, { name: "Records in", value: rate(data.rates.in_records) }),
      h(Fact, { name: "Bytes in", value: byteRate(data.rates.in_bytes) }),
      h(Fact, { name: "Bytes out", value: byteRate(data.rates.out_bytes) }),
      h(Fact, { name: "Under-replicated", value: count(data.under_replicated), state: data.under_replicated ? "warn" : "" }),
      h(Fact, { name: "Offline", value: count(data.offline), state: data.offline ? "bad" : "" }),
      h(Fact, { name: "Active controller", value: data.controller.id ?? "nobody", state: data.controller.id === null ? "bad two" : "two",
        more: data.controller.id !== null && `epoch ${data.controller.epoch} · offset ${count(data.controller.metadata_offset)} · lag ${count(data.controller.quorum_lag)}` })),
    h(Card, { title: "Brokers", aside: h("a", { href: "/brokers" }, "All about brokers") },
      h(BrokerTable, { brokers: data.brokers })),
    h(Card, { title: "Last events", aside: h("a", { href: "/timeline" }, "Timeline") }, h(Events, { events: data.events })),
  ];
}

function HealthLine(item, data) {
  const well = `All is well: ${plural(data.brokers.length, "broker")} alive, every partition has a leader and all its replicas.`;
  return h("li", { class: item.severity, key: item.text },
    h("span", { class: "word" }, GRAVITY[item.severity]),
    h("span", null, item.severity === "ok" ? well : item.text),
    item.since_ms && h("small", { title: clock(item.since_ms) }, `for ${since(item.since_ms)}`),
    item.next && h("span", { class: "next" }, "next: ", h(Command, { command: item.next })));
}

export function Events({ events }) {
  if (!events.length) {
    return h(Empty, { title: "Nothing has happened yet" }, "Elections, ISR changes, fences and truncations appear here as they happen.");
  }
  return h("ul", { class: "list" }, events.map((event) => h("li", { key: eventKey(event) },
    h("time", { title: new Date(event.wall_ms).toISOString() }, clock(event.wall_ms)),
    h("span", { class: "who" }, `node ${event.node}`),
    h("span", { class: "what" }, event.partition ? h(Told, { event }) : event.sentence))));
}

/** A sentence whose partition leads to its picture. */
function Told({ event }) {
  const at = event.sentence.indexOf(event.partition);
  if (at < 0) return event.sentence;
  return [event.sentence.slice(0, at),
    h("a", { href: `/p/${encodeURIComponent(event.partition)}` }, event.partition), event.sentence.slice(at + event.partition.length)];
}
