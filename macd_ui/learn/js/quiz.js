// @ts-check
// Clips that play, with questions about what MACD does with them. Before the course nothing is
// revealed, so that the same kind of question can be asked again after it.

import { el } from "../../../viewer/js/dom.js";
import { asPrinted, logitTable, visible } from "./evidence.js";
import { signed } from "./plots.js";
import { Predict } from "./predict.js";
import { withSymbols } from "./prose.js";

/** @import { Course, Item, Quiz, Say } from "./types" */
/** @import { Store } from "./store.js" */

/** Of a question about contrast, in the order of the options. */
export const OUTCOMES = ["right", "same", "wrong"];
const LOOP_MS = 2400; // of a clip that plays
const CONTROLS = ["mask-all", "reversed", "blank"];

/**
 * How each kind of question is asked: its options, which is right, what is shown beside the clip, and the reason.
 *
 * @type {Record<string, { options: (item: Item, say: Say) => string[], right: (item: Item) => number,
 *   shown: (item: Item, say: Say) => Node, explain: (item: Item, say: Say) => string, hides: boolean }>}
 */
const KINDS = {
  contrast: {
    options: (_, say) => OUTCOMES.map((name) => say(`quiz_${name}`)),
    right: (item) => OUTCOMES.indexOf(item.outcome),
    shown: (item, say) => el("div", {}, el("h3", {}, say("quiz_logits"), ` (α = ${item.alpha}, β = ${item.beta})`),
      withoutScore(item.answers.macd.tokens[0], say)),
    explain,
    hides: false,
  },
  gradient: {
    options: (item) => item.objects,
    right: (item) => item.right,
    shown: gradients,
    explain: (item, say) => say("quiz_explain_gradient", {
      drawn: item.drawn, most: item.objects[item.right], steepest: item.objects[item.gradient.indexOf(Math.max(...item.gradient))],
      effects: item.objects.map((name, k) => `${name} ${signed(item.odds[k])}`).join(", "),
    }),
    hides: false,
  },
  levels: {
    options: (item, say) => item.options.map((list) => (list.length === item.objects.length ? say("quiz_all")
      : list.map((k) => item.objects[k]).join(", ") || say("quiz_none"))),
    right: (item) => item.right,
    shown: gradients,
    explain: (item, say) => say("quiz_explain_levels", {
      drawn: item.drawn,
      levels: item.objects.map((name, k) => `${name} ${signed(item.gradient[k], 3)} → ${say(item.level[k] ? "hidden" : "kept_level")}`).join(", "),
    }),
    hides: true,
  },
  controls: {
    options: (_, say) => ["matters", "any", "blind"].map((name) => say(`quiz_${name}`)),
    right: (item) => item.right,
    shown: controls,
    explain: (item, say) => say(`quiz_explain_${item.choice}`, {
      drawn: item.drawn, macd: item.answers.macd.text, n: item.random[0], of: item.random[1],
    }),
    hides: false,
  },
};

/**
 * @param {{ root: HTMLElement, quiz: Quiz, set: keyof Quiz, course: Course, store: Store, say: Say,
 *   changed: () => void }} setup
 */
export function mountQuiz({ root, quiz, set, course, store, say, changed }) {
  const items = quiz[set];
  items.forEach((item, i) => {
    const id = `${set}/${i}`;
    const kind = KINDS[item.kind];
    const reveal = set !== "before";
    const explanation = el("p", { class: "ln-explanation" });
    const clip = player(item, kind.hides, say);
    const tell = () => {
      const told = reveal && Boolean(store.state.answers[id]);
      explanation.textContent = told ? kind.explain(item, say) : "";
      if (told) clip.reveal();
    };
    const predict = new Predict({
      id, say, reveal, glossary: course.glossary, locked: store.state.answers[id], hands: store.state.hands,
      question: [say(`quiz_ask_${item.kind}`, { question: item.question, answer: item.answers.baseline.text, macd: item.answers.macd.text })],
      options: kind.options(item, say).map((text) => [text]),
      answer: kind.right(item),
      onLock: (locked) => {
        store.lock(id, locked);
        tell();
        changed();
      },
    });
    root.append(el("section", { class: "ln-item", "aria-label": say("quiz_item", { n: i + 1, of: items.length }) },
      el("h2", {}, say("quiz_item", { n: i + 1, of: items.length })),
      el("div", { class: "ln-two" }, clip.root, kind.shown(item, say)),
      predict.root, explanation));
    tell();
  });
}

/**
 * How many answers each question offers: one that guesses is right in one of so many.
 *
 * @param {Item} item
 * @param {Say} say
 */
export function optionsOf(item, say) {
  return KINDS[item.kind].options(item, say).length;
}

/**
 * The views of a clip, which play together; what is drawn shows when it is asked for, or revealed.
 *
 * @param {Item} item
 * @param {boolean} hides whether the second view is the answer, and shows once it is given
 * @param {Say} say
 */
function player(item, hides, say) {
  const frames = item.frames.length;
  const view = (/** @type {string[]} */ list, /** @type {string} */ name, /** @type {string} */ kind, hidden = false) => {
    const picture = el("img", { alt: say(name) });
    const over = el("div", { class: "ln-boxes-over", "aria-hidden": "true" });
    const root = el("figure", { class: `ln-edge-${kind}`, hidden }, el("div", { class: "ln-picture" }, picture, over),
      el("figcaption", {}, withSymbols(say(name))));
    return { root, draw: (/** @type {number} */ at) => {
      picture.src = list[at];
      if (kind === "video") over.replaceChildren(...boxes(at));
    } };
  };
  const boxes = (/** @type {number} */ at) => (item.boxes || []).flatMap((row, k) => {
    const box = row[at];
    if (!box) return [];
    const part = (/** @type {number} */ x) => `${(100 * x).toFixed(2)}%`;
    const above = box[1] < 0.1 ? (box[3] - box[1] < 0.25 ? "ln-at-top " : "ln-inside ") : ""; // of its name
    const place = `${above}${box[0] > 0.6 ? "ln-at-right" : ""}`;
    return [el("span", { class: place, style: { left: part(box[0]), top: part(box[1]), width: part(box[2] - box[0]), height: part(box[3] - box[1]) } },
      el("b", {}, item.objects[k]))];
  });
  const views = [view(item.frames, "frames_video", "video")];
  if (item.behind.length) views.push(view(item.behind, "frames_counter", "counter", hides));
  if (item.clear) views.push(view(item.clear, "frames_clear", "clear", true));
  const clear = item.clear ? views[views.length - 1] : null;
  const slider = el("input", { type: "range", min: 1, max: frames, step: 1, value: 1, "aria-label": say("frame"), on: { input: () => { pause(); draw(); } } });
  const button = el("button", { type: "button", class: "ln-button", on: { click: () => (timer ? pause() : play()) } }, say("play"));
  const ask = el("button", { type: "button", class: "ln-button", hidden: !clear, on: { click: () => show() } }, say("show_clear"));
  let timer = 0;
  function draw() {
    slider.setAttribute("aria-valuetext", say("frame_of", { n: slider.value, of: frames }));
    for (const one of views) one.draw(Number(slider.value) - 1);
  }
  function pause() {
    clearInterval(timer);
    timer = 0;
    button.textContent = say("play");
  }
  function play() {
    button.textContent = say("pause");
    timer = setInterval(() => {
      if (!slider.isConnected) return pause();
      slider.value = String(1 + (Number(slider.value) % frames));
      draw();
    }, LOOP_MS / frames);
  }
  function show() {
    if (clear) clear.root.hidden = false;
    if (document.activeElement === ask) button.focus(); // a hidden button would lose it
    ask.hidden = true;
  }
  draw();
  return {
    root: el("div", { class: "ln-player" }, el("div", { class: "ln-clips" }, views.map((one) => one.root)),
      el("div", { class: "ln-buttons" }, button, el("label", { class: "ln-slider" }, el("span", { class: "ln-unseen" }, say("frame")), slider), ask)),
    reveal: () => {
      for (const one of views) one.root.hidden = false;
      show();
    },
  };
}

/**
 * The objects with their gradients.
 *
 * @param {Item} item
 * @param {Say} say
 */
function gradients(item, say) {
  return el("table", { class: "ln-table" },
    el("thead", {}, el("tr", {}, [say("object"), say("gradient")].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, item.objects.map((name, k) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, signed(item.gradient[k], 3))))));
}

/**
 * What both answers and the controls are.
 *
 * @param {Item} item
 * @param {Say} say
 */
function controls(item, say) {
  const [n, of] = item.random, { macd, baseline } = item.answers;
  const rows = [[say("words_plain"), `“${baseline.text}”`], [say("words_macd"), `“${macd.text}”`],
    [say("method_random-mask"), say("quiz_times", { n, of, macd: macd.text })],
    ...CONTROLS.map((name) => [say(`method_${name}`), say(item.controls.includes(name) ? "quiz_the_same" : "quiz_other", { macd: macd.text })])];
  return el("table", { class: "ln-table" }, el("tbody", {}, rows.map(([name, text]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text)))));
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
  const texts = { drawn: item.drawn, macd: item.answers.macd.text };
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
