// @ts-check
// What is drawn on a canvas: boxes and outlines, soft masks, levels, and a second view as the model read
// it. Where on the canvas the source frame lies is the stage's matter.

import { contextOf } from "./dom.js";
import { groupOf, outlineOf } from "./masks.js";
import { levelEnd, levelIndex, trackName } from "./strings/parts.js";
import { viewText } from "./strings/runs.js";
import { inkOn, unpackBits } from "./text.js";

/** @import { Answer, FrameLevels, FrameMasks, Outline, ShownView, TokenStep, Trace, Track, View } from "./types" */
/** @import { Weak } from "./overlap.js" */
/** @import { State } from "./state.js" */

const HIDDEN = 0.8, SHADE = [16, 19, 24]; // how dark something hidden is on the picture, and its colour
const ROOM = 150; // for a label on a narrow picture, in pixels of the screen

// A second view as the model read it: its pixels, the frames it leaves out, the vision tokens it hides.

/**
 * Whether something of a second view can be drawn: stored pixels, or what it hides of the first's.
 * @param {ShownView} named
 */
export function isDrawable({ view, shown }) {
  return Boolean(shown) || view.kind === "frames" || view.kind === "pruned";
}

/**
 * Draws one frame of a second view over the whole canvas, which has the shape of the model's frames.
 * @param {CanvasRenderingContext2D} context
 * @param {{ answer: Answer, view: View, shown: ShownView["shown"] }} named @param {Trace} trace
 * @param {number} frame @param {CanvasImageSource | null} picture null while it loads
 * @param {number} token whose hidden vision tokens are darkened @returns {string} what is seen, in words
 */
export function drawSecondView(context, { answer, view, shown }, trace, frame, picture, token) {
  const { canvas } = context;
  if (picture) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const at = Math.max(0, Math.min(token, answer.tokens.length - 1));
  if (view.frames && !view.frames.includes(frame)) {
    context.fillStyle = "#808080";
    context.fillRect(0, 0, canvas.width, canvas.height);
  } else if (view.kind === "pruned") darkenHidden(context, answer.tokens[at], view, trace, frame);
  return viewText(view, { frame, token: at, drawable: isDrawable({ view, shown }) });
}

/**
 * Darkens the vision tokens that the second view did not see when it chose a token.
 * @param {CanvasRenderingContext2D} context @param {TokenStep | undefined} step @param {View} view
 * @param {Trace} trace @param {number} frame
 */
function darkenHidden(context, step, view, trace, frame) {
  if (!step || !step.hidden || !view.grid) return;
  const [patches, rows, columns] = view.grid;
  const hidden = unpackBits(step.hidden, patches * rows * columns);
  const patch = groupOf(trace, frame);
  const { width, height } = context.canvas;
  const [across, down] = [width / columns, height / rows];
  context.fillStyle = "rgba(17, 17, 17, .8)";
  for (let i = 0; i < rows * columns; i++) {
    if (hidden[patch * rows * columns + i]) {
      context.fillRect((i % columns) * across, Math.floor(i / columns) * down, across, down);
    }
  }
}

// What is drawn over a frame: boxes and outlines, soft masks, levels. Where on the canvas the source
// frame lies is the stage's matter.

/** @typedef {{ x: number, y: number, w: number, h: number }} Area pixels of a canvas */
/**
 * A label above or below a place. track, end: it names an object, whose name may be shortened, and ends so.
 * @typedef {{ x: number, y: number, below: boolean, track?: Pick<Track, "id" | "label">, end?: string, short: string, colour: string, chosen?: boolean }} Tag
 */

const FRAME_COLOUR = "#3a424b"; // of the frame mask's tag
const DIMMED = 0.72; // how dark it is outside the objects where the frame mask hides all of it
const VEIL = [120, 124, 130]; // what a masked pixel is drawn as where the model's own are not stored

export class Painter {
  /** @param {State} state @param {() => Area} area where the source frame lies */
  constructor(state, area) {
    this.state = state;
    this.area = area;
    this.buffer = document.createElement("canvas");
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {(i: number) => number} alphaOf of a pixel, in [0, 1]
   * @param {number[]} colour red, green, blue
   */
  paint(context, alphaOf, colour) {
    const [red, green, blue] = colour;
    const [w, h] = this.state.loaded.size;
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

  /** Darkens what is hidden, in an overlay. @param {CanvasRenderingContext2D} context @param {(i: number) => number} weightOf of a pixel, cut off at 1 */
  dim(context, weightOf) {
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0); // the painter knows itself where the picture lies
    this.paint(context, (i) => HIDDEN * Math.min(1, weightOf(i)), SHADE);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {FrameMasks} masks */
  drawSoft(context, masks) {
    const { loaded: { tracks }, track } = this.state;
    masks.objects.forEach((mask, k) => {
      if (!mask) return;
      const strength = track === null || track === k ? 0.6 : 0.15;
      this.paint(context, (i) => strength * mask[i], rgbOf(tracks[k].colour));
    });
  }

  /**
   * 1: cross-hatched and solid outline; between: hatched one way; 0: dashed outline alone. What the
   * frame mask hides outside the objects is dimmed, and it has its tag in the lower right corner.
   * @param {CanvasRenderingContext2D} context @param {FrameLevels} levels @param {FrameMasks} masks
   * @param {(Weak | null)[]} weak objects whose masks are weakened by others
   * @param {number | null} only the one object whose level is drawn, which has its tag already
   */
  drawLevels(context, levels, masks, weak, only = null) {
    const { loaded: { tracks, final, mask, levels: names }, layers, track, hover } = this.state;
    /** @type {Tag[]} */
    const tags = [];
    if (only === null && mask.frame_mask !== "off" && final && final.frame_level.length && levels.frame > 0) {
      this.paint(context, (i) => DIMMED * levels.frame * masks.outside[i], [16, 19, 24]);
      const { x, y, w, h } = this.area();
      const short = levelText(levels.frame);
      tags.push({ x: x + w, y: y + h, below: true, end: `frame mask: level ${short}`, short, colour: FRAME_COLOUR });
    }
    this.eachBox((k, x, y, w, h) => {
      if (only !== null && k !== only) return;
      const { colour } = tracks[k];
      const level = levels.objects[k], index = levelIndex(names, level);
      context.save();
      this.trace(context, k, x, y, w, h);
      context.strokeStyle = colour;
      context.lineWidth = index === 0 ? 2 : 4;
      context.setLineDash(index === 0 ? [8, 8] : []);
      context.stroke();
      context.clip();
      context.setLineDash([]);
      context.lineWidth = 2;
      if (index > 0) hatch(context, x, y, w, h, 1);
      if (index === 2) hatch(context, x, y, w, h, -1);
      context.restore();
      const short = levelText(level);
      if (only !== null) return;
      if (layers.boxes) tags.push({ x, y, below: false, track: tracks[k], end: levelEnd(level, weak[k]), short: String(tracks[k].id), colour, chosen: track === k || hover === k });
      else tags.push({ x, y: y + h, below: true, end: `level ${short}`, short, colour });
    });
    writeTags(context, tags);
  }

  /**
   * What the levels hide, over the picture: drawn here, not what the model read.
   * @param {CanvasRenderingContext2D} context @param {Float32Array} mask
   */
  drawVeil(context, mask) {
    this.paint(context, (i) => mask[i], VEIL);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {"named" | "bare" | "chosen"} which outlines with names, outlines alone, or the chosen one's:
   * the levels, where they are drawn too, have outlines and names of their own
   * @param {(k: number) => string} end of an object's name
   */
  drawBoxes(context, which = "named", end) {
    const { loaded: { tracks }, constants, frame, track, hover } = this.state;
    /** @type {Tag[]} */
    const tags = [];
    this.eachBox((k, x, y, w, h) => {
      const { colour, state } = tracks[k];
      const chosen = track === k || hover === k;
      if (which === "chosen" && !chosen) return;
      context.save();
      context.globalAlpha = track === null || chosen ? 1 : 0.35;
      context.lineWidth = chosen ? 6 : which === "bare" ? 2 : 3;
      context.strokeStyle = colour;
      context.setLineDash(state[frame] === constants.interpolated ? [10, 6] : []);
      this.trace(context, k, x, y, w, h);
      context.stroke();
      context.restore(); // a label is read, whichever object is chosen
      if (which === "named") tags.push({ x, y, below: false, track: tracks[k], end: end(k), short: String(tracks[k].id), colour, chosen });
    });
    writeTags(context, tags);
  }

  /**
   * Lights up the object that a click would mask.
   * @param {CanvasRenderingContext2D} context @param {number} chosen
   */
  drawTarget(context, chosen) {
    this.eachBox((k, x, y, w, h) => {
      if (k !== chosen) return;
      context.save();
      this.trace(context, k, x, y, w, h);
      context.fillStyle = "rgba(255, 255, 255, .45)";
      context.fill();
      context.restore();
    });
  }

  /**
   * The path along an object's outline, or along its box where that is all there is.
   * @param {CanvasRenderingContext2D} context @param {number} k @param {number} x @param {number} y
   * @param {number} w @param {number} h
   */
  trace(context, k, x, y, w, h) {
    const outline = this.outline(k);
    context.beginPath();
    if (!outline) context.rect(x, y, w, h);
    else {
      for (const ring of outline) {
        ring.forEach(([u, v], i) => (i ? context.lineTo(x + u * w, y + v * h) : context.moveTo(x + u * w, y + v * h)));
        context.closePath();
      }
    }
  }

  /** @param {number} k @returns {Outline | null} */
  outline(k) {
    const { loaded: trace, frame } = this.state;
    return outlineOf(trace.tracks[k], frame, trace.mask);
  }

  /** @param {(k: number, x: number, y: number, w: number, h: number) => void} draw */
  eachBox(draw) {
    const { loaded: { tracks }, frame } = this.state;
    const { x, y, w, h } = this.area();
    tracks.forEach((track, k) => {
      const box = track.boxes[frame];
      if (box) draw(k, x + box[0] * w, y + box[1] * h, (box[2] - box[0]) * w, (box[3] - box[1]) * h);
    });
  }

  /**
   * The object at a place of the canvas: of those whose outline holds it the smallest, else of those
   * whose box does; null where there is none. strict: a box counts only where there is no outline.
   * @param {number} x @param {number} y @returns {number | null}
   */
  under(x, y, strict = false) {
    /** @type {{ k: number, size: number }[]} */
    const places = [];
    this.eachBox((k, bx, by, w, h) => {
      if (x < bx || x > bx + w || y < by || y > by + h) return;
      const outline = this.outline(k);
      const within = !outline || isInside(outline, (x - bx) / w, (y - by) / h);
      if (within || !strict) places.push({ k, size: w * h * (within ? 1 : 1e6) });
    });
    places.sort((a, b) => a.size - b.size);
    return places.length ? places[0].k : null;
  }
}

/**
 * Whether a point lies in an outline, by the rule of crossings, so that a hole is outside.
 * @param {Outline} outline @param {number} u @param {number} v
 */
export function isInside(outline, u, v) {
  let inside = false;
  for (const ring of outline) {
    ring.forEach(([ax, ay], i) => {
      const [bx, by] = ring[(i + 1) % ring.length];
      if ((ay > v) !== (by > v) && u < ax + ((v - ay) * (bx - ax)) / (by - ay)) inside = !inside;
    });
  }
  return inside;
}

/** @param {string} hex */
function rgbOf(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/**
 * @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} w
 * @param {number} h @param {1 | -1} direction @param {number} spacing pixels between two stripes
 */
function hatch(context, x, y, w, h, direction, spacing = 12) {
  context.beginPath();
  for (let d = -h; d < w + h; d += spacing) {
    context.moveTo(x + d, direction > 0 ? y + h : y);
    context.lineTo(x + d + h, direction > 0 ? y : y + h);
  }
  context.stroke();
}

/** @param {number} level */
function levelText(level) {
  return level.toFixed(2).replace(/\.?0+$/, "");
}

/**
 * Labels of one size on the screen, however small the canvas is shown. One that would cover another is
 * shortened, unless its object is chosen.
 * @param {CanvasRenderingContext2D} context @param {Tag[]} tags
 */
function writeTags(context, tags) {
  const { canvas } = context;
  const scale = Math.max(1, canvas.width / (canvas.clientWidth || canvas.width)) * 0.8;
  const height = 22 * scale;
  context.font = `600 ${16 * scale}px system-ui, sans-serif`;
  /** @type {(tag: Tag, text: string) => Area} */
  const place = ({ x, y, below }, text) => {
    const w = context.measureText(text).width + 12 * scale;
    const top = below ? y + 4 * scale : y - height;
    return { x: Math.max(0, Math.min(x, canvas.width - w)), y: Math.max(0, Math.min(top, canvas.height - height)), w, h: height };
  };
  const room = Math.min(canvas.width, Math.max(0.6 * canvas.width, ROOM * scale)) - 12 * scale;
  const texts = tags.map((tag) => fitted(context, tag, room));
  const full = tags.map((tag, i) => place(tag, texts[i]));
  const order = tags.map((_, i) => i).sort((a, b) => Number(Boolean(tags[a].chosen)) - Number(Boolean(tags[b].chosen)));
  for (const i of order) { // the chosen object's comes last, on top
    const tag = tags[i];
    const covers = full.some((other, j) => j !== i && overlap(other, full[i]));
    const text = covers && !tag.chosen ? tag.short : texts[i];
    const { x, y, w, h } = place(tag, text);
    context.fillStyle = tag.colour;
    context.fillRect(x, y, w, h);
    context.fillStyle = inkOn(tag.colour);
    context.fillText(text, x + 6 * scale, y + 16 * scale);
  }
}

/**
 * A label's text; the object's name is cut where it would be wider than that.
 * @param {CanvasRenderingContext2D} context @param {Pick<Tag, "track" | "end">} tag @param {number} room
 */
export function fitted(context, { track, end = "" }, room) {
  if (!track) return end;
  /** @type {(label: string) => string} */
  const text = (label) => `${trackName({ id: track.id, label })}${end}`;
  if (context.measureText(text(track.label)).width <= room) return text(track.label);
  const letters = [...track.label];
  let most = 0, least = letters.length;
  while (most + 1 < least) { // most letters fit, least do not
    const half = (most + least) >> 1;
    if (context.measureText(text(`${letters.slice(0, half).join("")}…`)).width <= room) most = half;
    else least = half;
  }
  return text(`${letters.slice(0, most).join("")}…`);
}

/** @param {Area} a @param {Area} b */
function overlap(a, b) {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}
