"""Changes that a browser computes by itself: loading the embedded model, each change, its memory.

A gallery of one example on a file server of this process, once with the headers that let the
runtime use two threads, once without, as a plain file server has it. WebGPU is not tried.
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

from bench.server import chromium, memory_mb, unfolded
from macd_studio.core.system.shipped import assets
from macd_studio.macd_ui.engine import make
from macd_studio.macd_ui.gallery.site import Site, write_site

EXAMPLE = "repaired"
CHANGES = 9
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
        browser.close()
    return {key: round(value, 3) for key, value in out.items()}


def _changed(browser: Browser, address: str) -> dict[str, float]:
    """Of one visitor: the first change, further ones, the first of the next visit, memory."""
    context = unfolded(browser.new_context(reduced_motion="reduce"))
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
