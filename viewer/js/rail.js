// @ts-check
// The object rail: what was found, which way the loss pulled each mask, where it ended.

import { all, el } from "./dom.js";
import { levelsOfStep } from "./masks.js";
import { confidenceNote, lossText, noObjects, rankedEffect } from "./strings/answers.js";
import { marginOfLevel, stepLabel } from "./strings/ascent.js";
import { TEXT } from "./strings/labels.js";
import { confidenceText, hasConfidences, levelIndex, levelText } from "./strings/parts.js";
import { gradientText, inkOn } from "./text.js";

/** @import { Trace, Track } from "./types" */
/** @import { State } from "./state.js" */

export class Rail {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    this.list = el("ol", { class: "mv-rail-list" });
    this.confidences = el("p", { class: "mv-note" });
    this.losses = el("p", { class: "mv-losses" });
    /** @type {number | null} the step of the ascent that the rows show */
    this.step = null;
    this.scale = 1;
    this.root = el("section", { class: "mv-rail", "aria-label": TEXT.objects },
      el("h3", {}, TEXT.objects), this.list, this.confidences, this.losses);
  }

  /** @param {Trace} trace */
  load(trace) {
    this.scale = Math.max(...trace.steps.flatMap((step) => step.gradient.map(Math.abs)), 1e-12);
    this.fill(trace);
    if (!trace.tracks.length) {
      this.list.append(el("li", { class: "mv-empty" },
        noObjects(trace.tracked, this.state.running)));
    }
    this.confidences.hidden = !trace.thresholds.starts || !hasConfidences(trace);
    this.confidences.textContent = confidenceNote(trace);
    const { loss = null, base_loss = null } = trace.final || {};
    this.losses.replaceChildren(...(loss === null || base_loss === null ? [] : [
      el("span", { class: "mv-sign" }, TEXT.queryLoss),
      ` ${lossText(base_loss, loss, trace)}`,
    ]));
    this.draw();
  }

  /**
   * The rows as they are before a step of the ascent, or at its end, with the first step's gradients.
   * @param {Trace} trace
   */
  fill(trace) {
    this.step = this.state.step;
    this.list.replaceChildren(...trace.tracks.map((track, k) => this.row(trace, track, k)));
  }

  /** @param {Trace} trace @param {Track} track @param {number} k */
  row(trace, track, k) {
    const { step } = this.state;
    const gradient = trace.steps.length ? trace.steps[step ?? 0].gradient[k] : null;
    const level = step !== null ? levelsOfStep(trace, step).objects[k] : trace.final ? trace.final.level[k] : null;
    const strength = step !== null ? trace.steps[step].strength[k] : trace.final ? trace.final.strength[k] : null;
    const share = gradient === null ? 0 : Math.min(1, Math.abs(gradient) / this.scale);
    const up = gradient !== null && gradient > 0;
    const bar = el("span", { class: "mv-bar", "aria-hidden": "true" },
      el("span", {
        class: up ? "mv-bar-up" : "mv-bar-down",
        style: { width: `${50 * share}%`, [up ? "left" : "right"]: "50%" },
      }));
    return el("li", {},
      el("button", {
        type: "button", class: "mv-object", "data-track": k, "aria-pressed": "false",
        style: { "--object": track.colour, "--object-ink": inkOn(track.colour) },
        on: {
          click: () => this.state.set({ track: this.state.track === k ? null : k }),
          mouseenter: () => this.state.set({ hover: k }),
          mouseleave: () => this.state.set({ hover: null }),
        },
      },
      el("span", { class: "mv-swatch", "aria-hidden": "true" }, track.id),
      el("span", { class: "mv-object-name" }, el("bdi", {}, track.label),
        el("small", {}, hasConfidences(trace) ? ` ${confidenceText(track.confidence)}` : "")),
      el("span", { class: `mv-level mv-level-${level === null ? "r0" : ["0", "r0", "1"][levelIndex(trace.levels, level)]}` },
        levelText(trace.levels, level, step === null && Boolean(trace.final?.by_hand[k]))),
      bar,
      el("span", { class: "mv-gradient" },
        ...(trace.steps.length > 1 ? [el("span", { class: "mv-margin" }, marginOfLevel(strength, trace.r0)), " · ", step === null ? TEXT.firstStep : stepLabel(step), " "] : []),
        gradientText(gradient, trace.approximate, trace.differences)),
      el("span", { class: "mv-effect", "data-effect": k })));
  }

  draw() {
    const { loaded: trace, track, hover, frame } = this.state;
    if (this.step !== this.state.step && trace.tracks.length) this.fill(trace);
    for (const button of all(this.list, ".mv-object")) {
      const k = Number(button.dataset.track);
      button.setAttribute("aria-pressed", String(k === track));
      button.classList.toggle("mv-lit", k === hover);
      button.classList.toggle("mv-away", Boolean(trace.tracks[k]) && !trace.tracks[k].boxes[frame]);
    }
    this.rank();
  }

  // Measured effects on the chosen token of the baseline's answer, the largest first.
  rank() {
    const { loaded, method, token } = this.state;
    const changes = loaded.occlusion && method === "baseline" ? loaded.occlusion.token_change : [];
    const isMeasured = changes.length > 0 && token < changes[0].length;
    const effect = isMeasured ? changes.map((row) => row[token]) : [];
    const order = effect.map((_, k) => k).sort((a, b) => Math.abs(effect[b]) - Math.abs(effect[a]));
    for (const place of all(this.list, "[data-effect]")) {
      const k = Number(place.dataset.effect);
      place.textContent = isMeasured
        ? rankedEffect(effect[k], order.indexOf(k) + 1) : "";
    }
  }
}
