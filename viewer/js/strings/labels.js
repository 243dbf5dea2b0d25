// @ts-check
// What never changes: words of the panels, heads of tables, keys, terms, the tour.

import { viewName } from "./parts.js";

export const TEXT = {
  // ask-evidence
  ratherThan: "Rather than", kindsOfMaps: "Kinds of maps", patches: "Patches", attentionLayers: "Attention layers", hiddenAlone: "measured: hidden alone, V",
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
  theOtherRunLabel: "the other run", sharesGivenTheVideo: "Each token with its probability given the video, before contrast", methods: "Methods", methodsTable: "Methods table",
 
  secondViewOf: "Second view of", theBaseline: "the baseline",
  // controls
  choiceOfMasks: "Did the choice of masks matter?", whatWasTried: "What was tried",
  noTwoAnswers: "MACD's answer or the baseline's is missing.", sameAnswers: "MACD does not change the answer.", notMeasured: "It was not measured.", measureEachObject: "Measure each object",
  occlusionHint: "Hides one object after the other and measures what changes: one pass of the model.",
  measuredEffectOfEachObject: "Measured effect of each object",
  gradientPredicts: "Does the gradient predict the effect?",
  measuredEffects: "Measured effects", equalCells: "Equal cells",
  randomMask: "random mask",
  whatMoves: "What moves",
  regionsHint: "What no detector can name, such as smoke or light, may lie in regions without a class. Run again with:",
  // choices
  everyChoice: "Would contrast with other masks change the baseline's answer?", eachChoice: "Every choice of objects", withFrameMask: "With MACD's frame mask", withoutFrameMask: "Without it",
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
  whatHappened: "What happened",
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
  video: "Video", picture: "Picture", maskedView: "Masked", both: "Both", view: "View", ownSpeed: "clip speed",
  saveObjectsAs: "Save objects as …", objectsGroup: "Objects with their levels", maskedGroup: "What is masked",
  unreachable: "The server cannot be reached. Check that it is running and that you are online, then try again.",
  saveFilm: "Save film", savingFilm: "Saving …", levelsKey: "Levels of the masks", outsideMasked: "outside masked",
  drawnFromLevels: "masked: drawn from the levels; no answer was decoded",
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
  stop: "Stop", stopping: "Stopping …",
  endedBefore: "The run ended before an answer was decoded.",
  noAnswers: "No answer was decoded. What is true of this clip is shown: what is masked, and which way the question's loss pulls each mask.",
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
  why: "Why: which objects the model depends on, and which words change",
  measureIt: "Measure more: where the evidence lies, what is enough, other methods, files",
  onThePictureToo: "Show on the picture", how: "How it was chosen",
  // whatif
  clickToMask: "Click to mask", drawMask: "Draw mask", eraseMask: "Erase mask", addObject: "Add object",
  pointAtObject: "Segment",
  pointHint: "Click an object on the picture that is not listed yet: its mask is found and followed through the clip. Choose the segmenter in the settings.",
  clickHint: "Click an object's outline on the picture: it is masked, or kept again.",
  drawHint: "Draw on the picture: the stroke is added to the object's mask and moves with it.",
  eraseHint: "Draw on the picture: the stroke is removed from the object's mask.",
  boxHint: "Drag a box around the new object.", brush: "Brush", brushSize: "Brush size", undo: "Undo", redo: "Redo",
  size: "size", whatIf: "Change masks by hand", changes: "Changes", nameOfTheNewObject: "Name of the new object",
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
  { sign: "∂L/∂r", term: "gradient", more: "A bar to the right is positive, to the left negative; 0 exactly: the mask covers no pixel, or other masks hide all of its pixels." },
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
  "Change masks by hand": "counterfactual",
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
