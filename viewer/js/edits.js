// @ts-check
// Changes by hand made to the tracks of a trace, as core/whatif/edits.py makes them. Pure functions, no DOM.

import { notSeenOn } from "./strings/edits.js";

/** @import { Constants, Edit, Point, Trace, Track } from "./types" */

const LEAST_SIDE = 1e-4; // of a box that a stroke is measured by

/** Something that cannot be done with this trace; the message says why. */
export class Refused extends Error {}

/**
 * The tracks after one change by hand: core/whatif/edits.py edited_tracks.
 * @param {Trace} trace @param {Edit} edit @param {Constants} constants @returns {Track[]}
 */
export function editedTracks(trace, edit, { states, colours }) {
  const { tracks } = trace, seen = states.indexOf("seen");
  /** @type {(track: Track) => Track} */
  const changed = (track) => {
    if (track.id !== edit.track) return track;
    if (edit.kind === "label") return { ...track, label: edit.label ?? "" };
    if (edit.kind === "brush") return brushedTrack(track, edit);
    const other = tracks.find((t) => t.id === edit.other);
    return edit.kind === "merge" && other ? mergedTrack(track, other) : track;
  };
  const gone = edit.kind === "drop" ? edit.track : edit.kind === "merge" ? edit.other : null;
  const left = tracks.filter((track) => track.id !== gone).map(changed);
  if (edit.kind === "add" && edit.box) {
    const { box } = edit, used = trace.edits.filter((e) => e.kind !== "frames").flatMap((e) => [e.track ?? 0, e.other ?? 0]);
    const id = 1 + Math.max(0, ...tracks.map((t) => t.id), ...used);
    left.push({ id, label: edit.label ?? "drawn", confidence: 1, boxes: trace.times.map(() => box), state: trace.times.map(() => seen), frames_seen: 0, brush: [], outlines: [], colour: "" });
  }
  return left.map((track, k) => ({ ...track, colour: colours[k % colours.length] }));
}

/** @param {Track} track @param {Edit} edit @returns {Track} */
function brushedTrack(track, { frame = 0, points = [], radius = 0, erase = false }) {
  const box = track.boxes[frame];
  if (!box) throw new Refused(notSeenOn(track.label, frame));
  const [width, height] = [box[2] - box[0], box[3] - box[1]].map((side) => Math.max(side, LEAST_SIDE));
  /** @type {Point[]} */
  const within = points.map(([x, y]) => [(x - box[0]) / width, (y - box[1]) / height]);
  return { ...track, brush: [...track.brush, { points: within, radius, erase }] };
}

/** One track with the box around both. @param {Track} a @param {Track} b @returns {Track} */
function mergedTrack(a, b) {
  return {
    ...a, confidence: Math.max(a.confidence, b.confidence), frames_seen: Math.max(a.frames_seen, b.frames_seen), outlines: [],
    state: a.state.map((s, i) => Math.max(s, b.state[i])),
    boxes: a.boxes.map((box, i) => {
      const other = b.boxes[i];
      if (!box || !other) return box ?? other;
      return [Math.min(box[0], other[0]), Math.min(box[1], other[1]), Math.max(box[2], other[2]), Math.max(box[3], other[3])];
    }),
  };
}

/** The levels that were set by hand: of objects by id, of frame groups by index. @param {Trace} trace */
export function levelsByHand(trace) {
  const objects = new Map(), frames = new Map();
  for (const { kind, track, level } of trace.edits) {
    if (kind === "level") objects.set(track, level);
    if (kind === "frames") frames.set(track, level);
  }
  return { objects, frames };
}
