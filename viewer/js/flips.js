// @ts-check
// Where the choice of one token changes: exact α, and a map over α and β. From stored logits alone.

import { button, el, saveFile } from "./dom.js";
import { plot, svg } from "./plots.js";
import { axesOf, nearest } from "./ranges.js";
import { flipPoints, flipRow } from "./rescore.js";
import { takesAlpha } from "./state.js";
import { flipText, noBoundary } from "./strings/answers.js";
import { TEXT } from "./strings/labels.js";
import { LABELS } from "./strings/runs.js";
import { candidateName } from "./text.js";

/** @import { Answer, Rule, TokenStep } from "./types" */
/** @import { State } from "./state.js" */
/** @typedef {{ text: string, colour: string, k: number }} Named a token that is chosen somewhere */

export class Flips {
  /**
   * @param {State} state @param {(answer: Answer) => Rule} ruleOf what α and β stand at
   * @param {(answer: Answer) => Rule} endsOf where the sliders of an answer end
   * @param {(rule: Rule) => void} choose called with the α and β of a cell that is clicked
   */
  constructor(state, ruleOf, endsOf, choose = () => {}) {
    this.endsOf = endsOf;
    /** @type {{ alphas: number[], betas: number[] }} */
    this.axes = { alphas: [], betas: [] };
    this.state = state;
    this.ruleOf = ruleOf;
    this.choose = choose;
    this.svg = "";
    this.axis = el("p", { class: "mv-axis" });
    this.words = el("p", { class: "mv-note" });
    this.grid = el("div", { class: "mv-flipmap", role: "img", on: { click: (/** @type {MouseEvent} */ e) => this.pick(e) } });
    this.down = el("div", { class: "mv-ticks-down", "aria-hidden": "true" });
    this.across = el("div", { class: "mv-ticks-across", "aria-hidden": "true" });
    this.plot = el("div", { class: "mv-flipplot" }, el("span", { class: "mv-axis-down", "aria-hidden": "true" }, "β"), this.down, this.grid,
      this.across, el("span", { class: "mv-axis-across", "aria-hidden": "true" }, "α"));
    this.legend = el("p", { class: "mv-legend" });
    this.save = button(TEXT.saveSVG, () => saveFile("flips.svg", new Blob([this.svg], { type: "image/svg+xml" })));
    this.root = el("details", { class: "mv-flips" },
      el("summary", {}, TEXT.decisionBoundary), this.words, this.plot,
      this.axis,
      this.legend, this.save);
    this.root.addEventListener("toggle", () => this.draw());
  }

  draw() {
    const { contrast: answer, constants, method, token } = this.state;
    const step = answer && answer.tokens[method === answer.method ? token : 0];
    this.root.hidden = !step || !step.others.length;
    if (!answer || !step || this.root.hidden || !this.root.open) return;
    const able = takesAlpha(answer);
    for (const part of [this.plot, this.axis, this.legend, this.save]) part.hidden = !able;
    if (!able) {
      this.words.textContent = noBoundary(answer.rule);
      return;
    }
    const { alpha, beta } = this.ruleOf(answer);
    const points = flipPoints(step, beta, answer.head, constants.largest_alpha);
    this.words.textContent = flipText(step.index, beta, points, constants.largest_alpha, this.state.loaded.decode.search === "greedy");
    this.axis.textContent = TEXT.flipMapHint;
    this.drawMap(step, answer, alpha, beta);
  }

  // Takes over the α and β of the cell that was clicked.
  /** @param {MouseEvent} event */
  pick(event) {
    const { alphas, betas } = this.axes;
    const i = [...this.grid.children].indexOf(/** @type {Element} */ (event.target));
    if (i >= 0) this.choose({ alpha: alphas[i % alphas.length], beta: betas[Math.floor(i / alphas.length)] });
  }

  drawTicks() {
    const { alphas, betas } = this.axes;
    /** @type {(place: number, of: number) => string} the middle of a cell */
    const middle = (place, of) => `${(100 * (place + 0.5)) / of}%`;
    this.across.replaceChildren(...ticksAcross(alphas).map((i) => el("span", { style: { left: middle(i, alphas.length) } }, alphas[i])));
    this.down.replaceChildren(...ticksDown(betas).map((j) => el("span", { style: { top: middle(j, betas.length) } }, betas[j])));
  }

  /** @param {TokenStep} step @param {Answer} answer @param {number} alpha @param {number} beta */
  drawMap(step, answer, alpha, beta) {
    const { constants, constants: { colours } } = this.state;
    this.axes = axesOf(constants, this.endsOf(answer));
    const { alphas, betas } = this.axes;
    /** @type {Map<number, Named>} */
    const names = new Map();
    /** @type {[number, number]} */
    const here = [nearest(alphas, alpha), nearest(betas, beta)];
    /** @type {[number, number, string][]} */
    const places = [];
    const cells = betas.flatMap((b, j) => flipRow(step, alphas, b, answer.head).map((row, i) => {
      const k = names.size;
      const named = names.get(row.id) || { text: candidateName(row.text, row.id), colour: colours[k % colours.length], k };
      names.set(row.id, named);
      places.push([i, j, named.colour]);
      return el("span", {
        class: `mv-flip mv-pattern-${named.k % 4}${i === here[0] && j === here[1] ? " mv-here" : ""}`,
        style: { "--object": named.colour }, title: `α ${alphas[i]}, β ${b}: ${named.text}`,
      });
    }));
    this.grid.replaceChildren(...cells);
    this.drawTicks();
    const legendEntries = [...names.values()];
    this.svg = flipSvg(places, here, legendEntries, this.words.textContent || "", this.axes);
    this.grid.setAttribute("aria-label", LABELS.flips(legendEntries.map((n) => n.text)));
    this.legend.replaceChildren(...legendEntries.map(({ text, colour, k }) =>
      el("span", {}, el("i", { class: `mv-flip mv-pattern-${k % 4}`, style: { "--object": colour } }), ` ${text} `)));
  }
}

/** Columns that carry a tick: whole α. @param {number[]} alphas */
function ticksAcross(alphas) {
  return alphas.flatMap((alpha, i) => (Number.isInteger(alpha) ? [i] : []));
}

/** Rows that carry a tick: every other one. @param {number[]} betas */
function ticksDown(betas) {
  return betas.flatMap((_, j) => (j % 2 ? [] : [j]));
}

/**
 * The map as one SVG text with its legend; `places` are column, row and colour of each cell.
 * @param {[number, number, string][]} places @param {[number, number]} here @param {Named[]} legendEntries
 * @param {string} words @param {{ alphas: number[], betas: number[] }} axes
 */
function flipSvg(places, here, legendEntries, words, { alphas, betas }) {
  const side = 12, below = 60 + 18 * legendEntries.length;
  /** @type {(i: number, j: number, attributes: Record<string, string | number>) => Element} */
  const cell = (i, j, attributes) => svg("rect", { x: 48 + i * side, y: 8 + j * side, width: side, height: side, ...attributes });
  const floor = 8 + betas.length * side;
  const root = plot({
    label: words, size: [60 + alphas.length * side, floor + below], margins: [8, 12, below, 48], grid: false,
    x: [-0.5, alphas.length - 0.5], y: [betas.length - 0.5, -0.5], names: { x: "α", y: "β" },
    ticks: {
      x: ticksAcross(alphas).map((i) => [i, String(alphas[i])]), y: ticksDown(betas).map((j) => [j, String(betas[j])]),
    },
    attributes: { "font-family": "system-ui, sans-serif", "font-size": 12, "shape-rendering": "crispEdges" },
  }, () => [
    ...places.map(([i, j, fill]) => cell(i, j, { fill })),
    cell(...here, { fill: "none", stroke: "#000000", "stroke-width": 2 }),
    svg("text", { x: 48, y: floor + 46 }, words),
    ...legendEntries.flatMap(({ text, colour }, n) => [
      svg("rect", { x: 48, y: floor + 54 + 18 * n, width: side, height: side, fill: colour }),
      svg("text", { x: 66, y: floor + 64 + 18 * n }, text),
    ]),
  ]);
  return new XMLSerializer().serializeToString(root);
}
