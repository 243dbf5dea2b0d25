// @ts-check
// A trace with the embedded model at hand, in a worker: changes by hand and what is measured of it, as
// core/whatif has them. Masks are those of masks.js and scores those of rescore.js; the model only reads.

import { bitmap, clamped, logOdds, logP, logZ, mean, rankCorrelation, sum, withAt } from "./arithmetic.js";
import { Refused, editedTracks, levelsByHand } from "./edits.js";
import { frameMasks, levelsOfStrengths, unionMask, unionSlopes } from "./masks.js";
import { maskedVideo } from "./reading.js";
import { rescore } from "./rescore.js";
import { constantText, isMaskedAlready, occlusionVerdict, stepMessage } from "./strings/edits.js";
import { TEXT } from "./strings/labels.js";
import { visible } from "./text.js";

/** @import { Action, Answer, AscentStep, Constants, ControlOutcome, ControlReport, Counterfactual, Edit, EngineRun, FrameMasks, OcclusionReport, ReadMasked, Reading, Rule, TokenStep, Trace } from "./types" */

const CANDIDATES = 10, TOLERANCE = 0.75; // of core/whatif/workbench.py: other weights give other logits
const MOST_EDITS = 200;

/**
 * A view that the model was given: its mask, and the longest that was read of it.
 * @typedef {{ mask: Float32Array | null, fill?: number[], tokens: number[], reading: Reading | null }} Seen
 */
/** @typedef {{ objects: number[], frames: number[] }} Strengths */
/** @typedef {{ trace: Trace, seconds: number }} Measured */

export class Bench {
  /** @param {Trace} trace as the page shows it @param {EngineRun} run @param {Constants} constants @param {ReadMasked} read */
  constructor(trace, run, constants, read) {
    this.run = run;
    this.constants = constants;
    this.ask = read;
    this.trace = { ...trace, tracks: trace.tracks.map((track, k) => ({ ...track, ...run.tracks[k] })) };
    /** @type {Trace[]} */
    this.before = [];
    /** @type {Trace[]} */
    this.after = [];
    /** @type {Seen} */
    this.video = { mask: null, tokens: [], reading: null };
    /** @type {Seen | null} what was read last behind masks */
    this.masked = null;
    this.checked = false;
  }

  /**
   * Does what a viewer asks for, and gives the trace to show.
   * @param {Action} action @param {(message: string) => void} tell @returns {Promise<Trace>}
   */
  async act(action, tell) {
    if (action.do === "undo" || action.do === "redo") return this.turn(action.do === "undo");
    await this.check();
    if (action.do === "edit") return this.change(action.edit, tell);
    if (action.do === "redecode") return this.remember(await this.redecoded(action));
    if (action.do === "occlusion") return this.shown({ ...this.trace, occlusion: await this.occlusion() });
    if (action.do === "controls") return this.shown({ ...this.trace, controls: await this.controls() });
    throw new Refused(TEXT.needsServer);
  }

  /** @param {Trace} trace */
  shown(trace) {
    this.trace = trace;
    const former = this.before[this.before.length - 1];
    return { ...trace, previous: former?.answers.macd, redo: this.after.length > 0 };
  }

  /** @param {Trace} trace after a change by hand */
  remember(trace) {
    if (trace !== this.trace) {
      this.before.push(this.trace);
      this.after = [];
    }
    return this.shown(trace);
  }

  /** @param {boolean} back */
  turn(back) {
    const [from, to] = back ? [this.before, this.after] : [this.after, this.before];
    const other = from.pop();
    if (!other) return this.shown(this.trace);
    to.push(this.trace);
    this.masked = null;
    return this.shown(other);
  }

  // Other weights than those of the trace would set answers of two models side by side.
  async check() {
    if (this.checked) return;
    const first = this.trace.answers.baseline.tokens[0];
    if (first) {
      const row = await this.row(this.video, []);
      const best = first.candidates.slice(0, CANDIDATES);
      const difference = mean(best.map((id, i) => Math.abs(row[id] - first.base[i])));
      if (!(difference <= TOLERANCE)) throw new Refused(TEXT.otherWeights);
    }
    this.checked = true;
  }

  /** Logits (V) of the token after `tokens`. @param {Seen} view @param {number[]} tokens */
  async row(view, tokens) {
    const known = view.reading !== null && tokens.every((token, i) => view.tokens[i] === token);
    const reading = known && view.reading ? view.reading : await this.read(view, tokens);
    const at = this.length - 1 + tokens.length;
    return reading.logits.subarray(at * reading.words, (at + 1) * reading.words);
  }

  /** @param {Seen} view @param {number[]} tokens that are read with the prompt */
  async read(view, tokens) {
    const reading = await this.ask(view.mask, tokens, view.fill);
    Object.assign(view, { tokens, reading });
    return reading;
  }

  /** Tokens of the prompt. */
  get length() {
    return this.run.positions[0].length;
  }

  /** Query loss of a view, nats a token. @param {Seen} view */
  async loss(view) {
    const { logits, words } = view.reading ?? await this.read(view, []);
    return mean(this.run.query.map((at, i) => -logP(logits.subarray((at - 1) * words, at * words), this.run.targets[i])));
  }

  // Changes by hand

  /** @param {Edit} edit @param {(message: string) => void} tell */
  async change(edit, tell) {
    const { trace } = this, { final } = trace;
    if (!final) throw new Refused(TEXT.needsServer);
    if (trace.edits.length >= MOST_EDITS) throw new Refused(TEXT.tooManyEdits);
    if (edit.kind === "label") return this.remember({ ...trace, tracks: editedTracks(trace, edit, this.constants), edits: [...trace.edits, edit] });
    const k = trace.tracks.findIndex((t) => t.id === edit.track), { level = 0, track = 0 } = edit;
    if (edit.kind === "level" && final.level[k] === level) throw new Refused(isMaskedAlready(level));
    if (edit.kind === "frames" && final.frame_level[track] === level) throw new Refused(isMaskedAlready(level));
    const now = { ...trace, tracks: editedTracks(trace, edit, this.constants), edits: [...trace.edits, edit], occlusion: null, controls: null, choice_map: null, choices: null, evidence: [], enough: [], shared: {}, again: undefined };
    if (edit.kind === "level") return this.remember(await this.answered(now, { ...final, level: withAt(final.level, k, level) }));
    if (edit.kind === "frames") return this.remember(await this.answered(now, { ...final, frame_level: withAt(final.frame_level, track, level) }));
    return this.remember(await this.answered(...await this.ascend(now, tell)));
  }

  /**
   * The ascent on the masks as they are now, and where it ends; levels that were set by hand stay.
   * @param {Trace} trace @param {(message: string) => void} tell @returns {Promise<[Trace, Counterfactual]>}
   */
  async ascend(trace, tell) {
    const { r0, eta, steps: count } = this.run.ascent;
    const masks = trace.times.map((_, t) => frameMasks(trace, t));
    const groups = trace.mask.frame_mask === "off" ? 0 : trace.groups.length;
    /** @type {Strengths} */
    const strengths = { objects: trace.tracks.map(() => r0), frames: Array(groups).fill(r0) };
    /** @type {AscentStep[]} */
    const steps = [];
    for (let index = 0; index < count; index++) {
      const { loss, objects, frames } = await this.gradient(trace, masks, strengths);
      if (![...objects, ...frames].some((slope) => slope)) throw new Refused(TEXT.blindGradient);
      steps.push({ loss, strength: [...strengths.objects], gradient: objects, frame_strength: [...strengths.frames], frame_gradient: frames });
      strengths.objects = strengths.objects.map((r, k) => clamped(r + eta * objects[k]));
      strengths.frames = strengths.frames.map((r, g) => clamped(r + eta * frames[g]));
      tell(stepMessage(index + 1, count, loss));
    }
    const { objects: strength, frames: frame_strength } = strengths;
    const levels = levelsOfStrengths(trace, strength, frame_strength);
    const byHand = levelsByHand(trace);
    const final = {
      strength, margin: strength.map((r) => r - r0), level: levels.objects.map((level, k) => byHand.objects.get(trace.tracks[k].id) ?? level),
      frame_strength, frame_margin: frame_strength.map((r) => r - r0), frame_level: levels.frames.map((level, g) => byHand.frames.get(g) ?? level),
      base_loss: null, loss: null, by_hand: [], frame_by_hand: [],
    };
    return [{ ...trace, steps }, final];
  }

  /**
   * The query loss and its gradient by every strength: core/macd.py gradient_at.
   * @param {Trace} trace @param {FrameMasks[]} masks @param {Strengths} strengths
   */
  async gradient(trace, masks, strengths) {
    const { groups } = trace, { query, targets } = this.run;
    const objects = strengths.objects.map(() => 0), frames = strengths.frames.map(() => 0);
    const words = this.run.texts.length, rows = new Float32Array(this.length * words);
    query.forEach((at, i) => { rows[(at - 1) * words + targets[i]] = 1 / query.length; });
    const union = this.union(trace, strengths.objects, strengths.frames, masks);
    const { loss, slope } = await this.ask(union, [], undefined, rows);
    if (!slope) throw new Error("the model gave no slope");
    masks.forEach((mask, t) => {
      const group = groups.findIndex((g) => g.includes(t)), n = mask.outside.length;
      const found = unionSlopes(trace, mask, { objects: strengths.objects, frame: strengths.frames[group] ?? 0 }, slope.subarray(t * n, (t + 1) * n));
      found.objects.forEach((z, k) => { objects[k] += z; });
      if (frames.length) frames[group] += found.frame;
    });
    return { loss, objects, frames };
  }

  /**
   * M (T, H, W) of levels of the objects and the frame groups.
   * @param {Trace} trace @param {number[]} objects @param {number[]} frames
   */
  union(trace, objects, frames, masks = trace.times.map((_, t) => frameMasks(trace, t))) {
    const n = trace.size[0] * trace.size[1], out = new Float32Array(masks.length * n);
    masks.forEach((mask, t) => {
      const frame = frames[trace.groups.findIndex((g) => g.includes(t))] ?? 0;
      out.set(unionMask(trace, mask, { objects, frame }), t * n);
    });
    return out;
  }

  /**
   * The trace with MACD's answer behind masks of these levels.
   * @param {Trace} trace @param {Counterfactual} final @returns {Promise<Trace>}
   */
  async answered(trace, final) {
    const began = performance.now(), { macd, baseline } = trace.answers;
    const view = { mask: this.union(trace, final.level, final.frame_level), tokens: [], reading: null };
    this.masked = view;
    const answer = await this.decoded(trace, view, macd, macd.tokens.map((t) => t.token), 0);
    const [base_loss, loss] = [await this.loss(this.video), await this.loss(view)];
    const byHand = levelsByHand(trace), ms = Math.round(10 * (performance.now() - began)) / 10;
    const ended = {
      ...final, base_loss, loss,
      by_hand: trace.tracks.map((t) => byHand.objects.has(t.id)), frame_by_hand: final.frame_level.map((_, g) => byHand.frames.has(g)),
    };
    const shown = { view: { kind: "masks", level: final.level, frame_level: final.frame_level, swept: trace.mask.swept, frame_mask: trace.mask.frame_mask }, shown: this.pictures(view.mask) };
    const made = { ...answer, ...constantOf(answer, baseline), second_views: [shown], ms, total_ms: ms };
    const kept = Object.entries(trace.answers).filter(([name, one]) => name === "macd" || !one.depends_on_masks);
    return { ...trace, final: ended, comparable: false, answers: Object.fromEntries(kept.map(([name, one]) => [name, name === "macd" ? made : one])) };
  }

  /**
   * MACD's answer from the token at `first` on, greedily. What was answered before is read at once: as long
   * as the choice stays the same, nothing needs to be read again.
   * @param {Trace} trace @param {Seen} view @param {Answer} former @param {number[]} guess @param {number} first @param {Rule} rule @returns {Promise<Answer>}
   */
  async decoded(trace, view, former, guess, first, rule = former) {
    const { alpha, beta } = rule;
    const { max_tokens } = this.run.decode, { end } = this.run;
    const tokens = former.tokens.slice(0, first), ids = tokens.map((t) => t.token);
    for (const seen of [this.video, view]) await this.row(seen, guess.slice(0, -1));
    while (ids.length < max_tokens && !end.includes(ids[ids.length - 1])) {
      const step = this.step(ids.length, await this.row(this.video, [...ids]), await this.row(view, [...ids]));
      const { rows, chosen } = rescore(step, alpha, beta, former.head);
      tokens.push({ ...step, token: rows[chosen].id, text: rows[chosen].text });
      ids.push(rows[chosen].id);
    }
    const text = this.text(ids), finished = end.includes(ids[ids.length - 1]);
    return { ...former, alpha, beta, tokens, text, finished, right: finished ? rightness(text, trace.truth) : null };
  }

  /** @param {number} index @param {Float32Array} base @param {Float32Array} other @returns {TokenStep} without its choice */
  step(index, base, other) {
    const candidates = [...base.keys()].sort((a, b) => base[b] - base[a] || a - b);
    const texts = candidates.map((id) => this.run.texts[id]);
    return {
      index, token: -1, text: "", candidates, texts, base: candidates.map((id) => base[id]), base_log_z: logZ(base),
      others: [candidates.map((id) => other[id])], others_log_z: [logZ(other)], hidden: null, floor: null, complete: true, weights: null, repeats: null,
    };
  }

  /** Tokens as text, without those that only control. @param {number[]} ids */
  text(ids) {
    const words = ids.map((id) => this.run.texts[id]).filter((text) => !text.startsWith("<|"));
    return words.join(" ").replace(/ ([.,?!])/g, "$1").trim();
  }

  /** The frames behind a mask as pictures; null where they are as the model read them. @param {Float32Array | null} mask */
  pictures(mask) {
    const { run } = this, [frames, height, width] = run.shape, pixels = height * width;
    const video = maskedVideo(run, mask, run.fill);
    return Array.from({ length: frames }, (_, t) => {
      const rgb = new Uint8Array(3 * pixels);
      for (let i = 0; i < pixels; i++) {
        for (let c = 0; c < 3; c++) rgb[3 * i + c] = Math.max(0, Math.min(255, Math.round((video[(t * 3 + c) * pixels + i] * run.std[c] + run.mean[c]) * 255)));
      }
      const same = rgb.every((value, i) => value === run.frames[3 * t * pixels + i]);
      return same ? null : bitmap(rgb, width, height);
    });
  }

  /**
   * The answer under another α and β, from the first token that they change.
   * @param {Rule & { method: string }} rule @returns {Promise<Trace>}
   */
  async redecoded({ method, alpha, beta }) {
    const { trace } = this, former = trace.answers[method];
    if (method !== "macd" || !trace.final) throw new Refused(TEXT.needsServer);
    const began = performance.now();
    const view = this.masked ?? { mask: this.union(trace, trace.final.level, trace.final.frame_level), tokens: [], reading: null };
    this.masked = view;
    const changed = former.tokens.findIndex((step) => {
      const { rows, chosen } = rescore(step, alpha, beta, former.head);
      return rows[chosen].id !== step.token;
    });
    const ids = former.tokens.map((t) => t.token);
    const answer = changed < 0 ? { ...former, alpha, beta } : await this.decoded(trace, view, former, ids, changed, { alpha, beta });
    const ms = Math.round(10 * (performance.now() - began)) / 10;
    const made = { ...answer, ...constantOf(answer, trace.answers.baseline), ms, total_ms: ms };
    return { ...trace, controls: null, choice_map: null, choices: null, answers: { ...trace.answers, macd: made } };
  }

  // What is measured

  /** Masks one object after the other: core/whatif/occlusion.py. @returns {Promise<OcclusionReport>} */
  async occlusion() {
    const { trace } = this, { tracks, steps, final } = trace, answer = trace.answers.baseline.tokens.map((t) => t.token);
    if (!tracks.length || !answer.length || !final) throw new Refused(TEXT.nothingToMeasure);
    /** @type {(view: Seen) => Promise<{ loss: number, chances: number[] }>} */
    const measured = async (view) => {
      await this.row(view, answer.slice(0, -1));
      const chances = [];
      for (const [i, token] of answer.entries()) chances.push(logP(await this.row(view, answer.slice(0, i)), token));
      return { loss: await this.loss(view), chances };
    };
    const base = await measured(this.video), masks = trace.times.map((_, t) => frameMasks(trace, t));
    const alone = [];
    for (const k of tracks.keys()) {
      const levels = tracks.map((_, i) => Number(i === k));
      alone.push(await measured({ mask: this.union(trace, levels, [], masks), tokens: [], reading: null }));
    }
    const gradient = steps.length ? steps[0].gradient : tracks.map(() => 0);
    const loss_change = alone.map(({ loss }) => loss - base.loss);
    const odds = (/** @type {number[]} */ chances) => logOdds(sum(chances));
    return {
      gradient, loss_change, odds_change: alone.map(({ chances }) => odds(chances) - odds(base.chances)),
      token_change: alone.map(({ chances }) => chances.map((z, i) => z - base.chances[i])),
      correlation: rankCorrelation(gradient, loss_change), verdict: occlusionVerdict(gradient, loss_change, final.level),
    };
  }

  /** MACD's choice beside that of controls: core/whatif/controls.py. @returns {Promise<ControlReport>} */
  async controls() {
    const began = performance.now(), { trace, run } = this, { macd, baseline } = trace.answers, { final, steps } = trace;
    if (!final || !macd.tokens.length || !baseline.tokens.length) throw new Refused(TEXT.nothingToMeasure);
    if (trace.edits.length) throw new Refused(TEXT.randomOfSaved);
    const parts = partsAt(macd, baseline), last = parts ?? macd.tokens.length - 1;
    const tokens = macd.tokens.slice(0, last + 1).map((t) => t.token);
    /** @type {[ControlOutcome["name"], Seen][]} */
    const views = run.placements.map(({ boxes, frame_level }) => {
      const tracks = trace.tracks.map((track, k) => ({ ...track, boxes: boxes[k] }));
      return ["random", { mask: this.union({ ...trace, tracks }, final.level, frame_level), tokens: [], reading: null }];
    });
    if (trace.tracks.length) views.push(["mask-all", { mask: this.union(trace, trace.tracks.map(() => 1), []), tokens: [], reading: null }]);
    if (steps.length) {
      const step = steps[steps.length - 1], { eta } = run.ascent;
      const back = (/** @type {number[]} */ r, /** @type {number[]} */ g) => r.map((z, i) => clamped(z - eta * g[i]));
      const levels = levelsOfStrengths(trace, back(step.strength, step.gradient), back(step.frame_strength, step.frame_gradient));
      views.push(["reversed", { mask: this.union(trace, levels.objects, levels.frames), tokens: [], reading: null }]);
    }
    const all = new Float32Array(run.shape[0] * run.shape[1] * run.shape[2]).fill(1);
    views.push(["blank", { mask: all, fill: [0, 0, 0], tokens: [], reading: null }]);
    const outcomes = [];
    for (const [name, view] of views) {
      const { place, token } = await this.leaves(view, tokens);
      outcomes.push({ name, text: run.texts[token], same: place > last, index: Math.min(place, last) });
    }
    const milliseconds = Math.round(10 * (performance.now() - began)) / 10;
    const there = baseline.tokens[Math.min(last, baseline.tokens.length - 1)];
    return { index: parts, macd: macd.tokens[last].text, baseline: there.text, outcomes, constant: smallestConstant(macd, parts), milliseconds };
  }

  /** Where a control first leaves these tokens, and its token there. @param {Seen} view @param {number[]} tokens */
  async leaves(view, tokens) {
    const { alpha, beta, head } = this.trace.answers.macd;
    for (const seen of [this.video, view]) await this.row(seen, tokens.slice(0, -1));
    for (const [place, token] of tokens.entries()) {
      const step = this.step(place, await this.row(this.video, tokens.slice(0, place)), await this.row(view, tokens.slice(0, place)));
      const { rows, chosen } = rescore(step, alpha, beta, head);
      if (rows[chosen].id !== token) return { place, token: rows[chosen].id };
    }
    return { place: tokens.length, token: tokens[tokens.length - 1] };
  }
}

/** Whether an answer says the truth: core/objects/truth.py is_right. @param {string} text @param {string} truth */
function rightness(text, truth) {
  /** @type {(words: string) => string} */
  const plain = (words) => words.toLowerCase().split(/\s+/).filter(Boolean).join(" ").replace(/^[ .!?,;:'"]+|[ .!?,;:'"]+$/g, "").replace(/^(a|an|the)\s+/, "");
  const [answer, right] = [plain(text), plain(truth)];
  if (!right) return null;
  return right === "yes" || right === "no" ? new RegExp(`^${right}\\b`).test(answer) : answer === right;
}

/** The first token that differs; null where the answers agree in full. @param {Answer} one @param {Answer} other */
function partsAt(one, other) {
  const both = Math.min(one.tokens.length, other.tokens.length);
  for (let i = 0; i < both; i++) if (one.tokens[i].token !== other.tokens[i].token) return i;
  return one.tokens.length === other.tokens.length ? null : both - 1;
}

/** How far the largest logit lies above a token's. @param {TokenStep} step @param {number} token */
function leadOver({ base, candidates }, token) {
  return Math.max(...base) - base[candidates.indexOf(token)];
}

/** Without a mask, what would give MACD's token where the answers part. @param {Answer} macd @param {number | null} at */
function smallestConstant(macd, at) {
  return at === null ? 0 : leadOver(macd.tokens[at], macd.tokens[at].token);
}

/**
 * Whether a constant would do the same, in a sentence, and how large it is: core/whatif/constant.py.
 * @param {Answer} answer @param {Answer} baseline @returns {{ constant: string, constant_amount: number | null, constant_of: string }}
 */
export function constantOf(answer, baseline) {
  const at = answer.tokens.findIndex((t, i) => i < baseline.tokens.length && t.token !== baseline.tokens[i].token);
  if (at < 0) return { constant: "", constant_amount: null, constant_of: "" };
  const plain = baseline.tokens[at], other = answer.tokens[at];
  const held = [plain, other].find(({ candidates }) => [plain, other].every(({ token }) => candidates.includes(token)));
  /** @type {(amount: number | null, of: string) => { constant: string, constant_amount: number | null, constant_of: string }} */
  const told = (amount, of) => ({ constant: constantText(at, of, amount), constant_amount: amount, constant_of: visible(of) });
  if (!held) return told(null, other.text);
  const words = held.texts.map((text) => text.trim().toLowerCase());
  const pair = [plain.text, other.text].map((text) => text.trim().toLowerCase());
  const yes = words.map((word) => word === "yes");
  if (pair.includes("yes") && pair.includes("no") && yes.some(Boolean)) {
    const best = Math.max(...held.base.filter((_, i) => yes[i]));
    const rest = held.base.map((logit, i) => (yes[i] ? -Infinity : logit)), rival = rest.indexOf(Math.max(...rest));
    if (words[rival] === "no") return told(rest[rival] - best, "yes");
  }
  return told(leadOver(held, other.token), other.text);
}

