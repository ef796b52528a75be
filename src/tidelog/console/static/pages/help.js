// The keys, the words and the places where more is said.

import { keyName } from "../lib/keys.js";
import { Card, Command, effect, h, Heading, render, signal, Words } from "../lib/kit.js";

const WORDS = [
  ["leader, follower", "Roles of a replica. Clients write to the leader; followers fetch from it and hold the same records."],
  ["leader epoch", "The number of a leadership. It is stamped on every batch, so a replica can tell whose records it holds."],
  ["ISR", "The in-sync replicas: those that keep up. A record is committed when all of them have it."],
  ["high watermark (HW)", "Every record below it is committed. Consumers read up to here."],
  ["log end offset (LEO)", "The offset that the next record will get."],
  ["under-replicated", "Fewer replicas in the ISR than assigned. Nothing is lost; one copy is missing or behind."],
  ["under min ISR", "Fewer replicas in the ISR than `min.insync.replicas`: produces with acks=all are refused."],
  ["offline", "No leader. Nobody can read or write until a replica of the ISR comes back."],
  ["fenced", "A broker that the controller does not let lead or serve, because it was silent for too long."],
  ["truncate", "A follower cuts off what the leader never had. Only records that were not committed go."],
  ["preferred leader", "The first replica of the assignment. Leadership returns there when it is in sync."],
  ["lag", "How many committed records a group has not read yet."],
];

const COMMANDS = [
  ["Is all well?", "tidelog cluster health"],
  ["Make a topic", "tidelog topic create orders --partitions 3"],
  ["Watch a partition in the terminal", "tidelog topic watch orders-0"],
  ["Read records", "tidelog consume orders --from earliest"],
  ["Read with your own client", "kcat -b BOOTSTRAP -t orders -C -e"],
];

const FIRST_TEST = [
  "# pip install 'tidelog[testing]' confluent-kafka",
  "from confluent_kafka import Producer",
  "",
  "def test_orders_are_written(tidelog):",
  '    topic = tidelog.topic("orders")',
  '    producer = Producer({"bootstrap.servers": tidelog.bootstrap_servers})',
  '    producer.produce(topic, b"1")',
  "    assert producer.flush(10) == 0",
  "",
].join("\n");

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Help");
  const servers = context.session.bootstrap_servers ?? "127.0.0.1:9092";
  const keysRoot = document.createElement("div");
  render(root,
    h(Heading, { title: "Help", facts: `Tidelog's console for ${context.session.cluster ?? "a cluster"}` }),
    h("div", { class: "help-grid" },
      h("div", { class: "stack" },
        h(Card, { title: "Keys" }, h("div", { class: "card-body", opaque: true, ref: (body) => body.append(keysRoot) })),
        h(Card, { title: "In the terminal" }, h("div", { class: "card-body" }, COMMANDS.map(([purpose, command]) =>
          h("div", null, h("p", { class: "muted" }, purpose), h(Command, { command: command.replace("BOOTSTRAP", servers) }))))),
        h(Card, { title: "Use it in your tests" }, h("div", { class: "card-body" }, h(Command, { command: FIRST_TEST, what: "the test" })))),
      h(Card, { title: "Words" }, h("dl", { class: "card-body words" }, WORDS.map(([word, meaning]) =>
        h("div", null, h("dt", null, word), h("dd", null, h(Words, { text: meaning }))))))));
  return { unmount: mountKeys(keysRoot, context.keys) };
}

/**
 * The list of keys; a click on "change" takes the next key that is pressed.
 * @param {HTMLElement} root
 * @param {import("../app.js").Context["keys"]} keys
 */
export function mountKeys(root, keys) {
  const changing = signal(null);
  const complaint = signal("");
    const take = (event, label) => {
    if (["Tab", "Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    changing.value = null;
    if (event.key === "Escape") return;
    const key = keyName(event.key);
    const other = keys.taken(key, label);
    complaint.value = other ? `${key} already means “${other}”. Change that first.` : "";
    if (!other) keys.remap(label, key);
  };
  return effect(() => {
    keys.version.value;
    const all = keys.list().sort((a, b) => Number(a.everywhere) - Number(b.everywhere));
    render(root,
      h("div", { class: "key-list" }, all.map(({ key, label, changed }) => h("div", { key: label },
        h("span", null, label, changed && h("small", null, " (changed)")),
        h("kbd", null, changing.value === label ? "press a key" : key),
        h("button", { class: "quiet small", "aria-label": `Change the key for: ${label}`,
          onkeydown: changing.value === label ? (event) => take(event, label) : null,
          onblur: () => { if (changing.peek() === label) changing.value = null; },
          onclick: () => { changing.value = label; } }, changing.value === label ? "esc to cancel" : "change")))),
      h("p", { class: "bad-text", role: "status" }, complaint.value),
      h("div", { class: "row" },
        h("label", { class: "check" }, h("input", { type: "checkbox", checked: !keys.areOff(),
          onchange: (event) => keys.switchOff(!event.target.checked) }), "Keys are on"),
        h("button", { class: "small", onclick: () => { complaint.value = ""; keys.reset(); } }, "Back to the defaults")));
  });
}
