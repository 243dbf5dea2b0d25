// @ts-check
// Values as text. Pure functions, no DOM.

/** @param {number} x */
export function signed(x, digits = 2) {
  if (!Number.isFinite(x)) return "−∞";
  const text = Math.abs(x) >= 0.01 || x === 0 ? Math.abs(x).toFixed(digits) : Math.abs(x).toExponential(1);
  return (x < 0 ? "−" : "+") + text.replace("-", "−");
}

/** With the minus sign that `signed` has too, and none before a zero. @param {number} x */
export function fixed(x, digits = 2) {
  const text = Math.abs(x).toFixed(digits);
  return x < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A value with the decimals that it has, up to six digits. @param {number} x */
export function plainNumber(x) {
  return String(Number(x.toPrecision(6)));
}

/** A value with two decimals, or with all that it has. @param {number} x */
export function exactly(x) {
  const short = x.toFixed(2);
  return Number(short) === x ? short : String(Number(x.toPrecision(6)));
}

/**
 * A gradient of exactly zero is another thing than a small one: the mask reaches no pixel that other
 * masks leave to it. A measured difference of zero is one that is lost in noise.
 * @param {number | null | undefined} gradient @param {boolean} approximate @param {boolean} [measured]
 */
export function gradientText(gradient, approximate, measured = false) {
  if (gradient === null || gradient === undefined) return "";
  const sign = `${approximate ? "≈ " : ""}∂L/∂r`;
  if (measured && gradient === 0) return `${sign} undecided: below the noise, so it stays at r0`;
  return gradient === 0 ? `${sign} = 0 exactly: does not move it` : `${sign} ${signed(gradient, 3)}`;
}

/** @param {number} p */
export function percent(p) {
  if (p >= 0.9995) return "100 %";
  if (p < 0.0005) return p === 0 ? "0" : "<0.1 %";
  return `${(100 * p).toFixed(1)} %`;
}

const FROM_RIGHT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC]/; // Hebrew, Arabic and their neighbours

/** A name within a sentence: one from right to left would turn the numbers after it around. @param {string} name */
export function isolated(name) {
  return FROM_RIGHT.test(name) ? `\u2068${name}\u2069` : name;
}

/** A token's text with its blanks and ends visible. @param {string} text */
export function visible(text) {
  return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
}

/** A candidate's name: parts of letters look alike, so their ids tell them apart. @param {string} text @param {number} id */
export function candidateName(text, id) {
  return text.includes("\uFFFD") ? `${visible(text)} #${id}` : visible(text);
}

/**
 * Bit i of a base64 text of packed bits, as Python's np.packbits writes them.
 * @param {string} text @param {number} count
 */
export function unpackBits(text, count) {
  const bytes = atob(text);
  return Array.from({ length: count }, (_, i) => (bytes.charCodeAt(i >> 3) >> (7 - (i & 7))) & 1);
}

/** Black or white, whichever is read better on a colour; at least 4.5 : 1 on any. @param {string} colour #rrggbb */
export function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const share = parseInt(colour.slice(i, i + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}
