// @ts-check
// The script of an exported page: the trace stands in the page, and there is no server.

import { engineFor } from "./engine.js";
import { Viewer } from "./viewer.js";

if (matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("dark");
const root = document.getElementById("viewer");
const trace = document.getElementById("trace");
if (!root || !trace) throw new Error("the page has no place for the viewer");
const payload = JSON.parse(trace.textContent || "{}"), base = document.baseURI;
const viewer = new Viewer(root, { base, ...engineFor(payload, base, (answer) => viewer.update(answer)) });
viewer.update(payload);
