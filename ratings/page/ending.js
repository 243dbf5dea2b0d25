// @ts-check
/** What a rater is told: what is saved, how far they are, feedback, and the completion code. */

import { isTouched } from "./tasks.js";
import { byId, make, part, sideName } from "./view.js";

/** What the instructions end with where training comes first. @param {import("./tasks.js").Task[]} tasks */
export function instructionsTold(tasks) {
  const training = tasks.filter((task) => task.kind === "training").length;
  const first = training === 1 ? "The first item shows" : `The first ${training} items show`;
  return training ? `\n\n${first} you how the scale is meant. What you give there does not count.` : "";
}

/**
 * Why nothing is saved, and only where it is so, that the browser's disk has it.
 * @param {string} why @param {boolean} kept
 */
export function unsavedWords(why, kept) {
  return `Not saved yet: ${why} ${kept ? "It is kept in this browser." : "Leave this page open."}`;
}

/** @param {{code: string, address: string} | null} completion */
export function showCompletion(completion) {
  const { code, address } = completion ?? { code: "", address: "" };
  part("completion").hidden = !code && !address;
  part("completion-line").hidden = !code;
  part("completion-code").textContent = code;
  const link = byId("return-link", HTMLAnchorElement);
  link.hidden = !address;
  if (address) link.href = address;
}

/**
 * What is on the server's disk, and how far the rater is.
 * @param {number} unsaved events that wait @param {import("./tasks.js").Task[]} tasks
 * @param {boolean} failed the question before the first screen @param {boolean} closed the study
 */
export function showProgress(unsaved, tasks, failed, closed) {
  const saved = part("saved");
  const words = unsaved ? `${unsaved} not saved yet` : "All saved ✓";
  if (saved.textContent !== words) saved.textContent = words;
  saved.classList.toggle("waiting", unsaved > 0);
  const items = tasks.filter((t) => t.kind === "item");
  const done = items.filter((t) => t.done).length;
  const progress = byId("progress", HTMLProgressElement);
  progress.hidden = false;
  [progress.max, progress.value] = [Math.max(items.length, 1), done];
  part("place").textContent = `${done} of ${items.length}`;
  const kept = tasks.some((task) => task.done || isTouched(task)) ? "What you gave is saved. " : "";
  part("end-text").textContent = failed
    ? "This study looks for other raters, so that you cannot take part. Your answer is saved. You can close this page."
    : closed ? `The study is closed and takes no more ratings. ${unsaved ? `${words}: tell whoever invited you.` : `${kept}You can close this page.`}`
    : unsaved ? `You are finished. ${words}: leave this page open until everything is saved.`
    : "You are finished, and everything is saved. You can close this page.";
  part("review-text").textContent = unsaved ? `${words}: leave this page open.` : "Everything is saved.";
}

/**
 * How a training item should be rated: each mask, or in a study of pairs both together.
 * @param {{fits: boolean, why: string}[]} lines @param {boolean} pairs
 */
export function showFeedback(lines, pairs) {
  const verdict = (/** @type {boolean} */ fits) => (fits ? "yes." : "look again.");
  part("feedback").replaceChildren(
    ...(pairs && lines.length ? [make("p", `Your choice: ${verdict(lines[0].fits)}`)] : []),
    ...lines.map(({ fits, why }, side) => make("p", `${sideName(side, lines.length)}: `
      + `${pairs ? "" : `${verdict(fits)} `}${why}`)),
  );
}

/** The criterion and the keys of the study's scale. @param {boolean} pairs */
export function showKeys(pairs) {
  document.querySelectorAll(".of-ratings, .of-pairs").forEach((line) => {
    /** @type {HTMLElement} */ (line).hidden = line.classList.contains("of-pairs") !== pairs;
  });
}

/**
 * Marks what was given, and whether it is saved.
 * @param {import("./view.js").Views} views @param {import("./tasks.js").Task} task
 * @param {import("./queue.js").RatingEvent[]} pending @param {Map<string, string>} refused by uuid
 * @param {boolean} pairs
 */
export function markAnswers(views, task, pending, refused, pairs) {
  if (pairs) {
    const own = pending.filter((e) => e.task === task.id && e.kind === "prefer");
    const reason = own.map((e) => refused.get(e.uuid)).find(Boolean);
    const text = reason ? `not saved: ${reason}` : own.length ? "not saved yet"
      : task.preference === null ? "" : "saved ✓";
    views.markPreference(task.preference, { text, kind: reason || own.length ? "waiting" : "saved" });
    return;
  }
  task.ratings.forEach((rating, side) => {
    views.markReasons(side, rating, task.reasons[side]);
    const own = pending.filter((e) => e.task === task.id && e.side === side);
    const reason = own.map((e) => refused.get(e.uuid)).find(Boolean);
    if (reason) views.mark(side, rating, { text: `not saved: ${reason}`, kind: "waiting" });
    else if (own.length) views.mark(side, rating, { text: "not saved yet", kind: "waiting" });
    else views.mark(side, rating, { text: rating === null ? "" : "saved ✓", kind: "saved" });
  });
}
