// @ts-check
// Widgets of comparisons: changes with their intervals, and a published table put to the doctor.

import { el } from "../../../viewer/js/dom.js";
import { plot, svg } from "../../../viewer/js/plots.js";
import { narrow, signed } from "./plots.js";

/** @import { Place } from "./types" */

/** In the order of the rows. */
const METHODS = ["macd", "macd-swept", "vcd", "mask-all", "random-place", "random-objects", "random-mask", "random-average-2", "random-average-4", "random-average-8", "reversed", "blank"];
const ROW = 30; // height in pixels

/**
 * Changes against the plain answer, by kind of question.
 *
 * @param {Place} place
 */
export function intervals({ root, course, say, done }) {
  const regimes = Object.keys(course.changes);
  const seen = new Set();
  const chart = el("div", {});
  const select = el("select", { on: { change: draw } }, regimes.map((name) => el("option", { value: name }, say(`regime_${name}`))));
  select.value = regimes.includes("co-occurrence") ? "co-occurrence" : regimes[0];
  root.append(el("label", { class: "ln-slider" }, el("span", {}, say("regime")), select), chart);
  const all = Object.values(course.changes).flatMap((row) => Object.values(row).flat());
  const [low, high] = [Math.min(...all, -1), Math.max(...all, 1)];

  // As in the texts: the ends of an interval have no plus sign.
  /** @type {(middle: number, low: number, high: number) => string} */
  function points(middle, ...ends) {
    const [low, high] = ends.map((x) => signed(x, 1).replace("+", ""));
    return say("points", { n: signed(middle, 1), low, high });
  }

  function draw() {
    const changes = course.changes[select.value], width = narrow() ? 380 : 560;
    const rows = METHODS.filter((name) => name in changes).map((name) => /** @type {const} */ ([name, changes[name]]));
    const words = rows.map(([name, [m, a, b]]) =>
      `${say(`method_${name}`)}: ${points(m, a, b)}`);
    const ticks = [Math.ceil(low / 5) * 5, 0, Math.floor(high / 5) * 5].filter((v, i, list) => list.indexOf(v) === i);
    const drawn = (/** @type {number} */ left) => plot({
      label: `${say("intervals_plot")}, ${say(`regime_${select.value}`)}. ${words.join("; ")}`,
      size: [width, 36 + ROW * rows.length], margins: [10, 18, 26, left], grid: false, attributes: { class: "mv-plot ln-plot" },
      x: [low, high], y: [rows.length - 0.5, -0.5],
      ticks: { x: ticks.map((v) => [v, v ? signed(v, 0) : "0"]), y: rows.map(([name], i) => [i, say(`method_${name}`)]) },
    }, ({ x, y }) => [
      svg("line", { x1: x(0), x2: x(0), y1: y(-0.5), y2: y(rows.length - 0.5), class: "ln-zero" }),
      ...rows.flatMap(([name, [m, a, b]], i) => {
        const kind = name.startsWith("macd") ? "score" : "out";
        return [
          svg("line", { x1: x(a), x2: x(b), y1: y(i), y2: y(i), class: `ln-whisker ln-${kind}` }),
          svg("circle", { cx: x(m), cy: y(i), r: 5, class: `ln-dot ln-${kind}` }),
        ];
      }),
    ]);
    chart.replaceChildren(drawn(0));
    const names = /** @type {NodeListOf<SVGTextElement>} */ (chart.querySelectorAll("text[text-anchor=end]"));
    const widest = Math.max(...[...names].map((name) => name.getComputedTextLength()));
    chart.replaceChildren(drawn(Math.ceil(widest) + 8), // 6 of it lie between a name and the axis
      el("p", { class: "ln-note" }, say("intervals_plot")), el("p", { class: "ln-result" }, difference(select.value)));
    seen.add(select.value);
    if (seen.size === Math.min(3, regimes.length)) done();
  }

  // Methods on the same questions are compared by the interval of their difference, not by their own.
  /** @param {string} regime */
  function difference(regime) {
    const pair = course.paired[regime];
    if (!pair) return "";
    const [m, low, high] = pair;
    return say(low > 0 || high < 0 ? "paired_differs" : "paired_open", { points: points(m, low, high) });
  }
  draw();
}

const FIGURES = ["precision", "recall", "f1", "accuracy"];

/**
 * Rows of a published table: the reader's verdict, then the metric doctor's.
 *
 * @param {Place} place
 */
export function table({ root, course, say, done }) {
  const rows = course.table.map((row) => {
    const select = el("select", { "aria-label": `${say("verdict")}: ${row.name}` },
      el("option", { value: "" }, "–"), [0, 1, 2].map((v) => el("option", { value: v }, say(`verdict_${v}`))));
    return { row, select, doctor: el("p", { class: "ln-doctor" }) };
  });
  const note = el("p", { class: "ln-result", role: "status" });
  const button = el("button", { type: "button", class: "ln-button", on: { click: ask } }, say("ask_doctor"));
  root.append(el("ul", { class: "ln-cards" }, rows.map(({ row, select, doctor }) => el("li", {},
    el("b", {}, row.name),
    el("dl", { class: "ln-figures" }, FIGURES.map((name) => el("div", {}, el("dt", {}, say(name)), el("dd", {}, row.figures[name])))),
    el("label", {}, el("span", { class: "ln-note" }, say("verdict")), select), doctor))), button, note);

  function ask() {
    const open = rows.find(({ select }) => !select.value);
    if (open) {
      note.textContent = say("judge_all");
      open.select.focus();
      return;
    }
    for (const { row, select, doctor } of rows) {
      const [tp, fn, fp, tn] = row.example || [0, 0, 0, 0], neither = row.neither ? say("doctor_neither", { n: row.neither }) : "";
      const right = Number(select.value) === row.verdict;
      doctor.textContent = `${say(right ? "right" : "wrong")} ${say(`doctor_${row.verdict}`, { tp, fn, fp, tn, neither })}`;
      doctor.classList.toggle("ln-good", right);
      select.disabled = true;
    }
    const n = rows.filter(({ row, select }) => Number(select.value) === row.verdict).length;
    note.textContent = say("doctor_score", { n, of: rows.length });
    button.hidden = true;
    done();
  }
}
