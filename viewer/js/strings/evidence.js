// @ts-check
// Where the evidence lies, and what of the video is enough.

import { fixed, percent, signed, visible } from "../text.js";
import { groupName, isPicture, listed, trackName } from "./parts.js";

/** @import { Enough, Evidence, Faithful, Given, KnockOut, Piece, Trace, Track } from "../types" */

// ---- evidence

/** @type {(value: number | null | undefined) => string} */
const correlationText = (value) => value === null || value === undefined ? "not known" : signed(value);

const ATTENTION_NOTE = "Attention says where the model looks before this token, not what the token rests on.";

/**
 * Sanity check and agreement, in sentences; of attention also what it does not say. maps: of the kind, under V and V_d; names: of the kinds.
 *
 * @type {(evidence: Pick<Evidence, "agreement" | "maps">, kind: string, maps: ({ sanity: number | null } | undefined)[], names: Map<string, string>) => string[]}
 */
export const evidenceChecks = ({ agreement, maps }, kind, [video, counter], names) => {
  const sanity = `${correlationText(video?.sanity)} under V, ${correlationText(counter?.sanity)} under V_d`;
  const measured = maps.some((m) => m.kind === "occlusion") ? "The last column is measured: the share of the changes in this token's number when each object alone is hidden."
    : "Tick “Occlusion by object” to measure what hiding each object changes.";
  const out = kind === "attention" ? [`${ATTENTION_NOTE} ${measured}`] : [];
  out.push(`Rank correlation with the map for a head of random weights: ${sanity}. Near 1, the map does not depend on the token.`);
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
