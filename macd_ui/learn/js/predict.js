// @ts-check
// A question that is answered, with a confidence, before anything is shown. Locked once and for all.

import { el } from "../../../viewer/js/dom.js";
import { inline } from "./prose.js";

/** @import { Locked, Say, Span } from "./types" */

export const CONFIDENCES = [0.35, 0.5, 0.7, 0.9, 0.99];

export class Predict {
  /**
   * @param {{ id: string, question: Span[], options: Span[][], answer: number, reveal: boolean,
   *   glossary: Record<string, string>, say: Say, locked: Locked | undefined,
   *   onLock: (locked: Omit<Locked, "at">) => void }} setup reveal: whether the right answer is shown
   */
  constructor(setup) {
    this.setup = setup;
    const { say, id } = setup;
    this.options = this.radios(`${id}-answer`, setup.options.map((o) => el("span", {}, inline(o, setup.glossary))));
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
      this.options.map((r) => r.label)),
    el("fieldset", { class: "ln-sure" }, el("legend", {}, say("confidence")), this.sure.map((r) => r.label)),
    this.error, this.button, this.result);
    if (setup.locked) this.show(setup.locked);
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

  /** @param {Locked} locked */
  show(locked) {
    const { say, answer, reveal } = this.setup;
    this.setup.locked = locked;
    this.button.hidden = true;
    this.root.classList.add("ln-locked");
    this.options.forEach(({ input, label }, i) => {
      input.checked = i === locked.choice;
      input.disabled = true;
      const notes = [];
      if (i === locked.choice) notes.push(say("your_choice"));
      if (reveal && i === answer) notes.push(say("right_answer"));
      if (reveal) label.classList.toggle("ln-is-right", i === answer);
      if (notes.length) label.append(el("small", {}, notes.join(", ")));
    });
    this.sure.forEach(({ input }, i) => {
      input.checked = CONFIDENCES[i] === locked.confidence;
      input.disabled = true;
    });
    const sure = say("locked", { n: Math.round(100 * locked.confidence) });
    this.result.textContent = reveal ? `${say(locked.right ? "right" : "wrong")} ${sure}` : say("kept");
    this.result.classList.toggle("ln-good", reveal && locked.right);
  }
}
