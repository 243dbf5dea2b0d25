// @ts-check
// Both answers, the answer without what is masked, and what that means, with α and β in hand.

import { el } from "./dom.js";
import { lossNote, outcomePieces, undetectedNote, verdictText } from "./happened.js";
import { lossOf } from "./statements.js";
import { purposeText, rightAnswer } from "./strings/verdict.js";
import { isPicture } from "./strings/parts.js";
import { TEXT } from "./strings/labels.js";

/** @import { sentencesOf } from "./happened.js" */
/** @import { Outcome, Said } from "./statements.js" */
/** @import { Trace } from "./types" */

export class Headline {
  constructor() {
    this.outcome = el("p", { class: "mv-outcome" });
    this.purpose = el("p", { class: "mv-purpose" });
    this.truth = el("p", { class: "mv-truth" });
    this.without = el("p", { class: "mv-without" });
    this.meaning = el("p", { class: "mv-meaning" });
    this.notes = el("div", { class: "mv-headline-notes" });
    this.root = el("section", { class: "mv-headline", "aria-label": TEXT.whatHappened }, this.purpose, this.without, this.meaning, this.notes);
    this.mechanism = el("p", { class: "mv-mechanism" }); // stands with what explains it
    this.shown = ""; // what is said now
  }

  /** @param {Trace} trace */
  load(trace) {
    this.purpose.textContent = purposeText(isPicture(trace));
    this.notes.replaceChildren(...notes(trace).map((text) => el("p", { class: "mv-note" }, text)));
    this.shown = "";
  }

  /** @param {Trace} trace @param {ReturnType<typeof sentencesOf>} sentences */
  say(trace, { without, meaning, mechanism, outcome, measured }) {
    const masksOnly = !Object.keys(trace.answers).length;
    this.outcome.hidden = !outcome;
    this.truth.hidden = !outcome || !trace.truth;
    this.truth.textContent = rightAnswer(trace.truth);
    this.root.hidden = !(trace.final || trace.lazy) || (!outcome && !masksOnly);
    this.mechanism.hidden = this.root.hidden; // it stands outside of the root: of a run before it would be left
    const key = JSON.stringify([without, meaning, mechanism, outcome, measured]);
    if (this.root.hidden || key === this.shown) return;
    this.shown = key;
    this.purpose.hidden = !without;
    this.without.replaceChildren(...(without ? [without[0], el("strong", { dir: "auto" }, without[1])] : []));
    this.meaning.textContent = [meaning, meaning && measured].filter(Boolean).join(" ");
    const loss = lossOf(trace);
    this.mechanism.textContent = [mechanism, loss ? lossNote(loss) : ""].filter(Boolean).join(" ");
    this.outcome.replaceChildren(...(outcome ? parts(outcome, trace.truth) : []));
  }
}

/** @param {Outcome} outcome @param {string} truth */
function parts(outcome, truth) {
  return outcomePieces(outcome).flatMap(({ kind, text, said }) => {
    if (kind === "arrow") return [el("span", { class: "mv-arrow", "aria-label": TEXT.becomes }, text)];
    if (kind === "name") return [el("span", {}, text)];
    return [el("strong", { dir: "auto", title: said && !text.includes(said.text) ? said.text : null }, text), said ? verdictMark(said, truth) : null].filter((part) => part !== null);
  });
}

/** Right or wrong, where the truth is known. @param {Pick<Said, "right">} answer @param {string} truth */
export function verdictMark(answer, truth) {
  if (answer.right === null) return null;
  const verdict = verdictText(answer.right, truth);
  return el("span", { class: answer.right ? "mv-right" : "mv-wrong", role: "img", title: verdict, "aria-label": verdict },
    answer.right ? " ✓" : " ✗");
}

/** What must be known to read the result. @param {Trace} trace */
function notes(trace) {
  return trace.undetected.length && !trace.classless ? [undetectedNote(trace.undetected)] : [];
}
