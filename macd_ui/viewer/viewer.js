// One component: fed a trace (see payload.py), everything else happens in the browser.
// Expects the other scripts of this folder before it, in the order component.py gives.

const STAGE_NAMES = {
  video: "Read video", detect: "Detect", track: "Track", load: "Load model",
  ascent: "Gradient ascent", views: "Read both views", decode: "Decode",
};

class Viewer {
  // send: hands a commit to the server; without one the viewer only shows.
  constructor(root, send = null) {
    const viewer = this;
    const commit = (action) => { if (send && !this.state.busy) { this.hold(true); send({ ...action, run: this.state.trace.run }); } };
    this.commit = commit;
    this.state = {
      trace: null, frame: 0, track: null, hover: null, token: 0, method: "macd", playing: false,
      speed: 1, loop: true, tool: null, busy: false, server: Boolean(send),
      layers: { boxes: true, soft: false, levels: false, counter: false, model: false },
      set(changes) { Object.assign(this, changes); viewer.draw(); },
    };
    this.bar = el("ol", { class: "mv-stages", "aria-label": "Progress" });
    this.message = el("p", { class: "mv-message", role: "status", "aria-live": "polite" });
    this.notes = el("ul", { class: "mv-notes" });
    this.stage = new Stage(this.state);
    this.rail = new Rail(this.state);
    this.tokens = new Tokens(this.state, commit);
    this.compare = new Compare(this.state, this.stage);
    this.ledger = new LedgerPanel(this.state, commit);
    this.whatif = new WhatIf(this.state, commit, this.stage);
    this.panels = { whatif: this.whatif, ledger: this.ledger, tokens: this.tokens };
    this.reproduce = new Reproduce();
    this.help = new Help();
    this.body = el("div", { class: "mv-body", hidden: true },
      el("div", { class: "mv-head" }, el("p", { class: "mv-question" }),
        el("button", {
          type: "button", class: "mv-button", "aria-label": "Keys", on: { click: () => this.help.toggle() },
        }, "?")),
      el("div", { class: "mv-columns" },
        el("div", { class: "mv-main" }, this.stage.root, this.whatif.root),
        el("div", { class: "mv-side" }, this.rail.root, this.tokens.root, this.ledger.root)),
      this.compare.root, this.notes, this.reproduce.root);
    this.root = el("div", {
      class: "mv-root", tabindex: "0", role: "region", "aria-label": "Trace viewer",
    }, this.bar, this.message, this.body, this.help.root);
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.root.addEventListener("dragover", (e) => e.preventDefault());
    this.root.addEventListener("drop", (e) => openDropped(e));
    this.attach(root);
    this.shownAt = 0;
    setInterval(() => this.tick(), 50);
  }

  attach(root) {
    if (this.root.parentElement !== root) root.replaceChildren(this.root);
  }

  update(payload) {
    if (!payload || !payload.status) return;
    this.showStatus(payload.status);
    this.hold(Boolean(payload.status.running));
    if (payload.trace) this.load({ ...payload.trace, status: payload.status });
  }

  // While a run or a commit goes on, nothing else can be sent.
  hold(now) {
    this.state.busy = now;
    this.whatif.busy(now);
    this.ledger.busy(now);
  }

  load(trace) {
    const former = this.state.trace;
    if (former && former.run === trace.run) this.keepPictures(trace, former);
    const fresh = !former || former.run !== trace.run;
    this.state.trace = trace;
    if (fresh) Object.assign(this.state, { frame: 0, track: null, token: 0, method: "macd", tool: null, picked: false });
    if (!fresh && this.state.track !== null) { // the same object, wherever it stands now
      const chosen = former.tracks[this.state.track];
      const now = trace.tracks.findIndex((t) => chosen && t.id === chosen.id);
      this.state.track = now < 0 ? null : now;
    }
    this.body.hidden = false;
    this.body.querySelector(".mv-question").textContent = trace.question;
    this.notes.replaceChildren(...trace.warnings.map((w) => el("li", {}, w)));
    for (const part of [this.stage, this.rail, this.tokens, this.compare, this.ledger, this.whatif, this.reproduce]) {
      part.load(trace);
    }
    this.hold(this.state.busy);
    if (fresh || this.tokens.divergence() >= 0) this.followAnswer();
    this.draw();
  }

  // A payload without pictures belongs to those that came before.
  keepPictures(trace, former) {
    if (!trace.frames.length) trace.frames = former.frames;
    if (trace.model && former.model && !trace.model.frames.length) {
      trace.model = { ...trace.model, frames: former.model.frames };
    }
  }

  followAnswer() {
    const parts = this.tokens.divergence();
    if (!this.state.picked && parts >= 0) Object.assign(this.state, { token: parts, method: "macd" });
  }

  showStatus(status) {
    const done = status.stages_done || [];
    this.bar.replaceChildren(...Object.entries(STAGE_NAMES).map(([key, name]) => {
      const now = status.stage === key && !status.error;
      return el("li", {
        class: now ? "mv-stage-now" : done.includes(key) ? "mv-stage-done" : "",
        "aria-current": now ? "step" : null,
        style: { "--fraction": now ? status.fraction : done.includes(key) ? 1 : 0 },
      }, name);
    }));
    this.bar.hidden = !status.running && (!status.error || Boolean(this.panels[status.where]));
    const panel = status.error ? this.panels[status.where] : null; // where the action was
    for (const { error } of Object.values(this.panels)) error.hidden = true;
    if (panel) {
      panel.error.textContent = status.error;
      panel.error.hidden = false;
    }
    this.message.textContent = panel ? "" : status.error || status.message || "";
    this.message.classList.toggle("mv-error", Boolean(status.error));
    this.message.hidden = !this.message.textContent;
  }

  tick() {
    const { trace, playing, frame, speed, loop } = this.state;
    if (!playing || !trace || performance.now() - this.shownAt < 250 / speed) return;
    this.shownAt = performance.now();
    const last = frame === trace.times.length - 1;
    if (last && !loop) this.state.set({ playing: false });
    else this.state.set({ frame: last ? 0 : frame + 1 });
  }

  draw() {
    if (!this.state.trace) return;
    this.stage.draw();
    this.rail.draw();
    this.tokens.draw();
    this.compare.draw();
    this.whatif.draw();
    lightPlot(this.state);
  }

  key(event) {
    const { trace, frame, token, method, layers, track } = this.state;
    if (!trace || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.help.root.open && event.key !== "?") return;
    if (["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "range") return;
    const answer = trace.answers[method];
    const last = { frame: trace.times.length - 1, token: answer ? answer.tokens.length - 1 : 0 };
    const actions = {
      ArrowRight: () => ({ frame: Math.min(last.frame, frame + 1), playing: false }),
      ArrowLeft: () => ({ frame: Math.max(0, frame - 1), playing: false }),
      j: () => ({ token: Math.min(last.token, token + 1), picked: true }),
      k: () => ({ token: Math.max(0, token - 1), picked: true }),
      m: () => ({ layers: { ...layers, soft: !layers.soft } }),
      c: () => ({ layers: { ...layers, counter: !layers.counter } }),
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
    if (event.key === "u" && trace.former) {
      this.commit({ do: "undo" });
      return;
    }
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
