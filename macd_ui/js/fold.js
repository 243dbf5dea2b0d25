// @ts-check
// The form next to the viewer: folds it after a run, and shows errors at the action that failed.

import { CHANGE_FORM, HIDE_FORM } from "./strings.js";

/** @import { Constants, Status } from "../../viewer/js/types" */

/** Part of the form → the element for its error. */
const ERRORS = { form: "run-error", clip: "clip-error", open: "open-error" };
const NARROW = "(max-width: 860px)";

export class Form {
  constructor() {
    this.running = false;
    this.folded = false;
    this.narrow = matchMedia(NARROW); // the form then stands below the viewer
    this.narrow.addEventListener("change", () => this.label());
    document.addEventListener("click", (event) => {
      if (!/** @type {Element} */ (event.target).closest("#fold")) return;
      this.fold(!this.folded && !this.narrow.matches, true);
    });
  }

  /**
   * Takes note of a status; gives it without the error that is shown here.
   *
   * @param {Status} status
   * @param {Constants["stages"]} stages
   * @returns {Status}
   */
  observe(status, stages) {
    const began = status.running && !this.running;
    const run = this.running && !status.running && status.stage === "done" && !status.error;
    this.running = status.running;
    if (began && this.narrow.matches && this.form()?.contains(document.activeElement)) {
      document.querySelector("#viewer")?.scrollIntoView({ block: "start" });
    }
    if (run) this.fold(true);
    else this.label();
    this.tellProgress(status, stages);
    const placed = this.place(status.where, status.error);
    return placed ? { ...status, error: "" } : status;
  }

  /**
   * How far a run is, beside the button that started it: the viewer's own bar may be out of sight.
   *
   * @param {Status} status
   * @param {Constants["stages"]} stages
   */
  tellProgress({ running, stage, fraction, message }, stages) {
    const line = document.getElementById("run-progress"), button = document.getElementById("run");
    if (!line || !button) return;
    const appears = running && line.hidden;
    line.hidden = !running;
    if (!running) return;
    const at = Math.max(0, stages.findIndex(([name]) => name === stage));
    line.style.setProperty("--fraction", String((at + fraction) / stages.length));
    line.textContent = message;
    const { top, bottom } = button.getBoundingClientRect();
    if (appears && top < innerHeight && bottom > 0) line.scrollIntoView({ block: "nearest" });
  }

  form() {
    return document.querySelector("#ask");
  }

  // What the button does: where the form stands below the viewer it leads there, and hides nothing.
  label() {
    const button = document.querySelector("#fold");
    if (!button) return;
    button.setAttribute("aria-expanded", String(!this.folded));
    const text = this.folded || this.narrow.matches ? CHANGE_FORM : HIDE_FORM;
    if (button.textContent !== text) button.textContent = text;
  }

  /**
   * @param {boolean} folded
   * @param {boolean} byHand
   */
  fold(folded, byHand = false) {
    const columns = document.querySelector("#columns");
    const button = /** @type {HTMLElement | null} */ (document.querySelector("#fold"));
    if (!columns || !button) return;
    const { activeElement } = document; // a button that was disabled has lost the focus to the body
    const hadFocus = activeElement === document.body || Boolean(this.form()?.contains(activeElement));
    this.folded = folded;
    columns.classList.toggle("folded", folded);
    this.label();
    if (folded && hadFocus) {
      button.focus({ preventScroll: true });
      const bar = document.querySelector("#bar"); // above the answers
      if (!byHand && bar && bar.getBoundingClientRect().top < 0) bar.scrollIntoView({ block: "start" });
    }
    if (!folded && byHand) {
      if (this.narrow.matches) this.form()?.scrollIntoView({ block: "start" });
      /** @type {HTMLElement | null} */
      const question = document.querySelector("#question textarea");
      if (question) question.focus({ preventScroll: this.narrow.matches });
    }
  }

  /**
   * Whether an error has a place beside the action that caused it, and is shown there.
   *
   * @param {string} where
   * @param {string} error
   */
  place(where, error) {
    let placed = false;
    for (const [part, id] of Object.entries(ERRORS)) {
      const line = document.getElementById(id);
      if (!line) continue;
      const here = Boolean(error) && part === where;
      line.textContent = here ? error : "";
      line.hidden = !here;
      placed = placed || here;
      if (here && part !== "open") this.fold(false);
    }
    return placed;
  }
}
