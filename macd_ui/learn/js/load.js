// @ts-check
// Data comes as scripts, as a page opened from disk may fetch nothing. Each file is asked for once.

import { el } from "../../../viewer/js/dom.js";

/** @type {Map<string, Promise<any>>} */
const asked = new Map();
/** @type {Map<string, (data: any) => void>} */
const waiting = new Map();

/** Lets data files hand over what they hold: `macdLearn("name", {…});`. */
export function receive() {
  Object.assign(window, {
    macdLearn: (/** @type {string} */ name, /** @type {any} */ data) => waiting.get(name)?.(data),
  });
}

/**
 * @param {string} name of a file in data/, without its ending
 * @returns {Promise<any>}
 */
export function load(name) {
  const former = asked.get(name);
  if (former) return former;
  const promise = new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const fail = () => {
      asked.delete(name); // so that it can be tried again
      reject(new Error(`data/${name}.js cannot be loaded`));
    };
    document.head.append(el("script", { src: `data/${name}.js`, on: { error: fail } }));
  });
  asked.set(name, promise);
  return promise;
}
