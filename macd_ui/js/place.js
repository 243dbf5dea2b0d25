// @ts-check
// Runs in the HTML of the page, before and without its scripts: says what to set where the server
// knows the page by another address than the browser, as it does behind some proxies.

(() => {
  const config = /** @type {any} */ (window).gradio_config;
  const server = new URL(`${(config && config.root) || ""}/`, location.href);
  const here = location.pathname.replace(/\/*$/, "/");
  if (here !== location.pathname) location.replace(here + location.search + location.hash); // else scripts are looked for above
  if (server.hostname === location.hostname && server.pathname === here) return;
  const address = (location.origin + here).replace(/\/$/, "");
  document.addEventListener("readystatechange", () => { // before the scripts that would fill the page
    const words = document.createElement("main");
    words.id = "wrong-place";
    words.setAttribute("style", "max-width: 40rem; margin: 3rem auto; padding: 0 1rem; line-height: 1.5");
    /** @param {string} kind @param {string} text */
    const add = (kind, text) => {
      const part = document.createElement(kind);
      part.textContent = text;
      words.append(part);
    };
    add("h1", "The page does not know its address");
    add("p", `You opened ${address}/, and the server answers for ${server.href}: there is a proxy between them.`);
    add("p", "Whoever runs the server can start it with this option, and then everything works here:");
    add("pre", `--root-path ${address}`);
    add("p", "docs/hosting.md describes this for each kind of proxy.");
    document.body.replaceChildren(words);
  }, { once: true });
})();
