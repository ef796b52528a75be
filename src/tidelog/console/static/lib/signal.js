// Values that tell who reads them when they change.

/**
 * @template T
 * @typedef {{value: T, peek: () => T}} Signal
 */

/** @typedef {{run: () => void, sources: Set<Set<any>>, stopped: boolean}} Reader */

let current = null;
const due = new Set();

/** Every reader runs once, however many of its values changed. */
function flush() {
  for (const reader of due) {
    due.delete(reader);
    if (!reader.stopped) reader.run();
  }
}

function schedule(reader) {
  if (!due.size) queueMicrotask(flush);
  due.add(reader);
}

/**
 * @template T
 * @param {T} value
 * @returns {Signal<T>}
 */
export function signal(value) {
  const readers = new Set();
  return {
    get value() {
      if (current) {
        readers.add(current);
        current.sources.add(readers);
      }
      return value;
    },
    set value(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const reader of readers) schedule(reader);
    },
    peek: () => value,
  };
}

/**
 * Runs now, and again in a microtask whenever something that it read has changed.
 * @param {() => void} run
 * @returns {() => void} stop
 */
export function effect(run) {
  const reader = {
    sources: new Set(),
    stopped: false,
    run() {
      for (const readers of reader.sources) readers.delete(reader);
      reader.sources.clear();
      const outer = current;
      current = reader;
      try {
        run();
      } finally {
        current = outer;
      }
    },
  };
  reader.run();
  return () => {
    reader.stopped = true;
    for (const readers of reader.sources) readers.delete(reader);
  };
}

/**
 * Reads without becoming a reader.
 * @template T
 * @param {() => T} read
 * @returns {T}
 */
export function untracked(read) {
  const outer = current;
  current = null;
  try {
    return read();
  } finally {
    current = outer;
  }
}
