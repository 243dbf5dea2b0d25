// @ts-check
// The runs of this tab: each can be shown again, pinned, or put beside the one on show. They are kept
// in the browser, so that the server need not; a tab that is reloaded has them again.

import { el } from "../../viewer/js/dom.js";
import { MAX_AGE_MS, Records, TAB_KEY, quietly, traceFile, userName } from "./kept.js";
import { openTrace } from "./open.js";
import { exampleFile } from "./restore.js";
import { CHANGED_BY_HAND, MASKS_ONLY, NO_COPY, OPEN_COPY, PIN, RUNS, SHOW, runsOfTab } from "./strings.js";

/** @import { Payload, Trace } from "../../viewer/js/types" */
/** @import { Viewer } from "../../viewer/js/viewer.js" */
/**
 * @typedef {object} Run one record a run
 * @property {string} key of the tab and the run
 * @property {string} tab
 * @property {string} user
 * @property {boolean} pinned
 * @property {number} shownAt
 * @property {string} name of its file
 * @property {Trace} trace as the viewer shows it
 * @property {ArrayBuffer | null} content its file; null where it is too large or an example
 * @property {string} [address] where an example's file can be had at any time; else empty
 */

const MOST = 12; // runs without a pin, and as many with one
const CHANGED = " changed"; // at the end of a key: the run as it was before a change by hand stays in the list
const SHORT = 60; // characters of a question in the list

export class RunHistory {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    /** @type {Map<string, Run>} */
    this.runs = new Map();
    this.shown = "";
    this.list = el("ol", { class: "mv-history-list" });
    this.title = el("summary", {}, RUNS);
    this.root = el("details", { class: "mv-history", hidden: true }, this.title, this.list);
    viewer.legend.root.before(this.root);
    this.records = new Records("macd-runs", "runs", "key");
    this.ready = this.quietly(() => this.read());
  }

  get tab() {
    return sessionStorage.getItem(TAB_KEY) || "";
  }

  /** The list ends with the page where storage fails. @param {() => unknown} work */
  quietly(work) {
    return quietly("history of runs", work);
  }

  // The runs that this tab showed before it was reloaded; old ones of any tab are dropped.
  async read() {
    /** @type {Run[]} */
    const all = await this.records.all();
    const old = all.filter((run) => Date.now() - run.shownAt > MAX_AGE_MS);
    for (const run of old) await this.remove(run.key);
    for (const run of all) {
      if (!old.includes(run) && run.tab === this.tab && run.user === userName() && !this.runs.has(run.key)) this.runs.set(run.key, run);
    }
    this.draw();
  }

  /** @param {string} key */
  async remove(key) {
    this.runs.delete(key);
    await this.records.remove(key);
  }

  /**
   * Each value that the viewer shows comes here.
   *
   * @param {Partial<Payload> | null} value
   */
  observe(value) {
    const { status, trace, files } = value || {};
    if (!status || status.running || !trace || !(trace.again || Object.keys(trace.answers).length)) return;
    const key = [this.tab, trace.run, trace.backbone, ...Object.keys(trace.answers)].join(" ") + (trace.edits.length ? CHANGED : "");
    const former = this.runs.get(key), before = former ?? this.runs.get(plain(key)) ?? this.runs.get(plain(key) + CHANGED);
    this.runs.delete(key); // the newest is last
    const run = {
      key, tab: this.tab, user: userName(), pinned: former?.pinned || false, shownAt: Date.now(), name: former?.name || "trace.macd",
      trace: whole(trace, before?.trace), content: former?.content || null,
      address: exampleFile(trace),
    };
    this.runs.set(key, run);
    this.shown = key;
    this.draw();
    const address = files && files.of === "run" && !run.address ? files.trace : "";
    this.quietly(() => this.keep(run, address));
  }

  /**
   * @param {Run} run
   * @param {string} address of its file; empty for an example, which is fetched when it is needed
   */
  async keep(run, address) {
    const file = address ? await traceFile(address) : null;
    if (file?.content) [run.content, run.name] = [file.content, file.name];
    this.draw();
    await this.records.put(run);
    for (const pinned of [false, true]) {
      const same = [...this.runs.values()].filter((r) => r.pinned === pinned);
      for (const old of same.slice(0, Math.max(0, same.length - MOST))) await this.remove(old.key);
    }
    this.draw();
  }

  draw() {
    const runs = [...this.runs.values()].reverse().sort((a, b) => Number(b.pinned) - Number(a.pinned));
    this.root.hidden = !runs.length;
    this.title.textContent = runsOfTab(runs.length);
    this.list.replaceChildren(...runs.map((run) => this.row(run)));
  }

  /** @param {Run} run */
  row(run) {
    const { trace, pinned } = run;
    const question = trace.question.length > SHORT ? `${trace.question.slice(0, SHORT - 1)}…` : trace.question;
    const answers = Object.values(trace.answers).slice(0, 2).map((a) => `${a.title}: ${a.text || "∅"}`).join(" → ") || MASKS_ONLY;
    const here = run.key === this.shown, changed = trace.edits.length ? ` · ${CHANGED_BY_HAND}` : "";
    const lasts = Boolean(run.content || run.address);
    /** @type {(name: string, action: () => void, more?: Record<string, unknown>) => HTMLElement} */
    const button = (name, action, more = {}) =>
      el("button", { type: "button", class: "mv-button", "aria-label": `${name}: ${question}`, on: { click: action }, ...more }, name);
    return el("li", { class: here ? "mv-history-now" : "", "aria-current": here ? "true" : null },
      el("span", {}, el("strong", {}, question), ` ${trace.clip} · ${trace.backbone} · ${answers}${changed}`),
      el("span", { class: "mv-history-buttons" },
        button(SHOW, () => this.show(run), { disabled: here || !lasts, title: lasts || here ? "" : NO_COPY }),
        button("Beside", () => this.viewer.panels.beside.show(trace), { disabled: here }),
        button(PIN, () => this.pin(run), { "aria-pressed": String(pinned) })));
  }

  /** @param {Run} run */
  show(run) {
    return this.quietly(async () => {
      const content = run.content || await this.fetched(run);
      if (!content) return;
      this.viewer.before = ""; // what is opened may be what was on show, and then answers for it
      await openTrace(new File([content], run.name));
    });
  }

  /** Beside the error that tells of it: the server has lost the run on show. @param {string} where of the error */
  offer(where) {
    const run = this.runs.get(this.shown);
    if (!run || !(run.content || run.address)) return;
    const place = this.viewer.errorOf(where) ?? this.viewer.message;
    place.append(" ", el("button", { type: "button", class: "mv-button", on: { click: () => this.show(run) } }, OPEN_COPY));
  }

  /** The file of the run on show, where this browser keeps it. @returns {Promise<{ name: string, content: ArrayBuffer } | null>} */
  async copy() {
    const run = this.runs.get(this.shown);
    const content = run ? run.content || await this.fetched(run) : null;
    return run && content ? { name: run.name, content } : null;
  }

  /** @param {Run} run */
  async fetched({ address }) {
    const answer = address ? await fetch(new URL(address, document.baseURI)) : null;
    return answer?.ok ? answer.arrayBuffer() : null;
  }

  /**
   * A run that this browser keeps, of any tab; undefined where there is none.
   *
   * @param {string} run as the address names it
   */
  async find(run) {
    await this.ready;
    /** @type {Run | undefined} */
    let kept = newest([...this.runs.values()], run);
    await this.quietly(async () => {
      /** @type {Run[]} */
      const all = kept ? [] : await this.records.all();
      kept = kept || newest(all.filter((r) => r.user === userName()), run);
    });
    return kept;
  }

  /** @param {Run} run */
  pin(run) {
    run.pinned = !run.pinned;
    this.draw();
    this.quietly(() => this.records.put(run));
  }
}

/** What was shown last of a run and can be opened. @param {Run[]} runs @param {string} run @returns {Run | undefined} */
const newest = (runs, run) => runs.filter((r) => r.trace.run === run && (r.content || r.address)).sort((a, b) => b.shownAt - a.shownAt)[0];

/** @param {string} key */
const plain = (key) => key.endsWith(CHANGED) ? key.slice(0, -CHANGED.length) : key;

/** Whether two keys are of one run, before and after changes by hand. @param {string} one @param {string} other */
export const isOneRun = (one, other) => plain(one) === plain(other);

/**
 * A trace with its pictures, which are sent only when they are new.
 *
 * @param {Trace} trace
 * @param {Trace | undefined} former
 */
function whole(trace, former) {
  return trace.frames.length || !former ? { ...trace } : { ...trace, frames: former.frames };
}
