// @ts-check
// Who was right about the random draws of this tab. Kept by the browser, never by the server.

import { el } from "../../viewer/js/dom.js";
import { COUNT_AGAIN, DRAWS, TALLY_HEADS, drawsSoFar } from "./strings.js";

const KEY = "macd-draws";

/**
 * @typedef {object} Draw
 * @property {number} seed
 * @property {string} truth
 * @property {Record<string, boolean | null>} right by method
 * @property {Record<string, string>} titles
 */

export class Tally {
  constructor() {
    this.text = el("p", { class: "tally-draw", "aria-live": "polite" });
    this.rows = el("tbody");
    this.root = el("section", { class: "tally", "aria-label": DRAWS, hidden: true }, this.text,
      el("table", {},
        el("thead", {}, el("tr", {}, ...TALLY_HEADS.map((name) => el("th", { scope: "col" }, name)))),
        this.rows),
      el("button", { type: "button", on: { click: () => this.clear() } }, COUNT_AGAIN));
    this.show(null);
  }

  /** @returns {Draw[]} */
  draws() {
    try {
      const draws = JSON.parse(sessionStorage.getItem(KEY) || "[]");
      return Array.isArray(draws) ? draws.filter((draw) => draw && draw.right && draw.titles) : [];
    } catch { // a browser without storage counts the last draw only
      return this.last ? [this.last] : [];
    }
  }

  /** @param {Draw} value */
  load(value) {
    if (!value || value.seed === undefined) return;
    /** @type {Draw | undefined} */
    this.last = value;
    const draws = [...this.draws().filter((draw) => draw.seed !== value.seed), value];
    try {
      sessionStorage.setItem(KEY, JSON.stringify(draws));
    } catch { /* see draws() */ }
    this.show(value);
  }

  clear() {
    this.last = undefined;
    try {
      sessionStorage.removeItem(KEY);
    } catch { /* there is nothing to remove */ }
    this.show(null);
  }

  /** @param {Draw | null} last */
  show(last) {
    const draws = this.draws();
    this.root.hidden = !draws.length;
    this.text.textContent = drawsSoFar(draws.length, last);
    /** @type {Map<string, { title: string, right: number, wrong: number }>} */
    const counts = new Map();
    for (const { right, titles } of draws) {
      for (const [method, was] of Object.entries(right)) {
        const row = counts.get(method) || { title: titles[method] || method, right: 0, wrong: 0 };
        if (was !== null) row[was ? "right" : "wrong"] += 1;
        counts.set(method, row);
      }
    }
    this.rows.replaceChildren(...[...counts.values()].map((row) => el("tr", {},
      el("th", { scope: "row" }, row.title), el("td", {}, String(row.right)), el("td", {}, String(row.wrong)))));
  }
}
