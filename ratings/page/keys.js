// @ts-check
/** What a key means on the page of a rater. */

import { REASONS } from "./view.js";

const ACTIONS = {
  enter: "next", " ": "play", l: "slow", z: "zoom", u: "undo", b: "back", s: "skip", f: "flag", p: "rest",
};

/** @typedef {{rating?: number, reason?: string, action?: string}} Command */

/**
 * A rating, a reason or the id of a control; null: the key is left to the browser.
 * @param {KeyboardEvent} event @param {HTMLElement} target
 * @returns {Command | null}
 */
export function commandOf(event, target) {
  const onScale = target.getAttribute("role") === "radio";
  const onButton = target instanceof HTMLButtonElement && !onScale && target.id !== "next";
  if ((event.key === "Enter" || event.key === " ") && onButton) return null;
  const digit = /^(?:Digit|Numpad)?([0-5])$/.exec(/^[0-5]$/.test(event.key) ? event.key : event.code);
  if (digit) return { rating: Number(digit[1]) };
  const key = event.key.toLowerCase();
  const reason = REASONS.find(([, letter]) => letter === key);
  if (reason) return { reason: reason[0] };
  const action = ACTIONS[/** @type {keyof typeof ACTIONS} */ (key)];
  return action ? { action } : null;
}
