// @ts-check
// Evidence maps as pictures: values, colours, and one small canvas for each frame. What is drawn
// once is kept, so that moving through the frames only copies it.

import { contextOf, el } from "./dom.js";
import { TEXT } from "./strings/labels.js";

/** @import { Evidence, EvidenceMap, EvidenceView } from "./types" */
/** @typedef {EvidenceView | "difference"} HeatView */

/** @type {[HeatView, string][]} */
export const HEAT_VIEWS = [["video", "V"], ["counterfactual", "V_d"], ["difference", TEXT.difference]];

/** Colours of the strongest evidence for and against: blue and orange, as in the tables. */
const FOR = [33, 102, 172], AGAINST = [179, 88, 6];
const KEPT_PIXELS = 16e6; // of all enlarged maps that are kept: 64 MB
const ENLARGED_PIXELS = 2e6; // of one; under a closer zoom the map is drawn where it is needed

/** Viridis, for maps without a sign, which reads the same in greys. */
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

/** The numbers of a map, frame by frame, row by row. @param {EvidenceMap} map */
export function valuesOf(map) {
  const bytes = Uint8Array.from(atob(map.values), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) => map.scale * view.getInt16(2 * i, true));
}

/** Whether a map can speak against the token: attention cannot. @param {string} kind */
export function isSigned(kind) {
  return kind !== "attention";
}

/**
 * The colour of a value that is `share` of the strongest, in [−1, 1].
 * @param {number} share @param {boolean} signed
 */
export function colourOf(share, signed) {
  if (signed) return share >= 0 ? FOR : AGAINST;
  const at = Math.min(1, Math.abs(share)) * (VIRIDIS.length - 1);
  const low = Math.min(VIRIDIS.length - 2, Math.floor(at)), rest = at - low;
  return VIRIDIS[low].map((c, i) => Math.round(c + rest * (VIRIDIS[low + 1][i] - c)));
}

/**
 * How opaque a value is, [0, 1]. A few cells hold most of the attention: the rest would not be seen.
 * @param {number} share of the strongest, in [−1, 1] @param {boolean} signed
 */
export function opacityOf(share, signed) {
  return signed ? Math.abs(share) : Math.sqrt(Math.abs(share));
}

/** One token's maps of one kind, ready to be drawn. */
export class Heat {
  /** @param {Evidence} evidence @param {string} kind */
  constructor(evidence, kind) {
    this.kind = kind;
    this.extent = evidence.extent;
    this.strongest = evidence.strongest[kind] || 0;
    /** @type {Partial<Record<HeatView, Float32Array>>} */
    this.values = {};
    /** @type {[number, number]} */
    this.grid = [1, 1];
    for (const map of evidence.maps) {
      if (map.kind !== kind) continue;
      this.values[map.view] = valuesOf(map);
      this.grid = map.grid;
    }
    const { video, counterfactual } = this.values;
    if (video && counterfactual) this.values.difference = video.map((v, i) => v - counterfactual[i]);
    /** @type {Map<string, HTMLCanvasElement>} */
    this.drawn = new Map();
    /** @type {Map<string, HTMLCanvasElement>} */
    this.cache = new Map();
  }

  /** @param {HeatView} view */
  signed(view) {
    return view === "difference" || isSigned(this.kind);
  }

  /**
   * The map of a frame as a canvas of one pixel a cell: the stronger, the more opaque.
   * @param {HeatView} view @param {number} frame @returns {HTMLCanvasElement | null}
   */
  picture(view, frame) {
    const key = `${view} ${frame}`;
    const cached = this.drawn.get(key);
    if (cached) return cached;
    const values = this.values[view];
    const [rows, columns] = this.grid, cells = rows * columns;
    if (!values || (frame + 1) * cells > values.length) return null;
    const canvas = el("canvas", { width: columns, height: rows });
    const image = new ImageData(columns, rows);
    for (let i = 0; i < cells; i++) {
      const value = values[frame * cells + i];
      const share = this.strongest > 0 ? Math.max(-1, Math.min(1, value / this.strongest)) : 0;
      image.data.set([...colourOf(share, this.signed(view)), Math.round(255 * opacityOf(share, this.signed(view)))], 4 * i);
    }
    contextOf(canvas).putImageData(image, 0, 0);
    this.drawn.set(key, canvas);
    return canvas;
  }

  /**
   * Draws a frame's map where the source frame lies.
   * @param {CanvasRenderingContext2D} context @param {HeatView} view @param {number} frame
   * @param {number} opacity of the strongest cell, [0, 1]
   * @param {{ x: number, y: number, w: number, h: number }} area of the source frame
   */
  paint(context, view, frame, opacity, area) {
    const picture = this.picture(view, frame);
    if (!picture) return;
    const [x0, y0, x1, y1] = this.extent;
    context.save();
    context.beginPath();
    context.rect(area.x, area.y, area.w, area.h); // what lies on padding is not of the video
    context.clip();
    context.globalAlpha = opacity;
    context.imageSmoothingEnabled = true;
    const [x, y, w, h] = [area.x + x0 * area.w, area.y + y0 * area.h, (x1 - x0) * area.w, (y1 - y0) * area.h];
    if (w * h > ENLARGED_PIXELS) context.drawImage(picture, x, y, w, h);
    else context.drawImage(this.enlarged(picture, `${view} ${frame}`, Math.ceil(w), Math.ceil(h)), x, y);
    context.restore();
  }

  /**
   * A frame's map in the size in which it is shown; the last ones are kept, as making one takes
   * longer than anything else of a frame.
   * @param {HTMLCanvasElement} picture @param {string} key @param {number} width @param {number} height
   */
  enlarged(picture, key, width, height) {
    const name = `${key} ${width} ${height}`;
    const canvas = this.cache.get(name) || el("canvas", { width, height });
    if (!this.cache.delete(name)) {
      const context = contextOf(canvas);
      context.imageSmoothingEnabled = true;
      context.drawImage(picture, 0, 0, width, height);
    }
    this.cache.set(name, canvas); // the last one used is the last one to go
    let pixels = 0;
    for (const { width: w, height: h } of this.cache.values()) pixels += w * h;
    for (const [oldest, { width: w, height: h }] of this.cache) {
      if (pixels <= KEPT_PIXELS) break;
      this.cache.delete(oldest);
      pixels -= w * h;
    }
    return canvas;
  }
}

/**
 * Draws the colours from the lowest to the highest value on a canvas.
 * @param {HTMLCanvasElement} canvas @param {boolean} signed
 */
export function paintBar(canvas, signed) {
  const context = contextOf(canvas), { width, height } = canvas;
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, width, height);
  for (let x = 0; x < width; x++) {
    const share = signed ? (2 * x) / (width - 1) - 1 : x / (width - 1);
    const [red, green, blue] = colourOf(share, signed);
    context.fillStyle = `rgb(${red} ${green} ${blue} / ${opacityOf(share, signed)})`;
    context.fillRect(x, 0, 1, height);
  }
}
