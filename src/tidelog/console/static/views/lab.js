/** The lab: the stories, and `/lab/sim?seed=N`, the story of a simulated seed. */

import { withQuery } from "../lib/api.js";
import { h, render } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { Command, Failed, Field, Heading, Loading } from "../lib/widgets.js";
import { Panel } from "./panel.js";

const AGAIN_MS = 1000;

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  if (location.pathname.replace(/\/$/, "") === "/lab/sim") return mountSeed(root, context);
  context.title("Lab");
  const open = async () => {
    render(root, h(Loading, { what: "the stories" }));
    try {
      render(root, stories(await context.api.get("/api/lab"), context));
    } catch (error) {
      render(root, h(Failed, { error, retry: open }));
    }
  };
  open();
  return {};
}

/** @param {any} lab @param {import("../app.js").Context} context */
function stories(lab, context) {
  return [
    h(Heading, { title: "Lab", facts: "How a replicated log works, one story at a time. Every story runs the real code; "
      + "take a guess before each step, then see what came out." }),
    h("ol", { class: "stories" }, lab.stories.map((story) =>
      h("li", { key: story.name, class: "card story" },
        h("h2", null, h("a", { href: `/lab/${story.name}` }, story.title)),
        h("p", null, story.saw ?? story.sources?.join(" · ")),
        h("p", { class: "muted" }, [plural(story.steps, "step"), plural(story.question_count, "question")].join(", "),
          " · ", h("code", null, story.name),
          (story.on ?? lab.on).includes("cluster") && [" · ", h("a", { href: `/lab/${story.name}?on=cluster` }, "on this cluster")])))),
    h(Panel, { title: "A simulated run" }, h("p", null,
      "The simulator runs whole clusters with faults drawn from a seed, and checks every safety rule after every step. ",
      "The same seed gives the same run."), seedForm(context, "")),
  ];
}

/** @param {import("../app.js").Context} context @param {string} seed */
function seedForm(context, seed) {
  const go = (event) => {
    event.preventDefault();
    context.navigate(`/lab/sim?seed=${encodeURIComponent(new FormData(event.target).get("seed")?.toString() ?? "")}`);
  };
  return h("form", { class: "row", onsubmit: go },
    h(Field, { label: "Seed" }, h("input", { name: "seed", type: "number", min: 0, required: true, value: seed })),
    h("button", { class: "primary" }, "Run it"));
}

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
function mountSeed(root, context) {
  const seed = context.query.get("seed") ?? "";
  const mutant = context.query.get("mutant");
  const title = `Seed ${seed}${mutant ? `, mutant ${mutant}` : ""}`;
  context.title(title);
  const heading = h(Heading, { title: seed ? title : "A simulated run", crumbs: h("a", { href: "/lab" }, "Lab") },
    seedForm(context, seed));
  let closed = false;
  const open = async () => {
    if (!seed || closed) return render(root, heading);
    try {
      const run = await context.api.get(withQuery(`/api/lab/seed/${encodeURIComponent(seed)}`, { mutant }));
      if (closed) return;
      const over = run.verdict !== "running";
      render(root, heading, over ? seedStory(run) : h(Loading, { what: `seed ${seed}; a run takes some seconds` }));
      if (!over) setTimeout(open, AGAIN_MS);
    } catch (error) {
      render(root, heading, h(Failed, { error, retry: open }));
    }
  };
  render(root, heading, seed && h(Loading, { what: `seed ${seed}` }));
  open();
  return { unmount: () => { closed = true; } };
}

/** @param {any} run */
function seedStory(run) {
  const broken = run.violations.length;
  const told = (at_ms) => h("span", { class: "at" }, `${(at_ms / 1000).toFixed(3)} s`);
  const command = `tidelog sim run --seed ${run.seed}${run.mutant ? ` --mutant ${run.mutant}` : ""}`;
  return [
    h("p", { class: `note ${broken ? "bad" : "ok"}` }, h("strong", null,
      broken ? `${plural(broken, "rule was", "rules were")} broken.` : "Every rule held.")),
    broken ? h(Panel, { title: "Violations" }, h("ol", { class: "run violations" }, run.violations.map(
      (violation) => h("li", null, told(violation.at_ms),
        h("span", null, h("strong", null, violation.rule), " ", violation.text))))) : null,
    h(Panel, { title: "What happened" }, run.story.length ? h("ol", { class: "run" }, run.story.map((moment) =>
      h("li", null, told(moment.at_ms),
        h("span", null, moment.lines.map((line) => h("span", { class: "line" }, line))))))
      : h("p", { class: "muted" }, "A run in which every rule holds is not told.")),
    h("p", null, "The same in a terminal: ", h(Command, { command })),
  ];
}
