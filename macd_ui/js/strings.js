// @ts-check
// The catalogue of what the page's scripts say: one whole sentence for each case. The texts that
// Python writes are in sentences.py.

/** @param {number} n @param {string} noun */
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

export const DEMO_MODEL = "Model: toyworld, for drawn clips";
/** @type {(changes: number) => string} changes: that were made by hand before */
export const restored = (changes) => `Restored after a reload${changes ? "; the changes made before cannot be undone one by one" : ""}`;
export const RUNS = "Runs of this tab";
export const CHANGED_BY_HAND = "changed by hand";
export const MASKS_ONLY = "masks only, no answer";
export const NO_COPY = "This browser holds no copy of its file; run it again";
export const SHOW = "Show";
export const PIN = "Pin";
export const OPEN_COPY = "Open the copy of this browser";
export const CLOSE = "Close";
export const RUN = "Run";
export const QUESTION = "Question";
export const ANSWERS = "Answers to several questions";
export const ALL_ANSWERS = "All answers";
export const DRAWS = "Random draws";
export const COUNT_AGAIN = "Start counting again";
export const TALLY_HEADS = ["Method", "Right", "Wrong"];
export const FRAMES = "Frames of the clip";
export const FRAMES_FOR_MODEL = "Frames for the model";
export const EVENLY = "evenly spaced";
export const BY_HAND = "picked by hand";
export const ONLY_RANGE = "Show only this range";
export const WHOLE_CLIP = "Whole clip";
export const NOT_SENT = "The server cannot be reached, so this run was not started. This page waits for it.";
export const SERVER_BACK = "The server is back. Press Run to start the run.";
export const CHOOSE_FRAMES = "Choose a range or frames";
export const CHANGE = "Change";
export const WHAT_IT_KNOWS = "What it can be asked";

/** @param {string} name */
export const modelName = (name) => `Model: ${name}`;
/** @param {string} title @param {string} facts */
export const realModel = (title, facts) => `A real model that fits: ${title}. ${facts}`;
/** The run on show is of another clip than the form's. @param {string} shown @param {string} form */
export const otherClip = (shown, form) => `Below is the run of ${shown}. Your clip ${form} has not been run yet: press Run.`;
/** @param {number} n */
export const runsOfTab = (n) => `${RUNS} (${n})`;
/** @param {string} question */
export const showRun = (question) => `Show: ${question}`;
/** @param {number} n @param {number} of @param {string} clip "" as long as none is answered */
export const answered = (n, of, clip) => (clip ? `${n} of ${of} questions about ${clip} answered` : `${n} of ${of} questions answered`);
/** @param {number} n @param {{ seed: number, truth: string } | null} last */
export const drawsSoFar = (n, last) => (last
  ? `Seed ${last.seed}, right answer: ${last.truth}. ${count(n, "draw")} so far.` : `${count(n, "draw")} so far.`);
/** @param {number} passed @param {number} all */
export const runsPassed = (passed, all) => (passed === all ? count(all, "run") : `${passed} of ${count(all, "run")}`);
/** @param {string} clip */
export const readingClip = (clip) => `Reading ${clip} …`;
/** @param {number} s */
export const spoken = (s) => `${s.toFixed(s < 100 ? 2 : 1)} s`;
/** @param {number} time @param {number} duration */
export const timeOf = (time, duration) => `${spoken(time)} of ${spoken(duration)}`;
/** @param {number} time @param {boolean} inside */
export const frameAt = (time, inside) => (inside ? `Frame at ${spoken(time)}` : `Frame at ${spoken(time)}, outside the range`);
/** @param {number} longest seconds */
export const tooLong = (longest) => `A run reads at most ${longest} s: choose a shorter range.`;
export const CLICK_FRAMES = "Click frames to pick them.";
/** @param {number} n @param {boolean} byHand @param {[number, number] | null} range seconds; null: the whole clip */
export function framesChosen(n, byHand, range) {
  const frames = byHand ? `${count(n, "frame")} picked by hand` : `${n} evenly spaced ${n === 1 ? "frame" : "frames"}`;
  return range ? `${frames} of ${spoken(range[0])} to ${spoken(range[1])}.` : `${frames} of the whole clip.`;
}
