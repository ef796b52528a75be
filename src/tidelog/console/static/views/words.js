/**
 * What the pictures say in words: labels of strips, the header of a partition, ages.
 * The picture and the table view are both made from these, so they cannot disagree.
 *
 * @typedef {{broker: number, role: string, in_isr: boolean, state: string,
 *   last_seen_ms: number|null, log_start: number, high_watermark: number|null, log_end: number,
 *   epochs: [number, number][], diverges_at: number|null, lag: number|null, untold?: boolean}} Replica
 * @typedef {{from: number, to: number, text: string, kind: string, offset: number, epoch: number|null,
 *   explain: string, fate?: string, new?: boolean}} Message
 * @typedef {{name: string, topic: string, partition: number, leader: number|null, preferred: number,
 *   leader_epoch: number|null, partition_epoch: number|null, replicas: number[], isr: number[],
 *   min_isr: number|null, log_start: number|null, high_watermark: number|null, log_end: number|null, state: string,
 *   since_ms: number|null, replica_logs: Replica[], parked_produces: number,
 *   consumers: {group: string, offset: number}[], messages: Message[], mode: string}} Partition
 */

import { duration, ids, plural } from "../lib/kit.js";

/** A cluster that is polled does not tell everything. @param {number|null|undefined} value */
export const isKnown = (value) => value !== null && value !== undefined;

/**
 * A log of which nobody told where it ends is drawn without records, and says so.
 * @param {Partition} partition @returns {Partition}
 */
export function drawable(partition) {
  const nowhere = partition.log_start ?? 0;
  const replica_logs = partition.replica_logs.map((log) => (isKnown(log.log_end)
    ? { ...log, log_start: log.log_start ?? 0 }
    : { ...log, log_start: nowhere, log_end: nowhere, high_watermark: null, untold: true }));
  return { ...partition, replica_logs };
}

/** Leader epoch in which `offset` of this log was written; null if nobody told. @param {Replica} log @param {number} offset */
export function epochAt(log, offset) {
  let found = log.epochs.length ? log.epochs[0][0] : null;
  for (const [epoch, start] of log.epochs) {
    if (start > offset) break;
    found = epoch;
  }
  return found;
}

/** What the lab calls the record at an offset, if it has a name of its own. @param {any} log @param {number} offset */
export function nameAt(log, offset) {
  const batch = log.records?.find((each) => each.offset <= offset && offset <= each.last_offset);
  const name = batch?.names?.[offset - batch.offset];
  return name && name !== `${offset}` ? ` ${name}` : "";
}

/** Offsets as a range with its last record: `5`, `5–6`. @param {number} start @param {number} end */
export const range = (start, end) => (end - start === 1 ? `${start}` : `${start}–${end - 1}`);

/**
 * Spans of one leader epoch each: `[epoch, start, end]`.
 * @param {Replica} log @returns {[number, number, number][]}
 */
export function epochSpans(log) {
  /** @type {[number, number, number][]} */
  const spans = [];
  log.epochs.forEach(([epoch, start], index) => {
    const from = Math.max(start, log.log_start);
    const next = log.epochs[index + 1];
    const to = Math.min(next ? next[1] : log.log_end, log.log_end);
    if (to > from) spans.push([epoch, from, to]);
  });
  return spans;
}

/** "12 s ago", or nothing while it is there. @param {Replica} log @param {number} now */
export function lastSeen(log, now) {
  if (log.state === "alive" || !log.last_seen_ms) return "";
  return `last seen ${duration(now - log.last_seen_ms)} ago`;
}

/** What is written under a broker's name. @param {Replica} log @param {Partition} partition @param {number} now */
export function standing(log, partition, now) {
  if (log.state !== "alive") return [log.state, lastSeen(log, now)].filter(Boolean).join(", ");
  if (log.broker !== partition.leader) {
    return isKnown(log.lag) ? `follower, lag ${log.lag}` : "follower";
  }
  const parked = partition.parked_produces;
  return parked ? `leader, ${plural(parked, "produce")} parked` : "leader";
}

/** The strip as one sentence, for those who do not see it. @param {Replica} log @param {Partition} partition @param {number} now */
export function stripSentence(log, partition, now) {
  const role = log.broker === partition.leader ? "the leader" : "a follower";
  const preferred = log.broker === partition.preferred ? ", the preferred leader" : "";
  const sync = log.in_isr ? "in the ISR" : "not in the ISR";
  const state = log.state === "alive" ? "alive" : standing(log, partition, now);
  let records = "its log is empty";
  if (log.untold) return `Broker ${log.broker} is ${role}${preferred}, ${sync}, ${state}; its log end is not told.`;
  if (log.log_end > log.log_start) {
    records = `it has records ${range(log.log_start, log.log_end)} (${epochWords(log)})`;
  }
  const differs =
    isKnown(log.diverges_at)
      ? ` From offset ${log.diverges_at} it differs from the leader and will be truncated.`
      : "";
  return (
    `Broker ${log.broker} is ${role}${preferred}, ${sync}, ${state}: ${records}; ` +
    `high watermark ${log.high_watermark ?? "not told"}, log end ${log.log_end}.${differs}`
  );
}

/** @param {Replica} log */
export const epochWords = (log) =>
  epochSpans(log)
    .map(([epoch, start, end]) => `${range(start, end)} of epoch ${epoch}`)
    .join(", ") || "epochs not told";

/** The line above the strips. @param {Partition} partition */
export function headline(partition) {
  const told = (word, value) => (isKnown(value) ? [`${word} ${value}`] : []);
  return [
    isKnown(partition.leader) ? `leader ${partition.leader}` : "no leader",
    ...told("leader epoch", partition.leader_epoch),
    ...told("partition epoch", partition.partition_epoch),
    `ISR ${ids(partition.isr)} of ${partition.replicas.length}`,
    ...told("min ISR", partition.min_isr),
  ];
}
