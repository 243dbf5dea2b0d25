// @ts-check
// The address and the run on show. A link to a run (#run=…) opens it where this browser keeps it or an
// example is meant; else the page says that it is not here, rather than showing another one without a
// word. Each run that a visitor chooses is an entry of the browser's history, so that Back and Forward
// lead from one to the next.

import { example, linked } from "./address.js";
import { isOneRun } from "./history.js";
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
    /** @type {{ run: string | null, key: string } | null} */
    this.wanted = null; // what is to be shown next: only the last of several counts
    /** @type {Promise<void> | null} */
    this.following = null;
    for (const kind of GESTURES) addEventListener(kind, (event) => { this.touched ||= event.isTrusted; }, true);
    /** Settled when the page shows what its address names. */
    this.followed = restorer.finished.then(() => {
      if (example()) return this.exampleShown();
      return restorer.restoredAt === linked() ? undefined : this.follow(linked());
    });
    addEventListener("popstate", ({ state }) => this.follow(linked(), state?.shown));
    document.addEventListener(SHOW_RUN, (event) => this.follow(/** @type {CustomEvent} */ (event).detail));
    this.finish = () => {};
  }

  /** The viewer has shown something: a run that was chosen becomes an entry of the history. */
  observe() {
    const { shown } = this.history, run = this.viewer.state.trace?.run;
    if (!shown || shown === this.last || this.viewer.state.running) return;
    const changed = isOneRun(shown, this.last);
    this.last = shown;
    const entry = history.state?.shown;
    if (this.following) { // the entry is there already
      if (!this.wanted && !entry) history.replaceState({ ...history.state, shown }, "");
      return;
    }
    if (entry === shown) return;
    if (changed || !this.touched || (!entry && linked() === run)) history.replaceState({ ...history.state, shown }, "");
    else history.pushState({ shown }, "", addressOf(run ?? ""));
  }

  /**
   * Shows a run, once what goes on has ended. Of several that are asked for meanwhile the last one is shown.
   *
   * @param {string | null} run as the address names it
   * @param {string} [key] of the run in the history of this tab: several may be of one clip and question
   * @returns {Promise<void>} when the page shows what was asked for last
   */
  follow(run, key = "") {
    this.wanted = { run, key };
    this.following ??= this.showWanted().finally(() => { this.following = null; });
    return this.following;
  }

  async showWanted() {
    while (this.wanted) {
      await until(() => !this.viewer.state.busy);
      const { run, key } = this.wanted;
      this.wanted = null;
      if (!this.viewer.state.busy) await this.show(run, key);
    }
  }

  /**
   * @param {string | null} run
   * @param {string} key
   */
  async show(run, key) {
    const kept = this.history.runs.get(key) ?? (run ? await this.history.find(run) : undefined);
    const wanted = kept?.trace.run ?? run;
    if (!wanted || (key ? key === this.history.shown : wanted === this.viewer.state.trace?.run)) return;
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

/** The page's own address with a run in the place of an example. @param {string} run */
function addressOf(run) {
  const address = new URL(location.href);
  address.searchParams.delete("example");
  address.hash = `run=${run}`;
  return address;
}
