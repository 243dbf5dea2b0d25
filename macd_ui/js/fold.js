// @ts-check
// The form is a drawer that opens from the bar: beside the viewer where there is room, else over it. It
// closes after a run, and shows errors at the action that failed.

/** @import { Constants, Status } from "../../viewer/js/types" */

/** Part of the form → the element for its error. */
const ERRORS = { form: "run-error", clip: "clip-error", open: "open-error" };
const NARROW = "(max-width: 1099px)"; // the drawer then lies over the viewer
/** What opens the drawer → what is then in focus. */
const OPENERS = { "open-form": "#video button[aria-dropeffect]", "open-examples": "#example input" };
const QUESTION = "#question textarea";
/** Button of a menu in the bar → the class by which it is open. @type {Record<string, string>} */
const MENUS = { "open-files": "files-open", "open-menu": "menu-open" };
const SCHEME = "macd-scheme"; // what the reader chose, in this browser

export class Form {
  constructor() {
    this.running = false;
    this.open = false;
    this.run = ""; // on show
    this.narrow = matchMedia(NARROW);
    document.addEventListener("click", (event) => this.press(/** @type {Element} */ (event.target)));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") for (const id of Object.keys(MENUS)) this.showMenu(id, false);
      const within = this.form()?.contains(/** @type {Node} */ (event.target));
      if (event.key === "Escape" && within && !event.defaultPrevented && this.narrow.matches) this.show(false, true);
    });
    // an error of the form stands until something in it is changed, or a file is taken away
    for (const kind of ["input", "change", "drop", "click"]) document.addEventListener(kind, (event) => this.forgive(/** @type {Element} */ (event.target)), true);
    const scheme = new URLSearchParams(location.search).has("__theme") ? null : kept();
    if (scheme) document.body.classList.toggle("dark", scheme === "dark");
  }

  /** @param {Element} target what was changed or pressed */
  forgive(target) {
    const button = target.closest("button");
    if (!this.form()?.contains(target) || (button && !button.matches("#video button, #tracks button, #counterpart button"))) return;
    this.clear("form");
    if (target.closest("#video")) this.clear("clip");
  }

  /** @param {string} id of the button of a menu @param {boolean} open */
  showMenu(id, open) {
    const button = document.getElementById(id);
    if (!button || (button.getAttribute("aria-expanded") === "true") === open) return;
    document.getElementById("top")?.classList.toggle(MENUS[id], open);
    button.setAttribute("aria-expanded", String(open));
  }

  /** @param {keyof typeof ERRORS} part */
  clear(part) {
    const line = document.getElementById(ERRORS[part]);
    if (line) [line.textContent, line.hidden] = ["", true];
  }

  /** @param {Element} target */
  press(target) {
    if (target.closest("#close-form")) this.show(false, true);
    // a file that is chosen or saved leaves its menu open, for its error and the next one
    for (const id of Object.keys(MENUS)) {
      if (target.closest(`#${id}`)) this.showMenu(id, document.getElementById(id)?.getAttribute("aria-expanded") !== "true");
      else if (!target.closest("#top")) this.showMenu(id, false);
    }
    if (target.closest("#scheme")) {
      const dark = document.body.classList.toggle("dark");
      kept(dark ? "dark" : "light");
    }
    for (const [id, wanted] of Object.entries(OPENERS)) {
      // pressed again it closes the drawer, unless what it leads to is out of sight
      if (!target.closest(`#${id}`)) continue;
      this.showMenu("open-menu", false);
      this.show(!this.open || id !== "open-form" || !this.inSight(wanted.split(" ")[0]), true, wanted);
    }
  }

  /**
   * Takes note of a status; gives it without the error that is shown here.
   *
   * @param {Status} status
   * @param {Constants["stages"]} stages
   * @param {string} run on show
   * @returns {Status}
   */
  observe(status, stages, run) {
    const began = status.running && !this.running, other = run !== this.run;
    const done = this.running && !status.running && status.stage === "done" && !status.error;
    this.running = status.running;
    if (!status.running) this.run = run;
    // what goes on is seen behind it, unless it is for the form
    if (began && this.narrow.matches && status.where !== "form") this.show(false);
    if (done) this.show(false);
    else this.mark();
    // on a phone a menu covers the run that was opened with it
    if (other && this.narrow.matches && !status.running && !status.error) {
      for (const id of Object.keys(MENUS)) this.showMenu(id, false);
    }
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
    const at = stages.findIndex(([name]) => name === stage);
    line.style.setProperty("--fraction", String(at < 0 ? fraction : (at + fraction) / stages.length));
    line.textContent = message;
    const { top, bottom } = button.getBoundingClientRect();
    if (appears && top < innerHeight && bottom > 0) line.scrollIntoView({ block: "nearest" });
  }

  form() {
    return document.querySelector("#ask");
  }

  /** Whether a part of the drawer is seen in it. @param {string} part */
  inSight(part) {
    const form = this.form()?.getBoundingClientRect(), place = this.form()?.querySelector(part)?.getBoundingClientRect();
    const middle = place && (place.top + place.bottom) / 2;
    return Boolean(form && middle !== undefined && middle >= form.top && middle < form.bottom);
  }

  // The buttons of the bar say whether the drawer is open.
  mark() {
    for (const id of Object.keys(OPENERS)) document.getElementById(id)?.setAttribute("aria-expanded", String(this.open));
  }

  /**
   * @param {boolean} open
   * @param {boolean} byHand
   * @param {string} wanted what is in focus once it is open
   */
  show(open, byHand = false, wanted = QUESTION) {
    const columns = document.querySelector("#columns"), form = this.form();
    if (!columns || !form) return;
    const { activeElement } = document; // a button that was disabled has lost the focus to the body
    const hadFocus = activeElement === document.body || form.contains(activeElement);
    const was = this.open;
    this.open = open;
    columns.classList.toggle("drawer", open);
    this.mark();
    if (!open && was && hadFocus) document.getElementById("open-form")?.focus({ preventScroll: true });
    const viewer = document.querySelector("#viewer");
    if (!open && was && !byHand && viewer && viewer.getBoundingClientRect().top < 0) viewer.scrollIntoView({ block: "start" });
    const place = /** @type {HTMLElement | null} */ (form.querySelector(wanted) ?? form.querySelector(QUESTION));
    if (!open || !byHand) return;
    place?.focus({ preventScroll: true });
    place?.closest(".block")?.scrollIntoView({ block: "nearest" });
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
      const here = Boolean(error) && part === where, fresh = here && line.textContent !== error;
      line.textContent = here ? error : "";
      line.hidden = !here;
      placed = placed || here;
      if (here && part !== "open") this.show(true);
      if (fresh && part !== "open") line.scrollIntoView({ block: "nearest" }); // the drawer may be scrolled elsewhere
    }
    return placed;
  }
}

/** The scheme that this browser keeps, if it keeps anything. @param {string} [chosen] */
function kept(chosen) {
  try {
    if (chosen) localStorage.setItem(SCHEME, chosen);
    return localStorage.getItem(SCHEME);
  } catch {
    return null;
  }
}
