// One component: fed a trace (see payload.py), everything else happens in the browser.
// Expects the other scripts of this folder before it, in the order component.py gives.

const STAGE_NAMES = {
  video: "Read video", detect: "Detect", track: "Track", load: "Load model",
  ascent: "Gradient ascent", views: "Read both views", decode: "Decode",
};

class Viewer {
  constructor(root) {
    const viewer = this;
    this.state = {
      trace: null, frame: 0, track: null, hover: null, token: 0, method: "macd", playing: false,
      layers: { boxes: true, soft: false, levels: false, counter: false },
      set(changes) { Object.assign(this, changes); viewer.draw(); },
    };
    this.bar = el("ol", { class: "mv-stages", "aria-label": "Progress" });
    this.message = el("p", { class: "mv-message", role: "status", "aria-live": "polite" });
    this.notes = el("ul", { class: "mv-notes" });
    this.stage = new Stage(this.state);
    this.rail = new Rail(this.state);
    this.tokens = new Tokens(this.state);
    this.compare = new Compare(this.state, this.stage);
    this.body = el("div", { class: "mv-body", hidden: true },
      el("p", { class: "mv-question" }),
      el("div", { class: "mv-columns" },
        this.stage.root, el("div", { class: "mv-side" }, this.rail.root, this.tokens.root)),
      this.compare.root, this.notes);
    this.root = el("div", { class: "mv-root", tabindex: "0" }, this.bar, this.message, this.body);
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.attach(root);
    setInterval(() => this.tick(), 250);
  }

  attach(root) {
    if (this.root.parentElement !== root) root.replaceChildren(this.root);
  }

  update(payload) {
    if (!payload || !payload.status) return;
    this.showStatus(payload.status);
    if (payload.trace) this.load({ ...payload.trace, status: payload.status });
  }

  load(trace) {
    const former = this.state.trace;
    if (!trace.frames.length && former && former.run === trace.run) trace.frames = former.frames;
    const fresh = !former || former.run !== trace.run;
    this.state.trace = trace;
    if (fresh) Object.assign(this.state, { frame: 0, track: null, token: 0, method: "macd" });
    this.body.hidden = false;
    this.body.querySelector(".mv-question").textContent = trace.question;
    this.notes.replaceChildren(...trace.warnings.map((w) => el("li", {}, w)));
    for (const part of [this.stage, this.rail, this.tokens, this.compare]) part.load(trace);
    if (fresh || this.tokens.divergence() >= 0) this.followAnswer();
    this.draw();
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
    this.bar.hidden = !status.running && !status.error;
    this.message.textContent = status.error || status.message || "";
    this.message.classList.toggle("mv-error", Boolean(status.error));
    this.message.hidden = !this.message.textContent;
  }

  tick() {
    const { trace, playing, frame } = this.state;
    if (playing && trace) this.state.set({ frame: (frame + 1) % trace.times.length });
  }

  draw() {
    if (!this.state.trace) return;
    this.stage.draw();
    this.rail.draw();
    this.tokens.draw();
    this.compare.draw();
  }

  key(event) {
    const { trace, frame, token, method, layers, track } = this.state;
    if (!trace || event.ctrlKey || event.metaKey || event.altKey) return;
    if (["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "range") return;
    const answer = trace.answers[method];
    const last = { frame: trace.times.length - 1, token: answer ? answer.tokens.length - 1 : 0 };
    const actions = {
      ArrowRight: () => ({ frame: Math.min(last.frame, frame + 1), playing: false }),
      ArrowLeft: () => ({ frame: Math.max(0, frame - 1), playing: false }),
      j: () => ({ token: Math.min(last.token, token + 1) }),
      k: () => ({ token: Math.max(0, token - 1) }),
      m: () => ({ layers: { ...layers, soft: !layers.soft } }),
      c: () => ({ layers: { ...layers, counter: !layers.counter } }),
    };
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
