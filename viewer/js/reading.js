// @ts-check
// The embedded model inside a worker. It answers one request: the logits of these frames behind this mask,
// after this prompt; and where it is asked for, how a loss changes with every pixel of the mask.
// viewer/graph.py says what the graphs take and give.

/** @import { EngineFile, EngineManifest, EngineRun, Reading } from "./types" */

const CACHE = "macd-engine";
const GRAPHS = { logits: "logits.onnx", gradient: "gradient.onnx" };
const THREADS = 2; // more gain nothing at this size
const UNSEEN = -1e9;

/** A file of the engine could not be fetched. */
export class Unreachable extends Error {}

export class Model {
  /** @param {string} folder address of the engine's files, with its final slash */
  constructor(folder) {
    this.folder = folder;
    /** @type {(bytes: number, of: number) => void} */
    this.progress = () => {};
    /** @type {Promise<Record<string, Uint8Array>> | null} */
    this.files = null;
    /** @type {Map<string, Promise<any>>} */
    this.sessions = new Map();
  }

  /** @returns {Promise<Record<string, Uint8Array>>} the files by name, fetched once */
  fetched() {
    this.files ??= this.fetchAll().catch((error) => {
      this.files = null; // so that it can be tried again
      throw error;
    });
    return this.files;
  }

  async fetchAll() {
    const answer = await fetchOrFail(`${this.folder}engine.json`, { cache: "no-cache" });
    /** @type {EngineManifest} */
    const { files } = await answer.json();
    const of = files.reduce((sum, file) => sum + file.bytes, 0);
    let bytes = 0;
    const store = await openStore();
    const kept = new Set(files.map((file) => addressOf(this.folder, file)));
    for (const request of store ? await store.keys() : []) {
      if (request.url.startsWith(this.folder) && !kept.has(request.url)) await store?.delete(request);
    }
    const contents = await Promise.all(files.map(async (file) => {
      const content = await fetchFile(store, addressOf(this.folder, file), (n) => this.progress(bytes += n, of));
      return [file.name, await inflated(content)];
    }));
    return Object.fromEntries(contents);
  }

  /** @param {keyof typeof GRAPHS} name @returns {Promise<any>} a session of the runtime, made once */
  session(name) {
    const former = this.sessions.get(name);
    if (former) return former;
    const made = this.start(name);
    this.sessions.set(name, made);
    made.catch(() => this.sessions.delete(name));
    return made;
  }

  /** @param {keyof typeof GRAPHS} name */
  async start(name) {
    const files = await this.fetched();
    if (!self.ort) {
      self.importScripts(`${this.folder}ort.js`);
      const { env } = self.ort;
      env.wasm.wasmBinary = files["runtime.bin"].buffer;
      env.wasm.wasmPaths = { mjs: `${this.folder}ort-threads.js` };
      env.wasm.numThreads = self.crossOriginIsolated ? Math.min(THREADS, navigator.hardwareConcurrency || 1) : 1;
    }
    return self.ort.InferenceSession.create(files[GRAPHS[name]], {
      executionProviders: ["wasm"],
      externalData: [{ path: "model.safetensors", data: files["weights.bin"] }],
    });
  }

  /**
   * Logits (L, V) of the prompt and the tokens after it. With targets (L, V) also their loss, and its slope
   * by every pixel of the mask (T, H, W).
   * @param {EngineRun} run @param {Float32Array | null} mask @param {number[]} tokens
   * @param {number[]} fill of masked pixels by channel, normalised @param {Float32Array | null} targets
   * @returns {Promise<Reading>}
   */
  async read(run, mask, tokens, fill = run.fill, targets = null) {
    const session = await this.session(targets ? "gradient" : "logits");
    const { Tensor } = self.ort;
    const after = [...run.after, ...tokens], length = run.positions[0].length + tokens.length;
    const places = run.positions.flatMap((axis) => [...axis, ...tokens.map((_, i) => run.next + i)]);
    const unseen = new Float32Array(length * length);
    for (let row = 0; row < length; row++) unseen.fill(UNSEEN, row * length + row + 1, (row + 1) * length);
    const [frames, height, width] = run.shape;
    const video = maskedVideo(run, mask, fill);
    const out = await session.run({
      video: new Tensor("float32", video, [frames, 3, height, width]),
      before: new Tensor("int32", Int32Array.from(run.before), [run.before.length]),
      after: new Tensor("int32", Int32Array.from(after), [after.length]),
      positions: new Tensor("float32", Float32Array.from(places), [3, length]),
      unseen: new Tensor("float32", unseen, [length, length]),
      ...(targets ? { targets: new Tensor("float32", targets, [length, targets.length / length]) } : {}),
    });
    const logits = out.logits.data, words = logits.length / length;
    if (!targets) return { logits, words, loss: 0, slope: null };
    return { logits, words, loss: out.loss.data[0], slope: slopeOfMask(run, out.slope.data, fill) };
  }
}

/**
 * (T, 3, H, W), normalised: V + M · (fill − V), as core/macd.py composites.
 * @param {EngineRun} run @param {Float32Array | null} mask @param {number[]} fill
 */
export function maskedVideo(run, mask, fill) {
  const [frames, height, width] = run.shape, pixels = height * width;
  const video = new Float32Array(frames * 3 * pixels);
  for (let t = 0; t < frames; t++) {
    for (let c = 0; c < 3; c++) {
      const to = (t * 3 + c) * pixels;
      for (let i = 0; i < pixels; i++) {
        const plain = normalised(run, (t * pixels + i) * 3 + c, c), hidden = mask ? mask[t * pixels + i] : 0;
        video[to + i] = hidden ? Math.fround(plain + hidden * (fill[c] - plain)) : plain;
      }
    }
  }
  return video;
}

/** @param {EngineRun} run @param {number} at index of a value in the frames @param {number} c its channel */
function normalised(run, at, c) {
  return Math.fround((run.frames[at] - 255 * run.mean[c]) / (255 * run.std[c]));
}

/**
 * dL/dM (T, H, W) from dL/dV.
 * @param {EngineRun} run @param {Float32Array} slope @param {number[]} fill
 */
function slopeOfMask(run, slope, fill) {
  const [frames, height, width] = run.shape, pixels = height * width;
  const out = new Float32Array(frames * pixels);
  for (let t = 0; t < frames; t++) {
    for (let i = 0; i < pixels; i++) {
      let sum = 0;
      for (let c = 0; c < 3; c++) sum += slope[(t * 3 + c) * pixels + i] * (fill[c] - normalised(run, (t * pixels + i) * 3 + c, c));
      out[t * pixels + i] = sum;
    }
  }
  return out;
}

/** The store of the browser, where it has one. */
async function openStore() {
  try {
    return await caches.open(CACHE);
  } catch {
    return null; // not on this kind of address: the browser's own cache has to do
  }
}

/** @param {string} folder @param {EngineFile} file @returns {string} its address, another for other content */
function addressOf(folder, file) {
  return `${folder}${file.name}?${file.sha256.slice(0, 16)}`;
}

/** @param {string} address @param {RequestInit} [how] */
export async function fetchOrFail(address, how) {
  let answer;
  try {
    answer = await fetch(address, how);
  } catch {
    throw new Unreachable(address);
  }
  if (!answer.ok) throw new Unreachable(address);
  return answer;
}

/** @param {Cache | null} store @param {string} address @param {(bytes: number) => void} came */
async function fetchFile(store, address, came) {
  const former = await store?.match(address);
  const answer = former ?? await fetchOrFail(address);
  const reader = answer.body?.getReader();
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const parts = [];
  for (;;) {
    const part = await reader?.read().catch(() => { throw new Unreachable(address); });
    if (!part?.value) break;
    parts.push(part.value);
    came(part.value.length);
  }
  const blob = new Blob(parts);
  if (!former) await store?.put(address, new Response(blob)).catch(() => {}); // without room for it
  return blob;
}

/** The content of a file that may be compressed; some servers have unpacked it already. @param {Blob} blob */
async function inflated(blob) {
  const start = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  const packed = start[0] === 0x1f && start[1] === 0x8b;
  const content = packed ? blob.stream().pipeThrough(new DecompressionStream("gzip")) : blob.stream();
  return new Uint8Array(await new Response(content).arrayBuffer());
}
