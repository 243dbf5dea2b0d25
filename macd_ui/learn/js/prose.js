// @ts-check
// Blocks of text (markup.py) as elements. Terms explain themselves on hover, focus and click.

import { el } from "../../../viewer/js/dom.js";

/** @import { Block, Span } from "./types" */

/** @type {Record<string, "strong" | "em" | "code">} */
const PLAIN = { strong: "strong", em: "em", code: "code" };
/** Keeps a number and its percent sign on one line. */
export const UNBROKEN = "$1\u00a0%";
let count = 0;

/**
 * @param {Block[]} blocks
 * @param {Record<string, string>} glossary
 */
export function prose(blocks, glossary) {
  return blocks.map(([kind, content]) => {
    if (kind === "ul") {
      const items = /** @type {Span[][]} */ (content);
      return el("ul", {}, items.map((item) => el("li", {}, inline(item, glossary))));
    }
    const spans = /** @type {Span[]} */ (content);
    return kind === "formula"
      ? el("p", { class: "ln-formula" }, inline(spans, glossary))
      : el("p", {}, inline(spans, glossary));
  });
}

/**
 * @param {Span[]} spans
 * @param {Record<string, string>} glossary
 */
export function inline(spans, glossary) {
  return spans.map((span) => {
    if (typeof span === "string") return span.replace(/(\d) %/g, UNBROKEN);
    const [kind, text, name] = span;
    if (kind === "term") return term(text, name, glossary[name] || "");
    if (PLAIN[kind]) return el(PLAIN[kind], {}, text);
    return symbol(kind, text);
  });
}

/** @param {Span[]} spans */
export function plain(spans) {
  return spans.map((span) => (typeof span === "string" ? span : span[1])).join("");
}

/**
 * @param {string} kind the role whose colour it has
 * @param {string} text
 */
function symbol(kind, text) {
  const [name, below] = text.split("_");
  return el("var", { class: `ln-sym ln-${kind}` }, name, below ? el("sub", {}, below) : null);
}

/**
 * @param {string} text
 * @param {string} name
 * @param {string} meaning
 */
function term(text, name, meaning) {
  count += 1;
  const tip = el("span", { class: "ln-tip", role: "tooltip", id: `ln-tip-${count}` }, el("b", {}, name), ` ${meaning}.`);
  const button = el("button", {
    type: "button", class: "ln-term", "aria-describedby": tip.id,
    on: {
      click: () => box.classList.toggle("ln-open"),
      blur: () => box.classList.remove("ln-open"),
      keydown: (/** @type {KeyboardEvent} */ e) => {
        if (e.key === "Escape") box.classList.add("ln-shut");
      },
      focus: () => box.classList.remove("ln-shut"),
    },
  }, text);
  const box = el("span", { class: "ln-term-box", on: { pointerenter: () => place() } }, button, tip);
  button.addEventListener("focus", () => place());
  function place() { // inside the page, also at its right edge
    tip.style.setProperty("--move", "0px");
    const { right, left } = tip.getBoundingClientRect();
    const over = right - document.documentElement.clientWidth + 8;
    tip.style.setProperty("--move", `${-Math.max(0, Math.min(over, left - 8))}px`);
  }
  return box;
}
