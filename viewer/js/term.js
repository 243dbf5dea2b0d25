// @ts-check
// Terms that explain themselves on hover, keyboard focus and touch. Used by the viewer and the course.

import { el } from "./dom.js";

const GAP = 6, LINGER_MS = 150;
let count = 0;

/** The definitions of one part of a page. `root` must stand in it: its colours are taken from there. */
export class Tips {
  constructor() {
    count += 1;
    this.id = `mv-tip-${count}`;
    this.root = el("div", { class: "mv-tips" });
    /** @type {Map<string, HTMLElement>} one for each term, shared by all places that name it */
    this.tips = new Map();
    /** @type {HTMLElement | null} */
    this.open = null;
    /** @type {HTMLElement | null} what the open one explains */
    this.host = null;
    this.leaving = 0;
    this.pointer = ""; // where it was last, on the screen
    addEventListener("pointermove", (e) => this.moved(e), { capture: true, passive: true });
    addEventListener("scroll", () => this.place(), { capture: true, passive: true });
  }

  /**
   * A term within text, as a button.
   *
   * @param {string} text
   * @param {string} name of the term
   * @param {string} meaning
   */
  term(text, name, meaning) {
    const button = el("button", { type: "button", class: "mv-term" }, text);
    this.explain(button, name, meaning);
    button.addEventListener("click", () => this.show(button, this.tip(name, meaning)));
    return button;
  }

  /**
   * Gives an element that can have the focus the definition of a term.
   *
   * @param {HTMLElement} host
   * @param {string} name of the term
   * @param {string} meaning
   */
  explain(host, name, meaning) {
    const tip = this.tip(name, meaning);
    host.setAttribute("aria-describedby", tip.id);
    host.addEventListener("pointerenter", (e) => {
      // a term that scrolled under a pointer at rest must not replace what the keyboard opened
      if (this.moved(e) && e.pointerType !== "touch") this.show(host, tip);
    });
    host.addEventListener("pointerleave", () => this.leave(host));
    // a click on a summary or a button gives it the focus too, and there the definition is in the way
    host.addEventListener("focus", () => { if (host.matches(":focus-visible")) this.show(host, tip); });
    host.addEventListener("blur", () => this.hide());
    host.addEventListener("keydown", (e) => {
      if (e.key !== "Escape" || this.open !== tip) return;
      e.stopPropagation(); // the first Escape closes only this
      this.hide();
    });
  }

  /**
   * The tip of a term, made when it is first asked for.
   *
   * @param {string} name
   * @param {string} meaning
   */
  tip(name, meaning) {
    let tip = this.tips.get(name);
    if (!tip) {
      tip = el("span", { class: "mv-tip", role: "tooltip", id: `${this.id}-${this.tips.size}`, popover: "manual" });
      tip.addEventListener("pointerenter", () => clearTimeout(this.leaving)); // it can be read with the pointer on it
      tip.addEventListener("pointerleave", () => this.hide());
      this.tips.set(name, tip);
      this.root.append(tip);
    }
    tip.replaceChildren(el("b", {}, name), ` ${meaning}.`);
    return tip;
  }

  /**
   * @param {HTMLElement} host
   * @param {HTMLElement} tip
   */
  show(host, tip) {
    clearTimeout(this.leaving);
    if (this.open !== tip) this.hide();
    if (!tip.isConnected) return;
    this.open = tip;
    this.host = host;
    tip.showPopover?.(); // above everything, and cut by no box that scrolls
    this.place();
  }

  /**
   * Whether a pointer moved since its last event.
   *
   * @param {PointerEvent} event
   */
  moved({ screenX, screenY }) {
    const before = this.pointer;
    this.pointer = `${screenX},${screenY}`;
    return this.pointer !== before;
  }

  /** Keeps the open definition beside its term, also where the focus scrolled the page to it. */
  place() {
    const { host, open: tip } = this;
    if (!host || !tip) return;
    const at = host.getBoundingClientRect(), { width, height } = tip.getBoundingClientRect();
    const { clientWidth, clientHeight } = host.ownerDocument.documentElement;
    const below = at.bottom + GAP + height <= clientHeight || at.top < GAP + height;
    tip.style.left = `${Math.max(GAP, Math.min(at.left, clientWidth - width - GAP))}px`;
    tip.style.top = `${below ? at.bottom + GAP : at.top - GAP - height}px`;
  }

  /** @param {HTMLElement} host */
  leave(host) {
    if (this.host !== host || host.matches(":focus-visible")) return;
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => this.hide(), LINGER_MS);
  }

  /** Closes a definition whose place was drawn anew, and so will never be left. */
  check() {
    if (this.host && !this.host.isConnected) this.hide();
  }

  hide() {
    clearTimeout(this.leaving);
    if (this.open?.isConnected) this.open.hidePopover?.();
    this.open = this.host = null;
  }
}
