// @ts-check
// What if: levels, masks and objects changed by hand. Sends one change at a time; the server runs
// what it invalidates and answers with a new trace.

import { all, button, contextOf, el, errorLine } from "./dom.js";
import { groupOf } from "./masks.js";
import { unavailableText } from "./strings/answers.js";
import { computedHere, editText, editsOfMacd } from "./strings/edits.js";
import { TEXT } from "./strings/labels.js";
import { frameNumbers, isPicture, trackName } from "./strings/parts.js";

/** @import { Box, Edit, Point, Send, Tool, Trace, Track } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

/** @type {[Tool, string][]} */
const TOOLS = [["click", TEXT.clickToMask], ["point", TEXT.pointAtObject], ["draw", TEXT.drawMask], ["erase", TEXT.eraseMask], ["box", TEXT.addObject]];
/** @type {Record<Tool, string>} what to do on the picture */
const HINTS = {
  click: TEXT.clickHint,
  point: TEXT.pointHint,
  draw: TEXT.drawHint,
  erase: TEXT.eraseHint,
  box: TEXT.boxHint,
};

export class WhatIf {
  /** @param {State} state @param {Send} send @param {Stage} stage */
  constructor(state, send, stage) {
    this.state = state;
    this.send = send;
    this.stage = stage;
    this.drawnFor = ""; // what the controls were drawn for
    this.drawnFrames = "";
    this.object = el("div", { class: "mv-edit mv-edit-object" });
    this.frame = el("div", { class: "mv-edit mv-edit-frames" });
    this.tools = el("div", { class: "mv-edit", role: "group", "aria-label": TEXT.brush });
    this.toolButtons = new Map(TOOLS.map(([tool, name]) => [tool,
      button(name, () => this.state.set({ tool: this.state.tool === tool ? null : tool }))]));
    this.radius = el("input", { type: "range", min: 0.02, max: 0.2, step: 0.01, value: 0.06, "aria-label": TEXT.brushSize });
    this.undo = button(TEXT.undo, () => send({ do: "undo" }));
    this.redo = button(TEXT.redo, () => send({ do: "redo" }));
    this.naming = this.prompt();
    /** @type {Box | null} a new object that waits for its name */
    this.pending = null;
    /** @type {Point | null} where an object is being looked for */
    this.pointed = null;
    /** @type {number | null} how many changes there were before it */
    this.before = null;
    this.done = el("ol", { class: "mv-edits" });
    this.hint = el("p", { class: "mv-note" });
    this.where = el("p", { class: "mv-note mv-where", role: "status", hidden: true }); // the model runs, or why it cannot
    this.able = false;
    this.turns = el("div", { class: "mv-edit", role: "group", "aria-label": TEXT.changes }, this.undo, this.redo);
    this.error = errorLine();
    this.size = el("label", { class: "mv-size" }, `${TEXT.size} `, this.radius);
    this.tools.append(...this.toolButtons.values(), this.size);
    this.root = el("details", { class: "mv-whatif" },
      el("summary", {}, TEXT.whatIf), this.hint, this.tools, this.naming.root, this.object, this.frame, this.error,
      this.turns, this.where, this.done);
    stage.tools.append(this.root);
    this.watchCanvas(stage.canvas);
  }

  // Asks what a new object is called, once its box is drawn.
  prompt() {
    const name = el("input", { type: "text", dir: "auto", "aria-label": TEXT.nameOfTheNewObject });
    const root = el("form", {
      class: "mv-edit mv-naming", hidden: true, "aria-label": TEXT.newObject,
      on: {
        submit: (/** @type {Event} */ e) => { e.preventDefault(); this.add(); },
        keydown: (/** @type {KeyboardEvent} */ e) => { if (e.key === "Escape") this.name(null); },
      },
    }, el("label", {}, `${TEXT.nameOfTheNewObject} `, name),
    el("button", { type: "submit", class: "mv-button" }, TEXT.add), button(TEXT.cancel, () => this.name(null)));
    return { root, name };
  }

  /** @param {Box | null} box that is to be named; null: none is */
  name(box) {
    this.pending = box;
    const { root, name } = this.naming;
    root.hidden = box === null;
    this.draw();
    this.stage.draw();
    if (!box) return;
    name.value = `object ${1 + Math.max(0, ...this.state.loaded.tracks.map((t) => t.id))}`;
    name.maxLength = this.state.constants.edit.label;
    this.preview([[box[0], box[1]], [box[2], box[3]]], "box");
    name.focus();
    name.select();
  }

  add() {
    const label = this.naming.name.value.trim();
    if (!this.pending || !label) return;
    const box = this.pending;
    this.name(null);
    this.edit({ kind: "add", label, box });
  }

  /** @param {Edit} change */
  edit(change) {
    this.send({ do: "edit", edit: change });
  }

  /** @param {Trace} trace */
  load(trace) {
    const { cannot } = this.state.host;
    const why = trace.unavailable.change ?? "";
    this.able = this.state.can("edit") && !why;
    this.root.hidden = !(this.able || cannot || why) || trace.recorded || !trace.final || !(why || trace.answers.macd);
    for (const part of [this.tools, this.object, this.frame, this.turns, this.done]) part.hidden = !this.able;
    this.tell("");
    this.hint.hidden = !this.able;
    if (this.root.hidden || !this.able) return;
    if (this.pending) this.name(null); // it was drawn on another state of the trace
    const { edits } = trace;
    if (this.before !== null && edits.length > this.before && edits[edits.length - 1].kind === "point") {
      this.before = null;
      this.state.track = trace.tracks.length - 1; // what was found is chosen: it can be named, masked or kept
      this.state.tool = null;
    }
    this.done.replaceChildren(...trace.edits.map((e) => el("li", {}, editText(trace, e))));
    this.busy(this.state.busy);
  }

  /** Beside the controls: how far a model in this page is, or where changes are computed. @param {string} message */
  tell(message) {
    const { cannot, megabytes } = this.state.host;
    const why = this.state.trace?.unavailable.change;
    this.where.textContent = message || (why && unavailableText(why)) || cannot || (megabytes ? computedHere(megabytes) : "");
    this.where.hidden = !this.where.textContent;
  }

  /** @param {boolean} now */
  busy(now) {
    if (!now) this.pointed = null;
    for (const control of all(this.root, "button, select, input")) {
      /** @type {HTMLButtonElement} */ (control).disabled = now;
    }
    const { trace } = this.state;
    this.undo.disabled = now || !trace?.previous;
    this.redo.disabled = now || !trace?.redo;
  }

  draw() {
    const { trace, track, frame, tool, contrast } = this.state;
    if (this.root.hidden || !this.able || !trace || !trace.final) return;
    const other = contrast && contrast.method !== "macd" ? contrast.title : "";
    for (const part of [this.object, this.frame, this.tools]) part.hidden = other !== "";
    if (other) {
      this.hint.textContent = editsOfMacd(other);
      return;
    }
    const chosen = track === null ? null : trace.tracks[track];
    this.hint.textContent = this.pending ? TEXT.theNewObjectNeedsAName : tool ? HINTS[tool] : chosen
      ? TEXT.runAgainHint
      : isPicture(trace) ? TEXT.chooseObjectOrRest : TEXT.chooseObjectOrFrames;
    const key = JSON.stringify([trace.run, track, chosen && chosen.label, trace.tracks.length, trace.final.level]);
    if (key !== this.drawnFor) {
      this.drawnFor = key;
      this.object.replaceChildren(...(chosen && track !== null ? this.objectControls(trace, chosen, trace.final.level[track]) : []));
    }
    this.drawFrames(trace, frame);
    for (const [name, button] of this.toolButtons) {
      button.setAttribute("aria-pressed", String(tool === name));
      button.hidden = ((name === "draw" || name === "erase") && !chosen) || (name === "point" && !this.state.can("point"));
    }
    this.size.hidden = tool !== "draw" && tool !== "erase";
    this.stage.canvas.classList.toggle("mv-tool", this.state.isDrawing);
    this.stage.canvas.classList.toggle("mv-clicks", tool === "click" || tool === "point");
    if (this.pointed) this.mark(this.pointed);
    if (this.pending) this.preview([[this.pending[0], this.pending[1]], [this.pending[2], this.pending[3]]], "box");
    this.busy(this.state.busy);
  }

  /** @param {number} now @param {(level: number) => void} change */
  levels(now, change) {
    const { levels, r0 } = this.state.loaded;
    return el("span", { class: "mv-segments", role: "group", "aria-label": TEXT.level },
      levels.map(({ value, name }) => {
        const level = value ?? r0;
        return button(`${level} ${name}`, () => { if (level !== now) change(level); }, { "aria-pressed": String(now === level) });
      }));
  }

  /** @param {Trace} trace @param {Track} chosen @param {number} level */
  objectControls(trace, chosen, level) {
    const name = el("input", { type: "text", dir: "auto", maxlength: this.state.constants.edit.label, value: chosen.label, "aria-label": TEXT.nameOfTheObject });
    name.value = chosen.label;
    name.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && name.value.trim()) this.edit({ kind: "label", track: chosen.id, label: name.value.trim() });
    });
    const others = trace.tracks.filter((t) => t !== chosen);
    const merge = el("select", { "aria-label": TEXT.mergeWith },
      el("option", { value: "" }, TEXT.mergeWithOption),
      others.map((t) => el("option", { value: t.id }, trackName(t))));
    merge.addEventListener("change", () => {
      if (merge.value) this.edit({ kind: "merge", track: chosen.id, other: Number(merge.value) });
    });
    const controls = [
      el("span", { class: "mv-edit-name" }, trackName(chosen)),
      this.levels(level, (other) => this.edit({ kind: "level", track: chosen.id, level: other })),
      name, merge, button(TEXT.drop, () => this.edit({ kind: "drop", track: chosen.id })),
    ];
    return others.length ? controls : controls.filter((control) => control !== merge);
  }

  /** @param {Trace} trace @param {number} frame */
  drawFrames(trace, frame) {
    const group = groupOf(trace, frame);
    const levels = trace.final ? trace.final.frame_level : [];
    this.frame.hidden = !levels.length || group < 0;
    const level = levels[group];
    const key = `${trace.run} ${group} ${level}`;
    if (this.frame.hidden || key === this.drawnFrames) return;
    this.drawnFrames = key;
    this.frame.replaceChildren(
      el("span", { class: "mv-edit-name" }, isPicture(trace) ? TEXT.outsideObjects : `frames ${frameNumbers(trace.groups[group])}`),
      this.levels(level, (chosen) => this.edit({ kind: "frames", track: group, level: chosen })));
  }

  /** @param {HTMLCanvasElement} canvas */
  watchCanvas(canvas) {
    /** @type {Point[] | null} */
    let line = null;
    /** @type {(e: PointerEvent) => Point} */
    const place = (e) => this.stage.toSource(e);
    canvas.addEventListener("pointerdown", (e) => {
      if (this.stage.zoom.fingers.size > 1) line = null; // two fingers zoom
      if (!this.state.isDrawing || this.state.busy || !e.isPrimary) return;
      if (this.pending) this.name(null);
      this.state.set({ playing: false }); // the stroke belongs to the frame it was begun on
      line = [place(e)];
      canvas.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!line || this.stage.zoom.fingers.size > 1) return;
      const at = place(e), last = line[line.length - 1];
      if (Math.hypot(at[0] - last[0], at[1] - last[1]) < Number(this.radius.value) / 4) return;
      line.push(at);
      this.stage.draw();
      this.preview(line);
    });
    canvas.addEventListener("pointerup", (e) => {
      if (!line) return;
      const drawn = [...line, place(e)].slice(0, this.state.constants.edit.points);
      line = null;
      this.commit(drawn);
    });
    canvas.addEventListener("click", (e) => {
      if (this.state.busy || this.stage.zoom.dragged) return;
      if (this.state.tool === "click") this.toggle(this.stage.under(e, true));
      if (this.state.tool === "point") this.segment(place(e));
    });
  }

  /** Asks for the object under a point of this frame. @param {Point} point */
  segment(point) {
    const { frame, loaded: { tracks, edits } } = this.state;
    this.state.set({ playing: false });
    this.send({ do: "point", frame, points: [point], label: `object ${1 + Math.max(0, ...tracks.map((t) => t.id))}` });
    [this.pointed, this.before] = [point, edits.length];
    this.mark(point);
  }

  /** Marks the point. @param {Point} point */
  mark([x, y]) {
    const context = contextOf(this.stage.canvas), area = this.stage.area();
    context.save();
    context.beginPath();
    context.arc(area.x + x * area.w, area.y + y * area.h, 7, 0, 2 * Math.PI);
    context.fillStyle = "#ffffff";
    context.strokeStyle = "#111111";
    context.lineWidth = 3;
    context.fill();
    context.stroke();
    context.restore();
  }

  /** Masks an object, or keeps it where it is masked already. @param {number | null} k */
  toggle(k) {
    const { trace } = this.state;
    if (k === null || !trace || !trace.final) return;
    this.state.set({ track: k });
    const [lowest, , highest] = trace.levels.map(({ value }) => value ?? trace.r0);
    this.edit({ kind: "level", track: trace.tracks[k].id, level: trace.final.level[k] === highest ? lowest : highest });
  }

  /** @param {Point[]} line @param {Tool | null} tool */
  preview(line, tool = this.state.tool) {
    const { canvas } = this.stage;
    const context = contextOf(canvas);
    const area = this.stage.area();
    /** @type {(point: Point) => Point} */
    const at = ([x, y]) => [area.x + x * area.w, area.y + y * area.h];
    context.save();
    context.strokeStyle = tool === "erase" ? "#ffffffcc" : "#111111aa";
    context.lineJoin = context.lineCap = "round";
    if (tool === "box") {
      const [x0, y0] = at(line[0]), [x1, y1] = at(line[line.length - 1]);
      context.lineWidth = 3;
      context.strokeRect(x0, y0, x1 - x0, y1 - y0);
    } else {
      context.lineWidth = 2 * Number(this.radius.value) * Math.min(area.w, area.h);
      context.beginPath();
      for (const p of line) context.lineTo(...at(p));
      context.stroke();
    }
    context.restore();
  }

  /** @param {Point[]} line */
  commit(line) {
    const { tool, track, loaded: { tracks }, frame, constants: { edit: { side } } } = this.state;
    if (tool === "box") {
      const xs = line.map((p) => p[0]), ys = line.map((p) => p[1]);
      /** @type {Box} */
      const box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
      setTimeout(() => this.state.set({ tool: null }), 0); // the click that ends the drag picks nothing
      if (Math.min(box[2] - box[0], box[3] - box[1]) >= side) setTimeout(() => this.name(box), 0);
    } else if (track !== null) {
      this.edit({
        kind: "brush", track: tracks[track].id, frame, points: line,
        radius: Number(this.radius.value), erase: tool === "erase",
      });
    }
  }
}
