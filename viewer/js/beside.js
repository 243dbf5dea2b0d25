// @ts-check
// Another run next to the current one: its frame of the same time, and its answer token by token.

import { alignTokens, nearestFrame, probabilityOf } from "./align.js";
import { contextOf, el } from "./dom.js";
import { maskedText } from "./headline.js";
import { percent, visible } from "./text.js";

/** @import { Answer, Trace } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

const SIDE = 480; // long side of the pictures, in pixels

export class Beside {
  /**
   * @param {State} state
   * @param {Stage} stage
   */
  constructor(state, stage) {
    this.state = state;
    this.stage = stage;
    /** @type {Trace | null} */
    this.other = null;
    this.built = "";
    this.screens = ["This run", "The other run"].map((name) => ({
      canvas: el("canvas", { class: "mv-canvas", role: "img", "aria-label": name }), caption: el("figcaption", {}),
    }));
    this.choices = ["Answer of this run", "Answer of the other run"].map((name) =>
      el("select", { "aria-label": name, on: { change: () => { this.built = ""; state.set({}); } } }));
    this.facts = el("div", { class: "mv-scroll mv-table", tabindex: "0", role: "region", "aria-label": "Both runs" });
    this.tokens = el("div", { class: "mv-scroll mv-aligned", tabindex: "0", role: "region", "aria-label": "Answers, token by token" });
    this.close = el("button", { type: "button", class: "mv-button", on: { click: () => this.show(null) } }, "Close");
    this.root = el("section", { class: "mv-beside", "aria-label": "Two runs", hidden: true },
      el("div", { class: "mv-block-head" }, el("h3", {}, "Two runs"), this.close),
      el("div", { class: "mv-screens" }, this.screens.map(({ canvas, caption }) => el("figure", {}, canvas, caption))),
      this.facts,
      el("div", { class: "mv-pair" }, this.choices.map((select, i) => el("label", {}, ["this run ", "the other run "][i], select))),
      this.tokens);
  }

  /** @param {Trace | null} other null: none */
  show(other) {
    this.other = other;
    this.built = "";
    this.root.hidden = !other;
    if (other) {
      for (const source of other.frames) this.stage.image(source);
      this.fill(this.choices[1], other);
    }
    this.state.set({});
  }

  /** @param {Trace} trace */
  load(trace) {
    this.built = "";
    this.fill(this.choices[0], trace);
  }

  /**
   * @param {HTMLSelectElement} select
   * @param {Trace} trace
   */
  fill(select, trace) {
    const names = Object.keys(trace.answers), former = select.value;
    select.replaceChildren(...names.map((name) => el("option", { value: name }, trace.answers[name].title)));
    select.value = names.includes(former) ? former : names.includes("macd") ? "macd" : names[0] || "";
  }

  draw() {
    const { trace, frame, token } = this.state;
    if (!trace || !this.other) return;
    const at = nearestFrame(this.other.times, trace.times[frame]);
    this.drawFrames(trace, this.other, at);
    const key = [trace.run, token, this.choices.map((c) => c.value)].join(" ");
    if (key === this.built) return;
    this.built = key;
    const answers = [trace, this.other].map((t, i) => t.answers[this.choices[i].value]);
    this.facts.replaceChildren(factsTable(trace, this.other));
    this.tokens.replaceChildren(...(answers[0] && answers[1] ? [this.aligned(answers[0], answers[1])] : []));
  }

  /**
   * @param {Trace} trace
   * @param {Trace} other
   * @param {number} at the other's frame
   */
  drawFrames(trace, other, at) {
    const { frame } = this.state, { canvas: large } = this.stage;
    const [mine, theirs] = this.screens;
    fit(mine.canvas, [large.width, large.height]);
    contextOf(mine.canvas).drawImage(large, 0, 0, mine.canvas.width, mine.canvas.height);
    fit(theirs.canvas, other.source);
    const context = contextOf(theirs.canvas), { width, height } = theirs.canvas;
    const image = this.stage.image(other.frames[at]);
    context.clearRect(0, 0, width, height);
    if (image) context.drawImage(image, 0, 0, width, height);
    for (const { boxes, colour, id, label } of other.tracks) {
      const box = boxes[at];
      if (!box) continue;
      const [x0, y0, x1, y1] = box;
      context.strokeStyle = context.fillStyle = colour;
      context.lineWidth = 3;
      context.strokeRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
      context.font = "600 15px system-ui, sans-serif";
      const text = `${id} ${label}`, top = Math.max(0, y0 * height - 20);
      context.fillRect(x0 * width, top, context.measureText(text).width + 10, 20);
      context.fillStyle = "#111111";
      context.fillText(text, x0 * width + 5, top + 15);
    }
    [[mine, trace, frame], [theirs, other, at]].forEach(([screen, t, f]) => {
      const run = /** @type {Trace} */ (t), i = /** @type {number} */ (f);
      /** @type {typeof mine} */ (screen).caption.textContent = `frame ${i + 1} of ${run.times.length} · ${run.times[i].toFixed(2)} s`;
    });
  }

  /**
   * @param {Answer} first
   * @param {Answer} second
   */
  aligned(first, second) {
    const pairs = alignTokens(first.tokens.map((t) => t.text), second.tokens.map((t) => t.text));
    /** @type {(name: string, answer: Answer, place: 0 | 1) => HTMLElement} */
    const row = (name, answer, place) => el("tr", {}, el("th", { scope: "row" }, name),
      pairs.map((pair) => {
        const i = pair[place], other = pair[1 - place];
        if (i === null) return el("td", { class: "mv-gap" }, "–");
        const same = other !== null && first.tokens[/** @type {number} */ (pair[0])].text === second.tokens[/** @type {number} */ (pair[1])].text;
        const p = probabilityOf(answer, i);
        const text = visible(answer.tokens[i].text);
        const inner = place ? el("span", { class: "mv-token" }, text) : el("button", {
          type: "button", class: "mv-token", on: { click: () => this.state.set({ token: i, method: answer.method, picked: true }) },
        }, text);
        return el("td", { class: same ? "" : "mv-differs" }, inner, el("small", {}, p === null ? "" : ` ${percent(p)}`));
      }));
    return el("table", {}, el("tbody", {}, row("this run", first, 0), row("the other run", second, 1)));
  }
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number[]} size
 */
function fit(canvas, [width, height]) {
  const scale = SIDE / Math.max(width, height);
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
}

/**
 * @param {Trace} trace
 * @param {Trace} other
 */
function factsTable(trace, other) {
  /** @type {[string, (t: Trace) => string][]} */
  const facts = [
    ["question", (t) => t.question], ["clip", (t) => t.clip], ["backbone", (t) => t.backbone],
    ["objects", (t) => t.tracks.map((k) => `${k.id} ${k.label}`).join(", ") || "none"],
    ["masks", maskedText],
    ["answers", (t) => Object.values(t.answers).map((a) => `${a.title}: ${a.text || "∅"}`).join("; ")],
  ];
  return el("table", {},
    el("thead", {}, el("tr", {}, ["", "this run", "the other run"].map((name) => (name ? el("th", { scope: "col" }, name) : el("td"))))),
    el("tbody", {}, facts.map(([name, of]) => {
      const both = [of(trace), of(other)];
      return el("tr", { class: both[0] === both[1] ? "" : "mv-differs" }, el("th", { scope: "row" }, name), both.map((text) => el("td", {}, text)));
    })));
}
