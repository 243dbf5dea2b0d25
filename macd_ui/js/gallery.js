// @ts-check
// The filters of a gallery. The choice is kept in the address after #, so that it can be shared.

import { runsPassed } from "./strings.js";

const NAMES = ["example", "outcome", "method"];

/** Shows the filters and the runs that pass them. */
export function start() {
  const form = document.getElementById("filters");
  const count = /** @type {HTMLElement} */ (document.getElementById("count"));
  const runs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#runs > li")]);
  if (!(form instanceof HTMLFormElement) || !count) throw new Error("the page has no filters");
  const selects = NAMES.map((name) => /** @type {HTMLSelectElement} */ (form.elements.namedItem(name)));

  function filter() {
    let passed = 0;
    for (const run of runs) {
      const passes = selects.every(({ name, value }) => {
        const values = (run.dataset[name] || "").split("\n"); // a run has several methods
        return !value || values.includes(value);
      });
      run.hidden = !passes;
      if (passes) passed += 1;
    }
    count.textContent = runsPassed(passed, runs.length);
  }

  function read() {
    const filters = new URLSearchParams(location.hash.slice(1));
    for (const select of selects) {
      const value = filters.get(select.name) || "";
      select.value = [...select.options].some((o) => o.value === value) ? value : "";
    }
    filter();
  }

  function write() {
    const chosen = selects.filter((s) => s.value).map((s) => /** @type {[string, string]} */ ([s.name, s.value]));
    history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
    filter();
  }

  form.addEventListener("change", write);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(write)); // the form is reset after its event
  addEventListener("hashchange", read);
  form.hidden = false;
  read();
}
