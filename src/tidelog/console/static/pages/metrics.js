// Eight charts of the last minutes; each is also a table.

import { makeChart } from "../lib/chart.js";
import { h, render } from "../lib/dom.js";
import { fetched } from "../lib/fetched.js";
import { brief, bytes, duration } from "../lib/format.js";
import { effect, signal } from "../lib/signal.js";
import { Empty, Heading } from "../lib/widgets.js";

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
