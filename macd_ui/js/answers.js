// @ts-check
// The table of several questions: every answer in one place, each with its run.

import { el } from "../../viewer/js/dom.js";
import { visible } from "../../viewer/js/text.js";
import { SHOW_RUN } from "./link.js";
import { ALL_ANSWERS, ANSWERS, CLOSE, QUESTION, RUN, SHOW, answered, showRun } from "./strings.js";

/**
 * @typedef {object} AnswerRow
 * @property {string} question
 * @property {string} clip
 * @property {string} run as links name it
 * @property {Record<string, { title: string, text: string, right: boolean | null }>} answers by method
 */
/** @typedef {{ rows?: AnswerRow[], of?: number }} Answers of: how many questions were asked */

export class AnswerTable {
  constructor() {
    this.title = el("h3", {});
    this.table = el("table", {});
    this.root = el("section", { class: "several-answers", "aria-label": ANSWERS, hidden: true },
      el("div", { class: "several-head" }, this.title,
        el("button", { type: "button", on: { click: () => { this.root.hidden = true; } } }, CLOSE)),
      el("div", { class: "several-scroll", tabindex: "0", role: "region", "aria-label": ALL_ANSWERS }, this.table));
  }

  /** @param {Answers} value */
  load({ rows = [], of = 0 }) {
    this.root.hidden = !of;
    if (!of) return;
    this.title.textContent = answered(rows.length, of, rows.length ? rows[0].clip : "");
    /** @type {Map<string, string>} */
    const titles = new Map(rows.flatMap((row) => Object.entries(row.answers).map(([name, { title }]) => [name, title])));
    const heads = [QUESTION, ...titles.values(), RUN].map((name) => el("th", { scope: "col" }, name));
    this.table.replaceChildren(el("thead", {}, el("tr", {}, heads)),
      el("tbody", {}, rows.map((row) => this.row(row, [...titles.keys()]))));
  }

  /**
   * @param {AnswerRow} row
   * @param {string[]} methods
   */
  row({ question, run, answers }, methods) {
    const cells = methods.map((name) => {
      const answer = answers[name];
      const mark = answer?.right === null || answer?.right === undefined ? "" : answer.right ? " ✓" : " ✗";
      return el("td", {}, answer ? `${answer.text.trim() ? answer.text : visible(answer.text)}${mark}` : "–");
    });
    const show = () => document.dispatchEvent(new CustomEvent(SHOW_RUN, { detail: run }));
    const masks = Object.keys(answers).length ? null : " (masks only)";
    return el("tr", {}, el("th", { scope: "row" }, question, masks), cells,
      el("td", {}, el("button", { type: "button", "aria-label": showRun(question), on: { click: show } }, SHOW)));
  }
}
