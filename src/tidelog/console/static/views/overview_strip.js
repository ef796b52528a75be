/**
 * The whole log of every replica in a few pixels, with its epochs, above the window that is drawn
 * large. A slider: click, drag or the arrow keys choose what the window shows.
 */

import { epochSpans, isKnown } from "./words.js";

/** @typedef {import("./words.js").Partition} Partition */

const LINE = 7;

export class Overview {
  /** @param {(offset: number|null) => void} choose Null follows the end of the log. */
  constructor(choose) {
    this.canvas = document.createElement("canvas");
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.textContent = "follow the end";
    this.button.addEventListener("click", () => choose(null));
    this.ends = document.createElement("span");
    this.element = document.createElement("div");
    this.element.className = "overview-strip";
    this.element.append(this.canvas, this.ends, this.button);
    this.choose = choose;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "slider");
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.drag(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.start = 0;
    this.end = 1;
    this.first = 0;
    this.last = 0;
  }

  /** @param {Partition} partition @param {number} first @param {number} last @param {boolean} following */
  draw(partition, first, last, following) {
    const logs = partition.replica_logs;
    this.start = Math.min(...logs.map((log) => log.log_start));
    this.end = Math.max(this.start + 1, ...logs.map((log) => log.log_end));
    this.first = first;
    this.last = last;
    const whole = first <= this.start && last >= this.end;
    this.element.hidden = whole;
    if (whole) return;
    this.button.hidden = following;
    this.say(partition);
    const { width, height, context } = this.prepare(logs.length * (LINE + 2) + 6);
    const style = getComputedStyle(this.canvas);
    const scale = width / (this.end - this.start);
    logs.forEach((log, index) => {
      const y = 3 + index * (LINE + 2);
      for (const [epoch, from, to] of epochSpans(log)) {
        context.fillStyle = style.getPropertyValue(`--epoch-${epoch % 6}`);
        const x = (from - this.start) * scale;
        context.fillRect(x, y, Math.max(1, (to - from) * scale), LINE);
        this.label(context, `e${epoch}`, x + 3, y, (to - from) * scale);
      }
      if (!isKnown(log.high_watermark)) return;
      context.fillStyle = style.color;
      context.fillRect((log.high_watermark - this.start) * scale - 1, y - 1, 2, LINE + 2);
    });
    context.strokeStyle = style.color;
    context.lineWidth = 2;
    const shown = Math.max(4, (last - first) * scale);
    context.strokeRect(Math.min(width - 5, (first - this.start) * scale) + 1, 1, shown - 2, height - 2);
  }

  /** @param {number} height */
  prepare(height) {
    const ratio = devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.scale(ratio, ratio);
    return { width, height, context };
  }

  /** @param {CanvasRenderingContext2D} context @param {string} text @param {number} x @param {number} y @param {number} room */
  label(context, text, x, y, room) {
    if (room < 18) return;
    context.fillStyle = "#fff";
    context.font = "bold 7px system-ui, sans-serif";
    context.fillText(text, x, y + LINE - 1);
  }

  /** @param {Partition} partition */
  say(partition) {
    const set = (name, value) => this.canvas.setAttribute(name, String(value));
    set("aria-label", `Window into the whole log of ${partition.name}`);
    set("aria-valuemin", this.start);
    set("aria-valuemax", this.end);
    set("aria-valuenow", this.first);
    set("aria-valuetext", `offsets ${this.first} to ${this.last - 1} of ${this.start} to ${this.end - 1}`);
    this.ends.textContent =
      `whole log ${this.start}–${this.end - 1}, shown ${this.first}–${this.last - 1}`;
  }

  /** @param {PointerEvent} event */
  drag(event) {
    const box = this.canvas.getBoundingClientRect();
    const part = (event.clientX - box.left) / box.width;
    this.pick(this.start + part * (this.end - this.start) - (this.last - this.first) / 2);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const page = this.last - this.first;
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -page, PageDown: page };
    if (event.key in steps) this.pick(this.first + steps[event.key]);
    else if (event.key === "Home") this.pick(this.start);
    else if (event.key === "End") this.choose(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {number} wanted */
  pick(wanted) {
    const first = Math.max(this.start, Math.round(wanted));
    this.choose(first + (this.last - this.first) >= this.end ? null : first);
  }
}
