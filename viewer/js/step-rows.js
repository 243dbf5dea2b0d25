// @ts-check
// What the plots of the ascent show: a row for each line, its range and ticks, where tags stand. Pure functions, no DOM.

import { levelsOfStep } from "./masks.js";
import { decimals, ticksOf } from "./plots.js";
import { framesMasked, stepText } from "./strings/ascent.js";
import { TEXT } from "./strings/labels.js";
import { levelValue } from "./strings/parts.js";
import { fixed } from "./text.js";

/** @import { Trace } from "./types" */

/**
 * @typedef {object} Row an object's strength, or a frame group's
 * @property {number | null} track
 * @property {string} colour
 * @property {string} dash
 * @property {number[]} values strength − r0 before each step and at the end
 * @property {number[]} levels that they become, likewise
 * @property {boolean} byHand whether the last level was set by hand: no strength explains it
 */

const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const NAME_CHARACTERS = 14;

/** @param {Trace} trace @returns {[number, number]} the least and the largest query loss */
export function lossRange({ steps, final }) {
  const losses = [...steps.map((s) => s.loss), ...(final?.loss ?? null) === null ? [] : [/** @type {number} */ (final?.loss)]];
  return [Math.min(...losses), Math.max(...losses)];
}

/** @param {Trace} trace @returns {[number, string][]} */
export function lossTicks(trace) {
  const ticks = ticksOf(...lossRange(trace), 3), digits = decimals(ticks);
  return ticks.map((v) => [v, fixed(v, digits)]);
}

/** @param {Trace} trace @returns {Row[]} */
export function objectRows(trace) {
  const { final, tracks, steps, r0 } = trace;
  if (!final) return [];
  const levels = steps.map((_, step) => levelsOfStep(trace, step).objects);
  return tracks.map(({ colour }, k) => ({
    track: k, colour, dash: DASHES[Math.floor(k / 8) % DASHES.length],
    values: [...steps.map((s) => s.strength[k]), final.strength[k]].map((v) => v - r0),
    levels: [...levels.map((one) => one[k]), final.level[k]], byHand: final.by_hand[k] ?? false,
  }));
}

/** @param {Trace} trace @returns {Row[]} none where the frame mask is off */
export function groupRows(trace) {
  const { final, steps, r0, mask } = trace;
  if (!final || mask.frame_mask === "off") return [];
  const levels = steps.map((_, step) => levelsOfStep(trace, step).frames);
  return final.frame_strength.map((last, g) => ({
    track: null, colour: "", dash: "",
    values: [...steps.map((s) => s.frame_strength[g]), last].map((v) => v - r0),
    levels: [...levels.map((one) => one[g]), final.frame_level[g]], byHand: final.frame_by_hand[g] ?? false,
  }));
}

/** How many frames are masked at a step. @param {Trace} trace @param {Row[]} rows of the frame groups @param {number} at */
export function framesCount(trace, rows, at) {
  return framesMasked(trace, rows.map(({ levels }) => levels[at]), rows.some(({ byHand, levels }) => byHand && at === levels.length - 1));
}

/** @param {Row} row */
export function end({ values }) {
  return values[values.length - 1];
}

/**
 * The values that a plot shows: all of the rows, 0, and the dead band where it is of their size.
 * @param {Row[]} rows @param {number | null} band @returns {[number, number]}
 */
export function rangeOf(rows, band) {
  const values = rows.flatMap((row) => row.values), reach = Math.max(...values.map(Math.abs), 0);
  const within = band !== null && (band <= 2.5 * reach || reach === 0) ? [-band, band] : [];
  const [low, high] = [Math.min(0, ...values, ...within), Math.max(0, ...values, ...within)];
  const room = 0.1 * (high - low) || 1e-6;
  return [low - room, high + room];
}

/** @param {number} last @param {number} width of the lines @returns {import("./plots.js").Tick[]} */
export function stepTicks(last, width) {
  const every = Math.max(1, Math.ceil((last * 24) / width)), room = (36 * last) / width; // steps that the last word takes
  return Array.from({ length: last + 1 }, (_, i) => i).filter((i) => i === last || (i % every === 0 && last - i > room))
    .map((i) => (i === last ? [i, TEXT.endOfAscent, "end"] : [i, String(i)])); // tags stand right of the last
}

/** @param {number} value @param {number} digits */
export function tickText(value, digits) {
  return value === 0 ? "0" : `${value > 0 ? "+" : ""}${fixed(value, digits)}`;
}

/** @param {Trace} trace @param {Row} row @param {number} at @param {string} name */
export function tagText(trace, row, at, name) {
  const level = row.byHand && at === row.levels.length - 1 ? `${levelValue(row.levels[at])} ${TEXT.byHand}` : levelValue(row.levels[at]);
  if (row.track === null || row.values.length === 2) return `${name}${level}`;
  const { id } = trace.tracks[row.track];
  return name ? `${id} ${name} → ${level}` : `${id} → ${level}`;
}

/** @param {string} label */
export function shortened(label) {
  return label.length > NAME_CHARACTERS ? `${label.slice(0, NAME_CHARACTERS - 1)}…` : label;
}

/**
 * Places of tags that do not overlap, as near as can be to where they belong.
 * @param {number[]} wanted ascending @param {number} least between two @param {number} low @param {number} high
 */
export function spread(wanted, least, low, high) {
  const places = [...wanted];
  for (let i = 0; i < places.length; i++) places[i] = Math.max(places[i], i ? places[i - 1] + least : low);
  let limit = high;
  for (let i = places.length - 1; i >= 0 && places[i] > limit; i--) {
    places[i] = limit;
    limit -= least;
  }
  return places;
}

/**
 * The levels at a step and the query loss there, in words.
 * @param {Trace} trace @param {number | null} step null: the end
 */
export function textOfStep(trace, step) {
  const { final, steps } = trace;
  if (!final) return "";
  if (step === null) return stepText(trace, { ...final, ended: true });
  const { strength, loss } = steps[step];
  return stepText(trace, { level: levelsOfStep(trace, step).objects, strength, loss, ended: false });
}
