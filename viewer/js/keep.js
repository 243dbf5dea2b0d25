// @ts-check
// How to run the same again, and the list of keys.

import { el } from "./dom.js";

/** @import { Trace } from "./types" */

export class Reproduce {
  /** @param {string} base what links are relative to */
  constructor(base) {
    this.base = base;
    this.body = el("div", {});
    this.root = el("details", { class: "mv-reproduce" }, el("summary", {}, "Reproduce this run"), this.body);
  }

  /** @param {Trace} trace */
  load(trace) {
    const { command, snippet, link } = trace.again || {};
    this.root.hidden = !command;
    if (!command || !snippet) return;
    /** @type {(title: string, text: string) => HTMLElement} */
    const block = (title, text) => el("div", {},
      el("div", { class: "mv-block-head" }, el("h3", {}, title),
        el("button", {
          type: "button", class: "mv-button",
          on: { click: (/** @type {MouseEvent} */ e) => copied(/** @type {HTMLElement} */ (e.target), text) },
        }, "Copy")),
      el("pre", { tabindex: "0" }, text));
    this.body.replaceChildren(block("Command", command), block("Python", snippet));
    if (link) this.body.append(block("Link to this example", new URL(link, this.base).href));
  }
}

/**
 * @param {HTMLElement} button
 * @param {string} text
 */
async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy by hand";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

const KEYS = [
  ["← →", "frame back, frame on"], ["space", "play or pause"], ["L", "loop on or off"],
  ["J K", "next token, token before"], ["1 – 9", "choose an object"], ["B", "boxes"],
  ["M", "soft masks"], ["V", "levels"], ["C", "counterfactual"], ["S", "as the model sees it"],
  ["[ ]", "ascent step back, step on"], ["P", "play or pause the ascent"], ["+ − 0", "zoom in, out, whole picture"],
  ["Shift ← → ↑ ↓", "move the zoomed picture"], ["U R", "undo, redo a change"],
  ["Esc", "let go of object and brush"], ["?", "this list"],
];

export class Help {
  constructor() {
    this.root = el("dialog", { class: "mv-help", "aria-label": "Keys" },
      el("h3", {}, "Keys"),
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      el("button", { type: "button", class: "mv-button", on: { click: () => this.root.close() } }, "Close"));
  }

  toggle() {
    if (this.root.open) this.root.close();
    else this.root.showModal();
  }
}
