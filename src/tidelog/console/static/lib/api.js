// Requests to the console's server. Every failure becomes an error that says what to try.

/** What went wrong, in the server's words. */
export class ApiError extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

const UNREACHED = "The console does not answer.";
const START_IT = "See if its process still runs: `tidelog up` or `tidelog console` starts it.";
const PATIENCE_MS = 30_000;

/** @typedef {ReturnType<typeof makeApi>} Api */

/**
 * @param {() => string} csrf the token that every change carries
 * @param {() => void} onSignedOut called when the server wants a login
 */
export function makeApi(csrf, onSignedOut) {
  async function request(method, path, body) {
    const headers = { Accept: "application/json" };
    if (method !== "GET") {
      headers["Content-Type"] = "application/json";
      headers["X-Tidelog-Csrf"] = csrf();
    }
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers,
        body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
    } catch (error) {
      const late = error instanceof DOMException && error.name === "TimeoutError";
      throw late
        ? new ApiError(`No answer within ${PATIENCE_MS / 1000} s.`, "Try again in a moment.", 0)
        : new ApiError(UNREACHED, START_IT, 0);
    }
    const content = await answer.json().catch(() => null);
    if (answer.ok) return content;
    if (answer.status === 401 && path !== "/api/login") onSignedOut();
    throw new ApiError(
      content?.error ?? `The console answered ${answer.status} ${answer.statusText}.`,
      content?.try ?? null,
      answer.status,
    );
  }
  return {
    get: (path) => request("GET", path),
    post: (path, body) => request("POST", path, body),
    delete: (path, body) => request("DELETE", path, body),
  };
}

/**
 * A path with a query; empty values are left out.
 * @param {string} path
 * @param {Record<string, any>} values
 */
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const name in values) {
    const value = values[name];
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  return query.size ? `${path}?${query}` : path;
}
