// @ts-check
// The course: its chapters one at a time, each loaded when it is opened, and where the reader is.

import { all, el } from "../../../viewer/js/dom.js";
import { load, receive } from "./load.js";
import { Predict } from "./predict.js";
import { UNBROKEN, inline, prose } from "./prose.js";
import { mountQuiz } from "./quiz.js";
import { showResults } from "./results.js";
import { Store } from "./store.js";
import { dataOf, mount } from "./widgets.js";

/** @import { Chapter, Course, Quiz, Say, Step } from "./types" */

const RESULTS = "results";
const NARROW = matchMedia("(max-width: 900px)"); // as in learn.css: the chapters then stand above the text, folded

/** Shows the course where the page has its places for it. */
export function start() {
  receive();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => document.body.classList.toggle("dark", dark.matches);
  dark.addEventListener("change", paint);
  paint();
  load("course").then((course) => new Page(course).begin());
}

class Page {
  /** @param {Course} course */
  constructor(course) {
    this.course = course;
    this.store = new Store(course.edition);
    /** @type {Say} */
    this.say = (name, values = {}) => (course.strings[name] ?? name).replace(/\{(\w+)\}/g, (all, key) => String(values[key] ?? all))
      .replace(/(\d) %/g, UNBROKEN);
    this.nav = place("chapters");
    this.main = place("chapter");
    this.listed = ""; // the chapter that the list of chapters was drawn for
    NARROW.addEventListener("change", () => {
      this.listed = "";
      this.drawNav();
    });
  }

  begin() {
    addEventListener("hashchange", () => this.open(this.chapterInAddress(), true));
    this.open(this.chapterInAddress(), false);
  }

  /** The chapter in the address, else where the reader was. */
  chapterInAddress() {
    const names = [...this.course.chapters.map((c) => c.name), RESULTS];
    const named = decodeURIComponent(location.hash.slice(1));
    return names.find((n) => n === named) || names.find((n) => n === this.store.state.at) || names[0];
  }

  /**
   * @param {string} name
   * @param {boolean} move whether the reader asked for it: then the focus goes to its title
   */
  open(name, move) {
    this.store.open(name);
    this.at = name;
    if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
    const chapter = this.course.chapters.find((c) => c.name === name);
    this.main.replaceChildren();
    if (chapter) this.showChapter(chapter);
    else this.showResults();
    this.drawNav();
    this.linkHome(chapter);
    document.title = `${this.main.querySelector("h1")?.textContent} · MACD Studio`;
    if (!move) return;
    scrollTo(0, 0);
    this.main.querySelector("h1")?.focus({ preventScroll: true });
  }

  /**
   * The way to the Debug page leads to the example that the chapter shows first.
   *
   * @param {Chapter | undefined} chapter
   */
  linkHome(chapter) {
    const link = document.getElementById("home");
    if (!link) return;
    const steps = chapter ? [chapter.opening, ...chapter.steps] : [];
    const roles = steps.flatMap((s) => (s ? [s.view, ...(s.settings.roles || [])] : []));
    const role = roles.find((name) => name in this.course.parts);
    link.setAttribute("href", role ? this.course.parts[role].debug : this.course.home);
  }

  drawNav() {
    const { chapters } = this.course;
    const link = (/** @type {string} */ name, /** @type {string} */ number, /** @type {string} */ title, /** @type {string} */ state) =>
      el("li", { class: state ? `ln-${state}` : "" }, el("a", { href: `#${name}`, "aria-current": name === this.at ? "page" : null },
        el("span", { class: "ln-number-of", "aria-hidden": "true" }, state === "done" ? "✓" : number),
        el("span", { class: "ln-name" }, title, state ? el("span", { class: "ln-unseen" }, `, ${this.say(`state_${state}`)}`) : null)));
    const here = chapters.find((c) => c.name === this.at)?.title ?? this.say("results");
    const open = !NARROW.matches || (this.listed === (this.at ?? "") && this.nav.querySelector("details")?.open);
    this.listed = this.at ?? ""; // another chapter folds the list of a narrow screen
    this.nav.replaceChildren(el("details", { open: Boolean(open) },
      el("summary", {}, el("b", {}, this.say("chapters")), ` ${here}`),
      el("ol", {},
        chapters.map((c, i) => link(c.name, String(i), c.title, this.progress(c))),
        link(RESULTS, "★", this.say("results"), ""))));
  }

  /** @param {Chapter} chapter */
  progress(chapter) {
    const { answers, done } = this.store.state;
    if (chapter.quiz) {
      const n = Object.keys(answers).filter((id) => id.startsWith(`${chapter.quiz}/`)).length;
      return n === 0 ? "" : done[chapter.name] ? "done" : "begun";
    }
    if (!answers[chapter.name]) return "";
    return chapter.steps.every((s, i) => !s.done || done[`${chapter.name}/${i}`]) ? "done" : "begun";
  }

  /** @param {Chapter} chapter */
  showChapter(chapter) {
    const { say, course, store } = this;
    const number = course.chapters.indexOf(chapter);
    this.main.append(
      el("p", { class: "ln-kicker" }, number ? `${say("chapter", { n: number, of: course.chapters.length - 1 })} · ` : `${say("start")} · `,
        say("minutes", { n: chapter.minutes })),
      el("h1", { tabindex: "-1" }, chapter.title),
      el("p", { class: "ln-goal" }, el("b", {}, `${say("goal")}: `), chapter.goal));
    if (chapter.opening) this.main.append(this.step(chapter.opening, chapter.name));
    this.main.append(
      el("div", { class: "ln-prose" }, prose(chapter.text, course.glossary)));
    this.main.append(this.classSwitch());
    if (chapter.quiz) this.showQuiz(chapter);
    if (chapter.prediction) {
      const { prediction } = chapter;
      const after = el("div", { class: "ln-after", hidden: true });
      const predict = new Predict({
        id: chapter.name, say, reveal: true, glossary: course.glossary, locked: store.state.answers[chapter.name], hands: store.state.hands, ...prediction,
        onLock: (locked) => {
          store.lock(chapter.name, locked);
          this.reveal(chapter, after);
          this.drawNav();
        },
      });
      this.main.append(predict.root, after);
      if (store.state.answers[chapter.name]) this.reveal(chapter, after);
    }
    this.main.append(this.turn(number));
    if (!store.works) this.main.append(el("p", { class: "ln-note" }, say("not_kept")));
  }

  /** Whether one reader answers, or a class before a projector. */
  classSwitch() {
    const { say, store } = this;
    const input = el("input", {
      type: "checkbox", checked: store.state.hands, on: {
        change: () => {
          store.raise(input.checked);
          this.open(this.at ?? "", false);
        },
      },
    });
    document.body.classList.toggle("ln-projector", store.state.hands);
    return el("label", { class: "ln-class ln-no-print" }, input, ` ${say("hands")}`);
  }

  /**
   * What follows a prediction.
   *
   * @param {Chapter} chapter
   * @param {HTMLElement} after
   */
  reveal(chapter, after) {
    if (!chapter.prediction) return;
    after.hidden = false;
    after.append(el("div", { class: "ln-prose ln-explanation" }, prose(chapter.prediction.explanation, this.course.glossary)),
      ...chapter.steps.map((step, i) => this.step(step, `${chapter.name}/${i}`)));
    this.showWaiting(chapter, after);
  }

  /**
   * What tells the answer to a task comes once the task is done. Parts are counted as they are seen.
   *
   * @param {Chapter} chapter
   * @param {HTMLElement} after
   */
  showWaiting(chapter, after) {
    all(after, ".ln-step").forEach((section, i) => {
      section.hidden = chapter.steps[i].waits && !this.store.state.done[`${chapter.name}/${i - 1}`];
    });
    const titles = all(after, ".ln-step:not([hidden]) > h2");
    titles.forEach((title, i) => { title.textContent = this.say("part", { n: i + 1, of: titles.length }); });
  }

  /** A task of the chapter was done. */
  done() {
    const chapter = this.course.chapters.find((c) => c.name === this.at);
    const after = this.main.querySelector(".ln-after");
    if (chapter && after instanceof HTMLElement) this.showWaiting(chapter, after);
    this.drawNav();
  }

  /**
   * @param {Step} step
   * @param {string} id of a part; the chapter's name for its opening
   */
  step(step, id) {
    const { say, course, store } = this;
    const root = el("div", { class: "ln-widget" });
    const mark = el("span", { class: "ln-mark", role: "status" });
    const task = step.done ? el("p", { class: "ln-task" }, el("b", {}, `${say("task")}: `), inline(step.task, course.glossary), " ", mark) : null;
    const finish = () => {
      task?.classList.add("ln-finished");
      mark.textContent = say("task_done");
      if (store.state.done[id]) return;
      store.finish(id);
      this.done();
    };
    const text = el("div", { class: "ln-prose" }, prose(step.text, course.glossary));
    const skip = () => {
      task?.remove();
      text.replaceChildren(el("p", {}, say("no_model"))); // the text asks for the same as the task
      if (store.state.done[id]) return;
      store.finish(id);
      this.done();
    };
    if (step.done && store.state.done[id]) finish();
    if (step.view || step.widget) this.fill(root, dataOf(step), (data) => mount({
      root, step, course, data, say, done: finish, skip, chosen: store.state.chosen[id], choose: (objects) => store.choose(id, objects),
    }));
    const part = id.includes("/"); // whose number is written once it is known which parts are seen
    return el("section", { class: part ? "ln-step" : "ln-opening" }, el("h2", { class: part ? "ln-unseen" : "ln-kicker" }, part ? "" : say("real_clip")), text, task,
      step.view || step.widget ? root : null);
  }

  /** @param {Chapter} chapter */
  showQuiz(chapter) {
    const root = el("div", { class: "ln-quiz" });
    this.main.append(root);
    const set = /** @type {keyof Quiz} */ (chapter.quiz);
    this.fill(root, ["lesson-quiz"], (data) => {
      const quiz = data["lesson-quiz"];
      const changed = () => {
        if (Object.keys(this.store.state.answers).filter((id) => id.startsWith(`${set}/`)).length === quiz[set].length) this.store.finish(chapter.name);
        this.drawNav();
      };
      mountQuiz({ root, quiz, set, course: this.course, store: this.store, say: this.say, changed });
    });
  }

  showResults() {
    const { say, course, store } = this;
    const root = el("div", {});
    this.main.append(el("h1", { tabindex: "-1" }, say("results")), root);
    const restart = () => {
      store.clear();
      location.hash = course.chapters[0].name;
    };
    this.fill(root, ["lesson-quiz"], (data) => showResults({ root, course, quiz: data["lesson-quiz"], store, say, restart }));
    this.main.append(this.turn(course.chapters.length));
  }

  /**
   * Loads files, then shows what they are for; says so while it waits, and where it fails.
   *
   * @param {HTMLElement} root
   * @param {string[]} names
   * @param {(data: Record<string, any>) => void} show
   */
  fill(root, names, show) {
    root.replaceChildren(el("p", { class: "ln-note" }, this.say("loading")));
    Promise.all(names.map(load)).then((loaded) => {
      root.replaceChildren();
      show(Object.fromEntries(names.map((name, i) => [name, loaded[i]])));
    }, () => {
      root.replaceChildren(el("p", { class: "ln-error", role: "alert" }, this.say("load_failed")),
        el("button", { type: "button", class: "ln-button", on: { click: () => this.fill(root, names, show) } }, this.say("retry")));
    });
  }

  /** @param {number} number of the chapter shown; the results come after the last */
  turn(number) {
    const { chapters } = this.course;
    const link = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string} */ way) =>
      el("a", { href: `#${name}`, class: `ln-turn-${way}` }, el("small", {}, this.say(way)), title);
    const next = number < chapters.length - 1 ? chapters[number + 1] : null;
    return el("nav", { class: "ln-turn ln-no-print", "aria-label": `${this.say("back")}, ${this.say("next")}` },
      number > 0 ? link(chapters[number - 1].name, chapters[number - 1].title, "back") : el("span", {}),
      next ? link(next.name, next.title, "next") : number < chapters.length ? link(RESULTS, this.say("results"), "next") : null);
  }
}

/** @param {string} id */
function place(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no place for ${id}`);
  return element;
}
