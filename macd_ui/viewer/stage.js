// The canvas: one frame with its layers, the timeline under it, and the object rail beside it.

class Stage {
  constructor(state) {
    this.state = state;
    this.images = new Map();
    this.side = 768; // long side of the canvas: as many pixels as are seen
    this.maskCache = new Map();
    this.canvas = el("canvas", { class: "mv-canvas", role: "img", tabindex: "-1" });
    this.caption = el("div", { class: "mv-caption" });
    this.layers = el("div", { class: "mv-layers", role: "group", "aria-label": "Layers" });
    this.scrub = el("input", {
      type: "range", min: 0, value: 0, class: "mv-scrub", "aria-label": "Frame",
      on: { input: (e) => state.set({ frame: Number(e.target.value), playing: false }) },
    });
    this.play = el("button", {
      type: "button", class: "mv-play", "aria-label": "Play",
      on: { click: () => state.set({ playing: !state.playing }) },
    });
    this.speed = el("select", {
      "aria-label": "Speed", on: { change: (e) => state.set({ speed: Number(e.target.value) }) },
    }, [0.5, 1, 2, 4].map((v) => el("option", { value: v, selected: v === 1 }, `${v}×`)));
    this.loop = el("button", {
      type: "button", class: "mv-toggle", "aria-pressed": "true",
      on: { click: () => state.set({ loop: !state.loop }) },
    }, "Loop");
    this.keep = el("button", {
      type: "button", class: "mv-toggle",
      on: { click: () => savePicture(this.canvas, `frame-${state.frame + 1}.png`) },
    }, "Save PNG");
    this.lanes = el("div", { class: "mv-lanes" });
    this.canvas.addEventListener("click", (e) => this.pick(e));
    this.canvas.addEventListener("mousemove", (e) => this.point(e));
    this.canvas.addEventListener("mouseleave", () => state.set({ hover: null }));
    this.root = el("div", { class: "mv-stage" },
      el("div", { class: "mv-screen" }, this.canvas, this.caption),
      this.layers,
      el("div", { class: "mv-transport" }, this.play, this.scrub, this.speed, this.loop, this.keep),
      this.lanes);
    this.buildLayers();
    new ResizeObserver(() => this.measure()).observe(this.root);
  }

  measure() {
    const seen = Math.round(this.root.clientWidth * (window.devicePixelRatio || 1));
    const side = Math.max(320, Math.min(1280, seen));
    if (Math.abs(side - this.side) < 8) return;
    this.side = side;
    if (this.state.trace) this.state.set({});
  }

  buildLayers() {
    const names = { boxes: "Boxes", soft: "Soft masks", levels: "Levels", counter: "Counterfactual", model: "As the model sees it" };
    this.toggles = {};
    for (const [key, name] of Object.entries(names)) {
      const button = el("button", {
        type: "button", class: "mv-toggle", "aria-pressed": "false",
        on: { click: () => this.state.set({ layers: { ...this.state.layers, [key]: !this.state.layers[key] } }) },
      }, name);
      this.toggles[key] = button;
      this.layers.append(button);
    }
  }

  load(trace) {
    this.maskCache.clear();
    if (trace.frames[0] !== this.first) {
      this.first = trace.frames[0];
      this.images.clear();
    }
    for (const source of trace.frames) this.image(source);
    this.fitCanvas();
    this.scrub.max = Math.max(0, trace.times.length - 1);
    this.drawLanes();
  }

  // The picture behind a data URI, decoded once; what waits for it is drawn when it is there.
  image(source) {
    if (!source) return null;
    if (!this.images.has(source)) {
      const image = new Image();
      image.onload = () => this.state.set({});
      image.src = source;
      this.images.set(source, image);
    }
    const image = this.images.get(source);
    return image.complete && image.naturalWidth ? image : null;
  }

  // Whether the model's own frames are on show instead of the source's.
  modelView() {
    const { trace, layers } = this.state;
    return Boolean(layers.model && trace.model && trace.model.frames.length);
  }

  // The canvas has the shape of what it shows.
  fitCanvas() {
    const { trace } = this.state;
    const [width, height] = this.modelView() ? trace.model.size : trace.source;
    const scale = this.side / Math.max(width, height);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      [this.canvas.width, this.canvas.height] = [w, h];
    }
  }

  // Where the source frame lies on a canvas: all of it, or the model frame's content.
  area(canvas = this.canvas, model = this.modelView()) {
    if (!model) return { x: 0, y: 0, w: canvas.width, h: canvas.height };
    const { size: [width, height], content: [x0, y0, x1, y1] } = this.state.trace.model;
    const across = canvas.width / width, down = canvas.height / height;
    return { x: x0 * across, y: y0 * down, w: (x1 - x0) * across, h: (y1 - y0) * down };
  }

  // A pointer's place in shares of the source frame.
  toSource(event) {
    const box = this.canvas.getBoundingClientRect(), area = this.area();
    const x = ((event.clientX - box.left) / box.width) * this.canvas.width;
    const y = ((event.clientY - box.top) / box.height) * this.canvas.height;
    const share = (v) => Math.min(1, Math.max(0, v));
    return [share((x - area.x) / area.w), share((y - area.y) / area.h)];
  }

  // What the model read in a frame of an answer's second view: a picture, or null while it loads.
  secondView(answer, frame) {
    const { model } = this.state.trace;
    return this.image((answer.shown && answer.shown[frame]) || (model && model.frames[frame]));
  }

  hasSecondView(answer) {
    const { model } = this.state.trace;
    return Boolean(answer && answer.shown && model && model.frames.length);
  }

  // A picture of the model's frames on a canvas: whole, or its content over the source frame.
  drawModelPicture(context, picture, model) {
    const { width, height } = context.canvas;
    if (model) {
      context.drawImage(picture, 0, 0, width, height);
      return;
    }
    const [x0, y0, x1, y1] = this.state.trace.model.content;
    context.drawImage(picture, x0, y0, x1 - x0, y1 - y0, 0, 0, width, height);
  }

  masks(frame) {
    if (!this.maskCache.has(frame)) this.maskCache.set(frame, frameMasks(this.state.trace, frame));
    return this.maskCache.get(frame);
  }

  levelsAt(frame) {
    const { trace } = this.state;
    const group = trace.groups.findIndex((g) => g.includes(frame));
    return {
      objects: trace.final ? trace.final.level : trace.tracks.map(() => trace.r0),
      frame: trace.final && trace.final.frame_level.length ? trace.final.frame_level[group] : 0,
    };
  }

  draw() {
    const { trace, frame, layers, playing } = this.state;
    if (!trace) return;
    this.fitCanvas();
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const model = this.modelView();
    context.imageSmoothingEnabled = true;
    context.clearRect(0, 0, width, height);
    const image = this.image(model ? trace.model.frames[frame] : trace.frames[frame]);
    if (image) context.drawImage(image, 0, 0, width, height);
    const levels = this.levelsAt(frame);
    const counter = layers.counter && this.hasSecondView(trace.answers.macd)
      ? this.secondView(trace.answers.macd, frame) : null;
    if (counter) this.drawModelPicture(context, counter, model);
    if (layers.soft) this.drawSoft(context);
    if (layers.levels && trace.final) this.drawLevels(context, levels);
    if (layers.boxes) this.drawBoxes(context);
    this.describe(levels);
    this.scrub.value = frame;
    this.play.textContent = playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.loop.setAttribute("aria-pressed", String(this.state.loop));
    for (const [key, button] of Object.entries(this.toggles)) {
      button.setAttribute("aria-pressed", String(Boolean(layers[key])));
      button.disabled = (key === "levels" && !trace.final)
        || (key === "counter" && !this.hasSecondView(trace.answers.macd))
        || (key === "model" && !(trace.model && trace.model.frames.length));
    }
    this.markLanes();
  }

  paint(context, alphaOf, [red, green, blue]) {
    const [w, h] = this.state.trace.size;
    const layer = new ImageData(w, h);
    for (let i = 0; i < w * h; i++) {
      layer.data[4 * i] = red;
      layer.data[4 * i + 1] = green;
      layer.data[4 * i + 2] = blue;
      layer.data[4 * i + 3] = 255 * alphaOf(i);
    }
    this.buffer = this.buffer || document.createElement("canvas");
    [this.buffer.width, this.buffer.height] = [w, h];
    this.buffer.getContext("2d").putImageData(layer, 0, 0);
    const { x, y, w: across, h: down } = this.area();
    context.drawImage(this.buffer, x, y, across, down);
  }

  drawSoft(context) {
    const { trace, frame, track } = this.state;
    this.masks(frame).objects.forEach((mask, k) => {
      if (!mask) return;
      const strength = track === null || track === k ? 0.6 : 0.15;
      this.paint(context, (i) => strength * mask[i], rgbOf(objectColour(k)));
    });
  }

  // 1: cross-hatched and solid outline; between: hatched one way; 0: dashed outline alone.
  drawLevels(context, levels) {
    this.eachBox((k, x, y, w, h) => {
      const level = levels.objects[k];
      context.save();
      this.trace(context, k, x, y, w, h);
      context.strokeStyle = objectColour(k);
      context.lineWidth = level === 0 ? 2 : 4;
      context.setLineDash(level === 0 ? [8, 8] : []);
      context.stroke();
      context.clip();
      context.setLineDash([]);
      context.lineWidth = 2;
      if (level > 0) hatch(context, x, y, w, h, 1);
      if (level === 1) hatch(context, x, y, w, h, -1);
      context.restore();
      tag(context, x, y + h + 26, `level ${level.toFixed(2).replace(/\.?0+$/, "")}`, objectColour(k));
    });
  }

  drawBoxes(context) {
    const { trace, frame, track, hover } = this.state;
    this.eachBox((k, x, y, w, h) => {
      const chosen = track === k || hover === k;
      context.save();
      context.globalAlpha = track === null || chosen ? 1 : 0.35;
      context.lineWidth = chosen ? 6 : 3;
      context.strokeStyle = objectColour(k);
      context.setLineDash(trace.tracks[k].state[frame] === 1 ? [10, 6] : []);
      this.trace(context, k, x, y, w, h);
      context.stroke();
      const { id, label, confidence } = trace.tracks[k];
      const crowded = trace.tracks.length > 6 && !chosen && hover !== k;
      tag(context, x, y, crowded ? id : `${id} ${label} ${confidence.toFixed(2)}`, objectColour(k));
      context.restore();
    });
  }

  // The path along an object's outline, or along its box where that is all there is.
  trace(context, k, x, y, w, h) {
    const { trace, frame } = this.state;
    const outline = outlineOf(trace.tracks[k], frame, trace.mask);
    context.beginPath();
    if (!outline) context.rect(x, y, w, h);
    else {
      for (const ring of outline) {
        ring.forEach(([u, v], i) => context[i ? "lineTo" : "moveTo"](x + u * w, y + v * h));
        context.closePath();
      }
    }
  }

  eachBox(draw) {
    const { trace, frame } = this.state;
    const { x, y, w, h } = this.area();
    trace.tracks.forEach((track, k) => {
      const box = track.boxes[frame];
      if (box) draw(k, x + box[0] * w, y + box[1] * h, (box[2] - box[0]) * w, (box[3] - box[1]) * h);
    });
  }

  pick(event) {
    if (this.state.tool) return;
    const found = this.under(event);
    this.state.set({ track: found === this.state.track ? null : found });
  }

  point(event) {
    if (this.state.tool || !this.state.trace) return;
    const found = this.under(event);
    if (found !== this.state.hover) this.state.set({ hover: found });
  }

  // The smallest box under the pointer, as an index of tracks, or null.
  under(event) {
    const place = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - place.left) / place.width) * this.canvas.width;
    const y = ((event.clientY - place.top) / place.height) * this.canvas.height;
    let found = null, smallest = Infinity;
    this.eachBox((k, bx, by, w, h) => {
      if (x >= bx && x <= bx + w && y >= by && y <= by + h && w * h < smallest) {
        [found, smallest] = [k, w * h];
      }
    });
    return found;
  }

  describe(levels) {
    const { trace, frame } = this.state;
    const time = trace.times[frame];
    const masked = levels.frame ? ` · outside of objects hidden at ${levels.frame}` : "";
    this.caption.textContent =
      `frame ${frame + 1} of ${trace.times.length} · ${time.toFixed(2)} s${masked}`
      + (this.modelView() ? ` · ${trace.model.fit}` : "");
    const names = trace.tracks.filter((t) => t.boxes[frame]).map((t) => t.label).join(", ");
    this.canvas.setAttribute("aria-label", `Frame ${frame + 1}: ${names || "no tracked objects"}`);
  }

  drawLanes() {
    const { trace } = this.state;
    const cells = (make) => trace.times.map((_, i) => {
      const cell = make(i);
      cell.addEventListener("click", () => this.state.set({ frame: i, playing: false }));
      return cell;
    });
    const names = ["lost", "interpolated", "seen"];
    const rows = trace.tracks.map((track, k) =>
      el("div", { class: "mv-lane", "data-track": k },
        el("span", { class: "mv-lane-name" }, `${track.id} ${track.label}`),
        el("div", { class: "mv-cells" }, cells((i) =>
          el("span", {
            class: `mv-cell mv-${names[track.state[i]]}`, "data-frame": i,
            style: { "--object": objectColour(k) },
            title: `${track.label}, frame ${i + 1}: ${names[track.state[i]]}`,
          })))));
    const strip = el("div", { class: "mv-lane" },
      el("span", { class: "mv-lane-name" }, "frame mask"),
      el("div", { class: "mv-cells" }, cells((i) => {
        const level = this.levelsAt(i).frame;
        return el("span", {
          class: `mv-cell mv-frame-level ${level === 1 ? "mv-full" : level ? "mv-half" : ""}`,
          "data-frame": i, title: `frame ${i + 1}: ${level ? `hidden at ${level}` : "left as it is"}`,
        }, level ? String(level).replace(/^0/, "") : "");
      })));
    this.lanes.replaceChildren(...rows, strip);
    this.marked = null;
  }

  markLanes() {
    const { frame, track, hover } = this.state;
    if (frame !== this.marked) { // the cells of two frames change, not all
      for (const cell of this.lanes.querySelectorAll(".mv-now")) cell.classList.remove("mv-now");
      for (const cell of this.lanes.querySelectorAll(`[data-frame="${frame}"]`)) cell.classList.add("mv-now");
      this.marked = frame;
    }
    for (const lane of this.lanes.querySelectorAll("[data-track]")) {
      const k = Number(lane.dataset.track);
      lane.classList.toggle("mv-dim", track !== null && k !== track);
      lane.classList.toggle("mv-lit", hover === k);
    }
  }
}

function rgbOf(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function hatch(context, x, y, w, h, direction) {
  context.beginPath();
  for (let d = -h; d < w + h; d += 12) {
    context.moveTo(x + d, direction > 0 ? y + h : y);
    context.lineTo(x + d + h, direction > 0 ? y : y + h);
  }
  context.stroke();
}

// A label of one size on the screen, however small the canvas is shown.
function tag(context, x, y, text, colour) {
  const { canvas } = context;
  const scale = Math.max(1, canvas.width / (canvas.clientWidth || canvas.width)) * 0.8;
  const height = 22 * scale;
  context.font = `600 ${16 * scale}px system-ui, sans-serif`;
  const width = context.measureText(text).width + 12 * scale;
  const left = Math.max(0, Math.min(x, canvas.width - width));
  const top = Math.max(0, Math.min(y - height, canvas.height - height));
  context.fillStyle = colour;
  context.fillRect(left, top, width, height);
  context.fillStyle = "#111";
  context.fillText(text, left + 6 * scale, top + 16 * scale);
}
