// @ts-check
// One component: fed a trace (see payload.py), everything else happens in the browser.
// It does not depend on the page around it, which passes in the callbacks for requests and reports.

import { all, button, el, setText } from "./dom.js";
import { fold, unfold } from "./folds.js";
import { sentencesOf } from "./happened.js";
import { Help, Legend, Tour } from "./help.js";
import { makePanels, standing } from "./panels.js";
import { Stage } from "./stage.js";
import { Address, isContrast, State } from "./state.js";
import { Steps } from "./steps.js";
import { TEXT } from "./strings/labels.js";
import { Tokens } from "./tokens.js";

/** @import { Panel } from "./panels.js" */
/** @import { Action, Host, Payload, Status, Trace } from "./types" */

const LOWEST_PX = 150, ROOM_PX = 10; // of the picture, and below the first screen
const ALONE = 0.62, WITH_TOOLS = 0.42; // of the height there is, at most
const TOOLS_PX = 260; // beside the pictures, which keep their size
/** @type {[string, number, number][]} class, and the widths in px from which and below which it is set */
const WIDTHS = [
  ["mv-narrow", 0, 720], ["mv-two", 720, Infinity], ["mv-roomy", 1060, Infinity], ["mv-wide", 1700, Infinity],
];

export class Viewer {
  /** @param {Element} root @param {Host} host */
  constructor(root, host = {}) {
    this.host = host;
    this.state = new State(() => this.draw(), host);
    /** @type {Payload["trace"] | undefined} what was told last, as it came */
    this.told = undefined;
    this.before = ""; // the same as text, from when an action is sent until it begins
    /** @type {(action: Action) => void} */
    const commit = (action) => this.commit(action);
    this.bar = el("ol", { class: "mv-stages", "aria-label": TEXT.progress });
    this.message = el("p", { class: "mv-message", role: "status", "aria-live": "polite" });
    this.stop = button(TEXT.stop, () => this.askToStop(), { class: "mv-button mv-stop", hidden: true });
    this.notes = el("ul", { class: "mv-notes" });
    this.another = el("p", { class: "mv-another", role: "status", hidden: true });
    this.about = el("p", { class: "mv-about" }); // what is said of a run that is not going on
    this.stage = new Stage(this.state);
    this.steps = new Steps(this.state);
    this.tokens = new Tokens(this.state, commit, () => this.drawRule());
    this.panels = makePanels({
      state: this.state, send: commit, stage: this.stage, tokens: this.tokens, host, open: (method) => this.open(method),
    });
    /** @type {[string, Panel][]} what is loaded, drawn and held alike, in this order */
    this.parts = Object.entries({ stage: this.stage, steps: this.steps, tokens: this.tokens, ...this.panels });
    this.legend = new Legend();
    this.tour = new Tour(this.state, () => this.body);
    this.address = new Address(this.state, this.tokens, host.addressTaken);
    this.help = new Help(this.tour.open);
    this.badge = el("p", { class: "mv-badge", hidden: true });
    this.question = el("h2", { class: "mv-question" });
    this.left = el("div", { class: "mv-shown" }, this.stage.root);
    this.right = el("div", { class: "mv-told" }, this.panels.bars.empty, ...standing(this.panels, "verdict"));
    this.first = el("div", { class: "mv-first" }, this.left, this.right);
    const { headline, choices } = this.panels;
    this.side = el("div", { class: "mv-side" }, ...standing(this.panels, "objects"));
    this.why = fold("why", TEXT.why, headline.mechanism,
      el("div", { class: "mv-columns" },
        el("div", { class: "mv-main" }, this.steps.root, this.stage.lanes.root, this.steps.more),
        el("div", { class: "mv-main" }, ...standing(this.panels, "words")),
        el("div", { class: "mv-main" }, this.tokens.root), this.side),
      choices.more);
    this.measure = fold("measure", TEXT.measureIt, this.stage.more, ...standing(this.panels, "measure"), button(TEXT.tour, () => this.tour.show(0), { class: "mv-button mv-tour-too" }), this.legend.root);
    this.body = el("div", { class: "mv-body", hidden: true },
      el("div", { class: "mv-head" }, this.question, this.badge, headline.outcome, headline.truth,
        button("?", () => this.help.toggle(), { "aria-label": TEXT.keys, class: "mv-button mv-help-open" })),
      ...standing(this.panels, "above"), this.first, this.why, this.measure, this.about, this.notes, this.tour.root);
    this.root = el("div", {
      class: "mv-root", tabindex: "0", role: "region", "aria-label": TEXT.traceViewer,
    }, this.bar, el("div", { class: "mv-progress" }, this.message, this.stop), this.another, this.body, this.help.root, this.legend.tips.root);
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.root.addEventListener("pointerdown", (e) => this.touch(e), true);
    this.root.addEventListener("dragover", (e) => e.preventDefault());
    this.root.addEventListener("drop", (e) => this.drop(e));
    this.attach(root);
    new ResizeObserver(() => this.fit()).observe(this.root);
    addEventListener("resize", () => this.fit());
    this.stage.tools.addEventListener("toggle", () => this.fit(), true);
    this.shownAt = 0;
    this.others = 0; // px below and above the picture that are seen with it
    this.fittedFor = 0; // views for which the picture was fitted last
    this.saidFor = ""; // for what the sentences stand that are shown
    setInterval(() => this.tick(), 50);
  }

  /** @param {Element} root */
  attach(root) {
    if (this.root.parentElement !== root) root.replaceChildren(this.root);
  }

  // By the width of the viewer, not of the screen; not every page that holds it takes container queries.
  fit() {
    const width = this.root.clientWidth;
    for (const [name, from, below] of WIDTHS) this.root.classList.toggle(name, width >= from && width < below);
    this.fitPicture();
  }

  // The picture takes the height that is left by what stands above and below it.
  fitPicture() {
    const { first, left, stage: { pictures, tools } } = this;
    if (this.body.hidden || !first.clientWidth) return;
    const top = first.getBoundingClientRect().top + scrollY;
    // measured while no tools are open
    if (!all(tools, "details[open]").length) this.others = left.offsetHeight - pictures.offsetHeight;
    const { classList } = this.root, open = all(tools, "details[open]").length > 0;
    const alone = Math.max(LOWEST_PX, Math.min(ALONE * innerHeight, innerHeight - top - this.others - ROOM_PX));
    const views = this.fittedFor = this.stage.shown === "both" ? 2 : 1, { width, height: tall } = this.stage.canvas;
    const beside = left.clientWidth - views * alone * (width / tall) >= TOOLS_PX && classList.contains("mv-roomy");
    classList.toggle("mv-spare", beside);
    const room = open && !beside ? Math.min(alone, WITH_TOOLS * innerHeight) : alone; // what is open below is seen, too
    const height = `${Math.floor(classList.contains("mv-narrow") ? 0.4 * innerHeight : room)}px`;
    if (pictures.style.getPropertyValue("--room") !== height) pictures.style.setProperty("--room", height);
  }

  /** Whoever touches the viewer looks at something: it stops, and does not start again by itself. @param {Event} event */
  touch(event) {
    if (this.state.touched) return;
    this.state.touched = true;
    if (this.state.playing && !this.stage.play.contains(/** @type {Node} */ (event.target))) this.state.set({ playing: false });
  }

  /** Hands an action to the server, one at a time. @param {Action} action */
  commit(action) {
    const { send } = this.host;
    if (!send || this.state.busy) return;
    this.hold(true);
    this.before = JSON.stringify(this.told);
    send({ ...action, run: this.state.loaded.run });
  }

  /** Says that what is shown belongs to another clip than the one in hand; "": it does not. @param {string} text */
  former(text) {
    setText(this.another, text);
    this.another.hidden = !text;
    this.body.classList.toggle("mv-of-another", Boolean(text));
  }

  /** @param {DragEvent} event */
  drop(event) {
    event.preventDefault();
    const file = event.dataTransfer && event.dataTransfer.files[0];
    if (file && this.host.onDrop) this.host.onDrop(file);
  }

  /** Lights up an object as if it were pointed at; null: none. @param {number | null} k */
  point(k) {
    const { trace } = this.state;
    if (trace && (k === null || k < trace.tracks.length)) this.state.set({ hover: k });
  }

  /** @param {Partial<Payload> | null | undefined} payload */
  update(payload) {
    if (!payload || !payload.status || this.isToldAgain(payload)) return;
    if (payload.status.running) this.before = "";
    if (payload.trace) this.told = payload.trace;
    if (payload.constants) {
      this.state.receivedConstants = payload.constants;
      this.legend.load(payload.constants);
    }
    this.showStatus(payload.status);
    this.state.running = payload.status.running;
    this.hold(payload.status.running);
    if (!payload.status.running && (payload.status.error || payload.status.message)) this.panels.choices.giveUp();
    if (payload.trace) this.load({ ...payload.trace });
    this.stage.saving.offer(payload.files, payload.status.running);
  }

  /**
   * Whether this is what was shown when an action was sent. Gradio repeats the last message of an event when
   * it ends, up to a second later: it is no answer to what was sent meanwhile.
   *
   * @param {Partial<Payload>} payload
   */
  isToldAgain({ status, trace }) {
    const quiet = Boolean(status) && !status?.running && !status?.error && !status?.message;
    return Boolean(this.before) && quiet && JSON.stringify(trace) === this.before;
  }

  /** While a run or a commit goes on, nothing else can be sent. @param {boolean} now */
  hold(now) {
    this.state.busy = now;
    for (const [, part] of this.parts) part.busy?.(now);
  }

  /** @param {Trace} trace */
  load(trace) {
    const previous = this.state.trace;
    // what a run is called by changes once its detector is known: without pictures it is the one on show
    const fresh = !previous || (previous.run !== trace.run && trace.frames.length > 0);
    if (previous && !fresh) this.reusePictures(trace, previous);
    this.state.trace = trace;
    if (fresh) {
      const selectedPair = { reference: null, contrast: null };
      Object.assign(this.state, { frame: 0, track: null, token: 0, tool: null, step: null, picked: false, selectedPair });
    }
    const same = previous && previous.tracks.length === trace.tracks.length;
    if (fresh || !same) this.state.hover = null; // the pointer rests on an index of the previous objects
    const changed = previous && previous.edits.length !== trace.edits.length; // a level by hand is one of the end
    if (changed || (this.state.step ?? 0) >= trace.steps.length) this.state.step = null;
    const { contrast, reference } = this.state;
    const shown = [contrast, reference].map((answer) => answer?.method);
    if (!this.state.picked || !shown.includes(this.state.method)) this.state.method = shown.find(Boolean) ?? "macd";
    if (previous && !fresh && this.state.track !== null) { // the same object, at its new index
      const chosen = previous.tracks[this.state.track];
      const now = trace.tracks.findIndex((t) => chosen && t.id === chosen.id);
      this.state.track = now < 0 ? null : now;
    }
    this.body.hidden = false;
    this.question.textContent = trace.question;
    this.badge.textContent = trace.badge;
    this.badge.hidden = !trace.badge;
    this.notes.replaceChildren(...trace.warnings.map((w) => el("li", {}, w)));
    if (fresh && trace.final) Object.assign(this.state, this.opening());
    for (const [, part] of this.parts) part.load?.(trace);
    this.legend.loadTrace(trace);
    this.tokens.root.hidden = !Object.keys(trace.answers).length;
    this.hold(this.state.busy);
    if (fresh || this.tokens.divergence() >= 0) this.followAnswer();
    const answered = Object.values(trace.answers).some(({ tokens }) => tokens.length);
    if (answered || this.state.running) this.side.prepend(this.panels.rail.root);
    else this.panels.bars.empty.after(this.panels.rail.root); // what there is stands first
    const linked = this.address.load(trace, fresh);
    if (linked) this.why.open = true; // a link may name a token, or values of α and β
    if (fresh && !linked && !this.state.running) this.state.playing = this.playsByItself(trace);
    this.draw();
    this.fit();
  }

  // What is seen of a run at first: its objects, and where there is room both views. Levels are a button away.
  opening() {
    const { layers } = this.state;
    return { layers: { ...layers, levels: false }, both: this.root.clientWidth >= WIDTHS[1][1] };
  }

  /** @param {Trace} trace */
  playsByItself({ times }) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return !calm && !this.state.touched && times.length > 1;
  }

  /** A payload without pictures belongs to those that came before. @param {Trace} trace @param {Trace} previous */
  reusePictures(trace, previous) {
    if (!trace.frames.length) trace.frames = previous.frames;
    if (trace.model && previous.model && !trace.model.frames.length) {
      trace.model = { ...trace.model, frames: previous.model.frames };
    }
  }

  /**
   * Shows a method's answer in the panels, and its own second view on the picture where it has one.
   * @param {string} method
   */
  open(method) {
    const { state } = this;
    const answer = state.loaded.answers[method];
    const two = isContrast(answer);
    state.step = null; // the pixels of a second view are those of the end
    this.tokens.choose({ [two ? "contrast" : "reference"]: method });
    state.set({ method, layers: { ...state.layers, counter: two && !this.stage.whyNot("counter"), levels: false } });
    this.root.focus({ preventScroll: true });
    this.body.scrollIntoView({ block: "start" });
  }

  followAnswer() {
    const divergesAt = this.tokens.divergence();
    const { picked, contrast } = this.state;
    if (!picked && divergesAt >= 0 && contrast) Object.assign(this.state, { token: this.tokens.opening(), method: contrast.method });
  }

  /** Where a part tells of its errors, if it has a place. @param {string} where the part's name */
  errorOf(where) {
    return this.parts.find(([name]) => name === where)?.[1].error ?? null;
  }

  /** @param {Status} status */
  showStatus(status) {
    const done = status.stages_done;
    this.bar.replaceChildren(...this.state.constants.stages.map(([key, name]) => {
      const now = status.stage === key && !status.error;
      return el("li", {
        class: now ? "mv-stage-now" : done.includes(key) ? "mv-stage-done" : "",
        "aria-current": now ? "step" : null,
        style: { "--fraction": now ? status.fraction : done.includes(key) ? 1 : 0 },
      }, name);
    }));
    this.stop.hidden = !status.running || !this.host.stop;
    if (!status.running) this.stop.disabled = false;
    const line = this.errorOf(status.where), told = status.error ? line : null; // where the action was
    this.bar.hidden = !status.running && (!status.error || Boolean(line));
    for (const [, { error }] of this.parts) if (error) error.hidden = true;
    if (told) {
      told.textContent = status.error;
      told.hidden = false;
      unfold(told);
    }
    this.panels.whatif.tell(this.host.can && status.running ? status.message : "");
    const going = status.running || Boolean(status.error);
    this.about.textContent = told || going ? "" : status.message;
    const now = this.stop.disabled ? TEXT.stopping : status.message;
    this.message.textContent = told ? "" : status.error || (going ? now : "");
    this.message.classList.toggle("mv-error", Boolean(status.error));
    this.message.hidden = !this.message.textContent;
  }

  askToStop() {
    this.stop.disabled = true; // until it has stopped
    this.message.textContent = TEXT.stopping;
    this.host.stop?.();
  }

  tick() {
    if (this.state.trace) this.steps.tick(performance.now());
    const { trace, playing, frame, loop } = this.state;
    if (!playing || !trace || this.root.ownerDocument.hidden || performance.now() - this.shownAt < this.stage.pause(frame)) return;
    this.shownAt = performance.now();
    const last = frame === trace.times.length - 1;
    if (last && !loop) this.state.set({ playing: false });
    else this.state.set({ frame: last ? 0 : frame + 1 });
  }

  draw() {
    const { trace, hover, track } = this.state;
    if (!trace) return;
    for (const [, part] of this.parts) part.draw?.();
    if (this.fittedFor && this.fittedFor !== (this.stage.shown === "both" ? 2 : 1)) this.fitPicture();
    this.drawSentences(trace);
    this.address.draw();
    this.legend.explain(this.body);
    if (this.host.onDraw) this.host.onDraw(hover ?? track, trace.tracks.length);
  }

  // What is said of the run with α and β in hand; what was measured with others says so.
  /** @param {Trace} trace */
  drawSentences(trace) {
    const { version, rule } = this.tokens;
    const key = [version, rule?.alpha, rule?.beta, this.state.running].join(" ");
    if (this.saidFor === key) return; // another frame changes nothing here
    this.saidFor = key;
    const sentences = sentencesOf(trace, this.tokens.shown(), this.state.constants.verdict), { measured } = sentences;
    this.panels.headline.say(trace, sentences);
    for (const [, { root, stale, measured: found }] of this.parts) {
      if (!stale) continue;
      const old = Boolean(measured && found?.(trace));
      root.classList.toggle("mv-stale", old);
      for (const line of [stale].flat()) {
        line.hidden = !old;
        setText(line, measured);
      }
    }
  }

  // Moving α or β changes answers and scores alone: the pictures need not be drawn again.
  drawRule() {
    this.tokens.draw();
    this.panels.bars.draw();
    this.drawSentences(this.state.loaded);
    this.address.draw();
    this.legend.explain(this.tokens.root);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { trace, frame, token, method, layers, track } = this.state;
    if (!trace || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!["Tab", "Shift"].includes(event.key)) this.touch(event);
    if (this.help.root.open && event.key !== "?") return;
    const at = /** @type {HTMLInputElement} */ (event.target);
    if (["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName) && at.type !== "range") return;
    if (at.type === "range" && event.key.startsWith("Arrow")) return; // the slider's own
    if (this.stage.zoom.key(event)) {
      event.preventDefault();
      return;
    }
    const answer = trace.answers[method];
    const last = { frame: trace.times.length - 1, token: answer ? this.tokens.lastShown(answer) : 0 };
    /** @type {Record<string, () => Partial<State>>} */
    const actions = {
      ArrowRight: () => ({ frame: Math.min(last.frame, frame + 1), playing: false }),
      ArrowLeft: () => ({ frame: Math.max(0, frame - 1), playing: false }),
      j: () => ({ token: Math.min(last.token, token + 1), picked: true }),
      k: () => ({ token: Math.max(0, token - 1), picked: true }),
      m: () => ({ layers: { ...layers, soft: !layers.soft } }),
      c: () => ({ layers: { ...layers, counter: !layers.counter } }),
      x: () => ({ both: !this.state.both, layers: { ...layers, counter: false } }),
      b: () => ({ layers: { ...layers, boxes: !layers.boxes } }),
      s: () => ({ layers: { ...layers, model: !layers.model } }),
      v: () => ({ layers: { ...layers, levels: !layers.levels } }),
      l: () => ({ loop: !this.state.loop }),
      Escape: () => ({ track: null, tool: null }),
    };
    if (event.key === "?") {
      this.help.toggle();
      event.preventDefault();
      return;
    }
    if ((event.key === "u" && trace.previous) || (event.key === "r" && trace.redo)) {
      this.commit({ do: event.key === "u" ? "undo" : "redo" });
      return;
    }
    if (event.key === "[" || event.key === "]") this.steps.by(event.key === "[" ? -1 : 1);
    if (event.key === "p") this.steps.toggle();
    const number = Number(event.key);
    if (number >= 1 && number <= Math.min(9, trace.tracks.length)) {
      this.state.set({ track: track === number - 1 ? null : number - 1 });
    } else if (actions[event.key]) {
      this.state.set(actions[event.key]());
    } else if (event.key === " " && event.target === this.root) {
      this.state.set({ playing: !this.state.playing });
    } else {
      return;
    }
    event.preventDefault();
  }
}
