// @ts-check
// The viewer of the Debug page inside a lesson, and what a reader can be asked to do in it.

import { all, el } from "../../../viewer/js/dom.js";
import { Viewer } from "../../../viewer/js/viewer.js";

/** @import { Place, PartData } from "./types" */
/** @import { State } from "../../../viewer/js/state.js" */

/** Goal → whether it is reached, from what is shown now and the frames that were. @type {Record<string, (state: State, seen: Set<number>) => boolean>} */
const GOALS = {
  frames: (state, seen) => seen.size >= state.loaded.times.length,
  object: (state) => state.track !== null,
  counterfactual: (state) => state.layers.counter,
  token: (state) => state.picked,
};

/** @type {Map<string, Viewer>} one for each role, because a viewer cannot be removed */
const viewers = new Map();

/** @param {Place} place */
export function live(place) {
  const { root, step, course, say } = place;
  const { payload } = /** @type {PartData} */ (place.data[`part-${step.view}`]);
  const seen = new Set([0]);
  const host = el("div", { class: `ln-live ln-light-${step.light || "none"}` });
  root.append(host);
  const viewer = viewers.get(step.view) || new Viewer(host, { base: document.baseURI });
  viewers.set(step.view, viewer);
  viewer.attach(host);
  viewer.host.onDraw = null;
  viewer.update(payload);
  const layers = { ...viewer.state.layers, soft: false, levels: false, counter: false, model: false };
  for (const name of step.show) layers[/** @type {keyof typeof layers} */ (name)] = true;
  viewer.state.set({ layers, both: false, frame: 0, track: null, picked: false, playing: false });
  viewer.host.onDraw = () => {
    if (!host.isConnected) return;
    seen.add(viewer.state.frame);
    if (step.done && GOALS[step.done](viewer.state, seen)) place.done();
  };
  for (const spot of all(viewer.root, ".mv-spot")) spot.classList.remove("mv-spot");
  if (step.light) for (const spot of all(viewer.root, course.lights[step.light])) spot.classList.add("mv-spot");
  const { debug, question } = course.parts[step.view];
  // a chapter may hold two viewers, whose regions must be told apart
  for (const part of [viewer.root, ...all(viewer.root, "section[aria-label]")]) {
    part.setAttribute("aria-label", `${part.getAttribute("aria-label")?.split(":")[0]}: ${question}`);
  }
  if (debug) root.append(el("p", { class: "ln-out" }, el("a", { href: debug }, say("debug"))));
}
