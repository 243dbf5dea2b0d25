// @ts-check
// Sums, log probabilities and ranks, and a picture from its bytes. Pure functions, no DOM.

/** A picture as a data address: an uncompressed bitmap. @param {Uint8Array} rgb @param {number} width @param {number} height */
export function bitmap(rgb, width, height) {
  const row = Math.ceil((3 * width) / 4) * 4, start = 54, bytes = new Uint8Array(start + row * height), view = new DataView(bytes.buffer);
  bytes.set([0x42, 0x4d]);
  for (const [at, value] of [[2, bytes.length], [10, start], [14, 40], [18, width], [22, height]]) view.setUint32(at, value, true);
  view.setUint16(26, 1, true);
  view.setUint16(28, 24, true);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) bytes[start + (height - 1 - y) * row + 3 * x + c] = rgb[3 * (y * width + x) + 2 - c];
    }
  }
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return `data:image/bmp;base64,${btoa(text)}`;
}

/** The values with another one at a place. @param {number[]} values @param {number} at @param {number} value */
export function withAt(values, at, value) {
  return values.map((z, i) => (i === at ? value : z));
}

/** @param {number} r */
export function clamped(r) {
  return Math.max(0, Math.min(1, r));
}

/** @param {number[]} values */
export function sum(values) {
  return values.reduce((total, z) => total + z, 0);
}

/** @param {number[]} values */
export function mean(values) {
  return sum(values) / Math.max(1, values.length);
}

/** @param {Float32Array} row */
export function logZ(row) {
  const top = row.reduce((best, z) => Math.max(best, z), -Infinity);
  return top + Math.log(row.reduce((total, z) => total + Math.exp(z - top), 0));
}

/** @param {Float32Array} row @param {number} token */
export function logP(row, token) {
  return row[token] - logZ(row);
}

/** @param {number} chance log probability */
export function logOdds(chance) {
  const z = Math.min(chance, -1e-12);
  return z - Math.log(-Math.expm1(z));
}

/** Spearman's; null below three values or where one side is constant. @param {number[]} a @param {number[]} b */
export function rankCorrelation(a, b) {
  /** @type {(values: number[]) => number[]} ranks, where equal values share one */
  const ranks = (values) => values.map((z) => mean([values.filter((other) => other < z).length, values.filter((other) => other <= z).length - 1]));
  const flat = [a, b].some((values) => new Set(values).size < 2);
  if (a.length < 3 || flat) return null;
  const [x, y] = [ranks(a), ranks(b)].map((all) => all.map((z) => z - mean(all)));
  return sum(x.map((z, i) => z * y[i])) / Math.sqrt(sum(x.map((z) => z * z)) * sum(y.map((z) => z * z)));
}
