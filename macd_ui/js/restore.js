// @ts-check
// Keeps the trace on show in the browser and shows it again when the tab is reloaded, by hand or
// because the server was restarted and has forgotten every run.
// A new tab restores nothing. Browsers that offer no storage lose only this.

import { example, linked } from "./address.js";
import { openTrace } from "./open.js";
import { RESTORED } from "./strings.js";

/** @import { Payload, Trace } from "../../viewer/js/types" */
/** @import { Viewer } from "../../viewer/js/viewer.js" */
/**
 * @typedef {object} Saved one record a tab
 * @property {string} tab
 * @property {string} user
 * @property {string} run
 * @property {string | null} [at] the run that the address named, which a run without an answer has not
 * @property {boolean} untouched
 * @property {string} name
 * @property {number} savedAt
 * @property {ArrayBuffer} content
 */
/** @typedef {{ app_id?: string, username?: string }} GradioConfig */

const RESTORE = {
  tabKey: "macd-tab",
  database: "macd-traces",
  maxBytes: 8e6,
  maxAgeMs: 24 * 3600 * 1000,
  maxTabs: 20,
  saveDelayMs: 50, // the page draws the new trace first
  // a server that is closing or not up yet is asked again ever more rarely
  retryMs: [0, 1000, 2000, 4000, 8000, ...Array(20).fill(15000)],
  pollMs: 10000,
  typingMs: 60000,
};

/** @type {(ms: number) => Promise<void>} */
const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

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

class TraceStore {
  constructor() {
    /** @type {Promise<IDBDatabase> | null} */
    this.opened = null;
  }

  /** @param {IDBTransactionMode} mode */
  async objects(mode) {
    this.opened = this.opened || this.open();
    return (await this.opened).transaction("tabs", mode).objectStore("tabs");
  }

  open() {
    const request = indexedDB.open(RESTORE.database, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("tabs", { keyPath: "tab" }).createIndex("savedAt", "savedAt");
    };
    return asPromise(request);
  }

  /**
   * @param {string} tab
   * @returns {Promise<Saved | undefined>}
   */
  async get(tab) {
    return asPromise((await this.objects("readonly")).get(tab));
  }

  /** @param {Saved} record */
  async put(record) {
    await asPromise((await this.objects("readwrite")).put(record));
  }

  /** @param {string} tab */
  async remove(tab) {
    await asPromise((await this.objects("readwrite")).delete(tab));
  }

  // Removes what is older than a day, and the oldest where there are too many.
  async prune() {
    const objects = await this.objects("readwrite");
    const index = objects.index("savedAt");
    const oldest = IDBKeyRange.upperBound(Date.now() - RESTORE.maxAgeMs);
    for (const key of await asPromise(index.getAllKeys(oldest))) objects.delete(key);
    const keys = await asPromise(index.getAllKeys()); // the oldest first
    for (const key of keys.slice(0, Math.max(0, keys.length - RESTORE.maxTabs))) objects.delete(key);
  }
}

// What Gradio says of the page.
function gradioConfig() {
  return /** @type {{ gradio_config?: GradioConfig }} */ (/** @type {unknown} */ (window)).gradio_config || {};
}

/**
 * Where the file of an example that is on show as it ships can be had at any time, whatever is shown next;
 * empty for every other run.
 *
 * @param {Trace} trace
 */
export function exampleFile({ again, edits, previous }) {
  const name = new URLSearchParams(again?.link ?? "").get("example");
  return name && !edits.length && !previous ? `files/example/${encodeURIComponent(name)}.macd` : "";
}

export class TabRestorer {
  /** @param {Viewer} viewer where a restored trace is announced */
  constructor(viewer) {
    this.viewer = viewer;
    this.store = new TraceStore();
    this.restoring = true; // until the trace is shown again, or the visitor does something else
    /** @type {Saved | null} */
    this.awaited = null; // the record that was handed over and is not shown yet
    this.tab = "";
    /** @type {string | null | undefined} */
    this.restoredAt = undefined; // the run that the address named when what was restored was on show
    /** @type {ReturnType<typeof setTimeout> | null} */
    this.saving = null;
    this.typedAt = -Infinity;
    this.finished = this.quietly(() => this.restore());
    const poll = () => this.quietly(() => this.reloadAfterRestart());
    setInterval(poll, RESTORE.pollMs);
    document.addEventListener("visibilitychange", poll);
    document.addEventListener("input", () => { this.typedAt = Date.now(); }, true);
  }

  // Gradio notices a lost server only when an event is under way; a page at rest would send its
  // next one to a server that does not know the tab.
  async reloadAfterRestart() {
    const { app_id: ownApp } = gradioConfig();
    if (ownApp === undefined || document.visibilityState !== "visible") return;
    const answer = await fetch(new URL("gradio_api/app_id", document.baseURI), { cache: "no-store" });
    if (!answer.ok || (await answer.json()).app_id === ownApp) return;
    const typing = Date.now() - this.typedAt < RESTORE.typingMs; // it would be lost
    if (!typing && !this.viewer.state.busy && !this.saving) location.reload();
  }

  /**
   * Storage can fail in many ways; no failure may disturb the page.
   *
   * @param {() => unknown} work
   */
  async quietly(work) {
    try {
      await work();
    } catch (error) {
      console.debug("restoring after a reload:", error);
    }
  }

  get user() {
    return gradioConfig().username || "";
  }

  /**
   * Each value that the viewer shows comes here.
   *
   * @param {Partial<Payload> | null} value
   */
  observe(value) {
    const { status, trace, files } = value || {};
    if (!status) return;
    if (this.awaited && status.error) { // the trace cannot be opened: it will not be tried again
      this.awaited = null;
      this.restoredAt = undefined;
      this.quietly(() => this.store.remove(this.tab));
    }
    if (status.running) this.restoring = false;
    const address = (trace && exampleFile(trace)) || (files && files.trace);
    if (status.running || !trace || !address || files?.of === "example") return; // the page has its examples
    if (this.awaited && this.awaited.run === trace.run) {
      this.awaited = null;
      this.viewer.showStatus({ ...status, message: RESTORED });
    }
    if (this.saving !== null) clearTimeout(this.saving);
    this.saving = setTimeout(async () => {
      await this.quietly(() => this.save(trace, address));
      this.saving = null;
    }, RESTORE.saveDelayMs);
  }

  /**
   * @param {Trace} trace
   * @param {string} address
   */
  async save(trace, address) {
    const answer = await fetch(new URL(address, document.baseURI));
    if (!answer.ok) return;
    const length = Number(answer.headers.get("Content-Length") || 0);
    const content = length > RESTORE.maxBytes ? null : await answer.arrayBuffer();
    if (!content || content.byteLength > RESTORE.maxBytes) {
      if (!content && answer.body) answer.body.cancel();
      await this.store.remove(this.tab); // an older run must not come back in its place
      return;
    }
    const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") || "");
    await this.store.put({
      tab: this.tab,
      user: this.user,
      run: trace.run,
      at: linked(),
      untouched: Boolean(trace.again?.link) && !trace.edits.length && !trace.previous,
      name: name ? name[1] : "trace.macd",
      savedAt: Date.now(),
      content,
    });
    await this.store.prune();
  }

  async restore() {
    this.tab = sessionStorage.getItem(RESTORE.tabKey) || "";
    if (!this.tab) { // a new tab
      this.tab = Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");
      sessionStorage.setItem(RESTORE.tabKey, this.tab);
      return;
    }
    await this.store.prune();
    const record = await this.store.get(this.tab);
    if (!record || record.user !== this.user || this.isOtherPage(record)) return;
    const stop = () => { this.restoring = false; };
    /** @type {(event: Event) => void} */
    const form = (event) => {
      if (event.type !== "click" || /** @type {Element} */ (event.target).closest("#ask button")) stop();
    };
    const kinds = ["input", "change", "drop", "click"]; // the visitor's own choice counts more
    for (const kind of kinds) document.addEventListener(kind, form, true);
    try {
      if (!await this.serverAnswers()) return;
      const file = new File([record.content], record.name);
      await openTrace(file, { wanted: () => this.restoring, handedOver: () => { this.awaited = record; this.restoredAt = record.at; } });
    } finally {
      for (const kind of kinds) document.removeEventListener(kind, form, true);
    }
  }

  /**
   * A link to an example shows the example, unless the visitor had changed or replaced it.
   *
   * @param {Saved} record
   */
  isOtherPage(record) {
    if (!example()) return false;
    const [navigation] = performance.getEntriesByType("navigation");
    const type = /** @type {PerformanceNavigationTiming | undefined} */ (navigation)?.type;
    return record.untouched || type !== "reload";
  }

  async serverAnswers() {
    for (const wait of RESTORE.retryMs) {
      await pause(wait);
      if (!this.restoring) return false;
      try {
        const answer = await fetch(new URL("healthz", document.baseURI), { cache: "no-store" });
        if (answer.ok) return true;
      } catch { /* it is not up yet */ }
    }
    return false;
  }
}
