// @ts-check
// The ascent, step by step: how far each strength has moved from r0, the level it would become, and the
// query loss. Moving along it shows the masks of that step on the picture. A single step is drawn as arrows.

import { all, button, el } from "./dom.js";
import { decimals, plot, polyline, scalesOf, setAttributes, svg, textWidth, ticksOf } from "./plots.js";
import { hasLevelsOf } from "./state.js";
import { end, framesCount, groupRows, lossRange, lossTicks, objectRows, rangeOf, shortened, spread, stepTicks, tagText, textOfStep, tickText } from "./step-rows.js";
import { everyLabel, lossSummary, stepName, strengthSummary, switchText, tauText } from "./strings/ascent.js";
import { TEXT } from "./strings/labels.js";
import { levelIndex, levelValue, trackName } from "./strings/parts.js";

/** @import { Frame, Scales } from "./plots.js" */
/** @import { State } from "./state.js" */
/** @import { Row } from "./step-rows.js" */
/** @import { Trace } from "./types" */

/** @typedef {{ row: Row, path: SVGElement, tag: SVGElement | null, scales: Scales, line: boolean, label?: SVGElement, kept?: boolean }} Drawn label: the tag with its colour; kept: it is shown whatever is chosen */

const PAUSE_MS = 600, CALM_PAUSE_MS = 1500; // between two steps while playing
const TAG_PX = 13, TAG_WIDTH = 68; // height of a tag, and least width of one
const NARROW = 480; // a plot with less width has no room for names
const SWATCH = 8; // side of a tag's colour
const LANE_TAG = 104; // least room at the right of a plot
const TICKS = 62; // and at the left
const BESIDE = 8, LEADER = 10; // pixels between a line and its tag, and of them those that join both
const BOLD = 600; // weight of a tag
/** At the least height of what is seen, and with room. */
const HEIGHTS = { objects: [112, 168], frames: [40, 56], loss: [92, 92] };

export class Steps {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    this.playing = false;
    this.shownAt = 0;
    this.drawn = "";
    /** @type {Trace | null} whose rows these are */
    this.builtOf = null;
    /** @type {Drawn[]} */
    this.rows = [];
    /** @type {SVGElement[]} */
    this.cursors = [];
    this.width = 0;
    this.right = LANE_TAG; // of every plot, so that a step lies at one place in all
    this.left = TICKS; // likewise
    this.play = button("", () => this.toggle(), { class: "mv-play" });
    this.slider = el("input", {
      type: "range", min: 0, value: 0, class: "mv-scrub", "aria-label": TEXT.ascentStep,
      on: { input: () => this.move(Number(this.slider.value)) },
    });
    this.name = el("output", { class: "mv-step-name" });
    this.scale = el("span", { class: "mv-note" });
    this.every = false; // whether each line has its label, for which the plot grows
    this.everyButton = button("", () => { this.every = !this.every; this.build(); this.draw(); }, { class: "mv-button mv-every", hidden: true });
    this.plots = el("div", { class: "mv-step-plots" });
    this.root = el("section", { class: "mv-steps", "data-part": "trajectory", "aria-label": TEXT.theAscentByStep },
      el("div", { class: "mv-steps-head" }, el("h3", {}, TEXT.strengthTrajectory), this.scale, this.everyButton),
      this.plots, el("div", { class: "mv-transport" }, this.play, this.slider, this.name));
    this.text = el("p", { class: "mv-note mv-step-text" });
    this.loss = el("div", {});
    /** What is read below the first screen: the strengths in words, and the query loss. */
    this.more = el("section", { class: "mv-steps-more", "aria-label": TEXT.queryLossByStep }, this.text, this.loss);
    new ResizeObserver(() => this.resize()).observe(this.plots);
    addEventListener("resize", () => this.resize());
  }

  /** How many steps the ascent took; the place after the last is its end. */
  get last() {
    return this.state.loaded.steps.length;
  }

  load() {
    const { loaded: trace } = this.state;
    this.root.hidden = this.more.hidden = !trace.steps.length || !trace.final;
    this.drawn = "";
    this.every = false;
    if (this.root.hidden) return;
    this.slider.max = String(this.last);
    this.build();
  }

  // Text keeps its size in a plot that is as wide as its place.
  resize() {
    const width = this.plots.clientWidth;
    if (!this.state.trace || this.root.hidden || !width || this.size() === this.built) return;
    this.build();
    this.draw();
  }

  size() {
    return `${this.plots.clientWidth} ${innerHeight}`;
  }

  build() {
    const { loaded: trace } = this.state;
    this.built = this.size();
    this.width = Math.max(240, this.plots.clientWidth || 640);
    this.drawn = "";
    this.rows = [];
    this.cursors = [];
    this.builtOf = trace;
    this.everyButton.hidden = true;
    const objects = objectRows(trace), groups = groupRows(trace);
    const texts = [...ticksOfRows(objects, "objects", trace.tau), ...groups.length ? ticksOfRows(groups, "frames", trace.tau) : [], ...lossTicks(trace)];
    this.left = Math.max(TICKS, 10 + Math.ceil(Math.max(...texts.map(([, text]) => textWidth(text, this.plots)))));
    const shown = [objects.length || !groups.length ? this.strengthPlot(trace, objects, "objects") : null,
      groups.length ? this.strengthPlot(trace, groups, "frames") : null];
    this.plots.replaceChildren(...shown.filter((part) => part !== null));
    this.loss.hidden = this.last < 2; // a loss alone is told in words
    if (!this.loss.hidden) this.loss.replaceChildren(this.lossPlot(trace));
    this.scale.textContent = tauText(trace.r0, trace.tau, trace.approximate, groups.length > 1 ? trace.frame_fraction : null);
  }

  /** Shows the masks before a step; `last` is the end of the ascent. @param {number} step */
  move(step) {
    const { state, last } = this;
    const at = Math.max(0, Math.min(last, step));
    const layers = state.step === null && at < last ? { ...state.layers, levels: true } : state.layers;
    state.set({ step: at < last ? at : null, layers });
  }

  /** @param {number} way -1 or 1 */
  by(way) {
    if (this.root.hidden) return;
    this.playing = false;
    this.move((this.state.step ?? this.last) + way);
  }

  toggle() {
    if (this.root.hidden) return;
    this.playing = !this.playing;
    this.shownAt = performance.now();
    if (this.playing && this.state.step === null) this.move(0);
    else this.state.set({});
  }

  /** @param {number} now milliseconds */
  tick(now) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!this.playing || now - this.shownAt < (calm ? CALM_PAUSE_MS : PAUSE_MS)) return;
    this.shownAt = now;
    const next = (this.state.step ?? this.last) + 1;
    this.playing = next < this.last;
    this.move(next);
  }

  draw() {
    const { loaded: trace, step, contrast, track, hover } = this.state;
    if (!trace.steps.length || !trace.final || this.builtOf !== trace) return; // another part draws while this one is not loaded yet
    this.root.hidden = this.more.hidden = !hasLevelsOf(trace, contrast);
    const key = `${step} ${this.playing} ${track} ${hover}`;
    if (this.root.hidden || key === this.drawn) return;
    this.drawn = key;
    const at = step ?? this.last;
    this.slider.value = String(at);
    this.play.textContent = this.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", this.playing ? TEXT.pauseTheAscent : TEXT.playTheAscent);
    this.name.textContent = stepName(at, this.last, step === null ? trace.final.loss : trace.steps[step].loss);
    this.text.textContent = textOfStep(trace, step);
    this.slider.setAttribute("aria-valuetext", `${this.name.textContent}. ${this.text.textContent}`);
    const chosen = hover ?? track;
    for (const drawn of this.rows) {
      drawUpTo(drawn, at);
      const { row, path, tag } = drawn;
      const away = chosen !== null && row.track !== null && row.track !== chosen;
      for (const part of [path.parentElement, tag]) part?.classList.toggle("mv-away-line", away);
      if (tag) tag.textContent = tagText(trace, row, at, tag.dataset.name ?? "");
      // the last place is for the label of an object that is pointed at or chosen
      drawn.label?.toggleAttribute("hidden", !drawn.kept && row.track !== chosen);
      path.classList.toggle("mv-line-masked", levelIndex(trace.levels, row.levels[at]) > 0);
    }
    for (const cursor of this.cursors) {
      const { x } = /** @type {any} */ (cursor).scales;
      setAttributes(cursor, { x1: x(at), x2: x(at) });
    }
    for (const count of all(this.plots, ".mv-frames-count")) count.textContent = framesCount(trace, groupRows(trace), at);
  }

  /**
   * Strength − r0 of the objects or of the frame groups: lines over the steps, or an arrow for each
   * where there was one step.
   * @param {Trace} trace @param {Row[]} rows @param {"objects" | "frames"} kind
   */
  strengthPlot(trace, rows, kind) {
    const { last, width } = this, arrows = last < 2, small = kind === "frames";
    const usual = between(HEIGHTS[kind]), few = small || arrows || rows.length * TAG_PX <= usual - 24;
    const height = few || !this.every ? usual : rows.length * TAG_PX + 34;
    const band = small ? null : trace.tau, [low, high] = rangeOf(rows, band);
    const capacity = Math.max(1, Math.floor((height - 24) / TAG_PX));
    const named = few || width >= NARROW;
    if (!small) {
      this.right = Math.max(LANE_TAG, this.countWidth(trace), arrows ? 0 : this.tagWidth(trace, rows, named));
      this.everyButton.hidden = few;
      this.everyButton.textContent = everyLabel(rows.length);
      this.everyButton.setAttribute("aria-pressed", String(this.every));
    }
    const { right, left } = this;
    /** @type {Frame} */
    const frame = {
      label: small ? TEXT.frameStrengths : strengthSummary(trace, trace.final?.strength ?? []), size: [width, height],
      margins: [10, arrows && !small ? 12 : right, small ? 6 : arrows ? 18 : 20, left],
      x: arrows ? [-0.5, Math.max(1, rows.length) - 0.5] : [0, last], y: [low, high],
      ticks: { y: ticksOfRows(rows, kind, trace.tau), x: arrows || small ? [] : stepTicks(last, width - left - right) },
      attributes: { "data-plot": kind },
    };
    const root = plot(frame, (scales) => [
      ...deadBand(frame, scales, band, [low, high]),
      svg("line", { class: "mv-zero", x1: left, x2: width - frame.margins[1], y1: scales.y(0), y2: scales.y(0) }),
      ...rows.map((row, i) => this.row(trace, row, i, frame, scales)),
      ...(arrows || small ? [] : this.tags(trace, rows, frame, scales, named, capacity)),
      ...(small ? [svg("text", { x: width - right + 8, y: height / 2 - 3 }, TEXT.frames),
        svg("text", { class: "mv-line-tag mv-frames-count", x: width - right + 8, y: height / 2 + 11 })] : []),
    ]);
    if (!rows.length) root.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, TEXT.noObjectsToDraw));
    if (!arrows) this.scrubs(root, frame);
    return root;
  }

  /** @param {Trace} trace @param {Row} row @param {number} i @param {Frame} frame @param {Scales} scales */
  row(trace, row, i, frame, scales) {
    const { state } = this, { track } = row, arrow = this.last < 2;
    const group = svg("g", { class: track === null ? "mv-line-group mv-line-frames" : "mv-line-group", ...(track === null ? { "data-group": i } : { "data-track": track }) });
    const style = row.colour ? `--object: ${row.colour}` : "";
    /** @type {SVGElement | null} */
    let tag = null;
    const path = arrow ? svg("path", { class: "mv-line mv-arrow-line", style, "data-end": row.values[row.values.length - 1] })
      : polyline([], scales, { class: "mv-line", style, "stroke-dasharray": row.dash });
    if (!arrow) {
      group.append(polyline(row.values.map((v, n) => [n, v]), scales, { class: "mv-line mv-line-whole", style, "stroke-dasharray": row.dash }));
      if (track !== null) group.append(...switches(trace, row, scales, style));
    }
    group.append(path);
    if (arrow && track !== null) {
      const wide = scales.x(1) - scales.x(0), level = `→ ${levelValue(row.levels[1])}`;
      const beside = wide > 64 && wide / 2 + frame.margins[1] > BESIDE + textWidth(level, this.plots, BOLD), full = trackName(trace.tracks[track]);
      const name = textWidth(full, this.plots) < wide - BESIDE ? full : String(trace.tracks[track].id);
      group.append(svg("text", { x: scales.x(i), y: frame.size[1] - 4, "text-anchor": "middle" }, name));
      const end = row.values[1], up = end >= 0;
      const y = Math.max(10, Math.min(frame.size[1] - 20, scales.y(end) + (up ? -5 : 13)));
      tag = svg("text", { class: "mv-line-tag", x: scales.x(i) + (beside ? BESIDE : 0), y, "text-anchor": beside ? "start" : "middle", "data-name": beside ? "→ " : "" });
      group.append(tag);
    }
    if (track !== null) {
      group.addEventListener("mouseenter", () => state.set({ hover: track }));
      group.addEventListener("mouseleave", () => state.set({ hover: null }));
    }
    this.rows.push({ row, path, tag, scales: arrow ? { x: () => scales.x(i), y: scales.y } : scales, line: !arrow });
    return group;
  }

  /**
   * The level in which each line ends, joined to it. Where there are more lines than places, those that
   * are masked and have moved the farthest have theirs, and one place is left for whatever is chosen.
   * @param {Trace} trace @param {Row[]} rows @param {Frame} frame @param {Scales} scales
   * @param {boolean} named @param {number} capacity
   */
  tags(trace, rows, frame, scales, named, capacity) {
    const { size: [width, height], margins: [top, right, bottom] } = frame;
    const fits = rows.length <= capacity;
    const isMasked = (/** @type {number} */ i) => Number(levelIndex(trace.levels, rows[i].levels[this.last]) > 0);
    const farthest = rows.map((_, i) => i).sort((a, b) => isMasked(b) - isMasked(a) || Math.abs(end(rows[b])) - Math.abs(end(rows[a])));
    const kept = new Set(fits ? farthest : farthest.slice(0, Math.max(1, capacity - 1)));
    const order = [...kept].sort((a, b) => end(rows[b]) - end(rows[a]));
    const low = top + 2, high = Math.max(height - bottom, top + capacity * TAG_PX);
    const places = spread(order.map((i) => scales.y(end(rows[i]))), TAG_PX, low, fits ? high : high - TAG_PX);
    const left = width - right + BESIDE;
    return rows.map((row, i) => {
      const { track, colour } = row, rank = order.indexOf(i), y = rank < 0 ? high : places[rank];
      const name = named && track !== null ? shortened(trace.tracks[track].label) : "";
      const text = svg("text", { class: "mv-line-tag", x: left + LEADER + SWATCH + 3, y: y + 4, "data-name": name,
        ...(track === null ? {} : { "data-track": track }) });
      const label = svg("g", { class: "mv-line-label", style: `--object: ${colour}`, "data-label": track ?? "" },
        polyline([], scales, { class: "mv-leader", points: `${left - BESIDE},${scales.y(end(row)).toFixed(1)} ${left},${y} ${left + LEADER},${y}`, "stroke-dasharray": row.dash }),
        svg("rect", { x: left + LEADER, y: y - SWATCH / 2, width: SWATCH, height: SWATCH, rx: 1 }), text);
      Object.assign(this.rows[i], { tag: text, label, kept: rank >= 0 });
      if (track !== null) label.addEventListener("click", () => this.state.set({ track: this.state.track === track ? null : track }));
      return label;
    });
  }

  /** Room for the longest text of a tag, whichever step is shown. @param {Trace} trace @param {Row[]} rows @param {boolean} named */
  tagWidth(trace, rows, named) {
    const texts = rows.flatMap((row) => row.levels.map((_, at) => tagText(trace, row, at, row.track === null || !named ? "" : shortened(trace.tracks[row.track].label))));
    return 2 * BESIDE + LEADER + SWATCH + 3 + Math.ceil(Math.max(TAG_WIDTH, ...[...new Set(texts)].map((text) => textWidth(text, this.plots, BOLD))));
  }

  /** The widest count of masked frames, with the space before it. @param {Trace} trace */
  countWidth(trace) {
    const rows = groupRows(trace), steps = rows.length ? rows[0].levels.length : 0;
    const texts = Array.from({ length: steps }, (_, at) => framesCount(trace, rows, at));
    return BESIDE + Math.ceil(Math.max(0, ...[...new Set(texts)].map((text) => textWidth(text, this.plots, BOLD))));
  }

  /** Scrubbing a plot moves along the ascent. @param {SVGSVGElement} root @param {Frame} frame */
  scrubs(root, frame) {
    const scales = scalesOf(frame);
    const cursor = Object.assign(svg("line", { class: "mv-cursor", y1: 2, y2: frame.size[1] - frame.margins[2] }), { scales });
    this.cursors.push(cursor);
    root.append(cursor);
    root.classList.add("mv-scrubs");
    /** @type {(e: PointerEvent) => void} */
    const go = (e) => {
      const box = root.getBoundingClientRect(), x = ((e.clientX - box.left) / box.width) * frame.size[0];
      this.playing = false;
      this.move(Math.round(((x - scales.x(0)) / (scales.x(this.last) - scales.x(0))) * this.last));
    };
    root.addEventListener("pointerdown", (e) => {
      if (/** @type {Element} */ (e.target).closest(".mv-line-label")) return;
      root.setPointerCapture(e.pointerId);
      go(e);
    });
    root.addEventListener("pointermove", (e) => { if (e.buttons) go(e); });
  }

  /** @param {Trace} trace */
  lossPlot(trace) {
    const values = trace.steps.map((s) => s.loss), ended = trace.final?.loss ?? null, y = lossRange(trace), { width, last } = this;
    /** @type {Frame} */
    const frame = {
      label: lossSummary(values, ended), size: [width, HEIGHTS.loss[0]], margins: [8, this.right, 8, this.left], x: [0, last], y,
      ticks: { y: lossTicks(trace) }, attributes: { "data-plot": "loss" },
    };
    const root = plot(frame, (scales) => [polyline(values.map((v, i) => [i, v]), scales, { class: "mv-line mv-line-loss" }),
      // the end is another video: the masks at their levels
      ...(ended === null ? [] : [polyline([[last - 1, values[last - 1]], [last, ended]], scales, { class: "mv-line mv-line-loss", "data-end": ended, "stroke-dasharray": "2 4" }),
        svg("circle", { class: "mv-loss-end", cx: scales.x(last), cy: scales.y(ended), r: 3 })])]);
    this.scrubs(root, frame);
    return el("figure", { class: "mv-step-plot" }, el("figcaption", {}, TEXT.queryLossByStep), root);
  }
}

/** @param {Row[]} rows @param {"objects" | "frames"} kind @param {number} tau @returns {[number, string][]} */
function ticksOfRows(rows, kind, tau) {
  const small = kind === "frames", [low, high] = rangeOf(rows, small ? null : tau);
  const ticks = small ? [low, 0, high].filter((v, _, all) => v === 0 || Math.abs(v) > 0.4 * Math.max(...all.map(Math.abs)))
    : ticksOf(low, high, Math.max(3, Math.floor(between(HEIGHTS[kind]) / 32)));
  const digits = decimals(small ? [Math.max(high, -low) / 2] : ticks);
  return ticks.map((v) => [v, tickText(v, digits)]);
}

/** @param {number[]} heights at the least height of what is seen, and with room */
function between([least, most]) {
  return Math.round(Math.max(least, Math.min(most, least + (innerHeight - 720) * 0.32)));
}

/**
 * Where a strength stays partly masked: within τ of r0.
 * @param {Frame} frame @param {Scales} scales @param {number | null} tau @param {[number, number]} range
 */
function deadBand(frame, scales, tau, [low, high]) {
  if (!tau) return [];
  const { size: [width], margins: [, right, , left] } = frame;
  const [top, bottom] = [scales.y(Math.min(high, tau)), scales.y(Math.max(low, -tau))];
  return [svg("rect", { class: "mv-dead-band", x: left, y: top, width: width - left - right, height: Math.max(1, bottom - top) })];
}

/**
 * Dots where the level that a strength would become changes.
 * @param {Trace} trace @param {Row} row @param {Scales} scales @param {string} style
 */
function switches(trace, row, scales, style) {
  return row.levels.flatMap((level, n) => {
    const before = row.levels[n - 1], last = row.values.length - 1, byHand = row.byHand && n === last;
    if (!n || levelIndex(trace.levels, level) === levelIndex(trace.levels, before)) return [];
    const dot = svg("circle", { class: byHand ? "mv-switch mv-switch-by-hand" : "mv-switch", cx: scales.x(n), cy: scales.y(row.values[n]), r: 3.5, style });
    dot.append(svg("title", {}, switchText(trace.levels, before, level, n, last, byHand)));
    return [dot];
  });
}

/** What is drawn of a row at a step: the line so far, or the arrow once the step is done. @param {Drawn} drawn @param {number} at */
function drawUpTo({ row, path, scales, line }, at) {
  if (line) {
    path.setAttribute("points", row.values.slice(0, at + 1).map((v, i) => `${scales.x(i).toFixed(1)},${scales.y(v).toFixed(1)}`).join(" "));
    return;
  }
  const x = scales.x(0), from = scales.y(0), to = scales.y(row.values[1]), way = Math.sign(to - from);
  const head = Math.min(6, Math.abs(to - from));
  path.setAttribute("d", `M${x},${from} V${to} m-4,${-way * head} l4,${way * head} l4,${-way * head}`);
  path.parentElement?.classList.toggle("mv-not-yet", at < 1);
}

