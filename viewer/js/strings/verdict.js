// @ts-check
// The verdict on a run, and what it means. core/whatif/verdict.py says the first of them in the same words.

import { isolated, signed } from "../text.js";
import { listed } from "./parts.js";

/** @import { Verdict } from "../verdict.js" */

/** @type {(same: number, drawn: number) => string} */
export const randomMasksDo = (same, drawn) =>
  `${same} of ${drawn === 1 ? "1 random mask" : `${drawn} random masks`} of the same area ${same === 1 ? "does" : "do"} the same`;

/** @type {(same: number, of: number) => string} */
export const choicesDo = (same, of) =>
  `${same} of ${of === 1 ? "1 choice" : `${of} choices`} of objects ${same === 1 ? "does" : "do"} the same`;

/** @type {(text: string) => string} why a choice cannot be said to matter */
export const moreThanAThird = (text) => `${text}, more than a third`;

/**
 * Why it cannot be said, although few other masks do the same. choices, controls, constant: whether they are known;
 * rank: of MACD's choice of objects, of how many; null where it is none of those measured.
 *
 * @type {(choices: boolean, controls: boolean, constant: boolean, rank: [number, number] | null) => string}
 */
export const openQuestion = (choices, controls, constant, rank) => !choices ? "other choices of objects were not measured"
  : !controls ? "random masks were not measured"
  : !constant ? "which constant does the same is not known"
  : rank ? `MACD's objects rank ${rank[0]} of ${rank[1]}`
  : "MACD masks objects in part, or others than were measured, so it has no rank";

/** @type {(amount: number, of: string) => string} of: what it is added to */
export const constantDoes = (amount, of) => `a constant of ${signed(amount)} on the logit of “${of}” does the same, without any mask`;

/** @type {Record<Verdict["reply"], string>} at the beginning of a sentence */
export const REPLIES = { yes: "Yes", no: "No", "cannot be said": "It cannot be said" };

/** @type {(verdict: Omit<Verdict, "first">) => [string, string]} the reply to a question, and the sentence after it */
export const replyText = ({ reply, reason, measured }) => {
  if (measured || reply !== "cannot be said") return [`${REPLIES[reply]}.`, reason];
  return [`${REPLIES[reply]} yet.`, reason];
};

/**
 * What both answers mean. keeps: whether the model says the same without what is masked; null: not known.
 * things: what is masked, "the kite and the bike"; "": nothing. right: whether the second answer is; null: not known.
 *
 * @type {(title: string, same: boolean, things: string, keeps: boolean | null, verdict: Verdict | null, right?: boolean | null, changed?: boolean) => string}
 */
export const meaningText = (title, same, things, keeps, verdict, right = null, changed = right !== null) => {
  const kind = right === null ? "" : right ? "right " : "wrong ";
  if (!things) return same ? "Nothing was masked, so both answers are the same." : "";
  if (same && keeps === null) return `${title} does not change the answer.`;
  if (same) return keeps ? `The answer does not depend on ${things}: hidden or not, the model says the same.`
    : `${title} keeps the ${kind}answer; with these parts hidden, the model gives another one.`;
  const change = !changed ? "changes" : right ? "corrects" : "spoils";
  if (!verdict) return `${title} ${change} the answer.`;
  const { reply, first, measured } = verdict;
  if (reply === "yes") return `${title} ${change} the answer, and which objects it masks matters: at most a third of other masks do the same.`;
  if (reply === "no") return `${title} ${change} the answer, but which objects it masks did not matter: ${first}.`;
  return measured ? `${title} ${change} the answer. Whether it matters which objects it masks cannot be said: ${first}.`
    : `${title} ${change} the answer. Whether it matters which objects it masks was not measured.`;
};

/**
 * What is masked, by name where there are few. names: of the objects, or one phrase for all of them; frames:
 * how many are masked outside of them; found: whether there are objects.
 *
 * @type {(names: string[], objects: number, frames: number, picture: boolean, found: boolean) => string}
 */
export const maskedThings = (names, objects, frames, picture, found) => {
  const rest = !frames ? [] : picture ? ["the background"] : [found ? `the background of ${framesText(frames)}` : framesText(frames)];
  return listed([...(objects > MOST_NAMED ? [`${objects} objects`] : names), ...rest]);
};

const MOST_NAMED = 3;

/** @type {(picture: boolean) => string} what MACD does */
export const purposeText = (picture) =>
  `MACD (model-aware contrastive decoding) reads the ${picture ? "picture" : "video"} twice, the second time with parts of it hidden, and prefers words that lose support without those parts.`;

/** @type {(truth: string) => string} */
export const rightAnswer = (truth) => `Right answer: ${isolated(truth)}`;

/** @param {number} count */
const framesText = (count) => count === 1 ? "1 frame" : `${count} frames`;

/** @type {(whole: boolean) => string} whole: whether nothing follows what is quoted */
const says = (whole) => whole ? "the model says: " : "the model's answer begins: ";

/** @type {(things: string, whole: boolean) => string} before what the model says given the second view alone */
export const withoutText = (things, whole) => `With ${things} hidden, ${says(whole)}`;

/** @type {(title: string, whole: boolean) => string} the same where the second view is none of masks */
export const givenAlone = (title, whole) => `Given the second view of ${title} alone, ${says(whole)}`;

/** @type {(partner: string, whole: boolean) => string} the same where it is that of another clip; partner: its name, if it has one */
export const aboutPartner = (partner, whole) => `About ${partner || "the partner clip"}, ${says(whole)}`;
