// @ts-check
/** Clips that play in step: one clock for all canvases of an item. */

const SLOW = 0.25;

/** @param {ArrayBuffer} content a packed clip, see ratings/media.py @returns {Promise<ImageBitmap[]>} */
export async function unpack(content) {
  const view = new DataView(content);
  const magic = String.fromCharCode(...new Uint8Array(content, 0, 4));
  if (magic !== "MSR1") throw new Error("This file does not hold the pictures of a study. Reload the page; if it stays so, tell the organiser.");
  const count = view.getUint32(4, true);
  const frames = [];
  let start = 8 + 4 * count;
  for (let i = 0; i < count; i++) {
    const length = view.getUint32(8 + 4 * i, true);
    frames.push(new Blob([content.slice(start, start + length)], { type: "image/webp" }));
    start += length;
  }
  return Promise.all(frames.map((blob) => createImageBitmap(blob)));
}

export class Player {
  constructor() {
    /** @type {HTMLCanvasElement[]} */
    this.canvases = [];
    /** @type {ImageBitmap[][]} */
    this.clips = [];
    /** @type {number[][]} of each clip's pictures, seconds from the beginning */
    this.times = [];
    this.length = 1;
    this.playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.slow = false;
    this.at = 0;
    /** @type {number[]} which picture of each clip is drawn */
    this.shown = [];
    this.last = performance.now();
    const tick = (/** @type {number} */ now) => {
      const passed = Math.max(0, now - this.last) / 1000;
      this.last = now;
      if (this.playing) this.at = (this.at + passed * (this.slow ? SLOW : 1)) % this.length;
      this.draw(false);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  /**
   * @param {HTMLCanvasElement[]} canvases
   * @param {ImageBitmap[][]} clips one for each canvas
   * @param {number[][]} times of each clip's pictures, seconds; clips may have different ones
   */
  show(canvases, clips, times) {
    [this.canvases, this.clips] = [canvases, clips];
    const start = Math.min(...times.map((own) => own[0]));
    this.times = times.map((own) => own.map((t) => t - start));
    this.length = Math.max(0.1, ...this.times.map((own) => {
      const last = own[own.length - 1];
      return last + (own.length > 1 ? last / (own.length - 1) : 1);
    }));
    [this.at, this.shown] = [0, []];
    canvases.forEach((canvas, i) => {
      canvas.width = clips[i][0].width;
      canvas.height = clips[i][0].height;
      canvas.parentElement?.style.setProperty("--ratio", String(canvas.width / canvas.height));
    });
    this.draw(true);
  }

  /** @param {boolean} anyway */
  draw(anyway) {
    this.canvases.forEach((canvas, i) => {
      const times = this.times[i];
      let frame = 0;
      while (frame + 1 < times.length && times[frame + 1] <= this.at) frame++;
      if (frame === this.shown[i] && !anyway) return;
      this.shown[i] = frame;
      canvas.getContext("2d")?.drawImage(this.clips[i][frame], 0, 0);
    });
  }

  toggle() {
    this.playing = !this.playing;
  }
}
