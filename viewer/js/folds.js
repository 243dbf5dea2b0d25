// @ts-check
// What is one click away: folded parts that stay as the reader left them, in this browser.

import { el } from "./dom.js";

/** @import { Child } from "./types" */

const KEY = "macd-open"; // names of the parts that are open

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

/** Unfolds everything that an element stands in. @param {Element | null | undefined} element */
export function unfold(element) {
  for (let at = element?.closest("details"); at; at = at.parentElement?.closest("details")) at.open = true;
}
