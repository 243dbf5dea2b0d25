// @ts-check
// Small helpers. Text always goes through textContent: names, labels and tokens are never markup.

/** @import { Child } from "./types" */

/**
 * An element. `on` holds event handlers and `style` properties; null, undefined and false leave an
 * attribute out.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
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
  append(node, children);
  return node;
}

/** @param {Node} node @param {Child[]} children */
function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** @param {Child} text @param {() => void} action @param {Record<string, any>} attributes */
export function button(text, action, attributes = {}) {
  return el("button", { type: "button", class: "mv-button", on: { click: action }, ...attributes }, text);
}

/** A place for the error of an action, beside what started it. */
export function errorLine() {
  return el("p", { class: "mv-error", role: "alert", hidden: true });
}

/** What scrolls by itself where it is too wide. @param {string} label @param {string} name of its class @param {...Child} children */
export function scrolled(label, name, ...children) {
  return el("div", { class: `mv-scroll ${name}`.trim(), tabindex: "0", role: "region", "aria-label": label }, children);
}

/**
 * The descendants that match, as elements of HTML.
 * @param {Element} root @param {string} selector @returns {NodeListOf<HTMLElement>}
 */
export function all(root, selector) {
  return root.querySelectorAll(selector);
}

/** Writes a text where it differs: what is written again is laid out again. @param {Node} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Makes these the children of a place. What is alike stays as it is and is not laid out again. The children
 * must have no event handlers: those of a child that takes the place of another would be lost.
 * @param {Node} place @param {Node[]} children
 */
export function renew(place, children) {
  const before = [...place.childNodes];
  children.forEach((child, i) => {
    const old = before[i];
    if (!old) place.appendChild(child);
    else if (old instanceof Element && child instanceof Element && old.tagName === child.tagName) {
      for (const name of old.getAttributeNames()) if (!child.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of child.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      renew(old, [...child.childNodes]);
    } else if (!old.isEqualNode(child)) place.replaceChild(child, old);
  });
  for (const rest of before.slice(children.length)) rest.remove();
}

/** A canvas' context; every browser that can run this has one. @param {HTMLCanvasElement} canvas */
export function contextOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}

/** Gives a file to the visitor. @param {string} name @param {Blob} content */
export function saveFile(name, content) {
  const link = el("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** @param {HTMLCanvasElement} canvas @param {string} name */
export function savePicture(canvas, name) {
  canvas.toBlob((blob) => { if (blob) saveFile(name, blob); }, "image/png");
}
