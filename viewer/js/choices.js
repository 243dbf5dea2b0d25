// @ts-check
// What other choices of objects would do: every subset of them as a lattice, by number of objects, with
// what each does to the answer, and MACD's own among them.

import { all, button, el, errorLine, scrolled } from "./dom.js";
import { copyButton } from "./help.js";
import { levelsAt } from "./masks.js";
import { replied } from "./controls.js";
import { changeOf, choiceLevel, choiceMarks, choiceName, choiceText, choicesCost, choicesReply, marginText, tryEveryChoice } from "./strings/controls.js";
import { HEADS, TEXT } from "./strings/labels.js";
import { replyText } from "./strings/verdict.js";

/** @import { ChoiceLayer, ChoiceMap, Edit, Send, Subset, Trace } from "./types" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

export class ChoicesPanel {
  /** @param {State} state @param {Send} send @param {Stage} stage */
  constructor(state, send, stage) {
    this.state = state;
    this.send = send;
    this.stage = stage;
    this.frames = true;
    /** @type {number | null} the place of the subset that is pointed at, and of the one that was clicked */
    this.pointed = null;
    /** @type {number | null} */
    this.chosen = null;
    /** @type {Edit[]} changes by hand that wait for the one before them */
    this.waiting = [];
    this.going = false; // whether one of them is being made
    this.changes = 0; // of a choice that is made the masks, in all
    this.edited = 0; // how many changes the trace has once the one that goes on is made
    this.run = ""; // whose they are
    this.ask = button("", () => send({ do: "choices" }));
    this.reply = el("p", { class: "mv-reply" });
    this.sentence = el("p", { class: "mv-choices-text" });
    this.halves = el("div", { class: "mv-segments", role: "group", "aria-label": TEXT.frameMaskOf });
    this.lattice = el("div", {
      class: "mv-lattice", role: "group", "aria-label": TEXT.choicesLattice,
      on: {
        keydown: (/** @type {KeyboardEvent} */ e) => this.key(e),
        mouseleave: () => this.point(null),
        focusout: () => this.point(null),
      },
    });
    this.told = el("p", { class: "mv-choice-told", role: "status" });
    this.adopt = button(TEXT.maskTheseObjects, () => this.maskThese());
    this.copy = el("span", {});
    this.table = el("details", { class: "mv-choice-table" });
    this.cost = el("p", { class: "mv-note" });
    this.error = errorLine();
    this.stale = [0, 1].map(() => el("p", { class: "mv-note mv-stale-note", hidden: true })); // in the box, and deeper
    this.found = el("div", {}, this.halves, this.lattice, this.told,
      el("div", { class: "mv-edit" }, this.adopt, this.copy), el("p", { class: "mv-note" }, TEXT.choicesNote), this.table);
    this.root = el("section", { class: "mv-choices", "data-part": "choices", "aria-label": TEXT.everyChoice },
      el("h3", {}, TEXT.everyChoice), this.stale[0], this.reply, this.ask, this.error);
    /** Each choice as a box, which stands deeper than what they come to. */
    this.more = el("section", { class: "mv-choices mv-choices-each", "aria-label": TEXT.eachChoice },
      el("h3", {}, TEXT.eachChoice), this.stale[1], this.sentence, this.found, this.cost);
    stage.overlays.push((context) => this.paint(context));
  }

  /** @param {Trace} trace */
  load(trace) {
    const { choice_map: map, choices, choices_views: views } = trace;
    const able = this.state.can("choices") && views !== null;
    this.root.hidden = !map && !able;
    if (!this.state.running) this.going = false;
    const reply = map ? choicesReply(map) : replyText({ reply: "cannot be said", reason: TEXT.notMeasured, measured: false });
    this.reply.replaceChildren(...replied(reply));
    this.ask.hidden = Boolean(map) || !able;
    this.ask.textContent = tryEveryChoice(trace.tracks.length, this.state.constants.most_mapped, views ?? 0, trace.choices_ms);
    if (!this.going) this.cost.textContent = map ? choicesCost(map, trace.tracks) : "";
    this.pointed = this.chosen = null;
    this.stage.previews = false;
    if (map && choices) {
      this.copy.replaceChildren(copyButton(choices.verdict, TEXT.copyVerdict));
      this.build();
    }
    this.goOn(trace);
    this.more.hidden = !map && !this.going; // how far the changes are is told where they were begun
    this.found.hidden = this.sentence.hidden = !map;
  }

  /** @param {Trace} trace */
  measured({ choice_map: map }) {
    return map;
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = this.adopt.disabled = now;
  }

  /** The half of the map that is on show. @returns {ChoiceLayer | null} */
  get layer() {
    const { trace } = this.state, layers = trace?.choices?.layers ?? [];
    return layers.find(({ frames }) => frames === this.frames) ?? layers[0] ?? null;
  }

  /** The subset that is told: the one pointed at, the one clicked, MACD's, or the best. @param {ChoiceLayer} layer */
  toldOf(layer) {
    return this.looked ?? layer.macd ?? layer.places[layer.ranks.indexOf(1)] ?? layer.places[0];
  }

  /** @param {ChoiceLayer} layer @param {number} place */
  text(layer, place) {
    const { loaded: trace } = this.state, subset = subsetOf(trace, place);
    return choiceText(subset, choiceName(subset.objects, trace.tracks), layer.ranks[layer.places.indexOf(place)],
      layer.places.length, trace.answers.baseline?.text ?? "", this.marks(layer, place));
  }

  /** Whose choice a subset is, as far as that is known. @param {ChoiceLayer} layer @param {number} place */
  marks(layer, place) {
    return [...(place === layer.macd ? [TEXT.macd] : []), ...choiceMarks(layer.marks, place)];
  }

  build() {
    const { loaded: trace } = this.state, { layer } = this;
    if (!layer) return;
    const layers = trace.choices?.layers ?? [];
    this.halves.hidden = layers.length < 2;
    this.halves.replaceChildren(...layers.map(({ frames }) => button(frames ? TEXT.withFrameMask : TEXT.withoutFrameMask,
      () => this.show(frames), { "aria-pressed": String(frames === layer.frames) })));
    this.sentence.textContent = layer.sentence;
    const widest = Math.max(...layer.places.map((place) => Math.abs(subsetOf(trace, place).margin ?? 0)), 1e-9);
    const sizes = [...new Set(layer.places.map((place) => subsetOf(trace, place).objects.length))];
    this.lattice.replaceChildren(...sizes.map((size) => el("div", { class: "mv-lattice-row" },
      el("span", { class: "mv-lattice-size" }, choiceLevel(size)),
      el("div", { class: "mv-lattice-nodes" }, layer.places.filter((place) => subsetOf(trace, place).objects.length === size)
        .map((place) => this.node(layer, place, widest))))));
    this.table.replaceChildren(el("summary", {}, TEXT.choicesAsTable), this.rows(trace, layer));
    this.tell();
  }

  /** @param {ChoiceLayer} layer @param {number} place @param {number} widest the largest margin, whatever its sign */
  node(layer, place, widest) {
    const { objects, margin, flips } = subsetOf(this.state.loaded, place);
    return el("button", {
      type: "button", "data-place": place, "aria-label": this.text(layer, place), "aria-pressed": "false",
      class: `mv-choice${flips ? " mv-choice-flips" : ""} ${(margin ?? -1) > 0 ? "mv-choice-more" : "mv-choice-less"}`,
      style: { "--share": Math.abs(margin ?? widest) / widest },
      on: {
        click: () => this.choose(place),
        mouseenter: () => this.point(place),
        focus: () => this.point(place),
      },
    }, objects.join(" ") || TEXT.noObjectShort, this.marks(layer, place).map((mark) => el("small", { class: "mv-choice-mark" }, mark)));
  }

  /** @param {Trace} trace @param {ChoiceLayer} layer */
  rows(trace, layer) {
    const order = layer.places.map((_, i) => i).sort((a, b) => layer.ranks[a] - layer.ranks[b]);
    return scrolled(TEXT.choicesTable, "mv-table", el("table", {},
      el("thead", {}, el("tr", {}, HEADS.choices.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, order.map((i) => {
        const { objects, margin, answer } = subsetOf(trace, layer.places[i]);
        const name = choiceName(objects, trace.tracks), marks = this.marks(layer, layer.places[i]);
        return el("tr", {}, el("td", {}, layer.ranks[i]),
          el("th", { scope: "row" }, marks.length ? `${name} (${marks.join(", ")})` : name),
          el("td", {}, marginText(margin)), el("td", {}, answer ?? trace.answers.baseline?.text));
      }))));
  }

  /** @param {boolean} frames */
  show(frames) {
    this.frames = frames;
    this.pointed = this.chosen = null;
    this.build();
    this.shown();
    for (const half of all(this.halves, "[aria-pressed=true]")) half.focus();
  }

  /** @param {number | null} place */
  point(place) {
    if (place === this.pointed) return;
    this.pointed = place;
    this.shown();
  }

  /** @param {number} place */
  choose(place) {
    this.chosen = this.chosen === place ? null : place;
    this.shown();
  }

  /** Another subset is looked at: here and on the picture, and nowhere else. */
  shown() {
    this.stage.previews = this.looked !== null;
    this.tell();
    this.stage.draw();
  }

  /** The subset whose masks are on the picture. */
  get looked() {
    return this.pointed ?? this.chosen;
  }

  tell() {
    const { layer } = this, { loaded: trace } = this.state;
    if (!layer) return;
    const place = this.toldOf(layer);
    this.told.textContent = this.text(layer, place);
    for (const node of all(this.lattice, ".mv-choice")) {
      const own = Number(node.dataset.place);
      node.setAttribute("aria-pressed", String(own === this.chosen));
      node.tabIndex = own === place ? 0 : -1; // one stop for Tab; arrows move within
    }
    const ours = layer === trace.choices?.layers[0]; // the other half has another frame mask
    this.adopt.hidden = !ours || !this.state.can("edit") || Boolean(trace.unavailable.change) || this.chosen === null || !this.edits(trace, subsetOf(trace, this.chosen)).length;
  }

  /** Arrows move between the boxes: within a row, and to the row above or below. @param {KeyboardEvent} event */
  key(event) {
    const nodes = [...all(this.lattice, ".mv-choice")], at = nodes.indexOf(/** @type {HTMLElement} */ (event.target));
    if (at < 0 || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation(); // the viewer's arrows move through the frames
    const rows = [...all(this.lattice, ".mv-lattice-nodes")].map((row) => [...all(row, ".mv-choice")]);
    const row = rows.findIndex((row) => row.includes(nodes[at])), column = rows[row].indexOf(nodes[at]);
    const other = rows[row + (event.key === "ArrowDown" ? 1 : -1)];
    const to = event.key === "ArrowRight" ? nodes[at + 1] : event.key === "ArrowLeft" ? nodes[at - 1]
      : other && other[Math.min(other.length - 1, column)];
    to?.focus();
  }

  // The masks that are pointed at, on the picture.
  /** @param {CanvasRenderingContext2D} context */
  paint(context) {
    const place = this.looked;
    if (place === null || this.more.hidden || context.canvas !== this.stage.canvas) return; // beside it are MACD's masks
    const { loaded: trace, frame } = this.state, { objects, frames } = subsetOf(trace, place);
    const masks = this.stage.masks(frame), outside = frames ? levelsAt(trace, frame, null).frame : 0;
    const shown = masks.objects.filter((mask, k) => mask && objects.includes(trace.tracks[k].id));
    if (!shown.length && !outside) return;
    this.stage.painter.dim(context, (i) => shown.reduce((sum, mask) => sum + (mask ? mask[i] : 0), outside * masks.outside[i]));
  }

  // Changes by hand

  /** What makes the subset the masks: a change for each object at another level. @param {Trace} trace @param {Subset} subset @returns {Edit[]} */
  edits(trace, { objects }) {
    const { final } = trace;
    return trace.tracks.flatMap(({ id }, k) => {
      const level = objects.includes(id) ? 1 : 0;
      return !final || final.level[k] === level ? [] : [{ kind: /** @type {const} */ ("level"), track: id, level }];
    });
  }

  maskThese() {
    const { loaded: trace } = this.state;
    if (this.chosen === null) return;
    this.waiting = this.edits(trace, subsetOf(trace, this.chosen));
    [this.run, this.edited] = [trace.run, trace.edits.length];
    this.changes = this.waiting.length;
    this.goOn(trace);
  }

  /** A change was refused or stopped: those that wait for it are not made. */
  giveUp() {
    this.waiting = [];
  }

  /** Makes the next change that waits, once the trace has the one before. @param {Trace} trace */
  goOn(trace) {
    if (!this.waiting.length || this.state.running) return;
    if (trace.run !== this.run || trace.edits.length > this.edited) this.waiting = [];
    if (!this.waiting.length || trace.edits.length < this.edited) return; // an earlier state, told again
    const edit = this.waiting.shift();
    if (!edit) return;
    this.edited += 1;
    this.going = true;
    this.cost.textContent = changeOf(this.changes - this.waiting.length, this.changes);
    this.send({ do: "edit", edit });
  }
}

/** @param {Trace} trace @param {number} place in the map @returns {Subset} */
function subsetOf(trace, place) {
  return /** @type {ChoiceMap} */ (trace.choice_map).subsets[place];
}
