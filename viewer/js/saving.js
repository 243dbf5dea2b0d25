// @ts-check
// What can be saved of the pictures: a frame, a film of the views on show, and the objects as files for other programs.

import { button, contextOf, el, errorLine, saveFile, savePicture } from "./dom.js";
import { TEXT } from "./strings/labels.js";

/** @import { Stage } from "./stage.js" */

const FILM_ROUNDS = 2;

/** @type {[string, string][]} what is saved */
const OBJECTS = [["tracks", TEXT.objectsGroup], ["levels", TEXT.maskedGroup]];

export class Saving {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.picture = button(TEXT.savePNG, () => savePicture(stage.canvas, `frame-${stage.state.frame + 1}.png`));
    this.film = button(TEXT.saveFilm, () => this.saveFilm());
    this.objects = el("select", {
      "aria-label": TEXT.saveObjectsAs, hidden: true, on: { change: () => this.saveTracks(this.objects.value) },
    }, el("option", { value: "" }, TEXT.saveObjectsAs));
    this.buttons = [this.picture, this.film, this.objects];
    this.refused = errorLine();
    /** Where the trace on show can be had as a page. */
    this.address = "";
  }

  /** What a server gives of the trace on show. @param {{ page: string } | undefined} files @param {boolean} running */
  offer(files, running) {
    if (files) this.address = files.page;
    if (files && this.objects.options.length === 1) {
      this.objects.append(...OBJECTS.map(([what, group]) => el("optgroup", { label: group },
        this.stage.state.constants.exports.map(([format, name]) => el("option", { value: `${what}-${format}` }, name)))));
    }
    this.objects.hidden = !this.stage.state.host.get || !this.address || running || !this.stage.state.trace?.tracks.length;
    this.refused.hidden = true;
  }

  /** The objects, or what is masked, as another program reads them. @param {string} kind what and format, as in tracks-coco */
  async saveTracks(kind) {
    this.objects.value = "";
    this.refused.hidden = true;
    if (!kind) return;
    try {
      const answer = await this.stage.state.host.get?.(this.address.replace(/\.html(?=\?|$)/, `.${kind}`));
      if (!answer) return;
      if (!answer.ok) throw new Error(await answer.text());
      const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "");
      saveFile(name ? name[1] : kind, await answer.blob());
    } catch (error) {
      this.refused.textContent = error instanceof TypeError ? TEXT.unreachable : String(/** @type {Error} */ (error).message);
      this.refused.hidden = false;
    }
  }

  // Both views as they are seen, frame by frame, as a film.
  async saveFilm() {
    const canvases = this.stage.shown === "both" ? [this.stage.canvas, this.stage.twin] : [this.stage.canvas];
    const { width, height } = this.stage.canvas, even = (/** @type {number} */ v) => v + (v % 2);
    const film = el("canvas", { width: even(width * canvases.length), height: even(height) });
    const context = contextOf(film);
    const recorder = new MediaRecorder(film.captureStream(30), { videoBitsPerSecond: 8e6 });
    /** @type {Blob[]} */
    const parts = [];
    recorder.addEventListener("dataavailable", ({ data }) => parts.push(data));
    const ended = new Promise((done) => { recorder.addEventListener("stop", done); });
    const { frame, playing, loaded: { times } } = this.stage.state;
    this.film.disabled = true;
    this.film.textContent = TEXT.savingFilm;
    recorder.start();
    for (let n = 0; n < FILM_ROUNDS * times.length; n++) {
      this.stage.state.set({ frame: n % times.length, playing: false });
      canvases.forEach((canvas, i) => context.drawImage(canvas, i * width, 0, width, height));
      await new Promise((done) => { setTimeout(done, this.stage.pause(n % times.length)); });
    }
    recorder.stop();
    await ended;
    this.film.disabled = false;
    this.film.textContent = TEXT.saveFilm;
    this.stage.state.set({ frame, playing });
    saveFile(recorder.mimeType.includes("mp4") ? "clip.mp4" : "clip.webm", new Blob(parts, { type: recorder.mimeType }));
  }
}
