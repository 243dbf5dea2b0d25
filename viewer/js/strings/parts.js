// @ts-check
// Parts of sentences: names, lists, frames; levels and how they are drawn.

import { isolated, percent } from "../text.js";

/** @import { Level, Trace, Track } from "../types" */

// ---- parts of sentences

/** @type {(names: string[]) => string} names in one phrase: "a", "a and b", "a, b and c" */
export const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;

/** @type {(text: string) => string} */
export const capitalized = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** @type {(track: Pick<Track, "id" | "label">) => string} */
export const trackName = ({ id, label }) => `${id} ${isolated(label)}`;

/** @type {(trace: Pick<Trace, "times">) => boolean} whether a picture was asked about: nothing speaks of time then */
export const isPicture = ({ times }) => times.length === 1 && !times[0];

/** @type {(trace: Pick<Trace, "tracks">) => boolean} regions without a class have no confidence of their own: theirs is 1 */
export const hasConfidences = ({ tracks }) => tracks.some(({ confidence }) => confidence !== 1);

/** @type {(group: number[]) => string} frames of a group, counted from 1 */
export const frameNumbers = (group) => group.map((frame) => frame + 1).join(", ");

/** @type {(group: number[]) => string} */
export const groupName = (group) =>
  group.length > 1 ? `frames ${group[0] + 1}–${group[group.length - 1] + 1}` : `frame ${group[0] + 1}`;

/** @type {(group: number[], trace: Pick<Trace, "times">) => string} */
export const partName = (group, trace) => isPicture(trace) ? "the picture" : groupName(group);

/** @type {(milliseconds: number) => string} */
export const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(1)} s`;

/** @type {(method: string, k: number) => string} the sign of a second view. k: which of them, from 0 */
export const viewName = (method, k) => method === "macd" && k === 0 ? "V_d" : `V${"′".repeat(k + 1)}`;

// ---- levels

/**
 * Which level of a trace a value is, as an index of its levels; one between the lowest and the highest
 * is the middle one, whatever its value.
 *
 * @type {(levels: Level[], value: number) => number}
 */
export const levelIndex = (levels, value) => {
  if (value === levels[0].value) return 0;
  return value === levels[2].value ? 2 : 1;
};

/** @type {(levels: Level[], value: number | null | undefined) => string} */
export const levelName = (levels, value) =>
  value === undefined || value === null ? "not yet known" : levels[levelIndex(levels, value)].name;

/** @type {(levels: Level[], value: number | null, byHand: boolean) => string} byHand: whether it was set by hand */
export const levelText = (levels, value, byHand) => {
  if (value === null) return "…";
  const text = `${Number(value.toFixed(3))} ${levelName(levels, value)}`;
  return byHand ? `${text}, set by hand` : text;
};

/** @type {(levels: Level[], index: number) => string} how the legend shows a level: its value, or the range where it has none */
export const levelSign = (levels, index) => {
  const { value } = levels[index];
  if (value === null) return `${levels[0].value} < level < ${levels[2].value}`;
  return index === 1 ? `r0 = ${value}` : String(value);
};

/** @type {(levels: Level[], index: number) => string} a level in the key below the picture */
export const levelKey = (levels, index) => {
  const { value, name } = levels[index];
  return value === null ? `between: ${name}` : `${value} ${name}`;
};

/** @type {(levels: Level[], r0: number, tau: number) => string} what the level between the lowest and the highest means */
export const middleMeaning = (levels, r0, tau) => {
  const { value, name } = levels[1];
  if (value === null) return `strengths begin at r0 = ${r0} and stay as the ascent left them: ${name}`;
  const stays = tau ? `an object whose strength ends within τ = ${tau} of it stays ${name}` : `an object whose strength has not moved stays ${name}`;
  return `r0, the strength at which every mask begins: ${stays}; above it an object is ${levels[2].name}, below it ${levels[0].name}`;
};

/** @type {(confidence: number) => string} of a detector, which no level is taken for */
export const confidenceText = (confidence) => `${Math.round(100 * confidence)} %`;

/** @type {(levels: Level[], index: number) => string} what the legend says of how a level is drawn */
export const levelDrawing = (levels, index) => {
  const { name } = levels[index];
  if (index === 0) return `A dashed outline: the object is ${name}.`;
  if (index === 1) return `Stripes one way: the object is ${name}.`;
  return `Crossed stripes: the object is ${name}. Masks that overlap share their pixels, so it may remain visible in part; the mean of the mask over it then stands beside the level, and its cell in the timeline is filled as far.`;
};

/** @type {(level: number, weak: { mean: number } | null | undefined) => string} a level at the end of an object's name; weak: where its mask is weakened by others */
export const levelEnd = (level, weak) => weak ? ` → ${levelValue(level)}, ${percent(weak.mean)} of it` : ` → ${levelValue(level)}`;

/** @type {(mean: number) => string} in the key below the picture; mean: the least of a mask at the highest level */
export const overlapKey = (mean) => `masks that overlap are weaker: down to ${percent(mean)}`;

/** @type {(highest: Level) => string} what that says, in full */
export const overlapMeaning = ({ value, name }) => `Masks that overlap share their pixels: an object at level ${value}, ${name}, may remain visible in part. This is the least mean of such a mask over its object; the timeline shows it for each frame.`;

/** @type {(mean: number, others: Pick<Track, "id" | "label">[]) => string} at the end of what a cell of the timeline says */
export const weakText = (mean, others) =>
  `; its mask covers ${percent(mean)} there, as it shares pixels with ${listed(others.map(trackName))}`;

/** @type {(level: number) => string} */
export const levelValue = (level) => String(Number(level.toFixed(3)));
