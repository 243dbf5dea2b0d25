// Where the choice of one token changes: exact α, and a map over α and β. From stored logits alone.

// The upper envelope of the lines b + α(b − c) over the head: core/decoding/contrast.py flip_points.
function flipPoints(step, beta, head = "probability", limit = 20) {
  const { rows } = rescore(step, 0, beta, head);
  const lines = rows.filter((r) => r.inside);
  let now = lines.reduce((best, r) =>
    (r.base > best.base || (r.base === best.base && r.difference > best.difference) ? r : best));
  let alpha = 0;
  const found = [{ alpha: 0, row: now }];
  for (;;) {
    const steeper = lines.filter((r) => r.difference > now.difference);
    if (!steeper.length) return found;
    const meets = (r) => (now.base - r.base) / (r.difference - now.difference);
    const first = Math.min(...steeper.map(meets));
    if (first > limit) return found;
    now = steeper.filter((r) => meets(r) <= first + 1e-12)
      .reduce((best, r) => (r.difference > best.difference ? r : best));
    alpha = Math.max(alpha, first);
    found.push({ alpha, row: now });
  }
}

const FLIP_ALPHAS = Array.from({ length: 41 }, (_, i) => i * 0.125);
const FLIP_BETAS = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];

class Flips {
  constructor(state, tokens) {
    this.state = state;
    this.tokens = tokens;
    this.words = el("p", { class: "mv-note" });
    this.grid = el("div", { class: "mv-flipmap", role: "img" });
    this.legend = el("p", { class: "mv-legend" });
    this.keep = el("button", {
      type: "button", class: "mv-toggle",
      on: { click: () => saveFile("flips.svg", new Blob([this.svg], { type: "image/svg+xml" })) },
    }, "Save SVG");
    this.root = el("details", { class: "mv-flips" },
      el("summary", {}, "Where this token flips"), this.words, this.grid,
      el("p", { class: "mv-axis" }, "α from 0 to 5 →, β from 1 (bottom) to 0 (top); the ring is where you are"),
      this.legend, this.keep);
    this.root.addEventListener("toggle", () => this.draw());
  }

  draw() {
    const answer = this.state.trace.answers.macd;
    const step = answer && answer.tokens[this.state.method === "macd" ? this.state.token : 0];
    this.root.hidden = !step || !step.counter;
    if (this.root.hidden || !this.root.open) return;
    const { alpha, beta } = this.tokens.ruleOf(answer);
    const points = flipPoints(step, beta, answer.head);
    const [start, ...flips] = points;
    this.words.textContent = `Token ${step.index + 1} with β ${beta}: ${visible(start.row.text)} at α 0`
      + (flips.length ? flips.map((p) => `, ${visible(p.row.text)} from α ${p.alpha.toFixed(3)}`).join("")
        : ", and no α up to 20 changes it") + ".";
    this.drawMap(step, answer, alpha, beta);
  }

  drawMap(step, answer, alpha, beta) {
    const names = new Map();
    const near = (list, x) => list.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(list[best] - x) ? i : best), 0);
    const here = [near(FLIP_ALPHAS, alpha), near(FLIP_BETAS, beta)];
    const places = [];
    const cells = FLIP_BETAS.flatMap((b, j) => flipRow(step, b, answer.head).map((row, i) => {
      if (!names.has(row.id)) names.set(row.id, { text: visible(row.text), k: names.size });
      const { text, k } = names.get(row.id);
      places.push([i, j, k]);
      return el("span", {
        class: `mv-flip mv-pattern-${k % 4}${i === here[0] && j === here[1] ? " mv-here" : ""}`,
        style: { "--object": objectColour(k) }, title: `α ${FLIP_ALPHAS[i]}, β ${b}: ${text}`,
      });
    }));
    this.grid.replaceChildren(...cells);
    const told = [...names.values()];
    this.svg = flipSvg(places, here, told, this.words.textContent);
    this.grid.setAttribute("aria-label", `Token chosen over α and β: ${told.map((n) => n.text).join(", ")}`);
    this.legend.replaceChildren(...told.map(({ text, k }) =>
      el("span", {}, el("i", { class: `mv-flip mv-pattern-${k % 4}`, style: { "--object": objectColour(k) } }), ` ${text} `)));
  }
}

// The map as one SVG text with its legend; `places` are column, row and colour of each cell.
function flipSvg(places, here, told, words) {
  const side = 12, width = FLIP_ALPHAS.length * side, height = FLIP_BETAS.length * side;
  const make = (tag, attributes, text = "") => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  };
  const root = make("svg", {
    viewBox: `-4 -4 ${width + 8} ${height + 48 + 18 * told.length}`,
    "font-family": "system-ui, sans-serif", "font-size": 12, "shape-rendering": "crispEdges",
  });
  const place = (i, j) => ({ x: i * side, y: j * side });
  for (const [i, j, k] of places) {
    root.append(make("rect", { ...place(i, j), width: side, height: side, fill: objectColour(k) }));
  }
  root.append(make("rect", {
    ...place(...here), width: side, height: side, fill: "none", stroke: "#000000", "stroke-width": 2,
  }));
  root.append(make("text", { x: 0, y: height + 16 }, words));
  root.append(make("text", { x: 0, y: height + 32 }, "α from 0 to 5 to the right, β from 0 (top) to 1"));
  told.forEach(({ text, k }, n) => {
    const y = height + 40 + 18 * n;
    root.append(make("rect", { x: 0, y, width: side, height: side, fill: objectColour(k) }));
    root.append(make("text", { x: 18, y: y + 10 }, text));
  });
  return new XMLSerializer().serializeToString(root);
}

// The choice at every α of the map for one β: read off the exact flips.
function flipRow(step, beta, head) {
  const points = flipPoints(step, beta, head, FLIP_ALPHAS[FLIP_ALPHAS.length - 1] + 1);
  return FLIP_ALPHAS.map((a) => points.filter((p) => p.alpha <= a).pop().row);
}
