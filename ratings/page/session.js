// @ts-check
/** What a rater does, from the instructions to the end; see docs/rating.md. */

import {
  instructionsTold, markAnswers, showCompletion, showFeedback, showKeys, showProgress, unsavedWords,
} from "./ending.js";
import { commandOf } from "./keys.js";
import { Loader } from "./loader.js";
import { say, show } from "./messages.js";
import { Player } from "./player.js";
import { Failed, Queue, askJson } from "./queue.js";
import { showScreening } from "./screening.js";
import { apply, isTouched, listItems, takeOver } from "./tasks.js";
import { MOST_LOW, Views, byId, inSentence, part, setReason, writeMarkdown } from "./view.js";

/** @typedef {import("./tasks.js").Task} Task */

const BREAK_AFTER_MS = 20 * 60 * 1000;
const RETRY_MS = 3000;
const CLOSED_MS = 30_000;
/** What the server answers where the study is over. */
const CLOSED = 410;

export class RatingPage {
  /** @param {string} code @param {any} session @param {string} told what is kept besides, for the instructions */
  constructor(code, session, told) {
    this.told = told;
    this.code = code;
    /** @type {Task[]} */
    this.tasks = session.tasks;
    this.instructions = session.instructions;
    this.consented = session.consented;
    this.finished = session.finished;
    /** @type {import("./screening.js").Screening | null} */
    this.screening = session.screening;
    /** @type {number | null} the answer to it, until the server has it */
    this.answered = null;
    this.completion = session.completion;
    this.closed = session.state === "closed";
    this.watching = 0;
    this.pairs = session.scale === "pairs";
    this.queue = new Queue(
      `${session.study}:${session.rater}`,
      (events) => askJson(code, "rate/api/events", { events }),
      (reply, failure) => this.onQueue(reply, failure),
    );
    this.player = new Player();
    this.views = new Views(part("views"), (side, rating) => this.rate(side, rating),
      (side, word) => this.explain(side, word),
      this.pairs ? (preference) => this.prefer(preference) : null);
    this.loader = new Loader(code);
    this.at = -1;
    /** @type {Task | undefined} whose item is on the screen, which stays while the next one is loaded */
    this.shown = undefined;
    /** @type {Task | undefined} that is being flagged */
    this.flagged = undefined;
    this.ready = false;
    /** @type {Record<string, any[]>} */
    this.feedback = {};
    /** @type {{side: number, old: number | null}[]} of the item on show, for undo; side -1: the preference */
    this.steps = [];
    this.activeMs = 0;
    this.lastClock = performance.now();
    this.sinceBreakMs = 0;
    this.resting = false;
    this.unsaved = "";
    setInterval(() => this.clock(), 1000);
    this.wire();
  }

  /** What waits in this browser counts on the page, though the server does not know it yet. */
  async start() {
    await this.queue.open();
    for (const [, event] of this.queue.pending()) this.take(event);
    this.queue.sendSoon(0);
    this.proceed();
  }

  /** @param {import("./queue.js").RatingEvent} event of this browser */
  take(event) {
    if (event.kind === "consent") this.consented = true;
    if (event.kind === "screening") this.answered = event.new ?? null;
    if (event.kind === "finish") this.finished = true;
    const task = this.tasks.find((t) => t.id === event.task);
    if (task) apply(task, event);
  }

  /** Another tab of this browser added an event: this one follows. @param {import("./queue.js").RatingEvent} event */
  follow(event) {
    const was = this.finished;
    this.take(event);
    if (event.task === this.task?.id) {
      this.steps = [];
      if (event.kind === "next" || event.kind === "skip") this.proceed();
    } else if (["consent", "screening"].includes(event.kind) || this.finished !== was) {
      this.proceed();
    }
    this.showSaved();
  }

  /** Takes over what the server has, which another device may have changed. */
  async catchUp() {
    try {
      const session = await askJson(this.code, "rate/api/session");
      this.keep(session.tasks);
      this.screen(session.screening);
      const was = this.closed;
      [this.finished, this.completion] = [session.finished || this.finished, session.completion];
      this.closed = session.state === "closed";
      if (this.finished || this.closed !== was) this.proceed();
      this.showSaved();
    } catch {
      // asked again when the tab is next looked at
    }
    this.watch();
  }

  /** Looks now and then whether a study that is closed was opened again. */
  watch() {
    if (!this.closed || this.watching) return;
    this.watching = setTimeout(() => {
      this.watching = 0;
      this.catchUp();
    }, CLOSED_MS);
  }

  /** @param {Task[]} saved as the server has them; what still waits here is newer */
  keep(saved) {
    takeOver(this.tasks, saved, new Set(this.queue.pending().map(([, event]) => event.task)));
  }

  /** What the server says of the question before the first screen. @param {RatingPage["screening"]} screening */
  screen(screening) {
    const was = this.screening?.state;
    this.screening = screening;
    if (screening?.state !== was) this.proceed();
  }

  wire() {
    byId("begin", HTMLButtonElement).addEventListener("click", () => {
      this.queue.add({ kind: "consent" });
      this.consented = true;
      this.proceed();
    });
    const consent = byId("consent", HTMLInputElement);
    consent.addEventListener("change", () => {
      byId("begin", HTMLButtonElement).disabled = !consent.checked;
    });
    for (const [id, act] of Object.entries(this.actions())) {
      part(id).addEventListener("click", act);
    }
    // a click on a control leaves the keyboard where it is
    part("controls").addEventListener("mousedown", (event) => event.preventDefault());
    part("resume").addEventListener("click", () => this.rest(false));
    part("break-done").addEventListener("click", () => {
      this.sinceBreakMs = 0;
      part("break").hidden = true;
    });
    part("items-button").addEventListener("click", () => this.showItems());
    part("finish").addEventListener("click", () => {
      this.queue.add({ kind: "finish" });
      this.finished = true;
      this.proceed();
    });
    showKeys(this.pairs);
    this.queue.heard = (event) => this.follow(event);
    document.addEventListener("visibilitychange", () => document.hidden || this.catchUp());
    // Back leads to the item before, never out of the study
    history.replaceState({ outside: true }, "");
    history.pushState({ at: -1 }, "");
    addEventListener("popstate", ({ state }) => this.onBack(state));
    const dialog = byId("note-dialog", HTMLDialogElement);
    dialog.addEventListener("close", () => {
      const note = byId("note", HTMLTextAreaElement);
      if (dialog.returnValue === "send" && this.flagged) {
        this.queue.add({ kind: "flag", task: this.flagged.id, note: note.value });
        say("hint", "Flagged for the organiser.");
      }
      note.value = "";
    });
    document.addEventListener("keydown", (event) => this.onKey(event));
    addEventListener("beforeunload", (event) => this.queue.isHeld || event.preventDefault());
  }

  /** @param {{at?: number, outside?: boolean} | null} state */
  onBack(state) {
    const at = state?.at ?? -1;
    if (at >= 0 && !this.finished) {
      this.open(at, false);
      return;
    }
    if (!state && !this.finished && this.at > 0) { // the address of the page was entered once more
      history.replaceState({ at: this.at }, "");
      return;
    }
    if (state?.outside || this.finished || this.at >= 0) history.pushState({ at: this.at }, "");
    say("hint", "Here your part of the study begins. What you gave is kept: to leave, close the tab.");
  }

  showItems() {
    const dialog = byId("items-dialog", HTMLDialogElement);
    listItems(part("items-list"), this.tasks, this.at, (at) => {
      dialog.close();
      this.open(at);
    });
    dialog.showModal();
  }

  /** By the button's id. @returns {Record<string, () => void>} */
  actions() {
    return {
      play: () => this.play(),
      slow: () => this.toggle("slow", (this.player.slow = !this.player.slow)),
      zoom: () => this.toggle("zoom", part("views").classList.toggle("zoomed")),
      undo: () => this.undo(),
      back: () => this.at > 0 && this.open(this.at - 1),
      skip: () => this.leave("skip"),
      flag: () => {
        const dialog = byId("note-dialog", HTMLDialogElement);
        if (!this.shown) return;
        this.flagged = this.shown;
        dialog.returnValue = "";
        dialog.showModal();
      },
      rest: () => this.rest(part("resting").hidden),
      next: () => this.next(),
    };
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target.matches("input, textarea, select")) return;
    const command = commandOf(event, target);
    const paused = !part("resting").hidden;  // then the key of a break ends it, and no other means anything
    if (!command || (paused ? command.action !== "rest" : part("item").hidden)) return;
    event.preventDefault();
    if (event.repeat) return;
    const { focused, explained } = this.views;
    if (command.rating !== undefined) {
      if (this.pairs) this.prefer(command.rating);
      else if (command.rating > 0 && this.hasKeyboard(focused)) this.rate(focused, command.rating);
    } else if (command.reason !== undefined) {
      const side = Math.max(focused, explained);
      if (this.hasKeyboard(side)) this.explain(side, command.reason);
    } else if (command.action !== undefined) {
      this.actions()[command.action]();
    }
  }

  /** Whether it is seen which mask a key means; else that mask gets the keyboard. @param {number} side */
  hasKeyboard(side) {
    if (side >= 0) return true;
    const active = this.views.active;
    this.views.focus(active);
    const count = this.task ? this.task.ratings.length : 1;
    say("hint", `Not rated: no mask was marked. Now it is ${inSentence(active, count)}; press the key again.`);
    return false;
  }

  /** @returns {Task | undefined} */
  get task() { return this.tasks[this.at]; }

  clock() {
    const now = performance.now();
    const passed = now - this.lastClock;
    this.lastClock = now;
    if (document.hidden || this.resting || part("item").hidden) return;
    this.activeMs += passed;
    this.sinceBreakMs += passed;
    if (this.sinceBreakMs >= BREAK_AFTER_MS) part("break").hidden = false;
  }

  /** Shows the first thing that is not done. */
  proceed() {
    const state = this.screening?.state;
    part("items-button").hidden = !this.consented || this.finished || this.closed || state === "asked" || state === "failed";
    if (!this.consented && !this.closed) {
      writeMarkdown(part("instructions-text"), this.instructions + instructionsTold(this.tasks) + this.told);
      show("instructions");
      return;
    }
    if (this.screening && state === "asked" && !this.closed) {
      showScreening(this.screening, this.answered, (option) => {
        this.queue.add({ kind: "screening", new: option });
        this.answered = option;
        this.proceed();
      });
      show("screening");
      return;
    }
    const next = state === "failed" ? -1 : this.tasks.findIndex((task) => !task.done);
    if (!this.finished && !this.closed && next >= 0) {
      this.open(next);
      return;
    }
    this.at = -1;
    this.watch();
    if (this.finished || this.closed || state === "failed") {
      show("end");
      showCompletion(state === "failed" ? this.screening?.completion ?? null : this.completion);
    } else {
      history.pushState({ at: -1 }, "");
      listItems(part("review-list"), this.tasks, -1, (at) => this.open(at));
      show("review");
    }
    this.showSaved();
  }

  /** @param {number} at @param {boolean} [push] whether Back leads here again */
  async open(at, push = true) {
    const began = performance.now();
    const task = this.tasks[at];
    if (!task) return;
    if (push && at !== this.at) history.pushState({ at }, "");
    this.at = at;
    this.ready = false;
    this.steps = [];
    say("hint", "");
    let item;
    try {
      item = await this.loader.load(task);
    } catch (error) {
      this.loader.forget(task);
      if (this.at !== at) return;
      const failed = error instanceof Failed ? error : new Failed(0, String(error));
      if (failed.status === CLOSED) {
        this.closed = true;
        say("loading", "");
        this.proceed();
        return;
      }
      say("loading", `${failed.message} What you rated is kept; the next item is asked for again.`);
      if (failed.status !== 401) setTimeout(() => this.at === at && this.open(at), RETRY_MS);
      return;
    }
    if (this.at !== at) return;
    say("loading", "");
    show("item");
    this.shown = task;
    part("question").textContent = item.question;
    part("kind").textContent = task.kind === "training" ? "Training: this one does not count." : "";
    part("feedback").replaceChildren();
    part("item").classList.remove("zoomed");
    byId("back", HTMLButtonElement).disabled = at === 0;
    const canvases = this.views.build(task.ratings.length);
    this.player.show(canvases, item.clips, item.times);
    this.toggle("zoom", part("views").classList.contains("zoomed"));
    this.toggle("skip", task.skipped);
    this.views.focus(0, { preventScroll: true });
    window.scrollTo(0, 0); // to the question, of a screen whose former item was scrolled
    this.clock();
    this.activeMs = 0;
    this.ready = true;
    this.queue.add({ kind: "shown", task: task.id });
    this.showSaved();
    this.showFeedback();
    requestAnimationFrame(() => {
      document.body.dataset.item = task.id;
      document.body.dataset.appearedMs = String(Math.round(performance.now() - began));
    });
    const following = this.tasks.find((t, i) => i > at && !t.done);
    if (following) this.loader.load(following).catch(() => this.loader.forget(following));
  }

  /** @param {number} side @param {number} rating */
  rate(side, rating) {
    const task = this.task;
    if (!task || !this.ready || side >= task.ratings.length) return;
    const old = task.ratings[side];
    this.views.focus(side);
    say("hint", "");
    if (old === rating) return;
    this.steps.push({ side, old });
    task.ratings[side] = rating;
    this.add("rate", { side, old, new: rating });
  }

  /** @param {number} preference */
  prefer(preference) {
    const task = this.task;
    if (!task || !this.ready || preference > 2) return;
    say("hint", "");
    const old = task.preference;
    if (old === preference) return;
    this.steps.push({ side: -1, old });
    task.preference = preference;
    this.add("prefer", { old, new: preference });
    this.views.focus(0);
  }

  /** Why the mask is rated low: gives a reason, or takes it back. @param {number} side @param {string} word */
  explain(side, word) {
    const task = this.task;
    if (!task || !this.ready || side >= task.ratings.length) return;
    const rating = task.ratings[side];
    if (rating === null || rating > MOST_LOW) return;
    const on = !task.reasons[side].includes(word);
    setReason(task, side, word, on);
    this.add("reason", { side, note: word, new: on ? 1 : null });
    this.showSaved();
  }

  undo() {
    const task = this.task;
    const step = this.steps.pop();
    if (!task || !this.ready) return;
    if (step && step.side < 0) {
      const old = task.preference;
      task.preference = step.old;
      this.add("prefer", { old, new: step.old });
    } else if (step) {
      const old = task.ratings[step.side];
      task.ratings[step.side] = step.old;
      this.add("undo", { side: step.side, old, new: step.old });
      this.views.focus(step.side);
    } else if (this.at > 0 && !isTouched(task)) {
      this.open(this.at - 1);
    } else if (isTouched(task)) {
      say("hint", "There is nothing to undo: this item was answered before it was opened here. Answer it again to change it.");
    }
  }

  /** @param {string} kind @param {{side?: number, old?: number | null, new?: number | null, note?: string}} what */
  add(kind, what) {
    const task = this.task;
    if (!task) return;
    this.clock();
    this.queue.add({ kind, task: task.id, elapsed: Math.round(this.activeMs), ...what });
  }

  next() {
    const task = this.task;
    if (!task || !this.ready) return;
    if (this.pairs && task.preference === null) {
      say("hint", "Say which mask is better first, or that you cannot judge.");
      return;
    }
    const missing = this.pairs ? -1 : task.ratings.findIndex((rating) => rating === null);
    if (missing >= 0) {
      say("hint", `Rate ${inSentence(missing, task.ratings.length)} first, or say that you cannot judge.`);
      this.views.focus(missing);
      return;
    }
    this.leave("next");
  }

  /** @param {"next" | "skip"} how */
  leave(how) {
    const task = this.task;
    if (!task || !this.ready) return;
    say("hint", "");
    this.add(how, {});
    task.done = true;
    task.skipped = how === "skip";
    this.proceed();
  }

  play() {
    this.player.toggle();
    part("play").textContent = this.player.playing ? "Pause" : "Play";
  }

  /** @param {string} id @param {boolean} on */
  toggle(id, on) {
    part(id).setAttribute("aria-pressed", String(on));
  }

  /** @param {boolean} on */
  rest(on) {
    this.clock();
    this.resting = on;
    this.sinceBreakMs = 0;
    part("break").hidden = true;
    show(on ? "resting" : "item");
    if (!on) this.views.focus(this.views.active);
  }

  /** @param {import("./queue.js").Reply | null} reply @param {Failed | null} failure */
  onQueue(reply, failure) {
    if (reply) {
      this.unsaved = "";
      this.keep(reply.tasks);
      this.screen(reply.screening);
      Object.assign(this.feedback, reply.feedback);
      this.showFeedback();
      // what a participant needs at the end comes once the end is on the server's disk
      if (this.finished && !this.completion && !this.queue.pending().length) this.catchUp();
    }
    if (failure) this.unsaved = failure.message;
    say("saving", this.unsaved && unsavedWords(this.unsaved, this.queue.isKept));
    this.showSaved();
  }

  showFeedback() {
    const task = this.task;
    const lines = task && this.feedback[task.id];
    if (!task || !lines || task.kind !== "training" || !this.ready) return;
    showFeedback(lines, this.pairs);
  }

  /** What is on the server's disk, and what is not yet. */
  showSaved() {
    const pending = this.queue.pending().map(([, event]) => event);
    const unsaved = pending.filter((e) => e.kind !== "shown").length;
    showProgress(unsaved, this.tasks, this.screening?.state === "failed", this.closed);
    const task = this.task;
    if (!task || !this.ready) return;
    markAnswers(this.views, task, pending, this.queue.refused, this.pairs);
  }
}
