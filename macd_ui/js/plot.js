// @ts-check
// The strength plot next to the viewer: highlights the canvas's object, and can be hidden.

import { all, contextOf, el, saveFile, savePicture } from "../../viewer/js/dom.js";

/** @import { Viewer } from "../../viewer/js/viewer.js" */
/** @typedef {HTMLElement & { on?: Function, data?: unknown, layout?: unknown, mvLinked?: boolean }} Plot */

/** @returns {Plot | null} */
function thePlot() {
  return document.querySelector("#strengths-plot .js-plotly-plot");
}

/**
 * Dims every line but the chosen object's; lines are in the order of the tracks.
 *
 * @param {Viewer} viewer
 * @param {number | null} chosen
 * @param {number} objects
 */
export function lightPlot(viewer, chosen, objects) {
  const plot = thePlot();
  if (!plot || !plot.on) return;
  linkPlot(plot, viewer);
  all(plot, ".scatterlayer .trace").forEach((line, i) => {
    const object = i < objects;
    line.style.opacity = chosen === null || !object || i === chosen ? "1" : "0.2";
  });
}

/**
 * @param {Plot} plot
 * @param {Viewer} viewer
 */
function linkPlot(plot, viewer) {
  if (plot.mvLinked || !plot.on) return;
  plot.mvLinked = true;
  /** @type {(event: { points: { curveNumber: number }[] }) => void} */
  const hovered = (event) => viewer.point(event.points[0].curveNumber);
  plot.on("plotly_hover", hovered);
  plot.on("plotly_unhover", () => viewer.point(null));
}

/**
 * Every layer of the plot as one SVG text.
 *
 * @param {Plot} plot
 */
function plotSvg(plot) {
  const layers = [...plot.querySelectorAll("svg.main-svg")];
  const whole = /** @type {Element} */ (layers[0].cloneNode(true));
  whole.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const layer of layers.slice(1)) {
    for (const part of layer.childNodes) whole.append(part.cloneNode(true));
  }
  return new XMLSerializer().serializeToString(whole);
}

/** @param {"svg" | "png" | "json"} kind */
export function savePlot(kind) {
  const plot = thePlot();
  if (!plot) return;
  if (kind === "json") {
    const { data, layout } = plot;
    saveFile("strengths.json", new Blob([JSON.stringify({ data, layout })], { type: "application/json" }));
    return;
  }
  const svg = new Blob([plotSvg(plot)], { type: "image/svg+xml" });
  if (kind === "svg") {
    saveFile("strengths.svg", svg);
    return;
  }
  const picture = new Image();
  picture.onload = () => {
    const canvas = el("canvas", { width: 2 * picture.width, height: 2 * picture.height });
    const context = contextOf(canvas);
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    savePicture(canvas, "strengths.png");
  };
  picture.src = URL.createObjectURL(svg);
}
