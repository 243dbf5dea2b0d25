// @ts-check
// Answers as aligned token strips, and what stood behind one token under both views.

import { all, el } from "./dom.js";
import { Flips } from "./flips.js";
import { differenceBar } from "./occlusion.js";
import { rescore } from "./rescore.js";
import { percent, signed, visible } from "./text.js";

/** @import { Answer, Row, Rule, Send, TokenStep, Trace } from "./types" */
/** @import { State } from "./state.js" */

export class Tokens {
  /**
   * @param {State} state
   * @param {Send} send
   */
  constructor(state, send) {
    this.state = state;
    /** @type {Rule | null} */
    this.rule = null;
    this.version = 0;
    this.said = "";
    this.drawn = "";
    this.strips = el("div", { class: "mv-strips" });
    this.verdict = el("p", { class: "mv-verdict" });
    this.table = el("div", { class: "mv-table" });
    this.sliders = {
      alpha: this.slider("alpha", "α"),
      beta: this.slider("beta", "β"),
    };
    this.again = el("button", {
      type: "button", class: "mv-button", hidden: true,
      on: { click: () => { if (this.rule) send({ do: "redecode", ...this.rule }); } },
    }, "Continue decoding from here");
    this.live = el("div", { class: "mv-live" }, Object.values(this.sliders).map((s) => s.root), this.again);
    this.error = el("p", { class: "mv-error", role: "alert", hidden: true });
    this.flips = new Flips(state, (answer) => this.ruleOf(answer));
    this.root = el("section", { class: "mv-tokens", "aria-label": "Answers" },
      el("h3", {}, "Answers"), this.verdict, this.strips, this.live, this.error, this.table, this.flips.root);
  }

  /**
   * @param {keyof Rule} name
   * @param {string} sign
   */
  slider(name, sign) {
    const input = el("input", {
      type: "range", min: 0, "aria-label": sign,
      on: { input: () => this.move(name, Number(input.value)) },
    });
    const shown = el("output", {});
    return { input, shown, root: el("label", {}, `${sign} `, input, shown) };
  }

  /**
   * Moving α or β scores the stored logits anew, in the browser.
   *
   * @param {keyof Rule} name
   * @param {number} value
   */
  move(name, value) {
    if (this.rule) this.rule = { ...this.rule, [name]: value };
    this.state.set({});
  }

  /**
   * @param {Answer} answer
   * @returns {Rule}
   */
  ruleOf(answer) {
    return answer.method === "macd" && this.rule ? this.rule : answer;
  }

  answers() {
    const { baseline, macd } = this.state.shown.answers;
    return [baseline, macd].filter((answer) => answer !== undefined);
  }

  divergence() {
    const [base, macd] = this.answers();
    if (!base || !macd) return -1;
    const n = Math.min(base.tokens.length, macd.tokens.length);
    for (let i = 0; i < n; i++) if (base.tokens[i].token !== macd.tokens[i].token) return i;
    return -1;
  }

  /** @param {Trace} trace */
  load(trace) {
    this.version += 1;
    for (const name of /** @type {(keyof Rule)[]} */ (["alpha", "beta"])) {
      const { max, step } = this.state.constants[name];
      Object.assign(this.sliders[name].input, { max: String(max), step: String(step) });
    }
    const answers = this.answers();
    const parts = this.divergence();
    const macd = trace.answers.macd;
    this.rule = macd ? { alpha: macd.alpha, beta: macd.beta } : null;
    this.live.hidden = !macd || !macd.tokens.some((t) => t.counter);
    this.strips.replaceChildren(...answers.map((answer) => this.strip(answer, parts)));
    if (trace.former) this.strips.append(this.formerStrip(trace.former));
    this.verdict.textContent = this.said = this.say(answers, parts);
    this.draw();
  }

  // Marks where the moved α and β would choose otherwise; what follows belongs to another path.
  drawRule() {
    const answer = this.state.shown.answers.macd;
    const { rule } = this;
    if (!answer || !rule) return;
    for (const name of /** @type {(keyof Rule)[]} */ (["alpha", "beta"])) {
      this.sliders[name].input.value = String(rule[name]);
      this.sliders[name].shown.textContent = rule[name].toFixed(2);
    }
    let left = -1, instead = "";
    answer.tokens.forEach((step, i) => {
      if (left >= 0 || !step.counter) return;
      const { rows, chosen } = rescore(step, rule.alpha, rule.beta, answer.head);
      if (rows[chosen].id !== step.token) [left, instead] = [i, rows[chosen].text];
    });
    const moved = rule.alpha !== answer.alpha || rule.beta !== answer.beta;
    for (const button of all(this.strips, "[data-method=macd] .mv-token")) {
      const i = Number(button.dataset.index);
      const turned = moved && i === left;
      button.classList.toggle("mv-turned", turned);
      button.classList.toggle("mv-beyond", moved && left >= 0 && i > left);
      const text = visible(answer.tokens[i].text);
      button.textContent = turned ? `${text} → ${visible(instead)}` : text;
    }
    this.verdict.textContent = moved && left >= 0
      ? `With these, token ${left + 1} becomes ${visible(instead)}; the path diverges there.`
      : this.said;
    this.again.hidden = !this.state.server || !moved;
    this.again.textContent = left >= 0 ? "Continue decoding from here" : "Apply these values";
    this.again.disabled = Boolean(this.state.busy);
  }

  /**
   * @param {Answer[]} answers
   * @param {number} parts
   */
  say(answers, parts) {
    if (answers.length < 2 || !answers[1].finished) return answers.length ? "decoding …" : "";
    if (parts < 0) return "Both ways of decoding give the same answer.";
    return `The answers diverge at token ${parts + 1}. ${answers[1].constant || ""}`.trim();
  }

  /**
   * @param {Answer} answer
   * @param {number} parts
   */
  strip(answer, parts) {
    return el("div", { class: "mv-strip", "data-method": answer.method },
      el("span", { class: "mv-strip-name" }, answer.method === "macd" ? "MACD" : "Baseline"),
      el("div", { class: "mv-strip-tokens" }, answer.tokens.map((step, i) =>
        el("button", {
          type: "button", "data-index": i,
          class: `mv-token${i === parts ? " mv-parts" : ""}`,
          title: i === parts ? "here the answers part" : `token ${i + 1}, id ${step.token}`,
          on: { click: () => this.state.set({ token: i, method: answer.method, picked: true }) },
        }, visible(step.text)))));
  }

  /** @param {Answer} answer */
  formerStrip(answer) {
    return el("div", { class: "mv-strip mv-former" },
      el("span", { class: "mv-strip-name" }, "MACD (before edit)"),
      el("div", { class: "mv-strip-tokens" },
        answer.tokens.map((t) => el("span", { class: "mv-token" }, visible(t.text)))));
  }

  draw() {
    const { shown: trace, token, method, hover, track, busy } = this.state;
    const { alpha, beta } = this.rule || {};
    const key = [this.version, token, method, hover, track, busy, alpha, beta].join(" ");
    if (key === this.drawn) return; // another frame changes nothing here
    this.drawn = key;
    this.drawRule();
    for (const button of all(this.strips, "button.mv-token")) {
      const strip = /** @type {HTMLElement | null} */ (button.closest(".mv-strip"));
      const mine = strip?.dataset.method === method;
      button.setAttribute("aria-pressed", String(mine && Number(button.dataset.index) === token));
    }
    this.lightEffects();
    const answer = trace.answers[method];
    const step = answer && answer.tokens[token];
    this.table.replaceChildren(...(step ? this.rows(answer, step) : []));
    this.flips.draw();
  }

  // Underlines the baseline's tokens by what hiding the object in hand alone does to each.
  lightEffects() {
    const { shown: trace, hover, track } = this.state;
    const k = hover ?? track;
    const changes = trace.occlusion && k !== null ? trace.occlusion.token_change[k] : [];
    const colour = k === null ? "" : trace.tracks[k].colour;
    const top = Math.max(...changes.map(Math.abs), 1e-9);
    for (const button of all(this.strips, "[data-method=baseline] button.mv-token")) {
      const change = changes[Number(button.dataset.index)];
      button.style.boxShadow = change === undefined ? ""
        : `inset 0 ${-(1 + 5 * Math.abs(change) / top).toFixed(1)}px 0 ${colour}`;
      if (change !== undefined) button.title = `hiding this object alone: ${signed(change)} to its log p`;
    }
  }

  /**
   * @param {Answer} answer
   * @param {TokenStep} step
   */
  rows(answer, step) {
    const two = Boolean(step.counter);
    const { alpha, beta } = this.ruleOf(answer);
    const { rows, chosen, exact } = rescore(step, two ? alpha : 0, two ? beta : 0, answer.head);
    const order = rows.map((_, i) => i).sort((a, b) => rows[b].score - rows[a].score || rows[b].base - rows[a].base);
    const place = new Map(order.map((i, rank) => [i, rank + 1]));
    const shown = order.slice(0, 8);
    const widest = Math.max(...shown.map((i) => Math.abs(rows[i].difference)), 1e-9);
    const head = two
      ? ["token", "logit V", "logit V_d", "difference", "score", "p before", "p after", "rank"]
      : ["token", "logit V", "p"];
    const note = two
      ? `Token ${step.index + 1}: score = (1+α)·logit(V) − α·logit(V_d), α ${alpha}, β ${beta}`
      : `Token ${step.index + 1} of the baseline: greedy on the video as it is`;
    return [
      el("p", { class: "mv-note" }, note),
      el("div", { class: "mv-scroll", tabindex: "0", role: "region", "aria-label": "Candidates" },
        el("table", {},
          el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))),
          el("tbody", {}, shown.map((i) => candidateRow(rows[i], step, {
            chosen: i === chosen, widest, before: i + 1, after: place.get(i) || 0, exact,
          }))))),
    ];
  }
}

/**
 * A candidate as a row of the table; with both views where the token has them.
 *
 * @param {Row} r
 * @param {TokenStep} step
 * @param {{ chosen: boolean, widest: number, before: number, after: number, exact: boolean }} place its ranks, and how it stands to the others
 */
export function candidateRow(r, step, { chosen, widest, before, after, exact }) {
  const two = Boolean(step.counter);
  const bar = differenceBar(r.difference, widest);
  const rank = !r.inside ? `${before} → –` : before === after ? `${before}` : `${before} → ${after}`;
  const name = el("th", { scope: "row", class: "mv-piece" }, visible(r.text),
    r.id === step.token ? el("span", { class: "mv-chosen" }, " ← chosen") : null);
  const cells = two
    ? [r.base.toFixed(2), r.counter.toFixed(2), el("span", {}, signed(r.difference), bar),
      r.inside ? r.score.toFixed(2) : el("span", { title: "below the plausibility cut" }, "below β cutoff"), percent(r.before),
      exact || !r.inside ? percent(r.after)
        : el("span", { title: "not every token of the head is stored" }, `≤ ${percent(r.after)}`), rank]
    : [r.base.toFixed(2), percent(r.before)];
  return el("tr", { class: `${chosen ? "mv-top" : ""}${r.inside ? "" : " mv-out"}` },
    name, cells.map((c) => el("td", {}, c)));
}
