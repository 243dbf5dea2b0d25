// Methods side by side: answers aligned with the baseline, what each second view shows, per-token
// differences, time and memory. Only shown when more than baseline and MACD ran.

class Compare {
  constructor(state, stage) {
    this.state = state;
    this.stage = stage;
    this.rows = el("tbody");
    this.shared = el("p", { class: "mv-note" });
    this.screens = [0, 1].map(() => this.screen());
    this.root = el("section", { class: "mv-compare", "aria-label": "Methods", hidden: true },
      el("h3", {}, "Methods"),
      el("div", { class: "mv-screens" }, this.screens.map((s) => s.root)),
      el("div", { class: "mv-scroll", tabindex: "0", role: "region", "aria-label": "Methods table" },
        el("table", { class: "mv-methods" },
          el("thead", {}, el("tr", {}, ["method", "answer", "against the baseline",
            "difference by token", "α", "β", "ms", "peak MB"].map((h) => el("th", { scope: "col" }, h)))),
          this.rows)),
      this.shared);
  }

  screen() {
    const canvas = el("canvas", { class: "mv-canvas", role: "img" });
    const caption = el("div", { class: "mv-caption" });
    const choice = el("select", { "aria-label": "Second view of", on: { change: () => this.draw() } });
    return { canvas, caption, choice, root: el("div", {}, choice, canvas, caption) };
  }

  load(trace) {
    const answers = Object.values(trace.answers);
    this.root.hidden = answers.length < 3;
    if (this.root.hidden) return;
    const base = trace.answers.baseline;
    const views = answers.filter((a) => a.view.kind && a.view.kind !== "none");
    this.screens.forEach((screen, i) => {
      const former = screen.choice.value;
      screen.choice.replaceChildren(...views.map((a) => el("option", { value: a.method }, a.method)));
      screen.choice.value = views.some((a) => a.method === former)
        ? former : (views[Math.min(i, views.length - 1)] || {}).method;
    });
    this.rows.replaceChildren(...answers.map((a) => this.row(a, base)));
    const shared = Object.entries(trace.shared).map(([k, n]) => `${k} ${n}×`).join(", ");
    this.shared.textContent = `Seed ${trace.seed}. Shared between methods: ${shared || "nothing"}; `
      + "times leave that out. Peak memory is that of the whole process up to then.";
  }

  row(answer, base) {
    const at = answer === base ? -1 : answer.tokens.findIndex((t, i) =>
      !base.tokens[i] || base.tokens[i].token !== t.token);
    const words = answer.tokens.length
      ? answer.tokens.map((t, i) => el("span", { class: i === at ? "mv-parts" : "" }, visible(t.text), " "))
      : [visible(answer.text)];
    const votes = Object.entries(answer.votes).map(([k, n]) => `${k}: ${n}`).join(", ");
    const two = answer.tokens.some((t) => t.counter);
    return el("tr", { "data-method": answer.method },
      el("th", { scope: "row" }, answer.method),
      el("td", { class: "mv-words" }, words, votes ? el("small", {}, ` votes: ${votes}`) : null),
      el("td", {}, answer === base ? "" : againstBaseline(answer, base)),
      el("td", {}, two ? differences(answer) : ""),
      el("td", {}, two ? answer.alpha : ""),
      el("td", {}, two ? answer.beta : ""),
      el("td", {}, answer.ms.toFixed(0)),
      el("td", {}, answer.memory_mb ? answer.memory_mb.toFixed(0) : ""));
  }

  draw() {
    const { trace, frame } = this.state;
    if (this.root.hidden || !trace) return;
    for (const screen of this.screens) {
      const answer = trace.answers[screen.choice.value];
      if (answer) this.drawView(screen, answer.view, trace, frame);
    }
  }

  drawView({ canvas, caption }, view, trace, frame) {
    [canvas.width, canvas.height] = [this.stage.canvas.width, this.stage.canvas.height];
    const context = canvas.getContext("2d");
    const image = this.stage.images[frame];
    const fill = `rgb(${trace.fill.join(",")})`;
    if (image && image.complete && image.naturalWidth) {
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
    }
    const notes = {
      masks: "this view hides what its levels say",
      blank: "a video without content",
      noise: "noise of this strength, drawn for the eye: the model saw another draw",
      frames: `sees only frames ${(view.frames || []).map((f) => f + 1).join(", ")}`,
      pruned: `all pixels, but from decoder layer ${view.layer} on only ${percent(view.ratio || 0)} of the vision tokens`,
    };
    caption.textContent = notes[view.kind] || (view.kind === "none" ? "" : view.said || "");
    const left = view.frames && !view.frames.includes(frame);
    if (view.kind === "blank" || left) {
      context.fillStyle = fill;
      context.fillRect(0, 0, canvas.width, canvas.height);
      if (left) caption.textContent = `frame ${frame + 1} is left out · ${notes.frames}`;
      return;
    }
    if (view.kind === "masks") this.paintMask(context, canvas, trace, view, frame, (m) => m, trace.fill);
    if (view.kind === "noise") {
      const level = view.scale === undefined ? null : () => view.scale;
      this.paintMask(context, canvas, trace, view, frame, level, null);
    }
  }

  paintMask(context, canvas, trace, view, frame, strength, colour) {
    const [w, h] = trace.size;
    const mask = strength && !colour ? new Float32Array(w * h).fill(strength()) : maskOf(trace, view, frame);
    const layer = new ImageData(w, h);
    let seed = 1 + frame;
    for (let i = 0; i < w * h; i++) {
      for (let c = 0; c < 3; c++) {
        seed = (seed * 48271) % 2147483647;
        layer.data[4 * i + c] = colour ? colour[c] : seed % 256;
      }
      layer.data[4 * i + 3] = 255 * Math.min(1, mask[i]);
    }
    const buffer = document.createElement("canvas");
    [buffer.width, buffer.height] = [w, h];
    buffer.getContext("2d").putImageData(layer, 0, 0);
    context.drawImage(buffer, 0, 0, canvas.width, canvas.height);
  }
}

// The mask of one frame under a method's own levels, boxes and recipe.
function maskOf(trace, view, frame) {
  const tracks = trace.tracks.map((t, k) => (view.boxes ? { ...t, boxes: view.boxes[k] } : t));
  const mask = { ...trace.mask, swept: view.swept ?? trace.mask.swept };
  mask.frame_mask = view.frame_mask ?? (view.over === "frame" ? "whole" : mask.frame_mask);
  const own = { ...trace, tracks, mask };
  const group = trace.groups.findIndex((g) => g.includes(frame));
  const frameLevel = (view.frame_level || [])[group] || 0;
  if (view.over === "global") return new Float32Array(trace.size[0] * trace.size[1]).fill(view.level[0]);
  const levels = view.level.length === tracks.length ? view.level : tracks.map(() => 0);
  return unionMask(own, frameMasks(own, frame), levels, frameLevel);
}

// Which of two answers is right is not known here, so no word says "fixed".
function againstBaseline(answer, base) {
  const [ours, theirs] = [answer, base].map((a) => a.text.toLowerCase().replace(/^[\s.!]+|[\s.!]+$/g, ""));
  if (ours === theirs) return "agrees";
  return [ours, theirs].sort().join() === "no,yes" ? "flipped" : "changed";
}

// Small multiples: logit under V minus logit under the second view, of each chosen token.
function differences(answer) {
  const values = answer.tokens.map((t) => {
    const i = t.candidates.indexOf(t.token);
    return t.counter ? t.base[i] - t.counter[i] : 0;
  });
  const top = Math.max(...values.map(Math.abs), 1);
  return el("span", { class: "mv-multiples", role: "img",
    "aria-label": `differences: ${values.map((v) => signed(v)).join(", ")}` },
  values.map((v, i) => el("span", { title: `${visible(answer.tokens[i].text)} ${signed(v)}` },
    el("span", {
      class: v >= 0 ? "mv-more" : "mv-less",
      style: { height: `${(50 * Math.abs(v)) / top}%`, [v >= 0 ? "bottom" : "top"]: "50%" },
    }))));
}
