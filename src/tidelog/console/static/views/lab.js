/**
 * The lab: the stories; one of them, step by step: guess, reveal, look, then break things yourself;
 * and `/lab/sim?seed=N`, the story of a simulated seed.
 */

import { withQuery } from "../lib/api.js";
import { Badge, Command, Failed, Field, h, Heading, Loading, Panel, plural, render, Table } from "../lib/kit.js";
import { Picture } from "./picture.js";
import { headline } from "./words.js";

const AGAIN_MS = 1000;

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  if (context.params.story) return mountStory(root, context);
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

/** Milliseconds per step by speed. @type {Record<string, number>} */
const SPEEDS = { slow: 6000, normal: 3000, fast: 1200 };

function mountStory(root, context) {
  const page = new StoryPage(root, context);
  page.open();
  return { unmount: () => page.close() };
}

class StoryPage {
  /** @param {HTMLElement} root @param {import("../app.js").Context} context */
  constructor(root, context) {
    this.root = root;
    this.context = context;
    this.picture = new Picture(() => this.draw());
    /** @type {any[]} The play and its forks. */
    this.plays = [];
    this.current = 0;
    this.speed = "normal";
    this.busy = false;
    this.closed = false;
    /** @type {any} */
    this.timer = null;
    /** @type {any} */
    this.error = null;
  }

  get play() {
    return this.plays[this.current];
  }

  get isSimulated() {
    return this.play.on !== "cluster";
  }

  async open() {
    const { context } = this;
    context.title(context.params.story);
    this.root.classList.add("full");
    context.onKey("→", "step", () => this.step());
    context.onKey("←", "back", () => this.play && this.isSimulated && this.ask("back"));
    context.onKey("space", "play or pause", () => this.toggle());
    context.onKey("t", "table or picture", () => this.picture.toggleTable());
    this.draw();
    const on = context.query.get("on") === "cluster" ? "cluster" : "sim";
    const step = Number(context.query.get("step")) || 0;
    try {
      this.show(await context.api.post("/api/lab/plays", { story: context.params.story, on, step }));
    } catch (error) {
      this.error = error;
      this.draw();
    }
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.picture.close();
    for (const play of this.plays) this.context.api.delete(`/api/lab/plays/${play.id}`, {}).catch(() => {});
  }

  /** @param {any} play */
  show(play) {
    if (this.closed) return;
    this.plays[this.current] = play;
    this.error = null;
    this.context.title(play.title);
    history.replaceState(null, "", play.on === "cluster" ? `${play.link}&on=cluster` : play.link);
    this.picture.pointed = null;
    if (play.partition) this.picture.show(play.partition);
    this.context.announce(`Step ${play.step} of ${play.steps}. ${play.sentence ?? ""}`);
    this.draw();
  }

  /** One thing at a time: keys are quicker than a story. @param {string} what @param {any} [body] */
  async ask(what, body = {}) {
    if (this.busy || !this.play) return;
    this.busy = true;
    try {
      this.show(await this.context.api.post(`/api/lab/plays/${this.play.id}/${what}`, body));
    } catch (error) {
      this.stop();
      const { message, hint } = /** @type {any} */ (error);
      this.context.notify(hint ? `${message}: ${hint}` : message, "bad");
    } finally {
      this.busy = false;
    }
  }

  async step() {
    if (!this.play || this.play.over || this.play.free) return;
    await this.ask("step");
  }

  async fork() {
    if (this.busy) return;
    this.busy = true;
    try {
      const fork = await this.context.api.post(`/api/lab/plays/${this.play.id}/fork`, {});
      this.plays.push(fork);
      this.current = this.plays.length - 1;
      this.show(fork);
    } catch (error) {
      this.context.notify(/** @type {any} */ (error).message, "bad");
    } finally {
      this.busy = false;
    }
  }

  toggle() {
    if (this.timer) this.stop();
    else this.run();
    this.draw();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  run() {
    const turn = async () => {
      await this.step();
      if (!this.timer) return;
      if (this.closed || this.play.over || this.play.free) this.stop();
      else this.timer = setTimeout(turn, SPEEDS[this.speed]);
      this.draw();
    };
    this.timer = setTimeout(turn, 0);
  }

  draw() {
    if (this.closed) return;
    const play = this.play;
    if (!play) {
      render(this.root, this.error ? h(Failed, { error: this.error, retry: () => this.open() })
        : h(Loading, { what: "the story" }));
      return;
    }
    render(this.root,
      h(Heading, { title: play.title, crumbs: h("a", { href: "/lab" }, "Lab") }, this.controls()),
      this.banner(), this.tabs(), this.progress(),
      h("div", { class: "telling" }, this.happened(), this.next()),
      this.stage(),
      play.partition && h("div", { class: "columns" },
        h(Panel, { title: "Messages" }, (play.partition.messages || []).length ? this.picture.messageList()
          : h("p", { class: "muted" }, "None yet."))), this.freePlay());
  }

  banner() {
    const { play } = this;
    return h("p", { class: `note ${this.isSimulated ? "info" : "warn"}` }, h("strong", null,
      this.isSimulated ? "Simulator. " : "Real cluster. "), this.isSimulated
      ? "Tidelog's own code on virtual time: every run is the same, and nothing outside of this page is touched."
      : "These are the brokers of this cluster; each step lets one message through. Going back is not possible here.",
    play.error && h("span", { class: "bad-text" }, ` It came out otherwise than told: ${play.error}`));
  }

  controls() {
    const { play } = this;
    const key = (name) => h("kbd", null, name);
    const still = play.over || play.free;
    return [
      this.isSimulated && h("button", { disabled: !play.step && !play.free, onclick: () => this.ask("back") }, key("←"), " Back"),
      h("button", { class: "primary", disabled: still, onclick: () => this.step() },
        play.next_question ? "Reveal " : "Step ", key("→")),
      h("button", { disabled: still, onclick: () => this.toggle() }, this.timer ? "Pause " : "Play ", key("space")),
      h("select", { "aria-label": "Speed", value: this.speed, onchange: (event) => { this.speed = event.target.value; } },
        Object.keys(SPEEDS).map((speed) => h("option", { value: speed }, speed))),
      this.isSimulated && h("button", { onclick: () => this.fork() }, "Fork"),
      h("button", { onclick: () => this.copyLink() }, "Copy link"),
      play.partition && h("button", { "aria-pressed": String(this.picture.asTable), onclick: () => this.picture.toggleTable() }, "Table ", key("t")),
    ];
  }

  async copyLink() {
    const url = `${location.origin}${this.play.link}`;
    const copied = await navigator.clipboard?.writeText(url).then(() => true, () => false);
    this.context.notify(copied ? "The link to this step is copied." : url);
  }

  /** A play and its forks, when there are any. */
  tabs() {
    if (this.plays.length < 2) return null;
    return h("div", { class: "forks", role: "group", "aria-label": "Plays" }, this.plays.map((play, index) =>
      h("button", { "aria-pressed": String(index === this.current), onclick: () => {
        this.stop();
        this.current = index;
        this.show(play);
      } }, `${index ? `fork ${index}` : "play"}: step ${play.step}${play.free ? ", left the story" : ""}`)));
  }

  progress() {
    const { play } = this;
    return h("ol", { class: "steps", "aria-label": `Step ${play.step} of ${play.steps}` },
      Array.from({ length: play.steps + 1 }, (_, step) => h("li", null,
        h("button", { class: step < play.step ? "past" : step === play.step ? "here" : "", "aria-label": `Go to step ${step}`,
          "aria-current": step === play.step ? "step" : null, disabled: !this.isSimulated,
          onclick: () => this.ask("goto", { step }) }, String(step)))));
  }

  happened() {
    const { play } = this;
    if (!play.step && !play.revealed.length) return null;
    return h(Panel, { title: `Step ${play.step} of ${play.steps}`, class: "happened" },
      play.sentence && h("p", { class: "sentence" }, play.sentence),
      play.question && h("p", { class: "question" }, play.question),
      play.revealed.filter(isTold).map((revealed, index) => h("div", { key: index, class: revealed.ok ? "revealed" : "revealed wrong" },
        h("code", { class: "typed" }, revealed.command),
        h("pre", { tabindex: 0, "aria-label": "what came out" }, revealed.lines.join("\n")))));
  }

  next() {
    const { play } = this;
    if (play.free) return h(Panel, { title: "You left the story" }, h("p", null, "What you do now is yours. ",
      this.isSimulated ? "Back takes the last command back; the steps above lead into the story again." : "Begin the story again to see it as it is told."));
    if (play.over) return this.end();
    return h(Panel, { title: play.step ? "Next" : "The story begins", class: "next" },
      h("p", { class: "sentence" }, play.next_sentence),
      play.next_question && h("p", { class: "question" }, play.next_question),
      h("button", { class: "primary", onclick: () => this.step() }, play.next_question ? "Reveal" : play.step ? "Step" : "Begin"));
  }

  end() {
    const { play } = this;
    return h(Panel, { title: "What you saw", class: "next" }, h("p", { class: "sentence" }, play.saw),
      h("ul", null, (play.next_commands || []).map((command) => {
        const [, story] = /^tidelog lab run (\S+)$/.exec(command) ?? [];
        const [, seed] = /^tidelog sim run --seed (\d+)$/.exec(command) ?? [];
        if (story) return h("li", null, h("a", { href: `/lab/${story}` }, `Next story: ${story}`));
        return h("li", null, seed ? h("a", { href: `/lab/sim?seed=${seed}` }, `A simulated run: seed ${seed}`) : h("code", null, command));
      }), h("li", null, h("a", { href: "/lab" }, "All stories"))));
  }

  stage() {
    const { play } = this;
    const { partition, quorum } = play;
    return [
      h(Panel, { key: "stage", class: "strips-card", hidden: !partition }, partition && h("p", { class: "facts" },
        h("strong", null, partition.name), " ", headline(partition).join(" · "), " · ", h(Badge, { state: partition.state })),
      partition && this.picture.view()),
      quorum && h(Panel, { key: "quorum", title: "The metadata quorum" }, quorumTables(quorum)),
    ];
  }

  freePlay() {
    const { play } = this;
    if (!play.commands?.length) return null;
    const type = (event) => {
      event.preventDefault();
      const field = event.target.elements.command;
      if (field.value.trim()) this.ask("perform", { command: field.value.trim() });
    };
    return h(Panel, { title: "Free play", class: "free-play" },
      h("p", null, "Do something the story does not tell. The words that come out are those of the story."),
      h("div", { class: "offers" }, play.commands.map((offer) => h("button", {
        title: offer.text, onclick: () => this.ask("perform", { command: offer.text }) }, offer.label))),
      h("form", { class: "row", onsubmit: type },
        h(Field, { label: "Command" }, h("input", { name: "command", placeholder: play.commands[0].text, autocomplete: "off", spellcheck: "false" })),
        h("button", null, "Do it")));
  }
}

/** The picture is drawn below; its text is for terminals. @param {{command: string}} revealed */
const isTold = (revealed) => revealed.command.split(" ")[0] !== "picture";

/** @param {any} quorum */
function quorumTables(quorum) {
  const told = (value) => (value === null || value === undefined ? "–" : String(value));
  const row = (each) => each.node ?? each.name;
  return [
    h(Table, { caption: "Nodes of the quorum", rows: quorum.nodes, rowKey: row, columns: [
      { name: "Node", cell: (node) => String(node.node) },
      { name: "Role", cell: (node) => (node.node === quorum.leader ? `${node.role}, active controller` : node.role) },
      { name: "Epoch", number: true, cell: (node) => told(node.epoch) },
      { name: "Voted for", number: true, cell: (node) => told(node.voted) },
      { name: "High watermark", number: true, cell: (node) => told(node.high_watermark) },
      { name: "Log end", number: true, cell: (node) => told(node.log_end) },
    ] }),
    quorum.partitions?.length ? h(Table, { caption: "Partitions, as the active controller knows them", rows: quorum.partitions, rowKey: row, columns: [
      { name: "Partition", cell: (each) => each.name },
      { name: "Leader", cell: (each) => told(each.leader) },
      { name: "Leader epoch", number: true, cell: (each) => told(each.leader_epoch) },
      { name: "ISR", cell: (each) => `ISR ${each.isr.join(",")}` },
    ] }) : null,
  ];
}
