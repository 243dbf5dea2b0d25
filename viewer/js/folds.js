// @ts-check
// What is one click away: folded parts that stay as the reader left them, in this browser.

import { el } from "./dom.js";

/** @import { Child } from "./types" */

const KEY = "macd-open"; // names of the parts that are open

/** Parts that were opened for now, which is not remembered. @type {WeakSet<Element>} */
const opened = new WeakSet();

/** @returns {Set<string>} */
function remembered() {
  try {
    return new Set((localStorage.getItem(KEY) ?? "").split(" ").filter(Boolean));
  } catch { // a page from disk, or one that may keep nothing
    return new Set();
  }
}

/**
 * A part that is folded until it is asked for.
 * @param {string} name under which it is remembered @param {string} title what it answers @param {...Child} children
 * @returns {HTMLDetailsElement}
 */
export function fold(name, title, ...children) {
  const root = el("details", { class: `mv-fold mv-fold-${name}`, open: remembered().has(name), on: {
    toggle: () => {
      if (opened.delete(root)) return;
      const open = remembered();
      if (root.open) open.add(name);
      else open.delete(name);
      try {
        localStorage.setItem(KEY, [...open].join(" "));
      } catch {
        // it is folded again when the page is opened anew
      }
    },
  } }, el("summary", {}, title), children);
  return root;
}

/**
 * Unfolds everything that an element stands in.
 * @param {Element | null | undefined} element @param {boolean} kept whether it is remembered, as if the reader had done it
 */
export function unfold(element, kept = true) {
  for (let at = element?.closest("details"); at; at = at.parentElement?.closest("details")) {
    if (!kept && !at.open) opened.add(at);
    at.open = true;
  }
}
