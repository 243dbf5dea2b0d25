// @ts-check
// A run that is asked for while the server is down never reaches it: the form says so, and when the
// server is back.

import { NOT_SENT, SERVER_BACK } from "./strings.js";

const POLL_MS = 2000;
let waiting = false;

/** Hears every way to ask for a run. */
export function watchRuns() {
  document.addEventListener("click", ({ target }) => {
    if (/** @type {Element} */ (target).closest("#run, #ask-all")) check();
  }, true);
  document.addEventListener("keydown", ({ key, shiftKey, target }) => {
    if (key === "Enter" && !shiftKey && /** @type {Element} */ (target).closest("#question")) check();
  }, true);
}

async function check() {
  if (waiting || await answers()) return;
  waiting = true;
  tell(NOT_SENT);
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
