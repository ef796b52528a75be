/**
 * A partition as people see it: strips with arrows, or the same facts as a table; a legend; and one
 * sentence about the message that is pointed at. The partition page and the lab both show it.
 */

import { h, Table } from "../lib/kit.js";
import { keyOf, who } from "./arrows.js";
import { Strips } from "./strip.js";
import { drawable, epochWords, isKnown, standing } from "./words.js";

/** @typedef {import("./words.js").Partition} Partition */
/** @typedef {import("./words.js").Replica} Replica */
/** @typedef {import("./words.js").Message} Message */

/** Where a kind of message is explained at length. @type {Record<string, string>} */
const STORIES = {
  fetch: "fetch-is-the-ack", answer: "high-watermark", diverging: "reconcile", truncate: "reconcile",
};

export class Picture {
  /** @param {() => void} redraw Called when something here wants the page drawn again. */
  constructor(redraw) {
    this.redraw = redraw;
    this.asTable = false;
    /** @type {Message|null} */
    this.pointed = null;
    /** @type {Strips|null} */
    this.strips = null;
    /** @type {Partition|null} */
    this.partition = null;
  }

  /** @param {Partition} partition */
  show(partition) {
    this.partition = drawable(partition);
    this.strips?.update(this.partition);
  }

  toggleTable() {
    this.asTable = !this.asTable;
    this.redraw();
  }

  close() {
    this.strips?.close();
  }

  /** @param {Message|null} message */
  explain(message) {
    if (this.pointed === message) return;
    this.pointed = message;
    this.redraw();
  }

  /** Strips or table, with what belongs to them. */
  view() {
    const partition = /** @type {Partition} */ (this.partition);
    return [
      h("div", { class: "picture", key: "picture", opaque: true, hidden: this.asTable,
        ref: (root) => {
          this.strips = new Strips(root, { explain: (message) => this.explain(message) });
          if (this.partition) this.strips.update(this.partition);
        } }),
      this.asTable && h("div", { key: "table" }, replicaTable(partition)),
      !this.asTable && h("div", { key: "legend" }, legend(partition)),
      h("p", { class: "explain", key: "explain" }, this.explanation(partition)),
    ];
  }

  /** @param {Partition} partition */
  explanation(partition) {
    const message = this.pointed;
    if (message) {
      return [h("strong", null, `${who(message)}  ${message.text}. `), message.explain, " ",
        h("a", { href: `/lab/${STORIES[message.kind] ?? "replicas-and-isr"}` }, "See it step by step")];
    }
    if (partition.mode === "polled") return "A polled cluster tells no messages between its brokers.";
    return (partition.messages || []).length ? "Point at an arrow or a message to see what it means." : "";
  }

  /** The last messages in words; the newest is last. */
  messageList() {
    const messages = this.partition?.messages || [];
    const taken = new Set();
    return h("ol", { class: "messages" }, messages.map((message) => {
      const key = keyOf(message, taken);
      taken.add(key);
      const explain = () => this.explain(message);
      return h("li", { key }, h("button", {
        class: `quiet message-line ${message.kind}`, title: message.explain,
        onmouseenter: explain, onfocus: explain, onclick: explain,
      }, h("b", null, who(message)), ` ${message.text}`));
    }));
  }
}

/** @param {Partition} partition */
function replicaTable(partition) {
  const now = Date.now();
  const told = (value) => (isKnown(value) ? String(value) : "not told");
  const columns = [
    { name: "Broker", cell: (log) => String(log.broker) },
    { name: "Role", cell: (log) => roleOf(log, partition) },
    { name: "ISR", cell: (log) => (log.in_isr ? "ISR" : "not in ISR") },
    { name: "State", cell: (log) =>
      (log.state === "alive" ? "alive" : standing(log, partition, now)) },
    { name: "Records by leader epoch", wide: true, cell: epochWords },
    { name: "Log start", number: true, cell: (log) => String(log.log_start) },
    { name: "High watermark", number: true, cell: (log) => told(log.high_watermark) },
    { name: "Log end", number: true, cell: (log) => (log.untold ? "not told" : String(log.log_end)) },
    { name: "Lag", number: true, cell: (log) => told(log.lag) },
    { name: "Differs from", cell: (log) =>
      (isKnown(log.diverges_at) ? `offset ${log.diverges_at}` : "–") },
  ];
  return h(Table, { caption: `Replicas of ${partition.name}`, columns, rows: partition.replica_logs,
    rowKey: (log) => log.broker });
}

/** @param {Replica} log @param {Partition} partition */
function roleOf(log, partition) {
  const role = log.broker === partition.leader ? "leader" : "follower";
  return log.broker === partition.preferred ? `${role}, preferred` : role;
}

/** Only what can be seen now needs to be explained. @param {Partition} partition */
function legend(partition) {
  const logs = partition.replica_logs;
  const swatch = (look) => h("svg", { class: "swatch", viewBox: "0 0 22 16",
    "aria-hidden": "true" },
    h("g", { class: `cell ${look} epoch-0` }, h("rect", { x: 1, y: 1, width: 20, height: 14, rx: 3,
      fill: look === "differs" ? "url(#hatch-0)" : "none" })));
  const differs = logs.some((log) => isKnown(log.diverges_at));
  const away = partition.leader !== partition.preferred;
  return h("ul", { class: "legend" },
    h("li", null, swatch("committed"), "committed"),
    h("li", null, swatch("uncommitted"), "not yet committed"),
    differs && h("li", null, swatch("differs"), "differs from the leader, will be truncated"),
    h("li", null, h("b", null, "e0, e1 …"), " and colour: leader epoch"),
    h("li", null, h("b", null, "HW"), " high watermark: committed below it"),
    h("li", null, h("b", null, "LEO"), " log end"),
    h("li", null, crown("now"), "leader"),
    away && h("li", null, crown("preferred"), "preferred leader"));
}

const crown = (look) => h("svg", { class: "swatch", viewBox: "0 0 24 22",
  "aria-hidden": "true" }, h("path", { class: `strip-crown ${look}`, d: "M1 13 L0 3 L5 7 L8 0 L11 7 L16 3 L15 13 Z" }));
