// @ts-check
// The form's own parts: the filmstrip, what is chosen on it, what the model knows, the tally.

import { el } from "../../viewer/js/dom.js";
import { AnswerTable } from "./answers.js";
import { CHANGE, WHAT_IT_KNOWS, realModel } from "./strings.js";
import { Strip } from "./strip.js";
import { Tally } from "./tally.js";

/** @import { Component } from "./page.js" */

const SAMPLING = "macd-sampling";

/**
 * A part that is drawn again whenever its value changes, into the host of its template.
 *
 * @param {Component} component
 * @param {{ root: HTMLElement, load(value: any): void }} part
 */
function mount({ element, props, watch }, part) {
  const show = () => {
    const host = element.firstElementChild || element;
    if (part.root.parentElement !== host) host.replaceChildren(part.root);
    part.load(props.value || {});
  };
  watch("value", show);
  show();
}

/** @param {Component} component */
export function mountStrip(component) {
  const choose = (/** @type {object} */ chosen) => document.dispatchEvent(new CustomEvent(SAMPLING, { detail: chosen }));
  const strip = new Strip(choose, (range) => component.trigger("submit", range));
  mount(component, {
    root: strip.root,
    load: (value) => {
      strip.load(value);
      forget(value.forget);
      if (value.wanted) component.trigger("submit", {}); // the form came back without its pictures
    },
  });
}

/** Takes an example's question away, unless another one was typed meanwhile. @param {string | undefined} question */
function forget(question) {
  /** @type {HTMLTextAreaElement | null} */
  const place = document.querySelector("#question textarea");
  if (!place || !question || place.value.trim() !== question.trim()) return;
  place.value = "";
  place.dispatchEvent(new Event("input", { bubbles: true }));
}

/**
 * Holds what was chosen on the strip, as an input of a run.
 *
 * @param {Component} component
 */
export function mountSampling({ element, props }) {
  element.hidden = true;
  document.addEventListener(SAMPLING, (event) => { props.value = /** @type {CustomEvent} */ (event).detail; });
}

/** Which models a run takes and why, what they can be asked, and a larger one. @param {Component} component */
export function mountKnows(component) {
  const root = el("div", { class: "guard", hidden: true });
  mount(component, {
    root,
    load: (value) => {
      root.hidden = !value.models;
      root.replaceChildren(
        el("p", {}, `${value.models ?? ""} `, el("button", { type: "button", class: "guard-change", on: { click: showModels } }, CHANGE)),
        el("p", { class: "guard-means", hidden: !value.warning }, value.warning ?? ""),
        el("details", { hidden: !value.text && !value.title }, el("summary", {}, WHAT_IT_KNOWS), el("p", {}, value.text ?? ""),
          el("p", { class: "guard-facts", hidden: !value.title }, realModel(value.title ?? "", value.facts ?? ""))));
    },
  });
}

/** Opens the options at the models. */
function showModels() {
  const place = () => /** @type {HTMLElement | null} */ (document.querySelector("#backbone input"));
  if (!place()?.checkVisibility()) /** @type {HTMLElement | null} */ (document.querySelector("#settings > button"))?.click();
  setTimeout(() => place()?.focus(), OPENS_MS);
}

const OPENS_MS = 200; // Gradio shows what it unfolds a moment later

/** @param {Component} component */
export function mountTally(component) {
  mount(component, new Tally());
}

/** @param {Component} component */
export function mountAnswers(component) {
  mount(component, new AnswerTable());
}
