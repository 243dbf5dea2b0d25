// @ts-check
// What the comparison with controls found, in words. Each outcome has a whole sentence of its own, so
// that none depends on how another one begins. Pure functions, no DOM.

import { listed } from "./headline.js";
import { signed, visible } from "./text.js";

/** @import { ControlOutcome, ControlReport } from "./types" */

/** @type {Record<string, string>} what a control does, as the subject of a sentence */
export const CONTROL_NAMES = {
  "mask-all": "masking every object", reversed: "the reversed gradient", blank: "a blank video",
};

/**
 * The report in sentences; the same for the screen and for a screen reader.
 *
 * @param {ControlReport} report
 */
export function reportText(report) {
  const { index, outcomes, constant } = report;
  if (index === null) {
    return ["MACD's masks do not change the answer.", ...randomChanges(outcomes), ...namedChanges(outcomes)].join(" ");
  }
  const token = `“${visible(report.macd)}”`;
  return [
    ...randomChoices(outcomes, token), ...namedChoices(outcomes, token),
    `Without any mask, adding ${signed(constant)} to the logit of ${token} is enough.`,
  ].join(" ");
}

/**
 * Random masks where MACD's masks change the answer; none were drawn: no sentence.
 *
 * @param {ControlOutcome[]} outcomes
 * @param {string} token MACD's choice
 */
function randomChoices(outcomes, token) {
  const { drawn, same } = countRandom(outcomes);
  if (!drawn) return [];
  if (drawn === 1) return [`One random mask of the same area was drawn, and it ${same ? "chooses" : "does not choose"} ${token}.`];
  if (same === drawn) return [`All ${drawn} random masks of the same area choose ${token}, as MACD does.`];
  if (same === 0) return [`None of the ${drawn} random masks of the same area chooses ${token}.`];
  return [`${same} of the ${drawn} random masks of the same area ${same === 1 ? "chooses" : "choose"} ${token}, as MACD does.`];
}

/**
 * Random masks where MACD's masks change nothing.
 *
 * @param {ControlOutcome[]} outcomes
 */
function randomChanges(outcomes) {
  const { drawn, same } = countRandom(outcomes);
  if (!drawn) return [];
  const changed = drawn - same;
  if (drawn === 1) return [`One random mask of the same area was drawn, and it ${changed ? "changes it" : "does not change it"}.`];
  if (changed === drawn) return [`All ${drawn} random masks of the same area change it.`];
  if (changed === 0) return [`None of the ${drawn} random masks of the same area changes it.`];
  return [`${changed} of the ${drawn} random masks of the same area ${changed === 1 ? "changes" : "change"} it.`];
}

/**
 * @param {ControlOutcome[]} outcomes
 * @param {string} token
 */
function namedChoices(outcomes, token) {
  const same = namesOf(outcomes, true), other = namesOf(outcomes, false);
  return [
    ...(same.length ? [sentence(same, "chooses", "choose", `${token}, as MACD does`)] : []),
    ...(other.length ? [sentence(other, "does not choose", "do not choose", token)] : []),
  ];
}

/** @param {ControlOutcome[]} outcomes */
function namedChanges(outcomes) {
  const same = namesOf(outcomes, true), other = namesOf(outcomes, false);
  return [
    ...(other.length ? [sentence(other, "changes", "change", "it")] : []),
    ...(same.length ? [sentence(same, "does not change", "do not change", "it")] : []),
  ];
}

/** @param {ControlOutcome[]} outcomes */
function countRandom(outcomes) {
  const drawn = outcomes.filter((outcome) => outcome.name === "random");
  return { drawn: drawn.length, same: drawn.filter((outcome) => outcome.same).length };
}

/**
 * The controls other than random masks that agree with MACD, or that do not.
 *
 * @param {ControlOutcome[]} outcomes
 * @param {boolean} same
 */
function namesOf(outcomes, same) {
  return outcomes.filter((outcome) => outcome.name !== "random" && outcome.same === same)
    .map((outcome) => CONTROL_NAMES[outcome.name]);
}

/**
 * @param {string[]} subjects at least one
 * @param {string} singular
 * @param {string} plural
 * @param {string} object
 */
function sentence(subjects, singular, plural, object) {
  const text = `${listed(subjects)} ${subjects.length > 1 ? plural : singular} ${object}.`;
  return `${text[0].toUpperCase()}${text.slice(1)}`;
}
