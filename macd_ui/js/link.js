// @ts-check
// The address and the run on show. A link to a run (#run=…) opens it where this browser keeps it or an
// example is meant; else the page says that it is not here, rather than showing another one without a
// word. Each run that a visitor chooses is an entry of the browser's history, so that Back and Forward
// lead from one to the next.

import { exampleFile } from "./restore.js";

/** @import { Viewer } from "../../viewer/js/viewer.js" */
/** @import { RunHistory } from "./history.js" */
/** @import { TabRestorer } from "./restore.js" */

export const SHOW_RUN = "macd-show-run"; // an event that names a run to be shown
const WANTED = "#wanted textarea, #wanted input"; // the server reads from it what is asked for
const ANSWER_WAIT_MS = 30000, FIELD_POLL_MS = 100;
const GESTURES = ["pointerdown", "keydown", "drop", "change"];

export class RunLink {
  /**
   * @param {Viewer} viewer
   * @param {TabRestorer} restorer
   * @param {RunHistory} history
   */
  constructor(viewer, restorer, history) {
    this.viewer = viewer;
    this.history = history;
    this.asked = 0;
    this.last = ""; // the key of the run that was shown last
    this.touched = false; // what the page shows by itself replaces the entry that it was opened with
    for (const kind of GESTURES) addEventListener(kind, (event) => { this.touched ||= event.isTrusted; }, true);
    /** Settled when the page shows what its address names. */
    this.followed = restorer.finished.then(() => (example() ? this.exampleShown() : this.follow(linked())));
    addEventListener("popstate", ({ state }) => this.follow(linked(), state?.shown));
    document.addEventListener(SHOW_RUN, (event) => this.follow(/** @type {CustomEvent} */ (event).detail));
    this.finish = () => {};
  }

  /** The viewer has shown something: a run that was chosen becomes an entry of the history. */
  observe() {
    const { shown } = this.history, run = this.viewer.state.trace?.run;
    if (!shown || shown === this.last || this.viewer.state.running) return;
    this.last = shown;
    const entry = history.state?.shown;
    if (entry === shown) return;
    if (!this.touched || (!entry && linked() === run)) history.replaceState({ ...history.state, shown }, "");
    else history.pushState({ shown }, "", addressOf(run ?? ""));
  }

  /**
   * @param {string | null} run as the address names it
   * @param {string} [key] of the run in the history of this tab: several may be of one clip and question
   */
  async follow(run, key = "") {
    const kept = this.history.runs.get(key) ?? (run ? await this.history.find(run) : undefined);
    const wanted = kept?.trace.run ?? run;
    if (!wanted || this.viewer.state.busy || (key ? key === this.history.shown : wanted === this.viewer.state.trace?.run)) return;
    if (kept && !exampleFile(kept.trace)) await this.history.show(kept);
    else await this.ask(`run:${wanted}`);
  }

  /**
   * Asks the server for what only it knows: the runs of its examples. It says so where it does not know one.
   *
   * @param {string} what
   * @returns {Promise<void>} when the page has answered
   */
  async ask(what) {
    /** @type {() => HTMLTextAreaElement | HTMLInputElement | null} */
    const place = () => document.querySelector(WANTED);
    await until(() => place() !== null);
    const field = place();
    if (!field) return;
    this.asked += 1; // a text that stays the same would not be heard
    field.value = `${what} ${this.asked}`;
    const answered = new Promise((done) => { this.finish = () => done(undefined); setTimeout(done, ANSWER_WAIT_MS); });
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await answered;
  }

  /** The page shows a run or an error. */
  answered() {
    this.finish();
  }

  exampleShown() {
    return until(() => new URLSearchParams(this.viewer.state.trace?.again?.link ?? "").get("example") === example());
  }
}

/** @param {() => boolean} isSo */
async function until(isSo) {
  const end = Date.now() + ANSWER_WAIT_MS;
  while (!isSo() && Date.now() < end) await new Promise((done) => { setTimeout(done, FIELD_POLL_MS); });
}

function linked() {
  return new URLSearchParams(location.hash.slice(1)).get("run");
}

function example() {
  return new URLSearchParams(location.search).get("example");
}

/** The page's own address with a run in the place of an example. @param {string} run */
function addressOf(run) {
  const address = new URL(location.href);
  address.searchParams.delete("example");
  address.hash = `run=${run}`;
  return address;
}
