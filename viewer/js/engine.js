// @ts-check
// What computes where there is no server: the embedded model in a worker, loaded by the first change.
// It takes the actions that a server takes, and answers with payloads as a server does.

import { TEXT } from "./strings/labels.js";

/** @import { Action, Host, Payload } from "./types" */

/** What the worker can do of what a viewer asks for. @type {Action["do"][]} */
const ACTIONS = ["edit", "undo", "redo", "redecode", "occlusion", "controls"];

/** The worker of each folder of an engine; all viewers of a page share it. @type {Map<string, Worker>} */
const workers = new Map();
/** Run → what shows the answers about it. @type {Map<string, (answer: Partial<Payload>) => void>} */
const shows = new Map();

/**
 * What a page without a server hands its viewer: how to send an action, or why it cannot.
 * @param {Payload} payload that the viewer shows first @param {string} base what addresses in it are relative to
 * @param {(answer: Partial<Payload>) => void} show @returns {Partial<Host>}
 */
export function engineFor(payload, base, show) {
  const { engine } = payload;
  if (!engine) return {};
  const cannot = engine.whyNot || missing();
  if (cannot) return { cannot };
  const folder = new URL(engine.folder, base).href, run = new URL(engine.run, base).href;
  let begun = false;
  const begin = () => {
    begun = true;
    shows.set(run, show);
    worker(folder).postMessage({ folder, run, trace: payload.trace, constants: payload.constants });
  };
  return {
    can: new Set(ACTIONS),
    megabytes: engine.bytes / 1e6,
    restart: () => { if (begun) begin(); },
    send: (action) => {
      if (!begun || !workers.has(folder)) begin();
      worker(folder).postMessage({ run, action });
    },
  };
}

/** What this browser lacks, in a sentence; empty: nothing. */
function missing() {
  if (location.protocol === "file:") return TEXT.engineFromDisk;
  const needs = ["Worker", "WebAssembly", "DecompressionStream"];
  return needs.every((name) => name in globalThis) ? "" : TEXT.engineNotHere;
}

/** @param {string} folder */
function worker(folder) {
  const former = workers.get(folder);
  if (former) return former;
  const made = new Worker(`${folder}worker.js`);
  workers.set(folder, made);
  made.onmessage = ({ data: { run, answer } }) => shows.get(run)?.(answer);
  made.onerror = () => {
    made.terminate();
    workers.delete(folder); // the next change tries again
    const status = { stage: "", fraction: 0, message: "", stages_done: [], running: false, error: TEXT.engineUnreachable, where: "whatif" };
    for (const show of shows.values()) show({ status });
  };
  return made;
}
