// @ts-check
// What the reader did, kept in this browser. Storage that is refused or damaged costs the resume only.

/** @import { Kept, Locked } from "./types" */

const KEY = "macd-learn";

export class Store {
  /** @param {string} edition of the course: answers to another one do not count here */
  constructor(edition) {
    this.works = true;
    /** What the reader typed as a name. Not kept: the next one at this computer is another person. */
    this.name = "";
    /** @type {Kept} */
    this.state = fresh(edition);
    try {
      const text = localStorage.getItem(KEY);
      const read = text ? JSON.parse(text) : null;
      if (isKept(read) && read.edition === edition) {
        const { name, ...kept } = read; // former versions kept one
        this.state = { ...this.state, ...kept };
        if (name !== undefined) this.save();
      }
    } catch {
      this.works = false;
    }
  }

  save() {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.state));
    } catch {
      this.works = false;
    }
  }

  /**
   * @param {string} id
   * @param {Omit<Locked, "at">} locked
   */
  lock(id, locked) {
    this.state.answers[id] = { ...locked, at: new Date().toISOString() };
    this.save();
  }

  /**
   * Which objects were chosen in a task.
   *
   * @param {string} id
   * @param {number[]} objects
   */
  choose(id, objects) {
    this.state.chosen[id] = objects;
    this.save();
  }

  /** Whether a class answers, by a show of hands. @param {boolean} now */
  raise(now) {
    this.state.hands = now;
    this.save();
  }

  /** @param {string} id */
  finish(id) {
    this.state.done[id] = true;
    this.save();
  }

  /** @param {string} at the chapter that is open */
  open(at) {
    this.state.at = at;
    this.save();
  }

  clear() {
    this.name = "";
    this.state = { ...fresh(this.state.edition), hands: this.state.hands };
    this.save();
  }
}

/**
 * @param {string} edition
 * @returns {Kept}
 */
function fresh(edition) {
  return { edition, answers: {}, done: {}, chosen: {}, hands: false, at: "" };
}

/**
 * Whether this is what `save` wrote.
 *
 * @param {any} value
 */
function isKept(value) {
  const isTable = (/** @type {any} */ x) => Boolean(x) && typeof x === "object" && !Array.isArray(x);
  return isTable(value) && typeof value.edition === "string" && typeof value.at === "string"
    && isTable(value.done) && (value.chosen === undefined || isTable(value.chosen)) && isTable(value.answers) && Object.values(value.answers).every((a) =>
    isTable(a) && Number.isInteger(a.choice) && typeof a.right === "boolean"
      && a.confidence >= 0 && a.confidence <= 1);
}
