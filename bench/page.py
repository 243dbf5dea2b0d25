"""The page in a real browser: first paint, scrubbing, re-scoring, and a run from click to trace."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench.clips import REAL, cut
from bench.server import chromium, serving, unfolded
from bench.space_pages import open_form
from macd_studio.viewer import JS, bundle

QUESTION = "Which animal is in the video?"
MOVES = 121
TRACED = ["toplevel", "blink.user_timing", "disabled-by-default-devtools.timeline"]

# every byte that came over the network, bodies compressed as they were sent
_TRANSFERRED = """performance.getEntriesByType("resource")
  .concat(performance.getEntriesByType("navigation"))
  .reduce((sum, entry) => sum + entry.transferSize, 0)"""

# moves a slider and lets the page paint, again and again; each move begins with a mark
_MOVE_AND_PAINT = """async ([selector, top, moves]) => {
  const input = document.querySelector(selector);
  for (let i = 0; i < moves; i++) {
    performance.mark(`bench-move-${i}`);
    input.value = top * ((i * 7) % 60) / 60;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  }
  performance.mark(`bench-move-${moves}`);
}"""

# an answer of 64 tokens with 512 candidates each, scored whole
_RESCORE = """
  const logits = () => Array.from({ length: 512 }, () => 10 * Math.random());
  const step = { candidates: [...Array(512).keys()], texts: Array(512).fill("x"),
    base: logits(), others: [logits()], base_log_z: 20, weights: null };
  const times = Array.from({ length: 20 }, (_, i) => {
    const began = performance.now();
    for (let t = 0; t < 64; t++) rescore(step, i / 10, 0.1);
    return performance.now() - began;
  });
  return times.sort((a, b) => a - b)[10];
"""


def measure() -> dict[str, float]:
    """Seconds and milliseconds as a person meets them, the models loaded."""
    with serving() as url, sync_playwright() as playwright:
        browser = chromium(playwright)
        page = unfolded(browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
        sizes: list[int] = []
        page.on("response", lambda r: sizes.append(int(r.headers.get("content-length") or 0)))
        page.goto(url)
        page.wait_for_selector(".mv-token")
        out = {"page_load_kb": sum(sizes) / 1000}
        page.wait_for_timeout(3_000)  # what comes after the first picture; a heartbeat never ends
        out["page_load_total_kb"] = page.evaluate(_TRANSFERRED) / 1000
        page.wait_for_timeout(15_000)  # the embedded models load during the first reading
        _ask(page)  # a first run: this session keeps its clip and boxes, the next session does not
        page.wait_for_selector("#run:enabled", state="attached")
        page.evaluate("sessionStorage.clear()")  # as a new tab, which shows no former run
        began = time.perf_counter()
        page.reload()
        page.wait_for_selector(".mv-token")
        out["page_load_to_paint_s"] = time.perf_counter() - began
        out["page_rescore_64x512_ms"] = page.evaluate(
            f"(() => {{ const {{ rescore }} = {bundle(JS / 'rescore.js')};\n {_RESCORE} }})()"
        )
        out |= _run(page)
        for name, move in {"scrub": (".mv-scrub", 7.0), "rescore": (".mv-live input", 5.0)}.items():
            out[f"page_{name}_paint_ms"] = _paint_ms(browser, page, *move)
        if REAL.is_dir():
            out |= _real(page)
        browser.close()
    return {k: round(v, 2) for k, v in out.items()}


def _ask(page: Page) -> float:
    """Asks about the form's clip, and waits for the first partial result; when it was asked."""
    open_form(page)
    page.fill("#question textarea", QUESTION)
    page.wait_for_timeout(1000)
    began = time.perf_counter()
    page.click("#run")
    page.wait_for_function("!document.querySelector('.mv-token')")
    return began


def _run(page: Page) -> dict[str, float]:
    """From the click to the first partial result, to the boxes and to the whole trace."""
    began = _ask(page)
    out = {"page_first_partial_s": time.perf_counter() - began}
    page.wait_for_selector(".mv-object")
    out["page_boxes_s"] = time.perf_counter() - began
    page.wait_for_selector("#run:enabled", state="attached")
    out["page_full_trace_s"] = time.perf_counter() - began
    return out


def _real(page: Page) -> dict[str, float]:
    """A real clip of 12 s with what ships: from the click to the first boxes, and to the trace."""
    with tempfile.TemporaryDirectory() as folder:
        video = cut(REAL / "clips" / "bottle.mp4", Path(folder) / "bottle12.mp4", seconds=12)
        page.reload()
        page.wait_for_selector(".mv-token")
        open_form(page)
        page.set_input_files("#video input[type=file]", video)
        page.get_by_text(".mp4").first.wait_for()
        began = _ask(page)
        page.wait_for_selector(".mv-object", timeout=300_000)
        boxes = time.perf_counter() - began
        page.wait_for_selector("#run:enabled", state="attached", timeout=300_000)
        whole = time.perf_counter() - began
        return {"real_clip_first_boxes_s": boxes, "real_clip_full_s": whole}


def _paint_ms(browser: Browser, page: Page, selector: str, top: float) -> float:
    """Median of what the page's thread spends on a move, from script to paint.

    By the browser's own trace: all tasks of the thread between the marks of two moves.
    """
    page.reload()
    page.wait_for_selector(".mv-token")
    page.wait_for_timeout(1500)
    browser.start_tracing(page=page, categories=TRACED)
    page.evaluate(_MOVE_AND_PAINT, [selector, top, MOVES])
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    marks = sorted(
        (e["ts"], e["pid"], e["tid"]) for e in events if e["name"].startswith("bench-move-")
    )
    _, pid, tid = marks[0]
    tasks = [
        (e["ts"], e["dur"])
        for e in events
        if e["name"] == "RunTask" and (e["pid"], e["tid"]) == (pid, tid) and "dur" in e
    ]
    spent = [
        sum(used for at, used in tasks if begin <= at + used and at < end)
        for (begin, *_), (end, *_) in pairwise(marks)
    ]
    return float(statistics.median(spent)) / 1000
