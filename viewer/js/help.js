// @ts-check
// Help: terms that explain themselves, the legend, a tour, the keys, and how to run the same again.

import { all, el } from "./dom.js";

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

// What every sign and word on the viewer means. The meanings are the glossary's, which Python sends.

/**
 * Signs of the viewer, each with the glossary's term for it; `more` is what only the viewer shows.
 *
 * @type {{ sign: string, term: string, swatch?: string, more?: string }[]}
 */
const SIGNS = [
  { sign: "V", term: "sampled frames" },
  { sign: "V_d", term: "counterfactual" },
  { sign: "∂L/∂r", term: "gradient", more: "A bar to the right is positive, to the left negative; 0 exactly: the mask covers no pixel." },
  { sign: "0", term: "level", swatch: "mv-key-0", more: "A dashed outline: the object is kept." },
  { sign: "r0", term: "level", swatch: "mv-key-half", more: "Stripes one way: the object is partly masked." },
  { sign: "1", term: "level", swatch: "mv-key-1", more: "Crossed stripes: the object is masked." },
  { sign: "frame mask", term: "frame mask", more: "The lane below the objects, one cell per frame; among the levels on the picture, stripes in black and white." },
  { sign: "below β cutoff", term: "plausibility cut" },
  { sign: "α", term: "contrast strength" },
  { sign: "│", term: "divergence", more: "Underlined twice in the answers." },
];

/** @type {Record<string, string>} words of the viewer's tables and the glossary's term for each */
const TERMS = {
  "logit V": "logits", "logit V_d": "logits", score: "score rule", gradient: "gradient", "≈ gradient": "gradient",
  "query loss when masked": "query loss", "p before": "plausibility cut", Objects: "track", Answers: "method",
  "Where the evidence lies": "evidence map", "Decision boundary for this token": "flip point", "Soft masks": "mask", Levels: "level",
  "As the model sees it": "sampled frames", "α": "contrast strength", "β": "plausibility cut",
  "What if …": "counterfactual",
};
/** Where such words stand. */
const PLACES = "th[scope=col], h3, summary, .mv-layers button, .mv-sign";

export class Legend {
  constructor() {
    this.body = el("dl", { class: "mv-legend-list" });
    this.terms = el("dl", { class: "mv-legend-list" });
    this.partly = el("span", {}, "r0"); // the sign of what is partly masked
    this.root = el("details", { class: "mv-legend" }, el("summary", {}, "Legend"), this.body,
      el("details", { class: "mv-terms" }, el("summary", {}, "All terms"), this.terms));
    /** @type {Record<string, string>} */
    this.meanings = {};
    this.tips = new Tips();
  }

  /** @param {Constants} constants */
  load(constants) {
    this.meanings = constants.glossary;
    this.body.replaceChildren(...SIGNS.flatMap(({ sign, term, swatch, more }) => [
      el("dt", {}, swatch ? el("span", { class: `mv-key ${swatch}`, "aria-hidden": "true" }) : null,
        sign === "r0" ? this.partly : sign),
      el("dd", {}, `${sentence(this.meanings[term])}${more ? ` ${more}` : ""}`),
    ]));
    this.terms.replaceChildren(...Object.entries(this.meanings).flatMap(([name, meaning]) =>
      [el("dt", {}, name), el("dd", {}, sentence(meaning))]));
  }

  /**
   * The level of what is partly masked is one of the run's options.
   *
   * @param {Trace} trace
   */
  loadTrace({ r0, continuous }) {
    this.partly.textContent = continuous ? "0 < level < 1" : `r0 = ${r0}`;
  }

  /**
   * Gives column heads, titles, folded parts and signs the definition of their term.
   *
   * @param {Element} root
   */
  explain(root) {
    this.tips.check();
    for (const part of all(root, PLACES)) {
      const text = (part.textContent || "").trim();
      const name = TERMS[text] || text.toLowerCase();
      const meaning = this.meanings[name];
      if (!meaning || part.childElementCount || part.hasAttribute("aria-describedby")) continue;
      if (part.matches("summary, button")) this.tips.explain(part, name, meaning);
      else part.replaceChildren(this.tips.term(text, name, meaning));
    }
  }
}

/** @param {string} meaning */
function sentence(meaning) {
  return `${meaning[0].toUpperCase()}${meaning.slice(1)}.`;
}

// Five steps through the trace on show: objects, gradient, mask, both views' logits, answer.

/**
 * @type {{ title: string, text: string, spot: string, layers?: Partial<Record<Layer, boolean>> }[]}
 */
const STEPS = [
  {
    title: "Objects", spot: ".mv-stage", layers: { boxes: true, levels: false, counter: false },
    text: "A detector finds objects in every frame, and a tracker joins them through the clip. Each gets a soft mask of its own.",
  },
  {
    title: "Gradient", spot: ".mv-rail",
    text: "The model's loss on the question's own words is differentiated with respect to each mask. Positive: masking the object raises the loss, so the model used it to read the question.",
  },
  {
    title: "Mask", spot: ".mv-stage", layers: { counter: true, levels: true },
    text: "Objects with a positive gradient are masked, those with a negative one are kept. The result is the counterfactual video V_d.",
  },
  {
    title: "Two views", spot: ".mv-tokens",
    text: "The model reads the video V and the counterfactual V_d. At every token it scores (1+α)·logit(V) − α·logit(V_d): what stays likely without the evidence is pushed down.",
  },
  {
    title: "Answer", spot: ".mv-headline",
    text: "Where the scores choose another token than the logits of V alone, MACD's answer differs from the baseline. Whether the choice of masks mattered is answered below: random masks often do the same.",
  },
];

export class Tour {
  /**
   * @param {State} state
   * @param {() => HTMLElement} root where the spots are looked for
   */
  constructor(state, root) {
    this.state = state;
    this.find = root;
    this.at = -1;
    /** @type {HTMLElement | undefined} */
    this.spot = undefined;
    this.title = el("strong", { class: "mv-tour-title" });
    this.text = el("p", {});
    this.back = this.button("Back", () => this.show(this.at - 1));
    this.next = this.button("Next", () => this.show(this.at + 1));
    this.open = this.button("Tour", () => this.show(0));
    this.open.classList.add("mv-tour-open");
    this.root = el("div", {
      class: "mv-tour", role: "dialog", "aria-label": "Tour", "aria-live": "polite", hidden: true,
      on: { keydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") this.show(-1); } },
    }, this.title, this.text,
    el("div", { class: "mv-tour-buttons" }, this.back, this.next, this.button("Close", () => this.show(-1))));
  }

  /**
   * @param {string} name
   * @param {() => void} act
   */
  button(name, act) {
    return el("button", { type: "button", class: "mv-button", on: { click: act } }, name);
  }

  /** @param {number} at the step to show; any other number closes the tour */
  show(at) {
    const step = STEPS[at];
    const open = !this.root.hidden;
    if (!open) this.former = { ...this.state.layers };
    this.spot?.classList.remove("mv-spot");
    this.at = step ? at : -1;
    this.root.hidden = !step;
    if (!step) {
      if (open && this.former) this.state.set({ layers: this.former });
      if (open) this.open.focus();
      return;
    }
    this.title.textContent = `${at + 1} of ${STEPS.length} · ${step.title}`;
    this.text.textContent = step.text;
    this.back.disabled = at === 0;
    this.next.textContent = at === STEPS.length - 1 ? "Done" : "Next";
    this.state.set({ layers: { ...this.state.layers, ...step.layers } });
    [this.spot] = all(this.find(), step.spot);
    this.spot?.classList.add("mv-spot");
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.spot?.scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
    this.next.focus({ preventScroll: true });
  }
}

// How to run the same again, and the list of keys.

export class Reproduce {
  /** @param {string} base what links are relative to */
  constructor(base) {
    this.base = base;
    this.body = el("div", {});
    this.root = el("details", { class: "mv-reproduce" }, el("summary", {}, "Reproduce this run"), this.body);
  }

  /** @param {Trace} trace */
  load(trace) {
    const { command, snippet, link } = trace.again || {};
    this.root.hidden = !command;
    if (!command || !snippet) return;
    /** @type {(title: string, text: string) => HTMLElement} */
    const block = (title, text) => el("div", {},
      el("div", { class: "mv-block-head" }, el("h3", {}, title),
        el("button", {
          type: "button", class: "mv-button",
          on: { click: (/** @type {MouseEvent} */ e) => copied(/** @type {HTMLElement} */ (e.target), text) },
        }, "Copy")),
      el("pre", { tabindex: "0" }, text));
    this.body.replaceChildren(block("Command", command), block("Python", snippet));
    if (link) this.body.append(block("Link to this example", new URL(link, this.base).href));
  }
}

/**
 * @param {HTMLElement} button
 * @param {string} text
 */
async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy by hand";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

const KEYS = [
  ["← →", "frame back, frame on"], ["space", "play or pause"], ["L", "loop on or off"],
  ["J K", "next token, token before"], ["1 – 9", "choose an object"], ["B", "boxes"],
  ["M", "soft masks"], ["V", "levels"], ["C", "counterfactual"], ["S", "as the model sees it"],
  ["[ ]", "ascent step back, step on"], ["P", "play or pause the ascent"], ["+ − 0", "zoom in, out, whole picture"],
  ["Shift ← → ↑ ↓", "move the zoomed picture"], ["U R", "undo, redo a change"],
  ["Esc", "let go of object and brush"], ["?", "this list"],
];

export class Help {
  constructor() {
    this.root = el("dialog", { class: "mv-help", "aria-label": "Keys" },
      el("h3", {}, "Keys"),
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      el("button", { type: "button", class: "mv-button", on: { click: () => this.root.close() } }, "Close"));
  }

  toggle() {
    if (this.root.open) this.root.close();
    else this.root.showModal();
  }
}
