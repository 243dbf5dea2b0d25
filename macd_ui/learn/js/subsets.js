// @ts-check
// Which objects to hide, so that the answer becomes right? Chosen once, then every subset is shown.

import { el } from "../../../viewer/js/dom.js";
import { signed } from "./plots.js";

/** @import { Subset, Trace } from "../../../viewer/js/types" */
/** @import { Place } from "./types" */

/** @param {Place} place */
export function subsets({ root, step, course, data, say, done, chosen, choose }) {
  const role = step.settings.roles[0], { truth } = course.parts[role];
  /** @type {Trace} */
  const trace = data[`part-${role}`].payload.trace;
  const { tracks, choice_map: map } = trace;
  if (!map) return;
  const plain = trace.answers.baseline?.text ?? "";
  const layer = map.subsets.filter(({ frames }) => frames === map.own.frames);
  const inputs = tracks.filter(({ id }) => map.objects.includes(id)).map(({ id, label }) => {
    const input = el("input", { type: "checkbox", value: id });
    return { id, label, input };
  });
  const name = (/** @type {number[]} */ ids) => ids.map((id) => tracks.find((t) => t.id === id)?.label ?? id).join(", ") || say("quiz_none");
  const isRight = (/** @type {Subset} */ subset) => (subset.answer ?? plain) === truth;
  const result = el("p", { class: "ln-result", role: "status", tabindex: "-1" });
  const all = el("div", {});
  const button = el("button", { type: "submit", class: "ln-main-button" }, say("lock"));
  const form = el("form", { class: "ln-choose", on: { submit } },
    el("fieldset", { class: "ln-options" }, el("legend", {}, say("subsets_ask", { truth })),
      inputs.map(({ label, input }) => el("label", {}, input, el("span", {}, label)))),
    button, result, all);
  root.append(picture(), form);
  if (chosen) show(chosen);

  /** The first frame with the boxes of what can be hidden. */
  function picture() {
    const at = Math.max(0, trace.frames.findIndex((_, t) => inputs.some(({ id }) => boxOf(id, t))));
    return el("figure", { class: "ln-edge-video ln-subsets-clip" },
      el("div", { class: "ln-picture" }, el("img", { src: trace.frames[at], alt: say("frames_video") }),
        el("div", { class: "ln-boxes-over", "aria-hidden": "true" }, inputs.flatMap(({ id, label }) => {
          const box = boxOf(id, at);
          return box ? [el("span", { style: placed(box) }, el("b", {}, label))] : [];
        }))));
  }

  /** @param {number} id @param {number} at */
  function boxOf(id, at) {
    return tracks.find((t) => t.id === id)?.boxes[at] ?? null;
  }

  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    const ids = inputs.filter(({ input }) => input.checked).map(({ id }) => id);
    choose(ids);
    show(ids);
    result.focus();
  }

  /** @param {number[]} ids */
  function show(ids) {
    button.hidden = true;
    for (const { id, input } of inputs) {
      input.checked = ids.includes(id);
      input.disabled = true;
    }
    const same = (/** @type {Subset} */ subset) => subset.objects.length === ids.length && ids.every((id) => subset.objects.includes(id));
    const own = layer.find(same);
    if (own) {
      result.textContent = `${say(isRight(own) ? "right" : "wrong")} ${say("subsets_yours", { objects: name(ids), answer: own.answer ?? plain })}`;
      result.classList.toggle("ln-good", isRight(own));
    }
    const right = layer.filter(isRight).length;
    all.replaceChildren(el("p", {}, say("subsets_all", { n: right, of: layer.length, truth })),
      el("div", { class: "ln-scroll", tabindex: "0", role: "region", "aria-label": say("subsets_table") }, el("table", { class: "ln-table" },
        el("thead", {}, el("tr", {}, ["subsets_hidden", "subsets_answer", "subsets_margin"].map((head) => el("th", { scope: "col" }, say(head))))),
        el("tbody", {}, layer.map((subset) => el("tr", {},
          el("th", { scope: "row" }, name(subset.objects), same(subset) ? el("small", {}, ` ${say("your_choice")}`) : null),
          el("td", { class: isRight(subset) ? "ln-good" : "" }, `“${subset.answer ?? plain}”`),
          el("td", {}, subset.margin === null ? "–" : signed(subset.margin))))))));
    done();
  }
}

/** @param {number[]} box x0, y0, x1, y1 in shares of the frame */
function placed([x0, y0, x1, y1]) {
  const part = (/** @type {number} */ x) => `${(100 * x).toFixed(2)}%`;
  return { left: part(x0), top: part(y0), width: part(x1 - x0), height: part(y1 - y0) };
}
