/** The partition view, `/p/orders-0`: what every replica has, what they say to each other. */

import { Badge, clock, Failed, h, Heading, Loading, Panel, plural, render, since } from "../lib/kit.js";
import { Picture } from "./picture.js";
import { headline } from "./words.js";

/** @typedef {import("./words.js").Partition} Partition */
/** @typedef {import("./words.js").Replica} Replica */
/** @typedef {{node: number|null, number: number, wall_ms: number, kind: string, sentence: string}} Event */

const KEPT_EVENTS = 60;
const LOOK_MS = 3000;
/** They come with every record; the strips show them. */
const USUAL = new Set(["RecordsAppended", "HighWatermarkAdvanced"]);
const ANNOUNCED = new Set(["LeaderElected", "IsrCommitted", "IsrChanged"]);

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  const page = new PartitionPage(root, context);
  page.open();
  return { unmount: () => page.picture.close() };
}

class PartitionPage {
  /** @param {HTMLElement} root @param {import("../app.js").Context} context */
  constructor(root, context) {
    this.root = root;
    this.context = context;
    this.name = context.params.name;
    this.picture = new Picture(() => this.draw());
    /** @type {Partition|null} What the cluster told last. */
    this.partition = null;
    /** @type {Event[]} Newest first. */
    this.events = [];
    this.paused = false;
    this.waiting = 0;
    this.everything = false;
    this.due = false;
    /** @type {any} */
    this.error = null;
  }

  open() {
    const { context, name } = this;
    context.title(name);
    this.root.classList.add("full");
    try {
      sessionStorage.setItem("tidelog.partition", name);
    } catch {
      // Without storage `g p` leads to the topics.
    }
    this.addKeys();
    this.draw();
    context.every(() => this.look(), LOOK_MS);
    context.stream.watch(`partition:${name}`, {
      snapshot: (data) => data.partition && this.told(data.partition),
      frame: (data) => this.frame(data),
      gap: (data) => this.gap(data),
      node: (data) => this.node(data),
    });
  }

  /** Events do not tell where consumers are. */
  async look() {
    try {
      const told = await this.context.api.get(`/api/partition/${encodeURIComponent(this.name)}`);
      this.told(this.partition ? { ...this.partition, consumers: told.consumers } : told);
    } catch (error) {
      if (this.partition) return; // the stream says by itself that it is lost
      this.error = error;
      this.draw();
    }
  }

  addKeys() {
    const { context } = this;
    const may = context.session.may;
    context.onKey("space", "pause or go on", () => this.pause());
    context.onKey("t", "table or picture", () => this.picture.toggleTable());
    context.onKey("[", "partition before", () => this.neighbour(-1));
    context.onKey("]", "next partition", () => this.neighbour(1));
    if (may.chaos) {
      context.onKey("k", "kill the leader", () => this.kill());
      context.onKey("r", "restart a broker that is down", () => this.restart());
    }
    if (may.produce) context.onKey("n", "produce a record", () => this.produce());
  }

  /** @param {Partition} partition */
  told(partition) {
    this.error = null;
    this.partition = partition;
    this.changed();
  }

  /** @param {any} data */
  frame(data) {
    const partition = this.partition;
    if (!partition) return;
    /** @type {Event[]} */
    const events = data.events ?? [];
    this.partition = merged(partition, data);
    this.events = [...events.slice().reverse(), ...this.events].slice(0, KEPT_EVENTS);
    for (const event of events) if (ANNOUNCED.has(event.kind)) this.context.announce(event.sentence);
    this.changed();
  }

  /** @param {{node: number|null, missed: number|null}} data */
  gap(data) {
    const missed = data.missed === null ? "some events" : plural(data.missed, "event");
    const whose = data.node === null ? "" : ` of broker ${data.node}`;
    const sentence = `${missed}${whose} cannot be told any more; the picture shows how things are now`;
    this.events.unshift({ node: data.node, number: 0, wall_ms: Date.now(), kind: "Gap", sentence });
    this.changed();
  }

  /** @param {{node: number, state: string}} data */
  node(data) {
    const partition = this.partition;
    if (!partition || !partition.replicas.includes(data.node)) return;
    const replica_logs = partition.replica_logs.map((log) => (log.broker === data.node
      ? { ...log, state: data.state, last_seen_ms: data.state === "alive" ? log.last_seen_ms : log.last_seen_ms || Date.now() }
      : log));
    this.partition = { ...partition, replica_logs };
    this.changed();
  }

  changed() {
    if (this.paused) this.waiting += 1;
    else this.shown = this.partition;
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      if (!this.paused && this.partition) this.picture.show(this.partition);
      this.draw();
    });
  }

  pause() {
    this.paused = !this.paused;
    this.waiting = 0;
    this.context.announce(this.paused ? "The picture is paused" : "The picture goes on");
    this.changed();
  }

  /** @param {number} step */
  async neighbour(step) {
    const { topic, partition } = this.partition ?? {};
    if (topic === undefined || partition === undefined) return;
    const { partitions } = await this.context.api.get(`/api/topics/${encodeURIComponent(topic)}`);
    const next = (partition + step + partitions.length) % partitions.length;
    if (next !== partition) this.context.navigate(`/p/${encodeURIComponent(`${topic}-${next}`)}`);
    else this.context.notify(`${topic} has no other partition.`);
  }

  /** @param {Promise<any>} request @param {(answer: any) => string} words */
  async ask(request, words) {
    try {
      this.context.notify(words(await request));
    } catch (error) {
      const { message, hint } = /** @type {any} */ (error);
      this.context.notify(hint ? `${message} ${hint}` : message, "bad");
    }
  }

  kill() {
    const leader = this.partition?.leader ?? null;
    if (leader === null) return this.context.notify("There is no leader to kill.", "bad");
    return this.ask(this.context.api.post("/api/chaos", { kind: "kill", node: leader }),
      () => `Broker ${leader} was killed.`);
  }

  restart() {
    const down = this.partition?.replica_logs.find((log) => log.state === "down");
    if (!down) return this.context.notify("Every replica's broker is running.", "bad");
    return this.ask(this.context.api.post("/api/chaos", { kind: "restart", node: down.broker }),
      () => `Broker ${down.broker} starts again.`);
  }

  produce() {
    const { topic, partition } = /** @type {Partition} */ (this.partition);
    const value = `from the console at ${clock(Date.now())}`;
    return this.ask(this.context.api.post("/api/records", { topic, partition, key: null, value, headers: [] }),
      (answer) => `Produced offset ${answer.offset}.`);
  }

  draw() {
    const partition = this.shown ?? this.partition;
    if (!partition) {
      return render(this.root, this.error ? h(Failed, { error: this.error, retry: () => this.look() })
        : h(Loading, { what: this.name }));
    }
    if (!this.picture.partition) this.picture.show(partition);
    return render(this.root,
      this.head(partition),
      partition.mode === "polled" && h("p", { class: "note warn" }, h("strong", null, "polled"),
        " This cluster is asked every few seconds: leader, epoch, ISR, log end and lag are as of the last",
        " answer. Leader epochs of records and messages are not told."),
      h(Panel, { class: "strips-card" }, this.picture.view()),
      h("div", { class: "columns" },
        h(Panel, { title: "Messages" }, (partition.messages || []).length ? this.picture.messageList()
          : h("p", { class: "muted" }, "None yet. They come when followers fetch something new.")),
        h(Panel, { title: "Events", aside: this.everythingBox() }, this.eventList())));
  }

  /** @param {Partition} partition */
  head(partition) {
    const may = this.context.session.may;
    const facts = [headline(partition).join(" · "), " · ", h(Badge, { state: partition.state }),
      partition.state !== "healthy" && partition.since_ms ? ` for ${since(partition.since_ms)}` : "",
      partition.parked_produces ? h("span", { class: "parked" },
        ` · ${partition.parked_produces} parked`) : ""];
    const key = (name) => h("kbd", null, name);
    return h(Heading, {
      title: partition.name, facts,
      crumbs: [h("a", { href: "/topics" }, "Topics"), " / ",
        h("a", { href: `/topics/${encodeURIComponent(partition.topic)}` }, partition.topic)],
    }, [
        may.produce && h("button", { onclick: () => this.produce() }, "Produce ", key("n")),
        may.chaos && h("button", { class: "danger", onclick: () => this.kill() }, "Kill leader ", key("k")),
        may.chaos && h("button", { onclick: () => this.restart() }, "Restart ", key("r")),
        h("button", { onclick: () => this.picture.toggleTable(), "aria-pressed": String(this.picture.asTable) },
          "Table ", key("t")),
        h("button", { onclick: () => this.pause(), "aria-pressed": String(this.paused) },
          this.paused ? `Paused, ${this.waiting} changes wait ` : "Pause ", key("space")),
    ]);
  }

  everythingBox() {
    return h("label", { class: "check" }, h("input", { type: "checkbox", checked: this.everything,
      onchange: () => { this.everything = !this.everything; this.draw(); } }), "appends too");
  }

  eventList() {
    const shown = this.events.filter((event) => this.everything || !USUAL.has(event.kind)).slice(0, 14);
    if (!shown.length) return h("p", { class: "muted" }, "Nothing but records since this page was opened.");
    return h("ol", { class: "events" }, shown.map((event) =>
      h("li", { key: `${event.node}:${event.number}:${event.wall_ms}`, class: event.kind },
        h("time", null, clock(event.wall_ms)), " ", event.sentence)));
  }
}

/**
 * The partition after a frame, which tells what has changed.
 * @param {Partition} partition @param {any} data @returns {Partition}
 */
function merged(partition, data) {
  const next = { ...partition, ...(data.partition ?? {}) };
  next.parked_produces = data.parked_produces ?? next.parked_produces;
  next.messages = data.messages ?? next.messages;
  const told = data.replicas ?? {};
  next.replica_logs = next.replica_logs.map((log) => ({ ...log, ...(told[log.broker] ?? {}) }));
  return next;
}
