// @ts-check
// An answer's tokens in a row: a short answer as chips, a long one as text whose words are told apart when
// they are pointed at, with a bar of the places where the contrast changed a token.

import { alignTokens } from "./align.js";
import { el } from "./dom.js";
import { cutText } from "./happened.js";
import { copyButton } from "./help.js";
import { endOf } from "./state.js";
import { changedTokens, tokenTitle } from "./strings/answers.js";
import { TEXT } from "./strings/labels.js";
import { visible } from "./text.js";

/** @import { Answer } from "./types" */

const MOST_CHIPS = 12; // tokens of an answer that is shown as chips until the reader chooses

/** @param {Answer[]} answers @param {boolean | null} chosen what the reader chose, if anything */
export function showsChips(answers, chosen) {
  return chosen ?? answers.every(({ tokens }) => tokens.length <= MOST_CHIPS);
}

/** A token as a chip, with its blanks visible, or within a text. @param {string} text @param {boolean} chips */
export function tokenText(text, chips) {
  return chips ? visible(text) : text.replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
}

/**
 * The tokens of each answer that the other lacks, where both are aligned; of one answer none.
 * @param {Answer[]} answers @returns {Set<number>[]}
 */
export function differingTokens(answers) {
  const each = answers.map(() => /** @type {Set<number>} */ (new Set()));
  if (answers.length !== 2) return each;
  const texts = answers.map(({ tokens }) => tokens.map(({ text }) => text));
  for (const pair of alignTokens(texts[0], texts[1])) {
    const [i, j] = pair;
    if (i !== null && j !== null && texts[0][i] === texts[1][j]) continue;
    pair.forEach((at, side) => { if (at !== null) each[side].add(at); });
  }
  return each;
}

/**
 * Tokens of an answer that are not the first choice given the video alone, after the same beginning.
 * @param {Answer} answer
 */
export function changedPlaces({ tokens }) {
  return tokens.flatMap((step, i) => (step.others.length && step.candidates[step.base.indexOf(Math.max(...step.base))] !== step.token ? [i] : []));
}

/**
 * @param {Answer} answer
 * @param {{ divergesAt: number, differing: Set<number>, chips: boolean, running: boolean, pick: (index: number) => void }} how
 */
export function strip(answer, { divergesAt, differing, chips, running, pick }) {
  const { tokens, title, method, finished, text } = answer;
  const buttons = tokens.flatMap((step, i) => {
    const classes = ["mv-token", i === divergesAt ? "mv-parts" : "", !chips && differing.has(i) ? "mv-differing" : ""];
    const one = el("button", {
      type: "button", "data-index": i, class: classes.filter(Boolean).join(" "),
      title: tokenTitle(i, step.token, i === divergesAt), on: { click: () => pick(i) },
    }, tokenText(step.text, chips));
    return !chips && step.text.includes("\n") ? [one, el("br")] : [one];
  });
  const cut = finished || running || !tokens.length ? null : el("span", { class: "mv-cut" }, cutText(tokens.length));
  const words = el("div", { class: chips ? "mv-strip-tokens" : "mv-strip-tokens mv-prose" }, buttons, cut);
  return el("div", { class: "mv-strip", "data-method": method },
    el("span", { class: "mv-strip-name" }, title, chips ? null : copyButton(text)),
    chips ? words : el("div", {}, words, changesBar(answer)));
}

/** Where in an answer the contrast changed a token; nothing for an answer of one view. @param {Answer} answer */
function changesBar(answer) {
  if (!answer.tokens.some(({ others }) => others.length)) return null;
  const changed = new Set(changedPlaces(answer));
  const label = changedTokens([...changed], answer.tokens.length);
  return el("div", { class: "mv-changes" },
    el("div", { class: "mv-changes-bar", role: "img", "aria-label": label },
      answer.tokens.map((_, i) => el("span", { class: changed.has(i) ? "mv-changed" : "" }))),
    el("span", { class: "mv-note" }, label));
}

/** @param {Answer} answer before the last change by hand @param {boolean} ends whether end tokens are shown @param {boolean} chips */
export function previousStrip(answer, ends, chips) {
  const shown = answer.tokens.slice(0, ends || endOf(answer) < 1 ? undefined : -1);
  return el("div", { class: "mv-strip mv-former" },
    el("span", { class: "mv-strip-name" }, TEXT.MACDBeforeEdit),
    el("div", { class: chips ? "mv-strip-tokens" : "mv-strip-tokens mv-prose" },
      shown.map((t) => el("span", { class: "mv-token" }, tokenText(t.text, chips)))));
}
