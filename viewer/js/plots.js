// @ts-check
// Plots as SVG: scales, axes with ticks, lines. They take the page's colours, dark and light.

/** @typedef {{ x: (v: number) => number, y: (v: number) => number }} Scales from values to places in the plot */
/** @typedef {[number, string, string?]} Tick value, text, and which part of the text stands there: its middle, or "start" or "end" */
/**
 * @typedef {object} Frame what surrounds a plot
 * @property {string} label for a screen reader; empty: none
 * @property {[number, number]} size width and height of the whole
 * @property {[number, number, number, number]} margins top, right, bottom, left: for ticks and names
 * @property {[number, number]} x values at the left and the right end
 * @property {[number, number]} y values at the bottom and the top
 * @property {{ x?: Tick[], y?: [number, string][] }} [ticks] values and their text
 * @property {boolean} [grid] whether lines across the plot, rather than marks, show the ticks of y
 * @property {{ x?: string, y?: string }} [names] of the axes
 * @property {Record<string, string | number>} [attributes] of the root
 */

/**
 * An element of SVG.
 *
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

/** @param {Element} node @param {Record<string, string | number>} attributes */
export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
}

/**
 * Scales that fill the frame between its margins; a range without width is drawn at its lower end.
 * @param {Frame} frame @returns {Scales}
 */
export function scalesOf({ size: [width, height], margins: [top, right, bottom, left], x, y }) {
  /** @type {(range: [number, number], from: number, to: number) => (v: number) => number} */
  const scale = ([low, high], from, to) => (v) => from + ((v - low) / (high - low || 1)) * (to - from);
  return { x: scale(x, left, width - right), y: scale(y, height - bottom, top) };
}

/**
 * Axes, and over them what `draw` returns.
 * @param {Frame} frame @param {(scales: Scales) => (Node | string)[]} draw
 */
export function plot(frame, draw) {
  const { size: [width, height], margins: [top, right, bottom, left], ticks = {}, names = {}, grid = true } = frame;
  const scales = scalesOf(frame), floor = height - bottom;
  const root = svg("svg", {
    class: "mv-plot", viewBox: `0 0 ${width} ${height}`, role: "img", ...(frame.label ? { "aria-label": frame.label } : {}), ...frame.attributes,
  });
  for (const [v, text] of ticks.y ?? []) {
    root.append(svg("line", { class: "mv-plot-grid", stroke: "currentColor", x1: grid ? left : left - 4, x2: grid ? width - right : left, y1: scales.y(v), y2: scales.y(v) }),
      svg("text", { x: left - 6, y: scales.y(v) + 4, "text-anchor": "end" }, text));
  }
  for (const [v, text, anchor = "middle"] of ticks.x ?? []) {
    root.append(svg("line", { class: "mv-plot-grid", stroke: "currentColor", x1: scales.x(v), x2: scales.x(v), y1: floor, y2: floor + 4 }),
      svg("text", { x: scales.x(v), y: floor + 16, "text-anchor": anchor }, text));
  }
  const [across, down] = [(left + width - right) / 2, (top + floor) / 2];
  if (names.x) root.append(svg("text", { class: "mv-plot-name", x: across, y: floor + 32, "text-anchor": "middle" }, names.x));
  if (names.y) root.append(svg("text", { class: "mv-plot-name", transform: `translate(11 ${down}) rotate(-90)`, "text-anchor": "middle" }, names.y));
  root.append(...draw(scales));
  return root;
}

/**
 * A line through values; what lies beyond a limit is drawn at it.
 * @param {[number, number][]} values of x and y @param {Scales} scales
 * @param {Record<string, string | number>} attributes @param {[number, number]} limits of y
 */
export function polyline(values, scales, attributes, [low, high] = [-Infinity, Infinity]) {
  const points = values.map(([a, b]) => `${scales.x(a).toFixed(1)},${scales.y(Math.max(low, Math.min(high, b))).toFixed(1)}`);
  return svg("polyline", { points: points.join(" "), fill: "none", ...attributes });
}

/** @type {CanvasRenderingContext2D | null | undefined} */
let ruler;

/**
 * Pixels that a text takes in a plot.
 * @param {string} text @param {Element} place of the plot, whose font counts @param {number} [weight] of the font
 */
export function textWidth(text, place, weight = 400) {
  ruler ??= document.createElement("canvas").getContext("2d");
  if (!ruler) return 8 * text.length;
  const style = getComputedStyle(place);
  ruler.font = `${weight} ${style.getPropertyValue("--type-xs") || "12px"} ${style.getPropertyValue("--face") || "sans-serif"}`;
  return ruler.measureText(text).width;
}

/**
 * Round values within a range, 0 among them where it lies in it.
 * @param {number} low @param {number} high @param {number} most how many there may be, or a few
 * more where they would be fewer than three @returns {number[]}
 */
export function ticksOf(low, high, most) {
  const rough = (high - low) / Math.max(1, most) || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((m) => m * unit >= rough * 0.999) ?? 10);
  /** @type {number[]} */
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) ticks.push(n * step || 0);
  return ticks.length < 3 && most < 12 && high > low ? ticksOf(low, high, most + 1) : ticks;
}

/** How many digits after the point tell values apart. @param {number[]} ticks */
export function decimals(ticks) {
  const sizes = ticks.slice(1).map((v, i) => Math.abs(v - ticks[i])).filter(Boolean);
  const least = sizes.length ? Math.min(...sizes) : Math.abs(ticks[0] ?? 1) || 1;
  return Math.max(0, Math.min(7, Math.ceil(-Math.log10(least) - 1e-9)));
}
