// @ts-check
// Mounts the viewer in Gradio's page, and connects it with the parts of that page.

import { Viewer } from "../../viewer/js/viewer.js";
import { Form } from "./fold.js";
import { RunHistory } from "./history.js";
import { Interruption } from "./interrupted.js";
import { RunLink } from "./link.js";
import { openTrace, traceAnswered } from "./open.js";
import { lightPlot, savePlot } from "./plot.js";
import { watchRuns } from "./reach.js";
import { TabRestorer } from "./restore.js";
import { DEMO_MODEL, modelName, otherClip } from "./strings.js";

/** @import { Payload, Trace } from "../../viewer/js/types" */
/**
 * @typedef {object} Component what Gradio gives to the script of a gr.HTML
 * @property {HTMLElement} element
 * @property {{ value: Partial<Payload> }} props
 * @property {(event: string, data?: unknown) => void} trigger
 * @property {(name: string, changed: () => void) => void} watch
 */


/** @param {Component} component */
export function mountPage({ element, props, trigger, watch }) {
  const place = () => element.querySelector(".mv-host") || element;
  /** @type {Viewer} */
  const viewer = new Viewer(place(), {
    // a new run takes the whole form, a change of the run on show does not
    send: (action) => trigger(action.do === "detect" ? "edit" : "submit", action),
    onDrop: openTrace,
    typical: () => press("#typical"),
    stop: () => press("#stop"),
    get: (address) => fetch(new URL(address, document.baseURI)),
    onDraw: (chosen, objects) => lightPlot(viewer, chosen, objects),
    base: document.baseURI,
  });
  const restorer = new TabRestorer(viewer);
  const form = new Form();
  const history = new RunHistory(viewer);
  const link = new RunLink(viewer, restorer, history);
  const interruption = new Interruption(viewer, link);
  watchRuns(interruption);
  const show = () => {
    viewer.attach(place());
    const { value } = props;
    const stages = (value.constants ?? viewer.state.receivedConstants)?.stages ?? [];
    viewer.update(value.status ? { ...value, status: form.observe(value.status, stages, value.trace?.run ?? form.run) } : value);
    nameModel(viewer.state.trace);
    restorer.observe(props.value);
    history.observe(props.value);
    link.observe();
    interruption.observe(props.value);
    if (value.lost && value.status?.error) history.offer(value.status.where);
    if (!value.status || value.status.running) return;
    traceAnswered();
    link.answered();
  };
  document.addEventListener("macd-other-clip", (event) => {
    const { detail } = /** @type {CustomEvent} */ (event);
    viewer.former(detail?.length ? otherClip(detail[0], detail[1]) : "");
  });
  // the buttons below the plot call the one, Save trace the other
  Object.assign(window, { macdSavePlot: savePlot, macdCopy: () => history.copy() });
  watch("value", show);
  show();
}

/** @param {string} selector of a button of the form, which may be closed @returns {boolean} whether it is offered */
function press(selector) {
  const button = /** @type {HTMLElement | null} */ (document.querySelector(selector));
  button?.click();
  return button !== null;
}

/** The bar says which model answered what is shown. @param {Trace | null} trace */
function nameModel(trace) {
  const place = document.querySelector("[data-part=model]");
  if (!place || !trace) return;
  const name = trace.backbone.split("/").pop() || trace.backbone; // none of a run that was stopped early
  place.textContent = trace.demo ? DEMO_MODEL : name && modelName(name);
  /** @type {HTMLElement} */ (place).title = trace.backbone;
}
