/**
 * The timeline: a lane per broker and per partition, one column per event. Columns are in causal
 * order as the server gives it, so an election never stands before the fence that caused it,
 * whatever the clocks of the machines say.
 */

import { withQuery } from "../lib/api.js";
import { clock, Empty, Failed, Field, h, Heading, ids, Loading, moment, Panel, render } from "../lib/kit.js";
import { cursorOf, groupOf, GROUPS, lanes, standingAt } from "./moments.js";

/** @typedef {import("./moments.js").Event} Event */
/** @typedef {import("./moments.js").Lane} Lane */

const COLUMN = 46;
const LANE = 46;
const HEAD = 26;
const PAGE = 300;
const REFRESH_MS = 300;
const MOST_EVENTS = 2000;
const MOST_LANES = 40;
/** So many pages are read to find the moment that an address names. */
const MOST_PAGES = 10;

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  const page = new Timeline(root, context);
  page.open();
  return { unmount: () => { page.closed = true; clearTimeout(page.timer); } };
}

class Timeline {
  /** @param {HTMLElement} root @param {import("../app.js").Context} context */
  constructor(root, context) {
    this.root = root;
    this.context = context;
    /** @type {Event[]} Oldest first. */
    this.events = [];
    /** @type {string|null} Where older events begin; null when there are none. */
    this.oldest = null;
    /** @type {string|null} The chosen moment; null follows the newest. */
    this.at = context.query.get("at");
    this.broker = context.query.get("broker") ?? "";
    this.partition = context.query.get("partition") ?? "";
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.loading = true;
    this.due = false;
    this.closed = false;
    /** @type {any} */
    this.timer = null;
    /** @type {any} */
    this.error = null;
  }

  async open() {
    const { context } = this;
    context.title("Timeline");
    this.root.classList.add("full");
    context.onKey("→", "next event", () => this.step(1));
    context.onKey("←", "event before", () => this.step(-1));
    this.draw();
    await this.load();
    context.stream.watch("timeline", { frame: (data) => data.events.length && this.refresh() });
    for (let page = 1; page < MOST_PAGES && this.at && !this.found() && this.oldest; page += 1) {
      await this.load();
    }
    if (this.at && !this.found()) {
      context.notify("That moment is older than what the brokers keep.", "bad");
      this.at = null;
    }
    this.scroll();
  }

  async load() {
    this.loading = true;
    try {
      const { broker, partition } = this;
      const answer = await this.context.api.get(
        withQuery("/api/timeline", { before: this.oldest, limit: PAGE, broker, partition }));
      this.oldest = answer.events.length ? answer.oldest ?? null : null;
      this.merge(answer.events, true);
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.loading = false;
    this.changed();
  }

  /** Something happened; the server knows where it belongs among what is shown. */
  refresh() {
    if (this.timer || this.closed) return;
    this.timer = setTimeout(async () => {
      this.timer = null;
      const { broker, partition } = this;
      const url = withQuery("/api/timeline", { limit: PAGE, broker, partition });
      const answer = await this.context.api.get(url).catch(() => null);
      if (answer && !this.closed) this.merge(answer.events, false);
      this.changed();
    }, REFRESH_MS);
  }

  /** @param {Event[]} events @param {boolean} older */
  merge(events, older) {
    const told = new Set(events.map(cursorOf));
    const others = this.events.filter((event) => !told.has(cursorOf(event)));
    this.events = older ? [...events, ...others].slice(0, MOST_EVENTS)
      : [...others, ...events].slice(-MOST_EVENTS);
  }

  changed() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.draw();
      if (!this.at) this.scroll();
    });
  }

  /** @param {Event} event */
  wanted(event) {
    if (this.hidden.has(groupOf(event))) return false;
    if (this.partition && event.partition !== this.partition) return false;
    return !this.broker || [event.broker, event.node, event.leader].includes(Number(this.broker));
  }

  shown() {
    return this.events.filter((event) => this.wanted(event));
  }

  found() {
    return this.shown().some((event) => cursorOf(event) === this.at);
  }

  /** @param {Event[]} shown */
  index(shown) {
    const found = shown.findIndex((event) => cursorOf(event) === this.at);
    return found < 0 ? shown.length - 1 : found;
  }

  /** @param {number} by */
  step(by) {
    const shown = this.shown();
    this.choose(shown, this.index(shown) + by);
  }

  /** @param {Event[]} shown @param {number} index */
  choose(shown, index) {
    const event = shown[Math.max(0, Math.min(index, shown.length - 1))];
    if (!event) return;
    this.at = cursorOf(event);
    this.remember();
    this.draw();
    this.scroll();
  }

  remember() {
    const { at, broker, partition } = this;
    history.replaceState(null, "", withQuery("/timeline", { at, broker, partition }));
  }

  scroll() {
    const box = this.root.querySelector(".lanes-scroll");
    if (!box) return;
    const x = this.index(this.shown()) * COLUMN;
    if (!this.at) box.scrollLeft = box.scrollWidth;
    else if (x < box.scrollLeft + COLUMN || x > box.scrollLeft + box.clientWidth - 2 * COLUMN) {
      box.scrollLeft = x - box.clientWidth / 2;
    }
  }

  /** @param {"broker"|"partition"} what @param {string} value */
  filter(what, value) {
    this[what] = value;
    this.events = [];
    this.oldest = null;
    this.remember();
    this.load();
  }

  draw() {
    const shown = this.shown();
    render(this.root,
      h(Heading, { title: "Timeline", facts: "One column per event, in causal order: epochs and numbers decide, not clocks." },
          this.oldest && h("button", { disabled: this.loading, onclick: () => this.load() }, "Load older"),
          this.at && h("button", { onclick: () => { this.at = null; this.remember(); this.draw(); this.scroll(); } },
            "Follow what happens")),
      this.filters(),
      this.error && h(Failed, { error: this.error, retry: () => this.load() }),
      shown.length ? this.picture(shown) : this.nothing());
  }

  nothing() {
    if (this.loading) return h(Loading, { what: "events" });
    return h(Empty, { title: "Nothing has happened." }, "Elections, ISR changes, fences and truncations appear here. ",
      this.context.session.may.chaos ? h("a", { href: "/chaos" }, "Break something") : "");
  }

  filters() {
    const text = (what, label) => h(Field, { label },
      h("input", { type: "search", value: this[what], placeholder: "all", size: what === "broker" ? 5 : 14,
        onchange: (event) => this.filter(what, event.target.value.trim()) }));
    return h("div", { class: "filters" }, text("broker", "Broker"), text("partition", "Partition"),
      h("fieldset", null, h("legend", null, "Show"), GROUPS.map((group) => h("label", { class: "check" },
        h("input", { type: "checkbox", checked: !this.hidden.has(group), onchange: () => {
          if (!this.hidden.delete(group)) this.hidden.add(group);
          this.draw();
        } }), group))));
  }

  /** @param {Event[]} shown */
  picture(shown) {
    const all = lanes(shown, () => true);
    const drawn = all.slice(0, MOST_LANES);
    const index = this.index(shown);
    return h(Panel, { class: "timeline" },
      h("label", { class: "scrub" }, h("span", { class: "unseen" }, "Moment"),
        h("input", { type: "range", min: 0, max: shown.length - 1, value: String(index),
          "aria-valuetext": shown[index].sentence,
          oninput: (event) => this.choose(shown, Number(event.target.value)) })),
      h("div", { class: "lanes" },
        h("ul", { class: "lane-names" }, drawn.map((lane) =>
          h("li", { key: lane.name }, h("a", { href: lane.href }, lane.name)))),
        h("div", { class: "lanes-scroll", tabindex: 0, role: "group", "aria-label": "Lanes" },
          this.svg(shown, drawn, index))),
      all.length > drawn.length && h("p", { class: "muted" }, `${all.length - drawn.length} more lanes: filter by broker or partition.`),
      this.moment(shown, index));
  }

  /** @param {Event[]} shown @param {Lane[]} drawn @param {number} index */
  svg(shown, drawn, index) {
    const width = shown.length * COLUMN + 40; // for the last time
    const height = HEAD + drawn.length * LANE;
    return h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Events" },
      h("rect", { class: "now-line", x: index * COLUMN, y: 0, width: COLUMN, height }),
      h("g", { class: "times" }, shown.map((event, at) => (at % 3 ? null
        : h("text", { x: at * COLUMN + 4, y: 15 }, clock(event.wall_ms))))),
      drawn.map((lane, row) => h("g", { key: lane.name, transform: `translate(0 ${HEAD + row * LANE})` },
        this.lane(lane, shown, index))));
  }

  /** @param {Lane} lane @param {Event[]} shown @param {number} index */
  lane(lane, shown, index) {
    return [
      h("path", { class: "lane-line", d: `M0 ${LANE - 9} H${shown.length * COLUMN}` }),
      lane.spans.map((span) => h("g", { class: `reign ${span.look}` },
        h("rect", { x: span.from * COLUMN, y: LANE - 18, width: (span.to - span.from) * COLUMN - 2, height: 16, rx: 3 }),
        h("text", { x: span.from * COLUMN + 5, y: LANE - 6 }, fitting(span.text, (span.to - span.from) * COLUMN)))),
      lane.marks.map((mark) => h("g", {
        class: `moment ${mark.look.split(" ")[0]} ${mark.at === index ? "chosen" : ""}`, role: "button", tabindex: 0,
        "aria-label": shown[mark.at].sentence, transform: `translate(${mark.at * COLUMN} 4)`,
        onclick: () => this.choose(shown, mark.at), onfocus: () => mark.at !== index && this.choose(shown, mark.at),
      }, h("title", null, shown[mark.at].sentence), h("rect", { x: 1, width: COLUMN - 3, height: 20, rx: 4 }),
      h("text", { x: COLUMN / 2, y: 14 }, mark.word))),
    ];
  }

  /** The chosen event in words, and how things stood. @param {Event[]} shown @param {number} index */
  moment(shown, index) {
    const event = shown[index];
    const standing = [...standingAt(shown, index)].filter(([name]) => !event.partition || name === event.partition);
    return h("div", { class: "moment-words", "aria-live": "polite" },
      h("p", null, h("strong", null, event.sentence)),
      h("p", { class: "muted" }, `event ${event.number} of node ${event.node}, ${moment(event.wall_ms)} by its clock`,
        ` · ${index + 1} of ${shown.length} · `, h("a", { href: withQuery("/timeline", { at: cursorOf(event) }) }, "link to this moment")),
      h("ul", null, standing.slice(0, 6).map(([name, { leader, epoch, isr }]) => h("li", { key: name },
        h("a", { href: `/p/${encodeURIComponent(name)}` }, name),
        ` after it: ${leader === undefined ? "" : `leader ${leader < 0 ? "nobody" : leader}, leader epoch ${epoch}, `}ISR ${ids(isr)}`))));
  }
}

/** As much of a label as its span holds. @param {string} text @param {number} room */
const fitting = (text, room) => (text.length * 6.5 < room - 8 ? text : text.replace("leader ", "").slice(0, Math.max(0, Math.floor((room - 8) / 6.5))));
