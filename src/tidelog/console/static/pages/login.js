// Who are you? Asked only where the cluster wants to know.

import { Card, effect, Failed, Field, h, render, signal } from "../lib/kit.js";

/** @param {HTMLElement} root @param {import("../app.js").Context} context */
export function mount(root, context) {
  context.title("Sign in");
  const error = signal(null);
  const busy = signal(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    busy.value = true;
    try {
      await context.api.post("/api/login", { user: form.get("user"), password: form.get("password") });
      await context.signIn();
      const then = context.query.get("then") ?? "/";
      context.navigate(then.startsWith("/") && !then.startsWith("//") ? then : "/", true);
    } catch (failure) {
      error.value = failure;
    }
    busy.value = false;
  };
  const stop = effect(() => render(root, h("div", { class: "login" }, h(Card, null,
    h("form", { class: "card-body top stack", onsubmit: submit },
    h("h1", null, "Sign in"),
    h("p", { class: "muted" }, "With a user of the cluster: the same name and password as its clients."),
    h(Field, { label: "User" }, h("input", { name: "user", required: true, autocomplete: "username",
      ref: (field) => field.focus() })),
    h(Field, { label: "Password" },
      h("input", { name: "password", type: "password", required: true, autocomplete: "current-password" })),
    h("button", { class: "primary", disabled: busy.value }, busy.value ? "Signing in…" : "Sign in"),
    error.value && h(Failed, { error: error.value }))))));
  return { unmount: stop };
}
