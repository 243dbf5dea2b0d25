// @ts-check
/** The organiser's page: progress, agreement and the power meter, invitations, exports. */

import { Proposals } from "./proposals.js";
import { Failed, ask, askJson } from "./queue.js";
import { byId, make, part } from "./view.js";

const EVERY_MS = 10000;
const CODE = "macd-organise-code";
const FILES = [
  ["Report", "report", "md"], ["Report as a page", "report", "html"], ["Report as JSON", "report", "json"],
  ["Events as CSV", "export", "csv"], ["Events as JSON lines", "export", "jsonl"],
  ["Events as Parquet", "export", "parquet"],
];
let code = location.hash.slice(1) || sessionStorage.getItem(CODE) || "";

/** @param {string} words */
function banner(words) {
  part("banner").textContent = words;
  part("banner").hidden = !words;
}

/** @param {() => Promise<void>} act */
async function attempt(act) {
  try {
    await act();
    banner("");
  } catch (error) {
    banner(error instanceof Failed ? error.message : String(error));
    if (error instanceof Failed && error.status === 401) {
      code = "";
      part("enter").hidden = false;
      part("study").hidden = true;
    }
  }
}

/** @param {(string | number | Node)[][]} rows the first is the head */
function table(rows) {
  const element = make("table");
  rows.forEach((row, i) => {
    const line = make("tr");
    for (const value of row) {
      const cell = make(i ? "td" : "th");
      cell.append(typeof value === "number" ? String(value) : value);
      line.append(cell);
    }
    element.append(line);
  });
  return element;
}

/** @param {number | null | undefined} value @param {number} [digits] */
const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
/** @param {number | null | undefined} value */
const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);

/** @param {any} meter @param {number | null} width @param {number} target @param {string} tooFew */
function powerWords(meter, width, target, tooFew) {
  const now = width === null ? "" : `The interval of the difference is ± ${number(width)}. `;
  if (tooFew) return `${now}${tooFew}`;
  if (!meter) return `${now}Too few ratings to say how many more are needed for ± ${target}.`;
  if (meter.more_raters === 0) return `${now}No more ratings are needed for ± ${target}.`;
  if (meter.more_raters !== null) {
    return `${now}About ${meter.more_raters} more raters (${meter.more_pairs} pairs of ratings) make it ± ${target}.`;
  }
  if (meter.more_clips === null) return `${now}± ${target} takes more raters and more clips: neither alone is enough.`;
  return `${now}More raters alone cannot make it ± ${target}: clips differ too much. About ${meter.more_clips} more clips would.`;
}

/** @param {any} rater */
function access(rater) {
  const whole = make("div", "", "row");
  const revoke = make("button", rater.revoked ? "Let in again" : "Revoke");
  const erase = make("button", "Erase…");
  const asked = `Erase all that ${rater.rater} gave, and what is known of ${rater.rater}? It cannot be taken back.`
    + " Copies and exports that were made before still hold it.";
  for (const button of [revoke, erase]) button.type = "button";
  revoke.addEventListener("click", () => attempt(async () => {
    await askJson(code, "organise/api/revoke", { rater: rater.rater, restore: rater.revoked });
    await refresh();
  }));
  erase.setAttribute("aria-label", `Erase ${rater.rater}`);
  erase.addEventListener("click", () => confirm(asked) && attempt(async () => {
    await askJson(code, "organise/api/erase", { rater: rater.rater });
    await refresh();
  }));
  whole.append(revoke, erase);
  return whole;
}

/**
 * A number with its noun.
 *
 * @param {number} n
 * @param {string} noun
 */
function counted(n, noun) {
  return n === 1 ? `1 ${noun}` : `${n} ${noun}s`;
}

async function refresh() {
  const now = await askJson(code, "organise/api/state");
  const study = now.study;
  part("state").textContent = study.state;
  proposals.pairs = study.scale === "pairs";
  const given = study.scale === "pairs" ? "preference" : "rating";
  part("summary").textContent = `${counted(study.items, "item")}, ${study.design} design, arms ${study.arms.join(", ")}; `
    + `${study.raters_begun} of ${counted(study.raters_invited, "rater")} rated, ${study.raters_planned} planned; ${counted(study.ratings, given)}.`
    + (study.screened_out ? ` ${study.screened_out} failed the screening question.` : "")
    + (study.raters_erased ? ` Erased on request: ${study.raters_erased}.` : "")
    + now.forks.map((/** @type {{text: string}} */ fork) => ` Note: ${fork.text}.`).join("");
  part("power").textContent = powerWords(now.power, now.half_width, now.target, now.too_few_to_stop);
  const alpha = now.agreement.alpha;
  part("agreement").textContent = `Krippendorff's alpha ${number(alpha.value)} [${number(alpha.low)}, `
    + `${number(alpha.high)}]; the left mask ${study.scale === "pairs" ? "was preferred" : "got the higher rating"} on ${percent(now.sides.left.value)} of `
    + `${counted(now.sides.decided, "screen")}.`;
  part("raters").replaceChildren(table([
    ["rater", "done", "known items", "repeats equal", "median s", "named because", "access"],
    ...now.raters.map((/** @type {any} */ r) => [
      r.simulated ? `${r.rater} (simulated)` : r.rater, `${r.done} of ${r.screens}`, percent(r.gold),
      percent(r.repeat_same), number(r.seconds, 1), (r.screened_out ? ["failed the screening question"] : r.reasons ?? []).join("; "), access(r),
    ]),
  ]));
  part("items").replaceChildren(table([
    ["clip", "question", "raters", "notes"],
    ...now.items.map((/** @type {any} */ i) => [i.clip, i.question, i.raters, i.notes.join("; ")]),
  ]));
  document.querySelectorAll("[data-state]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.getAttribute("data-state") === study.state));
  });
  part("enter").hidden = true;
  part("study").hidden = false;
}

/** @param {string} what @param {string} format */
async function download(what, format) {
  const answer = await ask(code, `organise/api/${what}?format=${format}`);
  const link = make("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = `${what === "report" ? "report" : "events"}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

const proposals = new Proposals(() => code, attempt);

async function enter() {
  await askJson(code, "organise/api/enter", {});
  sessionStorage.setItem(CODE, code);
  await refresh();
  await proposals.load();
}

for (const [words, what, format] of FILES) {
  const button = make("button", words);
  button.type = "button";
  button.addEventListener("click", () => attempt(() => download(what, format)));
  part("downloads").append(button);
}
document.querySelectorAll("[data-state]").forEach((button) => {
  button.addEventListener("click", () => attempt(async () => {
    await askJson(code, "organise/api/control", { state: button.getAttribute("data-state") });
    await refresh();
  }));
});
part("invite-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    const count = Number(byId("how-many", HTMLSelectElement).value);
    const { codes } = await askJson(code, "organise/api/invite", { count });
    const links = part("links");
    links.hidden = false;
    links.textContent = codes.map((/** @type {string} */ c) => `${new URL("rate", location.href)}#${c}`).join("\n");
    await refresh();
  });
});
part("enter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  code = byId("code", HTMLInputElement).value.trim().toUpperCase();
  attempt(enter);
});
if (code) attempt(enter);
setInterval(() => code && !document.hidden && attempt(refresh), EVERY_MS);
