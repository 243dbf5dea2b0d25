// @ts-check
// What is shown: the trace, the two answers side by side, and what is chosen. Every part reads the state;
// `set` draws all again, and the address holds the choice.

/** @import { Action, Answer, Constants, Host, Layer, Pair, Rule, Tool, Trace } from "./types" */

// Which two answers the panels show side by side: one of the video alone, and one that
// contrasts it with a second view. Pure functions, no DOM.

/** Whether its tokens were chosen from the logits of two views. @param {Answer} answer */
export function isContrast(answer) {
  return answer.tokens.some((t) => t.others.length);
}

/** The answers that can be the contrast. MACD's is one before its first token came. @param {Trace} trace */
export function contrasts(trace) {
  return Object.values(trace.answers).filter((a) => isContrast(a) || a.method === "macd");
}

/** The answers that can be the reference: those of one view that have tokens. @param {Trace} trace */
export function references(trace) {
  return Object.values(trace.answers).filter((a) =>
    a.method === "baseline" || (a.tokens.length > 0 && a.method !== "macd" && !isContrast(a)));
}

/**
 * The names of both: the selectedPair ones where the trace has them, else `baseline` and `macd`, else the
 * first; null where there is none.
 * @param {Trace} trace @param {Pair} selectedPair what the reader chose; null where nothing was chosen
 * @returns {Pair}
 */
export function choosePair(trace, selectedPair) {
  /** @type {(answers: Answer[], wish: string | null, usual: string) => string | null} */
  const pick = (answers, wish, usual) => {
    const names = answers.map((a) => a.method);
    const choice = [wish, usual].find((name) => name !== null && names.includes(name));
    return choice ?? names[0] ?? null;
  };
  return {
    reference: pick(references(trace), selectedPair.reference, "baseline"),
    contrast: pick(contrasts(trace), selectedPair.contrast, "macd"),
  };
}

/**
 * Whether α and β say how an answer was scored; other rules hold the weights of each token.
 * @param {Answer} answer
 */
export function takesAlpha(answer) {
  return answer.rule === "linear" && answer.tokens.every((t) => !t.weights);
}

/**
 * Whether the levels of the trace are those that the answer's second view hides the objects at.
 * @param {Trace} trace @param {Answer | undefined} answer
 */
export function hasLevelsOf(trace, answer) {
  if (!trace.final || !answer) return Boolean(trace.final);
  const level = answer.second_views[0]?.view.level;
  return answer.method === "macd"
    || (level !== undefined && String(level) === String(trace.final.level));
}

/**
 * The place of the token that ended an answer; -1 where it did not end, or holds no tokens.
 * @param {Answer} answer
 */
export function endOf(answer) {
  return answer.finished ? answer.tokens.length - 1 : -1;
}

/**
 * The first token at which two answers differ, -1 where they agree; where one is the beginning of the
 * other, the first that it lacks, unless that only ends the longer one. Two tokens that end their answers
 * are the same, whatever their ids: no word differs.
 * @param {Answer} one @param {Answer} other
 */
export function divergence(one, other) {
  const shorter = Math.min(one.tokens.length, other.tokens.length);
  for (let i = 0; i < shorter; i++) {
    const ends = [one, other].filter((answer) => i === endOf(answer)).length;
    if (ends === 1 || (!ends && one.tokens[i].token !== other.tokens[i].token)) return i;
  }
  return one.tokens.length === other.tokens.length || [one, other].some((answer) => endOf(answer) === shorter) ? -1 : shorter;
}

/** The ids of the tokens that end an answer of the trace. @param {Trace} trace @returns {Set<number>} */
export function endTokens(trace) {
  return new Set(Object.values(trace.answers).flatMap((answer) => {
    const end = endOf(answer);
    return end < 0 ? [] : [answer.tokens[end].token];
  }));
}

// What is shown: the trace, and what of it is chosen. Every part reads it; `set` draws all again.

export class State {
  /**
   * @param {() => void} changed what is called after a change
   * @param {Host} host what computes, if anything does
   */
  constructor(changed, host) {
    this.changed = changed;
    this.host = host;
    /** @type {Trace | null} */
    this.trace = null;
    /** @type {Constants | null} */
    this.receivedConstants = null;
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
    this.selectedPair = { reference: null, contrast: null };
    this.playing = false;
    /** Whether the reader has touched the viewer: nothing then starts to play by itself. */
    this.touched = false;
    /** Of playing; 0: as fast as the clip itself. */
    this.speed = 1;
    /** Whether the masked video stands beside the video. */
    this.both = false;
    this.loop = true;
    /** @type {number | null} the step of the ascent whose masks are shown, before it; null: its end */
    this.step = null;
    /** Whether the tokens that end an answer are shown. */
    this.ends = false;
    /** @type {boolean | null} whether tokens are shown as chips; null: short answers are */
    this.chips = null;
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

  /** Whether something computes what an action asks for. @param {Action["do"]} what */
  can(what) {
    return Boolean(this.host.send) && (!this.host.can || this.host.can.has(what));
  }

  /** Whether a press on the picture draws. */
  get isDrawing() {
    return this.tool !== null && this.tool !== "click" && this.tool !== "point";
  }

  /** @returns {Trace} */
  get loaded() {
    if (!this.trace) throw new Error("no trace is shown");
    return this.trace;
  }

  /** @returns {Answer | undefined} the answer of one view that others are compared with */
  get reference() {
    const { reference } = choosePair(this.loaded, this.selectedPair);
    return reference === null ? undefined : this.loaded.answers[reference];
  }

  /** @returns {Answer | undefined} the answer of two views that is looked at */
  get contrast() {
    const { contrast } = choosePair(this.loaded, this.selectedPair);
    return contrast === null ? undefined : this.loaded.answers[contrast];
  }

  /** @returns {Constants} */
  get constants() {
    if (!this.receivedConstants) throw new Error("no payload has come yet");
    return this.receivedConstants;
  }
}

// The address holds what is chosen: object, token, frame, layers, α and β. It is read when the trace
// that it belongs to is shown, and written when something is chosen.

/**
 * @typedef {object} Place where α and β of a viewer are kept
 * @property {Rule | null} rule
 */

const WAIT_MS = 250; // browsers refuse addresses that change too often
const LAYERS = /** @type {Layer[]} */ (["boxes", "soft", "levels", "counter", "model"]);

/** What is chosen, as the text after # of an address. @param {State} state @param {Rule | null} rule */
export function writeHash(state, rule) {
  const { loaded: trace, frame, track, token, method, layers, contrast, reference, selectedPair } = state;
  const parts = new URLSearchParams({ run: trace.run, frame: String(frame + 1), of: method, token: String(token + 1) });
  if (track !== null) parts.set("object", String(trace.tracks[track].id));
  parts.set("layers", LAYERS.filter((layer) => layers[layer]).join("."));
  if (state.both) parts.set("both", "1");
  if (rule) {
    parts.set("alpha", String(rule.alpha));
    parts.set("beta", String(rule.beta));
  }
  if (selectedPair.contrast && contrast) parts.set("contrast", contrast.method);
  if (selectedPair.reference && reference) parts.set("reference", reference.method);
  return `#${parts}`;
}

/**
 * What an address says of a trace, checked against it; null where it is about another one.
 * @param {string} hash @param {Trace} trace @param {Constants} constants
 * @returns {{ changes: Partial<State>, rule: Rule | null } | null}
 */
export function readHash(hash, trace, { largest_alpha: most, largest_beta: cut }) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  if (parts.get("run") !== trace.run) return null;
  /** @type {(name: string, most: number) => number | null} counted from 1 */
  const index = (name, most) => {
    const value = Number(parts.get(name));
    return Number.isInteger(value) && value >= 1 && value <= most ? value - 1 : null;
  };
  /** @type {Partial<State>} */
  const changes = {};
  const frame = index("frame", trace.times.length);
  if (frame !== null) changes.frame = frame;
  const object = trace.tracks.findIndex((t) => String(t.id) === parts.get("object"));
  if (object >= 0) changes.track = object;
  const selectedPair = { reference: named("reference"), contrast: named("contrast") };
  if (selectedPair.reference || selectedPair.contrast) changes.selectedPair = selectedPair;
  const method = named("of");
  const token = method === null ? null : index("token", trace.answers[method].tokens.length);
  if (method !== null && token !== null) Object.assign(changes, { method, token, picked: true });
  const layers = parts.get("layers");
  if (layers !== null) {
    const on = layers.split(".");
    changes.layers = /** @type {Record<Layer, boolean>} */ (
      Object.fromEntries(LAYERS.map((layer) => [layer, on.includes(layer)])));
    changes.both = parts.get("both") === "1";
  }
  const alpha = Number(parts.get("alpha")), beta = Number(parts.get("beta"));
  const hasRule = parts.has("alpha") && parts.has("beta") && alpha >= 0 && alpha <= most && beta >= 0 && beta <= cut;
  return { changes, rule: hasRule ? { alpha, beta } : null };

  /** @param {string} name */
  function named(name) {
    const method = parts.get(name);
    return method !== null && Object.hasOwn(trace.answers, method) ? method : null;
  }
}

export class Address {
  /** @param {State} state @param {Place} place @param {boolean} [taken] the address is neither read nor written */
  constructor(state, place, taken = false) {
    this.state = state;
    this.place = place;
    this.taken = taken;
    this.written = ""; // what the address says, or would say if it said anything
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.waiting = undefined;
    addEventListener("hashchange", () => { if (state.trace) this.restore(state.trace); });
  }

  /**
   * Takes over what the address says of a trace that has just been shown; `fresh`: and that was not
   * shown before.
   * @param {Trace} trace @param {boolean} fresh @returns {boolean} whether it said something
   */
  load(trace, fresh) {
    if (!fresh) return false;
    clearTimeout(this.waiting);
    const linked = this.restore(trace);
    if (!linked) this.written = writeHash(this.state, this.place.rule);
    return linked;
  }

  /** @param {Trace} trace */
  restore(trace) {
    const linked = this.taken ? null : readHash(location.hash, trace, this.state.constants);
    if (!linked) return false;
    this.state.set(linked.changes);
    if (linked.rule && this.place.rule) this.place.rule = linked.rule;
    this.state.set({});
    this.written = writeHash(this.state, this.place.rule);
    return true;
  }

  // After each drawing: writes the choice into the address a moment later.
  draw() {
    if (!this.state.trace || this.state.running) return;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.write(), WAIT_MS);
  }

  write() {
    if (this.taken || !this.state.trace || this.state.playing || location.protocol === "about:") return; // a notebook's frame
    const hash = writeHash(this.state, this.place.rule);
    if (hash === this.written) return; // nothing was chosen since the trace was shown
    this.written = hash;
    history.replaceState(history.state, "", hash);
  }
}
