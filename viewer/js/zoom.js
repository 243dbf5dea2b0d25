// @ts-check
// A closer look at the picture: by buttons, keys, Ctrl and the wheel, or two fingers.

import { button, el } from "./dom.js";
import { TEXT } from "./strings/labels.js";

/** @import { Point } from "./types" */
/** @import { Area } from "./paint.js" */

const LARGEST = 8, FACTOR = 1.5;
const DRAGGED_PX = 4; // a longer movement is not a click

export class Zoom {
  /**
   * @param {HTMLCanvasElement} canvas @param {() => void} changed called after every change
   * @param {() => boolean} drawing whether one finger or the mouse draws instead of moving the picture
   */
  constructor(canvas, changed, drawing) {
    this.canvas = canvas;
    this.changed = changed;
    this.drawing = drawing;
    this.scale = 1;
    /** @type {Point} the point in the middle, in shares of the picture */
    this.centre = [0.5, 0.5];
    /** Whether the last press moved the picture, so that its end is not a click. */
    this.dragged = false;
    /** @type {Map<number, Point>} where the fingers are, in shares of the canvas */
    this.fingers = new Map();
    this.travelled = 0;
    this.out = button("−", () => this.by(1 / FACTOR), { "aria-label": TEXT.zoomOut, title: TEXT.zoomOut });
    this.reset = button("100 %", () => this.whole(), { "aria-label": TEXT.wholePicture, title: TEXT.wholePicture });
    this.in = button("+", () => this.by(FACTOR), { "aria-label": TEXT.zoomIn, title: TEXT.zoomIn });
    this.root = el("span", { class: "mv-zoom", role: "group", "aria-label": TEXT.zoom }, this.out, this.reset, this.in);
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    canvas.addEventListener("pointerdown", (e) => this.press(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (e) => this.fingers.delete(/** @type {PointerEvent} */ (e).pointerId));
    }
    this.show();
  }

  /**
   * Where the whole picture lies, part of it outside of a canvas of this size.
   * @param {number} width @param {number} height @returns {Area}
   */
  place(width, height) {
    const [w, h] = [width * this.scale, height * this.scale];
    return { x: width / 2 - this.centre[0] * w, y: height / 2 - this.centre[1] * h, w, h };
  }

  whole() {
    this.set(1, [0.5, 0.5]);
  }

  /** @param {number} scale @param {Point} centre */
  set(scale, centre) {
    this.scale = Math.min(LARGEST, Math.max(1, scale));
    const half = 0.5 / this.scale;
    /** @type {(c: number) => number} */
    const within = (c) => Math.min(1 - half, Math.max(half, c));
    this.centre = [within(centre[0]), within(centre[1])];
    this.show();
    this.changed();
  }

  show() {
    this.reset.textContent = `${Math.round(100 * this.scale)} %`;
    this.out.disabled = this.reset.disabled = this.scale === 1;
    this.in.disabled = this.scale === LARGEST;
    this.canvas.classList.toggle("mv-zoomed", this.scale > 1);
  }

  /**
   * Zooms around a place of the canvas, which keeps what it shows.
   * @param {number} factor @param {Point} at in shares of the canvas
   */
  by(factor, at = [0.5, 0.5]) {
    const scale = Math.min(LARGEST, Math.max(1, this.scale * factor));
    /** @type {(i: 0 | 1) => number} */
    const centreAt = (i) => this.centre[i] + (at[i] - 0.5) * (1 / this.scale - 1 / scale);
    this.set(scale, [centreAt(0), centreAt(1)]);
  }

  /** Moves the picture by shares of the canvas. @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.set(this.scale, [this.centre[0] - dx / this.scale, this.centre[1] - dy / this.scale]);
  }

  /** What a key does; false where it does nothing here. @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, [number, number]>} */
    const ways = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    if (event.key === "+" || event.key === "=") this.by(FACTOR);
    else if (event.key === "-") this.by(1 / FACTOR);
    else if (event.key === "0") this.whole();
    else if (event.shiftKey && ways[event.key] && this.scale > 1) this.pan(...ways[event.key]);
    else return false;
    return true;
  }

  /** @param {MouseEvent} event @returns {Point} */
  share(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls; a pinch on a touchpad comes with Ctrl
    event.preventDefault();
    this.by(Math.exp(-event.deltaY / 300), this.share(event));
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (!this.fingers.size) [this.dragged, this.travelled] = [false, 0];
    this.fingers.set(event.pointerId, this.share(event));
    this.canvas.setPointerCapture(event.pointerId); // its end may come outside of the canvas
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const now = this.share(event);
    const others = [...this.fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.fingers.set(event.pointerId, now);
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    const box = this.canvas.getBoundingClientRect();
    this.travelled += Math.hypot(dx * box.width, dy * box.height);
    if (others.length) {
      const [other] = others;
      /** @type {(p: Point) => number} */
      const far = (p) => Math.max(1e-3, Math.hypot((p[0] - other[0]) * box.width, (p[1] - other[1]) * box.height));
      this.dragged = true;
      this.by(far(now) / far(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
      this.pan(dx / 2, dy / 2);
    } else if (this.scale > 1 && !this.drawing()) {
      if (this.travelled < DRAGGED_PX) return;
      this.dragged = true;
      this.pan(dx, dy);
    }
  }
}
