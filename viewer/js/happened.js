// @ts-check
// What happened, in sentences: one for each record of `statements.js`, and what the controls found. A sentence
// is written out whole for each case. Pure functions, no DOM.

import { divergence, endOf } from "./state.js";
import { aloneOf, hidesAny, isMoved, logitsOf, maskedOf, openOf, outcomeOf, partnerOf, turnOf } from "./statements.js";
import { CONTROL_NAMES, TEXT } from "./strings/labels.js";
import { aboutPartner, givenAlone, maskedThings, meaningText, withoutText } from "./strings/verdict.js";
import { capitalized, groupName, isPicture, levelValue, listed, trackName } from "./strings/parts.js";
import { isolated, plainNumber, signed, visible } from "./text.js";
import { maskedAnswer, verdictOf } from "./verdict.js";

/** @import { Logits, Loss, Masked, Open, Outcome, Said, Shown, Turn } from "./statements.js" */
/** @typedef {{ text: string, kind: "name" | "answer" | "arrow", said: Said | null }} Piece of the line with both answers; said: whose answer it is */
/** @import { Answer, Constants, ControlOutcome, ControlReport, Rule, Trace, Track } from "./types" */

// ---- what was masked

/** @type {Record<string, string>} plurals that no rule gives, of everyday objects */
const PLURALS = { person: "persons", sheep: "sheep", skis: "skis", scissors: "scissors", mouse: "mice", knife: "knives" };

/** @type {(label: string) => string} */
const plural = (label) => {
  if (!/[a-z]$/i.test(label)) return isolated(label); // not English
  return PLURALS[label] ?? (/(s|x|z|ch|sh)$/.test(label) ? `${label}es` : `${label}s`);
};

/**
 * Objects of one name and their numbers: "person 3", "persons 1 and 2", "chairs 5–6 and 9–10".
 *
 * @type {(label: string, ids: number[]) => string}
 */
const groupedObjects = (label, ids) => {
  if (ids.length === 1) return `${isolated(label)} ${ids[0]}`;
  const sorted = [...ids].sort((a, b) => a - b);
  if (sorted.length === 2) return `${plural(label)} ${listed(sorted.map(String))}`;
  /** @type {number[][]} */
  const runs = [];
  for (const id of sorted) {
    const run = runs[runs.length - 1];
    if (run && id === run[run.length - 1] + 1) run.push(id);
    else runs.push([id]);
  }
  return `${plural(label)} ${listed(runs.map((run) => (run.length > 1 ? `${run[0]}–${run[run.length - 1]}` : String(run[0]))))}`;
};

/** @type {(tracks: Pick<Track, "id" | "label">[]) => string[]} objects with their numbers, one phrase for each name */
const numberedPhrases = (tracks) => {
  /** @type {Map<string, number[]>} */
  const byLabel = new Map();
  for (const { id, label } of tracks) {
    const noun = CELL.test(label) ? "cell" : label;
    byLabel.set(noun, [...byLabel.get(noun) ?? [], id]);
  }
  return [...byLabel].map(([label, ids]) => groupedObjects(label, ids));
};

const CELL = /^row \d+, column \d+$/; // a region of the frame without a class: see core/objects/regions.py
const MOST_NAMED = 3; // objects with a name of their own that a sentence names

/**
 * Which objects and frames the second view masks, and which of it a person set; without a mask of the trace's: nothing.
 *
 * @type {(trace: Trace, masked?: Masked | null) => string}
 */
export const maskedText = (trace, masked = maskedOf(trace, undefined)) => {
  if (!masked) return "";
  const { tracks, groups, times, levels } = trace;
  const parts = [];
  const many = new Set(tracks.map(({ label }) => label)).size < tracks.length;
  const kinds = /** @type {[2 | 1, "full" | "partly"][]} */ ([[2, "full"], [1, "partly"]]);
  for (const [index, kind] of kinds) {
    const { name } = levels[index], some = masked[kind].map((k) => tracks[k]);
    if (!some.length) continue;
    const verb = some.length === 1 ? "was" : "were";
    if (many || some.length > MOST_NAMED) parts.push(`${name}: ${numberedPhrases(some).join(", ")}`);
    else parts.push(`${listed(some.map(({ label }) => `the ${isolated(label)}`))} ${verb} ${name}`);
  }
  const frames = kinds.flatMap(([index, kind]) => {
    const n = masked.frames[kind], { name } = levels[index];
    return n ? [times.length === 1 ? `was ${name}` : `${n} of ${times.length} frames ${n === 1 ? "was" : "were"} ${name}`] : [];
  });
  if (frames.length) parts.push(times.length === 1 ? `what is outside the objects ${listed(frames)}` : `outside the objects, ${listed(frames)}`);
  const byHand = [
    ...masked.byHand.map((one) => `${trackName(one)} set to ${levelValue(one.level)} by hand`),
    ...masked.framesByHand.map(({ group, level }) => `${isPicture(trace) ? "what is outside the objects" : groupName(groups[group])} set to ${levelValue(level)} by hand`),
  ];
  const text = [...parts.length ? parts : ["nothing was masked"], ...byHand].join("; ");
  return `${capitalized(text)}.${changedText(masked.edits)}`;
};

/** @type {(changes: number) => string} changes by hand to objects, other than their levels */
const changedText = (changes) => changes ? ` The objects were changed by hand (${changes === 1 ? "1 change" : `${changes} changes`}).` : "";

/**
 * What the second view on show hides, as a phrase: "the kite and the background of 2 frames"; "" where it hides nothing.
 *
 * @type {(trace: Trace) => string}
 */
export const thingsText = ({ tracks, groups, times, final }) => {
  const levels = final?.level ?? [], hidden = tracks.filter((_, k) => levels[k] > 0);
  const frames = (final?.frame_level ?? []).reduce((count, level, g) => count + (level > 0 ? groups[g].length : 0), 0);
  const kinds = [
    { some: tracks.filter((_, k) => levels[k] > 0 && levels[k] < 1), told: " (partly)" },
    { some: tracks.filter((_, k) => levels[k] >= 1), told: "" },
  ];
  /** @type {(one: Track) => boolean} no other is called so, and the name is that of a thing */
  const unique = ({ label }) => !CELL.test(label) && tracks.filter((one) => one.label === label).length === 1;
  const names = kinds.flatMap(({ some, told }) => [
    ...some.filter(unique).map(({ label }) => `the ${isolated(label)}`),
    ...numberedPhrases(some.filter((one) => !unique(one))),
  ].map((phrase) => `${phrase}${told}`));
  return maskedThings(names, hidden.length, frames, times.length === 1, tracks.length > 0);
};

/** @type {(logits: Logits) => string} how the second view moves logits */
export const logitsText = ({ method, partner, changes }) => {
  const parts = changes.map(({ text, lost }) => {
    if (!lost) return `“${visible(text)}” keeps its logit`;
    const size = Math.abs(lost), amount = size < 0.1 ? size.toPrecision(1).replace("-", "−") : size.toFixed(1);
    return `“${visible(text)}” ${lost > 0 ? "loses" : "gains"} ${amount} logits`;
  });
  const given = partner ? "With the partner clip in this one's place" : `Under ${method === "macd" ? "the mask" : "its second view"}`;
  return `${given} ${listed(parts)}.`;
};

/** @type {(open: Open) => string} how many tokens a contrast can change */
export const openText = ({ open, tokens, title, beta }) => {
  const lead = beta === null ? "" : `With β ${plainNumber(beta)}, `;
  const text = openTokens(open, tokens, title, lead ? "is" : "was", lead ? "are" : "were");
  return lead ? `${lead}${text.charAt(0).toLowerCase()}${text.slice(1)}` : text;
};

/** @type {(open: number, tokens: number, title: string, is: string, are: string) => string} */
const openTokens = (open, tokens, title, is, are) => {
  if (!open) return tokens === 1 ? `No contrast can change the one token of ${title}'s answer.` : `No contrast can change any of the ${tokens} tokens of ${title}'s answer.`;
  if (open === tokens) return tokens === 1 ? `The one token of ${title}'s answer ${is} open to contrast.` : `All ${tokens} tokens of ${title}'s answer ${are} open to contrast.`;
  return `${open} of the ${tokens} tokens of ${title}'s answer ${open === 1 ? is : are} open to contrast; no contrast can change the others.`;
};

/** @type {(right: boolean, truth: string) => string} */
export const verdictText = (right, truth) => right ? "right" : `wrong: the true answer is ${truth}`;

/** @type {(loss: Loss) => string} the query loss did not rise */
export const lossNote = ({ base, masked, byHand }) => {
  const losses = `(${base.toFixed(3)} without it, ${masked.toFixed(3)} with it)`;
  return byHand ? `This mask, which was set by hand in part, does not raise the query loss ${losses}.`
    : `This mask did not raise the query loss ${losses}, although the ascent climbs it.`;
};

/** @type {(words: string[]) => string} words: asked for that no track is called; at least one */
export const undetectedNote = (words) => {
  const names = listed(words.map((word) => `“${word}”`));
  return words.length === 1
    ? `No object is called ${names}: it was not detected, or is not there, so no mask can be chosen for it.`
    : `No objects are called ${names}: they were not detected, or are not there, so no masks can be chosen for them.`;
};

// ---- both answers

/** @type {(tokens: number) => string} an answer that reached the longest length */
export const cutText = (tokens) => `(cut at ${tokens === 1 ? "1 token" : `${tokens} tokens`})`;

/** @type {(said: Pick<Said, "text" | "cut">) => string} an answer, and whether it was cut */
export const saidText = ({ text, cut }) => cut === null ? text || "∅" : `${text || "∅"} ${cutText(cut)}`;

/** @type {(outcome: Outcome) => string} what stands before the contrast's answer, or before both where they are the same */
export const contrastName = ({ reference, contrast, same, at }) => {
  const title = same ? `${reference.title} and ${contrast.title}` : contrast.title;
  return at ? `${title} with ${ruleName(at)}` : title;
};

/** @type {(rule: Rule) => string} */
const ruleName = ({ alpha, beta }) => `α ${plainNumber(alpha)} and β ${plainNumber(beta)}`;

/** @type {(turn: Turn) => string} the contrast's answer where α and β in hand choose otherwise: only its beginning is known */
export const turnedAnswer = ({ index, text, ends, ended }) => {
  if (ends) return index ? `ends before token ${index + 1}` : "ends at once";
  const token = `“${visible(text)}”`;
  return ended ? `goes on with ${token} instead of ending; the rest is not decoded` : `chooses ${token} as token ${index + 1}; the rest is not decoded`;
};

const MOST_SAID = 90, BEFORE_DIFFERENCE = 30; // characters of an answer in the line of both, and of it before they differ

/**
 * Long answers, each from a little before the first character that differs.
 *
 * @type {(texts: string[]) => string[]}
 */
export const excerpts = (texts) => {
  if (texts.every((text) => text.length <= MOST_SAID)) return texts;
  let parts = 0;
  while (parts < texts[0].length && texts.every((text) => text[parts] === texts[0][parts])) parts += 1;
  const far = parts > MOST_SAID - BEFORE_DIFFERENCE && texts.some((text) => text.length > parts);
  const start = far ? texts[0].lastIndexOf(" ", parts - BEFORE_DIFFERENCE) + 1 : 0;
  return texts.map((text) => {
    const rest = text.slice(start);
    const end = rest.length <= MOST_SAID ? rest.length : Math.max(rest.lastIndexOf(" ", MOST_SAID), BEFORE_DIFFERENCE);
    return `${start ? "… " : ""}${rest.slice(0, end)}${end < rest.length ? " …" : ""}`;
  });
};

/** @type {(outcome: Outcome) => Piece[]} both answers in one line, in the order in which they are read */
export const outcomePieces = (outcome) => {
  const { reference, contrast, same, turn } = outcome;
  const [one, other] = excerpts(same || turn ? [reference.text] : [reference.text, contrast.text]);
  const whole = saidText({ ...reference, text: one });
  /** @type {Piece[]} */
  const lead = same ? [] : [{ kind: "name", text: `${reference.title}: `, said: null }, { kind: "answer", text: whole, said: reference }, { kind: "arrow", text: " → ", said: null }];
  return [...lead, { kind: "name", text: turn ? `${contrastName(outcome)} ` : `${contrastName(outcome)}: `, said: null },
    { kind: "answer", text: turn ? turnedAnswer(turn) : saidText({ ...contrast, text: other ?? one }), said: turn ? null : contrast }];
};

/** @type {(rule: Rule) => string} what was measured with other α and β than those in hand; rule: with which */
export const measuredWith = (rule) => `Measured with ${ruleName(rule)}, not with the values in hand.`;

/**
 * Where two answers differ. at: the first token that differs; -1: none; ending: the title of the answer
 * that ends there; empty: none does; constant: whether a constant would do the same, as a sentence.
 *
 * @type {(at: number, ending: string, constant: string) => string}
 */
export const divergenceText = (at, ending, constant) => {
  if (at < 0) return "Both ways of decoding give the same answer.";
  const text = ending ? `The answers diverge at token ${at + 1}: there ${ending} ends.` : `The answers diverge at token ${at + 1}.`;
  return `${text} ${constant}`.trim();
};

/** @type {(at: number, title: string) => string} one answer is the beginning of the other. at: tokens that it has; title: its own */
export const beginningText = (at, title) => {
  if (!at) return `${title} has no tokens.`;
  return at === 1 ? `The answers agree in token 1, and ${title} stops there.` : `The answers agree up to token ${at}, and ${title} stops there.`;
};

/**
 * What moved α and β change.
 *
 * @type {(turn: Turn) => string}
 */
export const turnText = ({ index, ends, ended, text }) => {
  if (ends) return `With these, the answer ends before token ${index + 1}; the path diverges there.`;
  if (ended) return `With these, the answer goes on with ${visible(text)} instead of ending; the path diverges there.`;
  return `With these, token ${index + 1} becomes ${visible(text)}; the path diverges there.`;
};

/**
 * Whether and where both answers differ, with α and β in hand; empty while they are not both there.
 *
 * @type {(shown: Shown, turn: Turn | null) => string}
 */
export const differenceText = ({ reference, contrast, running }, turn) => {
  const answers = [reference, contrast].filter((answer) => answer !== undefined);
  const whole = answers.length === 2 && answers[1].finished;
  if (running && !whole) return answers.length ? TEXT.decoding : "";
  if (!reference || !contrast) return "";
  if (turn) return turnText(turn);
  const at = divergence(reference, contrast);
  const stopped = answers.find((answer) => at === answer.tokens.length);
  if (stopped) return beginningText(at, stopped.title);
  return divergenceText(at, answers.find((answer) => at === endOf(answer))?.title ?? "", contrast.constant ?? "");
};

/**
 * All that is said of a run with α and β in hand. without: what the model says given the second view alone,
 * with the words before it; meaning: what both answers come to; mechanism: what the second view hides, and
 * which logits move with it; outcome: null until both answers are there; measured: what must be known of
 * everything that was measured with other values.
 *
 * @type {(trace: Trace, shown: Shown, rules: Constants["verdict"]) => { without: [string, string] | null, meaning: string, mechanism: string, outcome: Outcome | null, difference: string, measured: string }}
 */
export const sentencesOf = (trace, shown, rules) => {
  const { contrast } = shown, turn = turnOf(trace, shown), outcome = outcomeOf(trace, shown, turn), masked = maskedOf(trace, contrast);
  const parts = [masked ? maskedText(trace, masked) : ""];
  if (outcome) {
    const logits = !masked || hidesAny(masked) ? logitsOf(shown, turn) : null, open = openOf(shown, turn);
    parts.push(logits ? logitsText(logits) : "", open ? openText(open) : "");
  }
  const own = contrast !== undefined && contrast === maskedAnswer(trace), moved = own && isMoved(shown);
  const things = masked ? thingsText(trace) : "", alone = outcome ? aloneOf(trace, contrast) : null;
  const partner = partnerOf(contrast), whole = alone?.whole ?? true, given = contrast ? givenAlone(contrast.title, whole) : "";
  const lead = partner !== null ? aboutPartner(isolated(partner), whole) : masked ? things && withoutText(things, whole) : given;
  const right = outcome?.contrast.right ?? null, before = outcome?.reference.right ?? null;
  const same = Boolean(outcome?.same), keeps = alone && same ? alone.same : null;
  return {
    without: alone && lead ? [lead, alone.text || "∅"] : null,
    meaning: outcome && !turn && masked ? meaningText(outcome.contrast.title, same, things, keeps, own ? verdictOf(trace, rules) : null, right, right !== before && before !== null && right !== null) : "",
    mechanism: parts.filter(Boolean).join(" "), outcome,
    difference: differenceText(shown, turn), measured: moved ? measuredWith(/** @type {Answer} */ (contrast)) : "",
  };
};

// ---- controls

/** @type {(report: ControlReport) => string} what the comparison with controls found; the same for the screen and for a screen reader */
export const controlText = ({ index, outcomes, macd, constant }) => {
  const random = outcomes.filter(({ name }) => name === "random");
  const same = random.filter((outcome) => outcome.same).length;
  const [like, unlike] = [true, false].map((agrees) => namesOf(outcomes, agrees));
  if (index === null) {
    return ["MACD's masks do not change the answer.", randomChanges(random.length - same, random.length),
      namesChange(unlike), namesDoNotChange(like)].filter(Boolean).join(" ");
  }
  const token = `“${visible(macd)}”`;
  return [randomChoices(same, random.length, token), namesChoose(like, token), namesDoNotChoose(unlike, token),
    `Without any mask, adding ${signed(constant)} to the logit of ${token} is enough.`].filter(Boolean).join(" ");
};

/**
 * Random masks where MACD's masks change the answer; none were drawn: no sentence. same: those that
 * choose as MACD does; token: MACD's choice.
 *
 * @type {(same: number, drawn: number, token: string) => string}
 */
const randomChoices = (same, drawn, token) => {
  if (!drawn) return "";
  if (drawn === 1 && same) return `One random mask of the same area was drawn, and it chooses ${token}.`;
  if (drawn === 1) return `One random mask of the same area was drawn, and it does not choose ${token}.`;
  if (same === drawn) return `All ${drawn} random masks of the same area choose ${token}, as MACD does.`;
  if (same === 0) return `None of the ${drawn} random masks of the same area chooses ${token}.`;
  if (same === 1) return `1 of the ${drawn} random masks of the same area chooses ${token}, as MACD does.`;
  return `${same} of the ${drawn} random masks of the same area choose ${token}, as MACD does.`;
};

/** @type {(changed: number, drawn: number) => string} random masks where MACD's masks change nothing */
const randomChanges = (changed, drawn) => {
  if (!drawn) return "";
  if (drawn === 1 && changed) return "One random mask of the same area was drawn, and it changes it.";
  if (drawn === 1) return "One random mask of the same area was drawn, and it does not change it.";
  if (changed === drawn) return `All ${drawn} random masks of the same area change it.`;
  if (changed === 0) return `None of the ${drawn} random masks of the same area changes it.`;
  if (changed === 1) return `1 of the ${drawn} random masks of the same area changes it.`;
  return `${changed} of the ${drawn} random masks of the same area change it.`;
};

/** @type {(names: string[], token: string) => string} */
const namesChoose = (names, token) => {
  if (!names.length) return "";
  const who = capitalized(listed(names));
  return names.length === 1 ? `${who} chooses ${token}, as MACD does.` : `${who} choose ${token}, as MACD does.`;
};

/** @type {(names: string[], token: string) => string} */
const namesDoNotChoose = (names, token) => {
  if (!names.length) return "";
  const who = capitalized(listed(names));
  return names.length === 1 ? `${who} does not choose ${token}.` : `${who} do not choose ${token}.`;
};

/** @type {(names: string[]) => string} */
const namesChange = (names) => {
  if (!names.length) return "";
  return names.length === 1 ? `${capitalized(names[0])} changes it.` : `${capitalized(listed(names))} change it.`;
};

/** @type {(names: string[]) => string} */
const namesDoNotChange = (names) => {
  if (!names.length) return "";
  return names.length === 1 ? `${capitalized(names[0])} does not change it.` : `${capitalized(listed(names))} do not change it.`;
};

/** @type {(outcomes: ControlOutcome[], same: boolean) => string[]} the controls other than random masks that agree with MACD, or that do not */
const namesOf = (outcomes, same) =>
  outcomes.filter((one) => one.name !== "random" && one.same === same).map((one) => CONTROL_NAMES[one.name]);
