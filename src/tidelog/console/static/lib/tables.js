// Tables that more than one page shows.

import { h } from "./dom.js";
import { bytes, count } from "./format.js";
import { Badge, BrokerLink, Empty, Leader, PartitionLink, Replicas, Table, since } from "./widgets.js";

export function BrokerTable({ brokers }) {
  return h(Table, { caption: "Brokers", rows: brokers, rowKey: (broker) => broker.id, columns: [
    { name: "Broker", cell: (broker) => h(BrokerLink, { id: broker.id }) },
    { name: "State", cell: (broker) => [h(Badge, { state: broker.state }), broker.state !== "alive" && broker.since_ms && h("small", null, ` ${since(broker.since_ms)}`)] },
    { name: "Address", cell: (broker) => h("span", { class: "mono" }, broker.address ?? "–") },
    { name: "Rack", optional: true, cell: (broker) => broker.rack ?? "–" },
    { name: "Leads", number: true, title: "Partitions it leads, and how many it should", cell: (broker) => [count(broker.leaders),
      h("small", null, ` of ${count(broker.preferred)}`)] },
    { name: "Replicas", number: true, cell: (broker) => count(broker.replicas) },
    { name: "Disk", number: true, cell: (broker) => [broker.disk_bytes !== null && `${bytes(broker.disk_bytes)} `,
      h("small", null, `${bytes(broker.usable_bytes)} free`)] },
    { name: "Quorum", cell: (broker) => [broker.quorum ?? "–", broker.quorum_lag > 0 && h("small", null, ` lag ${count(broker.quorum_lag)}`)] },
    { name: "Up", number: true, cell: (broker) => since(broker.up_ms) || "–" },
  ] });
}

export function PartitionTable({ rows, caption, empty }) {
  return h(Table, { caption, rows, empty, rowKey: (row) => row.name, columns: [
    { name: "Partition", cell: (row) => h(PartitionLink, { name: row.name }) },
    { name: "State", cell: (row) => [h(Badge, { state: row.state }), row.state !== "healthy" && row.since_ms && h("small", null, ` ${since(row.since_ms)}`)] },
    { name: "Leader", cell: (row) => h(Leader, { row }) },
    { name: "Epoch", number: true, title: "leader epoch", cell: (row) => count(row.leader_epoch) },
    { name: "Replicas", title: "struck through: not in the ISR", cell: (row) => h(Replicas, { row }) },
    { name: "Log start", number: true, cell: (row) => count(row.log_start) },
    { name: "High watermark", number: true, cell: (row) => count(row.high_watermark) },
    { name: "Log end", number: true, cell: (row) => count(row.log_end) },
    { name: "Size", number: true, optional: true, cell: (row) => bytes(row.bytes) },
  ] });
}

const isDefault = (config) => config.source === "default";

/** What somebody has set; what nobody touched is folded away. */
export function Configs({ configs }) {
  if (!configs.length) return h(Empty, { title: "No configs are known" }, "The cluster did not tell any.");
  const usual = configs.filter(isDefault);
  return [
    h(ConfigTable, { caption: "Configs that are set", rows: configs.filter((config) => !isDefault(config)),
      empty: h(Empty, { title: "Nothing is set here" }, "Every config has its default.") }),
    usual.length > 0 && h("details", { class: "more" }, h("summary", null, `${count(usual.length)} at their defaults`),
      h(ConfigTable, { caption: "Configs at their defaults", rows: usual })),
  ];
}

function ConfigTable({ rows, ...more }) {
  return h(Table, { ...more, rows, rowKey: (config) => config.name, columns: [
    { name: "Name", cell: (config) => h("span", { class: "mono", title: config.meaning }, config.name) },
    { name: "Value", wide: true, cell: (config) => h("span", { class: "mono" }, config.value ?? "–") },
    { name: "Source", cell: (config) => config.source },
    rows.some((config) => "default" in config) && { name: "Default",
      cell: (config) => h("span", { class: "mono muted" }, config.default ?? "–") },
    rows.some((config) => config.meaning) && { name: "Meaning", wide: true,
      cell: (config) => h("span", { class: "muted" }, config.meaning ?? "") },
    rows.some((config) => config.read_only) && { name: "Change",
      cell: (config) => h("span", { class: "muted" }, config.read_only ? "at start" : "while it runs") },
  ].filter(Boolean) });
}
