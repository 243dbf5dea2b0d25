// @ts-check
// A reload ends a run that goes on, as closing the tab does. The page that comes back says so, and the
// form holds again what was asked, as far as the server still knows it. A server that was restarted knows
// nothing: the question that was not asked yet is in the form again, and the page says what is gone.

import { gradioConfig } from "./kept.js";

/** @import { Payload } from "../../viewer/js/types" */
/** @import { Viewer } from "../../viewer/js/viewer.js" */
/** @import { RunLink } from "./link.js" */

const KEY = "macd-interrupted", UNASKED = "macd-unasked";
const MOST = 2000; // characters of a question

export class Interruption {
  /**
   * @param {Viewer} viewer
   * @param {RunLink} link
   */
  constructor(viewer, link) {
    this.viewer = viewer;
    this.running = false;
    this.otherClip = false; // the form's, than that of the run on show
    addEventListener("pagehide", () => {
      if (this.running) stored(() => sessionStorage.setItem(KEY, question()));
      else if (this.unasked()) stored(() => sessionStorage.setItem(UNASKED, JSON.stringify([gradioConfig().app_id ?? "", question(), this.otherClip])));
    });
    addEventListener("pageshow", ({ persisted }) => { if (persisted) for (const key of [KEY, UNASKED]) stored(() => sessionStorage.removeItem(key)); });
    document.addEventListener("macd-other-clip", (event) => {
      this.otherClip = Boolean(/** @type {CustomEvent} */ (event).detail?.length);
    });
    link.followed.then(() => this.tell(link));
  }

  /** Whether the form asks something that the run on show does not answer. */
  unasked() {
    const asked = question().trim(), { trace } = this.viewer.state;
    return Boolean(asked) && (this.otherClip || asked !== trace?.question.trim());
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
    const asked = taken(KEY), [app, unasked, otherClip] = JSON.parse(taken(UNASKED) ?? "[]");
    if (this.running) return;
    if (asked !== null) await link.ask(`stopped:${asked}`);
    else if (unasked && app && app !== gradioConfig().app_id) await link.ask(`${otherClip ? "forgotten" : "unasked"}:${unasked}`);
  }
}

function question() {
  return /** @type {HTMLTextAreaElement | null} */ (document.querySelector("#question textarea"))?.value.slice(0, MOST) ?? "";
}

/** What was kept for this page, once. @param {string} key @returns {string | null} */
function taken(key) {
  const kept = stored(() => sessionStorage.getItem(key)) ?? null;
  stored(() => sessionStorage.removeItem(key));
  return kept;
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
