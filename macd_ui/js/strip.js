// @ts-check
// The filmstrip of an uploaded clip: a range is trimmed on it, and frames are picked.

import { el } from "../../viewer/js/dom.js";
import { fold } from "../../viewer/js/folds.js";
import {
  BY_HAND, CHOOSE_FRAMES, CLICK_FRAMES, EVENLY, FRAMES, FRAMES_FOR_MODEL, ONLY_RANGE, WHOLE_CLIP,
  frameAt, framesChosen, readingClip, spoken, timeOf, tooLong,
} from "./strings.js";

const STEPS = 400;
const USUAL_FRAMES = 8, PICTURES = 24; // of the strip at most, as clips.py has it

/**
 * @typedef {object} StripValue
 * @property {string} [reading] the name of a clip that is still read
 * @property {string} name
 * @property {number} duration seconds
 * @property {number} longest the longest range that a run reads, seconds
 * @property {number | null} [count] frames of the clip
 * @property {number[]} times of the pictures, seconds
 * @property {string[]} pictures
 * @property {[number, number]} size
 */
/** @typedef {{ start?: number, end?: number, at?: number[] }} Chosen */

export class Strip {
  /**
   * @param {(chosen: Chosen) => void} choose hears what a run is to read
   * @param {(range: Chosen) => void} closer asks for pictures of a shorter range
   */
  constructor(choose, closer) {
    this.choose = choose;
    this.closer = closer;
    /** @type {StripValue | null} */
    this.value = null;
    this.clip = "";
    this.frameCount = USUAL_FRAMES;
    /** @type {number[]} */
    this.picked = [];
    this.byHand = false;
    this.start = 0;
    this.end = 0;
    this.at = 0;
    this.large = el("img", { class: "strip-large", alt: "", on: { load: () => this.shape() } });
    this.caption = el("p", { class: "strip-caption" });
    this.frames = el("div", { class: "strip-frames", role: "group", "aria-label": FRAMES });
    this.frames.addEventListener("keydown", (event) => this.key(event));
    const from = this.slider("Start", (seconds) => this.trim(Math.min(seconds, this.end - this.step()), this.end));
    const to = this.slider("End", (seconds) => this.trim(this.start, Math.max(seconds, this.start + this.step())));
    this.from = from[0];
    this.fromText = from[1];
    this.to = to[0];
    this.toText = to[1];
    this.even = this.radio(EVENLY, () => this.pickByHand(false));
    this.hand = this.radio(BY_HAND, () => this.pickByHand(true));
    this.summary = el("p", { class: "strip-summary", role: "status" });
    this.closerButton = el("button", { type: "button", on: { click: () => this.lookCloser() } }, ONLY_RANGE);
    this.wholeButton = el("button", { type: "button", on: { click: () => this.wholeClip() } }, WHOLE_CLIP);
    this.timed = [this.summary, fold("strip", CHOOSE_FRAMES, // what a picture has no use for
      this.caption, this.frames,
      el("div", { class: "strip-range" }, this.from.parentElement, this.to.parentElement),
      el("div", { class: "strip-buttons" }, this.closerButton, this.wholeButton),
      el("fieldset", { class: "strip-mode" }, el("legend", {}, FRAMES_FOR_MODEL), this.even.parentElement,
        this.hand.parentElement))];
    this.body = el("div", { hidden: true }, this.large, ...this.timed);
    this.waiting = el("p", { class: "strip-waiting", role: "status", hidden: true });
    this.root = el("section", { class: "strip", "aria-label": "Filmstrip", hidden: true }, this.waiting, this.body);
    document.addEventListener("input", (event) => { // how many frames are evenly spaced
      const input = /** @type {HTMLInputElement} */ (event.target);
      if (!input.closest("#frames")) return;
      this.frameCount = Number(input.value) || USUAL_FRAMES;
      this.draw();
    });
  }

  /**
   * @param {string} name
   * @param {(seconds: number) => void} moved
   * @returns {[HTMLInputElement, HTMLElement]}
   */
  slider(name, moved) {
    const text = el("output", { class: "strip-time" });
    const input = el("input", {
      type: "range", min: "0", step: "any", "aria-label": name, on: { input: () => moved(Number(input.value)) },
    });
    el("label", { class: "strip-slider" }, el("span", {}, name), input, text);
    return [input, text];
  }

  /**
   * @param {string} name
   * @param {() => void} chosen
   */
  radio(name, chosen) {
    const input = el("input", { type: "radio", name: "strip-mode", on: { change: chosen } });
    el("label", {}, input, ` ${name}`);
    return input;
  }

  step() {
    return this.value ? Math.max(this.value.duration / STEPS, 1e-3) : 0;
  }

  /** @param {Partial<StripValue>} value */
  load(value) {
    this.waiting.hidden = !value.reading;
    this.waiting.textContent = value.reading ? readingClip(value.reading) : "";
    this.root.hidden = !value.reading && !value.pictures;
    this.body.hidden = !value.pictures;
    if (!value.pictures) {
      this.value = null;
      this.clip = "";
      return;
    }
    for (const part of this.timed) part.hidden = !value.duration;
    const same = this.value && this.clip === value.name && this.value.duration === value.duration;
    this.value = /** @type {StripValue} */ (value);
    this.clip = this.value.name;
    this.at = 0;
    if (!same) {
      this.picked = [];
      this.byHand = false;
      this.start = 0;
      this.end = Math.min(this.value.duration, this.value.longest);
    }
    this.frames.replaceChildren(...this.value.pictures.map((picture, i) => el("button", {
      type: "button", class: "strip-frame", tabindex: i ? "-1" : "0",
      on: { click: () => this.pick(i), focus: () => this.look(i), mouseenter: () => this.look(i) },
    }, el("img", { src: picture, alt: "" }))));
    for (const input of [this.from, this.to]) {
      input.max = String(this.value.duration);
      input.step = String(this.step());
    }
    this.look(0);
    if (!same) this.tell();
    this.draw();
  }

  /** @param {number} i */
  look(i) {
    if (!this.value) return;
    this.at = i;
    this.large.src = this.value.pictures[i];
    this.caption.textContent = timeOf(this.value.times[i], this.value.duration);
    [...this.frames.children].forEach((child, k) => child.setAttribute("tabindex", k === i ? "0" : "-1"));
  }

  /** Gives all pictures of the strip the clip's own shape. */
  shape() {
    this.root.style.setProperty("--ratio", String(this.large.naturalWidth / this.large.naturalHeight));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const count = this.frames.children.length;
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count };
    const by = steps[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(count - 1, this.at + by));
    /** @type {HTMLElement} */ (this.frames.children[next]).focus();
  }

  /** @param {number} i */
  pick(i) {
    if (!this.value) return;
    const time = this.value.times[i];
    if (time < this.start || time > this.end) return;
    this.picked = this.picked.includes(time)
      ? this.picked.filter((t) => t !== time)
      : [...this.picked, time].sort((a, b) => a - b);
    this.byHand = this.picked.length > 0;
    this.look(i);
    this.tell();
  }

  /** @param {boolean} now */
  pickByHand(now) {
    this.byHand = now;
    this.tell();
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  trim(start, end) {
    if (!this.value) return;
    this.start = Math.max(0, start);
    this.end = Math.min(this.value.duration, end);
    this.picked = this.picked.filter((t) => t >= this.start && t <= this.end);
    this.tell();
  }

  lookCloser() {
    this.closer(this.range());
  }

  wholeClip() {
    if (!this.value) return;
    this.trim(0, this.value.duration);
    this.closer({});
  }

  /** @returns {Chosen} */
  range() {
    if (!this.value) return {};
    /** @type {{ start?: number, end?: number }} */
    const range = {};
    if (this.start > 0) range.start = round(this.start);
    if (this.end < this.value.duration) range.end = round(this.end);
    return range;
  }

  tell() {
    this.choose(this.byHand && this.picked.length ? { ...this.range(), at: this.picked } : this.range());
    this.draw();
  }

  /** The times of the frames that a run would sample evenly, as far as this can know. */
  sampled() {
    const { times = [], count: whole } = this.value ?? {};
    const inside = times.filter((t) => t >= this.start && t <= this.end).length;
    const all = whole === null || whole === undefined ? times.length < PICTURES : whole <= times.length;
    const count = all ? Math.max(1, Math.min(this.frameCount, inside)) : this.frameCount;
    const part = (this.end - this.start) / count;
    return Array.from({ length: count }, (_, i) => this.start + (i + 0.5) * part);
  }

  draw() {
    const { value } = this;
    if (!value) return;
    const byHand = this.byHand && this.picked.length > 0;
    const times = byHand ? this.picked : this.sampled();
    const shown = new Set(times.map((t) => Math.max(0, value.times.filter((at) => at <= t + 1e-6).length - 1)));
    [...this.frames.children].forEach((button, i) => {
      const time = value.times[i];
      const inside = time >= this.start && time <= this.end;
      button.setAttribute("aria-pressed", String(byHand ? this.picked.includes(time) : false));
      button.setAttribute("aria-label", frameAt(time, inside));
      button.classList.toggle("strip-outside", !inside);
      button.classList.toggle("strip-sampled", inside && shown.has(i));
    });
    this.from.value = String(this.start);
    this.to.value = String(this.end);
    this.fromText.textContent = spoken(this.start);
    this.toText.textContent = spoken(this.end);
    this.from.setAttribute("aria-valuetext", spoken(this.start));
    this.to.setAttribute("aria-valuetext", spoken(this.end));
    this.even.checked = !this.byHand;
    this.hand.checked = this.byHand;
    const whole = this.start <= 0 && this.end >= value.duration;
    this.closerButton.disabled = whole;
    this.wholeButton.disabled = whole && value.times[value.times.length - 1] > 0.8 * value.duration;
    // several sampled times may fall on one frame; the strip is fine enough to tell up to half its pictures
    const frames = byHand || 2 * times.length > PICTURES ? times.length : shown.size;
    const texts = [framesChosen(frames, byHand, whole ? null : [this.start, this.end])];
    if (this.byHand && !byHand) texts.push(CLICK_FRAMES);
    if (this.end - this.start > value.longest) texts.push(tooLong(value.longest));
    this.summary.textContent = texts.join(" ");
  }
}

/** @param {number} seconds */
const round = (seconds) => Math.round(1000 * seconds) / 1000;
