// @ts-check
// Every text of the viewer: TEXT holds what never changes, and a function each sentence that depends on
// something. A sentence is written out whole for each case. Pure functions, no DOM.

import { fixed, isolated, percent, plainNumber, signed, visible } from "./text.js";

/** @import { ChoiceLayer, ControlOutcome, Edit, Enough, Evidence, Faithful, Given, KnockOut, Level, Piece, Search, Subset, Trace, Track, View } from "./types" */

export const TEXT = {
  // ask-evidence
  ratherThan: "Rather than", kindsOfMaps: "Kinds of maps", patches: "Patches", attentionLayers: "Attention layers",
  measure: "Measure", blockedLayers: "Blocked layers", knockOutTheObject: "Knock out the object",
  regionShares: "Region, x0,y0,x1,y1 in shares", markIt: "Mark it", knockOutTheRegion: "Knock out the region",
  ratherThanLabel: "rather than", patchesLabel: "patches", attentionOfLayers: "attention of layers", region: "region",
  inLayers: "in layers",
  knockOutNote: "A knock-out prevents the answer's tokens from attending to a region; the question still sees it.",
  againstNothing: "nothing: its logit alone",
  evidenceOnlyOf: "Evidence is measured of MACD's and the baseline's tokens",
  chooseAnObjectFirst: "Choose an object first", measureAgain: "Measure again",
  // the ascent
  byHand: "by hand", firstStep: "step 1:",
  // compare
  thisRun: "This run", theOtherRun: "The other run", answerOfThisRun: "Answer of this run",
  answerOfTheOtherRun: "Answer of the other run", bothRuns: "Both runs",
  answersTokenByToken: "Answers, token by token", close: "Close", twoRuns: "Two runs", thisRunLabel: "this run",
  theOtherRunLabel: "the other run", methods: "Methods", methodsTable: "Methods table",
 
  secondViewOf: "Second view of", theBaseline: "the baseline",
  // controls
  choiceOfMasks: "Did the choice of masks matter?", measureEachObject: "Measure each object",
  occlusionHint: "Hides one object after the other and measures what changes: one pass of the model.",
  measuredEffectOfEachObject: "Measured effect of each object",
  gradientPredicts: "Does the gradient predict the effect?",
  measuredEffects: "Measured effects", equalCells: "Equal cells",
  randomMask: "random mask",
  whatMoves: "What moves",
  regionsHint: "What no detector can name, such as smoke or light, may lie in regions without a class. Run again with:",
  // choices
  everyChoice: "What would other objects do?", withFrameMask: "With MACD's frame mask", withoutFrameMask: "Without it",
  frameMaskOf: "Frame mask of the choices", choicesLattice: "Choices by number of objects", copyVerdict: "Copy verdict",
  maskTheseObjects: "Mask these objects", choicesAsTable: "As a table", choicesTable: "Choices, the largest margin first",
  macd: "MACD", noObjectShort: "none",
  choicesNote: "Each box names the objects that are masked fully; below them further objects are added. Blue: another token leads the baseline's; orange: the baseline's leads. A thick edge: the answer changes. Choices are ranked by that lead, the margin, in logits. Marked, where known: what MACD masks, the largest measured effects, the smallest set whose removal is enough to change the baseline's answer, and what is asked about.",
  // evidence
  sharesOfTheMap: "Shares of the map",
  outsideAllObjects: "outside all objects",
  lensNote: "Each layer's hidden state read out by the model's own head. Early layers were not trained to be read that way.",
  kindOfMap: "Kind of map", mapOf: "Map of", onThePicture: "On the picture", opacityOfTheMap: "Opacity of the map",
  opacity: "opacity", whereTheEvidenceLies: "Where the evidence lies",
  faithfulness: "Scores by insertion and deletion", insertionAndDeletion: "insertion and deletion", deletion: "deletion",
  insertion: "insertion", cellsHiddenOrShown: "cells hidden, or shown · probability of the token", notScored: "This kind was not scored.",
  // enough
  whatIsEnough: "What is enough?", marginToKeep: "Margin to keep, in logits", runsOfFrames: "Runs of frames",
  asManyAsCanBeCertified: "as many as can be certified", whatMustStay: "What must stay", theWholeAnswer: "the whole answer",
  thisTokenAlone: "this token", lookForIt: "Look for it", setOnShow: "Set on show", readTheseAlone: "Read these alone",
  marginLabel: "margin at least", runsLabel: "runs of frames", mustStayLabel: "must stay", pieces: "Pieces",
  shownToTheModel: "shown to the model", keepSet: "Enough", withoutSet: "Without what changes it", allOfIt: "All",
  nothingOfIt: "Nothing", givenThese: "Given these alone", givenNothing: "Given nothing of the video",
  notReadYet: "The model has not read this set yet.",
  // flips
  saveSVG: "Save SVG", decisionBoundary: "Decision boundary for this token",
  flipMapHint: "The outlined cell is where you are; click another to go there. Small β are spread out.",
  // headline
  whatHappened: "What happened", withoutThese: "What would the model say without these objects?",
  withoutParts: "What would the model say without parts of the picture?", baselineAndMACD: "Baseline and MACD", baseline: "Baseline",
  // heat
  difference: "V − V_d",
  // help
  legend: "Legend", allTerms: "All terms", back: "Back", next: "Next", tour: "Tour", done: "Done",
  reproduceThisRun: "Reproduce this run", copy: "Copy", command: "Command", python: "Python",
  linkToThisExample: "Link to this example", copied: "Copied", selectAndCopyByHand: "Select and copy by hand",
  keys: "Keys",
  // rail
  objects: "Objects", queryLoss: "Query loss",
  // stage
  frameMask: "frame mask", boxes: "Boxes", softMasks: "Soft masks", levels: "Levels",
  counterfactual: "Counterfactual", video: "Video", picture: "Picture", maskedView: "Masked", both: "Both", view: "View", ownSpeed: "clip speed",
  saveObjectsAs: "Save objects as …", objectsGroup: "Objects with their levels", maskedGroup: "What is masked",
  unreachable: "The server cannot be reached. Check that it is running and that you are online, then try again.",
  saveFilm: "Save film", savingFilm: "Saving …", levelsKey: "Levels of the masks", outsideMasked: "outside masked",
  drawnFromLevels: "masked: drawn from the levels, as no model has read this video",
  drawnHere: "drawn from this step's levels: the model's own pixels are stored for the end of the ascent", asTheModelSeesIt: "As the model sees it", layers: "Layers", frame: "Frame",
  play: "Play", speed: "Speed", loop: "Loop", savePNG: "Save PNG", theSecondView: "the second view", pause: "Pause",
  secondView: "Second view", none: "none", all: "all", becomes: "becomes", open: "open", shown: "shown", chosen: "← chosen",
  // steps
  ascentStep: "Ascent step", strengthTrajectory: "Strength trajectory, r − r0", endOfAscent: "end",
  frameStrengths: "Strength − r0 of the frame groups by ascent step", frames: "frame mask", noObjectsToDraw: "no objects: only the frame mask moves",
  theAscentByStep: "The ascent by step", pauseTheAscent: "Pause the ascent",
  playTheAscent: "Play the ascent", queryLossByStep: "Query loss by step",
  // bars
  bothAnswers: "Both answers", givenTheVideo: "Given the video", givenTheMasked: "Given the masked video",
  givenThePicture: "Given the picture", givenTheMaskedPicture: "Given the masked picture",
  givenTheSecondView: "Given the second view", resultingScore: "Resulting score", tokenBefore: "Token before", nextToken: "Next token",
  stop: "Stop",
  answerAnyway: "Answer anyway",
  demoCannotAnswer: "The demo model knows drawn clips only: what it would answer about this one means nothing, so it was not asked. What is true of the clip is shown: its objects, their masks, and which way the question's loss pulls each of them.",
  endedBefore: "The run ended before an answer was decoded.",
  noAnswers: "No answer was decoded. What is true of this clip is shown: its objects, their masks, and which way the question's loss pulls each of them.",
  // tokens
  lazyRun: "This run was lazy: the second view was read only where a token needed it, so α and β cannot be moved.",
  asChips: "Single tokens", asChipsHint: "Each token in a box, with its blanks visible",
  endTokensHint: "The token that ends an answer holds no words", endTokens: "End tokens",
  continueDecodingFromHere: "Continue decoding from here", answers: "Answers", endsHere: "ends here",
  applyTheseValues: "Apply these values", decoding: "decoding …", MACDBeforeEdit: "MACD (before edit)",
  candidates: "Candidates",
  belowThePlausibilityCut: "below the plausibility cut", belowCutoff: "below β cutoff",
  upperBound: "not every token of the head is stored",
  // what a run took
  whatTheRunTook: "What the run took", device: "device", weights: "weights", memory: "memory",
  // viewer
  progress: "Progress", traceViewer: "Trace viewer",
  // whatif
  clickToMask: "Click to mask", drawMask: "Draw mask", eraseMask: "Erase mask", addObject: "Add object",
  pointAtObject: "Segment",
  pointHint: "Click an object on the picture that is not listed yet: its mask is found and followed through the clip. Choose the segmenter in the settings.",
  clickHint: "Click an object's outline on the picture: it is masked, or kept again.",
  drawHint: "Draw on the picture: the stroke is added to the object's mask and moves with it.",
  eraseHint: "Draw on the picture: the stroke is removed from the object's mask.",
  boxHint: "Drag a box around the new object.", brush: "Brush", brushSize: "Brush size", undo: "Undo", redo: "Redo",
  size: "size", whatIf: "What if …", changes: "Changes", nameOfTheNewObject: "Name of the new object",
  newObject: "New object", add: "Add", cancel: "Cancel", theNewObjectNeedsAName: "The new object needs a name.",
  runAgainHint: "Everything is run again from where your change begins.",
  chooseObjectOrFrames: "Choose an object on the picture, or change the frames.",
  chooseObjectOrRest: "Choose an object on the picture, or change what is outside the objects.", outsideObjects: "outside the objects", level: "Level",
  nameOfTheObject: "Name of the object", mergeWith: "Merge with", mergeWithOption: "merge with …", drop: "Drop",
  // changes that the browser computes
  computingHere: "The model in this page is computing …", startingModel: "Starting the model …",
  engineFromDisk: "This page was opened from disk, and a browser runs no model there. What is saved can be looked at; from a web server, masks can be changed too.",
  engineNotHere: "This browser cannot run the model: it lacks WebAssembly, workers or a way to unpack files. Open it in a newer browser; what is saved can be looked at.",
  engineUnreachable: "The model could not be loaded. Check the connection, then make the change again.",
  engineOutOfMemory: "There is not enough memory for the model. Close other tabs, then reload the page; what is saved can be looked at.",
  needsServer: "This needs the app: the model in this page does not compute it. Start the app and open the saved trace there.",
  otherWeights: "The model in this page has other weights than the one that made this run, so nothing is changed. Open the saved trace in the app, with the model that made it.",
  tooManyEdits: "Too many changes were made by hand: undo some, or reload the page.",
  blindGradient: "No mask changes the loss: every gradient is exactly zero. Let masks cover something.",
  nothingToMeasure: "There is nothing to measure: no object, or no answer. Add an object, or open another run.",
  randomOfSaved: "Random masks were drawn for the run as it was saved: undo your changes to compare with them.",
  // zoom
  zoomOut: "Zoom out", wholePicture: "Whole picture", zoomIn: "Zoom in", zoom: "Zoom",
};

/**
 * Signs of the viewer, each with the glossary's term for it, or the index of a level; `more` is what only
 * the viewer shows.
 *
 * @type {{ sign?: string, level?: 0 | 1 | 2, term: string, more?: string }[]}
 */
export const SIGNS = [
  { sign: "V", term: "sampled frames" },
  { sign: "V_d", term: "counterfactual" },
  { sign: "∂L/∂r", term: "gradient", more: "A bar to the right is positive, to the left negative; 0 exactly: the mask covers no pixel." },
  { level: 0, term: "level" },
  { level: 1, term: "level" },
  { level: 2, term: "level" },
  { sign: "frame mask", term: "frame mask", more: "The lane below the objects, one cell per frame; among the levels on the picture, what lies outside the objects is dimmed." },
  { sign: "below β cutoff", term: "plausibility cut" },
  { sign: "α", term: "contrast strength" },
  { sign: "│", term: "divergence", more: "Underlined twice in the answers." },
];

/** @type {Record<string, string>} words of the viewer's tables and the glossary's term for each */
export const TERMS = {
  "logit V": "logits", "logit V_d": "logits", score: "score rule", gradient: "gradient", "≈ gradient": "gradient",
  "query loss when masked": "query loss", "p before": "plausibility cut", Objects: "track", Answers: "method",
  "Where the evidence lies": "evidence map", "What is enough?": "enough", "Decision boundary for this token": "flip point", "Soft masks": "mask", Levels: "level",
  "As the model sees it": "sampled frames", "α": "contrast strength", "β": "plausibility cut",
  "What if …": "counterfactual",
};

/** @type {[string, string][]} keys and what they do */
export const KEYS = [
  ["← →", "frame back, frame on"], ["space", "play or pause"], ["L", "loop on or off"],
  ["J K", "next token, token before"], ["1 – 9", "choose an object"], ["B", "boxes"],
  ["M", "soft masks"], ["V", "levels"], ["C", "masked video"], ["X", "both views"], ["S", "as the model sees it"],
  ["[ ]", "ascent step back, step on"], ["P", "play or pause the ascent"], ["+ − 0", "zoom in, out, whole picture"],
  ["Shift ← → ↑ ↓", "move the zoomed picture"], ["U R", "undo, redo a change"],
  ["Esc", "clear object and brush"], ["?", "this list"],
];

/** Column heads of tables. */
export const HEADS = {
  /** @type {(approximate: boolean) => string[]} */
  occlusion: (approximate) => ["object", approximate ? "≈ gradient" : "gradient", "query loss when masked", "log-odds of the answer"],
  choices: ["rank", "masked", "margin", "answer"],
  shares: ["share of the map", "V", "V_d", "points more under V"],
  faithful: ["map", "deletion", "insertion", "insertion − deletion", "random orders below it"],
  /** @type {(method: string, views: number) => string[]} of a token's candidates; views: how many second ones */
  candidates: (method, views) => (views
    ? ["token", "logit V", ...Array.from({ length: views }, (_, k) => `logit ${viewName(method, k)}`), "difference", "score", "p before", "p after", "rank"]
    : ["token", "logit V", "p"]),
  /** @type {(reference: string) => string[]} */
  methods: (reference) => ["method", "answer", reference && `against ${reference}`, "difference by token", "α", "β", "ms added", "ms in all", "peak MB", "viewer"],
};

/** Steps of the tour: title and text. */
export const TOUR = {
  objects: ["Objects", "A detector finds objects in every frame, and a tracker joins them through the clip. Each gets a soft mask of its own."],
  gradient: ["Gradient", "The model's loss on the question's own words is differentiated with respect to each mask. Positive: masking the object raises the loss, so the model used it to read the question."],
  mask: ["Mask", "Objects with a positive gradient are masked, those with a negative one are kept. The result is the counterfactual video V_d."],
  views: ["Two views", "The model reads the video V and the counterfactual V_d. At every token it scores (1+α)·logit(V) − α·logit(V_d): what stays likely without the evidence is pushed down."],
  answer: ["Answer", "Where the scores choose another token than the logits of V alone, MACD's answer differs from the baseline. Whether the choice of masks mattered is answered below: random masks often do the same."],
};

/** @type {Record<string, string>} what a control does, as the subject of a sentence */
export const CONTROL_NAMES = {
  "mask-all": "masking every object", reversed: "the reversed gradient", blank: "a blank video",
};

// ---- parts of sentences

/** @type {(names: string[]) => string} names in one phrase: "a", "a and b", "a, b and c" */
export const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;

/** @type {(text: string) => string} */
export const capitalized = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** @type {(track: Pick<Track, "id" | "label">) => string} */
export const trackName = ({ id, label }) => `${id} ${isolated(label)}`;

/** @type {(trace: Pick<Trace, "times">) => boolean} whether a picture was asked about: nothing speaks of time then */
export const isPicture = ({ times }) => times.length === 1 && !times[0];

/** @type {(group: number[]) => string} frames of a group, counted from 1 */
export const frameNumbers = (group) => group.map((frame) => frame + 1).join(", ");

/** @type {(group: number[]) => string} */
export const groupName = (group) =>
  group.length > 1 ? `frames ${group[0] + 1}–${group[group.length - 1] + 1}` : `frame ${group[0] + 1}`;

/** @type {(group: number[], trace: Pick<Trace, "times">) => string} */
export const partName = (group, trace) => isPicture(trace) ? "the picture" : groupName(group);

/** @type {(milliseconds: number) => string} */
export const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(1)} s`;

// ---- levels

/**
 * Which level of a trace a value is, as an index of its levels; one between the lowest and the highest
 * is the middle one, whatever its value.
 *
 * @type {(levels: Level[], value: number) => number}
 */
export const levelIndex = (levels, value) => {
  if (value === levels[0].value) return 0;
  return value === levels[2].value ? 2 : 1;
};

/** @type {(levels: Level[], value: number | null | undefined) => string} */
export const levelName = (levels, value) =>
  value === undefined || value === null ? "not yet known" : levels[levelIndex(levels, value)].name;

/** @type {(levels: Level[], value: number | null, byHand: boolean) => string} byHand: whether it was set by hand */
export const levelText = (levels, value, byHand) => {
  if (value === null) return "…";
  const text = `${Number(value.toFixed(3))} ${levelName(levels, value)}`;
  return byHand ? `${text}, set by hand` : text;
};

/** @type {(levels: Level[], index: number) => string} how the legend shows a level: its value, or the range where it has none */
export const levelSign = (levels, index) => {
  const { value } = levels[index];
  if (value === null) return `${levels[0].value} < level < ${levels[2].value}`;
  return index === 1 ? `r0 = ${value}` : String(value);
};

/** @type {(levels: Level[], index: number) => string} a level in the key below the picture */
export const levelKey = (levels, index) => {
  const { value, name } = levels[index];
  return value === null ? `between: ${name}` : `${value} ${name}`;
};

/** @type {(levels: Level[], r0: number, tau: number) => string} what the level between the lowest and the highest means */
export const middleMeaning = (levels, r0, tau) => {
  const { value, name } = levels[1];
  if (value === null) return `strengths begin at r0 = ${r0} and stay as the ascent left them: ${name}`;
  const stays = tau ? `an object whose strength ends within τ = ${tau} of it stays ${name}` : `an object whose strength has not moved stays ${name}`;
  return `r0, the strength at which every mask begins: ${stays}; above it an object is ${levels[2].name}, below it ${levels[0].name}`;
};

/** @type {(confidence: number) => string} of a detector, which no level is taken for */
export const confidenceText = (confidence) => `${Math.round(100 * confidence)} %`;

/** @type {(levels: Level[], index: number) => string} what the legend says of how a level is drawn */
export const levelDrawing = (levels, index) => {
  const { name } = levels[index];
  if (index === 0) return `A dashed outline: the object is ${name}.`;
  if (index === 1) return `Stripes one way: the object is ${name}.`;
  return `Crossed stripes: the object is ${name}. Masks that overlap share their pixels, so it may remain visible in part; the mean of the mask over it then stands beside the level, and its cell in the timeline is filled as far.`;
};

/** @type {(level: number, weak: { mean: number } | null | undefined) => string} a level at the end of an object's name; weak: where its mask is weakened by others */
export const levelEnd = (level, weak) => weak ? ` → ${levelValue(level)}, mean ${weak.mean.toFixed(2)}` : ` → ${levelValue(level)}`;

/** @type {(mean: number) => string} in the key below the picture; mean: the least of a mask at the highest level */
export const overlapKey = (mean) => `overlap: mean down to ${mean.toFixed(2)}`;

/** @type {(highest: Level) => string} what that says, in full */
export const overlapMeaning = ({ value, name }) => `Masks that overlap share their pixels: an object at level ${value}, ${name}, may remain visible in part. This is the least mean of such a mask over its object; the timeline shows it for each frame.`;

/** @type {(mean: number, others: Pick<Track, "id" | "label">[]) => string} at the end of what a cell of the timeline says */
export const weakText = (mean, others) =>
  `; the mean of its mask is ${mean.toFixed(2)} there, as it shares pixels with ${listed(others.map(trackName))}`;

// ---- what happened

/** @type {(trace: Pick<Trace, "groups" | "levels">, levels: number[], index: number) => number} how many frames are at a level; levels: of the frame groups */
const framesAt = ({ groups, levels: names }, levels, index) =>
  levels.reduce((n, level, g) => n + (levelIndex(names, level) === index ? groups[g].length : 0), 0);

/** @type {(base: number, masked: number, trace: Pick<Trace, "times">) => string} */
export const lossText = (base, masked, trace) =>
  `${base.toFixed(3)} given the ${isPicture(trace) ? "picture" : "video"}, ${masked.toFixed(3)} given the counterfactual (nats per token).`;

/** @type {(thresholds: Trace["thresholds"]) => string} */
export const confidenceNote = ({ starts, continues }) =>
  "Beside each name stands the mean confidence of its detections. A track needs one of at"
    + ` least ${confidenceText(starts)}, the detector's threshold, and goes on with detections of ${confidenceText(continues)} or more.`;

/** @type {(tracked: boolean, running: boolean) => string} tracked: whether objects were looked for */
export const noObjects = (tracked, running) => {
  if (tracked) return "No objects were found: only the frame mask is used.";
  return running ? "looking for objects …" : "The run ended before it had looked for objects.";
};

// ---- answers

/** @type {(rule: string) => string} */
export const notRescored = (rule) =>
  `Answers of the rule ${rule} are not scored again by α and β; each token shows the weights it was chosen with.`;

/** @param {string} why */
export const unavailableText = (why) => `Not with this model: ${why}.`;

/**
 * @param {string} title of the answer, where each has its own @param {number} tokens @param {boolean} closed
 */
export function thoughtText(title, tokens, closed) {
  const whose = title ? `Thought before the answer of ${title}` : "Thought before the answers";
  return `${whose}: ${tokens} ${tokens === 1 ? "token" : "tokens"}${closed ? "" : ", cut"}`;
}

/** @type {(places: number[], tokens: number) => string} tokens that are not the first choice given the video alone */
export const changedTokens = (places, tokens) => {
  if (!places.length) return `The contrast changed none of the ${tokens} tokens.`;
  const numbers = listed(places.slice(0, 8).map((i) => String(i + 1))), more = places.length > 8 ? ` and ${places.length - 8} more` : "";
  return `The contrast changed ${places.length} of the ${tokens} tokens: ${more ? places.slice(0, 8).map((i) => i + 1).join(", ") : numbers}${more}.`;
};

/** @type {(clip: string) => string} what must be known of a command before it is run */
export const filesNote = (clip) => `Files are named without their folders: run it where ${isolated(clip)} is, or put the folder before its name.`;

/** @type {(index: number, id: number, diverges: boolean) => string} */
export const tokenTitle = (index, id, diverges) => diverges ? "here the answers diverge" : `token ${index + 1}, id ${id}`;

/** @type {(everyToken: boolean) => string} everyToken: whether β above 1 lets nothing else through anywhere */
export const lockText = (everyToken) => everyToken ? "Locked: with β above 1 only the video's own first choice passes the cut"
  : "Locked: no other token passes the plausibility cut, so no contrast can change it, whatever α and the second view";

/** @type {Record<import("./types").Certificate, string>} what is certain of a token whose log-probabilities a server gave */
export const CERTIFICATES = {
  certified: "Certified: the same token wins for every error of the server's log-probabilities",
  close: "Not certified: another token may win within the error of the server's log-probabilities",
  head: "Not certified: tokens that pass the cut may be missing, as the server tells of the likeliest only",
  rule: "Not certified: the rule's weights follow from the log-probabilities themselves",
  search: "Not certified: the token was drawn or searched for, and more than one could be",
};

/** @type {(change: number) => string} change: of log p */
export const effectText = (change) => `hiding this object alone: ${signed(change)} to its log p`;

/** @type {(change: number, rank: number) => string} change: of the token's log p */
export const rankedEffect = (change, rank) => `hiding it alone: ${signed(change)} to this token's log p (rank ${rank})`;

/**
 * How a token's score was made.
 *
 * @type {(answer: { method: string, rule: string }, step: import("./types").TokenStep, at: { alpha: number, beta: number }, search: string) => string}
 */
const scoreText = ({ method, rule }, step, { alpha, beta }, search) => {
  const text = ruleText(method, rule, step, alpha, beta, search);
  return step.repeats
    ? `${text}, then the model's repetition penalty ${step.repeats.penalty} on tokens of the prompt and the answer so far` : text;
};

/** @type {(method: string, rule: string, step: import("./types").TokenStep, alpha: number, beta: number, search: string) => string} */
const ruleText = (method, rule, step, alpha, beta, search) => {
  if (!step.others.length) {
    if (rule !== "plain" && method !== "baseline") return `the video as it is under the rule ${rule}`;
    return search === "greedy" ? "greedy on the video as it is" : "the video as it is";
  }
  if (!step.weights) return `score = (1+α)·logit(V) − α·logit(${viewName(method, 0)}), α ${plainNumber(alpha)}, β ${plainNumber(beta)}`;
  const terms = step.weights.others.map((w, k) =>
    ` ${w < 0 ? "−" : "+"} ${Math.abs(w).toFixed(3)}·logit(${viewName(method, k)})`);
  return `score = ${fixed(step.weights.base, 3)}·logit(V)${terms.join("")}, rule ${rule}`;
};

/** @type {(method: string, k: number) => string} the sign of a second view. k: which of them, from 0 */
export const viewName = (method, k) => method === "macd" && k === 0 ? "V_d" : `V${"′".repeat(k + 1)}`;

/**
 * A token in the table of its candidates.
 *
 * @type {(answer: import("./types").Answer, step: import("./types").TokenStep, at: { alpha: number, beta: number }, decode: Search) => string}
 */
export const candidatesNote = (answer, step, at, decode) => {
  const score = scoreText(answer, step, at, decode.search);
  const whose = step.others.length ? "" : answer.method === "baseline" ? " of the baseline" : ` of ${answer.method}`;
  const text = `Token ${step.index + 1}${whose}: ${score}`, search = searchNote(decode);
  return search ? `${text}. ${search}` : text;
};

/** @type {(decode: Search) => string} why a token need not be the best one, and what its probabilities are; empty for greedy answers */
export const searchNote = ({ search, temperature, top_p: mass }) => {
  if (search === "greedy") return "";
  if (search === "beam") return "The answer was found by beam search: its tokens need not be those with the highest scores.";
  const drawn = search === "vote" ? "The answer won a vote of samples" : "The answer was sampled";
  const text = `${drawn} at temperature ${temperature} with top-p ${mass}: its tokens need not be those with the highest scores.`;
  return temperature === 1 && mass === 1 ? text : `${text} The probabilities shown are at temperature 1 without top-p.`;
};

/**
 * Which token the bars are of. of: tokens that are shown, which leave out a hidden one that ends the answer.
 *
 * @type {(answer: { title: string, tokens: { text: string }[] }, index: number, of: number) => string}
 */
export const barsName = ({ title, tokens }, index, of) =>
  `${title}: token ${index + 1} of ${of}, ${visible(tokens[index].text)}`;

/** @type {(text: string, probability: string, wins: boolean) => string} a bar for a screen reader */
export const barLabel = (text, probability, wins) =>
  wins ? `${visible(text)}: ${probability}, the highest` : `${visible(text)}: ${probability}`;

/**
 * Where the choice of a token changes with α. points: from α 0 on; largest: α that was tried; greedy:
 * whether the answer takes the token with the highest score.
 *
 * @type {(index: number, beta: number, points: { alpha: number, row: { text: string } }[], largest: number, greedy: boolean) => string}
 */
export const flipText = (index, beta, [start, ...flips], largest, greedy) => {
  const what = greedy ? "" : ", the highest score";
  const head = `Token ${index + 1} with β ${plainNumber(beta)}${what}: ${visible(start.row.text)} at α 0`;
  if (!flips.length) return `${head}, and no α up to ${largest} changes it.`;
  return `${head}, ${flips.map((p) => `${visible(p.row.text)} from α ${p.alpha.toFixed(3)}`).join(", ")}.`;
};

/** @type {(rule: string) => string} */
export const noBoundary = (rule) => `Only the linear rule has a boundary over α and β, and this answer is of ${rule}.`;

// ---- the ascent

/** @type {(at: number, last: number, loss: number | null) => string} loss: the query loss there */
export const stepName = (at, last, loss) => {
  const losses = loss === null ? "" : ` · query loss ${loss.toFixed(3)}`;
  if (at < last) return `before step ${at + 1} of ${last}${losses}`;
  return last === 1 ? `end, after 1 step${losses}` : `end, after ${last} steps${losses}`;
};

/** @type {(r0: number, tau: number, approximate: boolean) => string} what the shaded band is */
export const tauText = (r0, tau, approximate) => {
  const band = tau ? `band: within τ = ${tau} of r0 = ${r0}` : `r0 = ${r0}, no dead band (τ = 0)`;
  return approximate ? `≈ approximate gradient · ${band}` : band;
};

/** @type {(strength: number | null, r0: number) => string} what decides a level: how far a strength is from r0 */
export const marginOfLevel = (strength, r0) => strength === null ? "" : `r − r0 = ${signed(strength - r0, 3)}`;

/** @type {(step: number) => string} whose gradient is shown */
export const stepLabel = (step) => `step ${step + 1}:`;

/** @type {(lines: number) => string} a button that gives each line its label */
export const everyLabel = (lines) => `All ${lines} labels`;

/** @type {(level: number) => string} */
export const levelValue = (level) => String(Number(level.toFixed(3)));

/** @type {(levels: Level[], before: number, after: number, at: number, last: number, byHand?: boolean) => string} a level that switches at a step, or that a person set at the end */
export const switchText = (levels, before, after, at, last, byHand = false) => {
  const change = `${levelName(levels, before)} → ${levelName(levels, after)}`;
  if (byHand) return `${change}, set by hand`;
  return at === last ? `${change} at the end` : `${change} before step ${at + 1}`;
};

/** @type {(trace: Pick<Trace, "groups" | "levels" | "times">, levels: number[], byHand?: boolean) => string} levels: of the frame groups; byHand: whether a person set one */
export const framesMasked = ({ groups, levels: names, times }, levels, byHand = false) => {
  if (byHand) return `${framesMasked({ groups, levels: names, times }, levels)}, by hand`;
  if (isPicture({ times })) return levelName(names, levels[0]);
  const [full, partly] = [2, 1].map((index) => framesAt({ groups, levels: names }, levels, index));
  if (!partly) return `${full} of ${times.length} frames`;
  return full ? `${full} of ${times.length}, ${partly} partly` : `${partly} of ${times.length} partly`;
};

/**
 * The query loss and the levels at a step. by_hand: objects whose level a person set, which no strength explains.
 *
 * @type {(trace: Pick<Trace, "tracks" | "levels" | "r0">, at: { level: number[], strength: number[], loss: number | null, ended: boolean, by_hand?: boolean[] }) => string}
 */
export const stepText = ({ tracks, levels, r0 }, { level, strength, loss, ended, by_hand: byHand = [] }) => {
  const losses = loss === null ? []
    : [ended ? `query loss ${loss.toFixed(3)} given V_d` : `query loss ${loss.toFixed(3)} at these strengths`];
  const named = [2, 1, 0].flatMap((index) => {
    const some = tracks.flatMap((t, k) => (!byHand[k] && levelIndex(levels, level[k]) === index ? [`${trackName(t)} ${signed(strength[k] - r0, 3)}`] : []));
    return some.length ? [`${levels[index].name}: ${listed(some)}`] : [];
  });
  const set = tracks.flatMap((t, k) => (byHand[k] ? [`${trackName(t)} to ${levelValue(level[k])}`] : []));
  const text = [...losses, ...named, ...set.length ? [`set by hand: ${listed(set)}`] : []].join(" · ");
  return tracks.length ? `${text} (strength − r0)` : text;
};

/** @type {(trace: Pick<Trace, "tracks" | "r0">, strength: number[]) => string} strength: at the end */
export const strengthSummary = ({ tracks, r0 }, strength) => {
  const ends = tracks.map((track, k) => `${trackName(track)} from ${r0} to ${strength[k].toFixed(3)}`).join(", ");
  return `Strength by ascent step: ${ends || "no objects"}. Grey: frame groups. The level line is r0 = ${r0}.`;
};

/** @type {(values: number[], ended: number | null) => string} values: of the query loss; ended: that at the end */
export const lossSummary = (values, ended) => {
  const steps = `Query loss by ascent step, given the masks at their strengths: from ${values[0].toFixed(3)} to ${values[values.length - 1].toFixed(3)} nats per token`;
  return ended === null ? `${steps}.` : `${steps}; at the end, given V_d: ${ended.toFixed(3)}.`;
};

// ---- controls

/**
 * What one control does. Where the answers agree, the last token compared is the end token, which says
 * nothing. agree: whether MACD's answer is the baseline's.
 *
 * @type {(outcome: ControlOutcome, agree: boolean) => string}
 */
export const controlChoice = ({ same, text }, agree) => agree && same ? "the same answer" : visible(text);

/** @type {(count: number, milliseconds: number) => string} */
export const controlCost = (count, milliseconds) =>
  `${count} control views in ${seconds(milliseconds)}; each is decoded with MACD's α and β up to this token.`;

/** @type {(milliseconds: number | null) => string} milliseconds: that it takes, where known */
export const compareWithRandom = (milliseconds) =>
  milliseconds === null ? "Compare with random masks" : `Compare with random masks (about ${seconds(milliseconds)})`;

/** @type {(correlation: number | null) => string} */
export const occlusionNote = (correlation) => {
  const text = "Natural logarithms; the answer is the baseline's.";
  return correlation === null ? text : `${text} Rank correlation of gradient and measured change: ${signed(correlation)}.`;
};

// ---- choices

/** @type {(views: number, milliseconds: number | null) => string} milliseconds: that it takes, where known */
export const tryEveryChoice = (views, milliseconds) =>
  milliseconds === null ? `Try every choice (${views} views)` : `Try every choice (${views} views, about ${seconds(milliseconds)})`;

/** @type {(objects: number[], tracks: Pick<Track, "id" | "label">[]) => string} the objects of a subset, as Python names them */
export const choiceName = (objects, tracks) =>
  objects.length ? `{${tracks.filter(({ id }) => objects.includes(id)).map(trackName).join(", ")}}` : "{}, no object";

/** @type {(margin: number | null) => string} */
export const marginText = (margin) => margin === null ? "no other token" : signed(margin);

const MOST_TOLD = 60; // characters of an answer in a sentence; the table has all of it

/** @param {string} text */
const begun = (text) => text.length > MOST_TOLD ? `${text.slice(0, MOST_TOLD - 1)}…` : text;

/**
 * What a subset does, and where it stands.
 *
 * @type {(subset: Subset, name: string, rank: number, of: number, baseline: string, marks: string[]) => string}
 */
export const choiceText = ({ flips, margin, answer }, name, rank, of, baseline, marks) => {
  const said = marks.map((mark) => CHOICE_MARKS[mark]).join(", ");
  const who = said ? `${name}, ${said}` : name;
  const what = flips ? `the baseline's “${begun(baseline)}” becomes “${begun(answer ?? "")}”` : `the answer stays “${begun(baseline)}”`;
  const lead = margin === null ? "No other token passes the cut" : `Margin ${signed(margin)}`;
  return `${who}: ${what}. ${lead}, rank ${rank} of ${of}.`;
};

/** @type {(map: { subsets: Subset[], milliseconds: number, left_out: number[] }, tracks: Pick<Track, "id" | "label">[]) => string} */
export const choicesCost = ({ subsets, milliseconds, left_out: others }, tracks) => {
  const cost = `${subsets.length} subsets in ${seconds(milliseconds)}, each decoded with MACD's α and β.`;
  const names = listed(tracks.filter(({ id }) => others.includes(id)).map(trackName));
  return names ? `${cost} Never masked, as their measured effects are smaller: ${names}.` : cost;
};

/** @type {Record<string, string>} a mark on the map → what is said of it */
const CHOICE_MARKS = { MACD: "MACD's choice", measured: "the largest measured effects", enough: "the smallest set whose removal changes the baseline's answer", asked: "what is asked about" };

/** @type {(marks: ChoiceLayer["marks"], place: number) => string[]} of one subset, beside MACD's */
export const choiceMarks = (marks, place) => Object.entries(marks).filter(([, at]) => at === place).map(([name]) => name);

/** @type {(one: number, of: number) => string} a choice is made the masks, an object after the other */
export const changeOf = (one, of) => `Change ${one} of ${of} by hand: each is read and answered anew.`;

/** @type {(count: number) => string} */
export const choiceLevel = (count) => count === 1 ? "1 object" : `${count} objects`;

// ---- evidence

/** @type {(value: number | null | undefined) => string} */
const correlationText = (value) => value === null || value === undefined ? "not known" : signed(value);

/**
 * Sanity check and agreement, in sentences. maps: of the kind, under V and V_d; names: of the kinds.
 *
 * @type {(evidence: Pick<Evidence, "agreement">, kind: string, maps: ({ sanity: number | null } | undefined)[], names: Map<string, string>) => string[]}
 */
export const evidenceChecks = ({ agreement }, kind, [video, counter], names) => {
  const sanity = `${correlationText(video?.sanity)} under V, ${correlationText(counter?.sanity)} under V_d`;
  const out = [`Rank correlation with the map for a head of random weights: ${sanity}. Near 1, the map does not depend on the token.`];
  const mine = agreement.filter((a) => a.first === kind || a.second === kind);
  const others = [...new Set(mine.map((a) => (a.first === kind ? a.second : a.first)))];
  if (!others.length) return out;
  const agreements = others.map((other) => {
    /** @type {(view: string) => string} */
    const under = (view) => correlationText(mine.find((a) => a.view === view && (a.first === other || a.second === other))?.correlation);
    return `with ${(names.get(other) || other).toLowerCase()} ${under("video")} under V, ${under("counterfactual")} under V_d`;
  });
  return [...out, `Agreement (rank correlation of magnitudes): ${agreements.join("; ")}.`];
};

/**
 * What is left out, and what that changes. lead: whether the number is a lead over another candidate.
 *
 * @type {(tracks: Pick<Track, "id" | "label">[], one: KnockOut, lead: boolean) => [string, string]}
 */
export const knockOutText = (tracks, one, lead) => {
  const track = tracks.find((t) => t.id === one.track);
  const what = one.box ? `region ${one.box.join(", ")}` : track ? trackName(track) : `object ${one.track}`;
  const [first, last] = one.layers;
  const layers = first === last ? `layer ${first}` : `layers ${first}–${last}`;
  const words = one.before === one.after ? `“${one.before}” stays the same` : `“${one.before}” → “${one.after}”`;
  const probability = `${percent(one.probability[0])} → ${percent(one.probability[1])}`;
  const score = `${fixed(one.score[0])} → ${fixed(one.score[1])}`;
  const number = lead ? `its lead ${score}` : `its logit ${score}`;
  return [`Without ${what}: `, `${words}; this token's probability ${probability}, ${number} (${one.tokens} vision tokens, ${layers}).`];
};

/** @type {(text: string, index: number, title: string) => string} a token and its place. title: of the answer */
export const tokenName = (text, index, title) => `${visible(text)}, token ${index + 1} of ${title}`;

/**
 * name: of the token; against: text of the other candidate; null: none; score: under V and V_d.
 *
 * @type {(name: string, against: string | null, score: number[]) => string}
 */
export const evidenceText = (name, against, [video, counter]) => {
  const score = `${fixed(video)} given V and ${fixed(counter)} given V_d.`;
  return against === null ? `For ${name}: its logit is ${score}` : `For ${name}: its lead over ${visible(against)} is ${score}`;
};

/**
 * Nothing was measured of a token. name: of the token; empty: none is chosen; able: whether it can be
 * measured here; measured: the tokens that were.
 *
 * @type {(name: string, able: boolean, measured: string) => string}
 */
export const noEvidence = (name, able, measured) => {
  if (!name) return "Choose a token.";
  return able ? `Nothing was measured of ${name} yet.` : `The trace holds nothing of ${name}. Measured were: ${measured}.`;
};

/** @type {(trace: Pick<Trace, "evidence" | "answers">) => string} the tokens that a trace holds evidence of */
export const measuredTokens = ({ evidence, answers }) => evidence.map(({ target }) =>
    `${visible(target.text)} (token ${target.index + 1} of ${answers[target.answer]?.title ?? target.answer})`).join(", ");

/** @type {(name: string, deletion: number[], insertion: number[]) => string} */
export const curveLabel = (name, deletion, insertion) =>
  `${name}: probability ${deletion.map((v) => v.toFixed(2)).join(" ")} as cells are hidden, ${insertion.map((v) => v.toFixed(2)).join(" ")} as they are shown`;

/** @type {(faithful: Faithful, titled: (kind: string) => string) => string} which kind is most faithful, and random orders */
export const faithfulText = ({ kinds, band }, titled) => {
  const best = kinds[0] ? `Most faithful for this token: ${titled(kinds[0].kind)}. ` : "";
  const range = band ? ` Random orders, drawn faintly, score ${signed(band[0], 3)} to ${signed(band[1], 3)}.` : "";
  return `${best}The score is the area under insertion less that under deletion.${range}`;
};

/** @type {(token: string) => string} */
export const lensName = (token) => `probability of ${visible(token)}`;

// ---- enough

/** @type {(piece: Pick<Piece, "track" | "box">, trace: Pick<Trace, "tracks">) => string} what a piece shows, without its frames */
export const pieceName = ({ track, box }, { tracks }) => {
  const object = tracks.find(({ id }) => id === track);
  if (object) return trackName(object);
  return track !== null ? `object ${track}` : box ? `region ${box.join(", ")}` : "background";
};

/**
 * A set of pieces; runs of one region that follow each other are joined.
 *
 * @type {(shown: number[], one: Pick<Enough, "pieces">, trace: Pick<Trace, "tracks" | "groups" | "times">) => string}
 */
export const piecesText = (shown, { pieces }, trace) => {
  /** @type {Map<string, number[][]>} */
  const regions = new Map();
  for (const i of shown) {
    const name = pieceName(pieces[i], trace), [first, last] = pieces[i].groups, runs = regions.get(name) ?? [];
    const before = runs.at(-1);
    if (before && before[1] + 1 === first) before[1] = last;
    else runs.push([first, last]);
    regions.set(name, runs);
  }
  if (isPicture(trace)) return [...regions.keys()].join("; ") || "nothing of the picture";
  return [...regions].map(([name, runs]) => `${name} in ${listed(runs.map(([first, last]) => groupName(trace.groups.slice(first, last + 1).flat())))}`)
    .join("; ") || "nothing of the video";
};

/** @type {(head: string, given: Pick<Given, "answer" | "probability" | "margin">) => string} */
export const givenText = (head, { answer, probability, margin }) =>
  `${head}: “${answer}”, this token's probability ${percent(probability)}, its lead ${signed(margin)} logits.`;

/**
 * The smallest set that keeps the answer, or whose removal changes it; empty where it was not looked for.
 *
 * @type {(what: "keep" | "remove", one: Enough, trace: Pick<Trace, "tracks" | "groups" | "times">) => string}
 */
export const smallestText = (what, one, trace) => {
  const found = one[what], n = one.pieces.length, keeps = what === "keep";
  if (!found) return "";
  if (!found.pieces || !found.given) {
    const none = keeps ? "No set of pieces keeps the answer with this margin" : "Nothing that is hidden changes the answer";
    return found.lower > n ? `${none}: certified.` : `${none}, as far as sets of fewer than ${found.lower} pieces show.`;
  }
  const size = found.pieces.length, set = piecesText(found.pieces, one, trace);
  const proof = found.lower === size
    ? `certified: no smaller set does it${found.alike > 1 ? `, ${found.alike} of this size do` : ""}`
    : `an upper bound: the smallest has ${found.lower} to ${size} pieces`;
  if (keeps) return `Enough for “${one.whole.answer}”: ${set} (${proof}).`;
  return `Without ${set} it says “${found.given.answer}” (${proof}).`;
};

/**
 * What the panel says first. text: of the token; null: there is none.
 *
 * @type {(text: string | null, found: boolean, able: boolean, answer: string, trace: Pick<Trace, "times">) => string}
 */
export const noEnough = (text, found, able, answer, trace) => {
  if (text === null) return "The model's own answer, the baseline's, has no token here.";
  const token = `${visible(text)} in the model's own answer, “${answer}”`;
  if (found) return `For ${token}. Dimmed is what is hidden from the model.`;
  return able ? `The fewest objects${isPicture(trace) ? "" : " and frames"} that alone make the model say ${token}.` : `Nothing was looked for of ${token}.`;
};

/** @type {(views: number, milliseconds: number | null) => string} */
export const enoughCost = (views, milliseconds) =>
  milliseconds === null ? `at most ${views} views` : `at most ${views} views, ${costText(milliseconds)}`;

/** @type {(milliseconds: number) => string} */
export const costText = (milliseconds) =>
  milliseconds < 950 ? `about ${Math.max(0.1, milliseconds / 1000).toFixed(1)} s` : `about ${Math.round(milliseconds / 1000)} s`;

/** @type {(most: string, isSigned: boolean, attention: boolean) => string} the ends of the colour bar */
export const colourRange = (most, isSigned, attention) => {
  const unit = attention ? "of the row's attention" : "logits";
  return isSigned ? `−${most} against to ${most} for the token, ${unit} a cell; the same for all three`
    : `0 to ${most}, ${unit} a cell; the same for all three`;
};

// ---- views and runs

/** @type {(view: View, at: { frame: number, token: number, drawable: boolean }) => string} what is seen of a frame of a second view */
export const viewText = (view, { frame, token, drawable }) => {
  const note = viewNote(view);
  if (view.frames && !view.frames.includes(frame)) return `frame ${frame + 1} is left out · ${note}`;
  if (view.kind === "pruned") return `token ${token + 1}: ${note}`;
  return drawable || view.kind === "no-video" ? note : `${note} (its pixels are not stored in this trace)`;
};

/** @type {(view: View) => string} */
const viewNote = (view) => {
  /** @type {Record<string, string>} */
  const notes = {
    masks: "the frames behind the masks, as the model read them",
    blank: "a video without content",
    "no-video": "the question alone, without a video",
    noise: "the noise that the model read, cut off at black and white",
    frames: `sees only frames ${frameNumbers(view.frames || [])}`,
    pruned: `all pixels, but from decoder layer ${view.layer} on only ${percent(view.ratio || 0)} of the vision tokens`,
    none: "",
  };
  return notes[view.kind] ?? view.caption ?? "";
};

/**
 * How an answer compares with the reference. Which of two is right is not known here, so no word says
 * "fixed".
 *
 * @type {(text: string, reference: string) => string}
 */
export const comparison = (text, reference) => {
  const [ours, theirs] = [text, reference].map((a) => a.toLowerCase().replace(/^[\s.!]+|[\s.!]+$/g, ""));
  if (ours === theirs) return "agrees";
  return [ours, theirs].sort().join() === "no,yes" ? "flipped" : "changed";
};

/** @type {(k: number) => string} k: which second view, from 0 */
export const viewSuffix = (k) => k ? `, view ${k + 1}` : "";

/** @type {(reason: string) => string} why a method did not run */
export const skippedText = (reason) => `Not run: ${/[.!?]$/.test(reason) ? reason : `${reason}.`}`;

/** @type {(votes: Record<string, number>) => string} */
export const votesText = (votes) => {
  const text = Object.entries(votes).map(([answer, n]) => `${answer}: ${n}`).join(", ");
  return text && ` votes: ${text}`;
};

/** @type {(title: string, frame: number, note: string) => string} a frame of a second view, for a screen reader */
export const secondViewLabel = (title, frame, note) => {
  const text = `Second view of ${title}, frame ${frame + 1}`;
  return note ? `${text}: ${note}` : text;
};

/** Names of elements for a screen reader. */
export const LABELS = {
  /** @type {(title: string) => string} */
  open: (title) => `Open ${title} in the viewer`,
  /** @type {(values: number[]) => string} */
  differences: (values) => `differences: ${values.map((v) => signed(v)).join(", ")}`,
  /** @type {(range: string) => string} */
  colours: (range) => `Colours from ${range}`,
  /** @type {(name: string, frame: number) => string} */
  map: (name, frame) => `Map of ${name} over frame ${frame + 1}`,
  /** @type {(texts: string[]) => string} */
  flips: (texts) => `Token chosen over α and β: ${texts.join(", ")}`,
  /** @type {(name: string, frames: string) => string} */
  piece: (name, frames) => `${name}, ${frames}`,
};

/** @type {(seed: number, shared: Record<string, number>) => string} shared: what methods had in common, and how often */
export const sharedText = (seed, shared) => {
  const names = Object.entries(shared).map(([name, n]) => `${name} ${n}×`).join(", ");
  return `Seed ${seed}. Shared between methods: ${names || "nothing"}; “ms added” leaves that out, “ms in all” is from the`
    + " prompt to the answer. Peak memory: tensors alive for the method, weights included.";
};

/** @type {(frame: number, times: number[]) => string} */
export const frameText = (frame, times) =>
  isPicture({ times }) ? "the picture" : `frame ${frame + 1} of ${times.length} · ${times[frame].toFixed(2)} s`;

/** @type {(level: number) => string} level: of the frame mask; 0: it masks nothing */
export const outsideText = (level) => level ? ` · outside of objects masked at ${level}` : "";

/**
 * A frame for a screen reader. outside: of `outsideText`.
 *
 * @type {(frame: number, count: number, objects: string[], outside: string, layers: string[]) => string}
 */
export const frameSummary = (frame, count, objects, outside, layers) =>
  `${count === 1 ? "The picture" : `Frame ${frame + 1} of ${count}`}: ${objects.join("; ") || "no tracked objects"}${outside}. Shown: ${layers.join(", ") || "the frame alone"}.`;

/** @type {(label: string, frame: number, state: string, cut: boolean) => string} an object in a cell of the timeline */
export const laneText = (label, frame, state, cut) =>
  `${isolated(label)}, frame ${frame + 1}: ${state}${cut ? "; the first frame after a hard cut" : ""}`;

/** @type {(frame: number, levels: Level[], value: number, byHand: boolean) => string} the frame mask in a cell of the timeline */
export const frameMaskText = (frame, levels, value, byHand) => {
  const text = levelIndex(levels, value) === 0 ? `frame ${frame + 1}: ${levels[0].name}` : `frame ${frame + 1}: masked at ${Number(value.toFixed(3))}`;
  return byHand ? `${text}, set by hand` : text;
};

/** Why a layer cannot be shown; `name`: of the second view. */
export const WHY_NOT = {
  levels: "There are no levels",
  /** @type {(name: string) => string} */
  otherLevels: (name) => `The levels are not those of ${name}`,
  step: "The pixels of V_d are those of the end of the ascent",
  /** @type {(name: string) => string} */
  counter: (name) => `The trace holds no pictures of ${name}`,
  model: "The trace does not hold what the model read",
};

// ---- changes by hand

/** @type {(trace: Pick<Trace, "tracks" | "groups" | "times">, edit: Edit) => string} a change that was made */
export const editText = ({ tracks, groups, times }, edit) => {
  /** @type {(id: number | undefined) => string} */
  const name = (id) => {
    const track = tracks.find((t) => t.id === id);
    return track ? trackName(track) : `object ${id}`;
  };
  const level = edit.level || 0;
  switch (edit.kind) {
    case "level": return `${name(edit.track)}: level ${level}`;
    case "frames": return `${isPicture({ times }) ? TEXT.outsideObjects : `frames ${frameNumbers(groups[edit.track || 0] || [])}`}: level ${level}`;
    case "drop": return `object ${edit.track} dropped`;
    case "merge": return `object ${edit.other} merged into ${name(edit.track)}`;
    case "label": return `object ${edit.track} called ${isolated(edit.label ?? "")}`;
    case "brush": return edit.erase ? `${name(edit.track)}: mask erased by hand` : `${name(edit.track)}: mask drawn by hand`;
    case "point": return `${isolated(edit.label ?? "")} segmented by ${edit.segmenter} from a point on frame ${(edit.frame || 0) + 1}`;
    default: return `added ${isolated(edit.label ?? "")}`;
  }
};

/** @type {(megabytes: number) => string} where the model runs, before it was loaded */
export const computedHere = (megabytes) =>
  `Computed in your browser by the embedded model; the first change loads it, ${Math.ceil(megabytes)} MB. Nothing leaves this page.`;

/** @type {(bytes: number, of: number) => string} */
export const loadingText = (bytes, of) => `Loading the model: ${(bytes / 1e6).toFixed(1)} of ${(of / 1e6).toFixed(1)} MB`;

/** @type {(why: string) => string} */
export const engineFailed = (why) => `The model in this page stopped (${why}). Reload the page to try again; what is saved can be looked at.`;

/** @type {(level: number) => string} */
export const isMaskedAlready = (level) => `It is at level ${Number(level.toFixed(3))} already: nothing changed. Choose another level.`;

/** @type {(label: string, frame: number) => string} */
export const notSeenOn = (label, frame) => `${isolated(label)} is not seen on frame ${frame + 1}: draw where it has a box.`;

/** @type {(step: number, of: number, loss: number) => string} */
export const stepMessage = (step, of, loss) => `Ascent step ${step} of ${of}, loss ${loss.toFixed(3)}`;

/** @type {(at: number, token: string, amount: number | null) => string} the constant that would give a token without a second view; as core/whatif/constant.py says it */
export const constantText = (at, token, amount) => {
  if (amount === null) return `No stored logit tells which constant would make token ${at + 1} the same.`;
  return `A constant of ${signed(amount)} on the logit of “${visible(token)}” would do the same at token ${at + 1}, without a second view.`;
};

/** @type {(gradient: number[], change: number[], level: number[]) => string} as core/whatif/occlusion.py says it */
export const occlusionVerdict = (gradient, change, level) => {
  const n = gradient.length, agree = gradient.filter((g, k) => Math.sign(g) === Math.sign(change[k])).length;
  if (agree === n) return "supported: for every object the loss moves the way its gradient says";
  const agreement = `for ${agree} of ${n === 1 ? "1 object" : `${n} objects`} the loss moves the way their gradient says`;
  const chosen = change.filter((_, k) => level[k] >= 1);
  if (!chosen.length) return `nothing was hidden; ${agreement}`;
  if (chosen.every((z) => z > 0)) return `supported for what was hidden: the loss rises without it; ${agreement}`;
  return agree * 2 > n ? `partly supported: ${agreement}` : `not supported: ${agreement}`;
};

/** @type {(title: string) => string} title: of the answer that is the contrast */
export const editsOfMacd = (title) => `Changes by hand are made to MACD's mask, not to ${title}: choose MACD as the contrast.`;
