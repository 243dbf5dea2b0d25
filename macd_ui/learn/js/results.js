// @ts-check
// What the reader's predictions were worth: before and after, Brier score, reliability.

import { el, saveFile } from "../../../viewer/js/dom.js";
import { polyline, svg } from "../../../viewer/js/plots.js";
import { chart, percent } from "./plots.js";
import { optionsOf } from "./quiz.js";
import { brier, guessing, mean, reliability } from "./score.js";

/** @import { Course, Locked, Quiz, Say } from "./types" */
/** @import { Store } from "./store.js" */

const LONGEST_NAME = 60;

/**
 * @param {{ root: HTMLElement, course: Course, quiz: Quiz, store: Store, say: Say, restart: () => void }} given
 */
export function showResults({ root, course, quiz, store, say, restart }) {
  const all = Object.entries(store.state.answers);
  // what was predicted before the course is kept back until the same was asked after it
  const over = all.filter(([id]) => id.startsWith("after/")).length === quiz.after.length;
  const answers = all.filter(([id]) => over || !id.startsWith("before/"));
  const told = new Set(answers);
  const of = (/** @type {string} */ set) => answers.filter(([id]) => id.startsWith(`${set}/`));
  const inside = answers.filter(([id]) => !id.includes("/"));
  const options = (/** @type {string} */ id) => {
    const [set, number] = id.split("/");
    if (number === undefined) return course.chapters.find((c) => c.name === id)?.prediction?.options.length || 1;
    return optionsOf(quiz[/** @type {keyof Quiz} */ (set)][Number(number)], say);
  };
  const score = (/** @type {string} */ name, /** @type {[string, Locked][]} */ locked) =>
    tile(name, locked.map(([, a]) => a), locked.map(([id]) => options(id)), say);
  root.append(el("p", { class: "ln-note" }, say("private")));
  if (!answers.length) root.append(el("p", {}, say(all.length ? "results_kept" : "results_empty")));
  else {
    root.append(
      el("h2", {}, say("before_after")),
      el("dl", { class: "ln-scores" },
        score(over ? say("score_before") : `${say("score_before")}: ${say("later")}`, of("before")),
        score(say("score_chapters"), inside),
        score(say("score_after"), of("after")),
        score(say("score_real"), of("real"))),
      el("p", { class: "ln-note" }, say("few")),
      el("h2", {}, say("calibration")), ...calibration(answers.map(([, a]) => a), say),
      el("h2", {}, say("all_predictions")), el("div", { class: "ln-scroll" }, list(course, quiz, answers, say)));
  }
  const again = el("button", {
    type: "button", class: "ln-button", on: {
      click: () => {
        if (again.dataset.sure) restart();
        again.dataset.sure = "yes";
        again.textContent = say("again_sure");
      },
    },
  }, say("again"));
  const name = el("input", { type: "text", maxlength: LONGEST_NAME, autocomplete: "off", value: store.name });
  name.addEventListener("input", () => { store.name = name.value; });
  root.append(
    el("div", { class: "ln-name ln-no-print" }, el("label", {}, say("name"), name), el("p", { class: "ln-note" }, say("name_note"))),
    el("div", { class: "ln-buttons ln-no-print" },
    el("button", { type: "button", class: "ln-button", on: { click: () => saveFile(fileName(store.name), blob(store, all, told)) } }, say("save_json")),
    el("button", { type: "button", class: "ln-button", on: { click: () => print() } }, say("print")), again));
}

/**
 * @param {string} name
 * @param {Locked[]} locked
 * @param {number[]} options how many answers each of these questions offers
 * @param {Say} say
 */
function tile(name, locked, options, say) {
  const n = locked.filter((l) => l.right).length;
  const guess = guessing(options, n);
  return el("div", {}, el("dt", {}, name), el("dd", {}, locked.length ? say("score_of", { n, of: locked.length }) : "–"),
    el("span", { class: "ln-meter", "aria-hidden": "true" }, el("span", { style: { width: `${(100 * n) / Math.max(1, locked.length)}%` } })),
    n ? el("dd", { class: "ln-guess" }, say("guessing", { mean: guess.mean.toFixed(1), share: percent(guess.share), n })) : null);
}

/**
 * @param {Locked[]} locked
 * @param {Say} say
 */
function calibration(locked, say) {
  const groups = reliability(locked);
  const sure = mean(locked.map((l) => l.confidence)), share = mean(locked.map((l) => Number(l.right)));
  const name = sure - share > 0.05 ? "over" : share - sure > 0.05 ? "under" : "even";
  const words = groups.map((g) => say("reliability_row", { confidence: percent(g.confidence), n: g.right, of: g.n }));
  return [
    el("p", {}, el("b", {}, say("brier", { n: Number(brier(locked)).toFixed(2) })), ` · ${say("brier_means")}`),
    el("p", {}, say(name, { mean: percent(sure), share: percent(share) })),
    chart({
      x: [0, 1], y: [0, 1], label: `${say("reliability_plot")}. ${words.join("; ")}`, names: { x: say("axis_sure"), y: say("axis_right") },
      ticks: { x: [[0, "0"], [0.5, "50 %"], [1, "100 %"]], y: [[0, "0"], [0.5, "50 %"], [1, "100 %"]] },
    }, (where) => [
      polyline([[0, 0], [1, 1]], where, { class: "ln-line ln-out" }),
      ...groups.map((g) => svg("circle", { cx: where.x(g.confidence), cy: where.y(g.right / g.n), r: 4 + 2 * Math.sqrt(g.n), class: "ln-dot ln-score" })),
    ]),
    el("ul", { class: "ln-note" }, words.map((w) => el("li", {}, w))),
  ];
}

/** @type {Record<string, number>} a set of clips → where it stands among the predictions; chapters are at 1 */
const PLACES = { before: 0, after: 2, real: 3 };

/**
 * In the order of the course, whatever was answered first.
 *
 * @param {Course} course @param {Quiz} quiz @param {[string, Locked][]} answers @param {Say} say
 */
function list(course, quiz, answers, say) {
  const place = (/** @type {string} */ id) => {
    const [set, number] = id.split("/");
    return number === undefined ? [1, course.chapters.findIndex((c) => c.name === id)] : [PLACES[set], Number(number)];
  };
  const ordered = answers.map((answer) => ({ answer, at: place(answer[0]) }))
    .sort((a, b) => a.at[0] - b.at[0] || a.at[1] - b.at[1]).map(({ answer }) => answer);
  const title = (/** @type {string} */ id) => {
    const [set, number] = id.split("/");
    if (number === undefined) return course.chapters.find((c) => c.name === id)?.title || id;
    return `${say(`score_${set}`)}, ${say("quiz_item", { n: Number(number) + 1, of: quiz[/** @type {keyof Quiz} */ (set)].length })}`;
  };
  return el("table", { class: "ln-table" },
    el("tbody", {}, ordered.map(([id, a]) => el("tr", {}, el("th", { scope: "row" }, title(id)),
      el("td", {}, percent(a.confidence)), el("td", { class: a.right ? "ln-good" : "" }, say(a.right ? "right" : "wrong"))))));
}

/**
 * A class puts its files into one folder, where two of one name cannot lie: each ends at random.
 *
 * @param {string} name of the reader, in any script; "" for none
 */
function fileName(name) {
  const plain = name.normalize("NFKC").replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").toLowerCase();
  const end = [...crypto.getRandomValues(new Uint8Array(3))].map((n) => n.toString(16).padStart(2, "0")).join("");
  return ["macd-learn", plain, end].filter(Boolean).join("-") + ".json";
}

/**
 * Whether an answer was right is left out where the page does not tell it yet.
 *
 * @param {Store} store
 * @param {[string, Locked][]} all
 * @param {Set<[string, Locked]>} told those whose outcome the page tells
 */
function blob(store, all, told) {
  const answers = Object.fromEntries(all.map((one) => [one[0], told.has(one) ? one[1] : { ...one[1], right: undefined }]));
  const content = { course: "macd-learn", edition: store.state.edition, name: store.name, brier: brier([...told].map(([, a]) => a)), answers, chosen: store.state.chosen };
  return new Blob([`${JSON.stringify(content, null, 1)}\n`], { type: "application/json" });
}
