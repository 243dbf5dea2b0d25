// @ts-check
// Where masks overlap they share the pixels, so that an object at level 1 may remain visible in part. How
// much is masked in fact: the mean of the drawn mask over the object.

import { frameMasks, levelsAt, unionMask } from "./masks.js";

/** @import { FrameLevels, FrameMasks, Trace } from "./types" */
/** @import { State } from "./state.js" */
/** @typedef {{ mean: number, others: number[] }} Weak the mean of the mask over an object, in [0, 1]; others: indices of the objects over it */

const INSIDE = 0.5; // a pixel is the object's from there on, as its own mask has it
const LEAST = 0.05; // a mean that is that much below the object's own mask is told

/**
 * The objects of a frame whose masks are weakened by others, null for each that is not.
 * @param {Trace} trace @param {FrameMasks} masks @param {FrameLevels} levels @returns {(Weak | null)[]}
 */
export function weakened(trace, masks, levels) {
  const union = unionMask(trace, masks, levels), twice = trace.mask.strength_twice;
  return masks.whole.map((whole, k) => {
    const level = twice ? levels.objects[k] ** 2 : levels.objects[k];
    if (!whole || !level) return null;
    /** @type {Set<number>} */
    const others = new Set();
    let n = 0, alone = 0, drawn = 0;
    for (let i = 0; i < whole.length; i++) {
      if (whole[i] < INSIDE) continue;
      n += 1;
      alone += level * whole[i];
      drawn += union[i];
      masks.whole.forEach((other, j) => { if (other && j !== k && other[i] >= INSIDE) others.add(j); });
    }
    return n && others.size && alone - drawn > LEAST * n ? { mean: drawn / n, others: [...others] } : null;
  });
}

/** When the browser has nothing else to do. @param {() => void} work */
function later(work) {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(() => work(), { timeout: 2000 });
  else setTimeout(work, 50);
}

/** What of this a whole run has, found one frame after the other, so that nothing waits for it. */
export class Overlaps {
  /** @param {State} state @param {(frame: number) => void} found called after each frame that has some */
  constructor(state, found) {
    this.state = state;
    this.found = found;
    /** @type {(Weak | null)[][]} by frame, as far as it is known */
    this.frames = [];
    /** @type {Trace | null} whose frames are looked at */
    this.trace = null;
  }

  load() {
    const { loaded: trace, running } = this.state;
    this.frames = [];
    this.trace = trace.final && trace.tracks.length > 1 && !running ? trace : null;
    if (this.trace) later(() => this.look(trace, 0));
  }

  /** @param {Trace} trace @param {number} frame */
  look(trace, frame) {
    if (this.trace !== trace) return; // another one came meanwhile
    this.frames[frame] = weakened(trace, frameMasks(trace, frame), levelsAt(trace, frame));
    if (this.frames[frame].some(Boolean)) this.found(frame);
    if (frame + 1 < trace.times.length) later(() => this.look(trace, frame + 1));
  }

  /** The least mean of an object at the highest level; null where none is weakened. */
  least() {
    const { tracks, final, levels } = this.state.loaded;
    const means = this.frames.flatMap((frame) => tracks.flatMap((_, k) => (frame?.[k] && final?.level[k] === levels[2].value ? [frame[k].mean] : [])));
    return means.length ? Math.min(...means) : null;
  }

  /** At the frame on show, where the levels are those of the end. */
  now() {
    return this.state.step === null ? this.frames[this.state.frame] ?? [] : [];
  }
}
