// @ts-check
// Blocks of text (markup.py) as elements. Terms explain themselves on hover, focus and click.

import { el } from "../../../viewer/js/dom.js";
import { Tips } from "../../../viewer/js/help.js";

/** @import { Block, Span } from "./types" */

/** @type {Record<string, "strong" | "em" | "code">} */
const PLAIN = { strong: "strong", em: "em", code: "code" };
/** Keeps a number and its percent sign on one line. */
export const UNBROKEN = "$1\u00a0%";
/** @type {Tips | undefined} */
let tips;

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
  return spans.map((span, i) => {
    if (typeof span === "string") {
      const text = span.replace(/(\d) %/g, UNBROKEN);
      // a term is a button, after which a line may break even before a full stop
      return i && /^[.,;:?!)]/.test(text) ? `\u2060${text}` : text;
    }
    const [kind, text, name] = span;
    if (kind === "term") return page().term(text, name, glossary[name] || "");
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

/** The definitions of the page; the viewers in it hold their own. */
function page() {
  if (!tips) {
    tips = new Tips();
    document.body.append(tips.root);
  }
  return tips;
}

/**
 * A text of the interface with its symbols set as in the formulas.
 *
 * @param {string} text
 */
export function withSymbols(text) {
  return text.split(/(V_d|\bV\b)/).map((part) => (part === "V_d" ? symbol("counter", part) : part === "V" ? symbol("video", part) : part));
}
