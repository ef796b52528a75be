// Eight charts of the last minutes; each is also a table.

import { brief, bytes, clock, duration, effect, Empty, fetched, h, Heading, render, signal } from "../lib/kit.js";

const perSecond = (value) => (value === null ? "–" : `${bytes(value)}/s`);
const millis = (value) => (value === null ? "–" : value < 10 ? `${Math.round(value * 10) / 10} ms` : duration(value));

/** Which series stand in which chart: names as the server gives them. */
const CHARTS = [
  { title: "Bytes in and out", format: perSecond, series: { in_bytes: "in", out_bytes: "out" }, meaning: "What clients write and read" },
  { title: "Produce and fetch", format: millis, series: { produce_p99_ms: "produce, p99", fetch_p99_ms: "fetch, p99" }, meaning: "How long clients wait for answers; fetches also wait for records" },
  { title: "Replication lag", format: brief, series: { replication_lag: "the slowest follower" }, meaning: "How many records a follower is behind its leader" },
  { title: "ISR shrinks and expands", format: brief, series: { isr_shrinks: "shrinks", isr_expands: "expands" }, meaning: "Replicas that leave and join the in-sync set" },
  { title: "Elections", format: brief, series: { elections: "elections" }, meaning: "Partitions that got a new leader" },
  { title: "Under-replicated partitions", format: brief, series: { under_replicated: "under-replicated", offline: "offline" }, meaning: "Partitions with a copy missing" },
  { title: "Canary", format: millis, series: { canary_ms: "the slowest broker" }, meaning: "How long a broker takes to answer the console" },
  { title: "Event loop delay", format: millis, series: { loop_delay_ms: "the slowest broker, p99" }, meaning: "How long a broker did not get to its work" },
];

const WINDOWS = { 1: "1 minute", 5: "5 minutes", 15: "15 minutes" };

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Metrics");
  const minutes = signal(5);
  const draws = CHARTS.map(makeChart);
  const metrics = fetched(() => context.api.get(`/api/metrics-view?since=${Date.now() - minutes.peek() * 60_000}`));
  context.every(metrics.refresh, 2000);
  const stop = effect(() => render(root,
    h(Heading, { title: "Metrics", facts: "Kept by the console while it runs, for 15 minutes. Brokers serve /metrics for longer histories." },
      h("div", { class: "segments", role: "group", "aria-label": "Window" }, Object.entries(WINDOWS).map(([value, words]) =>
        h("button", { "aria-pressed": String(minutes.value === Number(value)),
          onclick: () => { minutes.value = Number(value); metrics.refresh(); } }, words)))),
    metrics.show("metrics", (data) => (Object.keys(data.series).length
      ? h("div", { class: "charts" }, CHARTS.map((chart, index) => drawChart(draws[index], chart, data, minutes.value)))
      : h(Empty, { title: "Nothing is measured yet" }, context.session.mode === "live" ? "The first numbers come in a few seconds." : "A cluster that sends no events is not measured.")))));
  return { unmount: stop };
}

function drawChart(draw, chart, { series, now_ms: to }, minutes) {
  const from = to - minutes * 60_000;
  const lines = Object.entries(chart.series)
    .filter(([name]) => series[name])
    .map(([name, words]) => ({ name: words, points: series[name].filter((point) => point[0] >= from) }));
  return draw(lines, from, to);
}

const WIDTH = 480;
const HEIGHT = 150;
const GRID = [0, 0.5, 1];
const ROWS_MAX = 60;
/** Nothing was measured for so long: nobody watched. */
const GAP_MS = 5000;

/** @typedef {[number, number]} Point wall-clock milliseconds and a value */
/** @typedef {{name: string, points: Point[]}} Series */

/** The next round number above. */
function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

/**
 * The path of a line; where nothing is known it is broken.
 * @param {Point[]} points
 * @param {(t: number) => number} x
 * @param {(v: number) => number} y
 */
function path(points, x, y) {
  let d = "";
  let last = -Infinity;
  for (const [t, value] of points) {
    d += `${t - last < GAP_MS ? "L" : "M"}${x(t).toFixed(1)} ${y(value).toFixed(1)}`;
    last = t;
  }
  return d;
}

/** What stood last at or before a moment. */
function valueAt(points, t) {
  let found = null;
  for (const [at, value] of points) {
    if (at > t) break;
    found = value;
  }
  return found;
}

/**
 * A chart keeps where its cursor is and whether its table is shown.
 * @param {{title: string, format: (value: any) => string, meaning?: string}} options
 */
function makeChart({ title, format, meaning }) {
  const cursor = signal(null);
  const asTable = signal(false);

  return function draw(series, from, to) {
    const span = Math.max(1, to - from);
    const known = series.flatMap((line) => line.points.map((point) => point[1]));
    const top = roundUp(Math.max(0, ...known));
    const x = (t) => (WIDTH * (t - from)) / span;
    const y = (value) => HEIGHT * (1 - value / top);
    const at = cursor.value;
    const shownAt = at ?? to;
    const readout = series.map((line) => valueAt(line.points, shownAt));
    const values = series.map((line, index) => `${line.name} ${format(readout[index])}`).join(", ");
    const summary = `${title}, ${clock(from, false)} to ${clock(to, false)}: ${values}`;
    const follow = (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const t = from + (span * (event.clientX - box.left)) / box.width;
      cursor.value = Math.min(to, Math.max(from, t));
    };
    return h("figure", { class: "card chart", key: title },
      h("div", { class: "chart-head" }, h("h2", { title: meaning }, title),
        h("button", { class: "quiet small", "aria-pressed": String(asTable.value),
          onclick: () => { asTable.value = !asTable.peek(); } },
          asTable.value ? "Chart" : "Table", h("span", { class: "unseen" }, ` of ${title}`))),
      h("div", { class: "legend" }, series.map((line, index) => h("span", null,
        h("i", { class: `c${index % 6}` }), line.name, h("b", null, format(readout[index])))),
      at !== null && h("span", null, clock(at, false))),
      !series.length
        ? h("p", { class: "empty" }, "Not measured yet.")
        : asTable.value
        ? chartTable(title, series, format)
        : h("div", { class: "plot" },
          h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": summary,
            onpointermove: follow, onpointerleave: () => { cursor.value = null; } },
          GRID.map((part) => h("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(top * part), y2: y(top * part) })),
          series.map((line, index) => h("path", { key: line.name, class: `line c${index % 6}`, d: path(line.points, x, y) })),
          at !== null && h("line", { class: "cursor", x1: x(at), x2: x(at), y1: 0, y2: HEIGHT })),
          // Words beside the picture, not in it: they would be stretched with it.
          GRID.map((part) => h("span", { class: "tick y", style: { top: `${100 - 100 * part}%` }, "aria-hidden": "true" }, format(top * part))),
          h("span", { class: "tick x", "aria-hidden": "true" }, clock(from, false)),
          h("span", { class: "tick x last", "aria-hidden": "true" }, clock(to, false))));
  };
}

/** The newest numbers first. */
function chartTable(title, series, format) {
  const moments = [...new Set(series.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => b - a).slice(0, ROWS_MAX);
  return h("div", { class: "table-wrap", tabindex: 0, role: "region", "aria-label": `${title} as a table` },
    h("table", null,
      h("thead", null, h("tr", null,
        h("th", { scope: "col" }, "Time"), series.map((line) => h("th", { scope: "col", class: "number" }, line.name)))),
      h("tbody", null, moments.map((t) => h("tr", { key: t }, h("td", null, clock(t, false)),
        series.map((line) => h("td", { class: "number" }, format(valueAt(line.points, t)))))))));
}
