// @ts-check
/** Known items that a program proposes, and that the organiser confirms or refuses one by one. */

import { Player, unpack } from "./player.js";
import { ask, askJson } from "./queue.js";
import { make, part } from "./view.js";

/**
 * @typedef {{item: number, clip: string, question: string, role: string, also_main: boolean,
 *   times: number[], motion: number[], sides: {low: number, high: number, why: string}[]}} Proposal
 */

const ROLES = [["training", "Training"], ["gold", "Hidden"], ["no", "Leave out"]];

export class Proposals {
  /** @param {() => string} code @param {(act: () => Promise<void>) => void} attempt */
  constructor(code, attempt) {
    this.code = code;
    this.attempt = attempt;
    /** In a study of pairs one mask is the better one, and none has a rating. */
    this.pairs = false;
    /** @type {Map<number, Player>} */
    this.players = new Map();
  }

  /** Fetches what is proposed, and shows it. */
  async load() {
    this.show((await askJson(this.code(), "organise/api/proposed")).items);
  }

  /** @param {Proposal[]} items */
  show(items) {
    part("proposed").hidden = !items.length;
    const list = part("proposals");
    for (const item of items) {
      const own = list.querySelector(`[data-item="${item.item}"]`) ?? this.add(list, item);
      own.querySelectorAll("button[data-role]").forEach((button) => {
        button.setAttribute("aria-pressed", String(button.getAttribute("data-role") === item.role));
      });
    }
  }

  /** @param {HTMLElement} list @param {Proposal} item */
  add(list, item) {
    const own = make("article", "", "proposal");
    own.dataset.item = String(item.item);
    own.append(make("h3", item.question));
    const where = item.also_main ? "; its clip and question are rated too, so raters would see it twice" : "";
    own.append(make("p", `${item.clip}${where}`));
    const views = make("div", "", "views");
    const best = Math.max(...item.sides.map((s) => s.low));
    const names = ["The video", ...item.sides.map((s) => {
      const known = s.low === best ? "The better mask" : "The worse mask";
      return `${this.pairs ? known : `Rated ${s.low} to ${s.high}`}: ${s.why}`;
    })];
    const canvases = names.map((name) => {
      const view = make("figure", "", "view");
      const canvas = make("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", name);
      view.append(canvas, make("figcaption", name));
      views.append(view);
      return canvas;
    });
    const show = make("button", "Show the pictures");
    show.type = "button";
    show.addEventListener("click", () => this.attempt(() => this.play(item, canvases, show)));
    const row = make("div", "", "row");
    row.append(show);
    for (const [role, words] of ROLES) {
      const button = make("button", words);
      button.type = "button";
      button.dataset.role = role;
      button.disabled = role !== "no";  // nothing is confirmed unseen
      button.addEventListener("click", () => this.attempt(async () => {
        const body = { item: item.item, role };
        this.show((await askJson(this.code(), "organise/api/confirm", body)).items);
      }));
      row.append(button);
    }
    own.append(views, row);
    list.append(own);
    return own;
  }

  /** @param {Proposal} item @param {HTMLCanvasElement[]} canvases @param {HTMLButtonElement} button */
  async play(item, canvases, button) {
    const names = ["clip", ...item.sides.keys()];
    const clips = await Promise.all(names.map(async (which) => {
      const answer = await ask(this.code(), `organise/api/proposed/${item.item}/${which}`);
      return unpack(await answer.arrayBuffer());
    }));
    const player = this.players.get(item.item) ?? new Player();
    this.players.set(item.item, player);
    player.show(canvases, clips, clips.map((_, i) => (i ? item.times : item.motion)));
    button.hidden = true;
    button.parentElement?.querySelectorAll("button").forEach((one) => {
      one.disabled = false;
    });
  }
}
