// @ts-check
// Changes by hand, and the model that computes in the page.

import { isolated, signed, visible } from "../text.js";
import { TEXT } from "./labels.js";
import { frameNumbers, isPicture, trackName } from "./parts.js";

/** @import { Edit, Trace } from "../types" */

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
  const agreement = n === 1 ? "for the one object the loss does not move the way its gradient says"
    : `for ${agree} of ${n} objects the loss moves the way their gradient says`;
  const chosen = change.filter((_, k) => level[k] >= 1);
  if (!chosen.length) return `nothing was hidden; ${agreement}`;
  if (chosen.every((z) => z > 0)) return `supported for what was hidden: the loss rises without it; ${agreement}`;
  return agree * 2 > n ? `partly supported: ${agreement}` : `not supported: ${agreement}`;
};

/** @type {(title: string) => string} title: of the answer that is the contrast */
export const editsOfMacd = (title) => `Changes by hand are made to MACD's mask, not to ${title}: choose MACD as the contrast.`;
