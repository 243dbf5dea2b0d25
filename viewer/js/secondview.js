// @ts-check
// A second view as the model read it: its pixels, the frames it leaves out, the vision tokens it hides.

import { percent, unpackBits } from "./text.js";

/** @import { Answer, ShownView, Trace, View } from "./types" */

/**
 * Whether something of a second view can be drawn: stored pixels, or what it hides of the first's.
 *
 * @param {ShownView} named
 */
export function isDrawable({ view, shown }) {
  return Boolean(shown) || view.kind === "frames" || view.kind === "pruned";
}

/**
 * Draws one frame of a second view over the whole canvas, which has the shape of the model's frames.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {{ answer: Answer, view: View, shown: ShownView["shown"] }} named
 * @param {Trace} trace
 * @param {number} frame
 * @param {CanvasImageSource | null} picture null while it loads
 * @param {number} token whose hidden vision tokens are darkened
 * @returns {string} what is seen, in words
 */
export function drawSecondView(context, { answer, view, shown }, trace, frame, picture, token) {
  const { canvas } = context;
  if (picture) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  /** @type {Record<string, string>} */
  const notes = {
    masks: "the frames behind the masks, as the model read them",
    blank: "a video without content",
    "no-video": "the question alone, without a video",
    noise: "the noise that the model read, cut off at black and white",
    frames: `sees only frames ${(view.frames || []).map((f) => f + 1).join(", ")}`,
    pruned: `all pixels, but from decoder layer ${view.layer} on only ${percent(view.ratio || 0)} of the vision tokens`,
  };
  const note = notes[view.kind] || (view.kind === "none" ? "" : view.caption || "");
  if (view.frames && !view.frames.includes(frame)) {
    context.fillStyle = "#808080";
    context.fillRect(0, 0, canvas.width, canvas.height);
    return `frame ${frame + 1} is left out · ${note}`;
  }
  if (view.kind === "pruned") {
    const at = Math.max(0, Math.min(token, answer.tokens.length - 1));
    darkenHidden(context, answer, trace, frame, at);
    return `token ${at + 1}: ${note}`;
  }
  return isDrawable({ view, shown }) || view.kind === "no-video" ? note : `${note} (its pixels are not stored in this trace)`;
}

/**
 * Darkens the vision tokens that the second view did not see when it chose a token.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Answer} answer
 * @param {Trace} trace
 * @param {number} frame
 * @param {number} token
 */
function darkenHidden(context, answer, trace, frame, token) {
  const step = answer.tokens[token];
  if (!step || !step.hidden || !answer.view.grid) return;
  const [patches, rows, columns] = answer.view.grid;
  const hidden = unpackBits(step.hidden, patches * rows * columns);
  const patch = trace.groups.findIndex((g) => g.includes(frame));
  const { width, height } = context.canvas;
  const [across, down] = [width / columns, height / rows];
  context.fillStyle = "rgba(17, 17, 17, .8)";
  for (let i = 0; i < rows * columns; i++) {
    if (hidden[patch * rows * columns + i]) {
      context.fillRect((i % columns) * across, Math.floor(i / columns) * down, across, down);
    }
  }
}
