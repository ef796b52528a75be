// All brokers and how evenly they lead.

import { h, render } from "../lib/dom.js";
import { fetched } from "../lib/fetched.js";
import { plural } from "../lib/format.js";
import { effect } from "../lib/signal.js";
import { BrokerTable } from "../lib/tables.js";
import { Card, Command, Heading } from "../lib/widgets.js";

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Brokers");
  const brokers = fetched(() => context.api.get("/api/brokers"));
  context.stream.watch("overview", {
    node: ({ node, state }) => {
      const known = brokers.data.peek();
      if (known) brokers.data.value = known.map((broker) => (broker.id === node ? { ...broker, state } : broker));
    },
  });
  context.every(brokers.refresh, 2000);
  const stop = effect(() => render(root, brokers.show("brokers", (data) => [
    h(Heading, { title: "Brokers", facts: facts(data) }),
    h(Card, null, h(BrokerTable, { brokers: data })),
    uneven(data) && h(Card, { title: "Leaders are not where they should be" }, h("div", { class: "card-body" },
      h("p", null, "Some partitions are led by another than their preferred replica. They move back by themselves after a while; to do it now:"),
      h(Command, { command: "tidelog leaders elect" }))),
  ])));
  return { unmount: stop };
}

function facts(brokers) {
  const alive = brokers.filter((broker) => broker.state === "alive").length;
  return `${alive} of ${plural(brokers.length, "broker")} alive`;
}

const uneven = (brokers) => brokers.every((broker) => broker.state === "alive") && brokers.some((broker) => broker.leaders !== broker.preferred);
