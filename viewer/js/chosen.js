// @ts-check
// How the clip on show was chosen, and the way to one that was not chosen for what it shows.

import { button, el } from "./dom.js";

/** @import { Trace } from "./types" */

export class Chosen {
  /** @param {(() => void) | null | undefined} typical shows another clip; null: there is no server that draws */
  constructor(typical) {
    this.typical = typical;
    this.root = el("p", { class: "mv-how-chosen", hidden: true });
  }

  /** @param {Trace} trace */
  load({ chosen }) {
    this.root.hidden = !chosen;
    const { typical } = this;
    this.root.replaceChildren(...(chosen ? [chosen.text, " "] : []),
      ...(chosen?.button && typical ? [button(chosen.button, typical)] : []));
  }
}
