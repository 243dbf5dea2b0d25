// @ts-check
// Answers as aligned token strips, and what stood behind one token under both views.

import { differenceBar } from "./controls.js";
import { all, button, el, errorLine, renew, scrolled, setText } from "./dom.js";
import { Flips } from "./flips.js";
import { differenceText } from "./happened.js";
import { endsOf, keyed, nearest, placesOf } from "./ranges.js";
import { certify, isLocked, rescore } from "./rescore.js";
import { contrasts, divergence, endOf, references, takesAlpha } from "./state.js";
import { isMoved, turnOf } from "./statements.js";
import { differingTokens, previousStrip, showsChips, strip, tokenText } from "./strips.js";
import { CERTIFICATES, candidatesNote, effectText, lockText, notRescored, searchNote, thoughtText, tokenTitle } from "./strings/answers.js";
import { HEADS, TEXT } from "./strings/labels.js";
import { capitalized } from "./strings/parts.js";
import { candidateName, exactly, fixed, percent, signed } from "./text.js";

/** @import { Answer, Pair, Row, Rule, Send, TokenStep, Trace } from "./types" */
/** @import { State } from "./state.js" */

export class Tokens {
  /** @param {State} state @param {Send} send @param {() => void} rescored called when α or β moved: nothing else did */
  constructor(state, send, rescored) {
    this.state = state;
    this.rescored = rescored;
    /** @type {Rule | null} */
    this.rule = null;
    /** @type {Rule} where the sliders end */
    this.limits = { alpha: 0, beta: 0 };
    this.scored = ""; // the answer that `rule` scores
    this.version = 0;
    this.drawn = "";
    /** @type {(Answer | undefined)[]} the reference and the contrast that the strips were built for */
    this.built = [];
    this.choices = { reference: this.choice("reference"), contrast: this.choice("contrast") };
    this.pair = el("div", { class: "mv-pair" }, Object.values(this.choices).map((c) => c.root));
    this.ends = button(TEXT.endTokens, () => state.set({ ends: !state.ends }),
      { class: "mv-toggle", "aria-pressed": "false", title: TEXT.endTokensHint });
    this.chips = button(TEXT.asChips, () => state.set({ chips: !this.shownAsChips }),
      { class: "mv-toggle", "aria-pressed": "false", title: TEXT.asChipsHint });
    this.shownAsChips = true;
    this.thoughts = el("div", {});
    this.strips = el("div", { class: "mv-strips" });
    this.verdict = el("p", { class: "mv-verdict" });
    this.table = el("div", { class: "mv-table" });
    this.note = el("p", { class: "mv-note" });
    this.candidates = el("tbody", { role: "rowgroup" });
    this.heads = ""; // the columns that the table was made for
    this.sliders = {
      alpha: this.slider("alpha", "α"),
      beta: this.slider("beta", "β"),
    };
    this.again = button(TEXT.continueDecodingFromHere, () => this.continueDecoding(send), { hidden: true });
    this.live = el("div", { class: "mv-live" }, Object.values(this.sliders).map((s) => s.root), this.again);
    this.reason = el("p", { class: "mv-note" });
    this.error = errorLine();
    this.flips = new Flips(state, (answer) => this.ruleOf(answer), (answer) => this.endsOf(answer), (rule) => { this.rule = rule; rescored(); });
    this.root = el("section", { class: "mv-tokens", "aria-label": TEXT.answers },
      el("div", { class: "mv-block-head" }, el("h3", {}, TEXT.answers), el("div", { class: "mv-edit" }, this.chips, this.ends)), this.pair, this.thoughts, this.verdict, this.strips, this.table, this.flips.root);
  }

  /**
   * A list of the answers to choose from for one place of the pair, when there are several.
   * @param {keyof Pair} place
   */
  choice(place) {
    const select = el("select", {
      on: { change: () => this.choose({ [place]: select.value }) },
    });
    const title = place[0].toUpperCase() + place.slice(1);
    return { select, root: el("label", { hidden: true }, `${title} `, select) };
  }

  /** Shows another pair of answers, from where they diverge. @param {Partial<Pair>} names */
  choose(names) {
    this.state.selectedPair = { ...this.state.selectedPair, ...names };
    const { contrast, reference } = this.state;
    this.state.set({
      token: this.opening(), picked: false, tool: null,
      method: (contrast || reference)?.method ?? "macd",
    });
  }

  /** @param {keyof Rule} name @param {string} sign */
  slider(name, sign) {
    const input = el("input", {
      type: "range", min: 0, step: "any", "aria-label": sign,
      on: {
        input: () => {
          const places = this.placesOf(name);
          this.move(name, places[nearest(places, Number(input.value))]);
        },
        keydown: (/** @type {KeyboardEvent} */ event) => this.press(name, event),
      },
    });
    const shown = el("output", {});
    return { input, shown, root: el("div", { class: "mv-slider" }, el("span", { class: "mv-sign" }, sign), " ", input, shown) };
  }

  /**
   * Moving α or β scores the stored logits again, in the browser.
   * @param {keyof Rule} name @param {number} value
   */
  move(name, value) {
    if (this.rule) this.rule = { ...this.rule, [name]: value };
    this.rescored();
  }

  /** @param {keyof Rule} name @param {KeyboardEvent} event */
  press(name, event) {
    if (!this.rule || event.ctrlKey || event.altKey || event.metaKey) return;
    const value = keyed(this.placesOf(name), this.rule[name], event.key);
    if (value === null) return;
    event.preventDefault();
    this.move(name, value);
  }

  /** Where a slider stops: at its steps, at the rows of the map, and at the answer's own value. @param {keyof Rule} name */
  placesOf(name) {
    const { constants, contrast } = this.state;
    const own = contrast ? [contrast[name]] : [], rows = name === "beta" ? constants.flips.betas : [];
    const least = name === "beta" && contrast ? Math.min(contrast.least_beta, contrast.beta) : 0;
    return placesOf(constants[name], this.limits[name], [...own, ...rows]).filter((value) => value >= least);
  }

  /** @param {Answer} answer @returns {Rule} */
  endsOf(answer) {
    return answer === this.state.contrast ? this.limits : endsOf(this.state.constants, answer);
  }

  /** @param {Answer} answer @returns {Rule} */
  ruleOf(answer) {
    return answer === this.state.contrast && this.rule ? this.rule : answer;
  }

  /** What is looked at, for what the page says of it. @returns {import("./statements.js").Shown} */
  shown() {
    const { reference, contrast, running } = this.state;
    return { reference, contrast, rule: this.rule, running };
  }

  answers() {
    const { reference, contrast } = this.state;
    return [reference, contrast].filter((answer) => answer !== undefined);
  }

  divergence() {
    const { reference, contrast } = this.state;
    if (!reference || !contrast) return -1;
    const at = divergence(reference, contrast);
    return this.state.running && at === contrast.tokens.length ? -1 : at; // the rest is still to come
  }

  /** The contrast's token that is looked at first: the one that differs, or its last where it stops before. */
  opening() {
    const last = (this.state.contrast?.tokens.length ?? 1) - 1;
    return Math.max(0, Math.min(this.divergence(), last));
  }

  /**
   * The last token that is shown and can be chosen: not the one that ends the answer, while hidden.
   * @param {Answer} answer
   */
  lastShown(answer) {
    const last = answer.tokens.length - 1;
    return last > 0 && this.hidesEnd(answer, last) ? last - 1 : Math.max(0, last);
  }

  /**
   * Whether a token is one that ends its answer and is left out: it holds no words. It stays where the
   * answers diverge there, where it alone is left, and where it is chosen.
   * @param {Answer} answer @param {number} i
   */
  hidesEnd(answer, i) {
    const { ends, method, token, picked } = this.state;
    if (ends || i !== endOf(answer) || answer.tokens.length < 2) return false;
    const chosen = picked && method === answer.method && token === i;
    return !chosen && i !== this.divergence();
  }

  /** @param {Trace} trace */
  load(trace) {
    this.fill("reference", references(trace));
    this.fill("contrast", contrasts(trace));
    this.pair.hidden = Object.values(this.choices).every(({ root }) => root.hidden);
    this.build(trace);
    this.draw();
  }

  /** @param {keyof Pair} place @param {Answer[]} answers */
  fill(place, answers) {
    const { select, root } = this.choices[place];
    select.replaceChildren(...answers.map((a) => el("option", { value: a.method }, a.title)));
    root.hidden = answers.length < 2;
  }

  /** The strips of the pair, and what moves with it. @param {Trace} trace */
  build(trace) {
    const { reference, contrast } = this.state;
    const answers = this.answers();
    const divergesAt = this.divergence();
    this.version += 1;
    this.built = [reference, contrast];
    this.choices.reference.select.value = reference?.method ?? "";
    this.choices.contrast.select.value = contrast?.method ?? "";
    const two = Boolean(contrast && contrast.tokens.some((t) => t.others.length));
    const able = Boolean(contrast && takesAlpha(contrast)) && !trace.lazy;
    const scored = contrast && able ? scoredAnswer(trace, contrast) : "";
    // what was measured comes as the same answer again, whose α and β may have been moved
    if (!scored || scored !== this.scored) {
      this.rule = contrast && able ? { alpha: contrast.alpha, beta: contrast.beta } : null;
      this.limits = endsOf(this.state.constants, ...(this.rule ? [this.rule] : []));
    }
    this.scored = scored;
    this.live.hidden = !two || !able;
    const fixedScores = trace.lazy && contrast ? TEXT.lazyRun : two && !able && contrast ? notRescored(contrast.rule) : "";
    this.reason.textContent = sentences(fixedScores, searchNote(trace.decode));
    this.thoughts.replaceChildren(...thoughts(trace, answers));
    this.shownAsChips = showsChips(answers, this.state.chips);
    const differing = this.shownAsChips ? [] : differingTokens(answers);
    this.strips.replaceChildren(...answers.map((answer, k) => strip(answer, {
      divergesAt, differing: differing[k] ?? new Set(), chips: this.shownAsChips, running: this.state.running,
      pick: (i) => this.state.set({ token: i, method: answer.method, picked: true }),
    })));
    if (trace.previous && contrast?.method === "macd") this.strips.append(previousStrip(trace.previous, this.state.ends, this.shownAsChips));
    this.verdict.textContent = differenceText(this.shown(), null);
  }

  /** @param {Send} send */
  continueDecoding(send) {
    const { contrast } = this.state;
    if (this.rule && contrast) send({ do: "redecode", method: contrast.method, ...this.rule });
  }

  // Why the answer in hand cannot be decoded on, as a sentence; empty where it can.
  whyNotAgain() {
    const why = this.state.contrast?.cannot_redecode ?? "";
    return why && `${capitalized(why)}.`;
  }

  // Marks where the moved α and β would choose otherwise; what follows belongs to another path.
  drawRule() {
    const { contrast: answer, loaded: { decode } } = this.state;
    const { rule } = this;
    if (!answer || !rule) return;
    this.limits = endsOf(this.state.constants, this.limits, rule); // an address may lie beyond
    for (const name of /** @type {(keyof Rule)[]} */ (["alpha", "beta"])) {
      Object.assign(this.sliders[name].input, { max: String(this.limits[name]), value: String(rule[name]) });
      setText(this.sliders[name].shown, exactly(rule[name]));
    }
    const shown = this.shown(), turn = turnOf(this.state.loaded, shown), left = turn?.index ?? -1;
    const moved = isMoved(shown);
    for (const button of this.buttonsOf(answer)) {
      const i = Number(button.dataset.index);
      const turned = moved && i === left;
      button.classList.toggle("mv-turned", turned);
      button.classList.toggle("mv-beyond", moved && left >= 0 && i > left);
      const text = tokenText(answer.tokens[i].text, this.shownAsChips);
      setText(button, turned && turn ? `${text} → ${turn.ends ? TEXT.endsHere : tokenText(turn.text, this.shownAsChips)}` : text);
      if (turned) button.hidden = false; // an end token that becomes a word is worth seeing
    }
    setText(this.verdict, differenceText(shown, turn));
    const why = this.whyNotAgain();
    this.again.hidden = !this.state.can("redecode") || !moved;
    setText(this.again, left >= 0 ? TEXT.continueDecodingFromHere : TEXT.applyTheseValues);
    this.again.disabled = Boolean(this.state.busy) || why !== "";
    setText(this.reason, sentences(this.again.hidden ? "" : why, searchNote(decode)));
  }

  // Marks the tokens that no contrast can change, under the β in hand.
  drawLocks() {
    for (const answer of this.answers()) {
      const beta = this.ruleOf(answer).beta;
      for (const button of this.buttonsOf(answer)) {
        const i = Number(button.dataset.index);
        const locked = isLocked({ ...answer, beta }, answer.tokens[i]);
        const title = tokenTitle(i, answer.tokens[i].token, i === this.divergence());
        button.classList.toggle("mv-locked", locked);
        const sure = this.certificate(answer, answer.tokens[i]);
        button.classList.toggle("mv-unsure", sure !== null && sure !== "certified");
        button.title = [title, ...(locked ? [lockText(answer.beta > 1)] : []), ...(sure ? [CERTIFICATES[sure]] : [])].join(". ");
      }
    }
  }

  /** What is certain of a token under the α and β in hand; null where no server was asked. @param {Answer} answer @param {TokenStep} step */
  certificate(answer, step) {
    const { log_p_errors: errors, decode } = this.state.loaded;
    return errors && certify(step, { ...answer, ...this.ruleOf(answer) }, errors, decode.search);
  }

  /** The tokens of an answer's strip. @param {Answer} answer */
  buttonsOf(answer) {
    return [...all(this.strips, "button.mv-token")].filter((button) => methodOf(button) === answer.method);
  }

  draw() {
    const { loaded: trace, token, method, hover, track, busy, reference, contrast, ends } = this.state;
    const chips = showsChips(this.answers(), this.state.chips) === this.shownAsChips;
    if (this.built[0] !== reference || this.built[1] !== contrast || !chips) this.build(trace);
    const { alpha, beta } = this.rule || {};
    const key = [this.version, token, method, hover, track, busy, alpha, beta, ends].join(" ");
    if (key === this.drawn) return; // another frame changes nothing here
    this.drawn = key;
    this.ends.setAttribute("aria-pressed", String(ends));
    this.chips.setAttribute("aria-pressed", String(this.shownAsChips));
    this.ends.hidden = !this.answers().some((answer) => endOf(answer) > 0);
    for (const button of all(this.strips, "button.mv-token")) {
      const answer = trace.answers[methodOf(button) ?? ""];
      button.hidden = Boolean(answer) && this.hidesEnd(answer, Number(button.dataset.index));
    }
    this.drawRule();
    this.drawLocks();
    for (const button of all(this.strips, "button.mv-token")) {
      const mine = methodOf(button) === method;
      button.setAttribute("aria-pressed", String(mine && Number(button.dataset.index) === token));
    }
    this.lightEffects();
    const answer = trace.answers[method];
    const step = answer && answer.tokens[token];
    if (step) this.fillTable(answer, step);
    else this.table.replaceChildren();
    this.flips.draw();
  }

  // Underlines the baseline's tokens by what hiding the object in hand alone does to each.
  lightEffects() {
    const { loaded: trace, hover, track } = this.state;
    const k = hover ?? track;
    const changes = trace.occlusion && k !== null ? trace.occlusion.token_change[k] : [];
    const colour = k === null ? "" : trace.tracks[k].colour;
    const top = Math.max(...changes.map(Math.abs), 1e-9);
    for (const button of all(this.strips, "[data-method=baseline] button.mv-token")) {
      const change = changes[Number(button.dataset.index)];
      button.style.boxShadow = change === undefined ? ""
        : `inset 0 ${-(1 + 5 * Math.abs(change) / top).toFixed(1)}px 0 ${colour}`;
      if (change !== undefined) button.title = effectText(change);
    }
  }

  /** @param {Answer} answer @param {TokenStep} step */
  fillTable(answer, step) {
    const two = step.others.length > 0;
    const { alpha, beta } = this.ruleOf(answer);
    const { rows, chosen, exact } = rescore(step, two ? alpha : 0, two ? beta : 0, answer.head);
    const order = rows.map((_, i) => i).sort((a, b) => rows[b].score - rows[a].score || rows[b].base - rows[a].base);
    const place = new Map(order.map((i, rank) => [i, rank + 1]));
    const shown = order.slice(0, 8);
    // with α and β in hand another token may be chosen than the answer took, which may be drawn
    const taken = alpha === answer.alpha && beta === answer.beta ? step.token : rows[chosen].id;
    const widest = Math.max(...shown.map((i) => Math.abs(rows[i].difference)), 1e-9);
    const head = HEADS.candidates(answer.method, step.others.length);
    const sure = this.certificate(answer, step);
    setText(this.note, sentences(`${candidatesNote(answer, step, { alpha, beta }, this.state.loaded.decode)}${sure ? "." : ""}`, sure ? `${CERTIFICATES[sure]}.` : ""));
    renew(this.candidates, shown.map((i) => candidateRow(rows[i], step, {
      taken, chosen: i === chosen, widest, before: i + 1, after: place.get(i) || 0, exact,
    }, head)));
    if (this.table.firstChild && this.heads === head.join()) return;
    this.heads = head.join();
    this.table.replaceChildren(this.note, scrolled(TEXT.candidates, "",
      el("table", { class: "mv-candidates", role: "table" },
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head.map((h) => el("th", { scope: "col", role: "columnheader" }, h)))),
        this.candidates)));
  }
}

/** Those that say something. @param {string[]} each */
function sentences(...each) {
  return each.filter(Boolean).join(" ");
}

/** Which answer's strip a token is in. @param {HTMLElement} button */
function methodOf(button) {
  return /** @type {HTMLElement | null} */ (button.closest(".mv-strip"))?.dataset.method;
}

/**
 * Another text for another answer, or one that was scored otherwise.
 * @param {Trace} trace @param {Answer} answer
 */
function scoredAnswer(trace, { method, alpha, beta, tokens }) {
  return JSON.stringify([trace.run, method, alpha, beta, tokens.map((t) => [t.token, t.others])]);
}

/**
 * A candidate as a row of the table; with both views where the token has them.
 * @param {Row} r @param {TokenStep} step
 * @param {{ taken: number, chosen: boolean, widest: number, before: number, after: number, exact: boolean }} place taken: the token that is marked; its ranks, and how it stands to the others
 * @param {string[]} head names of the columns, which a narrow screen shows in every row; there a table is not a grid of cells, so its roles are written out
 */
export function candidateRow(r, step, { taken, chosen, widest, before, after, exact }, head = []) {
  const two = step.others.length > 0;
  const bar = differenceBar(r.difference, widest);
  const rank = !r.inside ? `${before} → –` : before === after ? `${before}` : `${before} → ${after}`;
  const name = el("th", { scope: "row", role: "rowheader", class: "mv-piece" }, candidateName(r.text, r.id),
    r.id === taken ? el("span", { class: "mv-chosen" }, ` ${TEXT.chosen}`) : null);
  const cells = two
    ? [fixed(r.base), ...r.others.map((z) => fixed(z)), el("span", {}, signed(r.difference), bar),
      r.inside ? fixed(r.score) : el("span", { title: TEXT.belowThePlausibilityCut }, TEXT.belowCutoff), percent(r.before),
      exact || !r.inside ? percent(r.after)
        : el("span", { title: TEXT.upperBound }, `≤ ${percent(r.after)}`), rank]
    : [fixed(r.base), percent(r.before)];
  return el("tr", { role: "row", class: `${chosen ? "mv-top" : ""}${r.inside ? "" : " mv-out"}` },
    name, cells.map((c, i) => el("td", { role: "cell", "data-head": head[i + 1] }, c)));
}

/**
 * What the model wrote before its answers, folded: it is no part of them.
 * @param {Trace} trace @param {Answer[]} answers
 */
function thoughts(trace, answers) {
  const each = [{ title: "", thought: trace.thought }, ...answers.map(({ title, thought }) => ({ title, thought }))];
  return each.flatMap(({ title, thought }) => !thought ? [] : [
    el("details", { class: "mv-thought" },
      el("summary", {}, thoughtText(title, thought.tokens.length, thought.closed)), el("p", {}, thought.text)),
  ]);
}
