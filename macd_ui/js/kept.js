// @ts-check
// What this browser keeps: records in its database, and files of traces. Storage can fail in many ways;
// no failure may disturb the page.

/** @typedef {{ app_id?: string, username?: string }} GradioConfig */

export const TAB_KEY = "macd-tab"; // names the tab, for as long as it is open
export const MAX_BYTES = 8e6; // of a trace that is kept
export const MAX_AGE_MS = 24 * 3600 * 1000;

/** What Gradio says of the page. */
export function gradioConfig() {
  return /** @type {{ gradio_config?: GradioConfig }} */ (/** @type {unknown} */ (window)).gradio_config || {};
}

/** Who is logged in; "" for nobody. */
export function userName() {
  return gradioConfig().username || "";
}

/** @param {string} what it is for @param {() => unknown} work */
export async function quietly(what, work) {
  try {
    await work();
  } catch (error) {
    console.debug(`${what}:`, error);
  }
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
export function asPromise(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    if (request instanceof IDBOpenDBRequest) request.onblocked = () => reject(request.error);
  });
}

/** The records of a database with one store, which is opened when it is first used. */
export class Records {
  /** @param {string} database @param {string} name of the store @param {string} key @param {string} [index] */
  constructor(database, name, key, index) {
    this.place = { database, name, key, index };
    /** @type {Promise<IDBDatabase> | null} */
    this.opened = null;
  }

  open() {
    const { database, name, key, index } = this.place, request = indexedDB.open(database, 1);
    request.onupgradeneeded = () => {
      const store = request.result.createObjectStore(name, { keyPath: key });
      if (index) store.createIndex(index, index);
    };
    return asPromise(request);
  }

  /** @param {IDBTransactionMode} mode */
  async objects(mode) {
    this.opened ??= this.open();
    return (await this.opened).transaction(this.place.name, mode).objectStore(this.place.name);
  }

  /** @param {string} key */
  async get(key) {
    return asPromise((await this.objects("readonly")).get(key));
  }

  async all() {
    return asPromise((await this.objects("readonly")).getAll());
  }

  /** @param {object} record */
  async put(record) {
    await asPromise((await this.objects("readwrite")).put(record));
  }

  /** @param {string} key */
  async remove(key) {
    await asPromise((await this.objects("readwrite")).delete(key));
  }
}

/** @typedef {{ name: string, content: ArrayBuffer | null } | null} TraceFile content: null where it is too large to be kept */
/** @type {Map<string, Promise<TraceFile>>} address → what was asked for just now */
const asked = new Map();

/**
 * The file of a trace; null where the server does not give it. It is asked for once by all that hear of the
 * same value: the next of several runs waits for one request alone.
 * @param {string} address
 */
export function traceFile(address) {
  const file = asked.get(address) ?? fetched(address);
  asked.set(address, file);
  setTimeout(() => asked.delete(address));
  return file;
}

/** @param {string} address @returns {Promise<TraceFile>} */
async function fetched(address) {
  const answer = await fetch(new URL(address, document.baseURI));
  if (!answer.ok) return null;
  const told = Number(answer.headers.get("Content-Length") || 0) > MAX_BYTES;
  if (told && answer.body) answer.body.cancel();
  const content = told ? null : await answer.arrayBuffer();
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") || "");
  return { name: name ? name[1] : "trace.macd", content: content && content.byteLength <= MAX_BYTES ? content : null };
}
