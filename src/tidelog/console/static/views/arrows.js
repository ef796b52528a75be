/**
 * Messages between replicas, as arrows at the right of the strips.
 *
 * A strip goes on to the right as the life of its broker; an arrow leads from who sent to who
 * received and carries the message's numbers. The newest is at the right. What a broker did to
 * itself (it truncated) is a mark on its own line.
 */

import { svg } from "./svg.js";

/** @typedef {import("./words.js").Message} Message */
/** @typedef {import("./words.js").Partition} Partition */

export const ARROW_WIDTH = 138;
/** In a quicker sequence nothing would be seen if everything faded in. */
const CALM_MS = 300;
const MIDDLE = 18;

export class Arrows {
  /** @param {SVGElement} parent @param {(message: Message|null) => void} [explain] */
  constructor(parent, explain = () => {}) {
    this.element = svg("g", { class: "arrows" });
    parent.append(this.element);
    this.explain = explain;
    this.shown = "";
    this.drawnAt = 0;
    this.calm = true;
    /** @type {Set<string>} */
    this.known = new Set();
  }

  /**
   * @param {Partition} partition @param {import("./strip.js").Layout} layout
   * @param {Map<number, number>} rows From a broker to the top of its strip.
   */
  draw(partition, layout, rows) {
    const slots = Math.floor(layout.arrows / ARROW_WIDTH);
    const messages = slots ? (partition.messages || []).slice(-slots) : [];
    const shown = JSON.stringify([messages, layout, [...rows]]);
    if (shown === this.shown) return;
    this.shown = shown;
    const now = performance.now();
    this.calm = now - this.drawnAt > CALM_MS;
    this.drawnAt = now;
    const focused = this.element.contains(document.activeElement)
      ? /** @type {SVGElement} */ (document.activeElement).dataset.key : null;
    const known = new Set();
    /** @type {SVGElement[]} */
    const arrows = [];
    messages.forEach((message, index) => {
      if (!rows.has(message.from) || !rows.has(message.to)) return;
      const key = keyOf(message, known);
      known.add(key);
      const x = layout.arrowsAt + ARROW_WIDTH * index + 14;
      arrows.push(this.arrow(message, key, x, rows));
    });
    this.element.replaceChildren(...arrows);
    this.known = known;
    const again = arrows.find((arrow) => arrow.dataset.key === focused);
    if (again && focused) again.focus();
  }

  /** @param {Message} message @param {string} key @param {number} x @param {Map<number, number>} rows */
  arrow(message, key, x, rows) {
    const from = /** @type {number} */ (rows.get(message.from)) + MIDDLE;
    const to = /** @type {number} */ (rows.get(message.to)) + MIDDLE;
    const own = from === to;
    const down = to > from;
    const tip = to + (down ? -3 : 3);
    const line = own ? `M0 ${from} m-6 -6 l12 12 m0 -12 l-12 12` : `M0 ${from} V${tip}`;
    const head = own ? "" : `M0 ${tip} l-5 ${down ? -8 : 8} h10 Z`;
    const lines = message.text.split(", ");
    const beside = own ? from + 24 : from + (down ? 34 : -26 - 13 * (lines.length - 1) + 13);
    const label = svg("text", { class: "says" }, ...lines.map((text, index) =>
      svg("tspan", { x: own ? -6 : 9, y: beside + 13 * index }, text)));
    const [top, bottom] = own ? [from - 12, from + 46] : [Math.min(from, to), Math.max(from, to)];
    const g = svg("g", {
      class: `message ${message.kind} ${message.fate ?? ""} ${message.new === false ? "old" : ""}`, tabindex: 0, role: "button",
      "aria-label": `${who(message)}: ${message.text}. ${message.explain}`,
      transform: `translate(${x} 0)`,
    },
    svg("rect", { class: "hit", x: -10, y: top, width: ARROW_WIDTH - 8, height: bottom - top, rx: 4 }),
    svg("circle", { cx: 0, cy: from, r: own ? 0 : 3 }),
    svg("path", { class: "line", d: line }), svg("path", { class: "head", d: head }), label);
    g.dataset.key = key;
    if (this.calm && !this.known.has(key)) g.dataset.new = "";
    for (const event of ["mouseenter", "focus", "click"]) {
      g.addEventListener(event, () => this.explain(message));
    }
    return g;
  }
}

/** `2 → 3`, or only who when a broker did it to itself. @param {Message} message */
export const who = (message) =>
  message.from === message.to ? `${message.from}` : `${message.from} → ${message.to}`;

/** The same message twice is two messages. @param {Message} message @param {Set<string>} taken */
export function keyOf(message, taken) {
  const plain = `${message.from}>${message.to}:${message.text}`;
  let key = plain;
  for (let again = 2; taken.has(key); again += 1) key = `${plain}#${again}`;
  return key;
}
