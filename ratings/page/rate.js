// @ts-check
/** The page of a rater: who comes with which link; see docs/rating.md. */

import { say, show } from "./messages.js";
import { Failed, askJson } from "./queue.js";
import { RatingPage } from "./session.js";
import { byId, part } from "./view.js";

const RETRY_MS = 3000;
const CODE = "macd-rate-code";
const TOLD = "\n\nThe id in your link is kept beside your number, so that whoever invited you knows that you took part.";

/** The id that a link for participants names. */
const participant = new URLSearchParams(location.search).get("participant");

/** @param {string} given of a rater, or of all participants */
async function enter(given) {
  try {
    const code = participant === null ? given
      : (await askJson(given, "rate/api/participant", { participant })).code;
    const session = await askJson(code, "rate/api/session");
    sessionStorage.setItem(CODE, given);
    say("entry", "");
    await new RatingPage(code, session, participant === null ? "" : TOLD).start();
  } catch (error) {
    const failed = error instanceof Failed ? error : new Failed(0, String(error));
    say("entry", failed.message);
    show("enter");
    if (failed.status === 0 || failed.status >= 500) setTimeout(() => enter(given), RETRY_MS);
  }
}

part("copy-code").addEventListener("click", () => {
  navigator.clipboard?.writeText(part("completion-code").textContent ?? "");
});
byId("help-button", HTMLButtonElement).addEventListener("click", openHelp);
document.addEventListener("keydown", (event) => {
  const typing = /** @type {HTMLElement} */ (event.target).matches("input, textarea");
  if (event.key === "?" && !typing && !document.querySelector("dialog[open]")) openHelp();
});
function openHelp() {
  byId("help", HTMLDialogElement).showModal();
}
part("enter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(byId("code", HTMLInputElement).value.trim().toUpperCase());
});
addEventListener("hashchange", () => location.reload());

/** Without a code: that of who is signed in, where the study takes logins. */
async function enterSignedIn() {
  show("enter");
  try {
    enter((await askJson("", "rate/hub/code")).code);
  } catch (error) {
    const failed = error instanceof Failed ? error : new Failed(0, String(error));
    part("hub").hidden = failed.status !== 401;
    if (failed.status === 403) say("entry", failed.message);
  }
}

const code = location.hash.slice(1) || sessionStorage.getItem(CODE);
if (code) enter(code);
else enterSignedIn();
