// @ts-check
// Controls, and every choice of objects.

import { signed, visible } from "../text.js";
import { REPLIES } from "./verdict.js";
import { capitalized, listed, seconds, trackName } from "./parts.js";

/** @import { ChoiceLayer, ControlOutcome, OcclusionReport, Subset, Track } from "../types" */

// ---- controls

/**
 * What one control does. Where the answers agree, the last token compared is the end token, which says
 * nothing. agree: whether MACD's answer is the baseline's.
 *
 * @type {(outcome: ControlOutcome, agree: boolean) => string}
 */
export const controlChoice = ({ same, text }, agree) => agree && same ? "the same answer" : visible(text);

/** @type {(count: number, milliseconds: number) => string} */
export const controlCost = (count, milliseconds) =>
  `${count} control views in ${seconds(milliseconds)}; each is decoded with MACD's α and β up to this token.`;

/** @type {(milliseconds: number | null) => string} milliseconds: that it takes, where known */
export const compareWithRandom = (milliseconds) =>
  milliseconds === null ? "Compare with random masks" : `Compare with random masks (about ${seconds(milliseconds)})`;

/** @type {(report: OcclusionReport) => [string, string]} whether the gradient predicts what masking an object does */
export const gradientReply = ({ verdict }) => {
  const reply = /^supported:/.test(verdict) ? REPLIES.yes : /^not supported/.test(verdict) ? REPLIES.no
    : /^nothing was hidden/.test(verdict) ? REPLIES["cannot be said"] : "In part";
  return [`${reply}.`, `${capitalized(verdict)}.`];
};

/** @type {(correlation: number | null) => string} */
export const occlusionNote = (correlation) => {
  const text = "Natural logarithms; the answer is the baseline's.";
  return correlation === null ? text : `${text} Rank correlation of gradient and measured change: ${signed(correlation)}.`;
};

// ---- choices

/** @type {(objects: number, most: number, views: number, milliseconds: number | null) => string} objects: of the clip; most: of which every choice is tried; milliseconds: that it takes, where known */
export const tryEveryChoice = (objects, most, views, milliseconds) => {
  const tried = Math.min(objects, most), of = tried === objects ? (objects === 1 ? "1 object" : `${objects} objects`) : `${tried} of the ${objects} objects`;
  const cost = milliseconds === null ? `${views} passes of the model` : `${views} passes of the model, about ${seconds(milliseconds)}`;
  return `Try all ${2 ** tried} combinations of ${of} (${cost})`;
};

/** @type {(map: { subsets: Pick<Subset, "frames" | "flips">[] }) => [string, string]} whether masking other objects changes the answer */
export const choicesReply = ({ subsets }) => {
  const flips = subsets.filter((one) => one.flips).length;
  const both = new Set(subsets.map((one) => one.frames)).size > 1 ? ", with and without MACD's frame mask," : "";
  if (!flips) return ["No.", `None of the ${subsets.length} combinations that were tried${both} changes it.`];
  return ["Yes.", `${flips} of the ${subsets.length} combinations that were tried${both} ${flips === 1 ? "changes" : "change"} it.`];
};

/** @type {(objects: number[], tracks: Pick<Track, "id" | "label">[]) => string} the objects of a subset, as Python names them */
export const choiceName = (objects, tracks) =>
  objects.length ? `{${tracks.filter(({ id }) => objects.includes(id)).map(trackName).join(", ")}}` : "{}, no object";

/** @type {(margin: number | null) => string} */
export const marginText = (margin) => margin === null ? "no other token" : signed(margin);

const MOST_TOLD = 60; // characters of an answer in a sentence; the table has all of it

/** @param {string} text */
const begun = (text) => text.length > MOST_TOLD ? `${text.slice(0, MOST_TOLD - 1)}…` : text;

/**
 * What a subset does, and where it stands.
 *
 * @type {(subset: Subset, name: string, rank: number, of: number, baseline: string, marks: string[]) => string}
 */
export const choiceText = ({ objects, flips, margin, answer }, name, rank, of, baseline, marks) => {
  const said = marks.map((mark) => mark === "measured" && objects.length === 1 ? "the largest measured effect" : CHOICE_MARKS[mark]).join(", ");
  const who = said ? `${name}, ${said}` : name;
  const what = flips ? `the baseline's “${begun(baseline)}” becomes “${begun(answer ?? "")}”` : `the answer stays “${begun(baseline)}”`;
  const lead = margin === null ? "No other token passes the cut" : `Margin ${signed(margin)}`;
  return `${who}: ${what}. ${lead}, rank ${rank} of ${of}.`;
};

/** @type {(map: { subsets: Subset[], milliseconds: number, left_out: number[] }, tracks: Pick<Track, "id" | "label">[]) => string} */
export const choicesCost = ({ subsets, milliseconds, left_out: others }, tracks) => {
  const cost = `${subsets.length} subsets in ${seconds(milliseconds)}, each decoded with MACD's α and β.`;
  const names = listed(tracks.filter(({ id }) => others.includes(id)).map(trackName));
  return names ? `${cost} Never masked, as their measured effects are smaller: ${names}.` : cost;
};

/** @type {Record<string, string>} a mark on the map → what is said of it */
const CHOICE_MARKS = { MACD: "MACD's choice", measured: "the largest measured effects", enough: "the smallest set whose removal changes the baseline's answer", asked: "what is asked about" };

/** @type {(marks: ChoiceLayer["marks"], place: number) => string[]} of one subset, beside MACD's */
export const choiceMarks = (marks, place) => Object.entries(marks).filter(([, at]) => at === place).map(([name]) => name);

/** @type {(one: number, of: number) => string} a choice is made the masks, an object after the other */
export const changeOf = (one, of) => `Change ${one} of ${of} by hand: each is read and answered anew.`;

/** @type {(count: number) => string} */
export const choiceLevel = (count) => count === 1 ? "1 object" : `${count} objects`;
