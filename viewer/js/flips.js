// @ts-check
// Where the choice of one token changes: exact α, and a map over α and β. From stored logits alone.

import { el, saveFile } from "./dom.js";
import { takesAlpha } from "./pair.js";
import { flipPoints, flipRow } from "./rescore.js";
import { visible } from "./text.js";

/** @import { Answer, Constants, Rule, TokenStep } from "./types" */
/** @import { State } from "./state.js" */
/** @typedef {{ text: string, colour: string, k: number }} Named a token that is chosen somewhere */

export class Flips {
  /**
   * @param {State} state
   * @param {(answer: Answer) => Rule} ruleOf what α and β stand at
   */
  constructor(state, ruleOf) {
    this.state = state;
    this.ruleOf = ruleOf;
    this.svg = "";
    this.axis = el("p", { class: "mv-axis" });
    this.words = el("p", { class: "mv-note" });
    this.grid = el("div", { class: "mv-flipmap", role: "img" });
    this.legend = el("p", { class: "mv-legend" });
    this.keep = el("button", {
      type: "button", class: "mv-toggle",
      on: { click: () => saveFile("flips.svg", new Blob([this.svg], { type: "image/svg+xml" })) },
    }, "Save SVG");
    this.root = el("details", { class: "mv-flips" },
      el("summary", {}, "Decision boundary for this token"), this.words, this.grid,
      this.axis,
      this.legend, this.keep);
    this.root.addEventListener("toggle", () => this.draw());
  }

  draw() {
    const { contrast: answer, constants, method, token } = this.state;
    const step = answer && answer.tokens[method === answer.method ? token : 0];
    this.root.hidden = !step || !step.counter;
    if (!answer || !step || this.root.hidden || !this.root.open) return;
    const able = takesAlpha(answer);
    for (const part of [this.grid, this.axis, this.legend, this.keep]) part.hidden = !able;
    if (!able) {
      this.words.textContent = `The rule ${answer.rule} takes neither α nor β: there is no boundary over them.`;
      return;
    }
    const { alpha, beta } = this.ruleOf(answer);
    const points = flipPoints(step, beta, answer.head, constants.largest_alpha);
    const [start, ...flips] = points;
    this.words.textContent = `Token ${step.index + 1} with β ${beta}: ${visible(start.row.text)} at α 0`
      + (flips.length ? flips.map((p) => `, ${visible(p.row.text)} from α ${p.alpha.toFixed(3)}`).join("")
        : `, and no α up to ${constants.largest_alpha} changes it`) + ".";
    this.axis.textContent = `α from 0 to ${constants.alpha.max} →, β from ${constants.beta.max} (bottom) to 0 (top); the ring is where you are`;
    this.drawMap(step, answer, alpha, beta);
  }

  /**
   * @param {TokenStep} step
   * @param {Answer} answer
   * @param {number} alpha
   * @param {number} beta
   */
  drawMap(step, answer, alpha, beta) {
    const { constants } = this.state;
    const { flips: { alphas, betas }, colours } = constants;
    /** @type {Map<number, Named>} */
    const names = new Map();
    /** @type {(list: number[], x: number) => number} */
    const near = (list, x) => list.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(list[best] - x) ? i : best), 0);
    /** @type {[number, number]} */
    const here = [near(alphas, alpha), near(betas, beta)];
    /** @type {[number, number, string][]} */
    const places = [];
    const cells = betas.flatMap((b, j) => flipRow(step, alphas, b, answer.head).map((row, i) => {
      const k = names.size;
      const named = names.get(row.id) || { text: visible(row.text), colour: colours[k % colours.length], k };
      names.set(row.id, named);
      places.push([i, j, named.colour]);
      return el("span", {
        class: `mv-flip mv-pattern-${named.k % 4}${i === here[0] && j === here[1] ? " mv-here" : ""}`,
        style: { "--object": named.colour }, title: `α ${alphas[i]}, β ${b}: ${named.text}`,
      });
    }));
    this.grid.replaceChildren(...cells);
    const told = [...names.values()];
    this.svg = flipSvg(places, here, told, this.words.textContent || "", constants);
    this.grid.setAttribute("aria-label", `Token chosen over α and β: ${told.map((n) => n.text).join(", ")}`);
    this.legend.replaceChildren(...told.map(({ text, colour, k }) =>
      el("span", {}, el("i", { class: `mv-flip mv-pattern-${k % 4}`, style: { "--object": colour } }), ` ${text} `)));
  }
}

/**
 * The map as one SVG text with its legend; `places` are column, row and colour of each cell.
 *
 * @param {[number, number, string][]} places
 * @param {[number, number]} here
 * @param {Named[]} told
 * @param {string} words
 * @param {Constants} constants
 */
function flipSvg(places, here, told, words, constants) {
  const { alphas, betas } = constants.flips;
  const side = 12, width = alphas.length * side, height = betas.length * side;
  /** @type {(tag: string, attributes: Record<string, string | number>, text?: string) => Element} */
  const make = (tag, attributes, text = "") => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
    node.textContent = text;
    return node;
  };
  const root = make("svg", {
    viewBox: `-4 -4 ${width + 8} ${height + 48 + 18 * told.length}`,
    "font-family": "system-ui, sans-serif", "font-size": 12, "shape-rendering": "crispEdges",
  });
  /** @type {(i: number, j: number) => { x: number, y: number }} */
  const place = (i, j) => ({ x: i * side, y: j * side });
  for (const [i, j, colour] of places) {
    root.append(make("rect", { ...place(i, j), width: side, height: side, fill: colour }));
  }
  root.append(make("rect", {
    ...place(...here), width: side, height: side, fill: "none", stroke: "#000000", "stroke-width": 2,
  }));
  root.append(make("text", { x: 0, y: height + 16 }, words));
  root.append(make("text", { x: 0, y: height + 32 }, `α from 0 to ${constants.alpha.max} to the right, β from 0 (top) to ${constants.beta.max}`));
  told.forEach(({ text, colour }, n) => {
    const y = height + 40 + 18 * n;
    root.append(make("rect", { x: 0, y, width: side, height: side, fill: colour }));
    root.append(make("text", { x: 18, y: y + 10 }, text));
  });
  return new XMLSerializer().serializeToString(root);
}
