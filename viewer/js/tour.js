// @ts-check
// Five steps through the trace on show: objects, gradient, mask, both views' logits, answer.

import { all, el } from "./dom.js";

/** @import { Layer } from "./types" */
/** @import { State } from "./state.js" */

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
