// @ts-check
// A run that is asked for while the server is down never reaches it: the form says so, and when the
// server is back.

import { NOT_SENT, SERVER_BACK } from "./strings.js";

/** @import { Interruption } from "./interrupted.js" */

const POLL_MS = 2000;
let waiting = false;

/** Hears every way to ask for a run. @param {Interruption} interruption keeps what was asked in vain */
export function watchRuns(interruption) {
  const check = () => checkThat(interruption);
  document.addEventListener("click", ({ target }) => {
    if (/** @type {Element} */ (target).closest("#run, #ask-all")) check();
  }, true);
  document.addEventListener("keydown", ({ key, shiftKey, target }) => {
    if (key === "Enter" && !shiftKey && /** @type {Element} */ (target).closest("#question")) check();
  }, true);
}

/** @param {Interruption} interruption */
async function checkThat(interruption) {
  if (waiting || await answers()) return;
  waiting = true;
  tell(NOT_SENT);
  interruption.neverSent();
  while (!await answers()) await new Promise((done) => setTimeout(done, POLL_MS));
  waiting = false;
  tell(SERVER_BACK);
}

async function answers() {
  try {
    return (await fetch(new URL("healthz", document.baseURI), { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

/** @param {string} text */
function tell(text) {
  const line = document.getElementById("run-error");
  if (line) [line.textContent, line.hidden] = [text, false];
}
