// @ts-check
// What is shown: the trace, and what of it is chosen. Every part reads it; `set` draws all again.

import { choosePair } from "./pair.js";

/** @import { Answer, Constants, Layer, Pair, Tool, Trace } from "./types" */

export class State {
  /**
   * @param {() => void} changed what is called after a change
   * @param {boolean} server whether there is one that computes
   */
  constructor(changed, server) {
    this.changed = changed;
    this.server = server;
    /** @type {Trace | null} */
    this.trace = null;
    /** @type {Constants | null} */
    this.agreed = null;
    /** Whether the trace belongs to a run that goes on. */
    this.running = false;
    this.frame = 0;
    /** @type {number | null} */
    this.track = null;
    /** @type {number | null} */
    this.hover = null;
    this.token = 0;
    /** Whose token is chosen. */
    this.method = "macd";
    this.picked = false;
    /** @type {Pair} the answers that the reader chose to see side by side */
    this.wished = { reference: null, contrast: null };
    this.playing = false;
    this.speed = 1;
    this.loop = true;
    /** @type {number | null} the step of the ascent whose masks are shown, before it; null: its end */
    this.step = null;
    /** Whether the tokens that end an answer are shown. */
    this.ends = false;
    /** @type {Tool | null} */
    this.tool = null;
    this.busy = false;
    /** @type {Record<Layer, boolean>} */
    this.layers = { boxes: true, soft: false, levels: false, counter: false, model: false };
  }

  /** @param {Partial<State>} changes */
  set(changes) {
    Object.assign(this, changes);
    this.changed();
  }

  /** Whether a press on the picture draws. */
  get draws() {
    return this.tool !== null && this.tool !== "click";
  }

  /** @returns {Trace} */
  get shown() {
    if (!this.trace) throw new Error("no trace is shown");
    return this.trace;
  }

  /** @returns {Answer | undefined} the answer of one view that others are compared with */
  get reference() {
    const { reference } = choosePair(this.shown, this.wished);
    return reference === null ? undefined : this.shown.answers[reference];
  }

  /** @returns {Answer | undefined} the answer of two views that is looked at */
  get contrast() {
    const { contrast } = choosePair(this.shown, this.wished);
    return contrast === null ? undefined : this.shown.answers[contrast];
  }

  /** @returns {Constants} */
  get constants() {
    if (!this.agreed) throw new Error("no payload has come yet");
    return this.agreed;
  }
}
