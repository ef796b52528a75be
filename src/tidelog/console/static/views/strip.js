/**
 * Log strips: the logs of all replicas of a partition, aligned by offset, one above the other.
 *
 * One SVG that is updated in place. Every number drawn was told by a broker: a frame that brings
 * 250 records draws 250 records at once, as one batch, and nothing moves between frames but by
 * sliding to where it belongs (150 ms, in CSS; not at all with reduced motion).
 *
 * Two ways to draw a window, with one arithmetic: *columns* of equal width. In the ordinary way a
 * column is one offset. When a frame brings more offsets than a window has columns, a column is what
 * arrived within half a second (`1041–1290 e4`), and `place` interpolates inside of it.
 */

import { ARROW_WIDTH, Arrows } from "./arrows.js";
import { Overview } from "./overview_strip.js";
import { move, say, set, stillness, svg } from "./svg.js";
import { epochAt, isKnown, lastSeen, nameAt, range, standing, stripSentence } from "./words.js";

/** @typedef {import("./words.js").Partition} Partition */
/** @typedef {import("./words.js").Replica} Replica */

export const EPOCH_COLOURS = 6;
const MOST_CELLS = 60;
const ROW = 86;
const CELL = 36;
const BATCH_WIDTH = 116;
const BATCH_MS = 500;
const CROWN = "M1 13 L0 3 L5 7 L8 0 L11 7 L16 3 L15 13 Z";

export class Strips {
  /**
   * @param {HTMLElement} root
   * @param {{explain?: (message: import("./words.js").Message|null) => void}} [options]
   */
  constructor(root, options = {}) {
    this.svg = svg("svg", { class: "strips", role: "group" }, hatches());
    this.overview = new Overview((offset) => this.lookAt(offset));
    root.append(this.overview.element, this.svg);
    this.pins = svg("g", { class: "pins" });
    this.window = svg("rect", { y: -4, height: CELL + 8 });
    const clip = svg("clipPath", { id: "strip-window" }, this.window);
    this.svg.append(clip, this.pins);
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    this.arrows = new Arrows(this.svg, options.explain);
    /** @type {Partition|null} */
    this.partition = null;
    /** Where the window begins when somebody looks at older offsets; null follows the end. */
    this.chosen = /** @type {number|null} */ (null);
    this.columns = new Columns();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(root);
    this.root = root;
    this.clock = setInterval(() => this.draw(), 1000);
  }

  close() {
    this.observer.disconnect();
    clearInterval(this.clock);
  }

  /** Show what the brokers told. @param {Partition} partition */
  update(partition) {
    const first = this.partition === null || this.partition.name !== partition.name;
    this.partition = partition;
    this.columns.arrived(end(partition), first);
    this.draw();
  }

  /** Begin the window at an offset; null follows the end again. @param {number|null} offset */
  lookAt(offset) {
    this.chosen = offset;
    this.draw();
  }

  draw() {
    const partition = this.partition;
    const width = this.root.clientWidth;
    if (!partition || !width) return;
    const layout = arrange(width, partition);
    this.columns.fit(partition, layout.room, this.chosen);
    const height = layout.top + partition.replica_logs.length * layout.row;
    set(this.svg, "width", width);
    set(this.svg, "height", height);
    set(this.svg, "viewBox", `0 0 ${width} ${height}`);
    set(this.svg, "aria-label", `Logs of the replicas of ${partition.name}`);
    set(this.window, "x", -2);
    set(this.window, "width", layout.room + 4);
    this.drawRows(partition, layout);
    this.drawPins(partition, layout);
    this.arrows.draw(partition, layout, new Map(
      partition.replica_logs.map((log, index) => [log.broker, layout.top + index * layout.row]),
    ));
    this.overview.draw(partition, this.columns.first, this.columns.last, this.chosen === null);
  }

  /** @param {Partition} partition @param {Layout} layout */
  drawRows(partition, layout) {
    const brokers = new Set(partition.replica_logs.map((log) => log.broker));
    for (const [broker, row] of this.rows) {
      if (!brokers.has(broker)) {
        row.element.remove();
        this.rows.delete(broker);
      }
    }
    const now = Date.now();
    partition.replica_logs.forEach((log, index) => {
      let row = this.rows.get(log.broker);
      if (!row) {
        row = new Row(log.broker);
        this.rows.set(log.broker, row);
        this.svg.append(row.element);
      }
      move(row.element, 0, layout.top + index * layout.row);
      row.draw(log, partition, { layout, columns: this.columns, now });
    });
  }

  /** Positions of consumer groups, above the strips: on two levels, so that neighbours can be read.
   * @param {Partition} partition @param {Layout} layout */
  drawPins(partition, layout) {
    /** @type {Map<number, string[]>} By place: groups at one place share a pin. */
    const at = new Map();
    for (const { group, offset } of partition.consumers || []) {
      const x = Math.round(Math.max(-1, Math.min(this.columns.place(offset), layout.room + 1)));
      const side = x < 0 ? "◂ " : "";
      at.set(x, [...(at.get(x) || []), `${side}${group} ${offset}`]);
    }
    const ends = [-Infinity, -Infinity];
    const pins = [...at].sort(([a], [b]) => a - b).map(([x, names]) => {
      const text = names.join(", ");
      const level = ends[0] <= x ? 0 : ends[1] <= x ? 1 : 0;
      ends[level] = x + 6.4 * text.length + 20;
      const stem = level ? 22 : 8;
      const pin = svg("g", { class: "pin" },
        svg("path", { d: `M0 0 V${stem} m-4 -6 l4 6 l4 -6` }),
        svg("text", { x: 6, y: 6 }, text),
        svg("title", {}, `Consumers' positions, the next offset each group reads: ${text}`));
      move(pin, layout.left + x, level ? 8 : 22);
      return pin;
    });
    this.pins.replaceChildren(...pins);
  }
}

/** @typedef {{left: number, room: number, top: number, row: number, drop: number, arrows: number,
 * arrowsAt: number, width: number}} Layout */

/** Words at the left, cells, and at the right the arrows: as many as the screen and the cells leave
 * room for. On a small screen the words stand above the cells. @param {number} width @param {Partition} partition @returns {Layout} */
function arrange(width, partition) {
  const drop = width < 560 ? 44 : 0;
  const left = drop ? 8 : 206;
  const tail = 74; // for the label of the log end
  const cells = (end(partition) - start(partition)) * cellWidth(partition);
  const spare = Math.max(0.42 * width, width - left - tail - cells);
  const slots = Math.min((partition.messages || []).length, Math.floor(spare / ARROW_WIDTH));
  const arrows = width < 860 ? 0 : slots * ARROW_WIDTH;
  const room = Math.max(120, width - left - arrows - tail);
  const arrowsAt = left + Math.min(room, cells) + tail;
  const top = (partition.consumers || []).length ? 48 : 12;
  return { left, room, top, row: ROW + drop, drop, arrows, arrowsAt, width };
}

/** Wide enough for the digits of an offset; generous to short logs. @param {Partition} partition */
const cellWidth = (partition) =>
  Math.max(end(partition) - start(partition) > 16 ? 28 : 36, 6.6 * `${end(partition)}`.length + 8);

/** @param {Partition} partition */
const end = (partition) => Math.max(0, ...partition.replica_logs.map((log) => log.log_end));
/** @param {Partition} partition */
const start = (partition) => Math.min(...partition.replica_logs.map((log) => log.log_start));

/** From offsets to places: see the head of this file. */
class Columns {
  constructor() {
    this.width = 22;
    this.capacity = 40;
    /** More offsets than this in one frame, and columns become batches. */
    this.many = 40;
    /** First offset in the window, and the one after its last. */
    this.first = 0;
    this.last = 0;
    this.base = 0;
    /** @type {{start: number, end: number, at: number}[]} Not empty while columns are batches. */
    this.batches = [];
    this.dropped = 0;
    this.end = 0;
    this.busy = 0;
  }

  /** A frame told that the longest log ends here. @param {number} end @param {boolean} first */
  arrived(end, first) {
    const now = performance.now();
    const previous = this.end;
    this.end = end;
    if (first || end < previous) {
      this.batches = [];
      return;
    }
    if (end - previous > this.many) this.busy = now;
    if (now - this.busy > 4 * BATCH_MS || !this.busy) this.batches = [];
    else this.grow(previous, now);
  }

  /** @param {number} previous @param {number} now */
  grow(previous, now) {
    const last = this.batches.at(-1);
    if (!last) {
      this.dropped = 0;
      if (previous > this.first) this.batches.push({ start: this.first, end: previous, at: 0 });
    } else if (now - last.at < BATCH_MS) {
      last.end = this.end;
      return;
    }
    if (this.end > previous) this.batches.push({ start: previous, end: this.end, at: now });
    if (this.batches.length > MOST_CELLS) {
      this.batches.shift();
      this.dropped += 1;
    }
  }

  /** @param {Partition} partition @param {number} room @param {number|null} chosen */
  fit(partition, room, chosen) {
    if (chosen !== null) this.batches = [];
    this.width = this.batches.length ? BATCH_WIDTH : cellWidth(partition);
    const fitting = (width) => Math.max(2, Math.min(MOST_CELLS, Math.floor(room / width)));
    this.capacity = fitting(this.width);
    this.many = fitting(cellWidth(partition));
    if (this.batches.length) {
      const skipped = Math.max(0, this.batches.length - this.capacity);
      this.slide = skipped + this.dropped;
      this.first = this.batches[skipped].start;
      this.last = this.end;
      return;
    }
    const oldest = start(partition);
    const wanted = chosen === null ? this.end - this.capacity : chosen;
    this.first = Math.max(oldest, Math.min(wanted, this.end - 1));
    this.last = Math.max(this.first + 1, Math.min(this.end, this.first + this.capacity));
    // Places are small numbers however large offsets are: coordinates are floats in a browser.
    if (Math.abs(this.first - this.base) > 2000) this.base = this.first;
    this.slide = this.first - this.base;
  }

  /** Place of an offset in columns since `base`. @param {number} offset */
  column(offset) {
    if (!this.batches.length) return offset - this.base;
    let index = this.batches.findIndex((batch) => offset < batch.end);
    if (index < 0) return this.batches.length + this.dropped;
    const { start, end } = this.batches[index];
    return index + this.dropped + Math.max(-1, (offset - start) / (end - start));
  }

  /** Pixels from the left edge of the window. @param {number} offset */
  place(offset) {
    return (this.column(offset) - /** @type {number} */ (this.slide)) * this.width;
  }

  /**
   * What a log has in this window: cells of one epoch, wholly committed or not, wholly equal to the
   * leader's or not. @param {Replica} log
   */
  cells(log) {
    const cuts = new Set([log.log_start, log.log_end, log.high_watermark ?? 0]);
    if (isKnown(log.diverges_at)) cuts.add(/** @type {number} */ (log.diverges_at));
    for (const [, start] of log.epochs) cuts.add(start);
    const spans = this.batches.length
      ? this.batches.filter((batch) => batch.end > this.first).map((b) => [b.start, b.end])
      : Array.from({ length: this.last - this.first }, (_, i) => [this.first + i, this.first + i + 1]);
    const cells = [];
    for (const [from, to] of spans) {
      const inside = [...cuts].filter((cut) => cut > from && cut < to).sort((a, b) => a - b);
      const edges = [from, ...inside, to];
      for (let i = 0; i + 1 < edges.length; i += 1) {
        const [begin, stop] = [edges[i], edges[i + 1]];
        if (begin >= log.log_start && stop <= log.log_end) cells.push({ start: begin, end: stop });
      }
    }
    return cells;
  }
}

/** @typedef {{layout: Layout, columns: Columns, now: number}} Drawing */
/** @typedef {{g: SVGElement, rect: SVGElement, top: SVGElement, low: SVGElement, end: number}} Cell */

/** One replica: who, its state, its log. */
class Row {
  /** @param {number} broker */
  constructor(broker) {
    this.crown = svg("path", { class: "strip-crown", d: CROWN });
    this.name = svg("text", { class: "broker", x: 26, y: 16 }, `broker ${broker}`);
    this.badge = svg("g", { class: "isr-badge" },
      svg("rect", { y: 3, height: 17, rx: 8 }), svg("text", { y: 15.5 }));
    this.words = svg("text", { class: "standing", x: 26, y: 34 });
    this.track = svg("path", { class: "track" });
    this.world = svg("g", { class: "world" });
    this.behind = svg("text", { class: "mark-text", y: 22 });
    this.hw = svg("g", { class: "mark hw" },
      svg("path", { d: `M0 -6 V${CELL + 6}` }), svg("text", { x: -4, y: CELL + 17 }));
    this.leo = svg("g", { class: "mark leo" },
      svg("path", { d: `M0 ${CELL + 3} l5 8 h-10 Z` }), svg("text", { x: 8, y: CELL + 17 }));
    this.log = svg("g", { class: "log" },
      this.track, svg("g", { "clip-path": "url(#strip-window)" }, this.world), this.hw, this.leo,
      this.behind);
    this.element = svg("g", { class: "replica-row", role: "img" },
      svg("g", {}, this.crown, this.name, this.badge, this.words), this.log);
    this.element.dataset.broker = String(broker);
    /** @type {Map<string, Cell>} */
    this.cells = new Map();
    this.ended = -1;
  }

  /** @param {Replica} log @param {Partition} partition @param {Drawing} drawing */
  draw(log, partition, drawing) {
    const { layout, columns, now } = drawing;
    const leads = log.broker === partition.leader;
    set(this.element, "class", `replica-row ${log.state} ${leads ? "leads" : ""}`);
    set(this.element, "aria-label", stripSentence(log, partition, now));
    const crown = leads ? "now" : log.broker === partition.preferred ? "preferred" : "none";
    set(this.crown, "class", `strip-crown ${crown}`);
    this.drawBadge(log);
    say(this.words, log.in_isr || log.state === "alive" ? standing(log, partition, now) : lastSeen(log, now));
    move(this.log, layout.left, layout.drop);
    set(this.track, "d", `M0 ${CELL / 2} H${layout.width - layout.left}`);
    this.drawCells(log, columns);
    this.drawMarks(log, columns, layout);
  }

  /** @param {Replica} log */
  drawBadge(log) {
    const text = log.in_isr ? "ISR" : log.state === "alive" ? "not in ISR" : log.state;
    const [rect, label] = this.badge.children;
    const width = 7 * text.length + 12;
    set(this.badge, "class", `isr-badge ${log.in_isr ? "in" : "out"}`);
    move(this.badge, 34 + 8.3 * (this.name.textContent || "").length, 0);
    set(rect, "width", width);
    set(label, "x", width / 2);
    say(label, text);
  }

  /** @param {Replica} log @param {Columns} columns */
  drawCells(log, columns) {
    // The window does not slide: in a busy log it would always lag behind the marks.
    move(this.world, -(/** @type {number} */ (columns.slide)) * columns.width, 0);
    const fresh = this.ended >= 0 && !columns.batches.length; // what always fades in is not seen
    const kept = new Set();
    for (const cell of columns.cells(log)) {
      const epoch = epochAt(log, cell.start);
      const key = `${cell.start}:${epoch}`;
      kept.add(key);
      let drawn = this.cells.get(key);
      if (!drawn) {
        drawn = newCell(fresh && cell.end > this.ended);
        this.cells.set(key, drawn);
        this.world.append(drawn.g);
      }
      drawn.end = cell.end;
      paint(drawn, cell, { log, columns, epoch });
    }
    for (const [key, cell] of this.cells) {
      if (kept.has(key)) continue;
      this.cells.delete(key);
      // Scrolled out of the window, or cut off: only what was cut off falls.
      const cut = this.ended > log.log_end && cell.end > log.log_end;
      if (cut && !stillness.matches) fall(cell.g);
      else cell.g.remove();
    }
    this.ended = log.log_end;
  }

  /** @param {Replica} log @param {Columns} columns @param {Layout} layout */
  drawMarks(log, columns, layout) {
    const told = isKnown(log.high_watermark);
    const hw = columns.place(log.high_watermark ?? 0);
    const leo = columns.place(log.log_end);
    const left = !log.untold && leo <= 0 && columns.first > log.log_end;
    const outside = !told || hw < 0 || hw > layout.room + 4;
    this.hw.classList.toggle("hidden", left || outside);
    this.leo.classList.toggle("hidden", left || log.untold || leo > layout.room + 4);
    move(this.hw, hw, 0);
    move(this.leo, leo, 0);
    say(this.hw.children[1], `HW ${log.high_watermark}`);
    say(this.leo.children[1], `LEO ${log.log_end}`);
    let words = "";
    if (log.untold) words = "log end not told";
    else if (left) words = `◂ ends before this window: HW ${log.high_watermark}, LEO ${log.log_end}`;
    else if (told && hw < 0) words = `◂ HW ${log.high_watermark}`;
    set(this.behind, "x", left ? 6 : 0);
    set(this.behind, "y", left || log.untold ? CELL / 2 + 4 : CELL + 17);
    say(this.behind, words);
  }
}

/** @param {boolean} appears @returns {Cell} */
function newCell(appears) {
  const rect = svg("rect", { y: 0, height: CELL, rx: 3 });
  const top = svg("text", { class: "cell-offset", y: 15 });
  const low = svg("text", { class: "cell-epoch", y: 29 });
  const g = svg("g", {}, rect, top, low);
  if (appears) g.dataset.new = "";
  return { g, rect, top, low, end: 0 };
}

/**
 * @param {Cell} cell @param {{start: number, end: number}} span
 * @param {{log: Replica, columns: Columns, epoch: number|null}} drawing
 */
function paint(cell, span, { log, columns, epoch }) {
  const from = columns.column(span.start) * columns.width;
  const width = columns.column(span.end) * columns.width - from - 2;
  const committed = span.end <= (log.high_watermark ?? 0);
  const differs = isKnown(log.diverges_at) && span.start >= /** @type {number} */ (log.diverges_at);
  const look = differs ? "differs" : committed ? "committed" : "uncommitted";
  const colour = epoch === null ? "unknown" : epoch % EPOCH_COLOURS;
  set(cell.g, "class", `cell ${look} epoch-${colour}`);
  set(cell.rect, "fill", differs ? `url(#hatch-${colour})` : "none");
  set(cell.rect, "x", from + 1);
  set(cell.rect, "width", Math.max(1, width));
  const middle = from + 1 + width / 2;
  const label = range(span.start, span.end) + nameAt(log, span.start);
  set(cell.top, "x", middle);
  set(cell.low, "x", middle);
  say(cell.top, width > 6.2 * label.length ? label : "");
  say(cell.low, width >= 14 ? `e${epoch ?? "?"}` : "");
}

/** @param {SVGElement} cell */
function fall(cell) {
  cell.classList.add("falls");
  setTimeout(() => cell.remove(), 600);
}

/** Patterns for what differs from the leader, one per colour. */
function hatches() {
  return svg("defs", {}, ...Array.from({ length: EPOCH_COLOURS }, (_, epoch) =>
    svg("pattern", {
      id: `hatch-${epoch}`, class: `epoch-${epoch}`, width: 7, height: 7,
      patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
    }, svg("path", { class: "hatch", d: "M0 0 V7" })),
  ));
}
