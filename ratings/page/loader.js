// @ts-check
/** Items of a rater with their pictures, of which the newest few are kept. */

import { unpack } from "./player.js";
import { ask, askJson } from "./queue.js";

/** @typedef {import("./tasks.js").Task} Task */
/** @typedef {{question: string, times: number[][], clips: ImageBitmap[][]}} Item */

export class Loader {
  /** @param {string} code */
  constructor(code) {
    this.code = code;
    /** @type {Map<string, Promise<Item>>} */
    this.items = new Map();
  }

  /** The next time the item is fetched again. @param {Task} task */
  forget(task) {
    this.items.delete(task.id);
  }

  /** @param {Task} task @returns {Promise<Item>} */
  load(task) {
    const cached = this.items.get(task.id);
    if (cached) return cached;
    const loading = this.fetchItem(task);
    this.items.set(task.id, loading);
    for (const id of [...this.items.keys()].slice(0, -3)) this.items.delete(id);
    return loading;
  }

  /** @param {Task} task @returns {Promise<Item>} */
  async fetchItem(task) {
    const names = ["clip", ...task.ratings.keys()];
    const [item, ...clips] = await Promise.all([
      askJson(this.code, `rate/api/item/${task.id}`),
      ...names.map(async (which) => {
        const answer = await ask(this.code, `rate/api/media/${task.id}/${which}`);
        return unpack(await answer.arrayBuffer());
      }),
    ]);
    const times = clips.map((_, i) => (i ? item.times : item.motion));
    return { question: item.question, times, clips };
  }
}
