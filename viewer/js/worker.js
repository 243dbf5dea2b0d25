// @ts-check
// The worker that holds the embedded model: one action at a time, each answered with payloads.

import { Bench } from "./workbench.js";
import { Refused } from "./edits.js";
import { Model, Unreachable, fetchOrFail } from "./reading.js";
import { engineFailed, loadingText } from "./strings/edits.js";
import { TEXT } from "./strings/labels.js";

/** @import { Action, Constants, Payload, Status, Trace } from "./types" */

const PANELS = { edit: "whatif", point: "whatif", undo: "whatif", redo: "whatif", redecode: "tokens", occlusion: "occlusion", controls: "controls", choices: "choices", evidence: "evidence", enough: "enough", detect: "whatif" };
const EVERY = 250_000; // bytes between two reports

/** @typedef {{ folder: string, run: string, trace: Trace, constants: Constants }} Opened */
/** The runs to work on by the address of their file, and each with its model. @type {Map<string, Opened>} */
const opened = new Map();
/** @type {Map<string, Promise<Bench>>} */
const benches = new Map();
/** @type {Model | null} */
let model = null;
let last = Promise.resolve();

self.onmessage = ({ data }) => {
  if (data.action) last = last.then(() => answer(data.run, data.action));
  else { // it begins as the page shows it; what was loaded stays
    opened.set(data.run, data);
    benches.delete(data.run);
  }
};

/** @param {string} run @param {Action} action */
async function answer(run, action) {
  /** @type {(parts: Partial<Status>) => void} */
  const tell = (parts) => post(run, { status: status(parts) });
  try {
    tell({ running: true, message: TEXT.computingHere });
    const bench = benches.get(run) ?? open(run, tell);
    benches.set(run, bench);
    const trace = await (await bench).act(action, (message) => tell({ running: true, message }));
    post(run, { status: status({}), trace });
    last = last.then(() => model?.session("gradient")).catch(() => {}); // while the visitor looks, so that no later change waits for it
  } catch (error) {
    if (!(error instanceof Refused)) benches.delete(run);
    tell({ error: sentence(error), where: PANELS[action.do] });
  }
}

/** @param {string} run @param {(parts: Partial<Status>) => void} tell */
async function open(run, tell) {
  const found = opened.get(run);
  if (!found) throw new Error("no trace has come");
  let reported = 0;
  const held = model ??= new Model(found.folder);
  held.progress = (bytes, of) => {
    if (bytes - reported < EVERY && bytes < of) return;
    reported = bytes;
    tell({ running: true, fraction: bytes / of, message: loadingText(bytes, of) });
  };
  const files = held.fetched().finally(() => { held.progress = () => {}; }); // others may still come after one failed
  const [stored] = await Promise.all([fetchOrFail(run).then((answer) => answer.json()), files]);
  tell({ running: true, message: TEXT.startingModel });
  const loaded = { ...stored, frames: await unpacked(stored.frames) };
  return new Bench(found.trace, loaded, found.constants, (mask, tokens, fill, targets) => held.read(loaded, mask, tokens, fill, targets));
}

/** Bytes that were deflated and written as base64. @param {string} text */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const content = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(content).arrayBuffer());
}

/** @param {unknown} error */
function sentence(error) {
  if (error instanceof Refused) return error.message;
  if (error instanceof Unreachable) return TEXT.engineUnreachable;
  const text = String(error);
  return error instanceof RangeError || /memory|allocat/i.test(text) ? TEXT.engineOutOfMemory : engineFailed(text.slice(0, 160));
}

/** @param {Partial<Status>} parts @returns {Status} */
function status(parts) {
  return { stage: "", fraction: 0, message: "", stages_done: [], running: false, error: "", where: "", ...parts };
}

/** @param {string} run @param {Partial<Payload>} answer */
function post(run, answer) {
  self.postMessage({ run, answer });
}
