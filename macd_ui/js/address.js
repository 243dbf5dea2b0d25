// @ts-check
// What the page's address names.

/** The run of a link to one. */
export function linked() {
  return new URLSearchParams(location.hash.slice(1)).get("run");
}

/** An example's name. */
export function example() {
  return new URLSearchParams(location.search).get("example");
}
