// @ts-check
// Views, frames and runs that stand beside each other.

import { isolated, percent, signed } from "../text.js";
import { frameNumbers, isPicture, levelIndex } from "./parts.js";

/** @import { Level, View } from "../types" */

/** @type {(view: View, at: { frame: number, token: number, drawable: boolean }) => string} what is seen of a frame of a second view */
export const viewText = (view, { frame, token, drawable }) => {
  const note = viewNote(view);
  if (view.frames && !view.frames.includes(frame)) return `frame ${frame + 1} is left out · ${note}`;
  if (view.kind === "pruned") return `token ${token + 1}: ${note}`;
  return drawable || view.kind === "no-video" ? note : `${note} (its pixels are not stored in this trace)`;
};

/** @type {(view: View) => string} */
const viewNote = (view) => {
  /** @type {Record<string, string>} */
  const notes = {
    masks: "the frames behind the masks, as the model read them",
    blank: "a video without content",
    "no-video": "the question alone, without a video",
    noise: view.clamped == null ? "the noise that the model read, cut off at black and white"
      : `the noise as the server read it, in 8 bits: ${percent(view.clamped)} of its values were clamped to black or white`,
    shift: view.first == null ? "no semantic shift was found: the frames as they are"
      : `the frames, with noise of ${Math.round(view.sigma || 0)} grey levels from frame ${view.first + 1} on`,
    frames: `sees only frames ${frameNumbers(view.frames || [])}`,
    pruned: `all pixels, but from decoder layer ${view.layer} on only ${percent(view.ratio || 0)} of the vision tokens`,
    none: "",
  };
  return notes[view.kind] ?? view.caption ?? "";
};

/**
 * How an answer compares with the reference. Which of two is right is not known here, so no word says
 * "fixed".
 *
 * @type {(text: string, reference: string) => string}
 */
export const comparison = (text, reference) => {
  const [ours, theirs] = [text, reference].map((a) => a.toLowerCase().replace(/^[\s.!]+|[\s.!]+$/g, ""));
  if (ours === theirs) return "agrees";
  return [ours, theirs].sort().join() === "no,yes" ? "flipped" : "changed";
};

/** @type {(k: number) => string} k: which second view, from 0 */
export const viewSuffix = (k) => k ? `, view ${k + 1}` : "";

/** @type {(reason: string) => string} why a method did not run */
export const skippedText = (reason) => `Not run: ${/[.!?]$/.test(reason) ? reason : `${reason}.`}`;

/** @type {(votes: Record<string, number>) => string} */
export const votesText = (votes) => {
  const text = Object.entries(votes).map(([answer, n]) => `${answer}: ${n}`).join(", ");
  return text && ` votes: ${text}`;
};

/** @type {(title: string, frame: number, note: string) => string} a frame of a second view, for a screen reader */
export const secondViewLabel = (title, frame, note) => {
  const text = `Second view of ${title}, frame ${frame + 1}`;
  return note ? `${text}: ${note}` : text;
};

/** Names of elements for a screen reader. */
export const LABELS = {
  /** @type {(title: string) => string} */
  open: (title) => `Open ${title} in the viewer`,
  /** @type {(values: number[]) => string} */
  differences: (values) => `differences: ${values.map((v) => signed(v)).join(", ")}`,
  /** @type {(range: string) => string} */
  colours: (range) => `Colours from ${range}`,
  /** @type {(name: string, frame: number) => string} */
  map: (name, frame) => `Map of ${name} over frame ${frame + 1}`,
  /** @type {(texts: string[]) => string} */
  flips: (texts) => `Token chosen over α and β: ${texts.join(", ")}`,
  /** @type {(name: string, frames: string) => string} */
  piece: (name, frames) => `${name}, ${frames}`,
};

/** @type {(seed: number, shared: Record<string, number>) => string} shared: what methods had in common, and how often */
export const sharedText = (seed, shared) => {
  const names = Object.entries(shared).map(([name, n]) => `${name} ${n}×`).join(", ");
  return `Seed ${seed}. Shared between methods: ${names || "nothing"}; “ms added” leaves that out, “ms in all” is from the`
    + " prompt to the answer. Peak memory: tensors alive for the method, weights included.";
};

/** @type {(frame: number, times: number[]) => string} */
export const frameText = (frame, times) =>
  isPicture({ times }) ? "the picture" : `frame ${frame + 1} of ${times.length} · ${times[frame].toFixed(2)} s`;

/** @type {(level: number) => string} level: of the frame mask; 0: it masks nothing */
export const outsideText = (level) => !level ? "" : ` · everything else in this frame is ${level < 1 ? "partly hidden" : "hidden"}`;

/**
 * A frame for a screen reader. outside: of `outsideText`.
 *
 * @type {(frame: number, count: number, objects: string[], outside: string, layers: string[]) => string}
 */
export const frameSummary = (frame, count, objects, outside, layers) =>
  `${count === 1 ? "The picture" : `Frame ${frame + 1} of ${count}`}: ${objects.join("; ") || "no tracked objects"}${outside}. Shown: ${layers.join(", ") || "the frame alone"}.`;

/** @type {(label: string, frame: number, state: string, cut: boolean) => string} an object in a cell of the timeline */
export const laneText = (label, frame, state, cut) =>
  `${isolated(label)}, frame ${frame + 1}: ${state}${cut ? "; the first frame after a hard cut" : ""}`;

/** @type {(frame: number, levels: Level[], value: number, byHand: boolean) => string} the frame mask in a cell of the timeline */
export const frameMaskText = (frame, levels, value, byHand) => {
  const text = levelIndex(levels, value) === 0 ? `frame ${frame + 1}: ${levels[0].name}` : `frame ${frame + 1}: masked at ${Number(value.toFixed(3))}`;
  return byHand ? `${text}, set by hand` : text;
};

/** Why a layer cannot be shown; `name`: of the second view. */
export const WHY_NOT = {
  levels: "There are no levels",
  /** @type {(name: string) => string} */
  otherLevels: (name) => `The levels are not those of ${name}`,
  step: "The pixels of V_d are those of the end of the ascent",
  /** @type {(name: string) => string} */
  counter: (name) => `The trace holds no pictures of ${name}`,
  model: "The trace does not hold what the model read",
};
