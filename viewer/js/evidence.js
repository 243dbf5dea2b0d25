// @ts-check
// Where the evidence for the chosen token lies: maps over the frames under V, V_d and their difference, and
// the figures next to them. What is stored in the trace needs no server.

import { AskEvidence } from "./ask-evidence.js";
import { all, button, contextOf, el, scrolled } from "./dom.js";
import { Heat, HEAT_VIEWS, paintBar } from "./heat.js";
import { plot, polyline, svg } from "./plots.js";
import { colourRange, curveLabel, evidenceChecks, evidenceText, faithfulText, knockOutText, lensName, measuredTokens, noEvidence, tokenName } from "./strings/evidence.js";
import { HEADS, TEXT } from "./strings/labels.js";
import { partName, trackName } from "./strings/parts.js";
import { LABELS } from "./strings/runs.js";
import { percent, signed } from "./text.js";

/** @import { Curves, Evidence, EvidenceMap, Faithful, FaithfulKind, KnockOut, Lens, Send, TokenStep, Trace } from "./types" */
/** @import { HeatView } from "./heat.js" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */

// The figures next to the maps: shares of objects and frames, agreement, sanity check, knock-outs,
// and the token's probability after each layer.

export class EvidenceReport {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    this.shares = el("div", {});
    this.checks = el("div", {});
    this.knockOuts = el("ul", { class: "mv-knock-outs" });
    this.lens = el("figure", { class: "mv-lens" });
    this.curves = el("figure", { class: "mv-lens" });
    this.root = el("div", { class: "mv-evidence-report" }, this.shares, this.checks, this.curves, this.knockOuts, this.lens);
  }

  /** @param {Trace} trace @param {Evidence} evidence @param {string} kind */
  build(trace, evidence, kind) {
    const maps = ["video", "counterfactual"].map((view) => evidence.maps.find((m) => m.kind === kind && m.view === view));
    const [video, counter] = maps;
    const hidden = kind === "attention" ? evidence.maps.find((m) => m.kind === "occlusion" && m.view === "video") : undefined;
    this.shares.replaceChildren(...(video ? [this.table(trace, video, counter, hidden)] : []));
    this.checks.replaceChildren(...evidenceChecks(evidence, kind, maps, new Map(this.state.constants.kinds))
      .map((text) => el("p", { class: "mv-note" }, text)));
    this.knockOuts.hidden = !evidence.knock_outs.length;
    this.knockOuts.replaceChildren(...evidence.knock_outs.map((one) => el("li", {}, knockOut(trace, one, evidence.target.against !== null))));
    this.curves.hidden = !evidence.faithful || !evidence.curves;
    if (evidence.faithful && evidence.curves) this.drawCurves(evidence.faithful, evidence.curves, kind);
    this.lens.hidden = evidence.lens === null;
    if (evidence.lens) this.drawLens(evidence);
  }

  /**
   * hidden: the map by hiding each object, whose shares stand beside those of attention.
   *
   * @param {Trace} trace @param {EvidenceMap} video @param {EvidenceMap | undefined} counter @param {EvidenceMap | undefined} hidden
   */
  table(trace, video, counter, hidden) {
    /** @type {(name: string, of: (map: EvidenceMap) => number, choose: (() => void) | null, data: object, isObject?: boolean) => HTMLElement} */
    const row = (name, of, choose, data, isObject = false) => {
      const [v, d] = [of(video), counter ? of(counter) : null];
      return el("tr", data,
        el("th", { scope: "row" }, choose ? button(name, choose, { class: "mv-link" }) : name),
        el("td", {}, percent(v)), el("td", {}, d === null ? "" : percent(d)),
        el("td", {}, d === null ? "" : `${signed(100 * (v - d), 1)}`),
        hidden ? el("td", {}, isObject ? percent(of(hidden)) : "–") : null); // nothing else was hidden alone
    };
    const { state } = this;
    return scrolled(TEXT.sharesOfTheMap, "mv-table",
      el("table", {},
        el("thead", {}, el("tr", {}, [...HEADS.shares, ...(hidden ? [TEXT.hiddenAlone] : [])].map((h) => el("th", { scope: "col" }, h)))),
        el("tbody", {},
          trace.tracks.map((t, k) => row(trackName(t), (m) => m.objects[k], () => state.set({ track: state.track === k ? null : k }), {}, true)),
          trace.tracks.length ? row(TEXT.outsideAllObjects, (m) => m.outside, null, {}) : null,
          trace.groups.map((group, g) => row(partName(group, trace), (m) => m.groups[g],
            () => state.set({ frame: group[0], playing: false }), { "data-frames": group.join(" ") })))));
  }

  /** Marks the row of the frames on show. @param {number} frame */
  mark(frame) {
    for (const row of all(this.shares, "[data-frames]")) {
      row.classList.toggle("mv-top", (row.dataset.frames || "").split(" ").includes(String(frame)));
    }
  }

  /** Insertion and deletion by the kind on show, and how all kinds score. @param {Faithful} faithful @param {Curves} curves @param {string} kind */
  drawCurves(faithful, curves, kind) {
    const names = new Map(this.state.constants.kinds);
    /** @type {(name: string) => string} */
    const titled = (name) => names.get(name) || name;
    const row = (/** @type {FaithfulKind} */ one) => el("tr", {},
      el("th", { scope: "row" }, titled(one.kind)), el("td", {}, one.deletion.toFixed(3)), el("td", {}, one.insertion.toFixed(3)),
      el("td", {}, signed(one.score, 3)), el("td", {}, percent(one.above)));
    this.curves.replaceChildren(curvesPlot(curves, kind, titled(kind)),
      scrolled(TEXT.faithfulness, "mv-table", el("table", {},
        el("thead", {}, el("tr", {}, HEADS.faithful.map((h) => el("th", { scope: "col" }, h)))),
        el("tbody", {}, faithful.kinds.map(row)))),
      el("figcaption", { class: "mv-note" }, faithfulText(faithful, titled)));
  }

  /** @param {Evidence} evidence */
  drawLens(evidence) {
    const { lens, target } = evidence;
    if (!lens) return;
    this.lens.replaceChildren(lensPlot(lens, target.text), el("figcaption", { class: "mv-note" },
      TEXT.lensNote));
  }
}

/**
 * @param {Trace} trace @param {KnockOut} one
 * @param {boolean} lead whether the number is a lead over another candidate
 */
function knockOut(trace, one, lead) {
  const [what, change] = knockOutText(trace.tracks, one, lead);
  return [el("strong", {}, what), change];
}

/** The token's probability after each decoder layer, under both views. @param {Lens} lens @param {string} token */
function lensPlot({ video, counterfactual }, token) {
  const n = video.length, every = Math.ceil(n / 8), down = lensName(token);
  const lines = [{ name: "V", values: video, dash: "none" }, { name: "V_d", values: counterfactual, dash: "5 4" }];
  const values = lines.map(({ name, values: row }) => `${name} ${row.map((v) => v.toFixed(3)).join(" ")}`).join("; ");
  return plot({
    label: `${down} after decoder layer: ${values}`, size: [400, 164], margins: [8, 60, 36, 40], x: [1, Math.max(2, n)], y: [0, 1],
    ticks: {
      x: video.flatMap((_, i) => (i % every ? [] : [[i + 1, String(i + 1)]])), y: [[0, "0"], [0.5, "0.5"], [1, "1"]],
    },
    names: { x: `after decoder layer · ${down}` },
  }, (scales) => lines.flatMap(({ name, values: row, dash }, k) => [
    polyline(row.map((v, i) => [i + 1, v]), scales, { class: `mv-plot-line${k ? " mv-plot-other" : ""}`, "stroke-dasharray": dash }, [0, 1]),
    svg("text", { class: k ? "mv-plot-other" : "", x: 346, y: 20 + 16 * k }, `${k ? "┄" : "─"} ${name}`),
  ]));
}

/** The token's probability while cells are hidden, and shown, in the order of a map. @param {Curves} curves @param {string} kind @param {string} name */
function curvesPlot({ shares, curves }, kind, name) {
  const mine = curves.find((one) => one.kind === kind), random = curves.filter((one) => one.kind === "random");
  /** @type {(values: number[]) => [number, number][]} */
  const points = (values) => values.map((v, i) => [shares[i], v]);
  const told = mine ? curveLabel(name, mine.deletion, mine.insertion) : TEXT.notScored;
  return plot({
    label: told, size: [400, 164], margins: [8, 84, 36, 40], x: [0, 1], y: [0, 1],
    ticks: { x: [[0, "0"], [0.5, "50 %"], [1, "100 %"]], y: [[0, "0"], [0.5, "0.5"], [1, "1"]] },
    names: { x: TEXT.cellsHiddenOrShown },
  }, (scales) => [
    ...random.flatMap(({ deletion, insertion }) => [deletion, insertion].map((values, k) =>
      polyline(points(values), scales, { class: `mv-plot-line mv-not-yet${k ? " mv-plot-other" : ""}` }, [0, 1]))),
    ...(mine ? [[mine.deletion, "─", TEXT.deletion], [mine.insertion, "┄", TEXT.insertion]].flatMap(([values, sign, words], k) => [
      polyline(points(/** @type {number[]} */ (values)), scales, { class: `mv-plot-line${k ? " mv-plot-other" : ""}`, "stroke-dasharray": k ? "5 4" : "none" }, [0, 1]),
      svg("text", { class: k ? "mv-plot-other" : "", x: 322, y: 20 + 16 * k }, `${sign} ${words}`),
    ]) : []),
  ]);
}

const SCREEN_SIDE = 240; // long side of the three pictures, in pixels

export class EvidencePanel {
  /** @param {State} state @param {Send} send @param {Stage} stage */
  constructor(state, send, stage) {
    this.state = state;
    this.stage = stage;
    this.kind = "";
    /** @type {HeatView} */
    this.view = "video";
    this.on = true;
    this.built = ""; // the token, and what was measured of it, that the panel was built for
    /** @type {Map<string, Heat>} */
    this.heats = new Map();
    this.words = el("p", { class: "mv-note" });
    this.kinds = el("select", { "aria-label": TEXT.kindOfMap, on: { change: () => { this.kind = this.kinds.value; this.again(); } } });
    this.views = el("span", { class: "mv-segments", role: "group", "aria-label": TEXT.mapOf },
      HEAT_VIEWS.map(([view, name]) => button(name, () => { this.view = view; this.again(); }, { "data-view": view })));
    this.toggle = button(TEXT.onThePicture, () => { this.on = !this.on; this.again(); }, { class: "mv-toggle" });
    this.opacity = el("input", {
      type: "range", min: 0.1, max: 1, step: 0.05, value: 0.7, "aria-label": TEXT.opacityOfTheMap,
      on: { input: () => state.set({}) },
    });
    this.bar = el("canvas", { class: "mv-colours", width: 160, height: 12, role: "img" });
    this.ends = el("span", { class: "mv-ends" });
    this.screens = HEAT_VIEWS.map(([view, name]) => ({
      view, canvas: el("canvas", { class: "mv-canvas", role: "img" }), caption: el("figcaption", {}, name),
    }));
    this.report = new EvidenceReport(state);
    this.ask = new AskEvidence(state, send, stage);
    this.error = this.ask.error;
    this.shown = el("div", { class: "mv-evidence-shown" },
      el("div", { class: "mv-edit" }, this.kinds, this.views, this.toggle,
        el("label", { class: "mv-size" }, `${TEXT.opacity} `, this.opacity)),
      el("div", { class: "mv-heats" }, this.screens.map(({ canvas, caption }) => el("figure", {}, canvas, caption))),
      el("div", { class: "mv-edit" }, this.bar, this.ends),
      this.report.root);
    this.root = el("details", { class: "mv-evidence" },
      el("summary", {}, TEXT.whereTheEvidenceLies), this.words, this.shown, this.ask.root);
    this.root.addEventListener("toggle", () => state.set({}));
    stage.overlays.push((context) => this.paint(context));
  }

  // Draws everything again, tables included.
  again() {
    this.built = "";
    this.state.set({});
  }

  /** @param {Trace} trace */
  load(trace) {
    this.heats.clear();
    this.built = "";
    this.ask.load(trace);
    this.root.hidden = !trace.evidence.length && !this.ask.able(trace);
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.busy(now);
    this.built = "";
    if (!now) this.draw(); // what cannot be pressed is not the same for every token
  }

  /** @returns {TokenStep | undefined} the chosen token */
  get step() {
    const { loaded, method, token } = this.state;
    return loaded.answers[method]?.tokens[token];
  }

  // What was measured of the chosen token; rather than the chosen candidate where that was.
  measured() {
    const { loaded, method, token } = this.state;
    const mine = loaded.evidence.filter(({ target }) => target.answer === method && target.index === token);
    return this.ask.choose(this.step, mine);
  }

  /** The maps of one kind, decoded once. @param {Evidence} evidence @param {string} kind */
  heat(evidence, kind) {
    const key = `${this.state.loaded.evidence.indexOf(evidence)} ${kind}`;
    const heat = this.heats.get(key) || new Heat(evidence, kind);
    this.heats.set(key, heat);
    return heat;
  }

  draw() {
    const { trace, method, token, track, frame } = this.state;
    if (this.root.hidden || !this.root.open || !trace) return;
    const evidence = this.measured();
    const at = evidence ? trace.evidence.indexOf(evidence) : -1;
    const key = [method, token, track, at, this.state.busy, this.kind, this.view, this.on, this.ask.marking].join(" ");
    if (key !== this.built) { // another frame changes only the pictures
      this.built = key;
      this.build(trace, evidence);
      this.ask.draw(this.step, evidence);
    }
    if (evidence) this.drawScreens(trace, evidence);
    this.report.mark(frame);
  }

  /** @param {Trace} trace @param {Evidence | undefined} evidence */
  build(trace, evidence) {
    const { method } = this.state;
    const step = this.step;
    this.shown.hidden = !evidence;
    const name = step ? tokenName(step.text, step.index, this.state.loaded.answers[method].title) : "";
    if (!evidence) {
      this.words.textContent = noEvidence(name, this.ask.able(trace), measuredTokens(trace));
      return;
    }
    const { target, score, maps } = evidence;
    this.words.textContent = evidenceText(name, target.against_text, score);
    const kinds = [...new Set(maps.map((m) => m.kind))];
    if (!kinds.includes(this.kind)) this.kind = kinds[0];
    const names = new Map(this.state.constants.kinds);
    this.kinds.replaceChildren(...kinds.map((kind) => el("option", { value: kind }, names.get(kind) || kind)));
    this.kinds.value = this.kind;
    for (const button of this.views.children) {
      button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.view === this.view));
    }
    this.toggle.setAttribute("aria-pressed", String(this.on));
    const heat = this.heat(evidence, this.kind);
    const isSigned = heat.signed(this.view);
    paintBar(this.bar, isSigned);
    this.ends.textContent = colourRange(shortNumber(heat.strongest), isSigned, this.kind === "attention");
    this.bar.setAttribute("aria-label", LABELS.colours(this.ends.textContent ?? ""));
    this.report.build(trace, evidence, this.kind);
  }

  /** @param {Trace} trace @param {Evidence} evidence */
  drawScreens(trace, evidence) {
    const { frame } = this.state;
    const [width, height] = trace.source, scale = SCREEN_SIDE / Math.max(width, height);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    const heat = this.heat(evidence, this.kind);
    for (const { view, canvas, caption } of this.screens) {
      if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
      const context = contextOf(canvas);
      context.clearRect(0, 0, w, h);
      const image = this.stage.image(trace.frames[frame]);
      if (image) context.drawImage(image, 0, 0, w, h);
      const shown = view === "counterfactual" ? trace.answers.macd?.second_views[0]?.shown : null;
      const behind = shown && trace.model?.frames.length ? this.stage.secondView(shown, frame) : null;
      if (behind && trace.model) {
        const [x0, y0, x1, y1] = trace.model.content;
        context.drawImage(behind, x0, y0, x1 - x0, y1 - y0, 0, 0, w, h);
      }
      heat.paint(context, view, frame, Number(this.opacity.value), { x: 0, y: 0, w, h });
      canvas.setAttribute("aria-label", LABELS.map(caption.textContent ?? "", frame));
    }
  }

  /**
   * The map over the large picture, and the region that is marked there.
   * @param {CanvasRenderingContext2D} context
   */
  paint(context) {
    if (this.root.hidden || !this.root.open) return;
    const area = this.stage.area();
    const evidence = this.on ? this.measured() : undefined;
    if (evidence && this.kind) {
      this.heat(evidence, this.kind).paint(context, this.view, this.state.frame, Number(this.opacity.value), area);
    }
    this.ask.paint(context, area);
  }
}

/** @param {number} value */
function shortNumber(value) {
  return value >= 0.01 ? value.toPrecision(2) : value.toExponential(1).replace("-", "−");
}
