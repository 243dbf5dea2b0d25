// @ts-check
// A link to a run (#run=…): opens it where this browser keeps it or an example is meant; else the
// page says that it is not here, rather than showing another one without a word.

/** @import { Viewer } from "../../viewer/js/viewer.js" */
/** @import { RunHistory } from "./history.js" */
/** @import { TabRestorer } from "./restore.js" */

export const SHOW_RUN = "macd-show-run"; // an event that names a run to be shown
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
    if (!new URLSearchParams(location.search).has("example")) restorer.finished.then(() => this.follow(linked()));
    addEventListener("hashchange", () => this.follow(linked()));
    document.addEventListener(SHOW_RUN, (event) => this.follow(/** @type {CustomEvent} */ (event).detail));
  }

  /** @param {string} run */
  isShown(run) {
    return this.viewer.state.trace?.run === run;
  }

  /** @param {string | null} run */
  async follow(run) {
    if (!run || this.isShown(run) || this.viewer.state.busy) return;
    const kept = await this.history.find(run);
    if (kept) await this.history.show(kept);
    else this.ask(run);
  }

  // The server knows the runs of its examples, and says so where it does not know one.
  /** @param {string} run */
  ask(run) {
    /** @type {HTMLTextAreaElement | HTMLInputElement | null} */
    const field = document.querySelector(WANTED);
    if (!field || this.isShown(run)) return;
    field.value = `run:${run}`;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

function linked() {
  return new URLSearchParams(location.hash.slice(1)).get("run");
}
