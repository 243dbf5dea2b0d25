// @ts-check
// The figures next to the maps: shares of objects and frames, agreement, sanity check, knock-outs,
// and the token's probability after each layer.

import { all, el } from "./dom.js";
import { plot, polyline, svg } from "./plots.js";
import { fixed, percent, signed, visible } from "./text.js";

/** @import { Evidence, EvidenceMap, KnockOut, Lens, Trace } from "./types" */
/** @import { State } from "./state.js" */

export class EvidenceReport {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    this.shares = el("div", {});
    this.checks = el("div", {});
    this.knockOuts = el("ul", { class: "mv-knock-outs" });
    this.lens = el("figure", { class: "mv-lens" });
    this.root = el("div", { class: "mv-evidence-report" }, this.shares, this.checks, this.knockOuts, this.lens);
  }

  /**
   * @param {Trace} trace
   * @param {Evidence} evidence
   * @param {string} kind
   */
  build(trace, evidence, kind) {
    const maps = ["video", "counterfactual"].map((view) => evidence.maps.find((m) => m.kind === kind && m.view === view));
    const [video, counter] = maps;
    this.shares.replaceChildren(...(video ? [this.table(trace, video, counter)] : []));
    this.checks.replaceChildren(...checks(evidence, kind, maps, new Map(this.state.constants.kinds))
      .map((text) => el("p", { class: "mv-note" }, text)));
    this.knockOuts.hidden = !evidence.knock_outs.length;
    this.knockOuts.replaceChildren(...evidence.knock_outs.map((one) => el("li", {}, knockOutText(trace, one, evidence.target.against !== null))));
    this.lens.hidden = evidence.lens === null;
    if (evidence.lens) this.drawLens(evidence);
  }

  /**
   * @param {Trace} trace
   * @param {EvidenceMap} video
   * @param {EvidenceMap | undefined} counter
   */
  table(trace, video, counter) {
    /** @type {(name: string, of: (map: EvidenceMap) => number, choose: (() => void) | null, data: object) => HTMLElement} */
    const row = (name, of, choose, data) => {
      const [v, d] = [of(video), counter ? of(counter) : null];
      return el("tr", data,
        el("th", { scope: "row" }, choose ? el("button", { type: "button", class: "mv-link", on: { click: choose } }, name) : name),
        el("td", {}, percent(v)), el("td", {}, d === null ? "" : percent(d)),
        el("td", {}, d === null ? "" : `${signed(100 * (v - d), 1)}`));
    };
    const { state } = this;
    return el("div", { class: "mv-scroll mv-table", tabindex: "0", role: "region", "aria-label": "Shares of the map" },
      el("table", {},
        el("thead", {}, el("tr", {}, ["share of the map", "V", "V_d", "points more under V"].map((h) => el("th", { scope: "col" }, h)))),
        el("tbody", {},
          trace.tracks.map((t, k) => row(`${t.id} ${t.label}`, (m) => m.objects[k], () => state.set({ track: state.track === k ? null : k }), {})),
          trace.tracks.length ? row("outside all objects", (m) => m.outside, null, {}) : null,
          trace.groups.map((group, g) => row(framesText(group), (m) => m.groups[g],
            () => state.set({ frame: group[0], playing: false }), { "data-frames": group.join(" ") })))));
  }

  /**
   * Marks the row of the frames on show.
   *
   * @param {number} frame
   */
  mark(frame) {
    for (const row of all(this.shares, "[data-frames]")) {
      row.classList.toggle("mv-top", (row.dataset.frames || "").split(" ").includes(String(frame)));
    }
  }

  /** @param {Evidence} evidence */
  drawLens(evidence) {
    const { lens, target } = evidence;
    if (!lens) return;
    this.lens.replaceChildren(lensPlot(lens, visible(target.text)), el("figcaption", { class: "mv-note" },
      "Each layer's hidden state read out by the model's own head. Early layers were not trained to be read that way."));
  }
}

/**
 * The token's probability after each decoder layer, under both views.
 *
 * @param {Lens} lens
 * @param {string} token
 */
function lensPlot({ video, counterfactual }, token) {
  const n = video.length, every = Math.ceil(n / 8), down = `probability of ${token}`;
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

/** @param {number[]} group */
function framesText(group) {
  return group.length > 1 ? `frames ${group[0] + 1}–${group[group.length - 1] + 1}` : `frame ${group[0] + 1}`;
}

/** @param {number | null | undefined} value */
function correlation(value) {
  return value === null || value === undefined ? "not known" : signed(value);
}

/**
 * Sanity check and agreement, in sentences.
 *
 * @param {Evidence} evidence
 * @param {string} kind
 * @param {(EvidenceMap | undefined)[]} maps of the kind, under V and V_d
 * @param {Map<string, string>} names
 */
function checks(evidence, kind, maps, names) {
  const sanity = maps.map((m, i) => `${correlation(m?.sanity)} under ${["V", "V_d"][i]}`).join(", ");
  const out = [`Rank correlation with the map for a head of random weights: ${sanity}. Near 1, the map does not depend on the token.`];
  const agreement = evidence.agreement.filter((a) => a.first === kind || a.second === kind);
  const others = [...new Set(agreement.map((a) => (a.first === kind ? a.second : a.first)))];
  const agreements = others.map((other) => {
    /** @type {(view: string) => string} */
    const under = (view) => correlation(agreement.find((a) => a.view === view && (a.first === other || a.second === other))?.correlation);
    return `with ${(names.get(other) || other).toLowerCase()} ${under("video")} under V, ${under("counterfactual")} under V_d`;
  });
  return agreements.length ? [...out, `Agreement (rank correlation of magnitudes): ${agreements.join("; ")}.`] : out;
}

/**
 * @param {Trace} trace
 * @param {KnockOut} one
 * @param {boolean} lead whether the number is a lead over another candidate
 */
function knockOutText(trace, one, lead) {
  const track = trace.tracks.find((t) => t.id === one.track);
  const what = one.box ? `region ${one.box.join(", ")}` : track ? `${track.id} ${track.label}` : `object ${one.track}`;
  const layers = one.layers[0] === one.layers[1] ? `layer ${one.layers[0]}` : `layers ${one.layers[0]}–${one.layers[1]}`;
  return [
    el("strong", {}, `Without ${what}: `),
    `“${one.before}” → “${one.after}”${one.before === one.after ? " (the same)" : ""}; this token's probability `
    + `${percent(one.probability[0])} → ${percent(one.probability[1])}, ${lead ? "its lead" : "its logit"} ${fixed(one.score[0])} → ${fixed(one.score[1])}`
    + ` (${one.tokens} vision tokens, ${layers}).`,
  ];
}
