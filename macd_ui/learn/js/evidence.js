// @ts-check
// Widgets of what the model sees: frames as tokens, an object that fades, effects of hiding, captions.

import { el } from "../../../viewer/js/dom.js";
import { fixed } from "../../../viewer/js/text.js";
import { withSymbols } from "./prose.js";
import { argmax } from "./score.js";
import { polyline, svg } from "../../../viewer/js/plots.js";
import { bars, chart, diverging, narrow, percent, signed } from "./plots.js";

/** @import { Fade, Frames, Lean, PartData, Place, Said, Word } from "./types" */

/**
 * Frames → patches → tokens → probabilities.
 *
 * @param {Place} place
 */
export function patches({ root, data, say, done }) {
  const clip = /** @type {Frames} */ (data["lesson-frames"]);
  const [groups, high, wide] = clip.grid;
  const seen = new Set();
  const picture = el("img", { alt: "", width: 288, height: 288 });
  const grid = el("div", { class: "ln-grid-over", "aria-hidden": "true", style: { "--columns": wide } },
    Array.from({ length: high * wide }, () => el("span", {})));
  const note = el("p", { class: "ln-note", role: "status" });
  const cells = clip.groups.map(() => el("span", { class: "ln-group" },
    Array.from({ length: high * wide }, () => el("i", {}))));
  const slider = el("input", {
    type: "range", min: 1, max: clip.frames.length, step: 1, value: 1, "aria-label": say("frame"), on: { input: draw },
  });
  const answer = el("div", {});
  root.append(el("div", { class: "ln-two" },
    el("div", {}, el("div", { class: "ln-picture" }, picture, grid),
      el("label", { class: "ln-slider" }, el("span", {}, say("frame")), slider), note),
    el("div", {},
      el("h3", {}, say("row_of_tokens")),
      el("div", { class: "ln-tokens", role: "img", "aria-label":
        `${say("vision_tokens", { n: groups * high * wide })}, ${say("question_tokens", { n: clip.tokens.length })}: ${clip.tokens.join(" ")}` },
      cells, clip.tokens.map((t) => el("span", { class: "ln-word" }, t))),
      el("p", { class: "ln-note" }, `${say("vision_tokens", { n: groups * high * wide })}, ${say("question_tokens", { n: clip.tokens.length })}`),
      el("h3", {}, say("next_token")), answer)));

  function draw() {
    const n = Number(slider.value);
    const group = clip.groups.findIndex((g) => g.includes(n - 1));
    picture.src = clip.frames[n - 1];
    slider.setAttribute("aria-valuetext", say("frame_of", { n, of: clip.frames.length }));
    note.textContent = `${say("frame_of", { n, of: clip.frames.length })} · ${say("grid", { n: group + 1, of: groups })}`;
    cells.forEach((cell, i) => {
      cell.className = `ln-group${i < group ? " ln-read" : i === group ? " ln-now" : ""}`;
    });
    const row = clip.rows[n - 1];
    const best = argmax(row);
    answer.replaceChildren(bars(clip.words.map((name, i) => ({
      name, value: row[i], kind: "video", top: i === best,
      note: name === clip.truth ? say("truth") : name === clip.usual ? say("usual") : "",
    })), say("next_token")));
    seen.add(n);
    if (seen.size === clip.frames.length) done();
  }
  draw();
}

/**
 * An object that fades; the answer is guessed before it shows.
 *
 * @param {Place} place
 */
export function fade({ root, data, say, done }) {
  const series = /** @type {Fade} */ (data["lesson-fade"]);
  const n = series.opacities.length;
  /** @type {Set<number>} */
  const shown = new Set();
  const label = say("opacity", { label: series.asked });
  const picture = el("img", { alt: "", width: 256, height: 256 });
  const slider = el("input", { type: "range", min: 0, max: n - 1, step: 1, value: 0, "aria-label": label, on: { input: draw } });
  const value = el("output", { class: "ln-number" });
  const ask = el("p", {}, say("fade_ask", { question: series.question }));
  const verdict = el("p", { class: "ln-note", role: "status" });
  const buttons = [true, false].map((yes) => el("button", {
    type: "button", class: "ln-button", on: { click: () => guess(yes) },
  }, say(yes ? "guess_yes" : "guess_no")));
  const curve = el("div", {});
  root.append(el("div", { class: "ln-two" },
    el("div", {}, el("div", { class: "ln-picture" }, picture),
      el("label", { class: "ln-slider" }, el("span", {}, label, " ", value), slider),
      ask, el("div", { class: "ln-buttons" }, buttons), verdict),
    curve));

  /** @param {boolean} yes */
  function guess(yes) {
    const i = Number(slider.value);
    shown.add(i);
    const says = series.together[i] >= 0.5;
    verdict.textContent = say("fade_guess", {
      opacity: percent(series.opacities[i]), label: series.companion, together: percent(series.together[i]),
      alone: percent(series.alone[i]), verdict: say(says === yes ? "guessed_right" : "guessed_wrong"),
    });
    draw();
    if (i === n - 1) done();
  }

  /** @param {Event} [event] */
  function draw(event) {
    const i = Number(slider.value);
    picture.src = series.pictures.together[i];
    value.textContent = percent(series.opacities[i]);
    slider.setAttribute("aria-valuetext", percent(series.opacities[i]));
    if (event) verdict.textContent = "";
    const at = [...shown].sort((a, b) => a - b);
    const words = at.map((j) => `${percent(series.opacities[j])}: ${percent(series.together[j])}, ${percent(series.alone[j])}`);
    curve.replaceChildren(
      chart({
        x: [0, n - 1], y: [0, 1], label: `${say("fade_plot")}. ${words.join("; ")}`, names: { x: label, y: say("p_yes") },
        ticks: {
          x: series.opacities.map((o, j) => [j, narrow() && j % 2 && j < n - 1 ? "" : percent(o)]),
          y: [[0, "0"], [0.5, "50 %"], [1, "100 %"]],
        },
      }, (where) => [
        svg("line", { x1: where.x(i), x2: where.x(i), y1: where.y(0), y2: where.y(1), class: "ln-cursor" }),
        ...(/** @type {[number[], string][]} */ ([[series.together, "video"], [series.alone, "counter"]])).flatMap(([row, kind]) => [
          polyline(at.map((j) => [j, row[j]]), where, { class: `ln-line ln-${kind}` }),
          ...at.map((j) => svg("circle", { cx: where.x(j), cy: where.y(row[j]), r: 4.5, class: `ln-dot ln-${kind}` })),
        ]),
      ]),
      el("p", { class: "ln-key" }, el("span", { class: "ln-sign ln-video" }), say("together", { label: series.companion }),
        el("span", { class: "ln-sign ln-counter ln-dashed" }), say("alone", { label: series.companion }),
        at.length ? null : el("em", {}, say("fade_none"))));
  }
  draw();
}

/**
 * Gradients first, then the measured effects.
 *
 * @param {Place} place
 */
export function lean({ root, step, data, say, done }) {
  const [role] = step.settings.roles;
  const row = /** @type {Lean | null} */ ((/** @type {PartData} */ (data[`part-${role}`])).lean);
  if (!row) {
    root.append(el("p", { class: "ln-note" }, say("lean_none")));
    done();
    return;
  }
  const levels = (/** @type {number} */ v) => say(v === 1 ? "hidden" : v === 0 ? "kept_level" : "partly");
  const top = Math.max(...row.gradient.map(Math.abs)), steepest = argmax(row.gradient);
  const inputs = row.labels.map((_, i) => el("input", { type: "radio", name: `lean-${role}`, value: i }));
  const effects = row.labels.map(() => el("span", { class: "ln-effect" }));
  const note = el("p", { class: "ln-result", role: "status" });
  const most = argmax(row.odds.map(Math.abs));
  const largest = Math.max(...row.odds.map(Math.abs));
  const button = el("button", { type: "button", class: "ln-button", on: { click: show } }, say("lean_show"));
  root.append(el("fieldset", { class: "ln-lean" }, el("legend", {}, `${say("object")}. ${say("lean_hint")}`),
    row.labels.map((label, i) => el("label", {}, inputs[i], el("b", {}, label),
      el("span", { class: "ln-effect" }, diverging(row.gradient[i], top, row.gradient[i] > 0 ? "video" : "counter"),
        el("small", {}, `${say("gradient")} ${signed(row.gradient[i], 3)} → ${levels(row.level[i])}`)),
      effects[i]))), button, note);

  function show() {
    const choice = inputs.findIndex((input) => input.checked);
    if (choice < 0) {
      note.textContent = say("lean_choose");
      return;
    }
    if (!row) return;
    effects.forEach((place, i) => place.replaceChildren(
      diverging(row.odds[i], largest, "strength"), el("small", {}, `${say("effect")} ${signed(row.odds[i])}`)));
    note.textContent = say(choice === most ? "lean_right" : "lean_wrong", { label: row.labels[most], choice: row.labels[choice] })
      + ` ${say(steepest === most ? "lean_agrees" : "lean_differs", { steepest: row.labels[steepest] })}`;
    inputs.forEach((input) => { input.disabled = true; });
    button.hidden = true;
    done();
  }
}

/**
 * Two captions, token by token.
 *
 * @param {Place} place
 */
export function words({ root, data, say, done }) {
  const caption = data["lesson-caption"];
  /** @type {Record<string, Said>} */
  const answers = caption.answers;
  const read = new Set();
  const table = el("div", { class: "ln-scroll" });
  const count = el("p", { class: "ln-note", role: "status" });
  /** @type {HTMLButtonElement[]} */
  const buttons = [];
  const strips = ["baseline", "macd"].map((method) => el("div", { class: "ln-strip" },
    el("span", { class: "ln-strip-name" }, say(method === "macd" ? "words_macd" : "words_plain")),
    el("span", {}, answers[method].tokens.map((token, i) => {
      const other = answers[method === "macd" ? "baseline" : "macd"].tokens[i];
      const button = el("button", {
        type: "button", class: `ln-chip${other && other.text === token.text ? "" : " ln-differs"}`, "aria-pressed": "false",
        on: { click: () => show(method, i, button) },
      }, visible(token.text));
      buttons.push(button);
      return button;
    }))));
  root.append(el("div", { class: "ln-frames" }, caption.frames.map((/** @type {string} */ f) => el("img", { src: f, alt: "" }))),
    ...strips, table, count);

  /**
   * @param {string} method
   * @param {number} i
   * @param {HTMLButtonElement} button
   */
  function show(method, i, button) {
    const token = answers[method].tokens[i];
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    table.replaceChildren(logitTable(token, method === "macd" ? caption.alpha : 0, caption.beta, say));
    if (method === "macd") read.add(i);
    const of = answers.macd.tokens.length;
    count.textContent = say("words_read", { n: read.size, of });
    if (read.size === of) done();
  }
  buttons[answers.baseline.tokens.length]?.click();
}

/**
 * Candidates of a token with the logits of both views and their score; what β cuts has none.
 *
 * @param {Word} token
 * @param {number} alpha
 * @param {number} beta
 * @param {Place["say"]} say
 */
export function logitTable(token, alpha, beta, say) {
  const floor = Math.max(...token.base) + Math.log(Math.max(beta, 1e-9));
  const rows = token.texts.map((text, i) => {
    const counter = token.counter ? token.counter[i] : null;
    const inside = alpha === 0 || token.base[i] >= floor;
    const score = counter === null ? token.base[i] : (1 + alpha) * token.base[i] - alpha * counter;
    // printed as the sum of what is printed; the choice follows from the whole numbers
    const shown = counter === null ? asPrinted(token.base[i]) : (1 + alpha) * asPrinted(token.base[i]) - alpha * asPrinted(counter);
    return { text, base: token.base[i], counter, shown, score: inside ? score : -Infinity };
  });
  const best = argmax(rows.map((r) => r.score));
  return el("table", { class: "ln-table" },
    el("thead", {}, el("tr", {}, ["word", "logit_video", "logit_counter", "score"].map((name, i) =>
      el("th", { scope: "col", class: ["", "ln-video", "ln-counter", "ln-score"][i] }, withSymbols(say(name)))))),
    el("tbody", {}, rows.slice(0, 5).map((r, i) => el("tr", { class: i === best ? "ln-top" : "" },
      el("th", { scope: "row" }, visible(r.text)), el("td", {}, fixed(r.base)),
      el("td", {}, r.counter === null ? "–" : fixed(r.counter)),
      el("td", {}, Number.isFinite(r.score) ? fixed(r.shown) : say("outside"))))));
}

/**
 * A logit as it is printed, with two digits.
 *
 * @param {number} x
 */
export function asPrinted(x) {
  return Number(x.toFixed(2));
}

/** @param {string} text */
export function visible(text) {
  return text.startsWith("<|") ? "∎" : text.trim() || "∅";
}
