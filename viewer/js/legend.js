// @ts-check
// What every sign and word on the viewer means. The meanings are the glossary's, which Python sends.

import { all, el } from "./dom.js";
import { Tips } from "./term.js";

/** @import { Constants, Trace } from "./types" */

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
