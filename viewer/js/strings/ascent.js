// @ts-check
// The gradient ascent: steps, strengths, losses, the switch of levels.

import { plainNumber, signed } from "../text.js";
import { isPicture, levelIndex, levelName, levelValue, listed, trackName } from "./parts.js";

/** @import { Level, Trace } from "../types" */

/** @type {(at: number, last: number, loss: number | null) => string} loss: the query loss there */
export const stepName = (at, last, loss) => {
  const losses = loss === null ? "" : ` · query loss ${loss.toFixed(3)}`;
  if (at < last) return `before step ${at + 1} of ${last}${losses}`;
  return last === 1 ? `end, after 1 step${losses}` : `end, after ${last} steps${losses}`;
};

/** @type {(r0: number, tau: number, approximate: boolean, share: number | null) => string} what decides a level; share: of the frame groups, the most that stay masked, where there are several */
export const tauText = (r0, tau, approximate, share) => {
  const band = tau ? `within τ = ${tau} of r0 = ${r0}, the band, a mask stays partly masked`
    : `above r0 = ${r0} a mask becomes 1, below it 0, however little: only the sign decides`;
  const most = share === null || share >= 1 ? "" : ` · of the frames at most ${plainNumber(100 * share)} % stay masked: those of the largest strengths`;
  return `${approximate ? "≈ approximate gradient · " : ""}${band}${most}`;
};

/** @type {(strength: number | null, r0: number) => string} what decides a level: how far a strength is from r0 */
export const marginOfLevel = (strength, r0) => strength === null ? "" : `r − r0 = ${signed(strength - r0, 3)}`;

/** @type {(step: number) => string} whose gradient is shown */
export const stepLabel = (step) => `step ${step + 1}:`;

/** @type {(lines: number) => string} a button that gives each line its label */
export const everyLabel = (lines) => `All ${lines} labels`;

/** @type {(levels: Level[], before: number, after: number, at: number, last: number, byHand?: boolean) => string} a level that switches at a step, or that a person set at the end */
export const switchText = (levels, before, after, at, last, byHand = false) => {
  const change = `${levelName(levels, before)} → ${levelName(levels, after)}`;
  if (byHand) return `${change}, set by hand`;
  return at === last ? `${change} at the end` : `${change} before step ${at + 1}`;
};

/** @type {(trace: Pick<Trace, "groups" | "levels" | "times">, levels: number[], byHand?: boolean) => string} levels: of the frame groups; byHand: whether a person set one */
export const framesMasked = ({ groups, levels: names, times }, levels, byHand = false) => {
  if (byHand) return `${framesMasked({ groups, levels: names, times }, levels)}, by hand`;
  if (isPicture({ times })) return levelName(names, levels[0]);
  const [full, partly] = [2, 1].map((index) => framesAt({ groups, levels: names }, levels, index));
  if (!partly) return `${full} of ${times.length} frames`;
  return full ? `${full} of ${times.length}, ${partly} partly` : `${partly} of ${times.length} partly`;
};

/**
 * The query loss and the levels at a step. by_hand: objects whose level a person set, which no strength explains.
 *
 * @type {(trace: Pick<Trace, "tracks" | "levels" | "r0">, at: { level: number[], strength: number[], loss: number | null, ended: boolean, by_hand?: boolean[] }) => string}
 */
export const stepText = ({ tracks, levels, r0 }, { level, strength, loss, ended, by_hand: byHand = [] }) => {
  const losses = loss === null ? []
    : [ended ? `query loss ${loss.toFixed(3)} given V_d` : `query loss ${loss.toFixed(3)} at these strengths`];
  const named = [2, 1, 0].flatMap((index) => {
    const some = tracks.flatMap((t, k) => (!byHand[k] && levelIndex(levels, level[k]) === index ? [`${trackName(t)} ${signed(strength[k] - r0, 3)}`] : []));
    return some.length ? [`${levels[index].name}: ${listed(some)}`] : [];
  });
  const set = tracks.flatMap((t, k) => (byHand[k] ? [`${trackName(t)} to ${levelValue(level[k])}`] : []));
  const text = [...losses, ...named, ...set.length ? [`set by hand: ${listed(set)}`] : []].join(" · ");
  return tracks.length ? `${text} (strength − r0)` : text;
};

/** @type {(trace: Pick<Trace, "tracks" | "r0">, strength: number[]) => string} strength: at the end */
export const strengthSummary = ({ tracks, r0 }, strength) => {
  const ends = tracks.map((track, k) => `${trackName(track)} from ${r0} to ${strength[k].toFixed(3)}`).join(", ");
  return `Strength by ascent step: ${ends || "no objects"}. Grey: frame groups. The level line is r0 = ${r0}.`;
};

/** @type {(values: number[], ended: number | null) => string} values: of the query loss; ended: that at the end */
export const lossSummary = (values, ended) => {
  const steps = `Query loss by ascent step, given the masks at their strengths: from ${values[0].toFixed(3)} to ${values[values.length - 1].toFixed(3)} nats per token`;
  return ended === null ? `${steps}.` : `${steps}; at the end, given V_d: ${ended.toFixed(3)}.`;
};

/** @type {(trace: Pick<Trace, "groups" | "levels">, levels: number[], index: number) => number} how many frames are at a level; levels: of the frame groups */
const framesAt = ({ groups, levels: names }, levels, index) =>
  levels.reduce((n, level, g) => n + (levelIndex(names, level) === index ? groups[g].length : 0), 0);
