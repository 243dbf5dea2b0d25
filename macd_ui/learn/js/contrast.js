// @ts-check
// Widgets of two views' logits: the slider over runs, bars to drag, and a constant next to contrast.

import { el } from "../../../viewer/js/dom.js";
import { flipPoints, rescore } from "../../../viewer/js/rescore.js";
import { argmax, softmax } from "./score.js";
import { withSymbols } from "./prose.js";
import { polyline, svg } from "../../../viewer/js/plots.js";
import { bars, chart as lineChart, clipped, signed } from "./plots.js";

/** @import { PartData, Place } from "./types" */
/** @import { Trace } from "../../../viewer/js/types" */

const KINDS = ["a", "b", "c", "d"];

/**
 * The examples of a widget, a select for them, and what shows one.
 *
 * @param {Place} place
 * @param {(trace: Trace, role: string) => void} show
 */
function choice({ step, data, course, say }, show) {
  const roles = /** @type {string[]} */ (step.settings.roles);
  const traces = roles.map((role) => /** @type {Trace} */ ((/** @type {PartData} */ (data[`part-${role}`])).payload.trace));
  const asked = roles.map((role) => course.parts[role].question);
  // the same may be asked of two clips: they are numbered then
  const name = (/** @type {string} */ question, /** @type {number} */ i) =>
    (asked.indexOf(question) === asked.lastIndexOf(question) ? question : `${question} (${asked.slice(0, i + 1).filter((q) => q === question).length})`);
  const select = el("select", { on: { change: () => show(traces[select.selectedIndex], roles[select.selectedIndex]) } },
    asked.map((question, i) => el("option", {}, name(question, i))));
  return {
    root: el("label", { class: "ln-slider", hidden: roles.length < 2 }, el("span", {}, say("clip")), select),
    start: () => show(traces[0], roles[0]),
  };
}

/** @param {Trace} trace */
function firstStep(trace) {
  return trace.answers.macd.tokens[0];
}

/**
 * @param {Trace} trace
 * @param {string} answer
 * @param {Place["say"]} say
 */
function answerText(trace, answer, say) {
  const state = !trace.truth ? "state_unknown" : trace.truth.trim() === answer.trim() ? "state_right" : "state_wrong";
  return say("answer_now", { answer: answer.trim(), state: say(state) });
}

/**
 * @param {Trace} trace
 * @param {Place["say"]} say
 */
function views(trace, say) {
  const middle = trace.times.length >> 1;
  const model = trace.model?.frames[middle] || trace.frames[middle];
  const hidden = trace.answers.macd.second_views[0]?.shown?.[middle] || model;
  return el("div", { class: "ln-views" }, [[model, "view_video", "video"], [hidden, "view_counter", "counter"]].map(([src, name, kind]) =>
    el("figure", { class: `ln-edge-${kind}` }, el("img", { src, alt: "" }), el("figcaption", {}, withSymbols(say(name))))));
}

/**
 * α, and perhaps β, over the stored logits of runs.
 *
 * @param {Place} place
 */
export function contrast(place) {
  const { root, step, say, done } = place;
  /** @type {Trace} */
  let trace;
  const pictures = el("div", {}), chart = el("div", {}), lines = el("div", {});
  const output = el("output", { class: "ln-result" });
  const [alpha, alphaText] = slider(say("alpha"), 0, 5, 0.05, 0, draw);
  const [beta, betaText] = slider(say("beta"), 0, 1, 0.01, 0.1, draw);
  const clips = choice(place, (chosen) => {
    trace = chosen;
    alpha.input.value = "0";
    beta.input.value = String(trace.answers.macd.beta);
    pictures.replaceChildren(views(trace, say));
    draw();
  });
  root.append(clips.root, el("div", { class: "ln-two" },
    el("div", {}, pictures, alpha.root, step.settings.beta ? beta.root : null, output),
    el("div", {}, chart, lines)));
  clips.start();

  function draw() {
    const [a, b] = [Number(alpha.input.value), Number(beta.input.value)];
    alphaText.textContent = a.toFixed(2);
    betaText.textContent = b.toFixed(2);
    const token = firstStep(trace);
    const { rows, chosen } = rescore(token, a, b);
    const shown = [...rows].sort((x, y) => y.before - x.before).slice(0, 4);
    if (!shown.includes(rows[chosen])) shown[3] = rows[chosen];
    chart.replaceChildren(bars(shown.map((r) => ({
      name: r.text.trim(), value: r.after, kind: "score", top: r === rows[chosen], note: r.inside ? "" : say("outside"),
    })), say("p_score")));
    const plainRow = rescore(token, 0, b);
    const changed = plainRow.rows[plainRow.chosen].id !== rows[chosen].id;
    output.textContent = answerText(trace, rows[chosen].text, say) + (a === 5 && !changed ? ` ${say("beyond")}` : "");
    if (step.settings.lines) lines.replaceChildren(scoreLines(a, b));
    if (changed || a === 5) done();
  }

  /**
   * @param {number} a
   * @param {number} b
   */
  function scoreLines(a, b) {
    const token = firstStep(trace);
    const rows = [...rescore(token, 0, b).rows].sort((x, y) => y.base - x.base).slice(0, 4);
    // relative to the mean of the two best: slopes that all lines share would hide the crossing
    const [first, second] = rows;
    const level = (/** @type {number} */ x) => (first.base + second.base + x * (first.difference + second.difference)) / 2;
    const value = (/** @type {typeof first} */ r, /** @type {number} */ x) => r.base + x * r.difference - level(x);
    const inside = rows.filter((r) => r.inside);
    const ends = inside.flatMap((r) => [value(r, 0), value(r, 5)]);
    const [low, high] = [Math.max(-12, Math.min(-1, ...ends)), Math.min(12, Math.max(1, ...ends))];
    const flips = flipPoints(token, b, "probability", 5).slice(1).map((f) => f.alpha);
    return el("div", {},
      lineChart({
        x: [0, 5], y: [low, high], label: `${say("lines_plot")}. ${flips.map((f) => `α ${f.toFixed(2)}`).join(", ")}`,
        names: { x: say("alpha"), y: say("score") },
        ticks: { x: [0, 1, 2, 3, 4, 5].map((v) => [v, String(v)]), y: [[0, "0"]] },
      }, (where) => [
        svg("line", { x1: where.x(a), x2: where.x(a), y1: where.y(low), y2: where.y(high), class: "ln-cursor" }),
        ...rows.map((r, i) => polyline(clipped([[0, value(r, 0)], [5, value(r, 5)]], [low, high]), where,
          { class: `ln-line ln-${r.inside ? KINDS[i] : "out"}` })),
        ...flips.map((f) => [f, Math.max(...inside.map((r) => value(r, f)))]).filter(([, y]) => y >= low && y <= high)
          .map(([f, y]) => svg("circle", { cx: where.x(f), cy: where.y(y), r: 5, class: "ln-flip" })),
      ]),
      el("p", { class: "ln-key" }, rows.map((r, i) => el("span", {},
        el("span", { class: `ln-sign ln-${r.inside ? KINDS[i] : "out"}` }), ` ${r.text.trim()}${r.inside ? "" : ` (${say("outside")})`}`))));
  }
}

/**
 * @param {string} label
 * @param {number} min
 * @param {number} max
 * @param {number} step
 * @param {number} value
 * @param {() => void} input
 * @returns {[{ root: HTMLElement, input: HTMLInputElement }, HTMLElement]}
 */
function slider(label, min, max, step, value, input) {
  const range = el("input", { type: "range", min, max, step, value, "aria-label": label, on: { input } });
  const output = el("span", { class: "ln-number" });
  return [{ root: el("div", { class: "ln-slider" }, el("span", {}, label, " ", output), range), input: range }, output];
}

/**
 * Logits of two views to pull by hand.
 *
 * @param {Place} place
 */
export function pull({ root, step, say, done }) {
  const { words, alpha, lock, shift } = step.settings;
  const base = [...step.settings.base], counter = [...step.settings.counter];
  const start = argmax(base);
  const result = el("div", {}), output = el("output", { class: "ln-result" });
  const rows = words.map((/** @type {string} */ word, /** @type {number} */ i) => el("div", { class: "ln-pull", role: "group", "aria-label": word },
    el("b", {}, word), one("view_video", "video", base, i, lock === "base"), one("view_counter", "counter", counter, i, false)));
  const [constant, constantText] = slider(say("shift_all"), -5, 5, 0.5, 0, draw);
  root.append(el("div", { class: "ln-two" }, el("div", {}, rows, shift ? constant.root : null),
    el("div", {}, result, output)));

  /**
   * @param {string} name
   * @param {string} kind
   * @param {number[]} values
   * @param {number} i
   * @param {boolean} locked
   */
  function one(name, kind, values, i, locked) {
    const number = el("span", { class: "ln-number" }, signed(values[i], 1));
    const input = el("input", {
      type: "range", min: -5, max: 5, step: 0.5, value: values[i], disabled: locked, class: `ln-range-${kind}`,
      "aria-label": `${words[i]}, ${say(name)}`,
      on: { input: () => { values[i] = Number(input.value); number.textContent = signed(values[i], 1); draw(); } },
    });
    return el("label", { class: `ln-slider ln-${kind}-text` }, el("span", {}, withSymbols(say(name)), " ", number), input);
  }

  function draw() {
    const added = Number(constant.input.value);
    constantText.textContent = signed(added, 1);
    const z = base.map((x) => x + added);
    const score = z.map((x, i) => x + alpha * (x - counter[i]));
    const best = argmax(score);
    const groups = [["p_video", "video", softmax(z)], ["p_counter", "counter", softmax(counter)], ["p_score", "score", softmax(score)]];
    result.replaceChildren(...groups.map(([name, kind, p]) => el("div", { class: "ln-small-bars" }, el("h3", {}, withSymbols(say(String(name)))),
      bars(words.map((/** @type {string} */ word, /** @type {number} */ i) => ({
        name: word, value: /** @type {number[]} */ (p)[i], kind: String(kind), top: argmax(/** @type {number[]} */ (p)) === i,
      })), say(String(name))))));
    output.textContent = say("winner", { answer: words[best] });
    if (step.done === "second-view" ? best !== start : Math.abs(added) >= 1) done();
  }
  draw();
}

/**
 * A constant in place of the second view.
 *
 * @param {Place} place
 */
export function bias(place) {
  const { root, say, done } = place;
  /** @type {Trace} */
  let trace;
  const label = el("span", {}), number = el("span", { class: "ln-number" });
  const input = el("input", { type: "range", min: -5, max: 10, step: 0.1, value: 0, on: { input: draw } });
  const pictures = el("div", {}), chart = el("div", {}), output = el("output", { class: "ln-result" });
  const clips = choice(place, (chosen) => {
    trace = chosen;
    input.value = "0";
    pictures.replaceChildren(views(trace, say));
    draw();
  });
  root.append(clips.root, el("div", { class: "ln-two" },
    el("div", {}, pictures, el("label", { class: "ln-slider" }, el("span", {}, label, " ", number), input), output),
    chart));
  clips.start();

  function draw() {
    const { macd, baseline } = trace.answers;
    const token = firstStep(trace);
    const delta = Number(input.value);
    label.textContent = say("shift_delta", { answer: macd.text.trim() });
    number.textContent = signed(delta, 1);
    const target = token.candidates.indexOf(token.token);
    const logits = token.base.map((z, i) => z + (i === target ? delta : 0));
    const p = softmax(logits), best = argmax(logits);
    const order = p.map((_, i) => i).sort((a, b) => token.base[b] - token.base[a]).slice(0, 4);
    if (!order.includes(target)) order[3] = target;
    chart.replaceChildren(bars(order.map((i) => ({
      name: token.texts[i].trim(), value: p[i], kind: i === target ? "cut" : "video", top: i === best,
    })), say("p_video")));
    const same = macd.text === baseline.text;
    const values = { answer: token.texts[best].trim(), macd: macd.text.trim(), alpha: macd.alpha, delta: signed(delta, 1) };
    output.textContent = same ? say("shift_equal") : say(best === target ? "shift_same" : "shift_plain", values);
    if (same ? delta !== 0 : best === target) done();
  }
}
