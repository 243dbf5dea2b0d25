// The fields of a trace, written by `python -m viewer.describe` from their description.

/** x0 y0 x1 y1 in shares of the frame. */
export type Box = [number, number, number, number];
export type Point = [number, number];

/** What was applied over a backbone's weights. */
export interface AdapterRecord {
  /** of its folder or hub id, without a path */
  name: string;
  /** such as LORA */
  kind: string;
  /** over its configuration and its weights */
  sha256: string;
}

/** How far two kinds' magnitudes agree, over the cells where neither is 0. */
export interface Agreement {
  /** what the model was shown */
  view: "video" | "counterfactual";
  /** a kind */
  first: string;
  /** another */
  second: string;
  /** Spearman's; null where one is flat */
  correlation: number | null;
}

/** One method's answer. tokens: the end token included. */
export interface Answer {
  /** the method's name */
  method: string;
  /** the answer */
  text: string;
  /** whether the model ended it itself */
  finished: boolean;
  /** α (0 in the baseline) */
  alpha: number;
  /** β (0 in the baseline) */
  beta: number;
  /** what the cut compares: `probability`, or TCD's `raw` on raw logits */
  head: "probability" | "raw";
  /** how the views were scored, a name in `core.rules`; α, β and head are those of `linear` */
  rule: string;
  /** of self-consistency: normalised answer → samples that gave it */
  votes: Record<string, number>;
  /** its second views, in order; none of a plain answer */
  second_views: ShownView[];
  /** its own, where thoughts are contrasted */
  thought: Thought | null;
  /** time it added: the first to need a shared piece pays for it */
  ms: number;
  /** time of everything it needs, from the prompt to the answer */
  total_ms: number;
  /** peak of the tensors alive for it, weights included */
  memory_mb: number;
}

/** One step of the ascent: strengths before it, and the query loss and its gradient there. */
export interface AscentStep {
  /** nats per token */
  loss: number;
  /** of the objects */
  strength: number[];
  /** ∂L/∂r of the objects */
  gradient: number[];
  /** of the frame groups */
  frame_strength: number[];
  /** ∂L/∂r of the frame groups */
  frame_gradient: number[];
}

/** The backbone that answered: as `core.backbones.base.BackboneInfo` has it, with the prompt. */
export interface BackboneRecord {
  /** of its weights */
  name?: string;
  /** of the architecture */
  family?: string;
  /** how many weights */
  parameters?: number;
  /** what it ran on */
  device?: string;
  /** of its weights */
  dtype?: string;
  /** of its weights */
  revision?: string;
  /** what it was trained on, where that is narrow */
  domain?: string;
  /** the title of clips of that kind */
  domain_title?: string;
  /** the filter that frames are resized with */
  resample?: string;
  /** whether each frame is limited; null where the family does not limit */
  cap_pixels_per_frame?: boolean | null;
  /** the whole prompt */
  prompt?: string;
  /** RGB in [0, 1], what it reads as zero, if known */
  pixel_mean?: number[];
  /** what lowered the scores of tokens that came before; 1 where nothing did */
  repetition_penalty?: number;
  /** how its weights are packed; missing where they are not */
  quantised?: string;
  /** what packed weights take */
  held_bytes?: number;
  /** where its weights lie, if not on the device alone */
  offloaded?: string;
  /** of its weights: `sha256:` and a hash over every byte of their files, or `sampled:` and one over headers, spread blocks and a piece of each tensor */
  weights_hash?: string;
  /** what was applied over its weights; missing where nothing was */
  adapter?: AdapterRecord | null;
  /** what held the model in another process; missing elsewhere */
  server?: string;
  /** how far each log-probability that the server gave is taken to be off, nats; certificates rest on it; missing where no server was asked */
  log_p_error?: number;
  /** the same of the plain video alone, which no mask covers; missing, or 0, where `log_p_error` holds of it too */
  video_log_p_error?: number;
  /** of the GPU, missing where none was used */
  device_name?: string;
  /** what it cannot do, names of `core.records.CAPABILITIES` */
  lacks?: string[];
}

/** Every subset of up to six objects at level 1, and MACD's own levels among them. */
export interface ChoiceMap {
  /** the token that is read, from 0: where MACD's answer parts, else 0 */
  index: number;
  /** ids of the objects whose subsets were read */
  objects: number[];
  /** ids of the others, whose measured effects are smaller; they are never masked */
  left_out: number[];
  /** without frame mask first, by number of objects */
  subsets: Subset[];
  /** MACD's own levels, 0.75 among them; its objects are those > 0 */
  own: Subset;
  /** what the map took */
  milliseconds: number;
  /** ids of the objects with at least half of the largest measured effect, which macd-measured masks fully; none where no object has one, and in files of earlier versions */
  measured: number[];
}

/** The analysed file. */
export interface ClipRecord {
  /** of the file */
  name?: string;
  /** of the file, or of the frames if there is no file */
  sha256?: string;
  /** seconds */
  duration?: number;
  /** pixels of an upright source frame */
  width?: number;
  /** likewise */
  height?: number;
  /** the one that the file carries */
  title?: string;
  /** of the sampled frames among the file's, counted from 0 */
  numbers?: number[];
  /** of the file, its median; null where it is not known */
  fps?: number | null;
  /** seconds at which hard cuts were found in its frames */
  cuts?: number[];
}

/** What one control view chooses where MACD's answer leaves the baseline's. */
export interface ControlOutcome {
  /** the control: `random`, `mask-all`, `reversed` or `blank` */
  name: "random" | "mask-all" | "reversed" | "blank";
  /** the token it chooses */
  text: string;
  /** whether that is MACD's; where both answers agree, whether the whole answer is */
  same: boolean;
  /** which token that is, from 0; an earlier one where the control leaves MACD earlier */
  index: number;
}

/** Controls to compare MACD's own masks with. */
export interface ControlReport {
  /** the first token where MACD's answer differs, from 0; null where both agree */
  index: number | null;
  /** MACD's token there; the last one where both agree */
  macd: string;
  /** the baseline's */
  baseline: string;
  /** every control, random masks first */
  outcomes: ControlOutcome[];
  /** the smallest amount which, added to the logit of MACD's token given the video, makes it the baseline's choice */
  constant: number;
  /** what the comparison took */
  milliseconds: number;
}

/** Where the ascent ended, and the level each strength became. */
export interface Counterfactual {
  /** of the objects after the last step */
  strength: number[];
  /** strength − r0, signed, unclamped by τ */
  margin: number[];
  /** what the strengths became */
  level: number[];
  /** of the frame groups */
  frame_strength: number[];
  /** their strength − r0 */
  frame_margin: number[];
  /** what their strengths became */
  frame_level: number[];
  /** query loss given V, nats per token; null until both views were read */
  base_loss: number | null;
  /** query loss given V_d */
  loss: number | null;
}

/** The token's probability while the cells of one order are hidden, and shown, one by one. */
export interface Curve {
  /** the map that orders the cells, or `random` */
  kind: string;
  /** with the first cells of the order hidden, from none to all */
  deletion: number[];
  /** with these alone shown, from none to all */
  insertion: number[];
}

/** Insertion and deletion, which score maps against the model itself. */
export interface Curves {
  /** of the cells, at each step of a curve, from 0 to 1 */
  shares: number[];
  /** of each map, then random orders */
  curves: Curve[];
}

/** The detector and the `DetectOptions` it was called with. */
export interface DetectorRecord {
  /** of the detector */
  name?: string;
  /** of a detection that starts a track */
  confidence?: number;
  /** of a detection that continues one */
  low?: number;
  /** long side that it really saw, pixels; null if it does not say */
  image_size?: number | null;
  /** most detections in a frame */
  max_per_frame?: number;
  /** what it looked for; empty for all */
  classes?: string[];
  /** what it was asked for, in words */
  prompt?: string;
  /** of its classes, where they were given; empty where it has its own */
  names?: string[];
  /** how many frames it was shown */
  frames?: number;
  /** how dense they were, null for one frame */
  fps?: number | null;
  /** of a file of tracks, which took the detector's place */
  format?: string;
  /** of that file */
  sha256?: string;
  /** which of its frames were taken for the sampled ones */
  counting?: string;
  /** of the detector's weights, as of the backbone's; missing where it has none */
  weights_hash?: string;
}

/** How little of the video is enough for a token of the model's answer to the video alone. */
export interface Enough {
  /** which token's */
  target: Target;
  /** what must stay: every token of the answer, or the one alone */
  same: "answer" | "token";
  /** the margin that a kept set must reach, in logits */
  margin: number;
  /** what hidden pixels become */
  fill: string;
  /** all pieces */
  pieces: Piece[];
  /** given all of them, which is the video */
  whole: Given;
  /** given none of them */
  nothing: Given;
  /** the smallest set that is enough; null where it was not looked for */
  keep: Smallest | null;
  /** the smallest set whose removal changes the answer; null likewise */
  remove: Smallest | null;
  /** sets that were asked for */
  asked: Given[];
  /** sets that were read */
  views: number;
  /** sets that might be read at most */
  budget: number;
}

/** Where the evidence for one token lies. */
export interface Evidence {
  /** which token's */
  target: Target;
  /** the target's number under V and V_d */
  score: [number, number];
  /** decoder layers, from 0, over which attention is the mean */
  layers: number[];
  /** by kind and view */
  maps: EvidenceMap[];
  /** of pairs of kinds */
  agreement: Agreement[];
  /** regions that were knocked out */
  knock_outs: KnockOut[];
  /** the token's probability by layer */
  lens: Lens | null;
  /** insertion and deletion by the maps under V; null: not measured */
  curves: Curves | null;
}

/** One kind of evidence under one view. Cells add up: the sum over an area is its evidence. */
export interface EvidenceMap {
  /** how it was measured */
  kind: string;
  /** what the model was shown */
  view: "video" | "counterfactual";
  /** in logits, or in shares of attention; what is positive speaks for the token */
  values: number[][][];
  /** (K,) share of the magnitude on each object; objects overlap */
  objects: number[];
  /** share on none */
  outside: number;
  /** (G,) share by frame group */
  groups: number[];
  /** Spearman's of the magnitudes with those for a head of random weights; near 1, the map does not depend on the token; null where it was not measured, or below three of them */
  sanity: number | null;
}

/** What the model says given some pieces alone, all others hidden. */
export interface Given {
  /** the pieces that it is shown, by index */
  shown: number[];
  /** the greedy answer */
  answer: string;
  /** whether the tokens in question are those of the trace's answer */
  same: boolean;
  /** of the token, after the answer's tokens before it */
  probability: number;
  /** the token's logit less that of the best other one */
  margin: number;
}

/** What the answer becomes when its tokens cannot attend to a region's vision tokens. */
export interface KnockOut {
  /** the object's id; null for a box */
  track: number | null;
  /** x0 y0 x1 y1 in shares of every source frame; null for an object */
  box: [number, number, number, number] | null;
  /** first and last decoder layer, from 0 */
  layers: [number, number];
  /** how many vision tokens it holds */
  tokens: number;
  /** greedy answer to the video */
  before: string;
  /** the same without the region */
  after: string;
  /** the target's number before and after */
  score: [number, number];
  /** the token's probability before and after */
  probability: [number, number];
}

/** (L,) probability of the token as read out after each layer. */
export interface Lens {
  /** under V */
  video: number[];
  /** under V_d */
  counterfactual: number[];
}

/** Tracks → masks → counterfactual. `pad` and `feather` are shares of the short side. */
export interface MaskOptions {
  /** growth of every mask, share of the short side */
  pad: number;
  /** softness of mask edges, share of the short side */
  feather: number;
  /** strengths where masks overlap: normalised by confidence, or raw */
  overlap: "normalise" | "raw";
  /** sweep masks over time, so that they do not reveal the motion */
  swept: boolean;
  /** how masks and strengths become one mask */
  fusion: "max" | "confidence" | "average" | "or" | "sum";
  /** apply each strength twice, as the paper's equations stand */
  strength_twice: boolean;
  /** what masked pixels become */
  fill: "mean" | "black" | "blur" | "noise" | "plate" | "additive";
  /** what it covers: pixels outside the objects, the whole frame, nothing */
  frame_mask: "outside" | "whole" | "off";
  /** seed of the noise in masked pixels */
  fill_seed: number;
  /** outline where the detector segments, or always the box */
  shape: "outline" | "box";
}

/** The frames as a backbone reads them: resized by its own rule, 8 bits per channel. */
export interface ModelFrames {
  /** of the clip, seconds */
  duration: number;
  /** x0 y0 x1 y1, the pixels of a model frame that show the source frame; the rest is padding */
  content: [number, number, number, number];
  /** how much wider the source appears than it is, 1 where its shape is kept */
  stretch: number;
}

/** The measured effect of masking each object alone, with its gradient. */
export interface OcclusionReport {
  /** ∂L/∂r at the first ascent step */
  gradient: number[];
  /** query loss with only that object hidden less that of the video, nats */
  loss_change: number[];
  /** change of the log-odds of the whole baseline answer */
  odds_change: number[];
  /** change of the log probability of each of its tokens */
  token_change: number[][];
  /** Spearman's, of gradient with loss change; null below three objects or where one of them is constant */
  correlation: number | null;
  /** whether the changes support the gradient's choice, in words */
  verdict: string;
}

/** One object, one region or the background, in a run of frame groups. */
export interface Piece {
  /** the object's id; null for what is not an object */
  track: number | null;
  /** of a region, x0 y0 x1 y1 in shares of the source frame, without the objects in it; null for an object and for the background */
  box: [number, number, number, number] | null;
  /** first and last frame group, from 0 */
  groups: [number, number];
}

/** What a second view was. shown: its frames as the model read them, (T, h, w, 3). */
export interface ShownView {
  /** its kind, with plain numbers */
  view: View;
}

/** The smallest set of pieces that keeps the answer, or whose removal changes it. */
export interface Smallest {
  /** the set, by index, of pieces to keep or to remove; null where none is known */
  pieces: number[] | null;
  /** every set of fewer pieces was read, and none of them does it; one more than there are pieces where no set does */
  lower: number;
  /** sets of as many pieces that were read and do it */
  alike: number;
  /** what the model says then; null without a set */
  given: Given | null;
}

/** A line that was brushed onto a track's mask; it is carried along with the track's box. */
export interface Stroke {
  /** (N, 2) in shares of the box, 0 0 its upper left corner; they may lie outside */
  points: Point[];
  /** in shares of the frame's short side */
  radius: number;
  /** takes away from the mask instead of adding to it */
  erase: boolean;
}

/** Some objects fully masked, and what MACD's contrast then answers. */
export interface Subset {
  /** ids of the objects that are masked */
  objects: number[];
  /** whether the frame groups are masked as MACD masks them */
  frames: boolean;
  /** whether the answer leaves the baseline's up to the read token */
  flips: boolean;
  /** how far the best other token's score leads the baseline's token, where it leads most; above 0 where the answer flips, null where the cut leaves no other token */
  margin: number | null;
  /** the token where it leaves the baseline, else the read one */
  token: string;
  /** the whole answer where it flips; null elsewhere */
  answer: string | null;
}

/** The number whose evidence is looked for: a token's logit, or how far it leads another's. */
export interface Target {
  /** the method whose tokens come before it */
  answer: string;
  /** of the token, from 0 */
  index: number;
  /** its id */
  token: number;
  /** its exact text */
  text: string;
  /** the other candidate; null for the logit alone */
  against: number | null;
  /** its text */
  against_text: string | null;
}

/** What a model wrote before its answer, between its marks for that. */
export interface Thought {
  /** the thought, without its marks */
  text: string;
  /** ids of its tokens, with the marks and the blanks that follow */
  tokens: number[];
  /** whether the model ended it itself; false where it was cut */
  closed: boolean;
}

/** One decoded token with its candidates under both views. */
export interface TokenStep {
  /** id of the chosen token */
  token: number;
  /** token ids, best base logit first */
  candidates: number[];
  /** the candidates' logits given V */
  base: number[];
  /** log partition over the whole vocabulary, so that p = exp(logit − log_z) is exact */
  base_log_z: number;
  /** every token whose base logit is at least this is a candidate (−∞: all are; ∞: not known), so probabilities over a head that ends above it are exact, and upper bounds below */
  floor: number | null;
}

/** Everything computed for one clip and one question; figures and pages only read this. */
export interface Trace {
  /** the question as asked */
  question: string;
  /** seconds */
  times: number[];
  /** the frames of each temporal patch, G lists */
  groups: number[][];
  /** the analysed file */
  clip: ClipRecord;
  /** the model that answered */
  backbone: BackboneRecord;
  /** the detector and its options */
  detector: DetectorRecord;
  /** what the backbone read; null before it was asked */
  model_frames: ModelFrames | null;
  /** the recipe of the masks */
  mask: MaskOptions;
  /** the objects */
  tracks: Track[];
  /** the ascent */
  steps: AscentStep[];
  /** where it ended */
  counterfactual: Counterfactual | null;
  /** the measured effect of masking each object alone; null until it was measured */
  occlusion: OcclusionReport | null;
  /** whether other masks do what MACD's do; null until measured */
  controls: ControlReport | null;
  /** where the evidence for a token lies */
  evidence: Evidence[];
  /** what is enough for a token */
  enough: Enough[];
  /** what every subset does */
  choice_map: ChoiceMap | null;
  /** by method */
  answers: Record<string, Answer>;
  /** milliseconds by stage */
  timings_ms: Record<string, number>;
  /** peak memory: of the GPU if one was used, else of the process */
  peak_memory_mb: number;
  /** what was repaired, left out, or must be known to read the result */
  warnings: string[];
  /** the seed */
  seed: number;
  /** how many further methods each piece of work served */
  shared: Record<string, number>;
  /** methods that do not apply to the question → why */
  skipped: Record<string, string>;
  /** what the model wrote before all answers */
  thought: Thought | null;
  /** the right answer, where somebody knows it; else empty */
  truth: string;
  /** `complete`, or `stopped: STAGE` where the run was cancelled */
  status: string;
  /** versions of the libraries that a result depends on */
  versions: Record<string, string>;
}

/** One object through the clip, read off at the sampled frames. */
export interface Track {
  /** from 1, most important first (confidence × sightings) */
  id: number;
  /** class name */
  label: string;
  /** mean detector score of its sightings */
  confidence: number;
  /** x0 y0 x1 y1 in shares of the source frame, NaN where the track is lost */
  boxes: (Box | null)[];
  /** 0 lost, 1 interpolated, 2 seen */
  state: number[];
  /** sightings on the dense frames */
  frames_seen: number;
  /** what was drawn by hand on its mask, in order */
  brush: Stroke[];
  /** polygons of its parts on each frame in shares of the box, null where only the box is known; empty where it always is */
  outlines: (Point[][] | null)[];
}

/** What a second view was: the fields of all kinds. */
export interface View {
  kind: string;
  level?: number[];
  frame_level?: number[];
  swept?: boolean;
  frame_mask?: string;
  boxes?: (([number, number, number, number] | null)[])[];
  random?: { control?: string; area_ratio?: number; overlap?: number; scale?: number; unmoved?: number[]; tries?: number };
  frames?: number[];
  scale?: number;
  over?: string;
  clamped?: number;
  sigma?: number;
  first?: number;
  features?: string;
  similarity?: number[];
  layer?: number;
  ratio?: number;
  grid?: [number, number, number];
  caption?: string;
}
