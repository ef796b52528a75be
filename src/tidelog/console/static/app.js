// The frame around every page: navigation, session, the event stream, keys.
//
// A page is a module with `mount(root, context)`. It may return `update(message)`, which gets every
// message `{event, data, id}` of the page's stream, and `unmount()`.

import { makeApi } from "./lib/api.js";
import { h, render } from "./lib/dom.js";
import { makeKeys } from "./lib/keys.js";
import { match } from "./lib/router.js";
import { announce, health, nextTheme, notice, notify, session, theme } from "./lib/session.js";
import { effect, signal } from "./lib/signal.js";
import { openStream } from "./lib/sse.js";
import { Failed, Loading } from "./lib/widgets.js";

/**
 * @typedef {Object} Context
 * @property {Record<string, string>} params what the address names
 * @property {URLSearchParams} query
 * @property {import("./lib/api.js").Api} api
 * @property {{watch: (what: string, handlers?: Record<string, (data: any, id: string) => void>) => () => void,
 *   state: import("./lib/signal.js").Signal<string>}} stream
 *   One stream per page: `watch` again and it watches something else. Handlers go by the kind of the
 *   message: snapshot, frame, gap, node. A page that never calls it watches the overview.
 * @property {import("./lib/session.js").Session} session
 * @property {(url: string, replace?: boolean) => void} navigate
 * @property {(text: string) => void} announce to the live region, at most one a second
 * @property {(text: string, kind?: "ok" | "bad") => void} notify visible for a few seconds, and announced
 * @property {(work: () => Promise<any>, told?: string) => Promise<boolean>} attempt does it and says how it went
 * @property {(key: string, label: string, perform: () => void) => void} onKey until the page is left
 * @property {(text: string) => void} title
 * @property {ReturnType<typeof makeKeys>} keys
 * @property {(poll: () => any, ms: number) => void} every now and again while the page is visible, until it is left
 * @property {() => Promise<any>} signIn asks the server who we are, after a login or logout
 */

const NAVIGATION = [
  ["", [
    ["/", "Overview", "g o", "M2 8.5 8 3l6 5.5M4 7.5V13h8V7.5"],
    ["/timeline", "Timeline", "g l", "M2 4h5M5 8h7M8 12h6"],
  ]],
  ["Data", [
    ["/topics", "Topics", "g t", "M2 4h12v3H2zM2 9.5h12v3H2z"],
    ["/groups", "Groups", "g g", "M5.5 7a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM2 13c0-2 1.5-3.5 3.5-3.5S9 11 9 13M11 7.5a1.6 1.6 0 1 0 0-3.2M11 9.5c2 0 3 1.3 3 3"],
  ]],
  ["Machines", [
    ["/brokers", "Brokers", "g b", "M3 2.5h10v5H3zM3 8.5h10v5H3zM5.5 5h.01M5.5 11h.01"],
    ["/controller", "Controller", "g c", "M3 12.5 2.5 5l3 2.5L8 3l2.5 4.5 3-2.5-.5 7.5z"],
    ["/metrics-view", "Metrics", "g m", "M2 13h12M3 10l3-3 2.5 2L13 4"],
  ]],
  ["Break it", [
    ["/lab", "Lab", "g s", "M6 2.5h4M7 2.5v4L3.5 13h9L9 6.5v-4M5 10.5h6"],
    ["/chaos", "Chaos", "g x", "M9 2 4 9h3.5L7 14l5-7H8.5z"],
  ]],
];

const keys = makeKeys();
const linkState = signal("connecting");
const section = signal("");
const menuOpen = signal(false);
const keysShown = signal(false);

const goLogin = () => {
  if (location.pathname !== "/login") {
    navigate(`/login?then=${encodeURIComponent(location.pathname + location.search)}`);
  }
};
/** The cluster wants to know who this is, and does not yet. */
const isStranger = () => Boolean(session.value?.secure && !session.value.user);
const api = makeApi(() => session.peek()?.csrf ?? "", goLogin);

/** @type {{unmount: () => void}} what is shown now */
let shown = { unmount() {} };
let visits = 0;

function navigate(url, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  open();
}

function pageStream(cleanups, onMessage) {
  let stream = null;
  const close = () => stream?.close();
  cleanups.push(close);
  return {
    state: linkState,
    isOpen: () => stream !== null,
    watch(what, handlers = {}) {
      stream?.close();
      const opened = openStream(`/api/stream?watch=${encodeURIComponent(what)}`, (message) => {
        const heard = message.data.health ?? message.data.overview?.health;
        if (heard) health.value = heard;
        handlers[message.event]?.(message.data, message.id);
        onMessage(message);
      }, { onSignedOut: goLogin });
      stream = opened;
      const stop = effect(() => {
        const state = opened.state.value;
        // The console may have been started anew: then the old session is not good for changes.
        if (state === "open" && linkState.peek() === "reconnecting") signIn().catch(() => {});
        if (state !== "closed") linkState.value = state;
      });
      cleanups.push(stop);
      return () => { opened.close(); stop(); };
    },
  };
}

const every = (cleanups) => (poll, ms) => {
  let over = false;
  let timer;
  const turn = async () => {
    if (!document.hidden) await poll();
    if (!over) timer = setTimeout(turn, ms);
  };
  cleanups.push(() => { over = true; clearTimeout(timer); });
  turn();
};

async function signIn() {
  session.value = await api.get("/api/session");
  return session.value;
}

async function attempt(work, told) {
  try {
    await work();
    if (told) notify(told);
    return true;
  } catch (error) {
    notify(`${error.message} ${error.hint ?? ""}`, "bad");
    return false;
  }
}

/** Shows the page that the address names. */
async function open() {
  const visit = ++visits;
  shown.unmount();
  shown = { unmount() {} };
  menuOpen.value = false;
  const main = document.getElementById("main");
  const found = match(location.pathname);
  section.value = found?.section ?? "";
  const fail = (error) => {
    const root = fresh(main);
    render(root, h(Failed, { error, retry: open }));
  };
  if (!found) {
    document.title = "Not found · Tidelog";
    return fail({ message: `There is no page ${location.pathname}.`, hint: "pick a page from the navigation." });
  }
  try {
    const arriving = import(found.module);
    arriving.catch(() => {}); // awaited below, when the session is known
    if (!session.peek()) await signIn();
    if (isStranger() && found.module !== "./pages/login.js") return goLogin();
    const module = await arriving.catch(() => {
      throw { message: "This page could not be loaded.", hint: "reload; the console may have been updated or stopped." };
    });
    if (found.module.endsWith("partition.js")) sessionStorage.setItem("tidelog.partition", found.params.name);
    if (visit === visits) mountPage(module, found.params, fresh(main));
  } catch (error) {
    if (visit === visits) fail(error);
  }
}

/** A new root per page: nothing of the last one stays behind. */
function fresh(main) {
  const root = document.createElement("div");
  root.className = "page";
  main.replaceChildren(root);
  main.scrollTop = 0;
  scrollTo(0, 0);
  if (visits > 1) main.focus({ preventScroll: true });
  return root;
}

function mountPage(module, params, root) {
  const cleanups = [];
  let page = null;
  const stream = pageStream(cleanups, (message) => page?.update?.(message));
  const context = {
    params,
    query: new URLSearchParams(location.search),
    api,
    stream,
    session: session.peek() ?? { may: {} },
    navigate,
    announce,
    notify,
    attempt,
    keys,
    signIn,
    onKey: (key, label, perform) => { cleanups.push(keys.add(key, label, perform)); },
    title: (text) => { document.title = `${text} · Tidelog`; },
    every: every(cleanups),
  };
  shown = { unmount() { page?.unmount?.(); for (const cleanup of cleanups) cleanup(); } };
  page = module.mount(root, context) ?? {};
  if (!stream.isOpen() && !isStranger()) stream.watch("overview");
}

const Icon = ({ d }) =>
  h("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, h("path", { d }));

function Sidebar() {
  return h("nav", { id: "nav", class: menuOpen.value ? "sidebar open" : "sidebar", "aria-label": "Console" },
    NAVIGATION.map(([group, links]) => h("div", { class: "nav-group" },
      group && h("p", { class: "nav-title" }, group),
      h("ul", null, links.map(([href, name, , d]) => h("li", null,
        h("a", { href, "aria-current": section.value === href ? "page" : null }, h(Icon, { d }), name)))))),
    h("div", { class: "nav-foot" },
      h("a", { href: "/help", "aria-current": section.value === "/help" ? "page" : null }, "Help"),
      h("button", { class: "quiet", onclick: () => { keysShown.value = true; } }, "Keys ", h("kbd", null, "?")),
      h("button", { class: "quiet", onclick: nextTheme }, `Theme: ${theme.value}`),
      session.value?.user && h("button", { class: "quiet", onclick: signOut }, `Sign out ${session.value.user}`)));
}

async function signOut() {
  await api.post("/api/logout").catch((error) => notify(error.message, "bad"));
  await signIn();
  navigate("/login");
}

/** The gravest thing that is known, in the bar of every page. */
function HealthPill() {
  const grave = health.value.filter((item) => item.severity !== "ok");
  if (!health.value.length) return null;
  const worst = grave.some((item) => item.severity === "bad") ? "bad" : grave.length ? "warn" : "ok";
  const words = grave.length ? grave[0].text : "All is well";
  return h("a", { class: `pill ${worst}`, href: "/" }, h("span", { class: "dot", "aria-hidden": "true" }),
    h("span", { class: "pill-text" }, words),
    grave.length > 1 && h("span", { class: "pill-more" }, `+${grave.length - 1} more`));
}

function Topbar() {
  const here = session.value;
  return h("header", { class: "topbar" },
    h("button", { class: "quiet menu-button", "aria-expanded": String(menuOpen.value), "aria-controls": "nav",
      onclick: () => { menuOpen.value = !menuOpen.value; } }, "Menu"),
    h("a", { class: "brand", href: "/" },
      h("svg", { viewBox: "0 0 32 22", class: "waves", "aria-hidden": "true" },
        h("path", { d: "M2 5q3.5-4 7 0t7 0 7 0 7 0" }), h("path", { d: "M2 11q3.5-4 7 0t7 0 7 0 7 0" }),
          h("path", { d: "M2 17q3.5-4 7 0t7 0" })),
      "Tidelog"),
    here && h("span", { class: "cluster", title: `cluster ${here.cluster_id} at ${here.bootstrap_servers}` }, here.cluster),
    here && here.mode !== "live" && h("span", { class: "badge warn" }, here.mode === "sim" ? "simulated" : "polled"),
    h(HealthPill));
}

function Banner() {
  if (linkState.value === "reconnecting") {
    return h("p", { class: "banner bad", role: "status" }, h("strong", null, "Reconnecting…"),
      " The connection to the console is lost. What you see may be old; nothing is missed when it comes back.");
  }
  if (session.value?.mode === "polled") {
    return h("p", { class: "banner warn", role: "status" }, h("strong", null, "Polled."),
      " This cluster sends no events, so the console asks it every few seconds. Leaders, ISR and lag are as of the last answer.");
  }
  return null;
}

function Notice() {
  const now = notice.value;
  return h("div", { class: "notices" }, now && h("p", { class: `notice ${now.kind}` }, now.text,
    h("button", { class: "quiet small", "aria-label": "Close the message", onclick: () => { notice.value = null; } }, "×")));
}

/** All keys that work here, each with a button that gives it another one. */
function KeysDialog() {
  if (!keysShown.value) return null;
  keys.version.value; // drawn again when a key changes
  const close = () => { keysShown.value = false; };
  return h("dialog", { class: "keys", "aria-labelledby": "keys-title", onclose: close,
    ref: (dialog) => dialog.showModal() },
    h("div", { class: "card-head" }, h("h2", { id: "keys-title" }, "Keys"),
      h("button", { class: "quiet", onclick: close }, "Close")),
    h("div", { opaque: true, ref: async (root) => (await import("./pages/help.js")).mountKeys(root, keys) }));
}

function Frame() {
  return [
    h(Topbar),
    h("div", { class: "below" },
      !isStranger() && h(Sidebar),
      h("div", { class: "content" },
        h(Banner),
        h("main", { id: "main", tabindex: -1, opaque: true, ref: (main) => render(main, h(Loading, { what: "the console" })) }))),
    h(Notice),
    h(KeysDialog),
  ];
}

/** Links stay inside the page. */
function followLink(event) {
  const link = event.target?.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  const place = link.getAttribute("href");
  if (place.startsWith("#")) {
    event.preventDefault(); // a place in the page is no new page
    document.getElementById(place.slice(1))?.focus();
    return;
  }
  if (link.pathname.startsWith("/api/") || link.pathname.startsWith("/static/")) return;
  event.preventDefault();
  navigate(link.pathname + link.search + link.hash);
}

function lastPartition() {
  const last = sessionStorage.getItem("tidelog.partition");
  navigate(last ? `/p/${encodeURIComponent(last)}` : "/topics");
}

const app = document.getElementById("app");
effect(() => render(app, Frame()));
document.addEventListener("click", followLink);
addEventListener("popstate", open);
for (const [, links] of NAVIGATION) {
  for (const [href, name, key] of links) keys.add(key, `go to ${name}`, () => navigate(href), true);
}
keys.add("g p", "go to the partition seen last", lastPartition, true);
keys.add("?", "show the keys", () => { keysShown.value = !keysShown.value; }, true);
keys.add("/", "search", () => {
  const field = document.querySelector("main input[type=search]");
  if (field) field.focus();
  else navigate("/topics?focus=search");
}, true);
open();
