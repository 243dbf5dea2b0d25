// @ts-check
/**
 * What waits for the server, on the browser's disk: in IndexedDB, whose strict transactions end when
 * they are there. What localStorage takes stays in memory for half a minute, and is lost with a
 * browser that is killed. Which events the server has confirmed is kept beside them, as what
 * localStorage forgot may be there again after a crash.
 */

const NAME = "macd-rate";
const EVENTS = "events";
const CONFIRMED = "confirmed";
/** A store that does not answer is none: the page must not wait for it. */
const LONGEST_OPEN_MS = 3000;
/** Longer than any browser holds back what localStorage forgot. */
const REMEMBERED_MS = 30 * 24 * 3600 * 1000;

/** @typedef {import("./queue.js").RatingEvent} RatingEvent */

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class Kept {
  constructor() {
    /** @type {IDBDatabase | null} null: this browser has no such store, as in a private window */
    this.db = null;
  }

  /** Opens the store, where there is one. */
  async open() {
    try {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore(EVENTS);
        request.result.createObjectStore(CONFIRMED);
      };
      const opened = result(request);
      const late = new Promise((_, reject) => setTimeout(reject, LONGEST_OPEN_MS));
      const db = /** @type {IDBDatabase} */ (await Promise.race([opened, late]));
      db.onversionchange = () => db.close();
      db.onclose = () => {
        this.db = null;
      };
      this.db = db;
    } catch {
      this.db = null;
    }
  }

  /**
   * What is kept under keys that begin with the scope, and the uuids that the server confirmed.
   * @param {string} scope
   * @returns {Promise<{events: [string, RatingEvent][], confirmed: Set<string>}>}
   */
  async read(scope) {
    if (!this.db) return { events: [], confirmed: new Set() };
    const own = IDBKeyRange.bound(scope, `${scope}\uffff`);
    const both = this.db.transaction([EVENTS, CONFIRMED]);
    const [events, confirmed] = [both.objectStore(EVENTS), both.objectStore(CONFIRMED)];
    const [keys, values, uuids] = await Promise.all([
      result(events.getAllKeys(own)), result(events.getAll(own)), result(confirmed.getAllKeys())]);
    return {
      events: keys.map((key, i) => [String(key), values[i]]),
      confirmed: new Set(uuids.map(String)),
    };
  }

  /** Resolves once the event is on the disk: true; false: it is not. @param {string} key @param {RatingEvent} event */
  keep(key, event) {
    return this.write((events) => events.put(event, key));
  }

  /** The server has the event: it is forgotten here, and does not come back. @param {string} key @param {string} uuid */
  confirm(key, uuid) {
    return this.write((events, confirmed) => {
      events.delete(key);
      confirmed.put(Date.now(), uuid);
    });
  }

  /** Forgets confirmations that nothing can need any more. */
  tidy() {
    return this.write((_, confirmed) => {
      const cursor = confirmed.openCursor();
      cursor.onsuccess = () => {
        const at = cursor.result;
        if (!at) return;
        if (at.value < Date.now() - REMEMBERED_MS) at.delete();
        at.continue();
      };
    });
  }

  /**
   * @param {(events: IDBObjectStore, confirmed: IDBObjectStore) => void} change
   * @returns {Promise<boolean>} whether it is on the disk
   */
  write(change) {
    return new Promise((resolve) => {
      try {
        if (!this.db) return void resolve(false);
        const both = this.db.transaction([EVENTS, CONFIRMED], "readwrite", { durability: "strict" });
        both.oncomplete = () => resolve(true);
        both.onabort = () => resolve(false);
        change(both.objectStore(EVENTS), both.objectStore(CONFIRMED));
      } catch {
        resolve(false);
      }
    });
  }
}
