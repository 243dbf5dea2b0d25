// @ts-check
// What is enough: the smallest sets of pieces for the chosen token, and what the model says given any of
// them. The pieces of a set stay as they are on the picture and in the lanes; the others are dimmed.

import { all, button, el, errorLine, scrolled } from "./dom.js";
import { enoughCost, givenText, noEnough, pieceName, smallestText } from "./strings/evidence.js";
import { TEXT } from "./strings/labels.js";
import { isPicture, partName } from "./strings/parts.js";
import { LABELS } from "./strings/runs.js";
import { groupOf } from "./masks.js";

/** @import { Enough, EnoughRequest, Given, Piece, Send, Trace } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

const EXHAUSTED = 8, MOST_VIEWS = 512; // pieces whose sets are all read, and the views of a search above
const RUNS = [1, 2, 3, 4, 6, 8, 16];

/** Whether two sets hold the same pieces. @param {number[]} a @param {number[]} b */
const same = (a, b) => a.length === b.length && a.every((i) => b.includes(i));

export class EnoughPanel {
  /** @param {State} state @param {Send} send @param {Stage} stage */
  constructor(state, send, stage) {
    this.state = state;
    this.send = send;
    this.stage = stage;
    this.on = true;
    this.built = "";
    /** @type {number[] | null} the pieces that are marked; null: the smallest set that is enough */
    this.chosen = null;
    this.words = el("p", { class: "mv-note" });
    this.margin = el("input", { type: "number", min: 0, max: 1000, step: 0.5, value: 0, "aria-label": TEXT.marginToKeep });
    this.runs = el("select", { "aria-label": TEXT.runsOfFrames, on: { change: () => this.tellCost() } },
      el("option", { value: 0 }, TEXT.asManyAsCanBeCertified));
    this.spans = el("label", {}, `${TEXT.runsLabel} `, this.runs);
    this.what = el("select", { "aria-label": TEXT.whatMustStay },
      el("option", { value: "answer" }, TEXT.theWholeAnswer), el("option", { value: "token" }, TEXT.thisTokenAlone));
    this.look = button(TEXT.lookForIt, () => this.ask({ search: true }));
    this.cost = el("span", { class: "mv-note" });
    this.sets = el("span", { class: "mv-segments", role: "group", "aria-label": TEXT.setOnShow });
    this.toggle = button(TEXT.onThePicture, () => { this.on = !this.on; this.again(); }, { class: "mv-toggle" });
    this.found = el("ul", { class: "mv-enough-found" });
    this.table = el("div", {});
    this.answer = el("p", { class: "mv-enough-answer", role: "status" });
    this.read = button(TEXT.readTheseAlone, () => this.readThese());
    this.error = errorLine();
    this.shown = el("div", {}, this.found,
      el("div", { class: "mv-edit" }, this.sets, this.toggle), this.table,
      el("div", { class: "mv-edit" }, this.answer, this.read));
    this.asking = el("div", { class: "mv-edit" },
      el("label", {}, `${TEXT.marginLabel} `, this.margin), this.spans,
      el("label", {}, `${TEXT.mustStayLabel} `, this.what), this.look, this.cost);
    this.root = el("details", { class: "mv-enough" },
      el("summary", {}, TEXT.whatIsEnough), this.words, this.shown, this.asking, this.error);
    this.root.addEventListener("toggle", () => state.set({}));
    stage.overlays.push((context) => this.paint(context));
  }

  again() {
    this.built = "";
    this.state.set({});
  }

  /** Whether it can be looked for here. @param {Trace} trace */
  able(trace) {
    return this.state.can("enough") && trace.measurable;
  }

  /** @param {Trace} trace */
  load(trace) {
    this.built = "";
    this.chosen = null;
    this.asking.hidden = !this.able(trace);
    this.spans.hidden = isPicture(trace);
    this.root.hidden = !trace.enough.length && !this.able(trace);
    const runs = RUNS.filter((count) => count <= trace.groups.length);
    this.runs.replaceChildren(this.runs.children[0], ...runs.map((count) => el("option", { value: count }, String(count))));
  }

  /** @param {boolean} now */
  busy(now) {
    for (const control of all(this.root, "button, select, input")) {
      /** @type {HTMLButtonElement} */ (control).disabled = now;
    }
    this.built = "";
    if (!now) this.draw();
  }

  /** The baseline's token at the place of the chosen one, which the model says by itself; null: it has none. */
  get index() {
    const { loaded: { answers }, token } = this.state;
    return token < (answers.baseline?.tokens.length ?? 0) ? token : null;
  }

  /** What was found for the chosen token, the newest last. @returns {Enough | undefined} */
  get result() {
    const { loaded: { enough } } = this.state, { index } = this;
    return index === null ? undefined : enough.filter(({ target }) => target.index === index).at(-1);
  }

  /** The set that is marked. @param {Enough} one */
  marked(one) {
    return this.chosen ?? one.keep?.given?.shown ?? one.asked.at(-1)?.shown ?? one.whole.shown;
  }

  /** What the model says given the set that is marked, where it was read. @param {Enough} one @returns {Given | undefined} */
  given(one) {
    const asked = [...one.asked].reverse();
    const known = [one.keep?.given, one.remove?.given, one.whole, one.nothing, ...asked];
    return known.find((given) => given && same(given.shown, this.marked(one))) ?? undefined;
  }

  draw() {
    const { trace, method, token, track, step } = this.state;
    if (!trace || this.root.hidden) return;
    const one = this.root.open ? this.result : undefined;
    const key = [this.root.open, method, token, track, step, this.state.busy, this.on, this.chosen, trace.enough.indexOf(/** @type {Enough} */ (one))].join(" ");
    if (key === this.built) return;
    this.built = key;
    this.markLanes(trace, one);
    if (this.root.open) this.build(trace, one);
  }

  /** @param {Trace} trace @param {Enough | undefined} one */
  build(trace, one) {
    const { answers } = trace, { index } = this, { busy } = this.state;
    const step = index === null ? undefined : answers.baseline.tokens[index];
    this.shown.hidden = !one;
    this.words.textContent = noEnough(step ? step.text : null, Boolean(one), this.able(trace), answers.baseline?.text ?? "", trace);
    this.look.disabled = busy || !step;
    this.tellCost();
    if (!one) return;
    const n = one.pieces.length;
    this.found.replaceChildren(...[
      smallestText("keep", one, trace), smallestText("remove", one, trace), givenText(TEXT.givenNothing, one.nothing),
    ].filter(Boolean).map((text) => el("li", {}, text)));
    /** @type {[string, number[] | undefined][]} */
    const sets = [[TEXT.keepSet, one.keep?.given?.shown], [TEXT.withoutSet, one.remove?.given?.shown], [TEXT.allOfIt, one.whole.shown], [TEXT.nothingOfIt, []]];
    const marked = this.marked(one);
    this.sets.replaceChildren(...sets.flatMap(([name, shown]) => (shown
      ? [button(name, () => this.mark(shown), { "aria-pressed": String(same(shown, marked)) })] : [])));
    this.toggle.setAttribute("aria-pressed", String(this.on));
    this.table.replaceChildren(this.pieces(trace, one, marked));
    const given = this.given(one);
    this.answer.textContent = given ? givenText(TEXT.givenThese, given) : TEXT.notReadYet;
    this.read.hidden = Boolean(given) || !this.able(trace) || n === 0;
    this.read.disabled = busy;
  }

  /** @param {number[]} shown */
  mark(shown) {
    this.chosen = shown;
    this.again();
  }

  /** The pieces as boxes to tick: a row each region, a column each run. @param {Trace} trace @param {Enough} one @param {number[]} marked */
  pieces(trace, one, marked) {
    const runs = runsOf(one), names = [...new Set(one.pieces.map((piece) => pieceName(piece, trace)))];
    /** @type {(name: string, run: string) => number} */
    const at = (name, run) => one.pieces.findIndex((piece) => pieceName(piece, trace) === name && String(piece.groups) === run);
    /** @type {(name: string, run: string) => HTMLElement} */
    const cell = (name, run) => {
      const i = at(name, run);
      if (i < 0) return el("td", {});
      const frames = framesOf(one.pieces[i], trace);
      const tick = el("input", {
        type: "checkbox", checked: marked.includes(i), disabled: this.state.busy, "aria-label": LABELS.piece(name, partName(frames, trace)),
        on: { change: () => this.mark(one.pieces.map((_, j) => j).filter((j) => (j === i ? !marked.includes(j) : marked.includes(j)))) },
      });
      return el("td", {}, tick);
    };
    return scrolled(TEXT.pieces, "mv-table", el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, TEXT.shownToTheModel),
        runs.map((run) => el("th", { scope: "col" }, partName(framesIn(run, trace), trace))))),
      el("tbody", {}, names.map((name) => el("tr", {}, el("th", { scope: "row" }, name), runs.map((run) => cell(name, run)))))));
  }

  tellCost() {
    const { trace } = this.state;
    if (!trace || this.asking.hidden) return;
    const regions = trace.tracks.length + 1, groups = trace.groups.length;
    const runs = Number(this.runs.value) || Math.max(1, Math.min(groups, Math.floor(EXHAUSTED / regions)));
    const n = regions * runs, views = n > EXHAUSTED ? MOST_VIEWS : 2 ** n;
    this.cost.textContent = enoughCost(views, trace.enough_ms === null ? null : views * trace.enough_ms);
  }

  /** @param {Partial<EnoughRequest> & { search: boolean }} what */
  ask(what) {
    const { index } = this;
    if (index === null) return;
    this.send({
      do: "enough",
      enough: {
        token: index + 1, same: this.what.value, margin: Number(this.margin.value) || 0, spans: Number(this.runs.value), ...what,
      },
    });
  }

  readThese() {
    const one = this.result;
    if (!one) return;
    const boxes = [...new Set(one.pieces.flatMap((piece) => (piece.box ? [piece.box.join(",")] : [])))];
    const keep = this.marked(one).map((i) => {
      const { track, box } = one.pieces[i], frames = framesOf(one.pieces[i], this.state.loaded);
      const name = track !== null ? track : box ? `box${boxes.indexOf(box.join(",")) + 1}` : "background";
      return `${name}:${frames[0] + 1}-${frames[frames.length - 1] + 1}`;
    });
    this.ask({ search: false, keep, boxes, same: one.same, margin: one.margin, spans: runsOf(one).length });
  }

  // Cells of frames in which an object, or the background, is hidden from the model are dimmed.
  /** @param {Trace} trace @param {Enough | undefined} one */
  markLanes(trace, one) {
    const marked = one && this.on ? this.marked(one) : [];
    for (const cell of all(this.stage.lanes.root, "[data-frame]")) {
      const lane = /** @type {HTMLElement} */ (cell.closest(".mv-lane")), k = lane.dataset.track;
      const id = k === undefined ? null : trace.tracks[Number(k)]?.id, group = groupOf(trace, Number(cell.dataset.frame));
      const i = one && this.on ? one.pieces.findIndex(({ track, box, groups: [first, last] }) =>
        track === id && !box && first <= group && group <= last) : -1;
      cell.classList.toggle("mv-piece-hidden", i >= 0 && !marked.includes(i));
      cell.classList.toggle("mv-piece-shown", i >= 0 && marked.includes(i));
    }
  }

  // What is hidden of this frame, as dark as its weight: core/evidence/enough.py region_weights.
  /** @param {CanvasRenderingContext2D} context */
  paint(context) {
    const one = this.on && this.root.open && !this.root.hidden ? this.result : undefined;
    if (!one) return;
    const { loaded: trace, frame } = this.state, group = groupOf(trace, frame), marked = this.marked(one);
    const hidden = one.pieces.filter(({ groups: [first, last] }, i) => first <= group && group <= last && !marked.includes(i));
    if (!hidden.length) return;
    const { objects } = this.stage.masks(frame), [width, height] = trace.size;
    const boxes = one.pieces.flatMap(({ box }) => (box ? [box] : []));
    /** @type {(box: number[] | null, x: number, y: number) => boolean} */
    const within = (box, x, y) => Boolean(box && x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3]);
    const weight = new Float32Array(width * height);
    for (let i = 0; i < weight.length; i++) {
      const x = ((i % width) + 0.5) / width, y = (Math.floor(i / width) + 0.5) / height;
      const total = objects.reduce((sum, mask) => sum + (mask ? mask[i] : 0), 0), left = Math.max(0, 1 - total);
      const inBox = boxes.find((box) => within(box, x, y));
      for (const { track, box } of hidden) {
        if (track !== null) weight[i] += (objects[trace.tracks.findIndex(({ id }) => id === track)]?.[i] ?? 0) / Math.max(1, total);
        else if (box ? inBox && same(box, inBox) : !inBox) weight[i] += left;
      }
    }
    this.stage.painter.dim(context, (i) => weight[i]);
  }
}

/** The runs of frame groups that the pieces lie in, in order. @param {Enough} one */
function runsOf(one) {
  return [...new Set(one.pieces.map((piece) => String(piece.groups)))].sort((a, b) => parseInt(a, 10) - parseInt(b, 10));
}

/** @param {string} run @param {Trace} trace */
function framesIn(run, trace) {
  const [first, last] = run.split(",").map(Number);
  return trace.groups.slice(first, last + 1).flat();
}

/** The frames of a piece, from 0. @param {Piece} piece @param {Trace} trace */
export function framesOf(piece, trace) {
  return framesIn(String(piece.groups), trace);
}
