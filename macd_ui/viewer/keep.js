// What can be taken away: the picture on show, and how to run the same again.

function saveFile(name, content) {
  const link = el("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function savePicture(canvas, name) {
  canvas.toBlob((blob) => saveFile(name, blob), "image/png");
}

class Reproduce {
  constructor() {
    this.body = el("div", {});
    this.root = el("details", { class: "mv-reproduce" }, el("summary", {}, "Run the same again"), this.body);
  }

  load(trace) {
    const { command, snippet, link } = trace.again || {};
    this.root.hidden = !command;
    if (this.root.hidden) return;
    const block = (title, text) => el("div", {},
      el("div", { class: "mv-block-head" }, el("h3", {}, title),
        el("button", {
          type: "button", class: "mv-button",
          on: { click: (e) => copied(e.target, text) },
        }, "Copy")),
      el("pre", { tabindex: "0" }, text));
    this.body.replaceChildren(...[
      block("Command", command), block("Python", snippet),
      link ? block("Link to this example", new URL(link, document.baseURI).href) : null,
    ].filter(Boolean));
  }
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy by hand";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

const KEYS = [
  ["← →", "frame back, frame on"], ["space", "play or pause"], ["L", "loop on or off"],
  ["J K", "next token, token before"], ["1 – 9", "choose an object"], ["B", "boxes"],
  ["M", "soft masks"], ["V", "levels"], ["C", "counterfactual"], ["S", "as the model sees it"], ["U", "undo a change"],
  ["Esc", "let go of object and brush"], ["?", "this list"],
];

class Help {
  constructor() {
    this.root = el("dialog", { class: "mv-help", "aria-label": "Keys" },
      el("h3", {}, "Keys"),
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      el("button", { type: "button", class: "mv-button", on: { click: () => this.root.close() } }, "Close"));
  }

  toggle() {
    if (this.root.open) this.root.close();
    else this.root.showModal();
  }
}

// The file input behind the button "Open trace", once the page has drawn it.
function openTraceInput() {
  const button = document.querySelector("#open");
  return button && button.parentElement.querySelector("input[type=file]");
}

// Gives a file to the page as if it had been chosen by the button "Open trace".
function openTrace(file) {
  const input = openTraceInput();
  if (!input) return;
  const given = new DataTransfer();
  given.items.add(file);
  input.files = given.files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

function openDropped(event) {
  event.preventDefault();
  const file = event.dataTransfer && event.dataTransfer.files[0];
  if (file) openTrace(file);
}
