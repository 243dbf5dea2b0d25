// @ts-check
// Small plots with axes and ticks, as SVG of the page: they take its colours, dark and light.

/** @typedef {{ name: string, values: number[], dashed?: boolean }} Line */

/**
 * An element of SVG.
 *
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/**
 * Lines over 1 … n, from 0 to 1.
 *
 * @param {{ lines: Line[], across: string, down: string }} numbers
 */
export function linePlot({ lines, across, down }) {
  const [width, height, left, top] = [300, 120, 40, 8];
  const n = Math.max(...lines.map((l) => l.values.length));
  /** @type {(i: number) => number} */
  const x = (i) => left + (n > 1 ? (i / (n - 1)) * width : width / 2);
  /** @type {(v: number) => number} */
  const y = (v) => top + (1 - v) * height;
  const values = lines.map((l) => `${l.name} ${l.values.map((v) => v.toFixed(3)).join(" ")}`).join("; ");
  const root = svg("svg", {
    class: "mv-plot", viewBox: `0 0 ${left + width + 60} ${top + height + 36}`, role: "img",
    "aria-label": `${down} ${across}: ${values}`,
  });
  for (const v of [0, 0.5, 1]) {
    root.append(svg("line", { class: "mv-plot-grid", x1: left, x2: left + width, y1: y(v), y2: y(v) }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, String(v)));
  }
  const every = Math.ceil(n / 8);
  for (let i = 0; i < n; i += every) {
    root.append(svg("line", { class: "mv-plot-tick", x1: x(i), x2: x(i), y1: y(0), y2: y(0) + 4 }),
      svg("text", { x: x(i), y: y(0) + 16, "text-anchor": "middle" }, String(i + 1)));
  }
  root.append(svg("text", { x: left + width / 2, y: top + height + 32, "text-anchor": "middle" }, `${across} · ${down}`));
  lines.forEach(({ name, values, dashed }, k) => {
    const points = values.map((v, i) => `${x(i).toFixed(1)},${y(Math.min(1, Math.max(0, v))).toFixed(1)}`).join(" ");
    root.append(svg("polyline", {
      class: `mv-plot-line${k ? " mv-plot-other" : ""}`, points, "stroke-dasharray": dashed ? "5 4" : "none",
    }), svg("text", { class: k ? "mv-plot-other" : "", x: left + width + 6, y: top + 12 + 16 * k }, `${dashed ? "┄" : "─"} ${name}`));
  });
  return root;
}
