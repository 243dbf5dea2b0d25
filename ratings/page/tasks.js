// @ts-check
/** The items of a rater, what each event makes of them, and the list that leads to each. */

import { PREFERENCES, make, setReason } from "./view.js";

/**
 * @typedef {{id: string, kind: "training" | "item", ratings: (number | null)[], reasons: string[][],
 *   preference: number | null, done: boolean, skipped: boolean}} Task
 */

/** What an event changes, on the page before the server has it. @param {Task} task @param {import("./queue.js").RatingEvent} event */
export function apply(task, event) {
  if ((event.kind === "rate" || event.kind === "undo") && event.side !== undefined) {
    task.ratings[event.side] = event.new ?? null;
  }
  if (event.kind === "prefer") task.preference = event.new ?? null;
  if (event.kind === "reason" && event.side !== undefined) {
    setReason(task, event.side, String(event.note), event.new === 1);
  }
  if (event.kind === "next" || event.kind === "skip") {
    task.done = true;
    task.skipped = event.kind === "skip";
  }
}

/** @param {Task[]} tasks @param {Task[]} saved as the server has them @param {Set<string | undefined>} busy what is newer here */
export function takeOver(tasks, saved, busy) {
  for (const one of saved) {
    const task = tasks.find((t) => t.id === one.id);
    if (task && !busy.has(task.id)) Object.assign(task, one);
  }
}

/** Whether anything was given to an item. @param {Task} task */
export const isTouched = (task) => task.preference !== null || task.ratings.some((r) => r !== null);

/** @param {Task} task */
function stateOf(task) {
  if (task.skipped) return "cannot judge";
  if (task.preference !== null) return PREFERENCES.find(([value]) => value === task.preference)?.[1] ?? "";
  const given = task.ratings.filter((rating) => rating !== null);
  return given.length ? task.ratings.map((rating) => rating ?? "–").join(" · ") : "not yet";
}

/**
 * A button for every item that was reached, with what was given.
 * @param {HTMLElement} into @param {Task[]} tasks @param {number} at @param {(at: number) => void} open
 */
export function listItems(into, tasks, at, open) {
  const reached = tasks.findIndex((task) => !task.done);
  let training = 0;
  into.replaceChildren(...tasks.map((task, i) => {
    const isTraining = task.kind === "training";
    training += Number(isTraining);
    const name = isTraining ? `Training ${i + 1}` : `${i + 1 - training}`;
    const button = make("button", `${name}: ${stateOf(task)}`);
    button.type = "button";
    button.disabled = reached >= 0 && i > reached;
    if (i === at) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => open(i));
    return button;
  }));
}
