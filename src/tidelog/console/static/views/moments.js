/**
 * What the timeline is made of: events in the order the server gives them (by epochs and by the
 * numbers of each node, never by clocks), and the lanes and spans that follow from them.
 *
 * @typedef {{node: number, stream?: string|number, number: number, wall_ms: number, kind: string,
 *   sentence: string, partition?: string, broker?: number, leader?: number, previous?: any,
 *   leader_epoch?: number, isr?: number[]}} Event
 * @typedef {{name: string, href: string, kind: "broker"|"partition", spans: Span[], marks: Mark[]}} Lane
 * @typedef {{from: number, to: number, look: string, text: string}} Span
 * @typedef {{at: number, word: string, look: string}} Mark
 */

/** Kind of event → group of the filter, and the word that marks it. @type {Record<string, [string, string]>} */
const KINDS = {
  LeaderElected: ["elections", "elect"], BecameLeader: ["elections", "leads"],
  BecameFollower: ["elections", "follow"], IsrCommitted: ["ISR changes", "ISR"],
  IsrChanged: ["ISR changes", "adopt"], IsrProposed: ["ISR changes", "ask ISR"],
  BrokerFenced: ["fences", "fenced"], BrokerUnfenced: ["fences", "back"],
  BrokerRegistered: ["fences", "joins"], ControlledShutdownStarted: ["fences", "stops"],
  FetchDiverged: ["truncations", "differs"], LogTruncated: ["truncations", "cut"],
  HighWatermarkLowered: ["truncations", "HW ↓"], QuorumLeaderElected: ["controllers", "quorum"],
  ControllerClaimed: ["controllers", "active"], ControllerRenounced: ["controllers", "resigns"],
  QuorumRoleChanged: ["controllers", "role"],
};
const GRAVE = new Set(["BrokerFenced", "FetchDiverged", "LogTruncated", "HighWatermarkLowered"]);
export const GROUPS = [...new Set(Object.values(KINDS).map(([group]) => group)), "other"];

/** @param {Event} event */
export const groupOf = (event) => KINDS[event.kind]?.[0] ?? "other";
/** The moment in an address. @param {Event} event */
export const cursorOf = (event) => `${event.node}:${event.stream ?? 0}:${event.number}`;
/** @param {Event} event */
export const wordOf = (event) => KINDS[event.kind]?.[1] ?? event.kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().slice(0, 9);

/** Which broker's lane an event is drawn on. @param {Event} event */
function brokerOf(event) {
  if (event.broker !== undefined) return event.broker;
  return event.partition === undefined ? event.node : undefined;
}

/** @param {Event[]} events @param {(event: Event) => boolean} wanted @returns {Lane[]} */
export function lanes(events, wanted) {
  /** @type {Map<number, Lane>} */
  const brokers = new Map();
  /** @type {Map<string, Lane>} */
  const partitions = new Map();
  events.forEach((event, at) => {
    if (!wanted(event)) return;
    const mark = { at, word: wordOf(event), look: GRAVE.has(event.kind) ? "grave" : groupOf(event) };
    const broker = brokerOf(event);
    if (broker !== undefined) laneOf(brokers, broker, "broker").marks.push(mark);
    if (event.partition !== undefined && event.broker === undefined) {
      laneOf(partitions, event.partition, "partition").marks.push(mark);
    } else if (event.partition !== undefined) laneOf(partitions, event.partition, "partition");
  });
  for (const [broker, lane] of brokers) lane.spans = brokerSpans(events, broker);
  for (const [name, lane] of partitions) lane.spans = leaderSpans(events, name);
  const byName = (a, b) => // those of the cluster itself come last
    a.name.startsWith("__") - b.name.startsWith("__") || a.name.localeCompare(b.name, "en", { numeric: true });
  return [...[...brokers.values()].sort(byName), ...[...partitions.values()].sort(byName)];
}

/** @param {Map<any, Lane>} found @param {number|string} name @param {"broker"|"partition"} kind */
function laneOf(found, name, kind) {
  let lane = found.get(name);
  if (!lane) {
    const [title, href] = kind === "broker" ? [`broker ${name}`, `/b/${name}`]
      : [`${name}`, `/p/${encodeURIComponent(name)}`];
    lane = { name: title, href, kind, spans: [], marks: [] };
    found.set(name, lane);
  }
  return lane;
}

/** Leader epochs of a partition, as far as the loaded events tell. @param {Event[]} events @param {string} name */
function leaderSpans(events, name) {
  /** @type {Span[]} */
  const spans = [];
  events.forEach((event, at) => {
    const leads = event.kind === "LeaderElected" || event.kind === "BecameLeader";
    if (!leads || event.partition !== name) return;
    const epoch = event.leader_epoch ?? 0;
    const leader = event.kind === "BecameLeader" ? event.broker : event.leader;
    const nobody = leader === undefined || leader === null || leader < 0;
    const text = nobody ? `no leader · e${epoch}` : `leader ${leader} · e${epoch}`;
    const last = spans.at(-1);
    if (last?.text === text) return; // the leader says what the controller decided
    if (last) last.to = at;
    spans.push({ from: at, to: events.length, look: nobody ? "nobody" : `epoch-${epoch % 6}`, text });
  });
  return spans;
}

/** From when to when a broker was fenced. @param {Event[]} events @param {number} broker */
function brokerSpans(events, broker) {
  /** @type {Span[]} */
  const spans = [];
  events.forEach((event, at) => {
    if (event.broker !== broker) return;
    const last = spans.at(-1);
    if (event.kind === "BrokerFenced") {
      if (last && last.to === events.length) return;
      spans.push({ from: at, to: events.length, look: "fenced", text: "fenced" });
    } else if (event.kind === "BrokerUnfenced" && last) last.to = Math.min(last.to, at);
  });
  return spans;
}

/**
 * Who led what at a moment: the last word of each partition up to there.
 * @param {Event[]} events @param {number} at
 */
export function standingAt(events, at) {
  /** @type {Map<string, {leader?: number, epoch?: number, isr?: number[]}>} */
  const found = new Map();
  for (const event of events.slice(0, at + 1)) {
    if (event.partition === undefined) continue;
    const known = found.get(event.partition) ?? {};
    if (event.kind === "LeaderElected") {
      found.set(event.partition, { leader: event.leader, epoch: event.leader_epoch, isr: event.isr });
    } else if (event.kind === "IsrCommitted") found.set(event.partition, { ...known, isr: event.isr });
  }
  return found;
}
