// @ts-check
// The address holds what is chosen: object, token, frame, layers, α and β. It is read when the trace
// that it belongs to is shown, and written when something is chosen.

/** @import { Layer, Rule, Trace } from "./types" */
/** @import { State } from "./state.js" */
/**
 * @typedef {object} Place where α and β of a viewer are kept
 * @property {Rule | null} rule
 */

const WAIT_MS = 250; // browsers refuse addresses that change too often
const LAYERS = /** @type {Layer[]} */ (["boxes", "soft", "levels", "counter", "model"]);

/**
 * What is chosen, as the text after # of an address.
 *
 * @param {State} state
 * @param {Rule | null} rule
 */
export function writeHash(state, rule) {
  const { shown: trace, frame, track, token, method, layers, contrast, reference, wished } = state;
  const parts = new URLSearchParams({ run: trace.run, frame: String(frame + 1), of: method, token: String(token + 1) });
  if (track !== null) parts.set("object", String(trace.tracks[track].id));
  parts.set("layers", LAYERS.filter((layer) => layers[layer]).join("."));
  if (rule) {
    parts.set("alpha", String(rule.alpha));
    parts.set("beta", String(rule.beta));
  }
  if (wished.contrast && contrast) parts.set("contrast", contrast.method);
  if (wished.reference && reference) parts.set("reference", reference.method);
  return `#${parts}`;
}

/**
 * What an address says of a trace, checked against it; null where it is about another one.
 *
 * @param {string} hash
 * @param {Trace} trace
 * @returns {{ changes: Partial<State>, rule: Rule | null } | null}
 */
export function readHash(hash, trace) {
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
  const wished = { reference: named("reference"), contrast: named("contrast") };
  if (wished.reference || wished.contrast) changes.wished = wished;
  const method = named("of");
  const token = method === null ? null : index("token", trace.answers[method].tokens.length);
  if (method !== null && token !== null) Object.assign(changes, { method, token, picked: true });
  const layers = parts.get("layers");
  if (layers !== null) {
    const on = layers.split(".");
    changes.layers = /** @type {Record<Layer, boolean>} */ (
      Object.fromEntries(LAYERS.map((layer) => [layer, on.includes(layer)])));
  }
  const alpha = Number(parts.get("alpha")), beta = Number(parts.get("beta"));
  const hasRule = parts.has("alpha") && parts.has("beta") && alpha >= 0 && alpha <= 20 && beta >= 0 && beta <= 1;
  return { changes, rule: hasRule ? { alpha, beta } : null };

  /** @param {string} name */
  function named(name) {
    const method = parts.get(name);
    return method !== null && Object.hasOwn(trace.answers, method) ? method : null;
  }
}

export class Address {
  /**
   * @param {State} state
   * @param {Place} place
   */
  constructor(state, place) {
    this.state = state;
    this.place = place;
    this.written = ""; // what the address says, or would say if it said anything
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.waiting = undefined;
    addEventListener("hashchange", () => { if (state.trace) this.restore(state.trace); });
  }

  /**
   * Takes over what the address says of a trace that has just been shown; `fresh`: and that was not
   * shown before.
   *
   * @param {Trace} trace
   * @param {boolean} fresh
   */
  load(trace, fresh) {
    if (!fresh) return;
    clearTimeout(this.waiting);
    if (!this.restore(trace)) this.written = writeHash(this.state, this.place.rule);
  }

  /** @param {Trace} trace */
  restore(trace) {
    const linked = readHash(location.hash, trace);
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
    if (!this.state.trace || this.state.playing || location.protocol === "about:") return; // a notebook's frame
    const hash = writeHash(this.state, this.place.rule);
    if (hash === this.written) return; // nothing was chosen since the trace was shown
    this.written = hash;
    history.replaceState(history.state, "", hash);
  }
}
