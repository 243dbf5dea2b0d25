// @ts-check
// The verdict on a run, and what it means. core/whatif/verdict.py says the first three in the same words.

import { signed } from "../text.js";
import { listed } from "./parts.js";

/** @import { Verdict } from "../verdict.js" */

/** @type {(same: number, drawn: number) => string} */
export const randomMasksDo = (same, drawn) =>
  `${same} of ${drawn === 1 ? "1 random mask" : `${drawn} random masks`} of the same area ${same === 1 ? "does" : "do"} the same`;

/** @type {(flips: number, of: number) => string} */
export const choicesChange = (flips, of) =>
  `${flips} of ${of === 1 ? "1 choice" : `${of} choices`} of objects ${flips === 1 ? "changes" : "change"} the answer`;

/** @type {(amount: number) => string} */
export const constantDoes = (amount) => `a constant of ${signed(amount)} on its logit does the same, without any mask`;

/** @type {Record<Verdict["reply"], string>} at the beginning of a sentence */
export const REPLIES = { yes: "Yes", no: "No", "cannot be said": "It cannot be said" };

/** @type {(verdict: Omit<Verdict, "first">) => [string, string]} the reply to a question, and the sentence after it */
export const replyText = ({ reply, reason, measured }) => {
  if (measured || reply !== "cannot be said") return [`${REPLIES[reply]}.`, reason];
  return [`${REPLIES[reply]} yet.`, reason];
};

/**
 * What both answers mean. keeps: whether the model says the same without what is masked; null: not known.
 * things: what is masked, "the kite and the bike"; "": nothing.
 *
 * @type {(title: string, same: boolean, things: string, keeps: boolean | null, verdict: Verdict | null) => string}
 */
export const meaningText = (title, same, things, keeps, verdict) => {
  if (!things) return same ? "Nothing was masked, so both answers are the same." : "";
  if (same && keeps === null) return `${title} does not change the answer.`;
  if (same) return keeps ? `The answer does not depend on ${things}: without this the model says the same.`
    : `The answer depends on ${things}: without this the model says something else. ${title} keeps it.`;
  if (!verdict) return `${title} changes the answer.`;
  const { reply, first, measured } = verdict;
  if (reply === "yes") return `The answer rests on ${things}: few other masks change it.`;
  if (reply === "no") return `${title} changes the answer, but which objects it masks did not matter: ${first}.`;
  return measured ? `${title} changes the answer. Whether it matters which objects it masks cannot be said: ${first}.`
    : `${title} changes the answer. Whether it matters which objects it masks was not measured.`;
};

/**
 * What is masked, by name where there are few. names: of the objects, or one phrase for all of them; frames:
 * how many are masked outside of them; found: whether there are objects.
 *
 * @type {(names: string[], objects: number, frames: number, picture: boolean, found: boolean) => string}
 */
export const maskedThings = (names, objects, frames, picture, found) => {
  const rest = !frames ? [] : picture ? ["what is outside the objects"] : [found ? `the rest of ${framesText(frames)}` : framesText(frames)];
  return listed([...(objects > MOST_NAMED ? [`${objects} objects`] : names), ...rest]);
};

const MOST_NAMED = 3;

/** @param {number} count */
const framesText = (count) => count === 1 ? "1 frame" : `${count} frames`;

/** @type {(things: string) => string} before what the model says given the second view alone */
export const withoutText = (things) => `Without ${things} the model says: `;

/** @type {(title: string) => string} the same where the second view is none of masks */
export const givenAlone = (title) => `Given the second view of ${title} alone the model says: `;

/** @type {(partner: string) => string} the same where it is that of another clip; partner: its name, if it has one */
export const aboutPartner = (partner) => `About ${partner || "the partner clip"} the model says: `;
