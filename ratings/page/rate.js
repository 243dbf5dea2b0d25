// @ts-check
/** The page of a rater: instructions, training, items; see docs/rating.md. */

import { commandOf } from "./keys.js";
import { Player, unpack } from "./player.js";
import { Failed, Queue, ask, askJson } from "./queue.js";
import { MOST_LOW, Views, byId, inSentence, make, part, setReason, sideName,
  writeMarkdown } from "./view.js";

/**
 * @typedef {{id: string, kind: "training" | "item", ratings: (number | null)[], reasons: string[][], done: boolean}} Task
 * @typedef {{question: string, times: number[][], clips: ImageBitmap[][]}} Item
 */

/** How a message about ratings begins that wait in this browser. */
const UNSAVED = "Not saved yet:";
const BREAK_AFTER_MS = 20 * 60 * 1000;
const RETRY_MS = 3000;
const SECTIONS = ["enter", "instructions", "item", "resting", "end"];
const CODE = "macd-rate-code";

class RatingPage {
  /** @param {string} code @param {any} session */
  constructor(code, session) {
    this.code = code;
    /** @type {Task[]} */
    this.tasks = session.tasks;
    this.instructions = session.instructions;
    this.consented = session.consented;
    this.queue = new Queue(
      `${session.study}:${session.rater}`,
      (events) => askJson(code, "rate/api/events", { events }),
      (reply, failure) => this.onQueue(reply, failure),
    );
    this.player = new Player();
    this.views = new Views(part("views"), (side, rating) => this.rate(side, rating),
      (side, word) => this.explain(side, word));
    /** @type {Map<string, Promise<Item>>} */
    this.items = new Map();
    this.at = -1;
    this.ready = false;
    /** @type {Record<string, any[]>} */
    this.feedback = {};
    /** @type {{side: number, old: number | null}[]} of the item on show, for undo */
    this.steps = [];
    this.activeMs = 0;
    this.lastClock = performance.now();
    this.sinceBreakMs = 0;
    this.resting = false;
    setInterval(() => this.clock(), 1000);
    this.wire();
    this.replay();
  }

  /** What waits in this browser counts on the page, though the server does not know it yet. */
  replay() {
    for (const [, event] of this.queue.pending()) {
      if (event.kind === "consent") this.consented = true;
      const task = this.tasks.find((t) => t.id === event.task);
      if (!task) continue;
      if ((event.kind === "rate" || event.kind === "undo") && event.side !== undefined) {
        task.ratings[event.side] = event.new ?? null;
      }
      if (event.kind === "reason" && event.side !== undefined) {
        setReason(task, event.side, String(event.note), event.new === 1);
      }
      if (event.kind === "next" || event.kind === "skip") task.done = true;
    }
    this.queue.sendSoon(0);
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
    const dialog = byId("note-dialog", HTMLDialogElement);
    dialog.addEventListener("close", () => {
      const note = byId("note", HTMLTextAreaElement);
      if (dialog.returnValue === "send" && this.task) {
        this.queue.add({ kind: "flag", task: this.task.id, note: note.value });
      }
      note.value = "";
    });
    document.addEventListener("keydown", (event) => this.onKey(event));
    addEventListener("beforeunload", (event) => {
      if (this.queue.memory.size) event.preventDefault();
    });
    addEventListener("storage", () => this.showSaved());
  }

  /** @returns {Record<string, () => void>} by the button's id */
  actions() {
    return {
      play: () => this.play(),
      slow: () => this.toggle("slow", (this.player.slow = !this.player.slow)),
      zoom: () => this.toggle("zoom", part("views").classList.toggle("zoomed")),
      undo: () => this.undo(),
      skip: () => this.leave("skip"),
      flag: () => {
        const dialog = byId("note-dialog", HTMLDialogElement);
        dialog.returnValue = "";
        dialog.showModal();
      },
      rest: () => this.rest(true),
      next: () => this.next(),
    };
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target.matches("input, textarea, select") || part("item").hidden) return;
    const command = commandOf(event, target);
    if (!command) return;
    event.preventDefault();
    if (event.repeat) return;
    const { focused, explained } = this.views;
    if (command.rating !== undefined) {
      if (this.hasKeyboard(focused)) this.rate(focused, command.rating);
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
    banner(`Not rated: no mask was marked. Now it is ${inSentence(active, count)}; press the key again.`);
    return false;
  }

  /** @returns {Task | undefined} */
  get task() {
    return this.tasks[this.at];
  }

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
    if (!this.consented) {
      writeMarkdown(part("instructions-text"), this.instructions);
      show("instructions");
      return;
    }
    const next = this.tasks.findIndex((task) => !task.done);
    if (next < 0) {
      this.at = -1;
      show("end");
      this.showSaved();
    } else {
      this.open(next);
    }
  }

  /** @param {number} at */
  async open(at) {
    const began = performance.now();
    const task = this.tasks[at];
    this.at = at;
    this.ready = false;
    this.steps = [];
    let item;
    try {
      item = await this.load(task);
    } catch (error) {
      this.items.delete(task.id);
      if (this.at !== at) return;
      const failed = error instanceof Failed ? error : new Failed(0, String(error));
      banner(`${failed.message} What you rated is kept; the next item is asked for again.`);
      if (failed.status !== 401) setTimeout(() => this.at === at && this.open(at), RETRY_MS);
      return;
    }
    if (this.at !== at) return;
    banner("");
    show("item");
    part("question").textContent = item.question;
    part("kind").textContent = task.kind === "training" ? "Training: this one does not count." : "";
    part("feedback").replaceChildren();
    part("item").classList.remove("zoomed");
    const canvases = this.views.build(task.ratings.length);
    this.player.show(canvases, item.clips, item.times);
    this.toggle("zoom", part("views").classList.contains("zoomed"));
    this.views.focus(0);
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
    if (following) this.load(following).catch(() => this.items.delete(following.id));
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

  /** @param {number} side @param {number} rating */
  rate(side, rating) {
    const task = this.task;
    if (!task || !this.ready || side >= task.ratings.length) return;
    const old = task.ratings[side];
    this.views.focus(side);
    banner("");
    if (old === rating) return;
    this.steps.push({ side, old });
    task.ratings[side] = rating;
    this.add("rate", { side, old, new: rating });
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
    if (step) {
      const old = task.ratings[step.side];
      task.ratings[step.side] = step.old;
      this.add("undo", { side: step.side, old, new: step.old });
      this.views.focus(step.side);
    } else if (this.at > 0 && task.ratings.every((r) => r === null)) {
      this.open(this.at - 1);
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
    const missing = task.ratings.findIndex((rating) => rating === null);
    if (missing >= 0) {
      banner(`Rate ${inSentence(missing, task.ratings.length)} first, or skip the item.`);
      this.views.focus(missing);
      return;
    }
    this.leave("next");
  }

  /** @param {"next" | "skip"} how */
  leave(how) {
    const task = this.task;
    if (!task || !this.ready) return;
    banner("");
    this.add(how, {});
    task.done = true;
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
      if (part("banner").textContent?.startsWith(UNSAVED)) banner(""); // other words stay
      const busy = new Set(this.queue.pending().map(([, event]) => event.task));
      for (const saved of reply.tasks) {
        const task = this.tasks.find((t) => t.id === saved.id);
        if (task && !busy.has(task.id)) [task.ratings, task.reasons] = [saved.ratings, saved.reasons];
      }
      Object.assign(this.feedback, reply.feedback);
      this.showFeedback();
    }
    if (failure) banner(`${UNSAVED} ${failure.message} It is kept in this browser.`);
    this.showSaved();
  }

  showFeedback() {
    const task = this.task;
    const lines = task && this.feedback[task.id];
    if (!task || !lines || task.kind !== "training" || !this.ready) return;
    part("feedback").replaceChildren(
      ...lines.map((line, side) => make("p", `${sideName(side, lines.length)}: `
        + `${line.fits ? "yes." : "look again."} ${line.why}`)),
    );
  }

  /** What is on the server's disk, and what is not yet. */
  showSaved() {
    const pending = this.queue.pending().map(([, event]) => event);
    const waiting = pending.filter((e) => e.kind !== "shown");
    const saved = part("saved");
    const words = waiting.length ? `${waiting.length} not saved yet` : "All saved ✓";
    if (saved.textContent !== words) saved.textContent = words;
    saved.classList.toggle("waiting", waiting.length > 0);
    const items = this.tasks.filter((t) => t.kind === "item");
    const done = items.filter((t) => t.done).length;
    const progress = byId("progress", HTMLProgressElement);
    progress.hidden = false;
    [progress.max, progress.value] = [Math.max(items.length, 1), done];
    part("place").textContent = `${done} of ${items.length}`;
    part("end-text").textContent = waiting.length
      ? `You are through. ${words}: leave this page open until everything is saved.`
      : "You are through, and everything is saved. You can close this page.";
    const task = this.task;
    if (!task || !this.ready) return;
    task.ratings.forEach((rating, side) => {
      this.views.markReasons(side, rating, task.reasons[side]);
      const own = pending.filter((e) => e.task === task.id && e.side === side);
      const reason = own.map((e) => this.queue.refused.get(e.uuid)).find(Boolean);
      if (reason) this.views.mark(side, rating, { text: `not saved: ${reason}`, kind: "waiting" });
      else if (own.length) this.views.mark(side, rating, { text: "not saved yet", kind: "waiting" });
      else this.views.mark(side, rating, { text: rating === null ? "" : "saved ✓", kind: "saved" });
    });
  }
}

/** @param {string} section */
function show(section) {
  for (const id of SECTIONS) part(id).hidden = id !== section;
  if (section === "end" || section === "resting") part(section).querySelector("h1")?.focus();
}

/** @param {string} words "" hides it */
function banner(words) {
  const line = part("banner");
  if (line.textContent !== words) line.textContent = words;
  line.hidden = !words;
}

/** @param {string} code */
async function enter(code) {
  try {
    const session = await askJson(code, "rate/api/session");
    sessionStorage.setItem(CODE, code);
    banner("");
    new RatingPage(code, session).proceed();
  } catch (error) {
    const failed = error instanceof Failed ? error : new Failed(0, String(error));
    banner(failed.message);
    show("enter");
    if (failed.status === 0 || failed.status >= 500) setTimeout(() => enter(code), RETRY_MS);
  }
}

byId("help-button", HTMLButtonElement).addEventListener("click", openHelp);
document.addEventListener("keydown", (event) => {
  const typing = /** @type {HTMLElement} */ (event.target).matches("input, textarea");
  if (event.key === "?" && !typing && !document.querySelector("dialog[open]")) openHelp();
});
function openHelp() {
  byId("help", HTMLDialogElement).showModal();
}
part("enter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(byId("code", HTMLInputElement).value.trim().toUpperCase());
});
addEventListener("hashchange", () => location.reload());

/** Without a code: that of who is signed in, where the study takes logins. */
async function enterSignedIn() {
  show("enter");
  try {
    enter((await askJson("", "rate/hub/code")).code);
  } catch (error) {
    const failed = error instanceof Failed ? error : new Failed(0, String(error));
    part("hub").hidden = failed.status !== 401;
    if (failed.status === 403) banner(failed.message);
  }
}

const code = location.hash.slice(1) || sessionStorage.getItem(CODE);
if (code) enter(code);
else enterSignedIn();
