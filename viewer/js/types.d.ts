// What Python sends (viewer/payload.py) and what the modules here hand to each other.
// The fields of a trace are those of ./trace, which Python writes; here stands what the payload adds to them.
// tests/viewer/test_payload.py compares both with what Python sends.

import type * as Stored from "./trace";
import type { Box, ControlReport, Enough, OcclusionReport, AscentStep, Point, View } from "./trace";
export type {
  Agreement, AscentStep, Box, ChoiceMap, ControlOutcome, ControlReport, Curve, Curves, Enough, Given, KnockOut, Lens, OcclusionReport, Piece, Point, Smallest, Stroke, Subset,
  View,
} from "./trace";
export type EvidenceTarget = Stored.Target;

export interface Payload {
  constants: Constants;
  status: Status;
  trace?: Trace;
  /** Where the trace can be downloaded, relative to the page, and whose it is. */
  files?: { trace: string; page: string; of: "run" | "example" };
  /** What the page shows is not on the server any more. */
  lost?: boolean;
  /** What computes changes where there is no server; missing where nothing does. */
  engine?: EngineAbout;
}

/** Where a page without a server finds the embedded model: macd_ui/engine.py. */
export interface EngineAbout {
  /** Of the engine's files, and the file of this run, relative to the page. */
  folder: string;
  run: string;
  /** That the first change loads. */
  bytes: number;
  /** Why the model here cannot compute changes of this run, in a sentence; empty where it can. */
  whyNot: string;
}

/** A file of the engine. bytes: as it is fetched. */
export interface EngineFile { name: string; bytes: number; sha256: string }
export interface EngineManifest { files: EngineFile[] }

/** What the model needs of one run beside its payload: macd_ui/engine.py. */
export interface EngineRun {
  /** (T, H, W, 3) RGB, as the model read them. */
  frames: Uint8Array;
  /** T, H, W */
  shape: [number, number, number];
  mean: number[];
  std: number[];
  /** What masked pixels become, by channel, normalised. */
  fill: number[];
  /** Token ids around the video's. */
  before: number[];
  after: number[];
  /** Time, row and column of each token of the prompt, and what text goes on with. */
  positions: number[][];
  next: number;
  /** Places of the question's tokens in the prompt, and their ids. */
  query: number[];
  targets: number[];
  /** Ids of the tokens that end an answer, and the text of every token. */
  end: number[];
  texts: string[];
  /** What of a track the payload has rounded. */
  tracks: Pick<Track, "boxes" | "outlines" | "brush">[];
  ascent: { steps: number; eta: number; r0: number };
  decode: { max_tokens: number };
  /** Boxes of the tracks at random places, and the frame groups' levels in random order. */
  placements: { boxes: (Box | null)[][]; frame_level: number[] }[];
}

/** What the model gives: logits (L, V) as rows of `words`; slope: of the loss by every pixel of the mask. */
export interface Reading { logits: Float32Array; words: number; loss: number; slope: Float32Array | null }
export type ReadMasked =
  (mask: Float32Array | null, tokens: number[], fill?: number[], targets?: Float32Array | null) => Promise<Reading>;

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
  /** The largest β that an answer can have. */
  largest_beta: number;
  flips: { alphas: number[]; betas: number[] };
  /** [name, what it is called] of every format in which objects are saved. */
  exports: [string, string][];
  /** [kind, what it is called] of every kind of evidence map. */
  kinds: [string, string][];
  /** Bounds of a change by hand: points of a stroke, characters of a name, side of a box. */
  edit: { points: number; label: number; side: number };
  /** Most objects of which every choice is tried. */
  most_mapped: number;
  /** Where the verdict on a choice of masks lies: core/whatif/verdict.py. */
  verdict: { small_constant: number; most: number; few: number; best: number };
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

export interface Trace extends Pick<Stored.Trace, "question" | "times" | "groups" | "truth" | "shared" | "seed" | "warnings" | "controls" | "choice_map" | "thought"> {
  run: string;
  clip: string;
  /** The model that made it. */
  backbone: string;
  /** Whether it was trained on one narrow kind of clips. */
  demo: boolean;
  /** Whether the clip is of another kind. */
  outside: boolean;
  /** The frames that are the first ones after a hard cut. */
  cuts: number[];
  /** [w, h] of a source frame, in pixels. */
  source: [number, number];
  /** [w, h] of the masks. */
  size: [number, number];
  frames: string[];
  model: ModelFrames | null;
  mask: MaskRecipe;
  /** Whether another program computed the trace, so that no model here can change it. */
  recorded: boolean;
  /** Confidence of a detection that starts a track, and of one that continues it. */
  thresholds: { starts: number; continues: number };
  /** What a strength becomes, from 0 to 1. */
  levels: Level[];
  r0: number;
  tau: number;
  /** Largest share of frame groups that stay masked. */
  frame_fraction: number;
  approximate: boolean;
  differences: boolean;
  tracked: boolean;
  tracks: Track[];
  steps: AscentStep[];
  final: Counterfactual | null;
  answers: Record<string, Answer>;
  edits: Edit[];
  occlusion: OcclusionReport | null;
  evidence: Evidence[];
  enough: Enough[];
  /** Milliseconds that each kind of map took on this server, "occlusion-grid" by patch, as far as known. */
  evidence_ms: Record<string, number> | null;
  /** Milliseconds that one view of a search for what is enough took on this server, as far as known. */
  enough_ms: number | null;
  /** Whether the evidence of a token can be measured. */
  measurable: boolean;
  /** What its model cannot do, by name → why: kinds of evidence, "knock-out" and "change". */
  unavailable: Record<string, string>;
  /** How far each log-probability that a server gave may be off; null where no server was asked. */
  log_p_errors: LogPErrors | null;
  /** What the run ran on, milliseconds by stage, and the peak of memory. */
  took: { device: string; weights: string; times: [string, number][]; memory: string };
  /** Whether the masks can be compared with controls. */
  comparable: boolean;
  /** What that took on this server, in milliseconds, as far as known. */
  controls_ms: number | null;
  /** What is said of its choice map; null where none was measured. */
  choices: Choices | null;
  /** How many views a choice map would read; null where it cannot be measured. */
  choices_views: number | null;
  /** What that took on this server, in milliseconds, as far as known. */
  choices_ms: number | null;
  /** What must be seen before anything is believed; empty where there is nothing of the kind. */
  badge: string;
  /** Whether second views were read only where a token needed them. */
  lazy: boolean;
  /** How tokens were chosen from their scores; temperature and top_p are those of sample and vote. */
  decode: Search;
  /** Nouns of the question that no track is called. */
  undetected: string[];
  /** Whether its objects are regions without a class, which no name could tell apart. */
  classless: boolean;
  previous?: Answer;
  /** Whether a change by hand that was taken back can be made again. */
  redo?: boolean;
  /** How the clip was chosen, in one sentence and in full, and the words of the button to another one; "" where none is drawn. */
  chosen?: { text: string; more: string; button: string };
  /** Methods that did not run, and why. */
  skipped: { method: string; title: string; reason: string }[];
  again?: { command?: string; snippet?: string; link?: string };
}

/** What is said of a choice map: viewer/choices.py. */
export interface Choices {
  /** The verdict with its figures and rule, to be pasted where others read it. */
  verdict: string;
  /** Its halves; the one with MACD's frame mask comes first, where there is one. */
  layers: ChoiceLayer[];
}

export interface ChoiceLayer {
  frames: boolean;
  /** Which subsets of the map these are, and the rank of each by its margin. */
  places: number[];
  ranks: number[];
  /** The place of the objects that MACD masks fully; null where they were not read together. */
  macd: number | null;
  /** The places of those that do what MACD does. */
  same: number[];
  /** The place of other choices, as far as they are known: core/whatif/verdict.py. */
  marks: Partial<Record<"measured" | "enough" | "asked", number>>;
  sentence: string;
}

export interface Search { search: "greedy" | "sample" | "beam" | "vote"; temperature: number; top_p: number }

export interface ModelFrames {
  size: [number, number];
  /** x0 y0 x1 y1, the pixels that show the source frame. */
  content: [number, number, number, number];
  frames: string[];
  fit: string;
}

export interface MaskRecipe extends Stored.MaskOptions {
  /** Feather widths from an outline beyond which its mask no longer changes. */
  reach: number;
}

/** Rings of points in shares of the box. */
export type Outline = Point[][];

export interface Track extends Stored.Track { colour: string }

/** value: null stands for every strength between 0 and 1. */
export interface Level { value: number | null; name: string }

export interface Counterfactual extends Stored.Counterfactual {
  /** Whether the level of each object, and of each frame group, was set by hand. */
  by_hand: boolean[];
  frame_by_hand: boolean[];
}

export type Head = "probability" | "raw";

export interface Answer extends Stored.Answer {
  /** Whether it is right; null where the truth is not known. */
  right: boolean | null;
  /** What the method is called. */
  title: string;
  /** Whether its cut follows from the video alone, so that it may decide a token. */
  locks: boolean;
  /** Whether its rule's weights follow from the views' values, beyond the cut. */
  moves: boolean;
  /** Whether it changes with the masks, so that a change by hand leaves it out. */
  depends_on_masks: boolean;
  /** The least β for which every token that passes is known; 0 where all are. */
  least_beta: number;
  second_views: ShownView[];
  tokens: TokenStep[];
  /** Whether a bias would do the same, in a sentence; empty where the answers do not diverge. */
  constant?: string;
  /** The constant of that sentence in logits; null where none is known. */
  constant_amount?: number | null;
  /** What it is added to. */
  constant_of?: string;
  /** Why it cannot be decoded on under another α and β; empty where it can. */
  cannot_redecode?: string;
}

/** Nats: of the plain video, and of any other view. */
export interface LogPErrors { video: number; second: number }

/** What can be said of a token of a model that a server holds, see core/decoding/certificate.py. */
export type Certificate = "certified" | "close" | "head" | "rule" | "search";

export interface ShownView extends Stored.ShownView {
  /** Its frames; null for one that the model read as it is. */
  shown: (string | null)[] | null;
}

export interface TokenStep extends Stored.TokenStep {
  index: number;
  text: string;
  texts: string[];
  /** As base, of each second view. */
  others: number[][];
  others_log_z: number[];
  hidden: string | null;
  /** Whether all tokens are candidates; then floor is null, as it is where it is not known. */
  complete: boolean;
  weights: StepWeights | null;
  repeats: Repeats | null;
}

/** The model's repetition penalty, and the places of the candidates that came before. */
export interface Repeats { penalty: number; at: number[] }

export interface StepWeights {
  base: number;
  others: number[];
  floor: number | null;
  bias: [number, number][];
}

/** Where the evidence for one token lies: core/measurements.py says what each field is. */
export interface Evidence extends Omit<Stored.Evidence, "maps"> {
  /** x0 y0 x1 y1 of a map's outer corners in shares of the source frame. */
  extent: Box;
  /** Kind → the magnitude that is drawn at full strength, under both views. */
  strongest: Record<string, number>;
  maps: EvidenceMap[];
  /** Scores of the maps by insertion and deletion, the most faithful first. */
  faithful: Faithful | null;
}

export interface Faithful {
  /** Lowest and highest score of the random orders. */
  band: [number, number] | null;
  kinds: FaithfulKind[];
}

export interface FaithfulKind {
  kind: string;
  /** Area under the insertion curve less that under the deletion curve. */
  score: number;
  /** Share of the random orders with a lower score. */
  above: number;
  deletion: number;
  insertion: number;
}

export type EvidenceView = "video" | "counterfactual";

export interface EvidenceMap extends Omit<Stored.EvidenceMap, "values"> {
  /** Rows and columns of each frame's map. */
  grid: [number, number];
  scale: number;
  /** Frames × grid, in steps of `scale`: 16-bit numbers, low byte first, as base64. */
  values: string;
}

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
  curves?: boolean;
}

/** What is looked for, or read: core/evidence/options.py. */
export interface EnoughRequest {
  token: number;
  same: string;
  margin: number;
  spans: number;
  boxes?: string[];
  search: boolean;
  keep?: string[];
}

/** A change by hand: core/whatif/edits.py says which of these belong to which kind. */
export interface Edit {
  kind: "level" | "frames" | "drop" | "merge" | "label" | "brush" | "add" | "point";
  track?: number;
  other?: number;
  level?: number;
  label?: string;
  frame?: number;
  points?: Point[];
  radius?: number;
  erase?: boolean;
  box?: Box;
  segmenter?: string;
}

/** What the viewer asks of the server, which is told the run as well. */
export type Action =
  | { do: "edit"; edit: Edit }
  | { do: "point"; frame: number; points: Point[]; label: string }
  | { do: "undo" }
  | { do: "redo" }
  | { do: "occlusion" }
  | { do: "controls" }
  | { do: "choices" }
  | { do: "evidence"; evidence: EvidenceRequest }
  | { do: "enough"; enough: EnoughRequest }
  | { do: "detect"; detector: string }
  | { do: "redecode"; method: string; alpha: number; beta: number };
export type Send = (action: Action) => void;

/** What surrounds a viewer; each part may be missing. */
export interface Host {
  /** Hands an action to the server; without it the viewer only shows. */
  send?: ((action: Action & { run: string }) => void) | null;
  /** The actions that `send` takes; all where it is missing. */
  can?: Set<Action["do"]>;
  /** Why nothing can be changed here, in a sentence. */
  cannot?: string;
  /** Makes what computes begin with the first payload again. */
  restart?: () => void;
  /** That the first change loads, in MB. */
  megabytes?: number;
  /** Takes a file that was dropped on the viewer. */
  onDrop?: ((file: File) => void) | null;
  /** Hears which object is chosen or pointed at, of how many, after each drawing. */
  onDraw?: ((chosen: number | null, objects: number) => void) | null;
  /** Draws and runs a clip of those that the one on show was chosen from. */
  typical?: (() => void) | null;
  /** Stops what goes on. */
  stop?: (() => void) | null;
  /** Fetches a file that the server offers of the trace on show. */
  get?: (address: string) => Promise<Response>;
  /** Asks for an answer that the page would not give by itself. */
  /** What links are relative to. */
  base?: string;
  /** Whether the page's address says something else than what is chosen here. */
  addressTaken?: boolean;
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

/** Of one frame; whole: the objects' masks before those that overlap share their pixels. */
export interface FrameMasks { objects: (Float32Array | null)[]; outside: Float32Array; whole: (Float32Array | null)[] }

/** What the objects and the frame are hidden at. */
export interface FrameLevels { objects: number[]; frame: number }

/** What an element can hold; nothing where it is null, undefined or false. */
export type Child = Node | string | number | null | undefined | false | Child[];

export type Tool = "draw" | "erase" | "box" | "click" | "point";
export type Layer = "boxes" | "soft" | "levels" | "counter" | "model";

declare global {
  /** Of a worker; the runtime puts itself there. */
  interface Window { ort: any; importScripts: (address: string) => void }
}
