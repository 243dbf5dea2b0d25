// @ts-check
// The worker that holds the embedded model: one action at a time, each answered with payloads.

import { Bench } from "./bench.js";
import { Refused } from "./edits.js";
import { Model, Unreachable, fetchOrFail } from "./reading.js";
import { TEXT, engineFailed, loadingText } from "./strings.js";

/** @import { Action, Constants, Payload, Status, Trace } from "./types" */

const PANELS = { edit: "whatif", undo: "whatif", redo: "whatif", redecode: "tokens", occlusion: "occlusion", controls: "controls", evidence: "evidence", enough: "enough", detect: "whatif" };
const EVERY = 250_000; // bytes between two reports

/** @typedef {{ folder: string, run: string, trace: Trace, constants: Constants }} Opened */
/** @type {Opened | null} */
let opened = null;
/** @type {Model | null} */
let model = null;
/** @type {Promise<Bench> | null} */
let bench = null;
let last = Promise.resolve();

self.onmessage = ({ data }) => {
  if (data.folder) { // a trace to work on; what was loaded stays
    opened = data;
    bench = null;
  }
  else last = last.then(() => answer(data.action));
};

/** @param {Action & { run: string }} action */
async function answer(action) {
  try {
    tell({ running: true, message: TEXT.computingHere });
    bench ??= open();
    const held = await bench;
    const trace = await held.act(action, (message) => tell({ running: true, message }));
    self.postMessage({ status: status({}), trace });
  } catch (error) {
    if (!(error instanceof Refused)) bench = null;
    tell({ error: sentence(error), where: PANELS[action.do] });
  }
}

async function open() {
  if (!opened) throw new Error("no trace has come");
  const { folder, run, trace, constants } = opened;
  let reported = 0;
  model ??= new Model(folder, (bytes, of) => {
    if (bytes - reported < EVERY && bytes < of) return;
    reported = bytes;
    tell({ running: true, fraction: bytes / of, message: loadingText(bytes, of) });
  });
  const [stored] = await Promise.all([fetchOrFail(run).then((answer) => answer.json()), model.fetched()]);
  tell({ running: true, message: TEXT.startingModel });
  const loaded = { ...stored, frames: await unpacked(stored.frames) };
  const reading = model;
  return new Bench(trace, loaded, constants, (mask, tokens, fill, targets) => reading.read(loaded, mask, tokens, fill, targets));
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

/** @param {Partial<Status>} parts */
function tell(parts) {
  /** @type {Partial<Payload>} */
  const payload = { status: status(parts) };
  self.postMessage(payload);
}
