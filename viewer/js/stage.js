// @ts-check
// The canvas: one frame with its layers, what moves through the frames, and the timeline under it with a
// lane for each object and one for the frame mask.

import { button, contextOf, el, setText } from "./dom.js";
import { fold } from "./folds.js";
import { Lanes } from "./lanes.js";
import { frameMasks, levelsAt, unionMask } from "./masks.js";
import { Overlaps } from "./overlap.js";
import { Painter, drawSecondView, isDrawable } from "./paint.js";
import { Saving } from "./saving.js";
import { hasLevelsOf } from "./state.js";
import { partnerOf } from "./statements.js";
import { TEXT } from "./strings/labels.js";
import { confidenceText, hasConfidences, isPicture, levelEnd, levelKey, levelName, middleMeaning, overlapKey, overlapMeaning, trackName } from "./strings/parts.js";
import { WHY_NOT, frameSummary, frameText, outsideText } from "./strings/runs.js";
import { Zoom } from "./zoom.js";

/** @import { Area } from "./paint.js" */
/** @import { State } from "./state.js" */
/** @import { Answer, FrameLevels, FrameMasks, Layer, Point, ShownView, Trace } from "./types" */

/** @type {[Layer, string][]} */
const LAYERS = [
  ["boxes", TEXT.boxes], ["soft", TEXT.softMasks], ["levels", TEXT.levels], ["model", TEXT.asTheModelSeesIt],
];
/** @typedef {"video" | "masked" | "both"} Shown which views are on show */
/** @type {[Shown, string][]} */
const VIEWS = [["video", TEXT.video], ["masked", TEXT.maskedView], ["both", TEXT.both]];
const KEYS = ["mv-key-0", "mv-key-half", "mv-key-1"]; // of the levels, from the lowest
/** How fast the frames follow each other; 0: as in the clip. */
const SPEEDS = [0, 0.5, 1, 2, 4];
const FRAME_MS = 250; // at speed 1
export class Stage {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    /** @type {Map<string, HTMLImageElement>} */
    this.images = new Map();
    /** @type {string | undefined} the first source frame, which identifies the clip */
    this.first = undefined;
    /** @type {((context: CanvasRenderingContext2D) => void)[]} drawn between the picture and the masks */
    this.overlays = [];
    /** Whether an overlay shows other masks than those of the run, whose levels would only be in the way. */
    this.previews = false;
    this.other = document.createElement("canvas"); // a second view, before it is fitted in
    this.side = 768; // long side of the canvas: as many pixels as are seen
    /** @type {Map<number, FrameMasks>} */
    this.maskCache = new Map();
    this.canvas = el("canvas", { class: "mv-canvas", role: "img", tabindex: "-1", "data-part": "picture" });
    this.twin = el("canvas", { class: "mv-canvas mv-twin", role: "img", tabindex: "-1" }); // the masked video beside the video
    this.painter = new Painter(state, () => this.area());
    this.zoom = new Zoom(this.canvas, () => { if (state.trace) state.set({}); }, () => state.isDrawing);
    this.caption = el("div", { class: "mv-caption" });
    this.note = el("p", { class: "mv-note", hidden: true });
    this.tools = el("div", { class: "mv-tools" }); // tools for the picture are next to it
    this.layers = el("div", { class: "mv-layers", role: "group", "aria-label": TEXT.layers });
    this.scrub = el("input", {
      type: "range", min: 0, value: 0, class: "mv-scrub", "aria-label": TEXT.frame,
      on: { input: () => state.set({ frame: Number(this.scrub.value), playing: false }) },
    });
    this.play = button("", () => state.set({ playing: !state.playing }), { class: "mv-play", "aria-label": TEXT.play });
    this.speed = el("select", {
      "aria-label": TEXT.speed, on: { change: () => state.set({ speed: Number(this.speed.value) }) },
    }, SPEEDS.map((v) => el("option", { value: v, selected: v === 1 }, v ? `${v}×` : TEXT.ownSpeed)));
    this.loop = button(TEXT.loop, () => state.set({ loop: !state.loop }), { class: "mv-toggle", "aria-pressed": "true" });
    this.saving = new Saving(this);
    this.moves = [this.play, this.scrub, this.speed, this.loop, this.saving.film];
    this.lanes = new Lanes(state);
    this.overlapKey = el("li", { hidden: true });
    this.overlaps = new Overlaps(state, (frame) => this.tellOverlap(frame));
    /** @type {Map<Shown, HTMLButtonElement>} */
    this.views = new Map(VIEWS.map(([view, name]) => [view, button(name, () => this.show(view), { "data-view": view })]));
    this.key = el("ul", { class: "mv-levels-key", "data-part": "levels", "aria-label": TEXT.levelsKey });
    /** @type {Map<Layer, HTMLButtonElement>} */
    this.toggles = new Map();
    for (const canvas of [this.canvas, this.twin]) {
      canvas.addEventListener("click", (e) => this.pick(e));
      canvas.addEventListener("mousemove", (e) => this.point(e));
      canvas.addEventListener("mouseleave", () => state.set({ hover: null }));
    }
    this.pictures = el("div", { class: "mv-pictures" }, this.canvas, this.twin);
    this.root = el("div", { class: "mv-stage" },
      el("div", { class: "mv-screen" },
        el("div", { class: "mv-over" },
          el("span", { class: "mv-segments", role: "group", "aria-label": TEXT.view }, [...this.views.values()]), this.caption, this.zoom.root),
        this.pictures, this.note),
      el("div", { class: "mv-transport" }, this.play, this.scrub),
      fold("layers", TEXT.onThePictureToo, this.layers, this.key), this.tools);
    /** How fast the frames follow each other, and what can be saved. */
    this.more = el("div", { class: "mv-moves" },
      el("div", { class: "mv-transport" }, this.speed, this.loop, ...this.saving.buttons), this.saving.refused);
    for (const kind of ["pointerenter", "focusin"]) this.root.addEventListener(kind, () => this.root.classList.add("mv-touched"));
    this.buildLayers();
    new ResizeObserver(() => this.measure()).observe(this.canvas);
  }

  measure() {
    const { clientWidth, clientHeight } = this.canvas;
    const seen = Math.round(Math.max(clientWidth, clientHeight) * (devicePixelRatio || 1));
    const side = Math.max(320, Math.min(1280, seen));
    if (Math.abs(side - this.side) < 8) return;
    this.side = side;
    if (this.state.trace) this.state.set({});
  }

  buildLayers() {
    for (const [key, name] of LAYERS) {
      const switchLayer = () => this.state.set({ layers: { ...this.state.layers, [key]: !this.state.layers[key] } });
      const toggle = button(name, switchLayer, { class: "mv-toggle", "aria-pressed": "false" });
      this.toggles.set(key, toggle);
      this.layers.append(toggle);
    }
  }

  /** Which views are on show. @returns {Shown} */
  get shown() {
    const { layers, both } = this.state;
    if (layers.counter) return "masked";
    return both && this.whyNotBeside() === "" ? "both" : "video";
  }

  /** @param {Shown} view */
  show(view) {
    const { layers } = this.state;
    // where one button stands for both views, it leads back too
    const masked = view === "masked" && !(layers.counter && this.views.get("video")?.checkVisibility() === false);
    this.state.set({ both: view === "both", layers: { ...layers, counter: masked } });
  }

  /** Why the masked video cannot stand beside the video; while the ascent goes on it is drawn here. */
  whyNotBeside() {
    const { loaded: trace, contrast, step } = this.state;
    return step !== null && hasLevelsOf(trace, contrast) ? "" : this.whyNot("counter");
  }

  /** Milliseconds for which a frame stays. @param {number} frame */
  pause(frame) {
    const { speed, loaded: { times } } = this.state;
    if (speed > 0) return FRAME_MS / speed;
    const next = frame + 1 < times.length ? frame : Math.max(0, frame - 1);
    return Math.max(20, 1000 * ((times[next + 1] ?? times[next] + FRAME_MS / 1000) - times[next]));
  }

  /** @param {Trace} trace */
  load(trace) {
    this.maskCache.clear();
    const masks = trace.final && trace.mask.frame_mask !== "off" && trace.final.frame_level.length > 0;
    this.key.hidden = !trace.final;
    this.key.replaceChildren(...(trace.tracks.length ? trace.levels.map((_, i) =>
      el("li", {}, el("span", { class: `mv-key ${KEYS[i]}`, "aria-hidden": "true" }),
        i === 1 ? el("span", { class: "mv-sign", "data-means": middleMeaning(trace.levels, trace.r0, trace.tau) }, levelKey(trace.levels, i)) : levelKey(trace.levels, i))) : []),
    ...(masks ? [el("li", {}, el("span", { class: "mv-key mv-key-dim", "aria-hidden": "true" }), TEXT.outsideMasked)] : []), this.overlapKey);
    this.overlapKey.hidden = true;
    if (trace.frames[0] !== this.first) {
      this.first = trace.frames[0];
      this.images.clear();
      this.zoom.whole();
    }
    for (const source of trace.frames) this.image(source);
    this.fitCanvas();
    this.scrub.max = String(Math.max(0, trace.times.length - 1));
    for (const move of this.moves) move.hidden = trace.times.length === 1;
    setText(/** @type {HTMLElement} */ (this.views.get("video")), isPicture(trace) ? TEXT.picture : TEXT.video);
    this.saving.film.hidden ||= typeof MediaRecorder === "undefined";
    this.lanes.load();
    this.overlaps.load();
  }

  /** @param {number} frame on which masks are weakened by others */
  tellOverlap(frame) {
    this.lanes.weaken(frame, this.overlaps.frames[frame]);
    const least = this.overlaps.least();
    this.overlapKey.hidden = least === null;
    if (least !== null) setText(this.overlapKey, overlapKey(least));
    this.overlapKey.title = overlapMeaning(this.state.loaded.levels[2]);
    if (frame === this.state.frame && this.state.layers.levels) this.draw();
  }

  /**
   * The picture behind a data URI, decoded once; what waits for it is drawn when it is there.
   * @param {string | null | undefined} source @returns {HTMLImageElement | null}
   */
  image(source) {
    if (!source) return null;
    let image = this.images.get(source);
    if (!image) {
      image = new Image();
      image.onload = () => this.state.set({});
      image.src = source;
      this.images.set(source, image);
    }
    return image.complete && image.naturalWidth ? image : null;
  }

  // Whether the model's own frames are on show instead of the source's.
  modelView() {
    return this.state.layers.model && this.modelFrames() !== null;
  }

  // The model's frames, where there are pictures of them.
  modelFrames() {
    const { model } = this.state.loaded;
    return model && model.frames.length ? model : null;
  }

  // The canvas has the shape of what it shows.
  fitCanvas() {
    const model = this.modelView() && this.modelFrames();
    const [width, height] = model ? model.size : this.state.loaded.source;
    const scale = this.side / Math.max(width, height);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    for (const canvas of [this.canvas, this.twin]) {
      if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    }
    this.pictures.style.setProperty("--shape", String(w / h));
  }

  /**
   * Where the source frame lies on the canvas: all of what is shown, or the model frame's content.
   * @returns {Area}
   */
  area() {
    const shown = this.zoom.place(this.canvas.width, this.canvas.height);
    const model = this.modelView() && this.modelFrames();
    if (!model) return shown;
    const { size: [width, height], content: [x0, y0, x1, y1] } = model;
    const across = shown.w / width, down = shown.h / height;
    return { x: shown.x + x0 * across, y: shown.y + y0 * down, w: (x1 - x0) * across, h: (y1 - y0) * down };
  }

  /** A pointer's place in pixels of the canvas. @param {MouseEvent} event @returns {Point} */
  toCanvas(event) {
    const canvas = event.currentTarget === this.twin ? this.twin : this.canvas;
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * this.canvas.width,
      ((event.clientY - box.top) / box.height) * this.canvas.height];
  }

  /** A pointer's place in shares of the source frame. @param {MouseEvent} event @returns {Point} */
  toSource(event) {
    const [x, y] = this.toCanvas(event), area = this.area();
    /** @type {(v: number) => number} */
    const share = (v) => Math.min(1, Math.max(0, v));
    return [share((x - area.x) / area.w), share((y - area.y) / area.h)];
  }

  /**
   * What the model read in a frame of a second view: a picture, or null while it loads.
   * @param {ShownView["shown"]} shown @param {number} frame
   */
  secondView(shown, frame) {
    const { model } = this.state.loaded;
    return this.image((shown && shown[frame]) || (model && model.frames[frame]));
  }

  /** Why a layer cannot be shown; empty where it can. @param {Layer} layer */
  whyNot(layer) {
    const { loaded: trace, contrast, step } = this.state;
    const name = contrast ? contrast.title : TEXT.theSecondView;
    if (layer === "levels" && !trace.final) return WHY_NOT.levels;
    if (layer === "levels" && !hasLevelsOf(trace, contrast)) return WHY_NOT.otherLevels(name);
    if (layer === "counter" && this.drawsMasked()) return "";
    if (layer === "counter" && step !== null) return WHY_NOT.step;
    if (layer === "counter" && !this.hasSecondView(contrast)) return WHY_NOT.counter(name);
    if (layer === "model" && !this.modelFrames()) return WHY_NOT.model;
    return "";
  }

  // Whether the masked video is drawn here, from the levels: no model has read one.
  drawsMasked() {
    const { answers, final } = this.state.loaded;
    return final !== null && !Object.keys(answers).length;
  }

  /** @param {Answer | undefined} answer */
  hasSecondView(answer) {
    const second = answer?.second_views[0];
    return Boolean(second && isDrawable(second) && this.modelFrames());
  }

  /**
   * Draws the second view as it lies in the picture on show; what is seen of it, in words.
   * @param {CanvasRenderingContext2D} context @param {Answer} answer
   * @param {boolean} model whether the picture on show is the model's frame
   */
  drawOther(context, answer, model) {
    const { loaded: trace, frame, token, method } = this.state;
    const read = this.modelFrames(), [second] = answer.second_views;
    if (!read || !second) return "";
    const [width, height] = read.size, [x0, y0, x1, y1] = read.content;
    const larger = Math.max(1, Math.round(512 / Math.max(width, height)));
    [this.other.width, this.other.height] = [larger * width, larger * height];
    const picture = this.secondView(second.shown, frame);
    const chosen = method === answer.method ? token : 0;
    const note = drawSecondView(contextOf(this.other), { ...second, answer }, trace, frame, picture, chosen);
    const place = this.zoom.place(context.canvas.width, context.canvas.height);
    const part = model ? [0, 0, width, height] : [x0, y0, x1 - x0, y1 - y0];
    const [sx, sy, sw, sh] = part.map((v) => larger * v);
    context.drawImage(this.other, sx, sy, sw, sh, place.x, place.y, place.w, place.h);
    return note;
  }

  /** @param {number} frame @returns {FrameMasks} */
  masks(frame) {
    const masks = this.maskCache.get(frame) || frameMasks(this.state.loaded, frame);
    this.maskCache.set(frame, masks);
    return masks;
  }

  /**
   * One view with its layers. Masks are not drawn over the pixels that they have hidden.
   * @param {HTMLCanvasElement} canvas @param {boolean} masked whether it is the second view
   * @param {FrameLevels} levels @returns {string} what is seen of the second view
   */
  paintOn(canvas, masked, levels) {
    const { loaded: trace, frame, layers, contrast, step } = this.state;
    const context = contextOf(canvas), { width, height } = canvas;
    const model = this.modelView() ? this.modelFrames() : null;
    context.imageSmoothingEnabled = true;
    context.clearRect(0, 0, width, height);
    const image = this.image(model ? model.frames[frame] : trace.frames[frame]);
    const place = this.zoom.place(width, height);
    if (image) context.drawImage(image, place.x, place.y, place.w, place.h);
    const other = masked && contrast && !this.drawsMasked() && !this.whyNot("counter") ? contrast : null;
    const drawn = masked && !other && (step !== null || this.drawsMasked());
    if (drawn) this.painter.drawVeil(context, unionMask(trace, this.masks(frame), levels));
    const note = other ? this.drawOther(context, other, model !== null) : "";
    if (other && partnerOf(other) !== null) return note ? `${other.title}: ${note}` : ""; // what is known of this clip lies elsewhere in that one
    context.save();
    context.translate(place.x, place.y);
    context.scale(place.w / width, place.h / height);
    for (const paint of this.overlays) paint(context);
    context.restore();
    if (layers.soft || this.state.isDrawing) this.painter.drawSoft(context, this.masks(frame));
    const able = !this.previews && !masked && !this.whyNot("levels"), hatched = layers.levels && able;
    const pointed = !layers.levels && able && this.state.tool === null ? this.state.hover : null;
    const weak = this.overlaps.now();
    if (hatched) this.painter.drawLevels(context, levels, this.masks(frame), weak);
    if (pointed !== null) this.painter.drawLevels(context, levels, this.masks(frame), weak, pointed);
    if (layers.boxes) {
      const confidence = (/** @type {number} */ k) => hasConfidences(trace) ? ` ${confidenceText(trace.tracks[k].confidence)}` : "";
      this.painter.drawBoxes(context, hatched ? "chosen" : canvas === this.twin ? "bare" : "named",
        (k) => k === pointed ? levelEnd(levels.objects[k], weak[k]) : confidence(k));
    }
    if (this.state.tool === "click" && this.state.hover !== null) this.painter.drawTarget(context, this.state.hover);
    if (drawn) return this.drawsMasked() ? TEXT.drawnFromLevels : TEXT.drawnHere;
    return note && other ? `${other.title}: ${note}` : "";
  }

  draw() {
    const { trace, frame, layers, playing, contrast, step } = this.state;
    if (!trace) return;
    this.fitCanvas();
    const levels = levelsAt(trace, frame, step), { shown } = this;
    const note = this.paintOn(this.canvas, shown === "masked", levels);
    const beside = shown === "both" ? this.paintOn(this.twin, true, levels) : "";
    this.twin.hidden = shown !== "both";
    this.pictures.classList.toggle("mv-two-views", shown === "both");
    setText(this.note, note || beside);
    this.note.hidden = !this.note.textContent || (contrast?.method === "macd" && step === null);
    this.describe(levels);
    this.scrub.value = String(frame);
    setText(this.play, playing ? "❚❚" : "▶");
    this.play.setAttribute("aria-label", playing ? TEXT.pause : TEXT.play);
    this.loop.setAttribute("aria-pressed", String(this.state.loop));
    for (const [view, button] of this.views) {
      const why = view === "both" ? this.whyNotBeside() : view === "masked" ? this.whyNot("counter") : "";
      button.setAttribute("aria-pressed", String(view === shown));
      button.disabled = why !== "";
      button.title = why;
    }
    for (const [key, button] of this.toggles) {
      button.setAttribute("aria-pressed", String(layers[key] || (key === "soft" && this.state.isDrawing)));
      const why = this.whyNot(key);
      button.disabled = why !== "";
      button.title = why;
    }
    const name = contrast && contrast.method !== "macd" ? TEXT.secondView : TEXT.maskedView;
    setText(/** @type {HTMLElement} */ (this.views.get("masked")), name);
    this.lanes.draw();
  }

  /** @param {MouseEvent} event */
  pick(event) {
    if (this.state.tool || this.zoom.dragged) return;
    const pointed = this.under(event);
    this.state.set({ track: pointed === this.state.track ? null : pointed });
  }

  /** @param {MouseEvent} event */
  point(event) {
    const { tool, trace, hover } = this.state;
    if (!trace || (tool && tool !== "click")) return;
    const pointed = this.under(event, tool === "click");
    if (pointed !== hover) this.state.set({ hover: pointed });
  }

  /** The object under the pointer, as an index of tracks, or null; see Painter.under. @param {MouseEvent} event */
  under(event, strict = false) {
    return this.painter.under(...this.toCanvas(event), strict);
  }

  /** @param {FrameLevels} levels */
  describe(levels) {
    const { loaded: trace, frame } = this.state;
    const masked = this.shown === "video" ? "" : outsideText(levels.frame);
    this.caption.textContent = frameText(frame, trace.times) + masked + (this.modelView() && trace.model ? ` · ${trace.model.fit}` : "");
    const names = trace.tracks.flatMap((t, k) => (t.boxes[frame]
      ? [trace.final ? `${trackName(t)}, ${levelName(trace.levels, levels.objects[k])}` : trackName(t)] : []));
    const shown = [...this.toggles].filter(([key]) => this.state.layers[key] && !this.whyNot(key))
      .map(([, button]) => button.textContent ?? "");
    const second = this.views.get("masked")?.textContent ?? "";
    const own = this.shown === "masked" ? [...shown, second] : shown;
    this.canvas.setAttribute("aria-label", frameSummary(frame, trace.times.length, names, masked, own));
    this.twin.setAttribute("aria-label", frameSummary(frame, trace.times.length, names, masked, [second]));
  }
}
