// Faults as buttons, and what is broken now with a way back.

import {
  Badge, BrokerLink, Card, clock, confirmed, effect, Empty, fetched, h, Heading, plural, render, signal, since,
  Table,
} from "../lib/kit.js";

/** What each fault does, in one sentence. */
const FAULTS = {
  kill: ["Kill", "The process dies at once; what was not on disk is gone."],
  restart: ["Restart", "It starts again, reads its log and catches up."],
  pause: ["Pause", "It stands still but keeps its connections, like a long stop of the machine."],
  resume: ["Resume", "It goes on where it stood."],
  slow: ["Slow", "Every message to and from it takes longer."],
  "fill-disk": ["Fill its disk", "Writes fail as on a full disk."],
  "free-disk": ["Free its disk", "There is room again."],
  cut: ["Cut the network", "Two sides that cannot reach each other."],
  heal: ["Heal all", "All cuts and delays end."],
};

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Chaos");
  const chaos = fetched(() => context.api.get("/api/chaos"));
  const busy = signal("");
  const latency = signal("80");
  const side = signal(new Set());
  const refresh = chaos.refresh;
  const perform = async (work, told) => {
    busy.value = told;
    await context.attempt(work, told);
    busy.value = "";
    refresh();
  };
  const act = (fault, told) => perform(() => context.api.post("/api/chaos", fault), `${told}: done.`);
  const undo = (fault) => perform(() => context.api.delete(`/api/chaos/${encodeURIComponent(fault.id)}`), `Undone: ${words(fault)}.`);
  context.stream.watch("overview", { node: refresh });
  context.every(refresh, 2000);
  const controls = { act, undo, busy, latency, side };
  const stop = effect(() => render(root, chaos.show("faults", (data) => draw(data, controls, context))));
  return { unmount: stop };
}

const words = (fault) => `${fault.kind}${fault.node === null || fault.node === undefined ? "" : ` ${fault.node}`}`;

function draw(data, controls, context) {
  const may = context.session.may.chaos;
  return [
    h(Heading, { title: "Chaos", facts: data.active.length ? `${plural(data.active.length, "fault")} now` : "Nothing is broken on purpose." },
      may && data.kinds.includes("heal") && h("button", { onclick: () => controls.act({ kind: "heal" }, "Heal all") }, "Heal all")),
    !may && h("p", { class: "banner warn" }, "Faults are off here. `tidelog up` starts a cluster where they are on."),
    h(Card, { title: "Active faults" }, h(Active, { data, controls, may })),
    may && h("div", { class: "faults" }, data.nodes.map((node) => h(NodeCard, { key: node.id, node, data, controls }))),
    may && data.kinds.includes("cut") && data.nodes.length > 1 && h(Cut, { data, controls }),
  ];
}

/** Of processes, in the words of brokers. */
const STATES = { running: "alive", gone: "down" };

function Active({ data, controls, may }) {
  return h(Table, { caption: "Active faults", rows: data.active, rowKey: (fault) => fault.id,
    empty: h(Empty, { title: "No fault is active" }, "Break something below; it will stand here with its undo."), columns: [
      { name: "Fault", cell: (fault) => h("strong", null, fault.kind) },
      { name: "Broker", cell: (fault) => (fault.node === null || fault.node === undefined ? "–" : h(BrokerLink, { id: fault.node })) },
      { name: "What", wide: true, cell: (fault) => fault.detail ?? FAULTS[fault.kind]?.[1] ?? "" },
      { name: "Started by", cell: (fault) => fault.by ?? "not known" },
      { name: "For", number: true,
        cell: (fault) => (fault.since_ms ? h("span", { title: clock(fault.since_ms) }, since(fault.since_ms)) : "–") },
      may && { name: h("span", { class: "unseen" }, "Undo"), number: true,
        cell: (fault) => h("button", { class: "small", disabled: Boolean(controls.busy.value), "aria-label": `Undo ${words(fault)}`, onclick: () => controls.undo(fault) }, "Undo") },
    ].filter(Boolean) });
}

function NodeCard({ node, data, controls }) {
  const id = node.id;
  const state = STATES[node.state] ?? node.state;
  const offered = (kind) => data.kinds.includes(kind);
  const button = (kind, more = {}) => offered(kind) && h("button", {
    class: `small ${kind === "kill" ? "danger" : ""}`, title: FAULTS[kind][1], disabled: Boolean(controls.busy.value),
    "aria-label": `${FAULTS[kind][0]} broker ${id}`,
      onclick: () => controls.act({ kind, node: id, ...more }, `${FAULTS[kind][0]} broker ${id}`),
  }, FAULTS[kind][0]);
  const is = (kind) => data.active.some((fault) => fault.node === id && fault.kind === kind);
  return h("section", { class: "card node-card", key: id, "aria-label": `Broker ${id}` },
    h("div", { class: "row spread" }, h("h2", null, "Broker ", h(BrokerLink, { id })), h(Badge, { state })),
    h("div", { class: "row" },
      state === "down" ? button("restart") : [button("kill"), state === "paused" || is("pause") ? button("resume") : button("pause"), is("fill-disk") ? button("free-disk") : button("fill-disk")]),
    offered("slow") && state !== "down" && h("div", { class: "row" },
      h("label", { class: "check" }, "Delay",
        h("input", { type: "number", min: 1, max: 10000, value: controls.latency.value, "aria-label": `Delay for broker ${id} in milliseconds`, style: { width: "76px" }, oninput: (event) => { controls.latency.value = event.target.value; } }), "ms"),
      button("slow", { latency_ms: Number(controls.latency.value) })));
}

function Cut({ data, controls }) {
  const all = data.nodes.map((node) => node.id);
  const chosen = controls.side.value;
  const other = all.filter((id) => !chosen.has(id));
  const toggle = (id) => { const next = new Set(chosen); if (!next.delete(id)) next.add(id); controls.side.value = next; };
  const cut = async () => {
    const text = `Brokers ${[...chosen].join(", ")} and ${other.join(", ")} will not reach each other until you heal the network.`;
    if (await confirmed({ title: "Cut the network?", text, action: "Cut it" })) controls.act({ kind: "cut", groups: [[...chosen], other] }, "Cut the network");
  };
  return h(Card, { title: "Cut the network" }, h("div", { class: "card-body" },
    h("p", { class: "muted" }, "Choose who stands alone on one side. Clients still reach both sides."),
    h("fieldset", { class: "row" },
      h("legend", { class: "unseen" }, "Brokers on one side"), all.map((id) => h("label", { class: "check", key: id },
      h("input", { type: "checkbox", checked: chosen.has(id), onchange: () => toggle(id) }), `broker ${id}`)),
    h("button", { class: "danger", disabled: !chosen.size || !other.length, onclick: cut }, "Cut the network"))));
}
