// What a page fetches: loading, there, or failed, and never an old answer over a new one.

import { h } from "./dom.js";
import { signal } from "./signal.js";
import { Failed, Loading } from "./widgets.js";

/**
 * @template T
 * @param {() => Promise<T>} get
 */
export function fetched(get) {
  const data = signal(null);
  const error = signal(null);
  let asked = 0;

  /** Asks again; what is shown stays until the answer is there. */
  async function refresh() {
    const mine = ++asked;
    try {
      const answer = await get();
      if (mine !== asked) return;
      data.value = answer;
      error.value = null;
    } catch (failure) {
      if (mine === asked) error.value = failure;
    }
  }

  return {
    data,
    error,
    refresh,
    /** Forgets what was shown: the question is another one. */
    again() {
      data.value = null;
      error.value = null;
      return refresh();
    },
    show(what, draw) {
      if (data.value !== null) {
        const stale = error.value && h("p", { class: "banner bad", role: "status" }, `${error.value.message} What you see is old.`);
        return [stale, draw(data.value)];
      }
      return error.value ? h(Failed, { error: error.value, retry: refresh }) : h(Loading, { what });
    },
  };
}
