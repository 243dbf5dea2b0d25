// @ts-check
// What computes where there is no server: the embedded model in a worker, loaded by the first change.
// It takes the actions that a server takes, and answers with payloads as a server does.

import { TEXT } from "./strings.js";

/** @import { Action, EngineAbout, Host, Payload } from "./types" */

/** What the worker can do of what a viewer asks for. @type {Action["do"][]} */
const ACTIONS = ["edit", "undo", "redo", "redecode", "occlusion", "controls"];

/**
 * What a page without a server hands its viewer: how to send an action, or why it cannot.
 * @param {Payload} payload that the viewer shows first @param {string} base what addresses in it are relative to
 * @param {(answer: Partial<Payload>) => void} show @returns {Partial<Host>}
 */
export function engineFor(payload, base, show) {
  const { engine } = payload;
  if (!engine) return {};
  if (engine.whyNot) return { cannot: engine.whyNot };
  const cannot = missing();
  if (cannot) return { cannot };
  /** @type {Worker | null} */
  let worker = null;
  return {
    can: new Set(ACTIONS),
    megabytes: engine.bytes / 1e6,
    send: (action) => {
      worker ??= start(engine, payload, base, show, () => { worker = null; });
      worker.postMessage({ action });
    },
  };
}

/** What this browser lacks, in a sentence; empty: nothing. */
function missing() {
  if (location.protocol === "file:") return TEXT.engineFromDisk;
  const needs = ["Worker", "WebAssembly", "DecompressionStream"];
  return needs.every((name) => name in globalThis) ? "" : TEXT.engineNotHere;
}

/**
 * @param {EngineAbout} engine @param {Payload} payload @param {string} base
 * @param {(answer: Partial<Payload>) => void} show @param {() => void} ended
 */
function start(engine, payload, base, show, ended) {
  const folder = new URL(engine.folder, base).href;
  const worker = new Worker(`${folder}worker.js`);
  worker.onmessage = ({ data }) => show(data);
  worker.onerror = () => {
    worker.terminate();
    ended(); // the next change tries again
    show({ status: { stage: "", fraction: 0, message: "", stages_done: [], running: false, error: TEXT.engineUnreachable, where: "whatif" } });
  };
  worker.postMessage({ folder, run: new URL(engine.run, base).href, trace: payload.trace, constants: payload.constants });
  return worker;
}
