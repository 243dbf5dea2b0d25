// @ts-check
// Widget → what shows it and the data it needs; chapters.py lists the same names and their goals.

import { bias, contrast, pull } from "./contrast.js";
import { fade, lean, patches, words } from "./evidence.js";
import { live } from "./live.js";
import { subsets } from "./subsets.js";
import { intervals, table } from "./tables.js";

/** @import { Place, Step } from "./types" */

/** @type {Record<string, { mount: (place: Place) => void, data: string[] }>} */
const WIDGETS = {
  patches: { mount: patches, data: ["lesson-frames"] },
  fade: { mount: fade, data: ["lesson-fade"] },
  contrast: { mount: contrast, data: [] },
  softmax: { mount: pull, data: [] },
  lean: { mount: lean, data: [] },
  subsets: { mount: subsets, data: [] },
  words: { mount: words, data: ["lesson-caption"] },
  shift: { mount: bias, data: [] },
  table: { mount: table, data: [] },
  intervals: { mount: intervals, data: [] },
};

/**
 * The files that a step needs.
 *
 * @param {Step} step
 */
export function dataOf(step) {
  if (step.view) return [`part-${step.view}`];
  if (!step.widget) return [];
  const roles = /** @type {string[]} */ (step.settings.roles || []);
  return [...WIDGETS[step.widget].data, ...roles.map((role) => `part-${role}`)];
}

/** @param {Place} place */
export function mount(place) {
  if (place.step.view) live(place);
  else if (place.step.widget) WIDGETS[place.step.widget].mount(place);
}
