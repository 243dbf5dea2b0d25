// @ts-check
// Small plots: bars as elements, curves as SVG. Each says in words what it shows.

import { el } from "../../../viewer/js/dom.js";

const NS = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

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
 * Axes of a plot with `lines` over them. Values run over x and y; both ends are labelled.
 *
 * @param {{ x: [number, number], y: [number, number], label: string, xName: string, yName: string,
 *   ticks: { x: [number, string][], y: [number, string][] } }} frame
 * @param {(place: { x: (v: number) => number, y: (v: number) => number }) => Node[]} draw
 */
export function plot(frame, draw) {
  const [width, height, left, bottom, top, right] = narrow() ? [370, 240, 62, 40, 12, 26] : [520, 260, 66, 40, 12, 26];
  const x = (/** @type {number} */ v) => left + ((v - frame.x[0]) / (frame.x[1] - frame.x[0])) * (width - left - right);
  const y = (/** @type {number} */ v) => height - bottom - ((v - frame.y[0]) / (frame.y[1] - frame.y[0])) * (height - bottom - top);
  const ticks = [
    ...frame.ticks.x.map(([v, text]) => svg("text", { x: x(v), y: height - bottom + 18, "text-anchor": "middle" }, text)),
    ...frame.ticks.y.map(([v, text]) => svg("g", {},
      svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "ln-grid" }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, text))),
  ];
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "ln-plot", role: "img", "aria-label": frame.label },
    ...ticks,
    svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", class: "ln-axis" }, frame.xName),
    svg("text", { x: 0, y: 0, transform: `translate(11 ${(height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "ln-axis" }, frame.yName),
    ...draw({ x, y }));
}

/**
 * @param {[number, number][]} points
 * @param {{ x: (v: number) => number, y: (v: number) => number }} place
 */
export function path(points, place) {
  return points.map(([a, b], i) => `${i ? "L" : "M"}${place.x(a).toFixed(1)} ${place.y(b).toFixed(1)}`).join("");
}
