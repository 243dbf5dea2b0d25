// What Python sends (viewer/payload.py) and what the modules here hand to each other.
// tests/viewer/test_types.py compares the payload's types with what Python writes.

export interface Payload {
  constants: Constants;
  status: Status;
  trace?: Trace;
  /** Where the trace can be downloaded, relative to the page, and whose it is. */
  files?: { trace: string; page: string; of: "run" | "example" };
}

/** What both sides must agree on; see viewer/constants.py. */
export interface Constants {
  /** [name, what it is called] of every stage of a run, in order. */
  stages: [string, string][];
  /** What the states of a track on a frame are called. */
  states: string[];
  interpolated: number;
  colours: string[];
  alpha: Slider;
  beta: Slider;
  /** No stored token can be scored anew with a larger α. */
  largest_alpha: number;
  flips: { alphas: number[]; betas: number[] };
  /** [kind, what it is called] of every kind of evidence map. */
  kinds: [string, string][];
  /** Bounds of a change by hand: points of a stroke, characters of a name, side of a box. */
  edit: { points: number; label: number; side: number };
  /** Term → its meaning, without a full stop. */
  glossary: Record<string, string>;
}

export interface Slider { max: number; step: number }

export interface Status {
  stage: string;
  fraction: number;
  message: string;
  stages_done: string[];
  running: boolean;
  error: string;
  where: string;
}

export interface Trace {
  run: string;
  question: string;
  clip: string;
  /** The model that made it. */
  backbone: string;
  /** [w, h] of a source frame, in pixels. */
  source: [number, number];
  /** [w, h] of the masks. */
  size: [number, number];
  frames: string[];
  model: ModelFrames | null;
  times: number[];
  groups: number[][];
  mask: MaskRecipe;
  /** Whether another program computed the trace, so that no model here can change it. */
  recorded: boolean;
  /** Confidence of a detection that starts a track, and of one that continues it. */
  thresholds: { starts: number; continues: number };
  /** What a strength becomes, from 0 to 1. */
  levels: Level[];
  r0: number;
  tau: number;
  /** Whether strengths stay as the ascent left them instead of becoming levels. */
  continuous: boolean;
  /** Largest share of frame groups that stay masked. */
  frame_fraction: number;
  approximate: boolean;
  tracked: boolean;
  tracks: Track[];
  steps: AscentStep[];
  final: Counterfactual | null;
  answers: Record<string, Answer>;
  edits: Edit[];
  occlusion: OcclusionReport | null;
  controls: ControlReport | null;
  evidence: Evidence[];
  /** Milliseconds that each kind of map took on this server, "occlusion-grid" by patch, as far as known. */
  evidence_ms: Record<string, number> | null;
  /** Whether the evidence of a token can be measured. */
  measurable: boolean;
  /** Whether the masks can be compared with controls. */
  comparable: boolean;
  /** What that took on this server, in milliseconds, as far as known. */
  controls_ms: number | null;
  /** The right answer; empty where nobody knows it. */
  truth: string;
  /** What must be seen before anything is believed; empty where there is nothing of the kind. */
  badge: string;
  /** Nouns of the question that no track is called. */
  undetected: string[];
  shared: Record<string, number>;
  seed: number;
  warnings: string[];
  previous?: Answer;
  /** Whether a change by hand that was taken back can be made again. */
  redo?: boolean;
  again?: { command?: string; snippet?: string; link?: string };
}

export interface ModelFrames {
  size: [number, number];
  /** x0 y0 x1 y1, the pixels that show the source frame. */
  content: [number, number, number, number];
  frames: string[];
  fit: string;
}

export interface MaskRecipe {
  pad: number;
  feather: number;
  /** Feather widths from an outline beyond which its mask no longer changes. */
  reach: number;
  overlap: "normalise" | "raw";
  swept: boolean;
  fusion: "max" | "confidence" | "average" | "or";
  fill: string;
  frame_mask: "outside" | "whole" | "off";
  fill_seed: number;
  shape: "outline" | "box";
}

/** x0 y0 x1 y1 in shares of the frame. */
export type Box = [number, number, number, number];
export type Point = [number, number];
/** Rings of points in shares of the box. */
export type Outline = Point[][];

export interface Track {
  id: number;
  label: string;
  colour: string;
  confidence: number;
  frames_seen: number;
  state: number[];
  brush: Stroke[];
  outlines: (Outline | null)[];
  boxes: (Box | null)[];
}

export interface Stroke { points: Point[]; radius: number; erase: boolean }

export interface AscentStep {
  loss: number;
  strength: number[];
  gradient: number[];
  frame_strength: number[];
  frame_gradient: number[];
}

/** value: null stands for every strength between 0 and 1. */
export interface Level { value: number | null; name: string }

export interface Counterfactual {
  strength: number[];
  margin: number[];
  level: number[];
  frame_strength: number[];
  frame_margin: number[];
  frame_level: number[];
  /** Whether the level of each object, and of each frame group, was set by hand. */
  by_hand: boolean[];
  frame_by_hand: boolean[];
  base_loss: number | null;
  loss: number | null;
}

export type Head = "probability" | "raw";

export interface Answer {
  /** Whether it is right; null where the truth is not known. */
  right: boolean | null;
  method: string;
  /** What the method is called. */
  title: string;
  text: string;
  finished: boolean;
  alpha: number;
  beta: number;
  head: Head;
  rule: string;
  votes: Record<string, number>;
  second_views: ShownView[];
  ms: number;
  total_ms: number;
  memory_mb: number;
  tokens: TokenStep[];
  /** Whether a bias would do the same, in a sentence; empty where the answers do not diverge. */
  constant?: string;
  /** Why it cannot be decoded on under another α and β; empty where it can. */
  cannot_redecode?: string;
}

export interface ShownView {
  view: View;
  /** Its frames; null for one that the model read as it is. */
  shown: (string | null)[] | null;
}

export interface View {
  kind: string;
  level?: number[];
  caption?: string;
  frames?: number[];
  layer?: number;
  ratio?: number;
  grid?: [number, number, number];
}

export interface TokenStep {
  index: number;
  token: number;
  text: string;
  candidates: number[];
  texts: string[];
  base: number[];
  base_log_z: number;
  /** As base, of each second view. */
  others: number[][];
  others_log_z: number[];
  hidden: string | null;
  /** Every token with at least this base logit is a candidate; null: all, or not known. */
  floor: number | null;
  complete: boolean;
  weights: StepWeights | null;
  repeats: Repeats | null;
}

/** The model's repetition penalty, and the places of the candidates that came before. */
export interface Repeats { penalty: number; at: number[] }

export interface ControlOutcome { name: string; text: string; same: boolean; index: number }

/** MACD's masks beside controls, at the first token where its answer differs from the baseline's. */
export interface ControlReport {
  /** null: the answers agree. */
  index: number | null;
  macd: string;
  baseline: string;
  outcomes: ControlOutcome[];
  constant: number;
  milliseconds: number;
}

export interface StepWeights {
  base: number;
  others: number[];
  floor: number | null;
  bias: [number, number][];
}

export interface OcclusionReport {
  gradient: number[];
  loss_change: number[];
  odds_change: number[];
  token_change: number[][];
  correlation: number | null;
  verdict: string;
}

/** Where the evidence for one token lies: core/evidence/records.py says what each field is. */
export interface Evidence {
  target: EvidenceTarget;
  /** The token's logit, or its lead, under V and under V_d. */
  score: [number, number];
  layers: number[];
  /** x0 y0 x1 y1 of a map's outer corners in shares of the source frame. */
  extent: Box;
  /** Kind → the magnitude that is drawn at full strength, under both views. */
  strongest: Record<string, number>;
  maps: EvidenceMap[];
  agreement: Agreement[];
  knock_outs: KnockOut[];
  lens: Lens | null;
}

export interface EvidenceTarget {
  answer: string;
  index: number;
  token: number;
  text: string;
  against: number | null;
  against_text: string | null;
}

export type EvidenceView = "video" | "counterfactual";

export interface EvidenceMap {
  kind: string;
  view: EvidenceView;
  /** Rows and columns of each frame's map. */
  grid: [number, number];
  scale: number;
  /** Frames × grid, in steps of `scale`: 16-bit numbers, low byte first, as base64. */
  values: string;
  objects: number[];
  outside: number;
  groups: number[];
  sanity: number | null;
}

export interface Agreement { view: EvidenceView; first: string; second: string; correlation: number | null }

export interface KnockOut {
  track: number | null;
  box: Box | null;
  layers: [number, number];
  tokens: number;
  before: string;
  after: string;
  score: [number, number];
  probability: [number, number];
}

export interface Lens { video: number[]; counterfactual: number[] }

/** What of a token's evidence is asked for: core/evidence/options.py. */
export interface EvidenceRequest {
  token: number;
  answer: string;
  against?: string;
  kinds?: string[];
  layers?: string;
  patches?: string;
  knock_out?: string[];
  boxes?: string[];
  knock_out_layers?: string;
  maps?: boolean;
  lens?: boolean;
}

/** A change by hand: core/whatif/edits.py says which of these belong to which kind. */
export interface Edit {
  kind: "level" | "frames" | "drop" | "merge" | "label" | "brush" | "add";
  track?: number;
  other?: number;
  level?: number;
  label?: string;
  frame?: number;
  points?: Point[];
  radius?: number;
  erase?: boolean;
  box?: Box;
}

/** What the viewer asks of the server, which is told the run as well. */
export type Action =
  | { do: "edit"; edit: Edit }
  | { do: "undo" }
  | { do: "redo" }
  | { do: "occlusion" }
  | { do: "controls" }
  | { do: "evidence"; evidence: EvidenceRequest }
  | { do: "detect"; detector: string }
  | { do: "redecode"; method: string; alpha: number; beta: number };
export type Send = (action: Action) => void;

/** What surrounds a viewer; each part may be missing. */
export interface Host {
  /** Hands an action to the server; without it the viewer only shows. */
  send?: ((action: Action & { run: string }) => void) | null;
  /** Takes a file that was dropped on the viewer. */
  onDrop?: ((file: File) => void) | null;
  /** Hears which object is chosen or pointed at, of how many, after each drawing. */
  onDraw?: ((chosen: number | null, objects: number) => void) | null;
  /** What links are relative to. */
  base?: string;
}

export interface Rule { alpha: number; beta: number }

/** Names of the answers that are shown beside each other; null: none. */
export interface Pair { reference: string | null; contrast: string | null }

/** A candidate of a token, scored anew. */
export interface Row {
  id: number;
  text: string;
  base: number;
  others: number[];
  difference: number;
  inside: boolean;
  score: number;
  before: number;
  after: number;
}

export interface Rescored { rows: Row[]; chosen: number; exact: boolean }

/** From this α on the row is chosen. */
export interface Flip { alpha: number; row: Row }

export interface FrameMasks { objects: (Float32Array | null)[]; outside: Float32Array }

/** What the objects and the frame are hidden at. */
export interface FrameLevels { objects: number[]; frame: number }

/** What an element can hold; nothing where it is null, undefined or false. */
export type Child = Node | string | number | null | undefined | false | Child[];

export type Tool = "draw" | "erase" | "box" | "click";
export type Layer = "boxes" | "soft" | "levels" | "counter" | "model";
