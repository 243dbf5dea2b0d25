// @ts-check
// A reload ends a run that goes on, as closing the tab does. The page that comes back says so, and the
// form holds again what was asked, as far as the server still knows it.

/** @import { Payload } from "../../viewer/js/types" */
/** @import { RunLink } from "./link.js" */

const KEY = "macd-interrupted";
const MOST = 2000; // characters of a question

export class Interruption {
  /** @param {RunLink} link */
  constructor(link) {
    this.running = false;
    addEventListener("pagehide", () => { if (this.running) stored(() => sessionStorage.setItem(KEY, question())); });
    addEventListener("pageshow", ({ persisted }) => { if (persisted) stored(() => sessionStorage.removeItem(KEY)); });
    link.followed.then(() => this.tell(link));
  }

  /** A run that never reached the server is told like one that a reload ended: the page is loaded anew when it is back. */
  neverSent() {
    stored(() => sessionStorage.setItem(KEY, question()));
  }

  /** A run of the form begins by reading its video; changes by hand do not. @param {Partial<Payload> | null} value */
  observe(value) {
    if (!value?.status) return;
    const { running, stage } = value.status;
    this.running = running && (this.running || stage === "video");
    if (this.running) stored(() => sessionStorage.removeItem(KEY)); // what was not sent before is asked now
  }

  /** @param {RunLink} link */
  async tell(link) {
    const asked = stored(() => sessionStorage.getItem(KEY)) ?? null;
    if (asked === null) return;
    stored(() => sessionStorage.removeItem(KEY));
    if (!this.running) await link.ask(`stopped:${asked}`);
  }
}

function question() {
  return /** @type {HTMLTextAreaElement | null} */ (document.querySelector("#question textarea"))?.value.slice(0, MOST) ?? "";
}

/**
 * What a browser's storage gives; undefined where it offers none.
 *
 * @template T
 * @param {() => T} work
 */
function stored(work) {
  try {
    return work();
  } catch {
    return undefined;
  }
}
