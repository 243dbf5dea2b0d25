// @ts-check
// What to measure of a token's evidence: kinds of maps, and what the answer may not attend to.

import { all, button, el, errorLine } from "./dom.js";
import { unavailableText } from "./strings/answers.js";
import { costText } from "./strings/evidence.js";
import { TEXT } from "./strings/labels.js";
import { trackName } from "./strings/parts.js";
import { visible } from "./text.js";

/** @import { Box, Evidence, EvidenceRequest, Point, Send, TokenStep, Trace } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

const CANDIDATES = 12; // most candidates to compare a token with
const PATCHES = ["2x2", "3x3", "4x4", "6x6", "8x8"];
const AT_FIRST = ["gradient", "attention", "occlusion"];
const ANSWERS = ["macd", "baseline"]; // whose tokens can be measured

export class AskEvidence {
  /** @param {State} state @param {Send} send @param {Stage} stage */
  constructor(state, send, stage) {
    this.state = state;
    this.send = send;
    this.stage = stage;
    this.token = ""; // the token that the candidates belong to
    /** @type {string | undefined} the clip that the region is a place in, by its first picture */
    this.clip = undefined;
    this.marking = false; // whether a press on the picture draws the region
    /** @type {Box | null} the region while it is drawn */
    this.drawn = null;
    this.against = el("select", { "aria-label": TEXT.ratherThan, on: { change: () => state.set({}) } });
    this.kinds = el("span", { class: "mv-checks", role: "group", "aria-label": TEXT.kindsOfMaps });
    this.patches = el("select", { "aria-label": TEXT.patches, on: { change: () => this.tellCost() } },
      PATCHES.map((size) => el("option", { value: size, selected: size === "4x4" }, size)));
    this.layers = this.field(TEXT.attentionLayers, TEXT.all, 8);
    this.curves = el("input", { type: "checkbox", on: { change: () => this.tellCost() } });
    this.measure = button(TEXT.measure, () => this.ask({ kinds: this.chosenKinds(), maps: true, lens: true, curves: this.curves.checked }));
    this.cost = el("span", { class: "mv-note" });
    this.outLayers = this.field(TEXT.blockedLayers, TEXT.all, 8);
    this.outObject = button(TEXT.knockOutTheObject, () => this.knockOutObject());
    this.region = this.field(TEXT.regionShares, "0.1,0.2,0.5,0.9", 15);
    this.mark = button(TEXT.markIt, () => this.setMarking(!this.marking));
    this.outRegion = button(TEXT.knockOutTheRegion, () => this.knockOut({ boxes: [this.region.value.trim()] }));
    this.error = errorLine();
    this.root = el("div", { class: "mv-evidence-ask" },
      el("div", { class: "mv-edit" }, el("label", {}, `${TEXT.ratherThanLabel} `, this.against), this.kinds,
        el("label", {}, `${TEXT.patchesLabel} `, this.patches), el("label", {}, `${TEXT.attentionOfLayers} `, this.layers),
        el("label", {}, this.curves, ` ${TEXT.insertionAndDeletion}`), this.measure, this.cost),
      el("div", { class: "mv-edit" }, this.outObject,
        el("label", {}, `${TEXT.region} `, this.region), this.mark, this.outRegion,
        el("label", {}, `${TEXT.inLayers} `, this.outLayers)),
      el("p", { class: "mv-note" }, TEXT.knockOutNote),
      this.error);
    this.watch();
  }

  /** @param {string} name @param {string} example @param {number} size */
  field(name, example, size) {
    return el("input", { type: "text", "aria-label": name, placeholder: example, size, maxlength: 100 });
  }

  /** @param {boolean} now */
  setMarking(now) {
    this.marking = now;
    this.drawn = null;
    this.stage.canvas.classList.toggle("mv-marking", now);
    this.state.set(now ? { tool: null, playing: false } : {});
  }

  /** Whether a token of this trace can be measured here. @param {Trace} trace */
  able(trace) {
    return this.state.can("evidence") && trace.measurable;
  }

  /** @param {Trace} trace */
  load(trace) {
    this.token = "";
    this.root.hidden = !this.able(trace);
    if (trace.frames[0] !== this.clip) {
      this.clip = trace.frames[0];
      this.region.value = "";
    }
    if (!this.kinds.children.length) this.kinds.append(...this.state.constants.kinds.map(([kind, name]) => el("label", {},
      el("input", { type: "checkbox", value: kind, checked: AT_FIRST.includes(kind), on: { change: () => this.tellCost() } }), ` ${name}`)));
    this.lock(trace);
  }

  /** Kinds of maps that the model of the trace cannot give cannot be chosen, and say why. @param {Trace} trace */
  lock(trace) {
    for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (this.kinds.querySelectorAll("input"))) {
      const why = trace.unavailable[box.value] ?? "";
      box.disabled = why !== "";
      if (why) box.checked = false;
      if (box.parentElement) box.parentElement.title = why && unavailableText(why);
    }
  }

  chosenKinds() {
    return [.../** @type {NodeListOf<HTMLInputElement>} */ (this.kinds.querySelectorAll("input:checked"))].map((box) => box.value);
  }

  /**
   * What was measured of a token rather than the chosen candidate. At another token the choice
   * becomes what was measured of it first.
   * @param {TokenStep | undefined} step @param {Evidence[]} measured of the token
   * @returns {Evidence | undefined}
   */
  choose(step, measured) {
    const { loaded, method } = this.state;
    const token = `${loaded.run} ${method} ${step?.index} ${step?.token}`;
    if (token !== this.token) {
      this.token = token;
      this.offer(step, measured);
    }
    return measured.find(({ target }) => (target.against_text ?? "") === this.against.value);
  }

  /**
   * The candidates that the token can be compared with.
   * @param {TokenStep | undefined} step @param {Evidence[]} measured
   */
  offer(step, measured) {
    const others = step ? step.texts.filter((_, i) => step.candidates[i] !== step.token).slice(0, CANDIDATES) : [];
    const measuredTexts = measured.flatMap(({ target }) => target.against_text ?? []);
    const texts = [...new Set([...measuredTexts, ...others])].filter((text) => text !== "");
    this.against.replaceChildren(el("option", { value: "" }, TEXT.againstNothing),
      ...texts.map((text) => el("option", { value: text }, visible(text))));
    this.against.value = measured.length ? measured[0].target.against_text ?? "" : "";
  }

  /** @param {boolean} now */
  busy(now) {
    for (const control of all(this.root, "button, select, input")) {
      /** @type {HTMLButtonElement} */ (control).disabled = now;
    }
    if (!now && this.state.trace) this.lock(this.state.trace);
  }

  /** @param {TokenStep | undefined} step @param {Evidence | undefined} evidence what is shown */
  draw(step, evidence) {
    const { loaded: trace, track, method, busy } = this.state;
    if (this.root.hidden) return;
    const able = Boolean(step) && ANSWERS.includes(method);
    const chosen = track === null ? null : trace.tracks[track];
    this.outObject.textContent = chosen ? `Knock out ${trackName(chosen)}` : TEXT.knockOutTheObject;
    this.measure.disabled = busy || !able;
    this.measure.title = able ? "" : TEXT.evidenceOnlyOf;
    const blocked = trace.unavailable["knock-out"] ?? "";
    for (const button of [this.outObject, this.outRegion]) button.disabled = busy || !able || blocked !== "";
    this.outObject.disabled ||= !chosen;
    this.outObject.title = blocked ? unavailableText(blocked) : chosen ? "" : TEXT.chooseAnObjectFirst;
    this.outRegion.title = blocked && unavailableText(blocked);
    this.mark.setAttribute("aria-pressed", String(this.marking));
    this.measure.textContent = evidence ? TEXT.measureAgain : TEXT.measure;
    this.tellCost();
  }

  tellCost() {
    const { trace } = this.state;
    const costs = trace?.evidence_ms;
    const kinds = this.chosenKinds();
    this.measure.disabled ||= !kinds.length;
    this.patches.disabled ||= !kinds.includes("occlusion-grid");
    if (!costs || !kinds.length || kinds.some((kind) => costs[kind] === undefined)) {
      this.cost.textContent = "";
      return;
    }
    const [rows, columns] = this.patches.value.split("x").map(Number);
    const spent = kinds.reduce((sum, kind) => sum + costs[kind] * (kind === "occlusion-grid" ? rows * columns : 1), (costs.lens || 0) + (this.curves.checked ? costs.curves || 0 : 0));
    this.cost.textContent = costText(spent);
  }

  /** @param {Partial<EvidenceRequest>} what */
  ask(what) {
    const { method, token } = this.state;
    this.send({
      do: "evidence",
      evidence: {
        token: token + 1, answer: method, against: this.against.value,
        layers: this.layers.value.trim(), patches: this.patches.value, ...what,
      },
    });
  }

  knockOutObject() {
    const { loaded, track } = this.state;
    if (track !== null) this.knockOut({ knock_out: [String(loaded.tracks[track].id)] });
  }

  /** @param {Partial<EvidenceRequest>} what */
  knockOut(what) {
    const { loaded, method, token } = this.state;
    const measured = loaded.evidence.some(({ target }) => target.answer === method && target.index === token
      && (target.against_text ?? "") === this.against.value);
    const maps = measured ? { maps: false, lens: false } : { maps: true, kinds: AT_FIRST, lens: true };
    this.ask({ ...maps, ...what, knock_out_layers: this.outLayers.value.trim() });
  }

  // A region is drawn on the picture; before the tools that draw masks see the pointer.
  watch() {
    const { canvas, root } = this.stage;
    /** @type {Point | null} */
    let start = null;
    /** @type {(event: PointerEvent) => Box} */
    const box = (event) => {
      const [x, y] = this.stage.toSource(event), [x0, y0] = start || [x, y];
      return /** @type {Box} */ ([Math.min(x, x0), Math.min(y, y0), Math.max(x, x0), Math.max(y, y0)]
        .map((v) => Number(v.toFixed(3))));
    };
    /** @type {(event: Event) => boolean} */
    const mine = (event) => this.marking && event.target === canvas;
    root.addEventListener("pointerdown", (event) => {
      if (!mine(event)) return;
      event.stopPropagation();
      event.preventDefault();
      start = this.stage.toSource(event);
      canvas.setPointerCapture(event.pointerId);
    }, true);
    root.addEventListener("pointermove", (event) => {
      if (!start || !mine(event)) return;
      event.stopPropagation();
      this.drawn = box(event);
      this.state.set({});
    }, true);
    root.addEventListener("pointerup", (event) => {
      if (!start || !mine(event)) return;
      event.stopPropagation();
      this.region.value = box(event).join(",");
      start = null;
      setTimeout(() => this.setMarking(false), 0); // the click that ends the drag picks nothing
    }, true);
    root.addEventListener("click", (event) => { if (mine(event)) event.stopPropagation(); }, true);
    addEventListener("keydown", (event) => { if (event.key === "Escape" && this.marking) this.setMarking(false); });
    this.region.addEventListener("input", () => this.state.set({}));
  }

  /** @returns {Box | null} the region as it is drawn or written */
  box() {
    if (this.drawn) return this.drawn;
    const parts = this.region.value.split(",").map(Number);
    return parts.length === 4 && parts.every((v) => v >= 0 && v <= 1) ? /** @type {Box} */ (parts) : null;
  }

  /**
   * The region's outline on the picture.
   * @param {CanvasRenderingContext2D} context @param {{ x: number, y: number, w: number, h: number }} area
   */
  paint(context, area) {
    const box = this.root.hidden ? null : this.box();
    if (!box) return;
    context.save();
    context.lineWidth = 3;
    for (const [colour, dash] of /** @type {[string, number[]][]} */ ([["#ffffff", []], ["#111111", [8, 6]]])) {
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.strokeRect(area.x + box[0] * area.w, area.y + box[1] * area.h, (box[2] - box[0]) * area.w, (box[3] - box[1]) * area.h);
    }
    context.restore();
  }
}
