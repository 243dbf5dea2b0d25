// @ts-check
// Methods side by side: answers aligned with the reference, what each second view shows, per-token
// differences, time and memory. Only shown when there are more than two answers.

import { contextOf, el } from "./dom.js";
import { verdictMark } from "./headline.js";
import { divergence, endOf } from "./pair.js";
import { drawSecondView } from "./secondview.js";
import { signed, visible } from "./text.js";

/** @import { Answer, ShownView, Trace, View } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */
/** @typedef {{ name: string, title: string, answer: Answer, view: View, shown: ShownView["shown"] }} NamedView a second view of an answer */
/** @typedef {{ canvas: HTMLCanvasElement, caption: HTMLElement, choice: HTMLSelectElement, root: HTMLElement }} Screen */

export class Compare {
  /**
   * @param {State} state
   * @param {Stage} stage
   * @param {(method: string) => void} open shows a method's answer and view in the panels above
   */
  constructor(state, stage, open) {
    this.state = state;
    this.stage = stage;
    this.open = open;
    /** @type {NamedView[]} */
    this.views = [];
    this.rows = el("tbody");
    this.against = el("th", { scope: "col" });
    this.drawnFor = ""; // the pair that the rows were drawn for
    this.shared = el("p", { class: "mv-note" });
    this.screens = [0, 1].map(() => this.screen());
    this.root = el("section", { class: "mv-compare", "aria-label": "Methods", hidden: true },
      el("h3", {}, "Methods"),
      el("div", { class: "mv-screens" }, this.screens.map((s) => s.root)),
      el("div", { class: "mv-scroll", tabindex: "0", role: "region", "aria-label": "Methods table" },
        el("table", { class: "mv-methods" },
          el("thead", {}, el("tr", {}, ["method", "answer", this.against, "difference by token", "α",
            "β", "ms added", "ms in all", "peak MB", "viewer"].map((h) =>
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
    this.drawnFor = "";
    this.screens.forEach((screen, i) => {
      const former = screen.choice.value;
      screen.choice.replaceChildren(...this.views.map(({ name, title }) => el("option", { value: name }, title)));
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
    const { reference, contrast, ends } = this.state;
    this.drawnFor = [reference?.method, contrast?.method, ends].join(" ");
    const name = reference && (reference.method === "baseline" ? "the baseline" : reference.title);
    this.against.textContent = name ? `against ${name}` : "";
    this.rows.replaceChildren(...Object.values(trace.answers).map((a) => this.row(trace, a, reference)));
  }

  /**
   * @param {Trace} trace
   * @param {Answer} answer
   * @param {Answer | undefined} base
   */
  row(trace, answer, base) {
    const at = !base || answer === base ? -1 : divergence(answer, base);
    const shown = answer.tokens.filter((_, i) => this.state.ends || i === at || i !== endOf(answer) || i === 0);
    const words = answer.tokens.length
      ? shown.map((t) => el("span", { class: t === answer.tokens[at] ? "mv-parts" : "" }, visible(t.text), " "))
      : [visible(answer.text)];
    const { contrast, reference } = this.state;
    const opened = answer === contrast || answer === reference;
    const votes = Object.entries(answer.votes).map(([k, n]) => `${k}: ${n}`).join(", ");
    const two = answer.tokens.some((t) => t.counter);
    const linear = two && answer.rule === "linear";
    return el("tr", { "data-method": answer.method },
      el("th", { scope: "row" }, answer.title),
      el("td", { class: "mv-words" }, words, verdictMark(answer, trace.truth), votes ? el("small", {}, ` votes: ${votes}`) : null),
      el("td", {}, !base || answer === base ? "" : againstReference(answer, base)),
      el("td", {}, two ? differences(answer) : ""),
      el("td", {}, linear ? answer.alpha : ""),
      el("td", {}, linear ? answer.beta : ""),
      el("td", {}, answer.ms.toFixed(0)),
      el("td", {}, answer.total_ms ? answer.total_ms.toFixed(0) : ""),
      el("td", {}, answer.memory_mb ? answer.memory_mb.toFixed(0) : ""),
      el("td", {}, !answer.tokens.length ? "" : el("button", {
        type: "button", class: "mv-button", "aria-pressed": String(opened), "aria-label": `Open ${answer.title} in the viewer`,
        on: { click: () => this.open(answer.method) },
      }, opened ? "shown" : "open")));
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

  /**
   * @param {Screen} screen
   * @param {NamedView} named
   * @param {Trace} trace
   * @param {number} frame
   */
  drawView({ canvas, caption }, named, trace, frame) {
    const [width, height] = trace.model ? trace.model.size : trace.source;
    const scale = 480 / Math.max(width, height);
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    const picture = this.stage.secondView(named.shown, frame);
    const note = drawSecondView(contextOf(canvas), named, trace, frame, picture, this.state.token);
    caption.textContent = note;
    canvas.setAttribute("aria-label", `Second view of ${named.title}, frame ${frame + 1}${note ? `: ${note}` : ""}`);
  }
}

/**
 * @param {Answer} answer
 * @returns {NamedView[]}
 */
function viewsOf(answer) {
  const { method, title, view, shown, further } = answer;
  return [{ view, shown }, ...further].map((one, k) => {
    const which = k ? `, view ${k + 1}` : "";
    return { ...one, answer, name: method + which, title: title + which };
  });
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
