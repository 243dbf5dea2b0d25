// @ts-check
// A question that is answered, with a confidence, before anything is shown. Locked once and for all.
// A class before a projector answers by a show of hands instead: how many hands each option got.

import { el } from "../../../viewer/js/dom.js";
import { inline } from "./prose.js";

/** @import { Locked, Say, Span } from "./types" */

export const CONFIDENCES = [0.35, 0.5, 0.7, 0.9, 0.99];
const MOST_HANDS = 999;

export class Predict {
  /**
   * @param {{ id: string, question: Span[], options: Span[][], answer: number, reveal: boolean,
   *   glossary: Record<string, string>, say: Say, locked: Locked | undefined, hands: boolean,
   *   onLock: (locked: Omit<Locked, "at">) => void }} setup reveal: whether the right answer is shown;
   *   hands: whether a class answers
   */
  constructor(setup) {
    this.setup = setup;
    const { say, id } = setup;
    this.options = this.radios(`${id}-answer`, setup.options.map((o) => el("span", {}, inline(o, setup.glossary))));
    this.hands = setup.options.map((o) => this.counter(o.map((span) => (typeof span === "string" ? span : span[1])).join("")));
    this.sure = this.radios(`${id}-sure`, CONFIDENCES.map((c, i) => el("span", {},
      say("confidence_value", { n: Math.round(100 * c) }),
      i === 0 ? el("small", {}, say("confidence_guess")) : null,
      i === CONFIDENCES.length - 1 ? el("small", {}, say("confidence_sure")) : null)));
    this.error = el("p", { class: "ln-error", role: "alert" });
    this.button = el("button", { type: "submit", class: "ln-main-button" }, say(setup.reveal ? "lock" : "lock_quiet"));
    this.result = el("p", { class: "ln-result", role: "status", tabindex: "-1" });
    this.root = el("form", {
      class: "ln-predict", on: { submit: (/** @type {Event} */ e) => this.submit(e) },
    },
    el("h2", { class: "ln-kicker" }, say("predict")),
    el("fieldset", { class: "ln-options" }, el("legend", {}, inline(setup.question, setup.glossary)),
      this.options.map((r, i) => (setup.hands ? el("div", { class: "ln-hands" }, r.label, this.hands[i].root) : r.label))),
    setup.hands ? el("p", { class: "ln-note" }, say("hands_how"))
      : el("fieldset", { class: "ln-sure" }, el("legend", {}, say("confidence")), this.sure.map((r) => r.label)),
    this.error, this.button, this.result);
    if (setup.hands) for (const { input } of this.options) input.hidden = true;
    if (setup.locked) this.show(setup.locked);
  }

  /** How many hands an option got: typed, or tapped. @param {string} name */
  counter(name) {
    const { say } = this.setup;
    const input = el("input", { type: "number", min: 0, max: MOST_HANDS, step: 1, value: 0, inputmode: "numeric", "aria-label": say("hands_for", { option: name }) });
    const add = (/** @type {number} */ n) => {
      input.value = String(Math.min(MOST_HANDS, Math.max(0, whole(input.value) + n)));
    };
    const tap = (/** @type {number} */ n, /** @type {string} */ text, /** @type {string} */ label) =>
      el("button", { type: "button", class: "ln-button", "aria-label": `${label}: ${name}`, on: { click: () => add(n) } }, text);
    return { input, root: el("span", { class: "ln-count" }, tap(-1, "−", say("hands_less")), input, tap(1, "+", say("hands_more"))) };
  }

  /**
   * @param {string} name
   * @param {HTMLElement[]} texts
   */
  radios(name, texts) {
    return texts.map((text, i) => {
      const input = el("input", { type: "radio", name, value: i });
      return { input, label: el("label", {}, input, text) };
    });
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const { say, answer, locked } = this.setup;
    if (locked) return;
    if (this.setup.hands) {
      this.submitHands();
      return;
    }
    const choice = this.options.findIndex((r) => r.input.checked);
    const sure = this.sure.findIndex((r) => r.input.checked);
    if (choice < 0 || sure < 0) {
      this.error.textContent = say("choose_both");
      const [missing] = choice < 0 ? this.options : this.sure;
      missing.input.focus();
      return;
    }
    this.error.textContent = "";
    const prediction = { choice, confidence: CONFIDENCES[sure], right: choice === answer };
    this.setup.onLock(prediction);
    this.show({ ...prediction, at: "" });
    this.result.focus();
  }

  submitHands() {
    const { say, answer } = this.setup;
    const counts = this.hands.map(({ input }) => whole(input.value));
    const total = counts.reduce((sum, n) => sum + n, 0);
    if (!total || counts.some((n) => n > MOST_HANDS)) {
      this.error.textContent = say("hands_none", { most: MOST_HANDS });
      this.hands[0].input.focus();
      return;
    }
    this.error.textContent = "";
    const choice = counts.indexOf(Math.max(...counts));
    const prediction = { choice, confidence: counts[choice] / total, right: choice === answer, counts };
    this.setup.onLock(prediction);
    this.show({ ...prediction, at: "" });
    this.result.focus();
  }

  /** @param {Locked} locked */
  show(locked) {
    const { say, answer, reveal } = this.setup, { counts } = locked;
    this.setup.locked = locked;
    const total = (counts || []).reduce((sum, n) => sum + n, 0);
    this.button.hidden = true;
    for (const { root } of this.hands) root.hidden = true;
    this.root.classList.add("ln-locked");
    this.options.forEach(({ input, label }, i) => {
      input.checked = i === locked.choice;
      input.disabled = true;
      const notes = [];
      if (counts) notes.push(say("hands_of", { n: counts[i], of: total }));
      else if (i === locked.choice) notes.push(say("your_choice"));
      if (reveal && i === answer) notes.push(say("right_answer"));
      if (reveal) label.classList.toggle("ln-is-right", i === answer);
      if (notes.length) label.append(el("small", {}, notes.join(", ")));
    });
    this.sure.forEach(({ input }, i) => {
      input.checked = CONFIDENCES[i] === locked.confidence;
      input.disabled = true;
    });
    if (counts) {
      this.result.textContent = reveal ? say("hands_right", { n: counts[answer], of: total }) : say("kept");
      return;
    }
    const sure = say("locked", { n: Math.round(100 * locked.confidence) });
    this.result.textContent = reveal ? `${say(locked.right ? "right" : "wrong")} ${sure}` : say("kept");
    this.result.classList.toggle("ln-good", reveal && locked.right);
  }
}

/** @param {string} text what a field holds @returns {number} a whole number from 0 on */
function whole(text) {
  const n = Math.floor(Number(text));
  return Number.isFinite(n) && n > 0 ? n : 0;
}
