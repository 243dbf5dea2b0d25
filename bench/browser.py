"""Changes that a browser computes by itself: loading the embedded model, each change, its memory.

A gallery of one example on a file server of this process, once with the headers that let the
runtime use two threads, once without, as a plain file server has it. WebGPU is not tried. Then how
fast a page of the gallery and the course is first seen, over the same site without the model.
"""

from __future__ import annotations

import functools
import http.server
import os
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from bench.server import chromium
from bench.tabs import memory_mb
from macd_studio.core.system.shipped import assets
from macd_studio.macd_ui.engine import Engine, make
from macd_studio.macd_ui.gallery.site import Site, write_site
from macd_studio.macd_ui.learn.site import Site as Course
from macd_studio.macd_ui.learn.site import write_site as write_course

EXAMPLE = "repaired"
CHANGES = 9
VISITS = 9
COURSE = "index.html#05-contrast"
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}

# makes a change by a button, and waits until its answer is drawn and the next one could be made
_CHANGE = """async ([selector, changes]) => {
  const began = performance.now();
  document.querySelector(selector).click();
  const done = () => document.querySelectorAll(".mv-edits li").length === changes
    && document.querySelector(".mv-whatif .mv-edit button:enabled");
  while (!done()) await new Promise((next) => requestAnimationFrame(next));
  return performance.now() - began;
}"""
_LEVEL = ".mv-edit-object .mv-segments button[aria-pressed=false]"
_DROP = ".mv-edit-object > button"
_UNDO = ".mv-whatif [aria-label=Changes] button"


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class _Isolated(_Handler):
    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()


@contextmanager
def _served(folder: Path, handler: type[_Handler]) -> Iterator[str]:
    """Address of a folder on a file server."""
    made = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def measure() -> dict[str, float]:
    """Seconds, milliseconds and megabytes as a visitor of a static site meets them."""
    engine = make()
    out = {"browser_download_mb": engine.size / 1e6}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name) / "out"
        site = Site([assets() / "examples" / f"{EXAMPLE}.macd"], engine=engine)
        write_site(site, folder)
        browser = chromium(playwright)
        for threads, handler in (("two_threads", _Isolated), ("one_thread", _Handler)):
            with _served(folder, handler) as address:
                figures = _changed(browser, f"{address}t/{site.runs[0].name}.html")
            out |= {f"browser_{threads}_{key}": value for key, value in figures.items()}
        out |= _paints(browser, Path(name), engine)
        browser.close()
    return {key: round(value, 3) for key, value in out.items()}


def _changed(browser: Browser, address: str) -> dict[str, float]:
    """Of one visitor: the first change, further ones, the first of the next visit, memory."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(0)  # a machine may be slow
    page.goto(address)
    page.wait_for_selector(".mv-token")
    page.wait_for_timeout(1000)
    before = memory_mb(os.getpid())

    def change(selector: str, number: int) -> float:
        return float(page.evaluate(_CHANGE, [selector, number]))

    def choose() -> None:
        page.locator(".mv-whatif summary").click()
        page.locator(".mv-root").focus()
        page.keyboard.press("1")
        page.wait_for_selector(_LEVEL)

    choose()
    first = change(_LEVEL, 1)
    levels = [change(_LEVEL, number) for number in range(2, 2 + CHANGES)]
    with_gradient = change(_DROP, 2 + CHANGES)
    page.evaluate(_CHANGE, [_UNDO, 1 + CHANGES])
    page.locator(".mv-root").focus()
    page.keyboard.press("1")
    page.wait_for_selector(_DROP)
    again = change(_DROP, 2 + CHANGES)
    memory = memory_mb(os.getpid()) - before
    page.goto("about:blank")
    page.goto(address)  # without what was chosen
    page.wait_for_selector(".mv-token")
    choose()
    next_visit = change(_LEVEL, 1)
    context.close()
    return {
        "first_s": first / 1000,
        "change_ms": statistics.median(levels),
        "slowest_ms": max(levels),
        "first_gradient_ms": with_gradient,
        "gradient_ms": again,
        "next_visit_s": next_visit / 1000,
        "memory_mb": memory,
    }


def _paints(browser: Browser, folder: Path, engine: Engine) -> dict[str, float]:
    """Milliseconds to the first paint of content with the model at hand, and over without."""
    trace = assets() / "examples" / f"{EXAMPLE}.macd"
    pages: dict[str, list[str]] = {"gallery": [], "course": []}
    for kind, has in (("with", engine), ("without", None)):
        site = Site([trace], engine=has)
        write_site(site, folder / f"gallery-{kind}")
        pages["gallery"].append(f"gallery-{kind}/t/{site.runs[0].name}.html")
        write_course(Course(folders=[trace.parent], engine=has), folder / f"course-{kind}")
        pages["course"].append(f"course-{kind}/{COURSE}")
    out = {}
    with _served(folder, _Handler) as address:
        for name, both in pages.items():
            times = []
            for visit in range(VISITS):
                turn = (1, -1)[visit % 2]  # neither is always the first
                times.append([_first_paint(browser, address + z) for z in both[::turn]][::turn])
            out[f"browser_{name}_first_paint_ms"] = statistics.median(t for t, _ in times)
            out[f"browser_{name}_first_paint_over_without"] = statistics.median(
                t / other for t, other in times
            )
    return out


_PAINTED = """() => new Promise((seen) => new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName("first-contentful-paint")) seen(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""


def _first_paint(browser: Browser, address: str) -> float:
    """Of a visitor who comes for the first time."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(0)
    page.goto(address)
    painted = float(page.evaluate(_PAINTED))
    context.close()
    return painted
