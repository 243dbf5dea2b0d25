// @ts-check
// Help: terms that explain themselves, the legend, a tour, the keys, and how to run the same again.

import { all, button, el } from "./dom.js";
import { unfold } from "./folds.js";
import { filesNote } from "./strings/answers.js";
import { KEYS, SIGNS, TERMS, TEXT, TOUR } from "./strings/labels.js";
import { capitalized, levelDrawing, levelSign } from "./strings/parts.js";

/** @import { Constants, Layer, Trace } from "./types" */
/** @import { State } from "./state.js" */

// Terms that explain themselves on hover, keyboard focus and touch. Used by the viewer and the course.

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
   * @param {string} text @param {string} name of the term @param {string} meaning
   */
  term(text, name, meaning) {
    const host = button(text, () => this.show(host, this.tip(name, meaning)), { class: "mv-term" });
    this.explain(host, name, meaning);
    return host;
  }

  /**
   * Gives an element that can have the focus the definition of a term.
   * @param {HTMLElement} host @param {string} name of the term @param {string} meaning
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

  /** The tip of a term, made when it is first asked for. @param {string} name @param {string} meaning */
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

  /** @param {HTMLElement} host @param {HTMLElement} tip */
  show(host, tip) {
    clearTimeout(this.leaving);
    if (this.open !== tip) this.hide();
    if (!tip.isConnected) return;
    this.open = tip;
    this.host = host;
    tip.showPopover?.(); // above everything, and cut by no box that scrolls
    this.place();
  }

  /** Whether a pointer moved since its last event. @param {PointerEvent} event */
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

// What every sign and word on the viewer means. The meanings are the glossary's, which Python sends.

const SWATCHES = ["mv-key-0", "mv-key-half", "mv-key-1"]; // of the levels, from the lowest
/** Where such words stand. */
const PLACES = "th[scope=col], h3, summary, .mv-layers button, .mv-sign";

export class Legend {
  constructor() {
    this.body = el("dl", { class: "mv-legend-list" });
    this.terms = el("dl", { class: "mv-legend-list" });
    /** What the loaded trace says of each level: its value, and how it is drawn. */
    this.levels = SWATCHES.map(() => ({ sign: el("span", {}), drawing: el("span", {}) }));
    this.root = el("details", { class: "mv-legend" }, el("summary", {}, TEXT.legend), this.body,
      el("details", { class: "mv-terms" }, el("summary", {}, TEXT.allTerms), this.terms));
    /** @type {Record<string, string>} */
    this.meanings = {};
    this.tips = new Tips();
  }

  /** @param {Constants} constants */
  load(constants) {
    this.meanings = constants.glossary;
    this.body.replaceChildren(...SIGNS.flatMap(({ sign, term, level, more }) => {
      const own = level === undefined ? null : this.levels[level];
      return [
        el("dt", {}, level === undefined ? null : el("span", { class: `mv-key ${SWATCHES[level]}`, "aria-hidden": "true" }), own ? own.sign : sign),
        el("dd", {}, sentence(this.meanings[term]), own || more ? " " : null, own ? own.drawing : more),
      ];
    }));
    this.terms.replaceChildren(...Object.entries(this.meanings).flatMap(([name, meaning]) =>
      [el("dt", {}, name), el("dd", {}, sentence(meaning))]));
  }

  /** @param {Trace} trace */
  loadTrace({ levels }) {
    this.levels.forEach(({ sign, drawing }, index) => {
      sign.textContent = levelSign(levels, index);
      drawing.textContent = levelDrawing(levels, index);
    });
  }

  /** Gives column heads, titles, folded parts and signs the definition of their term. @param {Element} root */
  explain(root) {
    this.tips.check();
    for (const part of all(root, PLACES)) {
      if (part.childElementCount || part.hasAttribute("aria-describedby")) continue;
      const text = (part.textContent || "").trim();
      const name = TERMS[text] || text.toLowerCase();
      const meaning = part.dataset.means ?? this.meanings[name];
      if (!meaning) continue;
      if (part.matches("summary, button")) {
        this.tips.explain(part, name, meaning);
        part.addEventListener("click", () => this.tips.hide()); // what it opens stands where the definition does
      } else part.replaceChildren(this.tips.term(text, name, meaning));
    }
  }
}

/** @param {string} meaning */
function sentence(meaning) {
  return `${capitalized(meaning)}.`;
}

// Five steps through the trace on show: objects, gradient, mask, both views' logits, answer.

/** @type {{ about: keyof typeof TOUR, spot: string, layers?: Partial<Record<Layer, boolean>> }[]} */
const STEPS = [
  { about: "objects", spot: ".mv-stage", layers: { boxes: true, levels: false, counter: false } },
  { about: "gradient", spot: ".mv-rail" },
  { about: "mask", spot: ".mv-stage", layers: { counter: true, levels: true } },
  { about: "views", spot: ".mv-tokens" },
  { about: "answer", spot: ".mv-headline" },
];

export class Tour {
  /** @param {State} state @param {() => HTMLElement} root where the spots are looked for */
  constructor(state, root) {
    this.state = state;
    this.find = root;
    this.at = -1;
    /** @type {HTMLElement | undefined} */
    this.spot = undefined;
    this.title = el("strong", { class: "mv-tour-title" });
    this.text = el("p", {});
    this.back = button(TEXT.back, () => this.show(this.at - 1));
    this.next = button(TEXT.next, () => this.show(this.at + 1));
    this.open = button(TEXT.tour, () => this.show(0));
    this.open.classList.add("mv-tour-open");
    this.root = el("div", {
      class: "mv-tour", role: "dialog", "aria-label": TEXT.tour, "aria-live": "polite", hidden: true,
      on: { keydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") this.show(-1); } },
    }, this.title, this.text,
    el("div", { class: "mv-tour-buttons" }, this.back, this.next, button(TEXT.close, () => this.show(-1))));
  }

  /** @param {number} at the step to show; any other number closes the tour */
  show(at) {
    const step = STEPS[at];
    const open = !this.root.hidden;
    if (!open) this.layersBefore = { ...this.state.layers };
    this.spot?.classList.remove("mv-spot");
    this.at = step ? at : -1;
    this.root.hidden = !step;
    if (!step) {
      if (open && this.layersBefore) this.state.set({ layers: this.layersBefore });
      if (open) all(this.find(), ".mv-help-open")[0]?.focus();
      return;
    }
    const [title, text] = TOUR[step.about];
    this.title.textContent = `${at + 1} of ${STEPS.length} · ${title}`;
    this.text.textContent = text;
    this.back.disabled = at === 0;
    this.next.textContent = at === STEPS.length - 1 ? TEXT.done : TEXT.next;
    this.state.set({ layers: { ...this.state.layers, ...step.layers } });
    [this.spot] = all(this.find(), step.spot);
    unfold(this.spot);
    this.spot?.classList.add("mv-spot");
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.spot?.scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
    this.next.focus({ preventScroll: true });
  }
}

// What the run took, how to run the same again, and the list of keys.

export class Took {
  constructor() {
    this.body = el("dl", {});
    this.root = el("details", { class: "mv-took" }, el("summary", {}, TEXT.whatTheRunTook), this.body);
  }

  /** @param {Trace} trace */
  load({ took }) {
    this.root.hidden = !took.times.length;
    /** @type {[string, string][]} */
    const rows = [[TEXT.device, took.device], [TEXT.weights, took.weights], ...took.times.map(([stage, ms]) => /** @type {[string, string]} */ ([stage, `${ms} ms`])), [TEXT.memory, took.memory]];
    this.body.replaceChildren(...rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }
}

export class Reproduce {
  /** @param {string} base what links are relative to */
  constructor(base) {
    this.base = base;
    this.body = el("div", {});
    this.root = el("details", { class: "mv-reproduce" }, el("summary", {}, TEXT.reproduceThisRun), this.body);
  }

  /** @param {Trace} trace */
  load(trace) {
    const { command, snippet, link } = trace.again || {};
    this.root.hidden = !command;
    if (!command || !snippet) return;
    /** @type {(title: string, text: string) => HTMLElement} */
    const block = (title, text) => el("div", {},
      el("div", { class: "mv-block-head" }, el("h3", {}, title),
        copyButton(text)),
      el("pre", { tabindex: "0" }, text));
    this.body.replaceChildren(block(TEXT.command, command), el("p", { class: "mv-note" }, filesNote(trace.clip)), block(TEXT.python, snippet));
    if (link) this.body.append(block(TEXT.linkToThisExample, new URL(link, this.base).href));
  }
}

/** @param {string} text that it copies @param {string} name of the button */
export function copyButton(text, name = TEXT.copy) {
  const copy = button(name, async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = TEXT.copied;
    } catch {
      copy.textContent = TEXT.selectAndCopyByHand;
    }
    setTimeout(() => { copy.textContent = name; }, 2000);
  });
  return copy;
}

export class Help {
  /** @param {HTMLButtonElement} tour begins it */
  constructor(tour) {
    tour.addEventListener("click", () => this.root.close(), true);
    this.root = el("dialog", { class: "mv-help", "aria-label": TEXT.keys }, tour,
      el("h3", {}, TEXT.keys),
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      button(TEXT.close, () => this.root.close()));
  }

  toggle() {
    if (this.root.open) this.root.close();
    else this.root.showModal();
  }
}
