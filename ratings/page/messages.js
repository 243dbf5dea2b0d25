// @ts-check
/** The line of messages at the top: each owner has one of its own, and wipes no other's. */

import { part } from "./view.js";

/** @type {Map<string, string>} by owner */
const messages = new Map();

/**
 * @param {"saving" | "loading" | "hint" | "entry"} owner
 * @param {string} words "" takes the owner's message away
 */
export function say(owner, words) {
  if (words) messages.set(owner, words);
  else messages.delete(owner);
  const line = part("banner");
  const said = [...new Set(messages.values())];
  // of a sentence and a longer one that begins with it, the longer one
  const all = said.filter((one) => !said.some((other) => other !== one && other.startsWith(one))).join(" ");
  if (line.textContent !== all) line.textContent = all;
  line.hidden = !all;
}

const SECTIONS = ["enter", "instructions", "screening", "item", "resting", "review", "end"];

/** @param {string} section */
export function show(section) {
  for (const id of SECTIONS) part(id).hidden = id !== section;
  if (["end", "review", "screening"].includes(section)) part(section).querySelector("h1")?.focus();
  if (section === "resting") part("resume").focus();
}
