// @ts-check
/** Text into a page, never as markup; and the clips of an item with a scale under each mask. */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {string} [text] @param {string} [className]
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`no ${id}`);
  return element;
}

/** @param {string} id */
export const part = (id) => byId(id, HTMLElement);

/**
 * Headings, lists, paragraphs and bold words of Markdown; everything else stays as it was written.
 * @param {HTMLElement} into @param {string} text
 */
export function writeMarkdown(into, text) {
  into.replaceChildren();
  for (const block of text.split(/\n\s*\n/)) {
    const lines = block.split("\n").filter((line) => line.trim());
    if (!lines.length) continue;
    if (/^#{1,3} /.test(lines[0])) {
      into.append(make(into.firstChild ? "h2" : "h1", lines[0].replace(/^#+ /, "")));
      lines.shift();
    }
    if (lines.length && lines.every((line) => /^(- |  )/.test(line))) {
      const list = make("ul");
      for (const line of lines.join("\n").split(/\n?^- /m).filter(Boolean)) {
        const entry = make("li");
        writeInline(entry, line);
        list.append(entry);
      }
      into.append(list);
    } else if (lines.length) {
      const paragraph = make("p");
      writeInline(paragraph, lines.join(" "));
      into.append(paragraph);
    }
  }
}

/** @param {HTMLElement} into @param {string} line */
function writeInline(into, line) {
  line.split("**").forEach((piece, i) => into.append(i % 2 ? make("strong", piece) : piece));
}

const LOW_END = "1: hides nothing that is needed";
const HIGH_END = "5: hides just what is needed";

/** Why a mask is rated low: the word that is stored, the key, and what it says. */
export const REASONS = [
  ["missed", "m", "missed the object"],
  ["spilled", "o", "hides more than the object"],
  ["lost", "t", "misses it at times"],
  ["wrong", "w", "wrong object"],
];
/** The highest rating that reasons are asked for. */
export const MOST_LOW = 2;

/** @param {{reasons: string[][]}} task @param {number} side @param {string} word @param {boolean} on */
export function setReason(task, side, word, on) {
  const others = task.reasons[side].filter((one) => one !== word);
  task.reasons[side] = on ? [...others, word] : others;
}

/** @typedef {{text: string, kind: "" | "saved" | "waiting"}} Tick */

/** What can be said of two masks: as it is stored, and in words. */
export const PREFERENCES = /** @type {const} */ ([[1, "A is better"], [0, "No difference"], [2, "B is better"]]);

export class Views {
  /**
   * @param {HTMLElement} into @param {(side: number, rating: number) => void} rate
   * @param {(side: number, word: string) => void} explain
   * @param {((preference: number) => void) | null} prefer where the better of two masks is named
   */
  constructor(into, rate, explain, prefer = null) {
    this.into = into;
    this.rate = rate;
    this.explain = explain;
    this.prefer = prefer;
    /** @type {HTMLElement | null} */
    this.choice = null;
    /** The mask whose scale had the keyboard last. */
    this.active = 0;
    /** @type {HTMLElement[]} */
    this.sides = [];
    /** @type {HTMLElement[]} why each mask is rated low */
    this.whys = [];
    into.addEventListener("pointermove", (event) => this.aim(event));
    into.addEventListener("pointerdown", (event) => this.aim(event));
    into.addEventListener("mousedown", (event) => this.point(event));
  }

  /** @param {number} count of masks @returns {HTMLCanvasElement[]} the clip's, then the masks' */
  build(count) {
    const original = figure("The video", "original");
    this.sides = Array.from({ length: count }, (_, side) => this.side(side, count));
    this.whys = this.sides.map((_, side) => this.reasons(side, sideName(side, count)));
    this.choice = this.prefer && this.pairScale(this.prefer);
    // behind all scales: the Tab key leads from one to the next
    this.into.style.setProperty("--views", String(1 + count));
    // on a narrow screen each below its mask
    [original, ...this.sides].forEach((one, i) => one.style.setProperty("--place", String(2 * i)));
    this.whys.forEach((one, side) => one.style.setProperty("--place", String(2 * side + 3)));
    this.into.replaceChildren(original, ...this.sides, ...this.whys, ...(this.choice ? [this.choice] : []));
    this.active = 0;
    return [original, ...this.sides].map((f) => /** @type {HTMLCanvasElement} */ (
      f.querySelector("canvas")));
  }

  /** Which mask is better, once for both. @param {(preference: number) => void} prefer */
  pairScale(prefer) {
    const group = make("div", "", "choice");
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-label", "Which mask is better");
    group.setAttribute("aria-describedby", "question criterion-of-pairs");
    for (const [preference, words] of PREFERENCES) {
      const button = make("button", words);
      button.type = "button";
      button.setAttribute("role", "radio");
      button.setAttribute("aria-checked", "false");
      button.dataset.preference = String(preference);
      button.tabIndex = preference === 1 ? 0 : -1;
      button.addEventListener("click", () => prefer(preference));
      group.append(button);
    }
    group.addEventListener("keydown", (event) => this.walk(group, event));
    const tick = make("p", "", "tick");
    tick.setAttribute("role", "status");
    const whole = make("div", "", "choices");
    whole.append(group, tick);
    return whole;
  }

  /** @param {number | null} preference @param {Tick} tick */
  markPreference(preference, tick) {
    if (!this.choice) return;
    for (const button of this.choice.querySelectorAll("button")) {
      const own = button.dataset.preference === String(preference);
      button.setAttribute("aria-checked", String(own));
      button.tabIndex = own || (preference === null && button.dataset.preference === "1") ? 0 : -1;
    }
    const line = /** @type {HTMLElement} */ (this.choice.querySelector(".tick"));
    if (line.textContent !== tick.text) line.textContent = tick.text;
    line.className = `tick ${tick.kind}`;
  }

  /** @param {number} side @param {number} count */
  side(side, count) {
    const name = sideName(side, count);
    const view = figure(name, "");
    if (this.prefer) return view;
    const group = make("div", "", "scale");
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-label", name);
    group.setAttribute("aria-describedby", "question criterion");
    for (let rating = 1; rating <= 5; rating++) {
      const button = make("button", String(rating));
      button.type = "button";
      button.setAttribute("role", "radio");
      button.setAttribute("aria-checked", "false");
      if (rating === 1) button.setAttribute("aria-label", LOW_END);
      if (rating === 5) button.setAttribute("aria-label", HIGH_END);
      button.tabIndex = rating === 1 ? 0 : -1;
      button.addEventListener("click", () => this.rate(side, rating));
      group.append(button);
    }
    group.addEventListener("keydown", (event) => this.walk(group, event));
    const ends = make("div", "", "ends");
    ends.setAttribute("aria-hidden", "true");
    ends.append(make("span", LOW_END), make("span", HIGH_END));
    const tick = make("p", "", "tick");
    tick.setAttribute("role", "status");
    view.append(group, ends, tick);
    view.addEventListener("focusin", () => {
      this.active = side;
    });
    return view;
  }

  /** Why it is rated low, to be chosen or not. @param {number} side @param {string} name */
  reasons(side, name) {
    const group = make("div", "", "reasons");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", `${name}: why so low? Optional`);
    group.hidden = true;
    group.append(make("span", `${name}: why? (optional)`));
    for (const [word, key, text] of REASONS) {
      const button = make("button", text);
      button.type = "button";
      button.dataset.reason = word;
      button.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-keyshortcuts", key.toUpperCase());
      button.addEventListener("click", () => this.explain(side, word));
      group.append(button);
    }
    return group;
  }

  /** The mask whose scale has the keyboard; -1: none has it. */
  get focused() {
    return this.sides.findIndex((view) => view.contains(document.activeElement));
  }

  /** The mask whose reasons have the keyboard; -1: none have it. */
  get explained() {
    return this.whys.findIndex((group) => group.contains(document.activeElement));
  }

  /** A click on a picture puts the keyboard on its scale, and takes it from none. @param {MouseEvent} event */
  point(event) {
    const target = /** @type {Node} */ (event.target);
    if (target instanceof HTMLButtonElement) return;
    event.preventDefault();
    const side = this.sides.findIndex((view) => view.contains(target));
    if (side >= 0) this.focus(side);
  }

  /** Puts the keyboard on the scale of a mask. @param {number} side @param {FocusOptions} [how] */
  focus(side, how) {
    const view = this.choice ?? this.sides[side];
    /** @type {HTMLElement | null} */ (view?.querySelector('[role="radio"][tabindex="0"]'))?.focus(how);
  }

  /** Arrow keys move along the scale without rating. @param {HTMLElement} group @param {KeyboardEvent} event */
  walk(group, event) {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = [...group.querySelectorAll("button")];
    const at = buttons.findIndex((button) => button === document.activeElement);
    buttons[Math.min(Math.max(at + step, 0), buttons.length - 1)].focus();
  }

  /** @param {number} side @param {number | null} rating @param {string[]} reasons */
  markReasons(side, rating, reasons) {
    if (this.prefer) return;
    const group = this.whys[side];
    group.hidden = rating === null || rating > MOST_LOW;
    for (const button of group.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(reasons.includes(button.dataset.reason ?? "")));
    }
  }

  /** @param {number} side @param {number | null} rating @param {Tick} tick */
  mark(side, rating, tick) {
    const view = this.sides[side];
    const chosen = view.querySelector('[aria-checked="true"]')?.textContent;
    const changed = chosen !== (rating === null ? undefined : String(rating));
    view.querySelectorAll(".scale button").forEach((element, i) => {
      const button = /** @type {HTMLButtonElement} */ (element);
      button.setAttribute("aria-checked", String(rating === i + 1));
      button.tabIndex = i === (rating ?? 1) - 1 ? 0 : -1;
    });
    // one stop of the Tab key a scale: from the one that is chosen it leads on to the next mask
    if (changed && rating !== null && view.contains(document.activeElement)) this.focus(side);
    const line = /** @type {HTMLElement} */ (view.querySelector(".tick"));
    const words = rating === null ? tick.text : `${rating} ${tick.text}`;
    if (line.textContent !== words) line.textContent = words;
    line.className = `tick ${tick.kind}`;
  }

  /** All clips are zoomed around the same place. @param {PointerEvent} event */
  aim(event) {
    const frame = /** @type {Element} */ (event.target).closest(".frame");
    if (!frame) return;
    const box = frame.getBoundingClientRect();
    const share = (/** @type {number} */ at, /** @type {number} */ size) => `${(100 * at) / size}%`;
    this.into.style.setProperty("--x", share(event.clientX - box.left, box.width));
    this.into.style.setProperty("--y", share(event.clientY - box.top, box.height));
  }
}

/** @param {number} side @param {number} count */
export function sideName(side, count) {
  return count > 1 ? `Mask ${"AB"[side]}` : "The mask";
}

/** The same within a sentence. @param {number} side @param {number} count */
export function inSentence(side, count) {
  return sideName(side, count).replace(/^[TM]/, (c) => c.toLowerCase());
}

/** @param {string} name @param {string} className */
function figure(name, className) {
  const view = make("figure", "", `view ${className}`.trim());
  const frame = make("div", "", "frame");
  const canvas = make("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", className ? name : `The video behind ${name.replace(/^[TM]/, (c) => c.toLowerCase())}`);
  frame.append(canvas);
  view.append(make("figcaption", name), frame);
  return view;
}
