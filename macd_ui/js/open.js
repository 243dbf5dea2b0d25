// @ts-check
// Opens a trace as the button "Open trace" does.

const INPUT_WAIT_MS = 60000; // until the page has drawn the button
const INPUT_POLL_MS = 100;
const ANSWER_WAIT_MS = 30000; // for a server that says nothing of a file

/**
 * @typedef {object} Turn
 * @property {() => boolean} [wanted] a file that is no longer wanted is left out
 * @property {() => void} [handedOver] called just before the page has the file
 */

let last = Promise.resolve();
let finish = () => {};

/**
 * The file input behind the button, once the page has drawn it.
 *
 * @returns {HTMLInputElement | null}
 */
function openTraceInput() {
  const button = document.querySelector("#open");
  return button && button.parentElement && button.parentElement.querySelector("input[type=file]");
}

/**
 * Gives a file to the page as if it had been chosen by the button, once the button is there and the
 * file before it was shown or refused: of two uploads under way at once the slower one would win.
 *
 * @param {File} file
 * @param {Turn} turn
 * @returns {Promise<void>} when the page has answered
 */
export function openTrace(file, turn = {}) {
  last = last.then(() => handOver(file, turn));
  return last;
}

// The page shows a trace or an error: the next file may follow.
export function traceAnswered() {
  finish();
}

/**
 * @param {File} file
 * @param {Turn} turn
 */
async function handOver(file, { wanted = () => true, handedOver = () => {} }) {
  const until = Date.now() + INPUT_WAIT_MS;
  let input = openTraceInput();
  while (!input && wanted() && Date.now() < until) { // the form may be drawn after the viewer
    await new Promise((done) => { setTimeout(done, INPUT_POLL_MS); });
    input = openTraceInput();
  }
  if (!input || !wanted()) return;
  const transfer = new DataTransfer();
  transfer.items.add(file);
  input.files = transfer.files;
  handedOver();
  input.dispatchEvent(new Event("change", { bubbles: true }));
  await new Promise((done) => {
    finish = () => done(undefined);
    setTimeout(finish, ANSWER_WAIT_MS);
  });
}
