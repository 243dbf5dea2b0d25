// @ts-check
/**
 * Requests to the study's server, and the events that it has not yet confirmed. The code travels in a
 * header, never in an address. Each event is kept in the browser's own stores under a key of its own
 * until the server says that it is on the disk, so that nothing is lost with a tab, a browser, a
 * connection or a server; the server knows an event by its uuid and counts it once. localStorage is what
 * tabs see of each other at once, IndexedDB is what a killed browser still has.
 */

import { Kept } from "./kept.js";

const TIMEOUT_MS = 30000;

/** An answer that says no, or none at all (status 0). */
export class Failed extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} code @param {string} path
 * @param {unknown} [body] sent as JSON by POST; without it the request is a GET
 * @returns {Promise<Response>} an answer that says yes; raises Failed
 */
export async function ask(code, path, body) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), TIMEOUT_MS);
  /** @type {Record<string, string>} */
  const headers = { "x-study-code": code };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal: stop.signal,
    });
  } catch {
    throw new Failed(0, "The server cannot be reached: you may be offline, or it has stopped.");
  } finally {
    clearTimeout(timer);
  }
  if (response.ok) return response;
  let words = `The server answered ${response.status}. If it stays so, tell the organiser.`;
  try {
    words = (await response.json()).error || words;
  } catch {
    // a proxy's page: the number has to do
  }
  throw new Failed(response.status, words);
}

/** @param {string} code @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export async function askJson(code, path, body) {
  const response = await ask(code, path, body);
  try {
    return await response.json();
  } catch {
    throw new Failed(response.status, "The server's answer was cut off. If it stays so, reload the page.");
  }
}

/**
 * @typedef {{uuid: string, kind: string, tab: string, count: number, time: number,
 *   elapsed?: number, task?: string, side?: number, old?: number | null, new?: number | null,
 *   note?: string}} RatingEvent
 * @typedef {{outcomes: {uuid: string, committed: boolean, reason?: string}[], state: string,
 *   tasks: any[], feedback: Record<string, any[]>, screening: import("./screening.js").Screening | null}} Reply
 */

const BATCH = 50;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 20000;
/** The code is wrong: asking again would only count as guessing. */
const WRONG_CODE = 401;
/** Revoked, or closed: the organiser may change that. */
const REFUSED = [403, 409];

export class Queue {
  /**
   * @param {string} scope of study and rater: tabs of one rater share what waits
   * @param {(events: RatingEvent[]) => Promise<Reply>} send
   * @param {(reply: Reply | null, failure: Failed | null) => void} changed
   */
  constructor(scope, send, changed) {
    this.scope = `macd-rate:${scope}:`;
    this.send = send;
    this.changed = changed;
    this.tab = randomId();
    this.count = 0;
    /** @type {Map<string, RatingEvent>} by key; what the browser's store did not take */
    this.memory = new Map();
    this.kept = new Kept();
    /** @type {Set<string>} keys of events that no store of the browser has yet */
    this.unkept = new Set();
    /** @type {Set<string>} uuids that the server has, though the browser's stores may still hold them */
    this.confirmed = new Set();
    /** @type {Map<string, string>} uuid → why the server does not take it */
    this.refused = new Map();
    this.wait = FIRST_WAIT_MS;
    this.sending = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.storeWorks = true;
    /** @type {(event: RatingEvent) => void} what another tab of the same rater has added */
    this.heard = () => {};
    addEventListener("storage", ({ key, newValue }) => {
      if (!key?.startsWith(this.scope)) return;
      try {
        if (newValue !== null) this.heard(JSON.parse(newValue));
      } catch {
        // not an event: nothing was added
      }
      this.changed(null, null);
    });
    addEventListener("online", () => this.sendSoon(0));
    addEventListener("visibilitychange", () => this.sendSoon(0));
  }

  /** Brings back what a browser that was killed had on its disk; before anything is sent. */
  async open() {
    await this.kept.open();
    try {
      const { events, confirmed } = await this.kept.read(this.scope);
      // localStorage may hold again what it had forgotten when the browser was killed
      for (const [key, event] of this.pending()) {
        if (confirmed.has(event.uuid)) this.drop(key);
      }
      const there = new Set(this.pending().map(([, event]) => event.uuid));
      for (const [key, event] of events) {
        if (!there.has(event.uuid) && !confirmed.has(event.uuid)) this.hold(key, event);
      }
    } catch {
      // what localStorage has is all there is
    }
    this.kept.tidy();
  }

  /** In localStorage, or in memory where that takes nothing. @param {string} key @param {RatingEvent} event */
  hold(key, event) {
    try {
      localStorage.setItem(key, JSON.stringify(event));
      return true;
    } catch {
      this.storeWorks = false;
      this.memory.set(key, event);
      return false;
    }
  }

  /** Whether all that waits would be there after a crash of the browser, as far as it can be told. */
  get isKept() { return this.unkept.size === 0; }

  /** Whether the page can be left: then all that waits is in one of the browser's stores. */
  get isHeld() { return this.isKept || this.storeWorks; }

  /** Keeps an event, and sends it. @param {Omit<RatingEvent, "uuid" | "tab" | "count" | "time">} what */
  add(what) {
    const count = this.count++;
    /** @type {RatingEvent} */
    const event = { ...what, uuid: randomUuid(), tab: this.tab, count, time: Date.now() };
    const key = `${this.scope}${this.tab}:${String(count).padStart(9, "0")}`;
    const held = this.hold(key, event);
    this.unkept.add(key);
    this.kept.keep(key, event).then((onDisk) => {
      if (onDisk || (held && !this.kept.db)) this.unkept.delete(key);
      this.changed(null, null);
    });
    this.changed(null, null);
    this.sendSoon(0);
    return event;
  }

  /** @returns {[string, RatingEvent][]} what waits, each tab's in the order it was made */
  pending() {
    /** @type {[string, RatingEvent][]} */
    const entries = [...this.memory];
    try {
      for (let i = 0; i < localStorage.length; i++) {
        const key = localStorage.key(i);
        if (key === null || !key.startsWith(this.scope)) continue;
        const text = localStorage.getItem(key);
        if (text !== null) entries.push([key, JSON.parse(text)]);
      }
    } catch {
      this.storeWorks = false;
    }
    return entries.filter(([, e]) => !this.confirmed.has(e.uuid)).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  }

  /** @param {number} ms */
  sendSoon(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), ms);
  }

  async flush() {
    if (this.sending) return;
    const waiting = this.pending().filter(([, e]) => !this.refused.has(e.uuid));
    if (!waiting.length) return;
    this.sending = true;
    const batch = waiting.slice(0, BATCH);
    try {
      const reply = await this.send(batch.map(([, event]) => event));
      const outcomes = new Map(reply.outcomes.map((o) => [o.uuid, o]));
      for (const [key, event] of batch) {
        const outcome = outcomes.get(event.uuid);
        if (outcome?.committed) this.forget(key, event.uuid);
        else if (outcome) this.refused.set(event.uuid, outcome.reason ?? "");
      }
      // an answer that says nothing of an event is none: asking at once would never end
      const unanswered = batch.some(([, event]) => !outcomes.has(event.uuid));
      this.wait = unanswered ? Math.min(this.wait * 2, LONGEST_WAIT_MS) : FIRST_WAIT_MS;
      this.sending = false;
      this.changed(reply, null);
      this.sendSoon(unanswered ? this.wait : 0);
    } catch (error) {
      const failure = error instanceof Failed ? error : new Failed(0, String(error));
      this.sending = false;
      this.changed(null, failure);
      if (failure.status === WRONG_CODE) return;
      const long = REFUSED.includes(failure.status);
      this.wait = long ? LONGEST_WAIT_MS : Math.min(this.wait * 2, LONGEST_WAIT_MS);
      this.sendSoon(this.wait);
    }
  }

  /** The server has it. @param {string} key @param {string} uuid */
  async forget(key, uuid) {
    this.confirmed.add(uuid);
    this.unkept.delete(key);
    await this.kept.confirm(key, uuid);
    this.drop(key);
  }

  /** @param {string} key */
  drop(key) {
    this.memory.delete(key);
    try {
      localStorage.removeItem(key);
    } catch {
      // it is sent once more, which changes nothing
    }
  }
}

function randomId() {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Version 4; crypto.randomUUID is missing where a page comes without TLS. */
function randomUuid() {
  const hex = randomId();
  const variant = "89ab"[parseInt(hex[16], 16) & 3];
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}`
    + `-${hex.slice(20)}`;
}
