// @ts-check
// The ascent, step by step: strengths, the levels they would become, and the query loss. Moving along
// it shows the masks of that step on the picture.

import { button, el } from "./dom.js";
import { levelsOfStep } from "./masks.js";
import { plot, polyline, scalesOf, setAttributes, svg } from "./plots.js";
import { hasLevelsOf } from "./state.js";
import { TEXT, lossSummary, stepName, stepText, strengthSummary } from "./strings.js";

/** @import { Trace } from "./types" */
/** @import { State } from "./state.js" */

/** @type {Pick<import("./plots.js").Frame, "size" | "margins">} of each plot */
const PLACE = { size: [320, 74], margins: [8, 26, 8, 4] };
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const PAUSE_MS = 600, CALM_PAUSE_MS = 1500; // between two steps while playing

export class Steps {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    this.playing = false;
    this.shownAt = 0;
    this.drawn = "";
    this.play = button("", () => this.toggle(), { class: "mv-play" });
    this.slider = el("input", {
      type: "range", min: 0, value: 0, class: "mv-scrub", "aria-label": TEXT.ascentStep,
      on: { input: () => this.move(Number(this.slider.value)) },
    });
    this.name = el("output", { class: "mv-step-name" });
    this.text = el("p", { class: "mv-note mv-step-text" });
    this.cursors = [0, 1].map(() => svg("line", { class: "mv-cursor", y1: 0, y2: PLACE.size[1] }));
    this.plots = el("div", { class: "mv-step-plots" });
    this.root = el("section", { class: "mv-steps", "aria-label": TEXT.theAscentByStep },
      el("div", { class: "mv-transport" }, this.play, this.slider, this.name), this.text, this.plots);
  }

  /** How many steps the ascent took; the place after the last is its end. */
  get last() {
    return this.state.loaded.steps.length;
  }

  load() {
    const { loaded: trace } = this.state;
    this.root.hidden = !trace.steps.length || !trace.final;
    this.drawn = "";
    if (this.root.hidden) return;
    this.slider.max = String(this.last);
    this.plots.hidden = this.last < 2; // a line through two points adds nothing to the objects' list
    if (!this.plots.hidden) this.plots.replaceChildren(this.strengthPlot(trace), this.lossPlot(trace));
  }

  /** Shows the masks before a step; `last` is the end of the ascent. @param {number} step */
  move(step) {
    const { state, last } = this;
    const at = Math.max(0, Math.min(last, step));
    const layers = state.step === null && at < last ? { ...state.layers, levels: true } : state.layers;
    state.set({ step: at < last ? at : null, layers });
  }

  /** @param {number} way -1 or 1 */
  by(way) {
    if (this.root.hidden) return;
    this.playing = false;
    this.move((this.state.step ?? this.last) + way);
  }

  toggle() {
    if (this.root.hidden) return;
    this.playing = !this.playing;
    this.shownAt = performance.now();
    if (this.playing && this.state.step === null) this.move(0);
    else this.state.set({});
  }

  /** @param {number} now milliseconds */
  tick(now) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!this.playing || now - this.shownAt < (calm ? CALM_PAUSE_MS : PAUSE_MS)) return;
    this.shownAt = now;
    const next = (this.state.step ?? this.last) + 1;
    this.playing = next < this.last;
    this.move(next);
  }

  draw() {
    const { loaded: trace, step, contrast } = this.state;
    if (!trace.steps.length || !trace.final) return;
    this.root.hidden = !hasLevelsOf(trace, contrast);
    const key = `${step} ${this.playing}`;
    if (this.root.hidden || key === this.drawn) return;
    this.drawn = key;
    const at = step ?? this.last;
    this.slider.value = String(at);
    this.play.textContent = this.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", this.playing ? TEXT.pauseTheAscent : TEXT.playTheAscent);
    this.name.textContent = stepName(at, this.last);
    this.text.textContent = textOfStep(trace, step);
    this.slider.setAttribute("aria-valuetext", `${this.name.textContent}. ${this.text.textContent}`);
    for (const cursor of this.cursors) setAttributes(cursor, { x1: this.across(at), x2: this.across(at) });
  }

  /** @param {number} at */
  across(at) {
    return scalesOf({ ...PLACE, label: "", x: [0, Math.max(1, this.last)], y: [0, 1] }).x(at);
  }

  /**
   * Strengths of the objects, each with its number at the end of its line, and of the frame groups.
   * @param {Trace} trace
   */
  strengthPlot(trace) {
    const { final, tracks } = trace;
    if (!final) return "";
    const rows = tracks.map((track, k) => ({
      name: String(track.id), colour: track.colour, dash: DASHES[k % DASHES.length], class: "mv-line",
      values: [...trace.steps.map((s) => s.strength[k]), final.strength[k]],
    }));
    const groups = final.frame_strength.map((end, g) => ({
      name: "", colour: "", dash: "1 3", class: "mv-line mv-line-frames",
      values: [...trace.steps.map((s) => s.frame_strength[g]), end],
    }));
    return this.plot(TEXT.strengthByStep, [...groups, ...rows], this.cursors[0], trace.r0,
      strengthSummary(trace, final.strength));
  }

  /** @param {Trace} trace */
  lossPlot(trace) {
    const values = trace.steps.map((s) => s.loss);
    const rows = [{ name: "L", colour: "", dash: "", class: "mv-line mv-line-loss", values }];
    return this.plot(TEXT.queryLossByStep, rows, this.cursors[1], null,
      lossSummary(values));
  }

  /**
   * @param {string} title
   * @param {{ name: string, colour: string, dash: string, class: string, values: number[] }[]} rows
   * @param {SVGElement} cursor @param {number | null} level drawn across, such as r0
   * @param {string} summary for a screen reader
   */
  plot(title, rows, cursor, level, summary) {
    const all = [...rows.flatMap((row) => row.values), ...(level === null ? [] : [level])];
    const [low, high] = [Math.min(...all), Math.max(...all)], last = Math.max(1, this.last);
    const root = plot({ ...PLACE, label: summary, x: [0, last], y: [low, high] }, (scales) => [
      level === null ? "" : svg("line", { class: "mv-level-line", x1: 0, x2: PLACE.size[0], y1: scales.y(level), y2: scales.y(level) }),
      ...rows.flatMap(({ name, colour, dash, class: className, values }) => {
        const line = polyline(values.map((v, i) => [i, v]), scales, { class: className, "stroke-dasharray": dash });
        if (colour) line.style.stroke = colour;
        const end = values.length - 1;
        return [line, svg("text", { x: scales.x(end) + 4, y: scales.y(values[end]) + 4 }, name)];
      }),
      cursor,
    ]);
    root.addEventListener("click", (e) => {
      const box = root.getBoundingClientRect(), [first, end] = [this.across(0), this.across(last)];
      this.move(Math.round(((((e.clientX - box.left) / box.width) * PLACE.size[0] - first) / (end - first)) * this.last));
    });
    const range = `${low.toFixed(3)} – ${high.toFixed(3)}`;
    return el("figure", { class: "mv-step-plot" }, el("figcaption", {}, `${title} (${range})`), root);
  }
}

/**
 * The levels at a step and the query loss there, in words.
 * @param {Trace} trace @param {number | null} step null: the end
 */
function textOfStep(trace, step) {
  const { final, steps } = trace;
  if (!final) return "";
  if (step === null) return stepText(trace, { ...final, ended: true });
  const { strength, loss } = steps[step];
  return stepText(trace, { level: levelsOfStep(trace, step).objects, strength, loss, ended: false });
}
