// @ts-check
// Clips for which the reader predicts how MACD changes the answer. Before the course nothing is
// revealed, so that the same kind of question can be asked again after it.

import { el } from "../../../viewer/js/dom.js";
import { asPrinted, logitTable, visible } from "./evidence.js";
import { signed } from "./plots.js";
import { Predict } from "./predict.js";
import { withSymbols } from "./prose.js";

/** @import { Course, Item, Quiz, Say } from "./types" */
/** @import { Store } from "./store.js" */

/** In the order of the options. */
export const OUTCOMES = ["right", "same", "wrong"];

/**
 * @param {{ root: HTMLElement, quiz: Quiz, set: "before" | "after", course: Course, store: Store, say: Say,
 *   changed: () => void }} setup
 */
export function mountQuiz({ root, quiz, set, course, store, say, changed }) {
  const items = quiz[set];
  items.forEach((item, i) => {
    const id = `${set}/${i}`;
    const reveal = set === "after";
    const explanation = el("p", { class: "ln-explanation" });
    const tell = () => { explanation.textContent = reveal && store.state.answers[id] ? explain(item, say) : ""; };
    const predict = new Predict({
      id, say, reveal, glossary: course.glossary, locked: store.state.answers[id],
      question: [say("quiz_question", { question: item.question, answer: item.answers.baseline.text })],
      options: OUTCOMES.map((name) => [say(`quiz_${name}`)]),
      answer: OUTCOMES.indexOf(item.outcome),
      onLock: (locked) => {
        store.lock(id, locked);
        tell();
        changed();
      },
    });
    const frames = (/** @type {string[]} */ list, /** @type {string} */ name, /** @type {string} */ kind) => el("figure", { class: `ln-edge-${kind}` },
      el("div", { class: "ln-frames" }, list.map((src, k) => el("img", { src, alt: say("frame_of", { n: k + 1, of: list.length }) }))),
      el("figcaption", {}, withSymbols(say(name))));
    const token = item.answers.macd.tokens[0];
    const likely = { ...token, counter: token.counter };
    root.append(el("section", { class: "ln-item", "aria-label": say("quiz_item", { n: i + 1, of: items.length }) },
      el("h2", {}, say("quiz_item", { n: i + 1, of: items.length })),
      el("div", { class: "ln-two" },
        el("div", {}, frames(item.frames, "frames_video", "video"), frames(item.behind, "frames_counter", "counter")),
        el("div", {}, el("h3", {}, say("quiz_logits"), ` (α = ${item.alpha}, β = ${item.beta})`), withoutScore(likely, say))),
      predict.root, explanation));
    tell();
  });
}

/**
 * The logits of both views; the score is what the reader is to work out.
 *
 * @param {Item["answers"][string]["tokens"][0]} token
 * @param {Say} say
 */
function withoutScore(token, say) {
  const table = logitTable(token, 0, 0, say);
  for (const row of table.querySelectorAll("tr")) {
    row.lastElementChild?.remove();
    row.classList.remove("ln-top");
  }
  return table;
}

/**
 * The arithmetic of the two tokens that decide.
 *
 * @param {Item} item
 * @param {Say} say
 */
export function explain(item, say) {
  const token = item.answers.macd.tokens[0];
  const { counter } = token;
  const [first, other] = lead(item);
  const texts = { truth: item.truth, macd: item.answers.macd.text };
  if (!counter || other < 0) return say("quiz_explain_one", texts);
  // reckoned with the logits as they are printed, so that a reader finds the same sum
  const [ahead, behind] = [token.base, counter].map((z) => asPrinted(z[first]) - asPrinted(z[other]));
  return say("quiz_explain", {
    ...texts, a: visible(token.texts[first]), b: visible(token.texts[other]), lead: signed(ahead), behind: signed(behind),
    alpha: item.alpha, score: exact(ahead + item.alpha * (ahead - behind)),
  });
}

/**
 * With as many of four digits as a sum of printed numbers and α needs, two at least.
 *
 * @param {number} x
 */
function exact(x) {
  return signed(x, 4).replace(/0{1,2}$/, "");
}

/**
 * The plain answer's token, and its strongest rival by the score among the plausible.
 *
 * @param {Item} item
 */
function lead(item) {
  const { base, counter } = item.answers.macd.tokens[0];
  const first = base.indexOf(Math.max(...base));
  const floor = base[first] + Math.log(Math.max(item.beta, 1e-9));
  const score = base.map((z, i) => (counter && z >= floor ? z + item.alpha * (z - counter[i]) : -Infinity));
  const rivals = score.map((_, i) => i).filter((i) => i !== first && Number.isFinite(score[i]));
  rivals.sort((a, b) => score[b] - score[a]);
  return [first, rivals.length ? rivals[0] : -1];
}
