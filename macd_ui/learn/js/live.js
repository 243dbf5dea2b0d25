// @ts-check
// The viewer of the Debug page inside a lesson, and what a reader can be asked to do in it.

import { all, el } from "../../../viewer/js/dom.js";
import { engineFor } from "../../../viewer/js/engine.js";
import { unfold } from "../../../viewer/js/folds.js";
import { Viewer } from "../../../viewer/js/viewer.js";

/** @import { Place, PartData } from "./types" */
/** @import { Action, Answer, Host, Payload } from "../../../viewer/js/types" */
/** @import { State } from "../../../viewer/js/state.js" */

/** Goal → whether it is reached, from what is shown now and the frames that were. @type {Record<string, (state: State, seen: Set<number>) => boolean>} */
const GOALS = {
  frames: (state, seen) => seen.size >= state.loaded.times.length,
  object: (state) => state.track !== null,
  counterfactual: (state) => state.layers.counter,
  token: (state) => state.picked,
  guessed: (state) => state.loaded.edits.length > 0, // no change is computed before its outcome was predicted
};

/** @type {Map<string, GuessingViewer>} one for each role, because a viewer cannot be removed */
const viewers = new Map();

/** @param {Place} place */
export function live(place) {
  const { root, step, course, say } = place;
  const { payload } = /** @type {PartData} */ (place.data[`part-${step.view}`]);
  const seen = new Set([0]);
  const host = el("div", { class: `ln-live ln-light-${step.light || "none"}` });
  root.append(host);
  const viewer = viewers.get(step.view) || made(host, payload);
  viewers.set(step.view, viewer);
  viewer.attach(host);
  viewer.host.restart?.();
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
  const able = viewer.state.can("edit");
  host.classList.toggle("ln-try", able || step.done === "guessed");
  if (able) askFirst(place, viewer, host);
  if (step.done === "guessed") {
    if (!able) place.skip();
    const whatIf = viewer.root.querySelector(".mv-whatif");
    if (whatIf instanceof HTMLDetailsElement) whatIf.open = true;
  }
  for (const spot of all(viewer.root, ".mv-spot")) spot.classList.remove("mv-spot");
  if (step.light) for (const spot of all(viewer.root, course.lights[step.light])) {
    spot.classList.add("mv-spot");
    unfold(spot, false); // the text speaks of what is seen there
  }
  const { debug, question } = course.parts[step.view];
  // a chapter may hold two viewers, whose regions must be told apart, also where both are asked the same
  const views = course.chapters.find(({ steps }) => steps.includes(step))?.steps.map(({ view }) => view) ?? [];
  const alike = [...new Set(views)].filter((view) => view && course.parts[view].question === question).indexOf(step.view);
  for (const part of [viewer.root, ...all(viewer.root, "section[aria-label]")]) {
    const name = part.getAttribute("aria-label")?.split(":")[0];
    part.setAttribute("aria-label", `${name}: ${question}${alike > 0 ? ` (${alike + 1})` : ""}`);
  }
  if (debug) root.append(el("p", { class: "ln-out" }, el("a", { href: debug }, say("debug"))));
}

/** A viewer, with the model that computes changes where there is one. @param {Element} host @param {Payload} payload */
function made(host, payload) {
  /** @type {(answer: Partial<Payload>) => void} */
  const show = (answer) => {
    const before = viewer.state.trace?.answers.macd;
    viewer.update(answer);
    if (answer.trace && before) viewer.heard?.(before, answer.trace.answers.macd);
  };
  const engine = engineFor(payload, document.baseURI, show), { send } = engine;
  /** @type {Host} */
  const about = { base: document.baseURI, addressTaken: true, ...engine };
  if (send) about.send = (action) => (viewer.asks ? viewer.asks(action, () => send(action)) : send(action));
  const viewer = new GuessingViewer(host, about);
  return viewer;
}

/** A viewer whose changes may be asked about before they are computed. */
class GuessingViewer extends Viewer {
  /** @type {((action: Action, go: () => void) => void) | null} */
  asks = null;
  /** @type {((before: Answer, now: Answer) => void) | null} */
  heard = null;
}

/**
 * Before a change is computed, the reader says whether MACD's answer will be another one.
 * @param {Place} place @param {GuessingViewer} viewer @param {HTMLElement} host
 */
function askFirst({ say }, viewer, host) {
  const told = el("p", { class: "ln-result", role: "status" });
  const asked = el("form", { class: "ln-predict ln-guess", hidden: true });
  host.before(asked, told);
  /** @type {boolean | null} */
  let guess = null;
  viewer.asks = (action, go) => {
    guess = null;
    if (action.do !== "edit") return go();
    const { text } = viewer.state.loaded.answers.macd;
    /** @type {(label: string, choose: () => void) => HTMLElement} */
    const choice = (label, choose) => el("button", {
      type: "button", class: "ln-button", on: { click: () => { asked.hidden = true; choose(); } },
    }, label);
    const settle = (/** @type {boolean} */ other) => () => {
      guess = other;
      go();
    };
    const back = () => {
      viewer.hold(false);
      viewer.state.set({});
    };
    asked.replaceChildren(el("p", {}, el("b", {}, say("guess_ask", { answer: text }))),
      el("p", { class: "ln-buttons" }, choice(say("guess_same", { answer: text }), settle(false)), choice(say("guess_other"), settle(true)), choice(say("guess_back"), back)));
    asked.hidden = false;
    told.textContent = "";
    asked.querySelector("button")?.focus();
  };
  viewer.heard = (before, now) => {
    if (guess === null) return;
    const right = (before.text !== now.text) === guess;
    told.textContent = say(before.text === now.text ? "guess_stays" : "guess_becomes", { answer: now.text, verdict: say(right ? "guessed_right" : "guessed_wrong") });
    told.classList.toggle("ln-good", right);
    guess = null;
  };
}
