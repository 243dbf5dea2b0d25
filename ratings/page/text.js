// @ts-check
/** Text into a page, never as markup. */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {string} [text] @param {string} [className]
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`no ${id}`);
  return element;
}

/** @param {string} id */
export const part = (id) => byId(id, HTMLElement);

/**
 * Headings, lists, paragraphs and bold words of Markdown; everything else stays as it was written.
 * @param {HTMLElement} into @param {string} text
 */
export function writeMarkdown(into, text) {
  into.replaceChildren();
  for (const block of text.split(/\n\s*\n/)) {
    const lines = block.split("\n").filter((line) => line.trim());
    if (!lines.length) continue;
    if (/^#{1,3} /.test(lines[0])) {
      into.append(make(into.firstChild ? "h2" : "h1", lines[0].replace(/^#+ /, "")));
      lines.shift();
    }
    if (lines.length && lines.every((line) => /^(- |  )/.test(line))) {
      const list = make("ul");
      for (const line of lines.join("\n").split(/\n?^- /m).filter(Boolean)) {
        const entry = make("li");
        writeInline(entry, line);
        list.append(entry);
      }
      into.append(list);
    } else if (lines.length) {
      const paragraph = make("p");
      writeInline(paragraph, lines.join(" "));
      into.append(paragraph);
    }
  }
}

/** @param {HTMLElement} into @param {string} line */
function writeInline(into, line) {
  line.split("**").forEach((piece, i) => into.append(i % 2 ? make("strong", piece) : piece));
}
