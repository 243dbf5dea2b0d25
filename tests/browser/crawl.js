// Uses every control of a page once and tells, as lines of text, what the page holds after each.
// Injected before the page's own scripts: it notes what listens to which events and what is drawn, and
// stands still in time, so that the same page gives the same lines on every machine.

(() => {
  const listens = new WeakMap(); // element → types of events
  const add = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (type, ...rest) {
    if (this instanceof Element) listens.set(this, (listens.get(this) ?? new Set()).add(type));
    return add.call(this, type, ...rest);
  };

  // Time passes only in `settled`.
  let now = 1e6, timers = [], last = 0;
  const real = window.setTimeout.bind(window);
  const later = (run, ms = 0, every = 0) => {
    timers.push({ id: ++last, at: now + Math.max(1, ms), run, every });
    return last;
  };
  const forget = (id) => { timers = timers.filter((t) => t.id !== id); };
  window.setTimeout = (run, ms) => later(run, ms);
  window.setInterval = (run, ms) => later(run, ms, Math.max(1, ms));
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = forget;
  window.requestAnimationFrame = (run) => later(() => run(now), 16);
  window.requestIdleCallback = (run) => later(() => run({ timeRemaining: () => 50, didTimeout: false }), 1);
  performance.now = () => now;
  Date.now = () => now;

  const channel = new MessageChannel(), waiting = []; // sooner than a timer
  channel.port1.onmessage = () => waiting.shift()?.();
  const pause = () => new Promise((done) => {
    waiting.push(done);
    channel.port2.postMessage(0);
  });
  const pictures = new Set(); // as they are made, until they are there
  window.Image = class extends Image {
    constructor(...given) {
      super(...given);
      pictures.add(this);
    }
  };
  const isLoading = () => {
    for (const picture of pictures) if (picture.complete) pictures.delete(picture);
    return pictures.size > 0 || [...document.querySelectorAll(".ln-note")].some((n) => n.textContent.startsWith("Loading"));
  };

  async function settled(ms = 300) {
    do await new Promise((done) => real(done, 0)); while (isLoading());
    for (const end = now + ms; now < end; now += 50) {
      const due = timers.filter((t) => t.at <= now);
      for (const timer of due) {
        if (!timers.includes(timer)) continue; // forgotten by one before it
        if (timer.every) timer.at = now + timer.every;
        else forget(timer.id);
        timer.run();
      }
      if (due.length) await pause();
    }
    do await new Promise((done) => real(done, 0)); while (isLoading());
  }

  // What is drawn: the calls of all canvases, each noted once, because how often a picture is drawn
  // depends on when images are decoded.
  let drawn = new Set();
  const numbers = new Map(); // of pictures: another version of an encoder writes other bytes
  const numberOf = (source) => {
    if (!numbers.has(source)) numbers.set(source, numbers.size + 1);
    return `picture ${numbers.get(source)}`;
  };
  const short = (value) => {
    if (typeof value === "number") return String(Math.round(value * 10) / 10);
    if (value instanceof ImageData) return `${value.width}×${value.height}:${hash(value.data)}`;
    if (value instanceof HTMLCanvasElement) return `canvas ${value.width}×${value.height}`;
    if (value instanceof HTMLImageElement) return numberOf(value.src);
    return Array.isArray(value) ? value.map(short).join(" ") : String(value);
  };
  function hash(bytes) {
    let h = 0x811c9dc5;
    for (let i = 0; i < bytes.length; i++) h = Math.imul(h ^ bytes[i], 0x01000193);
    return (h >>> 0).toString(16);
  }
  const context = CanvasRenderingContext2D.prototype;
  const wide = (text) => ({ width: 6 * text.length }); // the machine's fonts differ
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(context))) {
    if (name === "measureText") context[name] = wide;
    else if (typeof value === "function" && !/^(get|create|is)/.test(name)) {
      context[name] = function (...given) {
        const ink = /fill|stroke/.test(name) ? ` ${this.fillStyle} ${this.strokeStyle} ${short(this.lineWidth)} ${this.globalAlpha}` : "";
        drawn.add(`${name} ${given.map(short).join(" ")}${ink}`);
        return value.apply(this, given);
      };
    }
  }

  /** What was drawn since the last call: its words, and one hash of all of it. */
  function picture() {
    const calls = [...drawn].sort();
    drawn = new Set();
    if (!calls.length) return [];
    const words = calls.filter((c) => c.startsWith("fillText")).map((c) => c.split(" ").slice(1).join(" "));
    return [`drawn ${digest(calls.join("\n"))}`, ...words.map((w) => `drawn ${w}`)];
  }

  const rounded = (text) => text.replace(/-?\d+\.\d{3,}(e-?\d+)?/g, (n) => String(Math.round(Number(n) * 100) / 100));
  const digest = (text) => hash(new TextEncoder().encode(text));
  const HASHED = 200; // longer values are told by their hash
  const told = (text) => (text.length > HASHED ? `${text.slice(0, 60)}…${digest(text)}` : text).replaceAll("\n", "⏎");
  const MANY = 30; // elements of one kind that are told by their hash
  const NAMES = /^(id|for|aria-(describedby|labelledby|controls))$/; // counted through the page's life

  let without = ":not(*)"; // what is left alone

  /** All elements within that are seen. @param {Element} root */
  function* visible(root) {
    for (const e of root.children) {
      if (e.matches(without) || !e.checkVisibility({ visibilityProperty: true })) continue;
      yield e;
      yield* visible(e);
    }
  }

  /** One line for each element that is seen and says something. @param {Element} root */
  function lines(root) {
    const found = [];
    for (const e of visible(root)) {
      if (e.parentElement.childElementCount > MANY && !e.matches("button, tr, li, p, details")) {
        if (e === e.parentElement.firstElementChild) found.push(`${e.parentElement.childElementCount} parts ${digest(e.parentElement.innerHTML)}`);
        continue;
      }
      const own = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).filter(Boolean).join(" ");
      const attributes = [];
      for (const { name, value } of e.attributes) {
        if (NAMES.test(name) || name === "class" || name === "type") continue;
        const kept = name === "style" ? value.replace(/(--room|left|top): [^;%]+;?/g, "").trim() : value;
        if (kept) attributes.push(`${name}=${kept.startsWith("data:") ? numberOf(kept) : told(rounded(kept))}`);
      }
      if (e.matches("input, select, textarea")) attributes.push(`now=${e.type === "checkbox" || e.type === "radio" ? e.checked : rounded(e.value)}`);
      if (e.open !== undefined) attributes.push(`open=${e.open}`);
      const classes = [...e.classList].filter((c) => !/^mv-(spare|touched)$/.test(c));
      if (own || attributes.length) found.push(`${[e.localName, ...classes].join(".")} ${[...attributes, told(rounded(own))].join(" ").trim()}`);
    }
    return found;
  }

  const at = (e, share) => {
    const { left, top, width, height } = e.getBoundingClientRect();
    return { clientX: left + share[0] * width, clientY: top + share[1] * height, bubbles: true, cancelable: true, pointerId: 1, button: 0, buttons: 1 };
  };
  const say = (e, type, share = [0.5, 0.5]) => {
    const Kind = type.startsWith("pointer") ? PointerEvent : /^(mouse|click)/.test(type) ? MouseEvent : Event;
    e.dispatchEvent(new Kind(type, at(e, share)));
  };
  /** What a reader can do to an element: name → action. */
  function actionsOf(e) {
    const types = listens.get(e) ?? new Set(), can = {};
    const opens = e.localName !== "summary" || !e.parentElement.open; // what is shut shows nothing
    if (opens && (e.matches("button, summary, [role=button], [role=option], [role=tab]") || types.has("click"))) {
      if (e.localName !== "canvas") can.click = () => (e.click ? e.click() : say(e, "click"));
      else for (const share of [[0.25, 0.4], [0.6, 0.6]]) can[`click at ${share}`] = () => say(e, "click", share);
    }
    if (e.matches("input[type=range]")) {
      const set = (share) => () => {
        const [low, high] = [Number(e.min || 0), Number(e.max || 100)];
        e.value = String(low + share * (high - low));
        say(e, "input");
        say(e, "change");
      };
      Object.assign(can, { "a third": set(1 / 3), "its end": set(1) });
    } else if (e.matches("input[type=checkbox], input[type=radio]")) can.click = () => e.click();
    else if (e.matches("input, textarea")) {
      const isNumber = e.type === "number";
      for (const text of isNumber ? ["1", "0.5"] : ["dog", ""]) {
        can[`type ${text}`] = () => { e.value = text; say(e, "input"); say(e, "change"); };
      }
    } else if (e.matches("select")) {
      for (const option of [...e.options].slice(0, 6)) {
        can[`choose ${option.value}`] = () => { e.value = option.value; say(e, "input"); say(e, "change"); };
      }
    }
    const enters = ["pointerenter", "mouseenter", "mouseover", "focusin", "focus"].find((type) => types.has(type));
    if (enters) can[enters] = () => say(e, enters);
    if (types.has("pointermove") || types.has("mousemove")) can.point = () => { say(e, "mousemove", [0.3, 0.5]); say(e, "pointermove", [0.3, 0.5]); };
    if (types.has("pointerdown")) {
      can.drag = () => {
        say(e, "pointerdown", [0.3, 0.3]);
        say(e, "pointermove", [0.5, 0.6]);
        say(e, "pointerup", [0.5, 0.6]);
      };
    }
    return can;
  }

  /** Of elements that are alike these are used: the first two. */
  const ALIKE = 2;

  /** The next action that was not done yet, by its name; null: none. */
  function next(root, done) {
    const seen = new Map();
    for (const e of visible(root)) {
      if (e.disabled) continue;
      const can = Object.entries(actionsOf(e));
      if (!can.length) continue;
      const label = (e.dataset.view ?? e.getAttribute("aria-label") ?? e.textContent).trim();
      const kind = `${e.localName}.${[...e.classList].filter((c) => !/now|chosen|lit|on$|open|active|not-yet|away|touched|flips|more|less|spot/.test(c)).join(".")} in ${e.closest("[data-part]")?.dataset.part ?? ""}`;
      const named = /^(button|summary)$/.test(e.localName) && !e.matches(".mv-term") && label.length < 30 && !/\d/.test(label) ? `${kind} ${label}` : kind;
      const nth = seen.get(named) ?? 0;
      seen.set(named, nth + 1);
      if (nth >= ALIKE) continue;
      for (const [action, run] of can) {
        const name = `${named} ${nth + 1}: ${action}`;
        if (!done.has(name)) return { name, run };
      }
    }
    return null;
  }

  /**
   * @param {string} selector of the root @param {{ most: number, keys: string[], without: string, sent: string }} how
   * @returns {Promise<[string, string[]][]>} each action with all lines after it
   */
  window.crawl = async (selector, { most, keys, sent, ...how }) => {
    without = how.without || without;
    const root = document.querySelector(selector), done = new Set(), told = [];
    if (window.viewer) { // pictures are numbered as the trace has them, not as they were first drawn
      numbers.clear();
      drawn = new Set();
      for (const source of window.viewer.stage.images.keys()) numberOf(source);
      window.viewer.state.set({});
    }
    const note = async (name) => {
      await settled();
      const out = sent && window[sent].length ? window[sent].splice(0).map((a) => `sent ${JSON.stringify(a)}`) : [];
      told.push([name, [...lines(root), ...picture(), ...out]]);
    };
    await note("at first");
    for (let n = 0; n < most; n++) {
      const action = next(root, done);
      if (!action) break;
      done.add(action.name);
      action.run();
      await note(action.name);
    }
    for (const key of keys) {
      root.firstElementChild.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      await note(`key ${key}`);
    }
    return told;
  };
})();
