// The strength plot beside the viewer: lights up with the canvas, and can be taken away.

function thePlot() {
  return document.querySelector("#strengths-plot .js-plotly-plot");
}

// Dims every line but the chosen object's; lines stand in the order of the tracks.
function lightPlot(state) {
  const plot = thePlot();
  if (!plot || !plot.on) return;
  linkPlot(plot, state);
  const chosen = state.hover ?? state.track;
  plot.querySelectorAll(".scatterlayer .trace").forEach((line, i) => {
    const object = i < state.trace.tracks.length;
    line.style.opacity = chosen === null || !object || i === chosen ? 1 : 0.2;
  });
}

function linkPlot(plot, state) {
  if (plot.mvLinked) return;
  plot.mvLinked = true;
  plot.on("plotly_hover", (event) => {
    const k = event.points[0].curveNumber;
    if (state.trace && k < state.trace.tracks.length) state.set({ hover: k });
  });
  plot.on("plotly_unhover", () => state.set({ hover: null }));
}

// Every layer of the plot as one SVG text.
function plotSvg(plot) {
  const layers = [...plot.querySelectorAll("svg.main-svg")];
  const whole = layers[0].cloneNode(true);
  whole.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const layer of layers.slice(1)) {
    for (const part of layer.childNodes) whole.append(part.cloneNode(true));
  }
  return new XMLSerializer().serializeToString(whole);
}

function savePlot(kind) {
  const plot = thePlot();
  if (!plot) return;
  if (kind === "json") {
    const { data, layout } = plot;
    saveFile("strengths.json", new Blob([JSON.stringify({ data, layout })], { type: "application/json" }));
    return;
  }
  const svg = new Blob([plotSvg(plot)], { type: "image/svg+xml" });
  if (kind === "svg") {
    saveFile("strengths.svg", svg);
    return;
  }
  const picture = new Image();
  picture.onload = () => {
    const canvas = el("canvas", { width: 2 * picture.width, height: 2 * picture.height });
    const context = canvas.getContext("2d");
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    savePicture(canvas, "strengths.png");
  };
  picture.src = URL.createObjectURL(svg);
}
