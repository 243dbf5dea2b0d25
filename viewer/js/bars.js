// @ts-check
// Both answers as bars: for one token the best candidates given the video and given the masked video, and
// the score that results. Moving α scores them again.

import { button, el, renew, setText } from "./dom.js";
import { rescore } from "./rescore.js";
import { barLabel, barsName } from "./strings/answers.js";
import { TEXT } from "./strings/labels.js";
import { isPicture } from "./strings/parts.js";
import { candidateName, fixed, percent } from "./text.js";

/** @import { Answer, TokenStep, Trace } from "./types" */
/** @import { State } from "./state.js" */
/** @import { Tokens } from "./tokens.js" */
/** @typedef {{ id: number, text: string, share: number, value: string }} Bar share: [0, 1] of the longest that can be */

const MOST = 5; // candidates of a view
const KINDS = ["video", "masked", "score"]; // classes of the bars of both views, and of the score

export class Bars {
  /** @param {State} state @param {Tokens} tokens whose α and β these are */
  constructor(state, tokens) {
    this.state = state;
    this.tokens = tokens;
    this.drawn = "";
    this.before = button("‹", () => this.by(-1), { "aria-label": TEXT.tokenBefore, title: TEXT.tokenBefore });
    this.after = button("›", () => this.by(1), { "aria-label": TEXT.nextToken, title: TEXT.nextToken });
    this.name = el("output", { class: "mv-bars-name" });
    this.views = el("div", { class: "mv-bars-views" });
    this.score = el("div", { class: "mv-bars-score" });
    this.why = el("p", { class: "mv-note" });
    this.empty = el("div", { class: "mv-no-answer", hidden: true }, this.why);
    this.full = el("div", { class: "mv-bars-full" }, this.views, tokens.live, tokens.reason, tokens.error, this.score);
    this.root = el("section", { class: "mv-bars", "data-part": "answers", "aria-label": TEXT.bothAnswers },
      el("div", { class: "mv-bars-head" }, el("h3", {}, TEXT.bothAnswers), this.name, this.before, this.after),
      this.full, this.empty);
  }

  /** @param {Trace} trace */
  load(trace) {
    const none = !Object.values(trace.answers).some(({ tokens }) => tokens.length);
    this.root.hidden = none && this.state.running;
    this.empty.hidden = !none || this.state.running; // it stands outside of the root
    this.why.textContent = trace.final ? TEXT.noAnswers : TEXT.endedBefore;
    for (const part of [this.full, this.name, this.before, this.after]) part.hidden = none;
    this.drawn = "";
  }

  /** @param {number} way -1 or 1 */
  by(way) {
    const { token, method, loaded: { answers } } = this.state, answer = answers[method];
    const last = answer ? this.tokens.lastShown(answer) : 0;
    this.state.set({ token: Math.max(0, Math.min(last, token + way)), picked: true });
  }

  draw() {
    const { loaded: trace, method, token, reference, contrast } = this.state;
    const answer = trace.answers[method] ?? contrast ?? reference, step = answer?.tokens[token];
    if (!answer || !step || this.full.hidden) return;
    const { alpha, beta } = this.tokens.ruleOf(answer);
    const key = [this.tokens.version, method, token, alpha, beta].join(" ");
    if (key === this.drawn) return;
    this.drawn = key;
    const last = this.tokens.lastShown(answer);
    setText(this.name, barsName(answer, token, Math.max(last, token) + 1));
    this.before.disabled = token === 0;
    this.after.disabled = token >= this.tokens.lastShown(answer);
    this.fill(answer, step, alpha, beta);
  }

  /** @param {Answer} answer @param {TokenStep} step @param {number} alpha @param {number} beta */
  fill(answer, step, alpha, beta) {
    const two = step.others.length > 0;
    const { rows, exact } = rescore(step, two ? alpha : 0, two ? beta : 0, answer.head);
    const picture = isPicture(this.state.loaded);
    const masks = picture ? TEXT.givenTheMaskedPicture : TEXT.givenTheMasked;
    const second = answer.method === "macd" ? masks : TEXT.givenTheSecondView;
    const video = rows.map((row) => ({ id: row.id, text: row.text, share: row.before, value: percent(row.before) }));
    const masked = two ? rows.map(({ id, text, others }) => {
      const p = Math.exp(others[0] - step.others_log_z[0]);
      return { id, text, share: p, value: percent(p) };
    }) : [];
    const scores = [...rows].sort((a, b) => b.score - a.score || b.base - a.base).map((row) => ({
      id: row.id, text: row.text, share: row.after,
      value: row.inside ? `${exact ? "" : "≤ "}${percent(row.after)} · ${fixed(row.score)}` : TEXT.belowCutoff,
    }));
    const shown = likeliest(video, masked);
    renew(this.views, [[picture ? TEXT.givenThePicture : TEXT.givenTheVideo, video], ...(two ? [[second, masked]] : [])].map(([title, bars], i) =>
      barsOf(/** @type {string} */ (title), KINDS[i], shown.map((at) => /** @type {Bar[]} */ (bars)[at]))));
    renew(this.score, two ? [barsOf(TEXT.resultingScore, KINDS[2], [...scores].sort((a, b) => b.share - a.share).slice(0, MOST))] : []);
  }
}

/**
 * The places of the candidates that either view finds likeliest, by their share given the video: both lists
 * stand in one order, so that a token's change reads across.
 * @param {Bar[]} video @param {Bar[]} masked none for an answer of one view @returns {number[]}
 */
function likeliest(video, masked) {
  /** @type {(bars: Bar[]) => number[]} places, equal ones in their order */
  const order = (bars) => bars.map((_, i) => i).sort((a, b) => bars[b].share - bars[a].share);
  const [first, second] = [order(video), order(masked)], chosen = new Set();
  for (let rank = 0; chosen.size < Math.min(MOST, video.length); rank++) {
    for (const one of [first[rank], second[rank]]) if (one !== undefined && chosen.size < MOST) chosen.add(one);
  }
  return first.filter((i) => chosen.has(i));
}

/** @param {string} title @param {string} kind of its class @param {Bar[]} bars in their order */
function barsOf(title, kind, bars) {
  const top = bars.reduce((best, { share }, i) => (share > bars[best].share ? i : best), 0);
  return el("div", { class: `mv-bar-list mv-bars-${kind}` }, el("h4", {}, title),
    el("ol", {}, bars.map(({ id, text, share, value }, i) => el("li", {
      class: i === top ? "mv-bar-best" : "", "data-token": id, "aria-label": barLabel(text, value, i === top),
    },
    el("span", { class: "mv-bar-name", title: candidateName(text, id) }, candidateName(text, id)),
    el("span", { class: "mv-bar-track" }, el("span", { class: "mv-bar-fill", style: { width: `${(100 * share).toFixed(2)}%` } })),
    el("span", { class: "mv-bar-value" }, value)))));
}
