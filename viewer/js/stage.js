// @ts-check
// The canvas: one frame with its layers, the timeline under it, and the object rail beside it.

import { all, contextOf, el, savePicture } from "./dom.js";
import { frameMasks, levelsAt, outlineOf } from "./masks.js";
import { titleOf } from "./names.js";
import { hasLevelsOf } from "./pair.js";

/** @import { Answer, FrameLevels, FrameMasks, Layer, Point, Trace } from "./types" */
/** @import { State } from "./state.js" */

/** @type {[Layer, string][]} */
const LAYERS = [
  ["boxes", "Boxes"], ["soft", "Soft masks"], ["levels", "Levels"], ["counter", "Counterfactual"],
  ["model", "As the model sees it"],
];

export class Stage {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    /** @type {Map<string, HTMLImageElement>} */
    this.images = new Map();
    /** @type {string | undefined} the first source frame, by which a new clip is known */
    this.first = undefined;
    /** @type {number | null} the frame that is marked in the lanes */
    this.marked = null;
    /** @type {((context: CanvasRenderingContext2D) => void)[]} drawn between the picture and the masks */
    this.overlays = [];
    this.buffer = document.createElement("canvas");
    this.side = 768; // long side of the canvas: as many pixels as are seen
    /** @type {Map<number, FrameMasks>} */
    this.maskCache = new Map();
    this.canvas = el("canvas", { class: "mv-canvas", role: "img", tabindex: "-1" });
    this.caption = el("div", { class: "mv-caption" });
    this.layers = el("div", { class: "mv-layers", role: "group", "aria-label": "Layers" });
    this.scrub = el("input", {
      type: "range", min: 0, value: 0, class: "mv-scrub", "aria-label": "Frame",
      on: { input: () => state.set({ frame: Number(this.scrub.value), playing: false }) },
    });
    this.play = el("button", {
      type: "button", class: "mv-play", "aria-label": "Play",
      on: { click: () => state.set({ playing: !state.playing }) },
    });
    this.speed = el("select", {
      "aria-label": "Speed", on: { change: () => state.set({ speed: Number(this.speed.value) }) },
    }, [0.5, 1, 2, 4].map((v) => el("option", { value: v, selected: v === 1 }, `${v}×`)));
    this.loop = el("button", {
      type: "button", class: "mv-toggle", "aria-pressed": "true",
      on: { click: () => state.set({ loop: !state.loop }) },
    }, "Loop");
    this.keep = el("button", {
      type: "button", class: "mv-toggle",
      on: { click: () => savePicture(this.canvas, `frame-${state.frame + 1}.png`) },
    }, "Save PNG");
    this.lanes = el("div", { class: "mv-lanes" });
    /** @type {Map<Layer, HTMLButtonElement>} */
    this.toggles = new Map();
    this.canvas.addEventListener("click", (e) => this.pick(e));
    this.canvas.addEventListener("mousemove", (e) => this.point(e));
    this.canvas.addEventListener("mouseleave", () => state.set({ hover: null }));
    this.root = el("div", { class: "mv-stage" },
      el("div", { class: "mv-screen" }, this.canvas, this.caption),
      this.layers,
      el("div", { class: "mv-transport" }, this.play, this.scrub, this.speed, this.loop, this.keep),
      this.lanes);
    this.buildLayers();
    new ResizeObserver(() => this.measure()).observe(this.root);
  }

  measure() {
    const seen = Math.round(this.root.clientWidth * (devicePixelRatio || 1));
    const side = Math.max(320, Math.min(1280, seen));
    if (Math.abs(side - this.side) < 8) return;
    this.side = side;
    if (this.state.trace) this.state.set({});
  }

  buildLayers() {
    for (const [key, name] of LAYERS) {
      const button = el("button", {
        type: "button", class: "mv-toggle", "aria-pressed": "false",
        on: { click: () => this.state.set({ layers: { ...this.state.layers, [key]: !this.state.layers[key] } }) },
      }, name);
      this.toggles.set(key, button);
      this.layers.append(button);
    }
  }

  /** @param {Trace} trace */
  load(trace) {
    this.maskCache.clear();
    if (trace.frames[0] !== this.first) {
      this.first = trace.frames[0];
      this.images.clear();
    }
    for (const source of trace.frames) this.image(source);
    this.fitCanvas();
    this.scrub.max = String(Math.max(0, trace.times.length - 1));
    this.drawLanes();
  }

  /**
   * The picture behind a data URI, decoded once; what waits for it is drawn when it is there.
   *
   * @param {string | null | undefined} source
   * @returns {HTMLImageElement | null}
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
    const { model } = this.state.shown;
    return model && model.frames.length ? model : null;
  }

  // The canvas has the shape of what it shows.
  fitCanvas() {
    const model = this.modelView() && this.modelFrames();
    const [width, height] = model ? model.size : this.state.shown.source;
    const scale = this.side / Math.max(width, height);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      [this.canvas.width, this.canvas.height] = [w, h];
    }
  }

  // Where the source frame lies on a canvas: all of it, or the model frame's content.
  area() {
    const { canvas } = this;
    const model = this.modelView() && this.modelFrames();
    if (!model) return { x: 0, y: 0, w: canvas.width, h: canvas.height };
    const { size: [width, height], content: [x0, y0, x1, y1] } = model;
    const across = canvas.width / width, down = canvas.height / height;
    return { x: x0 * across, y: y0 * down, w: (x1 - x0) * across, h: (y1 - y0) * down };
  }

  /**
   * A pointer's place in shares of the source frame.
   *
   * @param {MouseEvent} event
   * @returns {Point}
   */
  toSource(event) {
    const box = this.canvas.getBoundingClientRect(), area = this.area();
    const x = ((event.clientX - box.left) / box.width) * this.canvas.width;
    const y = ((event.clientY - box.top) / box.height) * this.canvas.height;
    /** @type {(v: number) => number} */
    const share = (v) => Math.min(1, Math.max(0, v));
    return [share((x - area.x) / area.w), share((y - area.y) / area.h)];
  }

  /**
   * What the model read in a frame of a second view: a picture, or null while it loads.
   *
   * @param {Answer["shown"]} shown
   * @param {number} frame
   */
  secondView(shown, frame) {
    const { model } = this.state.shown;
    return this.image((shown && shown[frame]) || (model && model.frames[frame]));
  }

  /**
   * Why a layer cannot be shown; empty where it can.
   *
   * @param {Layer} layer
   */
  whyNot(layer) {
    const { shown: trace, contrast } = this.state;
    const name = contrast ? titleOf(contrast.method) : "the second view";
    if (layer === "levels" && !trace.final) return "There are no levels";
    if (layer === "levels" && !hasLevelsOf(trace, contrast)) return `The levels are not those of ${name}`;
    if (layer === "counter" && !this.hasSecondView(contrast)) return `The trace holds no pictures of ${name}`;
    if (layer === "model" && !this.modelFrames()) return "The trace does not hold what the model read";
    return "";
  }

  /** @param {Answer | undefined} answer */
  hasSecondView(answer) {
    return Boolean(answer && answer.shown && this.modelFrames());
  }

  /**
   * A picture of the model's frames on a canvas: whole, or its content over the source frame.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {HTMLImageElement} picture
   * @param {boolean} model
   */
  drawModelPicture(context, picture, model) {
    const { width, height } = context.canvas;
    const read = this.state.shown.model;
    if (model || !read) {
      context.drawImage(picture, 0, 0, width, height);
      return;
    }
    const [x0, y0, x1, y1] = read.content;
    context.drawImage(picture, x0, y0, x1 - x0, y1 - y0, 0, 0, width, height);
  }

  /**
   * @param {number} frame
   * @returns {FrameMasks}
   */
  masks(frame) {
    const known = this.maskCache.get(frame) || frameMasks(this.state.shown, frame);
    this.maskCache.set(frame, known);
    return known;
  }

  draw() {
    const { trace, frame, layers, playing } = this.state;
    if (!trace) return;
    this.fitCanvas();
    const context = contextOf(this.canvas);
    const { width, height } = this.canvas;
    const model = this.modelView() ? this.modelFrames() : null;
    context.imageSmoothingEnabled = true;
    context.clearRect(0, 0, width, height);
    const image = this.image(model ? model.frames[frame] : trace.frames[frame]);
    if (image) context.drawImage(image, 0, 0, width, height);
    const levels = levelsAt(trace, frame);
    const { contrast } = this.state;
    const counter = contrast && layers.counter && this.hasSecondView(contrast)
      ? this.secondView(contrast.shown, frame) : null;
    if (counter) this.drawModelPicture(context, counter, model !== null);
    for (const paint of this.overlays) paint(context);
    if (layers.soft) this.drawSoft(context);
    if (layers.levels && hasLevelsOf(trace, contrast)) this.drawLevels(context, levels);
    if (layers.boxes) this.drawBoxes(context);
    this.describe(levels);
    this.scrub.value = String(frame);
    this.play.textContent = playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.loop.setAttribute("aria-pressed", String(this.state.loop));
    for (const [key, button] of this.toggles) {
      button.setAttribute("aria-pressed", String(layers[key]));
      const why = this.whyNot(key);
      button.disabled = why !== "";
      button.title = why;
    }
    const name = contrast && contrast.method !== "macd" ? "Second view" : "Counterfactual";
    /** @type {HTMLElement} */ (this.toggles.get("counter")).textContent = name;
    this.markLanes();
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {(i: number) => number} alphaOf of a pixel, in [0, 1]
   * @param {number[]} colour red, green, blue
   */
  paint(context, alphaOf, colour) {
    const [red, green, blue] = colour;
    const [w, h] = this.state.shown.size;
    const layer = new ImageData(w, h);
    for (let i = 0; i < w * h; i++) {
      layer.data[4 * i] = red;
      layer.data[4 * i + 1] = green;
      layer.data[4 * i + 2] = blue;
      layer.data[4 * i + 3] = 255 * alphaOf(i);
    }
    [this.buffer.width, this.buffer.height] = [w, h];
    contextOf(this.buffer).putImageData(layer, 0, 0);
    const { x, y, w: across, h: down } = this.area();
    context.drawImage(this.buffer, x, y, across, down);
  }

  /** @param {CanvasRenderingContext2D} context */
  drawSoft(context) {
    const { shown: { tracks }, frame, track } = this.state;
    this.masks(frame).objects.forEach((mask, k) => {
      if (!mask) return;
      const strength = track === null || track === k ? 0.6 : 0.15;
      this.paint(context, (i) => strength * mask[i], rgbOf(tracks[k].colour));
    });
  }

  /**
   * 1: cross-hatched and solid outline; between: hatched one way; 0: dashed outline alone.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {FrameLevels} levels
   */
  drawLevels(context, levels) {
    const { tracks } = this.state.shown;
    this.eachBox((k, x, y, w, h) => {
      const { colour } = tracks[k];
      const level = levels.objects[k];
      context.save();
      this.trace(context, k, x, y, w, h);
      context.strokeStyle = colour;
      context.lineWidth = level === 0 ? 2 : 4;
      context.setLineDash(level === 0 ? [8, 8] : []);
      context.stroke();
      context.clip();
      context.setLineDash([]);
      context.lineWidth = 2;
      if (level > 0) hatch(context, x, y, w, h, 1);
      if (level === 1) hatch(context, x, y, w, h, -1);
      context.restore();
      tag(context, x, y + h + 26, `level ${level.toFixed(2).replace(/\.?0+$/, "")}`, colour);
    });
  }

  /** @param {CanvasRenderingContext2D} context */
  drawBoxes(context) {
    const { shown: { tracks }, constants, frame, track, hover } = this.state;
    this.eachBox((k, x, y, w, h) => {
      const { id, label, colour, confidence, state } = tracks[k];
      const chosen = track === k || hover === k;
      context.save();
      context.globalAlpha = track === null || chosen ? 1 : 0.35;
      context.lineWidth = chosen ? 6 : 3;
      context.strokeStyle = colour;
      context.setLineDash(state[frame] === constants.interpolated ? [10, 6] : []);
      this.trace(context, k, x, y, w, h);
      context.stroke();
      const crowded = tracks.length > 6 && !chosen && hover !== k;
      tag(context, x, y, crowded ? id : `${id} ${label} ${confidence.toFixed(2)}`, colour);
      context.restore();
    });
  }

  /**
   * The path along an object's outline, or along its box where that is all there is.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {number} k
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   */
  trace(context, k, x, y, w, h) {
    const { shown: trace, frame } = this.state;
    const outline = outlineOf(trace.tracks[k], frame, trace.mask);
    context.beginPath();
    if (!outline) context.rect(x, y, w, h);
    else {
      for (const ring of outline) {
        ring.forEach(([u, v], i) => (i ? context.lineTo(x + u * w, y + v * h) : context.moveTo(x + u * w, y + v * h)));
        context.closePath();
      }
    }
  }

  /** @param {(k: number, x: number, y: number, w: number, h: number) => void} draw */
  eachBox(draw) {
    const { shown: { tracks }, frame } = this.state;
    const { x, y, w, h } = this.area();
    tracks.forEach((track, k) => {
      const box = track.boxes[frame];
      if (box) draw(k, x + box[0] * w, y + box[1] * h, (box[2] - box[0]) * w, (box[3] - box[1]) * h);
    });
  }

  /** @param {MouseEvent} event */
  pick(event) {
    if (this.state.tool) return;
    const found = this.under(event);
    this.state.set({ track: found === this.state.track ? null : found });
  }

  /** @param {MouseEvent} event */
  point(event) {
    if (this.state.tool || !this.state.trace) return;
    const found = this.under(event);
    if (found !== this.state.hover) this.state.set({ hover: found });
  }

  /**
   * The smallest box under the pointer, as an index of tracks, or null.
   *
   * @param {MouseEvent} event
   * @returns {number | null}
   */
  under(event) {
    const place = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - place.left) / place.width) * this.canvas.width;
    const y = ((event.clientY - place.top) / place.height) * this.canvas.height;
    /** @type {number | null} */
    let found = null;
    let smallest = Infinity;
    this.eachBox((k, bx, by, w, h) => {
      if (x >= bx && x <= bx + w && y >= by && y <= by + h && w * h < smallest) {
        found = k;
        smallest = w * h;
      }
    });
    return found;
  }

  /** @param {FrameLevels} levels */
  describe(levels) {
    const { shown: trace, frame } = this.state;
    const time = trace.times[frame];
    const masked = levels.frame ? ` · outside of objects masked at ${levels.frame}` : "";
    this.caption.textContent =
      `frame ${frame + 1} of ${trace.times.length} · ${time.toFixed(2)} s${masked}`
      + (this.modelView() && trace.model ? ` · ${trace.model.fit}` : "");
    const names = trace.tracks.filter((t) => t.boxes[frame]).map((t) => t.label).join(", ");
    this.canvas.setAttribute("aria-label", `Frame ${frame + 1}: ${names || "no tracked objects"}`);
  }

  drawLanes() {
    const { shown: trace, constants: { states: names } } = this.state;
    /** @type {(make: (i: number) => HTMLElement) => HTMLElement[]} */
    const cells = (make) => trace.times.map((_, i) => {
      const cell = make(i);
      cell.addEventListener("click", () => this.state.set({ frame: i, playing: false }));
      return cell;
    });
    const rows = trace.tracks.map((track, k) =>
      el("div", { class: "mv-lane", "data-track": k },
        el("span", { class: "mv-lane-name" }, `${track.id} ${track.label}`),
        el("div", { class: "mv-cells" }, cells((i) =>
          el("span", {
            class: `mv-cell mv-${names[track.state[i]]}`, "data-frame": i,
            style: { "--object": track.colour },
            title: `${track.label}, frame ${i + 1}: ${names[track.state[i]]}`,
          })))));
    const strip = el("div", { class: "mv-lane" },
      el("span", { class: "mv-lane-name" }, "frame mask"),
      el("div", { class: "mv-cells" }, cells((i) => {
        const level = levelsAt(trace, i).frame;
        return el("span", {
          class: `mv-cell mv-frame-level ${level === 1 ? "mv-full" : level ? "mv-half" : ""}`,
          "data-frame": i, title: `frame ${i + 1}: ${level ? `masked at ${level}` : "kept"}`,
        }, level ? String(level).replace(/^0/, "") : "");
      })));
    this.lanes.replaceChildren(...rows, strip);
    this.marked = null;
  }

  markLanes() {
    const { frame, track, hover } = this.state;
    if (frame !== this.marked) { // the cells of two frames change, not all
      for (const cell of all(this.lanes, ".mv-now")) cell.classList.remove("mv-now");
      for (const cell of all(this.lanes, `[data-frame="${frame}"]`)) cell.classList.add("mv-now");
      this.marked = frame;
    }
    for (const lane of all(this.lanes, "[data-track]")) {
      const k = Number(lane.dataset.track);
      lane.classList.toggle("mv-dim", track !== null && k !== track);
      lane.classList.toggle("mv-lit", hover === k);
    }
  }
}

/** @param {string} hex */
function rgbOf(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 * @param {1 | -1} direction
 */
function hatch(context, x, y, w, h, direction) {
  context.beginPath();
  for (let d = -h; d < w + h; d += 12) {
    context.moveTo(x + d, direction > 0 ? y + h : y);
    context.lineTo(x + d + h, direction > 0 ? y : y + h);
  }
  context.stroke();
}

/**
 * A label of one size on the screen, however small the canvas is shown.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {string | number} text
 * @param {string} colour
 */
function tag(context, x, y, text, colour) {
  const { canvas } = context;
  const scale = Math.max(1, canvas.width / (canvas.clientWidth || canvas.width)) * 0.8;
  const height = 22 * scale;
  context.font = `600 ${16 * scale}px system-ui, sans-serif`;
  const width = context.measureText(String(text)).width + 12 * scale;
  const left = Math.max(0, Math.min(x, canvas.width - width));
  const top = Math.max(0, Math.min(y - height, canvas.height - height));
  context.fillStyle = colour;
  context.fillRect(left, top, width, height);
  context.fillStyle = "#111";
  context.fillText(String(text), left + 6 * scale, top + 16 * scale);
}
