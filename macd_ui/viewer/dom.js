// Small helpers. Text always goes through textContent: names, labels and tokens are never markup.

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === "class") {
      node.className = value;
    } else if (name === "style") {
      for (const [property, v] of Object.entries(value)) node.style.setProperty(property, v);
    } else if (value !== undefined && value !== null && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// Okabe-Ito first, neighbours of unlike lightness; then further ones that stay apart from these.
const OBJECT_COLOURS = [
  "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#F0E442",
  "#8DD3C7", "#FB8072", "#BEBADA", "#B3DE69", "#A6761D", "#FCCDE5", "#7F7F7F",
  "#80B1D3", "#E7298A", "#66A61E", "#BC80BD", "#FDB462", "#CCEBC5",
];

function objectColour(k) {
  return OBJECT_COLOURS[k % OBJECT_COLOURS.length];
}

function levelName(level) {
  if (level === undefined || level === null) return "not yet known";
  if (level === 1) return "hidden";
  if (level === 0) return "left as it is";
  return "half hidden";
}

function signed(x, digits = 2) {
  if (!Number.isFinite(x)) return "−∞";
  const text = Math.abs(x) >= 0.01 || x === 0 ? Math.abs(x).toFixed(digits) : Math.abs(x).toExponential(1);
  return (x < 0 ? "−" : "+") + text;
}

// A gradient of exactly zero is another thing than a small one: the mask reaches no pixel.
function gradientText(gradient, approximate) {
  if (gradient === null || gradient === undefined) return "";
  const sign = `${approximate ? "≈ " : ""}∂L/∂r`;
  return gradient === 0 ? `${sign} = 0 exactly: cannot act` : `${sign} ${signed(gradient, 3)}`;
}

function percent(p) {
  if (p >= 0.9995) return "100 %";
  if (p < 0.0005) return p === 0 ? "0" : "<0.1 %";
  return `${(100 * p).toFixed(1)} %`;
}

// A token's text with its blanks and ends visible.
function visible(text) {
  return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
}

// Bit i of a base64 text of packed bits, as Python's np.packbits writes them.
function unpackBits(text, count) {
  const bytes = atob(text);
  return Array.from({ length: count }, (_, i) => (bytes.charCodeAt(i >> 3) >> (7 - (i & 7))) & 1);
}
