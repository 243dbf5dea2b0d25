// @ts-check
// What a visitor is told before bringing a clip that only the demo model can meet: what this server can
// say about it and what it cannot, with saved runs of real clips. Those are asked for when it is first seen.

import { el } from "../../viewer/js/dom.js";
import { OUTSIDE, SAVED_DETECTIONS, savedRun } from "./strings.js";

/** @typedef {{ title: string, question: string, detector: string, backbone: string, answered: boolean, address: string, picture: string }} RealRun */
/** @typedef {{ can?: string, cannot?: string, list?: string, absent?: string }} Told list: where the runs are; absent: said where none has an answer of a real model */

const LIST = { "list-style": "none", margin: "6px 0", padding: "0", display: "grid", gap: "6px" };
const ROW = { display: "grid", "grid-template-columns": "72px 1fr", gap: "8px", color: "inherit" };

export class Beforehand {
  constructor() {
    this.can = el("p", {});
    this.cannot = el("p", {});
    this.runs = el("ul", { "aria-label": SAVED_DETECTIONS, style: LIST });
    this.absent = el("p", { hidden: true });
    this.root = el("section", { class: "guard beforehand", hidden: true }, this.can, this.cannot, this.runs, this.absent);
    /** @type {Told} */
    this.told = {};
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting) || !this.told.list) return;
      seen.disconnect();
      this.fetch(this.told.list);
    });
    seen.observe(this.root);
    this.late = false; // the form holds such a clip by now, and says so itself
    document.addEventListener(OUTSIDE, (event) => { this.late = /** @type {CustomEvent} */ (event).detail; this.load(this.told); });
  }

  /** @param {Told} told */
  load(told) {
    this.told = told;
    this.root.hidden = !told.cannot || this.late;
    this.can.textContent = told.can ?? "";
    this.cannot.textContent = told.cannot ?? "";
    this.absent.textContent = told.absent ?? "";
  }

  /** @param {string} list */
  async fetch(list) {
    const address = new URL(list, document.baseURI), answer = await fetch(address).catch(() => null);
    /** @type {RealRun[]} */
    const runs = answer?.ok ? await answer.json() : [];
    this.runs.replaceChildren(...runs.map((run) => el("li", {},
      el("a", { style: ROW, href: new URL(run.address, address).href, target: "_blank", rel: "noopener" },
        el("img", { src: new URL(run.picture, address).href, alt: "", loading: "lazy", width: 72, height: 54, style: { "object-fit": "cover" } }),
        el("span", {}, el("strong", {}, run.title), ` ${savedRun(run)}`)))));
    this.absent.hidden = runs.some((run) => run.answered);
  }
}
