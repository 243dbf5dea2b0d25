// @ts-check
/** The line of messages at the top: each owner has one of its own, and wipes no other's. */

import { part } from "./view.js";

/** @type {Map<string, string>} by owner, in the order in which they are shown */
const messages = new Map([["saving", ""], ["loading", ""], ["hint", ""], ["entry", ""]]);

/**
 * @param {"saving" | "loading" | "hint" | "entry"} owner
 * @param {string} words "" takes the owner's message away
 */
export function say(owner, words) {
  messages.set(owner, words);
  const line = part("banner");
  let all = "";
  for (const sentence of [...messages.values()].flatMap((message) => message.replaceAll(". ", ".\n").split("\n"))) {
    if (!all.includes(sentence)) all += all ? ` ${sentence}` : sentence; // each is said once
  }
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
