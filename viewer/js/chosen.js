// @ts-check
// How the clip on show was chosen, and the way to one that was not chosen for what it shows.

import { button, el } from "./dom.js";
import { TEXT } from "./strings/labels.js";

/** @import { Trace } from "./types" */

export class Chosen {
  /** @param {(() => void) | null | undefined} typical shows another clip; null: there is no server that draws */
  constructor(typical) {
    this.typical = typical;
    this.root = el("div", { class: "mv-how-chosen", hidden: true });
  }

  /** Says nothing of a run that was changed by hand: its answers are not those it was chosen for. @param {Trace} trace */
  load({ chosen, edits }) {
    this.root.hidden = !chosen || edits.length > 0;
    const { typical } = this;
    const another = chosen?.button && typical ? button(chosen.button, typical) : null;
    this.root.replaceChildren(...(chosen ? [el("span", {}, `${chosen.text} `),
      el("details", { class: "mv-how" }, el("summary", {}, TEXT.how), el("p", {}, chosen.more), another)] : []));
  }
}
