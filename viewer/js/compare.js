// @ts-check
// Side by side: methods of one trace, whose answers are aligned with the reference, with what each second
// view shows, time and memory; and another run next to the current one, token by token.

import { alignTokens } from "./align.js";
import { button, contextOf, el, scrolled } from "./dom.js";
import { cutText, maskedText } from "./happened.js";
import { verdictMark } from "./headline.js";
import { drawSecondView, fitted } from "./paint.js";
import { divergence, endOf } from "./state.js";
import { HEADS, TEXT } from "./strings/labels.js";
import { trackName } from "./strings/parts.js";
import { LABELS, comparison, frameText, secondViewLabel, sharedText, skippedText, viewSuffix, votesText } from "./strings/runs.js";
import { percent, plainNumber, signed, visible } from "./text.js";

/** @import { Answer, ShownView, Trace, View } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

/** The sampled frame of a trace that is nearest to a time. @param {number[]} times @param {number} time seconds */
export function nearestFrame(times, time) {
  return times.reduce((best, t, i) => (Math.abs(t - time) < Math.abs(times[best] - time) ? i : best), 0);
}

/**
 * Probability of the chosen token given the video; null where it is not among those stored.
 * @param {Answer} answer @param {number} index
 */
export function probabilityOf(answer, index) {
  const step = answer.tokens[index];
  const at = step.candidates.indexOf(step.token);
  return at < 0 ? null : Math.exp(step.base[at] - step.base_log_z);
}

/** @typedef {{ canvas: HTMLCanvasElement, caption: HTMLElement }} Pane */

// Another run next to the current one: its frame of the same time, and its answer token by token.

const SIDE = 480; // long side of the pictures, in pixels

export class Beside {
  /** @param {State} state @param {Stage} stage */
  constructor(state, stage) {
    this.state = state;
    this.stage = stage;
    /** @type {Trace | null} */
    this.other = null;
    this.built = "";
    this.screens = [TEXT.thisRun, TEXT.theOtherRun].map((name) => ({
      canvas: el("canvas", { class: "mv-canvas", role: "img", "aria-label": name }), caption: el("figcaption", {}),
    }));
    this.choices = [TEXT.answerOfThisRun, TEXT.answerOfTheOtherRun].map((name) =>
      el("select", { "aria-label": name, on: { change: () => { this.built = ""; state.set({}); } } }));
    this.facts = scrolled(TEXT.bothRuns, "mv-table");
    this.tokens = scrolled(TEXT.answersTokenByToken, "mv-aligned");
    this.close = button(TEXT.close, () => this.show(null));
    this.root = el("section", { class: "mv-beside", "aria-label": TEXT.twoRuns, hidden: true },
      el("div", { class: "mv-block-head" }, el("h3", {}, TEXT.twoRuns), this.close),
      el("div", { class: "mv-screens" }, this.screens.map(({ canvas, caption }) => el("figure", {}, canvas, caption))),
      this.facts,
      el("div", { class: "mv-pair" }, this.choices.map((select, i) => el("label", {}, [`${TEXT.thisRunLabel} `, `${TEXT.theOtherRunLabel} `][i], select))),
      this.tokens);
  }

  /** @param {Trace | null} other null: none */
  show(other) {
    this.other = other;
    this.built = "";
    this.root.hidden = !other;
    if (other) {
      for (const source of other.frames) this.stage.image(source);
      this.fill(this.choices[1], other);
    }
    this.state.set({});
    if (other) this.root.scrollIntoView({ block: "nearest" }); // what opens it may stand far below
  }

  /** @param {Trace} trace */
  load(trace) {
    this.built = "";
    this.fill(this.choices[0], trace);
  }

  /** @param {HTMLSelectElement} select @param {Trace} trace */
  fill(select, trace) {
    const names = Object.keys(trace.answers), previous = select.value;
    select.replaceChildren(...names.map((name) => el("option", { value: name }, trace.answers[name].title)));
    select.value = names.includes(previous) ? previous : names.includes("macd") ? "macd" : names[0] || "";
  }

  draw() {
    const { trace, frame, token, ends } = this.state;
    if (!trace || !this.other) return;
    const at = nearestFrame(this.other.times, trace.times[frame]);
    this.drawFrames(trace, this.other, at);
    const key = [trace.run, token, ends, this.choices.map((c) => c.value)].join(" ");
    if (key === this.built) return;
    this.built = key;
    const answers = [trace, this.other].map((t, i) => t.answers[this.choices[i].value]);
    this.facts.replaceChildren(factsTable(trace, this.other));
    this.tokens.replaceChildren(...(answers[0] && answers[1] ? [this.aligned(answers[0], answers[1])] : []));
  }

  /** @param {Trace} trace @param {Trace} other @param {number} at the other's frame */
  drawFrames(trace, other, at) {
    const { frame } = this.state, [mine, theirs] = this.screens;
    this.drawFrame(mine, trace, frame);
    this.drawFrame(theirs, other, at);
  }

  /** A frame with its objects, the same way for both runs. @param {Pane} pane @param {Trace} trace @param {number} at */
  drawFrame({ canvas, caption }, trace, at) {
    fit(canvas, trace.source);
    const context = contextOf(canvas), { width, height } = canvas;
    const image = this.stage.image(trace.frames[at]);
    context.clearRect(0, 0, width, height);
    if (image) context.drawImage(image, 0, 0, width, height);
    for (const track of trace.tracks) {
      const { boxes, colour } = track;
      const box = boxes[at];
      if (!box) continue;
      const [x0, y0, x1, y1] = box;
      context.strokeStyle = context.fillStyle = colour;
      context.lineWidth = 3;
      context.strokeRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
      context.font = "600 15px system-ui, sans-serif";
      const text = fitted(context, { track }, 0.6 * width), top = Math.max(0, y0 * height - 20);
      const wide = context.measureText(text).width + 10, left = Math.min(x0 * width, width - wide);
      context.fillRect(left, top, wide, 20);
      context.fillStyle = "#111111";
      context.fillText(text, left + 5, top + 15);
    }
    caption.textContent = frameText(at, trace.times);
  }

  /** @param {Answer} first @param {Answer} second */
  aligned(first, second) {
    /** @type {(answer: Answer) => string[]} */
    const texts = (answer) => answer.tokens.slice(0, this.state.ends || endOf(answer) < 1 ? undefined : endOf(answer)).map((t) => t.text);
    const pairs = alignTokens(texts(first), texts(second));
    /** @type {(name: string, answer: Answer, place: 0 | 1) => HTMLElement} */
    const row = (name, answer, place) => el("tr", {}, el("th", { scope: "row" }, name),
      pairs.map((pair) => {
        const i = pair[place], other = pair[1 - place];
        if (i === null) return el("td", { class: "mv-gap" }, "–");
        const same = other !== null && first.tokens[/** @type {number} */ (pair[0])].text === second.tokens[/** @type {number} */ (pair[1])].text;
        const p = probabilityOf(answer, i);
        const text = visible(answer.tokens[i].text);
        const inner = place ? el("span", { class: "mv-token" }, text) : button(text, () => this.state.set({ token: i, method: answer.method, picked: true }), { class: "mv-token" });
        return el("td", { class: same ? "" : "mv-differs" }, inner, el("small", {}, p === null ? "" : ` ${percent(p)}`));
      }));
    return el("table", {}, el("caption", {}, TEXT.sharesGivenTheVideo), el("tbody", {}, row(TEXT.thisRunLabel, first, 0), row(TEXT.theOtherRunLabel, second, 1)));
  }
}

/** @param {HTMLCanvasElement} canvas @param {number[]} size */
function fit(canvas, [width, height]) {
  const scale = SIDE / Math.max(width, height);
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
}

/** @param {Trace} trace @param {Trace} other */
function factsTable(trace, other) {
  /** @type {[string, (t: Trace) => string][]} */
  const facts = [
    ["question", (t) => t.question], ["clip", (t) => t.clip], ["backbone", (t) => t.backbone], [TEXT.weights, (t) => t.took.weights || TEXT.none],
    ["objects", (t) => t.tracks.map(trackName).join(", ") || TEXT.none],
    ["masks", (t) => maskedText(t)],
    ["answers", (t) => Object.values(t.answers).map((a) => `${a.title}: ${a.text || "∅"}`).join("; ")],
  ];
  return el("table", {},
    el("thead", {}, el("tr", {}, ["", TEXT.thisRunLabel, TEXT.theOtherRunLabel].map((name) => (name ? el("th", { scope: "col" }, name) : el("td"))))),
    el("tbody", {}, facts.map(([name, of]) => {
      const both = [of(trace), of(other)];
      return el("tr", { class: both[0] === both[1] ? "" : "mv-differs" }, el("th", { scope: "row" }, name), both.map((text) => el("td", {}, text)));
    })));
}

// Methods side by side: answers aligned with the reference, what each second view shows, per-token
// differences, time and memory. Only shown when there are more than two answers.

/** @typedef {{ name: string, title: string, answer: Answer, view: View, shown: ShownView["shown"] }} NamedView a second view of an answer */
/** @typedef {{ canvas: HTMLCanvasElement, caption: HTMLElement, choice: HTMLSelectElement, root: HTMLElement }} Screen */

export class Compare {
  /**
   * @param {State} state @param {Stage} stage
   * @param {(method: string) => void} open shows a method's answer and view in the panels above
   */
  constructor(state, stage, open) {
    this.state = state;
    this.stage = stage;
    this.open = open;
    /** @type {NamedView[]} */
    this.views = [];
    this.rows = el("tbody");
    this.heads = el("tr");
    this.drawnFor = ""; // the pair that the rows were drawn for
    this.shared = el("p", { class: "mv-note" });
    this.screens = [0, 1].map(() => this.screen());
    this.root = el("section", { class: "mv-compare", "aria-label": TEXT.methods, hidden: true },
      el("h3", {}, TEXT.methods),
      el("div", { class: "mv-screens" }, this.screens.map((s) => s.root)),
      scrolled(TEXT.methodsTable, "", el("table", { class: "mv-methods" }, el("thead", {}, this.heads), this.rows)),
      this.shared);
  }

  /** @returns {Screen} */
  screen() {
    const canvas = el("canvas", { class: "mv-canvas", role: "img" });
    const caption = el("div", { class: "mv-caption" });
    const choice = el("select", { "aria-label": TEXT.secondViewOf, on: { change: () => this.draw() } });
    return { canvas, caption, choice, root: el("div", {}, choice, canvas, caption) };
  }

  /** @param {Trace} trace */
  load(trace) {
    const answers = Object.values(trace.answers);
    this.root.hidden = answers.length < 3 && !trace.skipped.length;
    if (this.root.hidden) return;
    this.views = answers.flatMap(viewsOf).filter(({ view }) => view.kind);
    const names = this.views.map(({ name }) => name);
    this.drawnFor = "";
    this.screens.forEach((screen, i) => {
      const previous = screen.choice.value;
      screen.choice.replaceChildren(...this.views.map(({ name, title }) => el("option", { value: name }, title)));
      screen.choice.value = names.includes(previous)
        ? previous : names[Math.min(i, names.length - 1)] ?? "";
    });
    this.drawRows(trace);
    this.shared.textContent = sharedText(trace.seed, trace.shared);
  }

  /** @param {Trace} trace */
  drawRows(trace) {
    const { reference, contrast, ends } = this.state;
    this.drawnFor = [reference?.method, contrast?.method, ends].join(" ");
    const name = reference && (reference.method === "baseline" ? TEXT.theBaseline : reference.title);
    this.heads.replaceChildren(...HEADS.methods(name || "").map((head) => el("th", { scope: "col" }, head)));
    const heads = this.heads.childElementCount;
    this.rows.replaceChildren(...Object.values(trace.answers).map((a) => this.row(trace, a, reference)),
      ...trace.skipped.map(({ method, title, reason }) => el("tr", { "data-method": method, class: "mv-skipped" },
        el("th", { scope: "row" }, title), el("td", { colspan: heads - 1 }, skippedText(reason)))));
  }

  /** @param {Trace} trace @param {Answer} answer @param {Answer | undefined} base */
  row(trace, answer, base) {
    const at = !base || answer === base ? -1 : divergence(answer, base);
    const shown = answer.tokens.filter((_, i) => this.state.ends || i === at || i !== endOf(answer) || i === 0);
    const words = answer.tokens.length
      ? shown.map((t) => el("span", { class: t === answer.tokens[at] ? "mv-parts" : "" }, visible(t.text), " "))
      : [visible(answer.text)];
    const { contrast, reference } = this.state;
    const opened = answer === contrast || answer === reference;
    const votes = votesText(answer.votes);
    const two = answer.tokens.some((t) => t.others.length);
    const linear = two && answer.rule === "linear";
    return el("tr", { "data-method": answer.method },
      el("th", { scope: "row" }, answer.title),
      el("td", { class: "mv-words" }, words, answer.finished || this.state.running ? null : el("small", {}, ` ${cutText(answer.tokens.length)}`), verdictMark(answer, trace.truth), votes ? el("small", {}, votes) : null),
      el("td", {}, !base || answer === base ? "" : comparison(answer.text, base.text)),
      el("td", {}, two ? differences(answer) : ""),
      el("td", {}, linear ? plainNumber(answer.alpha) : ""),
      el("td", {}, linear ? plainNumber(answer.beta) : ""),
      el("td", {}, answer.ms.toFixed(0)),
      el("td", {}, answer.total_ms ? answer.total_ms.toFixed(0) : ""),
      el("td", {}, answer.memory_mb ? answer.memory_mb.toFixed(0) : ""),
      el("td", {}, !answer.tokens.length ? "" : button(opened ? TEXT.shown : TEXT.open, () => this.open(answer.method),
        { "aria-pressed": String(opened), "aria-label": LABELS.open(answer.title) })));
  }

  draw() {
    const { trace, frame } = this.state;
    if (this.root.hidden || !trace) return;
    const { reference, contrast, ends } = this.state;
    if (this.drawnFor !== [reference?.method, contrast?.method, ends].join(" ")) this.drawRows(trace);
    for (const screen of this.screens) {
      const named = this.views.find(({ name }) => name === screen.choice.value);
      if (named) this.drawView(screen, named, trace, frame);
    }
  }

  /** @param {Screen} screen @param {NamedView} named @param {Trace} trace @param {number} frame */
  drawView({ canvas, caption }, named, trace, frame) {
    const [width, height] = trace.model ? trace.model.size : trace.source;
    const scale = 480 / Math.max(width, height);
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    const picture = this.stage.secondView(named.shown, frame);
    const note = drawSecondView(contextOf(canvas), named, trace, frame, picture, this.state.token);
    caption.textContent = note;
    canvas.setAttribute("aria-label", secondViewLabel(named.title, frame, note));
  }
}

/** @param {Answer} answer @returns {NamedView[]} */
function viewsOf(answer) {
  const { method, title } = answer;
  return answer.second_views.map((one, k) => {
    const which = viewSuffix(k);
    return { ...one, answer, name: method + which, title: title + which };
  });
}

/**
 * Small multiples: logit under V minus logit under the second view, of each chosen token.
 * @param {Answer} answer
 */
function differences(answer) {
  const values = answer.tokens.map((t) => {
    const i = t.candidates.indexOf(t.token);
    return t.others.length ? t.base[i] - t.others[0][i] : 0;
  });
  const top = Math.max(...values.map(Math.abs), 1);
  return el("span", { class: "mv-multiples", role: "img",
    "aria-label": LABELS.differences(values) },
  values.map((v, i) => el("span", { title: `${visible(answer.tokens[i].text)} ${signed(v)}` },
    el("span", {
      class: v >= 0 ? "mv-more" : "mv-less",
      style: { height: `${(50 * Math.abs(v)) / top}%`, [v >= 0 ? "bottom" : "top"]: "50%" },
    }))));
}
