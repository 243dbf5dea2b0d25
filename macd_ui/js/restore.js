// @ts-check
// Keeps the trace on show in the browser and shows it again when the tab is reloaded, by hand or
// because the server was restarted and has forgotten every run.
// A new tab restores nothing. Browsers that offer no storage lose only this.

import { example, linked } from "./address.js";
import { MAX_AGE_MS, Records, TAB_KEY, asPromise, gradioConfig, quietly, traceFile, userName } from "./kept.js";
import { openTrace } from "./open.js";
import { restored } from "./strings.js";

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

const RESTORE = {
  maxTabs: 20,
  saveDelayMs: 50, // the page draws the new trace first
  // a server that is closing or not up yet is asked again ever more rarely
  retryMs: [0, 1000, 2000, 4000, 8000, ...Array(20).fill(15000)],
  pollMs: 10000,
  typingMs: 60000,
};

/** @type {(ms: number) => Promise<void>} */
const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

class TraceStore extends Records {
  constructor() {
    super("macd-traces", "tabs", "tab", "savedAt");
  }

  // Removes what is older than a day, and the oldest where there are too many.
  async prune() {
    const objects = await this.objects("readwrite");
    const index = objects.index("savedAt");
    const oldest = IDBKeyRange.upperBound(Date.now() - MAX_AGE_MS);
    for (const key of await asPromise(index.getAllKeys(oldest))) objects.delete(key);
    const keys = await asPromise(index.getAllKeys()); // the oldest first
    for (const key of keys.slice(0, Math.max(0, keys.length - RESTORE.maxTabs))) objects.delete(key);
  }
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
    this.seen = 0; // traces that could be kept, in the order in which they were shown
    this.kept = 0; // the last of them that was
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

  /** @param {() => unknown} work */
  quietly(work) {
    return quietly("restoring after a reload", work);
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
      this.viewer.showStatus({ ...status, message: restored(trace.edits.length) });
    }
    if (this.saving !== null) clearTimeout(this.saving);
    const file = traceFile(address).catch(() => null), turn = ++this.seen;
    this.saving = setTimeout(async () => {
      await this.quietly(async () => this.save(trace, await file, turn));
      if (turn === this.seen) this.saving = null;
    }, RESTORE.saveDelayMs);
  }

  /**
   * @param {Trace} trace
   * @param {Awaited<ReturnType<typeof traceFile>>} file
   * @param {number} turn of the trace among `seen`: its file may come after that of a later one
   */
  async save(trace, file, turn) {
    if (!file || turn < this.kept) return;
    this.kept = turn;
    if (!file.content) {
      await this.store.remove(this.tab); // an older run must not come back in its place
      return;
    }
    await this.store.put({
      tab: this.tab,
      user: userName(),
      run: trace.run,
      at: linked(),
      untouched: Boolean(trace.again?.link) && !trace.edits.length && !trace.previous,
      name: file.name,
      savedAt: Date.now(),
      content: file.content,
    });
    await this.store.prune();
  }

  async restore() {
    this.tab = sessionStorage.getItem(TAB_KEY) || "";
    if (!this.tab) { // a new tab
      this.tab = Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");
      sessionStorage.setItem(TAB_KEY, this.tab);
      return;
    }
    await this.store.prune();
    /** @type {Saved | undefined} */
    const record = await this.store.get(this.tab);
    if (!record || record.user !== userName() || this.isOtherPage(record)) return;
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
