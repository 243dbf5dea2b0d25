// @ts-check
// Methods side by side: answers aligned with the reference, what each second view shows, per-token
// differences, time and memory. Only shown when there are more than two answers.

import { contextOf, el } from "./dom.js";
import { percent, signed, unpackBits, visible } from "./text.js";

/** @import { Answer, ShownView, Trace, View } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */
/** @typedef {{ name: string, answer: Answer, view: View, shown: ShownView["shown"] }} NamedView a second view of an answer */
/** @typedef {{ canvas: HTMLCanvasElement, caption: HTMLElement, choice: HTMLSelectElement, root: HTMLElement }} Screen */

export class Compare {
  /**
   * @param {State} state
   * @param {Stage} stage
   */
  constructor(state, stage) {
    this.state = state;
    this.stage = stage;
    /** @type {NamedView[]} */
    this.views = [];
    this.rows = el("tbody");
    this.against = el("th", { scope: "col" });
    /** @type {Answer | undefined} what the rows were drawn against */
    this.drawnAgainst = undefined;
    this.shared = el("p", { class: "mv-note" });
    this.screens = [0, 1].map(() => this.screen());
    this.root = el("section", { class: "mv-compare", "aria-label": "Methods", hidden: true },
      el("h3", {}, "Methods"),
      el("div", { class: "mv-screens" }, this.screens.map((s) => s.root)),
      el("div", { class: "mv-scroll", tabindex: "0", role: "region", "aria-label": "Methods table" },
        el("table", { class: "mv-methods" },
          el("thead", {}, el("tr", {}, ["method", "answer", this.against, "difference by token", "α",
            "β", "ms added", "ms in all", "peak MB"].map((h) =>
            (typeof h === "string" ? el("th", { scope: "col" }, h) : h)))),
          this.rows)),
      this.shared);
  }

  /** @returns {Screen} */
  screen() {
    const canvas = el("canvas", { class: "mv-canvas", role: "img" });
    const caption = el("div", { class: "mv-caption" });
    const choice = el("select", { "aria-label": "Second view of", on: { change: () => this.draw() } });
    return { canvas, caption, choice, root: el("div", {}, choice, canvas, caption) };
  }

  /** @param {Trace} trace */
  load(trace) {
    const answers = Object.values(trace.answers);
    this.root.hidden = answers.length < 3;
    if (this.root.hidden) return;
    this.views = answers.flatMap(viewsOf).filter(({ view }) => view.kind && view.kind !== "none");
    const names = this.views.map(({ name }) => name);
    this.screens.forEach((screen, i) => {
      const former = screen.choice.value;
      screen.choice.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
      screen.choice.value = names.includes(former)
        ? former : names[Math.min(i, names.length - 1)] ?? "";
    });
    this.drawRows(trace);
    const shared = Object.entries(trace.shared).map(([k, n]) => `${k} ${n}×`).join(", ");
    this.shared.textContent = `Seed ${trace.seed}. Shared between methods: ${shared || "nothing"}; `
      + "“ms added” leaves that out, “ms in all” is from the prompt to the answer. Peak memory: tensors "
      + "alive for the method, weights included.";
  }

  /** @param {Trace} trace */
  drawRows(trace) {
    const { reference } = this.state;
    this.drawnAgainst = reference;
    const name = reference && (reference.method === "baseline" ? "the baseline" : reference.method);
    this.against.textContent = name ? `against ${name}` : "";
    this.rows.replaceChildren(...Object.values(trace.answers).map((a) => this.row(a, reference)));
  }

  /**
   * @param {Answer} answer
   * @param {Answer | undefined} base
   */
  row(answer, base) {
    const at = !base || answer === base ? -1 : answer.tokens.findIndex((t, i) =>
      !base.tokens[i] || base.tokens[i].token !== t.token);
    const words = answer.tokens.length
      ? answer.tokens.map((t, i) => el("span", { class: i === at ? "mv-parts" : "" }, visible(t.text), " "))
      : [visible(answer.text)];
    const votes = Object.entries(answer.votes).map(([k, n]) => `${k}: ${n}`).join(", ");
    const two = answer.tokens.some((t) => t.counter);
    const linear = two && answer.rule === "linear";
    return el("tr", { "data-method": answer.method },
      el("th", { scope: "row" }, answer.method),
      el("td", { class: "mv-words" }, words, votes ? el("small", {}, ` votes: ${votes}`) : null),
      el("td", {}, !base || answer === base ? "" : againstReference(answer, base)),
      el("td", {}, two ? differences(answer) : ""),
      el("td", {}, linear ? answer.alpha : ""),
      el("td", {}, linear ? answer.beta : ""),
      el("td", {}, answer.ms.toFixed(0)),
      el("td", {}, answer.total_ms ? answer.total_ms.toFixed(0) : ""),
      el("td", {}, answer.memory_mb ? answer.memory_mb.toFixed(0) : ""));
  }

  draw() {
    const { trace, frame } = this.state;
    if (this.root.hidden || !trace) return;
    if (this.drawnAgainst !== this.state.reference) this.drawRows(trace);
    for (const screen of this.screens) {
      const named = this.views.find(({ name }) => name === screen.choice.value);
      if (named) this.drawView(screen, named, trace, frame);
    }
  }

  /**
   * @param {Screen} screen
   * @param {NamedView} named
   * @param {Trace} trace
   * @param {number} frame
   */
  drawView({ canvas, caption }, { answer, view, shown }, trace, frame) {
    const [width, height] = trace.model ? trace.model.size : trace.source;
    const scale = 480 / Math.max(width, height);
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    const context = contextOf(canvas);
    const picture = this.stage.secondView(shown, frame);
    if (picture) this.stage.drawModelPicture(context, picture, true);
    /** @type {Record<string, string>} */
    const notes = {
      masks: "the frames behind the masks, as the model read them",
      blank: "a video without content",
      noise: "the noise that the model read, cut off at black and white",
      frames: `sees only frames ${(view.frames || []).map((f) => f + 1).join(", ")}`,
      pruned: `all pixels, but from decoder layer ${view.layer} on only ${percent(view.ratio || 0)} of the vision tokens`,
    };
    caption.textContent = notes[view.kind] || (view.kind === "none" ? "" : view.caption || "");
    if (view.frames && !view.frames.includes(frame)) {
      context.fillStyle = "#808080";
      context.fillRect(0, 0, canvas.width, canvas.height);
      caption.textContent = `frame ${frame + 1} is left out · ${notes.frames}`;
    } else if (view.kind === "pruned") {
      this.drawHidden(context, answer, trace, frame);
      caption.textContent = `token ${this.tokenOf(answer) + 1}: ${caption.textContent}`;
    } else if (!shown && view.kind !== "frames") {
      caption.textContent += " (its pixels are not stored in this trace)";
    }
  }

  /** @param {Answer} answer */
  tokenOf(answer) {
    return Math.max(0, Math.min(this.state.token, answer.tokens.length - 1));
  }

  /**
   * Darkens the vision tokens that the second view did not see when it chose this token.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {Answer} answer
   * @param {Trace} trace
   * @param {number} frame
   */
  drawHidden(context, answer, trace, frame) {
    const step = answer.tokens[this.tokenOf(answer)];
    if (!step || !step.hidden || !answer.view.grid) return;
    const [patches, rows, columns] = answer.view.grid;
    const hidden = unpackBits(step.hidden, patches * rows * columns);
    const patch = trace.groups.findIndex((g) => g.includes(frame));
    const { width, height } = context.canvas;
    const [across, down] = [width / columns, height / rows];
    context.fillStyle = "rgba(17, 17, 17, .8)";
    for (let i = 0; i < rows * columns; i++) {
      if (hidden[patch * rows * columns + i]) {
        context.fillRect((i % columns) * across, Math.floor(i / columns) * down, across, down);
      }
    }
  }
}

/**
 * @param {Answer} answer
 * @returns {NamedView[]}
 */
function viewsOf(answer) {
  const { method, view, shown, further } = answer;
  return [{ view, shown }, ...further].map((one, k) =>
    ({ ...one, answer, name: k ? `${method}, view ${k + 1}` : method }));
}

/**
 * Which of two answers is right is not known here, so no word says "fixed".
 *
 * @param {Answer} answer
 * @param {Answer} base
 */
function againstReference(answer, base) {
  const [ours, theirs] = [answer, base].map((a) => a.text.toLowerCase().replace(/^[\s.!]+|[\s.!]+$/g, ""));
  if (ours === theirs) return "agrees";
  return [ours, theirs].sort().join() === "no,yes" ? "flipped" : "changed";
}

/**
 * Small multiples: logit under V minus logit under the second view, of each chosen token.
 *
 * @param {Answer} answer
 */
function differences(answer) {
  const values = answer.tokens.map((t) => {
    const i = t.candidates.indexOf(t.token);
    return t.counter ? t.base[i] - t.counter[i] : 0;
  });
  const top = Math.max(...values.map(Math.abs), 1);
  return el("span", { class: "mv-multiples", role: "img",
    "aria-label": `differences: ${values.map((v) => signed(v)).join(", ")}` },
  values.map((v, i) => el("span", { title: `${visible(answer.tokens[i].text)} ${signed(v)}` },
    el("span", {
      class: v >= 0 ? "mv-more" : "mv-less",
      style: { height: `${(50 * Math.abs(v)) / top}%`, [v >= 0 ? "bottom" : "top"]: "50%" },
    }))));
}
