"""The page in a real browser: first paint, scrubbing, re-scoring, and a run from click to trace."""

from __future__ import annotations

import statistics
import time

from playwright.sync_api import Page, sync_playwright

from bench.server import chromium, serving
from macd_ui.viewer.component import script

QUESTION = "Which animal is in the video?"

# moves a slider through 60 values; the work is done when the event returns
_MOVE = """([selector, top]) => {
  const input = document.querySelector(selector);
  return Array.from({ length: 60 }, (_, i) => {
    input.value = top * ((i * 7) % 60) / 60;
    const began = performance.now();
    input.dispatchEvent(new Event("input"));
    return performance.now() - began;
  });
}"""


# an answer of 64 tokens with 512 candidates each, scored whole
_RESCORE = """
  const logits = () => Array.from({ length: 512 }, () => 10 * Math.random());
  const step = { candidates: [...Array(512).keys()], texts: Array(512).fill("x"),
    base: logits(), counter: logits(), base_log_z: 20 };
  const times = Array.from({ length: 20 }, (_, i) => {
    const began = performance.now();
    for (let t = 0; t < 64; t++) rescore(step, i / 10, 0.1);
    return performance.now() - began;
  });
  return times.sort((a, b) => a - b)[10];
"""


def measure() -> dict[str, float]:
    """Seconds and milliseconds as a person meets them, the models loaded."""
    began = time.perf_counter()
    with serving() as url, sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        sizes: list[int] = []
        page.on("response", lambda r: sizes.append(_size(r.headers)))
        page.goto(url)
        page.wait_for_selector(".mv-token")
        out = {"page_start_to_paint_s": time.perf_counter() - began}
        out["page_load_kb"] = sum(sizes) / 1000
        page.wait_for_timeout(10_000)  # the embedded models load beside the first reading
        out |= _warm(page)
        browser.close()
    return {k: round(v, 2) for k, v in out.items()}


def _size(headers: dict[str, str]) -> int:
    return int(headers.get("content-length") or 0)


def _warm(page: Page) -> dict[str, float]:
    began = time.perf_counter()
    page.reload()
    page.wait_for_selector(".mv-token")
    out = {"page_load_to_paint_s": time.perf_counter() - began}
    out["page_scrub_ms"] = statistics.median(page.evaluate(_MOVE, [".mv-scrub", 8]))
    out["page_rescore_ms"] = statistics.median(page.evaluate(_MOVE, [".mv-live input", 5]))
    out["page_rescore_64x512_ms"] = page.evaluate(f"(() => {{ {script()}\n {_RESCORE} }})()")
    page.fill("#question textarea", QUESTION)
    began = time.perf_counter()
    page.click("#run")
    page.wait_for_function("!document.querySelector('.mv-token')")
    out["page_first_partial_s"] = time.perf_counter() - began
    page.wait_for_selector(".mv-object")
    out["page_boxes_s"] = time.perf_counter() - began
    page.wait_for_selector("#run:enabled")
    out["page_full_trace_s"] = time.perf_counter() - began
    return out
