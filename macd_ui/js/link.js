// @ts-check
// A link to a run (#run=…): opens it where this browser keeps it or an example is meant; else the
// page says that it is not here, rather than showing another one without a word.

/** @import { Viewer } from "../../viewer/js/viewer.js" */
/** @import { RunHistory } from "./history.js" */
/** @import { TabRestorer } from "./restore.js" */

const WANTED = "#wanted textarea, #wanted input"; // the server reads from it what the address names

export class RunLink {
  /**
   * @param {Viewer} viewer
   * @param {TabRestorer} restorer
   * @param {RunHistory} history
   */
  constructor(viewer, restorer, history) {
    this.viewer = viewer;
    this.history = history;
    if (!new URLSearchParams(location.search).has("example")) restorer.finished.then(() => this.follow());
    addEventListener("hashchange", () => this.follow());
  }

  isShown() {
    const run = new URLSearchParams(location.hash.slice(1)).get("run");
    return !run || this.viewer.state.trace?.run === run;
  }

  async follow() {
    const run = new URLSearchParams(location.hash.slice(1)).get("run");
    if (!run || this.isShown() || this.viewer.state.busy) return;
    const kept = await this.history.find(run);
    if (kept) await this.history.show(kept);
    else this.ask(run);
  }

  // The server knows the runs of its examples, and says so where it does not know one.
  /** @param {string} run */
  ask(run) {
    /** @type {HTMLTextAreaElement | HTMLInputElement | null} */
    const field = document.querySelector(WANTED);
    if (!field || this.isShown()) return;
    field.value = `run:${run}`;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
