// Records of a topic: where to start, how to read them, and the live tail.

import { withQuery } from "../lib/api.js";
import {
  Badge, bytes, Card, count, effect, Empty, fetched, Field, h, Heading, moment, PartitionLink, render, signal,
} from "../lib/kit.js";
import { openStream } from "../lib/sse.js";

const LIMIT = 50;
const TAIL_MAX = 200;
/** A busy topic is drawn four times a second, whatever arrives. */
const DRAW_MS = 250;
const STARTS = { newest: "the newest", earliest: "the earliest", offset: "an offset", time: "a time", epoch: "a leader epoch" };

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  const topic = context.params.name;
  context.title(`Records of ${topic}`);
  render(root,
    h(Heading, { title: `Records of ${topic}`, crumbs: [h("a", { href: "/topics" }, "Topics"), " / ",
      h("a", { href: `/topics/${encodeURIComponent(topic)}` }, topic)] }),
    h("div", { class: "records-root", opaque: true }));
  return { unmount: mountRecords(root.querySelector(".records-root"), context, topic) };
}

/**
 * The browser of records, in a page of its own or inside the topic's.
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} context
 * @param {string} topic
 * @returns {() => void} unmount
 */
export function mountRecords(root, context, topic) {
  const from = context.query.get("from") ?? "";
  const asked = {
    partition: signal(context.query.get("partition") ?? ""),
    start: signal(startOf(from)),
    at: signal(startOf(from) === "offset" || startOf(from) === "time" ? from.replace(/^@/, "") : ""),
    key: signal(context.query.get("key") ?? ""),
  };
  const view = signal("text");
  const opened = signal(new Set());
  const about = fetched(() => context.api.get(`/api/topics/${encodeURIComponent(topic)}`));
  const page = fetched(() => context.api.get(withQuery("/api/records", { ...question(topic, asked), limit: LIMIT })));
  const tail = makeTail(topic, asked);
  const epochs = signal([]);

  const read = () => {
    tail.stop();
    page.again();
  };
  const learnEpochs = async () => {
    asked.partition.value ||= "0"; // epochs belong to one partition
    const partition = await context.api.get(`/api/partition/${encodeURIComponent(`${topic}-${asked.partition.peek()}`)}`).catch(() => null);
    const leader = partition?.replica_logs?.find((replica) => replica.role === "leader");
    epochs.value = leader?.epochs ?? [];
    if (epochs.value.length) asked.at.value = String(epochs.value.at(-1)?.[1]);
  };
  const controls = {
    showsAll: () => asked.partition.value === "",
    read,
    tail,
    choose: (start) => {
      asked.start.value = start;
      asked.at.value = "";
      if (start === "epoch") learnEpochs();
    },
    toggle: (id) => {
      const next = new Set(opened.peek());
      if (!next.delete(id)) next.add(id);
      opened.value = next;
    },
    follow: () => (tail.state.peek() === "off" ? tail.start() : tail.stop()),
  };
  context.onKey("space", "pause or go on with the live tail", tail.pause);
  context.onKey("v", "next way to read values", () => { view.value = { text: "json", json: "hex", hex: "text" }[view.peek()]; });
  about.refresh();
  page.refresh();
  const stop = effect(() => render(root, h(Card, { class: "records" },
    h(Toolbar, { asked, controls, partitions: about.data.value?.partitions.length ?? 1, epochs: epochs.value, view }),
    tail.state.value === "off"
      ? page.show("records", (data) => h(Page, { data, view: view.value, opened: opened.value, controls, topic, asked }))
      : h(Tail, { tail, view: view.value, opened: opened.value, controls }))));
  return () => { stop(); tail.stop(); };
}

const startOf = (from) => (!from || from.startsWith("-") || from === "latest" ? "newest" : from === "earliest" ? from : from.startsWith("@") ? "time" : "offset");

/** What the server is asked. */
function question(topic, asked) {
  const at = asked.at.peek();
  const from = {
    newest: `-${LIMIT}`, earliest: "earliest", offset: at || "earliest", epoch: at || "earliest",
    time: at ? `@${/^-/.test(at) ? at : new Date(at).toISOString()}` : "earliest",
  }[asked.start.peek()];
  return { topic, partition: asked.partition.peek(), from, key: asked.key.peek() };
}

/** The live tail: records arrive, the newest stand first. */
function makeTail(topic, asked) {
  const state = signal("off");
  const records = signal([]);
  const arrived = signal(0);
  let waiting = [];
  let stream = null;
  const link = signal("connecting");
  const skipped = signal(0);
  let timer;
  const draw = () => {
    if (state.peek() === "on" && waiting.length) {
      records.value = [...waiting.reverse(), ...records.peek()].slice(0, TAIL_MAX);
      waiting = [];
    }
  };
  const stop = () => {
    stream?.close();
    stream = null;
    clearInterval(timer);
    state.value = "off";
  };
  return {
    state, records, arrived, skipped, link, stop,
    start() {
      records.value = [];
      arrived.value = skipped.value = 0;
      link.value = "connecting";
      waiting = [];
      state.value = "on";
      const key = asked.key.peek();
      const url = withQuery("/api/records/tail", { topic, partition: asked.partition.peek() });
      stream = openStream(url, ({ event, data }) => {
        if (event === "skipped") skipped.value += data.skipped;
        if (event !== "record" || (key && data.key.text !== key)) return;
        arrived.value += 1;
        waiting.push(data);
        if (waiting.length > TAIL_MAX) waiting.shift();
      });
      timer = setInterval(() => { link.value = stream.state.peek(); draw(); }, DRAW_MS);
    },
    pause() {
      if (state.peek() === "on") state.value = "paused";
      else if (state.peek() === "paused") state.value = "on";
      draw();
    },
  };
}

function Toolbar({ asked, controls, partitions, epochs, view }) {
  const start = asked.start.value;
  const set = (field) => (event) => { field.value = event.target.value; };
  const tailing = controls.tail.state.value !== "off";
  return h("form", { class: "toolbar", onsubmit: (event) => { event.preventDefault(); controls.read(); } },
    h(Field, { label: "Partition" }, h("select", { value: asked.partition.value,
      onchange: (event) => { asked.partition.value = event.target.value; if (tailing) { controls.tail.stop(); controls.tail.start(); } else controls.read(); } },
      h("option", { value: "" }, "all"), Array.from({ length: partitions }, (_, index) => h("option", { value: String(index) }, String(index))))),
    h(Field, { label: "Start at" }, h("select", { value: start,
      onchange: (event) => { controls.choose(event.target.value); if (["newest", "earliest"].includes(event.target.value)) controls.read(); } },
      Object.entries(STARTS).map(([value, words]) => h("option", { value }, words)))),
    start === "offset" && h(Field, { label: "Offset" },
      h("input", { inputmode: "numeric", pattern: "[0-9]+", required: true, value: asked.at.value, oninput: set(asked.at) })),
    start === "time" && h(Field, { label: "Time" },
      h("input", { type: "datetime-local", step: 1, required: true, value: asked.at.value, oninput: set(asked.at) })),
    start === "epoch" && h(Field, { label: "Leader epoch" }, h("select", { value: asked.at.value, onchange: set(asked.at) },
      epochs.map(([epoch, offset]) => h("option", { value: String(offset) }, `${epoch}, from offset ${offset}`)))),
    h(Field, { label: "Key" }, h("input", { value: asked.key.value,
      oninput: set(asked.key), placeholder: "any", spellcheck: "false" })),
    h("button", { type: "submit" }, "Read"),
    h("button", { type: "button", class: tailing ? "" : "primary",
      onclick: controls.follow }, tailing ? "Stop the tail" : "Live tail"),
    tailing && h("button", { type: "button",
      onclick: controls.tail.pause, "aria-pressed": String(controls.tail.state.value === "paused") },
      controls.tail.state.value === "paused" ? "Go on" : "Pause", " ", h("kbd", null, "space")),
    h("div", { class: "segments", role: "group", "aria-label": "Show values as" }, ["text", "json", "hex"].map((name) =>
      h("button", { type: "button", "aria-pressed": String(view.value === name),
        onclick: () => { view.value = name; } }, name))));
}

function Page({ data, view, opened, controls, topic, asked }) {
  if (!data.records.length) {
    return data.end === null || data.end > data.start
      ? h(Empty, { title: "No record from here on" }, data.end === null ? "Start earlier, or ask for another key." : `The log holds offsets ${count(data.start)} to ${count(data.end - 1)}. Start earlier, or ask for another key.`)
      : h(Empty, { title: "This partition holds no records" }, "Produce one in the form of the topic, or open the live tail and wait.");
  }
  const more = () => { asked.start.value = "offset"; asked.at.value = String(data.next); controls.read(); };
  return [
    h(RecordHead),
    data.records.map((record) => h(RecordLine, { record, view, opened, controls })),
    data.next === null ? h("p", { class: "pager" }, "All partitions, by time. Choose one to go on from here.") : h("div", { class: "pager" },
      h("span", null, `offsets ${count(data.start)} to ${count(Math.max(data.start, data.end - 1))} in `,
        h(PartitionLink, { name: `${topic}-${asked.partition.peek()}` })),
      h("button", { disabled: data.next >= data.end, onclick: more }, "Next records")),
  ];
}

function Tail({ tail, view, opened, controls }) {
  const records = tail.records.value;
  const words = tail.state.value === "paused" ? "Paused. New records wait until you go on."
    : tail.link.value === "open" ? "Live: the newest record stands first." : "Connecting…";
  return [
    h("p", { class: "toolbar muted", role: "status" }, words, h("span", null, `${count(tail.arrived.value)} arrived`),
      tail.skipped.value > 0 && h("span", null, `${count(tail.skipped.value)} left out: they come faster than anybody reads`)),
    records.length ? [h(RecordHead), records.map((record) => h(RecordLine, { record, view, opened, controls }))]
      : h(Empty, { title: "Waiting for records" }, "What is produced from now on appears here."),
  ];
}

const RecordHead = () => h("div", { class: "record-head", "aria-hidden": "true" },
  h("span", null, "Offset"), h("span", { class: "when" }, "Time"), h("span", null, "Key"),
    h("span", { class: "value-head" }, "Value"), h("span", null, ""));

function RecordLine({ record, view, opened, controls }) {
  const id = `${record.partition}-${record.offset}`;
  const isOpen = opened.has(id);
  const state = record.control ? "control" : record.transaction?.state;
  return h("details", { key: id, class: `record ${state ?? ""}`, open: isOpen, ontoggle: (event) => { if (event.target.open !== isOpen) controls.toggle(id); } },
    h("summary", null,
      h("span", { class: "offset" }, controls.showsAll() && h("small", null, `p${record.partition} `), String(record.offset)),
      h("span", { class: "when muted" }, moment(record.timestamp_ms)),
      record.control ? h("span", { class: "muted" }, "control record") : h(Cut, { value: record.key, view }),
      record.control ? h("span", { class: "cut value" }, `the transaction of producer ${record.transaction?.producer_id ?? "?"} ends: ${record.control}`)
        : h(Cut, { value: record.value, view, whole: true }),
      h("span", null, h(Mark, { record }))),
    isOpen && h(Detail, { record, view }));
}

/** What a transaction made of this record, in a word. */
function Mark({ record }) {
  if (record.control) return h(Badge, { state: record.control === "commit" ? "committed" : "aborted" }, `${record.control} marker`);
  if (record.transaction) return h(Badge, { state: record.transaction.state, title: "written in a transaction" }, `txn ${record.transaction.state}`);
  if (record.problem) return h(Badge, { state: "bad", title: record.problem }, "damaged");
  return isNull(record.value) && h(Badge, { state: "plain" }, "tombstone");
}

const isNull = (value) => value.length < 0;

/** One line of a value. */
function Cut({ value, view, whole }) {
  const name = `cut ${whole ? "value" : ""}`;
  return isNull(value) ? h("span", { class: `${name} null` }, "null") : h("span", { class: name }, written(value, view, false));
}

/** A value as text, JSON or hex. */
export function written(value, view, spread) {
  if (view === "hex") return spread ? hexLines(value.hex) : value.hex;
  if (view === "json" && value.json !== null && value.json !== undefined) return JSON.stringify(value.json, null, spread ? 2 : 0);
  return value.text ?? `0x${value.hex}`;
}

/** Sixteen bytes a line, with their place. */
function hexLines(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const part = hex.slice(at, at + 32);
    const codes = part.match(/../g) ?? [];
    const shown = codes.map((code) => (/^[2-6]|^7[0-9a-e]/.test(code) ? String.fromCharCode(parseInt(code, 16)) : "·")).join("");
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${codes.join(" ").padEnd(47)}  ${shown}`);
  }
  return lines.join("\n");
}

function Detail({ record, view }) {
  const transaction = record.transaction;
  return h("div", { class: "detail" },
    h("dl", null,
      h("dt", null, "Partition and offset"),
        h("dd", null, `${record.partition} at ${record.offset}, leader epoch ${record.epoch}`),
      h("dt", null, "Size"), h("dd", null, bytes(record.size)),
      record.problem && [h("dt", null, "Problem"), h("dd", { class: "bad-text" }, record.problem)],
      transaction && [h("dt", null, "Transaction"),
        h("dd", null, `producer ${transaction.producer_id}, epoch ${transaction.epoch}: ${transaction.state}. ${MEANING[transaction.state] ?? ""}`)]),
    record.headers.length > 0 && [h("h3", null, "Headers"), h("dl", null, record.headers.map(([name, value]) =>
      [h("dt", { class: "mono" }, name), h("dd", { class: "mono" }, isNull(value) ? "null" : written(value, view, false))]))],
    !record.control && [h("h3", null, "Key"), h(Whole, { value: record.key, view }), h("h3", null, "Value"),
      h(Whole, { value: record.value, view })]);
}

const MEANING = {
  open: "Readers of committed records do not see it yet.",
  committed: "Everybody sees it.",
  aborted: "Readers of committed records never see it.",
};

function Whole({ value, view }) {
  if (isNull(value)) return h("p", { class: "muted" }, "null");
  return [h("pre", { class: "value", tabindex: 0 }, written(value, view, true)),
    value.truncated && h("small", null, `The first bytes of ${bytes(value.length)}; read the rest with a client.`)];
}
