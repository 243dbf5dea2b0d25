// @ts-check
// Soft masks, redrawn from boxes exactly as core/masking/masks.py draws them. Pure functions, no DOM.

/** @import { Box, FrameLevels, FrameMasks, MaskRecipe, Outline, Point, Stroke, Trace, Track } from "./types" */

/** @param {number} z */
function sigmoid(z) {
  return 1 / (1 + Math.exp(-Math.max(-30, Math.min(30, z))));
}

/**
 * One box [x0, y0, x1, y1] in shares of the frame -> Float32Array(W * H).
 * @param {Box} box @param {number} width @param {number} height @param {MaskRecipe} recipe
 */
export function softBox(box, width, height, recipe) {
  const mask = new Float32Array(width * height);
  if (!hasArea(box)) return mask;
  const short = Math.min(width, height);
  const grow = recipe.pad * short;
  const slope = 1 / Math.max(recipe.feather * short, 1e-3);
  /** @type {(low: number, high: number, n: number) => Float32Array} */
  const edges = (low, high, n) =>
    Float32Array.from({ length: n }, (_, i) =>
      sigmoid((i + 0.5 - low + grow) * slope) * sigmoid((high + grow - i - 0.5) * slope));
  const across = edges(box[0] * width, box[2] * width, width);
  const down = edges(box[1] * height, box[3] * height, height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) mask[i] = down[y] * across[x];
  }
  return mask;
}

/** @param {Box} box */
function hasArea(box) {
  return box[2] > box[0] && box[3] > box[1];
}

/**
 * An outline in shares of its box: core/masking/masks.py soft_outline.
 * @param {Outline} outline @param {Box} box @param {number} width @param {number} height
 * @param {MaskRecipe} recipe
 */
export function softOutline(outline, box, width, height, recipe) {
  const short = Math.min(width, height);
  const grow = recipe.pad * short;
  const slope = 1 / Math.max(recipe.feather * short, 1e-3);
  const reach = grow + recipe.reach / slope;
  const far = new Float32Array(width * height).fill(reach * reach);
  const inside = new Uint8Array(width * height);
  for (const ring of outline) {
    const at = onFrame(ring, box, width, height);
    at.forEach(([ax, ay], i) => {
      const [bx, by] = at[(i + 1) % at.length];
      nearEdge(far, ax, ay, bx, by, reach, width, height);
      crossEdge(inside, ax, ay, bx, by, width, height);
    });
  }
  const mask = new Float32Array(width * height);
  const farthest = Math.fround(reach * reach);
  const [out, within] = [sigmoid((grow - reach) * slope), sigmoid((grow + reach) * slope)];
  for (let i = 0; i < mask.length; i++) {
    if (far[i] === farthest) mask[i] = inside[i] ? within : out;
    else {
      const distance = Math.sqrt(far[i]);
      mask[i] = sigmoid(((inside[i] ? distance : -distance) + grow) * slope);
    }
  }
  return mask;
}

/**
 * Pixels [low, high) of a side of n within reach of a stretch.
 * @param {number} a @param {number} b @param {number} reach @param {number} n
 */
function spanOf(a, b, reach, n) {
  /** @type {(v: number) => number} */
  const clamp = (v) => Math.max(0, Math.min(n, v));
  return [clamp(Math.floor(Math.min(a, b) - reach)), clamp(Math.ceil(Math.max(a, b) + reach))];
}

/**
 * @param {Float32Array} far squares of distances, changed @param {number} ax @param {number} ay
 * @param {number} bx @param {number} by @param {number} reach @param {number} width @param {number} height
 */
function nearEdge(far, ax, ay, bx, by, reach, width, height) {
  const dx = bx - ax, dy = by - ay, scale = 1 / Math.max(dx * dx + dy * dy, 1e-12);
  const [left, right] = spanOf(ax, bx, reach, width), [top, bottom] = spanOf(ay, by, reach, height);
  for (let row = top; row < bottom; row++) {
    const y = row + 0.5 - ay;
    for (let column = left; column < right; column++) {
      const x = column + 0.5 - ax;
      const along = Math.max(0, Math.min(1, (x * dx + y * dy) * scale));
      const ex = x - along * dx, ey = y - along * dy, d = ex * ex + ey * ey;
      if (d < far[row * width + column]) far[row * width + column] = d;
    }
  }
}

/**
 * @param {Uint8Array} inside changed @param {number} ax @param {number} ay @param {number} bx
 * @param {number} by @param {number} width @param {number} height
 */
function crossEdge(inside, ax, ay, bx, by, width, height) {
  const [top, bottom] = spanOf(ay, by, 0, height);
  for (let row = top; row < bottom; row++) {
    const y = row + 0.5;
    if ((ay > y) === (by > y)) continue;
    const end = Math.min(width, Math.ceil(ax + ((y - ay) * (bx - ax)) / (by - ay) - 0.5));
    for (let column = 0; column < end; column++) inside[row * width + column] ^= 1;
  }
}

/**
 * Points in shares of a box, in pixels of the frame.
 * @param {Point[]} points @param {Box} box @param {number} width @param {number} height @returns {Point[]}
 */
function onFrame(points, box, width, height) {
  return points.map(([u, v]) =>
    [(box[0] + u * (box[2] - box[0])) * width, (box[1] + v * (box[3] - box[1])) * height]);
}

/**
 * One stroke of a brush drawn on or erased from a mask: core/masking/masks.py brushed.
 * @param {Float32Array} mask changed @param {Box} box @param {Stroke} stroke @param {number} width
 * @param {number} height @param {MaskRecipe} recipe
 */
function brushed(mask, box, stroke, width, height, recipe) {
  const short = Math.min(width, height);
  const slope = 1 / Math.max(recipe.feather * short, 1e-3);
  const points = onFrame(stroke.points, box, width, height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      let far = Infinity;
      for (const [px, py] of points) far = Math.min(far, (x + 0.5 - px) ** 2 + (y + 0.5 - py) ** 2);
      const disc = sigmoid((stroke.radius * short - Math.sqrt(far)) * slope);
      mask[i] = stroke.erase ? Math.min(mask[i], 1 - disc) : Math.max(mask[i], disc);
    }
  }
}

/**
 * @param {Track} track @param {number} frame @param {number} width @param {number} height
 * @param {MaskRecipe} recipe
 */
function trackMask(track, frame, width, height, recipe) {
  const box = track.boxes[frame];
  if (!box) return null;
  const outline = hasArea(box) ? outlineOf(track, frame, recipe) : null;
  const mask = outline
    ? softOutline(outline, box, width, height, recipe) : softBox(box, width, height, recipe);
  for (const stroke of track.brush) brushed(mask, box, stroke, width, height, recipe);
  return mask;
}

/** @param {(Float32Array | null)[]} masks @param {number} n */
function largest(masks, n) {
  const out = new Float32Array(n);
  for (const mask of masks) {
    if (mask) for (let i = 0; i < n; i++) if (mask[i] > out[i]) out[i] = mask[i];
  }
  return out;
}

/**
 * What the mask of a track follows on a frame: its outline in shares of its box, or null: the box.
 * @param {Track} track @param {number} frame @param {MaskRecipe} recipe
 */
export function outlineOf(track, frame, recipe) {
  return recipe.shape === "box" ? null : track.outlines[frame] || null;
}

/**
 * Masks of one frame: { objects: [Float32Array | null per track], outside: Float32Array, whole: as objects }.
 * @param {Trace} trace @param {number} frame @returns {FrameMasks}
 */
export function frameMasks(trace, frame) {
  const [width, height] = trace.size;
  const n = width * height;
  const recipe = trace.mask;
  /** @type {(track: Track) => number[]} */
  const framesOf = (track) => (recipe.swept ? track.boxes.map((_, i) => i) : [frame]);
  const raw = trace.tracks.map((track) => {
    const drawn = framesOf(track).map((i) => trackMask(track, i, width, height, recipe)).filter((m) => m !== null);
    return drawn.length ? largest(drawn, n) : null;
  });
  const covered = largest(raw, n);
  const outside = recipe.frame_mask === "whole"
    ? new Float32Array(n).fill(1)
    : covered.map((v) => 1 - v);
  return { objects: recipe.overlap === "normalise" ? shareOverlap(trace, raw, n) : raw, outside, whole: raw };
}

/** @param {Trace} trace @param {(Float32Array | null)[]} raw @param {number} n */
function shareOverlap(trace, raw, n) {
  const present = raw.flatMap((mask, k) => (mask
    ? [{ mask, out: new Float32Array(n), weight: Math.max(trace.tracks[k].confidence, 1e-6), k }] : []));
  if (raw.length < 2) return raw;
  for (let i = 0; i < n; i++) {
    let sum = 0, weighted = 0;
    for (const { mask, weight } of present) {
      sum += mask[i];
      weighted += mask[i] * weight;
    }
    if (weighted <= 1e-12) continue;
    const share = Math.min(1, sum) / weighted;
    for (const { mask, out, weight } of present) out[i] = mask[i] * weight * share;
  }
  return raw.map((_, k) => present.find((p) => p.k === k)?.out || null);
}

/** A strength's level: core/macd.py quantize_strengths. @param {number} strength @param {Trace} trace */
function quantized(strength, { r0, tau, levels: [lowest, between, highest] }) {
  if (between.value === null) return strength; // they stay as the ascent left them
  return (strength > r0 + tau ? highest.value : strength < r0 - tau ? lowest.value : between.value) ?? strength;
}

/**
 * What strengths become as levels; of the frame groups only the few with the largest margin stay
 * masked: core/macd.py frame_levels.
 * @param {Trace} trace @param {number[]} strength of the objects @param {number[]} frame_strength
 * @returns {{ objects: number[], frames: number[] }}
 */
export function levelsOfStrengths(trace, strength, frame_strength) {
  const frames = frame_strength.map((r) => quantized(r, trace));
  const few = Math.floor(trace.frame_fraction * frames.length);
  const order = frames.map((_, g) => g)
    .sort((a, b) => (frame_strength[b] - trace.r0) - (frame_strength[a] - trace.r0));
  for (const g of order.slice(trace.frame_fraction > 0 ? Math.max(1, few) : few)) frames[g] = 0;
  return { objects: strength.map((r) => quantized(r, trace)), frames };
}

/** What the strengths before a step of the ascent would be as levels. @param {Trace} trace @param {number} step */
export function levelsOfStep(trace, step) {
  const { strength, frame_strength } = trace.steps[step];
  return levelsOfStrengths(trace, strength, frame_strength);
}

/** The group of frames that a frame belongs to, as an index. @param {Trace} trace @param {number} frame */
export function groupOf(trace, frame) {
  return trace.groups.findIndex((group) => group.includes(frame));
}

/**
 * What the objects and one frame are hidden at, as the ascent ended or before one of its steps; at r0
 * as long as no ascent has ended.
 * @param {Trace} trace @param {number} frame @param {number | null} step null: the end @returns {FrameLevels}
 */
export function levelsAt(trace, frame, step = null) {
  const group = groupOf(trace, frame);
  if (step !== null) {
    const { objects, frames } = levelsOfStep(trace, step);
    return { objects, frame: frames.length ? frames[group] : 0 };
  }
  return {
    objects: trace.final ? trace.final.level : trace.tracks.map(() => trace.r0),
    frame: trace.final && trace.final.frame_level.length ? trace.final.frame_level[group] : 0,
  };
}

/**
 * M of one frame from levels: core/masking/masks.py combine_masks.
 * @param {Trace} trace @param {FrameMasks} masks @param {FrameLevels} levels
 */
export function unionMask(trace, masks, levels) {
  const { fusion, strength_twice: twice } = trace.mask;
  const applied = (/** @type {number} */ r) => (twice ? r * r : r), strengths = levels.objects.map(applied);
  const frameLevel = trace.mask.frame_mask === "off" ? 0 : applied(levels.frame);
  const [width, height] = trace.size;
  const n = width * height;
  const out = new Float32Array(n);
  if (fusion === "or") {
    const left = new Float32Array(n).fill(1);
    masks.objects.forEach((mask, k) => {
      const r = strengths[k];
      if (mask && r) for (let i = 0; i < n; i++) left[i] *= 1 - r * mask[i];
    });
    for (let i = 0; i < n; i++) out[i] = 1 - left[i] * (1 - frameLevel * masks.outside[i]);
    return out;
  }
  if (fusion === "max" || fusion === "sum") {
    masks.objects.forEach((mask, k) => {
      const r = strengths[k];
      if (mask && r) for (let i = 0; i < n; i++) out[i] = Math.max(out[i], r * mask[i]);
    });
  } else {
    for (let i = 0; i < n; i++) {
      let top = 0, total = 0, mean = 0;
      masks.objects.forEach((mask, k) => {
        if (!mask) return;
        const share = mask[i] * (fusion === "confidence" ? trace.tracks[k].confidence : 1);
        top = Math.max(top, mask[i]);
        total += share;
        mean += share * strengths[k];
      });
      if (total > 1e-9) out[i] = (mean / total) * top;
    }
  }
  if (frameLevel) {
    for (let i = 0; i < n; i++) {
      const outside = frameLevel * masks.outside[i];
      out[i] = fusion === "sum" ? Math.min(1, out[i] + outside) : Math.max(out[i], outside);
    }
  }
  return out;
}

/**
 * How a loss changes with each strength, from its slope by M of one frame: core/macd.py MaskCompositor.mask
 * taken back. Where several masks are the largest, they share the slope.
 * @param {Trace} trace @param {FrameMasks} masks @param {FrameLevels} levels @param {Float32Array} slope of M
 * @returns {{ objects: number[], frame: number }}
 */
export function unionSlopes(trace, masks, levels, slope) {
  const objects = masks.objects.map(() => 0), { fusion, frame_mask, strength_twice: twice } = trace.mask;
  const applied = (/** @type {number} */ r) => (twice ? r * r : r), strengths = levels.objects.map(applied);
  const frames = frame_mask === "off" ? null : masks.outside, at = applied(levels.frame);
  const reach = fusion === "confidence" || fusion === "average" ? shares(trace, masks) : masks.objects;
  let frame = 0;
  for (let i = 0; i < slope.length; i++) {
    if (fusion === "or") {
      /** @type {(skip: number) => number} what the others leave */
      const left = (skip) => masks.objects.reduce((z, mask, k) => (mask && k !== skip ? z * (1 - strengths[k] * mask[i]) : z), 1);
      const open = frames ? 1 - at * frames[i] : 1;
      masks.objects.forEach((mask, k) => { if (mask && mask[i]) objects[k] += slope[i] * mask[i] * left(k) * open; });
      if (frames) frame += slope[i] * frames[i] * left(-1);
      continue;
    }
    const layers = reach.map((mask, k) => (mask ? Math.fround(Math.fround(strengths[k]) * mask[i]) : 0));
    if (fusion === "sum") {
      const top = Math.max(0, ...layers), outside = frames ? at * frames[i] : 0;
      if (Math.fround(top + outside) > 1) continue; // clamped: nothing moves it
      const highest = layers.filter((z) => z === top).length;
      reach.forEach((mask, k) => { if (mask && layers[k] === top) objects[k] += (slope[i] / highest) * mask[i]; });
      if (frames) frame += slope[i] * frames[i];
      continue;
    }
    const joined = fusion === "max" ? layers : layers.length ? [layers.reduce((a, b) => a + b, 0)] : [];
    const outside = frames ? Math.fround(Math.fround(at) * frames[i]) : -1;
    const top = Math.max(outside, ...joined);
    const share = slope[i] / (joined.filter((z) => z === top).length + (outside === top ? 1 : 0));
    reach.forEach((mask, k) => { if (mask && (fusion === "max" ? layers[k] : joined[0]) === top) objects[k] += share * mask[i]; });
    if (frames && outside === top) frame += share * frames[i];
  }
  if (twice) return { objects: objects.map((z, k) => 2 * levels.objects[k] * z), frame: 2 * levels.frame * frame };
  return { objects, frame };
}

/** What each strength alone does to M in the fusions that average. @param {Trace} trace @param {FrameMasks} masks */
function shares(trace, masks) {
  const n = masks.outside.length, weighs = trace.mask.fusion === "confidence";
  const weight = trace.tracks.map(({ confidence }) => (weighs ? confidence : 1));
  const top = largest(masks.objects, n), total = new Float32Array(n);
  masks.objects.forEach((mask, k) => { if (mask) for (let i = 0; i < n; i++) total[i] += weight[k] * mask[i]; });
  return masks.objects.map((mask, k) => mask && mask.map((z, i) => (weight[k] * z * top[i]) / Math.max(total[i], 1e-9)));
}
