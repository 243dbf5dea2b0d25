// @ts-check
// Bars as elements, and plots of the course's size. Each says in words what it shows.

import { el } from "../../../viewer/js/dom.js";
import { plot } from "../../../viewer/js/plots.js";

/** @import { Frame, Scales } from "../../../viewer/js/plots.js" */

/** Whether plots must be drawn for a phone, so that their text stays large enough. */
export function narrow() {
  return document.documentElement.clientWidth < 600;
}

/** @param {number} p */
export function percent(p) {
  if (p > 0 && p < 0.005) return "<1 %";
  return p < 1 && p >= 0.995 ? ">99 %" : `${Math.round(100 * p)} %`;
}

/** @param {number} x */
export function signed(x, digits = 2) {
  return `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
}

/**
 * Horizontal bars of shares in [0, 1].
 *
 * @param {{ name: string, value: number, kind: string, note?: string, top?: boolean }[]} rows
 * @param {string} label
 */
export function bars(rows, label) {
  const words = rows.map((r) => `${r.name}: ${percent(r.value)}`).join(", ");
  return el("div", { class: "ln-bars", role: "img", "aria-label": `${label}. ${words}` },
    rows.map((r) => el("div", { class: `ln-bar-row${r.top ? " ln-top" : ""}` },
      el("span", { class: "ln-bar-name" }, r.name, r.note ? el("small", {}, ` ${r.note}`) : null),
      el("span", { class: "ln-bar" },
        el("span", { class: `ln-fill ln-${r.kind}`, style: { width: `${100 * r.value}%` } })),
      el("span", { class: "ln-bar-value" }, percent(r.value)))));
}

/**
 * A bar from the middle for values of either sign.
 *
 * @param {number} value
 * @param {number} most
 * @param {string} kind
 */
export function diverging(value, most, kind) {
  const part = `${most ? 50 * Math.min(1, Math.abs(value) / most) : 0}%`;
  return el("span", { class: "ln-bar ln-middle", "aria-hidden": "true" },
    el("span", { class: `ln-fill ln-${kind}`, style: { width: part, left: value < 0 ? `calc(50% - ${part})` : "50%" } }));
}

/**
 * A plot of the course's size: both ends of the axes are named.
 *
 * @param {Pick<Frame, "label" | "x" | "y" | "ticks" | "names">} frame
 * @param {(scales: Scales) => Node[]} draw
 */
export function chart(frame, draw) {
  const size = /** @type {[number, number]} */ (narrow() ? [370, 240] : [520, 260]);
  return plot({ ...frame, size, margins: [12, 26, 40, narrow() ? 62 : 66], attributes: { class: "mv-plot ln-plot" } }, draw);
}

/**
 * The part of a straight line that lies within limits of y, with its slope; [] where none does.
 *
 * @param {[[number, number], [number, number]]} ends values of x and y
 * @param {[number, number]} limits
 * @returns {[number, number][]}
 */
export function clipped([[x0, y0], [x1, y1]], [low, high]) {
  if (Math.max(y0, y1) < low || Math.min(y0, y1) > high) return [];
  const at = (/** @type {number} */ y) => {
    const limit = Math.max(low, Math.min(high, y));
    return limit === y ? null : x0 + ((limit - y0) / (y1 - y0)) * (x1 - x0);
  };
  const [from, to] = [at(y0), at(y1)];
  return [from === null ? [x0, y0] : [from, Math.max(low, Math.min(high, y0))],
    to === null ? [x1, y1] : [to, Math.max(low, Math.min(high, y1))]];
}
