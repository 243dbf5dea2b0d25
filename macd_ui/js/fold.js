// @ts-check
// The form next to the viewer: folds it after a run, and shows errors at the action that failed.

/** @import { Status } from "../../viewer/js/types" */

/** Part of the form → the element for its error. */
const ERRORS = { form: "run-error", clip: "clip-error", open: "open-error" };
const NARROW = "(max-width: 860px)";

export class Form {
  constructor() {
    this.running = false;
    document.addEventListener("click", (event) => {
      const button = /** @type {Element} */ (event.target).closest("#fold");
      if (button) this.fold(button.getAttribute("aria-expanded") === "true", true);
    });
  }

  /**
   * Takes note of a status; gives it without the error that is shown here.
   *
   * @param {Status} status
   * @returns {Status}
   */
  observe(status) {
    const began = status.running && !this.running;
    const run = this.running && !status.running && status.stage === "done" && !status.error;
    this.running = status.running;
    if (began && matchMedia(NARROW).matches && this.form()?.contains(document.activeElement)) {
      document.querySelector("#viewer")?.scrollIntoView({ block: "start" });
    }
    if (run) this.fold(true);
    const placed = this.place(status.where, status.error);
    return placed ? { ...status, error: "" } : status;
  }

  form() {
    return document.querySelector("#ask");
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
    columns.classList.toggle("folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? "Change clip or question" : "Hide the form";
    if (folded && hadFocus) button.focus({ preventScroll: true });
    if (!folded && byHand) {
      /** @type {HTMLElement | null} */
      const question = document.querySelector("#question textarea");
      if (question) question.focus();
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
