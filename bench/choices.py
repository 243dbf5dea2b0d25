"""What the choice map costs, as ratios of one run, and whether pointing at it holds 60 frames/s."""

from __future__ import annotations

import json
import os
import statistics
import time
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import torch
from playwright.sync_api import sync_playwright
from torch import Tensor

from bench.clips import CUP
from bench.counted import flops
from bench.evidence import Timed, ratio
from bench.page import MOVES, main_thread_ms
from bench.server import chromium
from bench.trace import QUESTION, still
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.options import RunOptions
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Clip, Trace
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.controls import BATCH
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.toyworld.clips import drawn_clip
from macd_studio.toyworld.world import sample
from macd_studio.viewer import JS, bundle, payload, style

OBJECTS, FEW = 6, 4

# points at one subset after the other and lets the page paint; each begins with a mark
_HOVER = """async ([moves]) => {
  const nodes = [...document.querySelectorAll(".mv-choice")];
  window.frameTimes = [];
  let before = null;
  for (let i = 0; i < moves; i++) {
    performance.mark(`bench-move-${i}`);
    nodes[(i * 7) % nodes.length].dispatchEvent(new MouseEvent("mouseenter"));
    const now = await new Promise((done) => requestAnimationFrame(done));
    if (before !== null) window.frameTimes.push(now - before);
    before = now;
  }
  performance.mark(`bench-move-${moves}`);
}"""


def measure(runs: int = 5) -> dict[str, float]:
    """Ratios of time and FLOPs, seconds of a whole map, milliseconds of a hover."""
    lm = load_backbone("toyworld", "cpu")
    spec = sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0)
    clip = drawn_clip(spec, "bench", "0" * 64)
    together, apart = readings(lm, clip, OBJECTS)
    few, alone = readings(_qwen(), clip, FEW)
    mapped, seconds, processor = _map(lm)
    return {
        "choices64_over_single_cpu": round(ratio(together, apart, runs), 3),
        "choices64_over_single_flops": round(flops(together) / flops(apart), 3),
        "choices16_over_single_qwen_cpu": round(ratio(few, alone, runs), 3),
        "choices64_map_s": round(seconds, 2),
        "choices64_map_processor_s": round(processor, 2),
        "choices_load_count": round(max(0.0, os.getloadavg()[0] - 1), 1),
    } | _hover(mapped)


def _qwen() -> LocalLM:
    from tests.families import tiny

    lm: LocalLM = tiny("qwen2_5_vl")
    return lm


def readings(lm: LocalLM, clip: Clip, objects: int) -> tuple[Timed, Timed]:
    """Two calls: every subset in batches, as the map reads them, and one view after the other."""
    tracks = still(objects, len(clip.frames))
    context = MethodContext(lm, lm.encode(clip, QUESTION), tracks, RunOptions())
    masks, frames = context.masks(context.options.mask), np.zeros(len(context.encoded.groups))
    if masks.outside is None:
        frames = np.zeros(0)
    assert context.base.length  # read once, before the clock
    subsets = [s for n in range(objects + 1) for s in combinations(range(objects), n)]

    def video(subset: tuple[int, ...]) -> Tensor:
        level = np.array([float(k in subset) for k in range(objects)])
        return context.composite(masks, level, frames)

    def together() -> None:
        rest = iter(subsets)
        while batch := list(islice(rest, BATCH)):
            lm.next_rows(context.prefill(torch.stack([video(s) for s in batch])))

    def apart() -> None:
        for subset in subsets:
            lm.next_rows(lm.prefill(context.encoded, video(subset), reuse=context.base))

    return together, apart


def _map(lm: LocalLM, runs: int = 3) -> tuple[Trace, float, float]:
    """A trace of six objects with its map; median seconds, and those of the processor."""
    trace = load(CUP.with_suffix(".macd"))
    levels = trace.counterfactual
    assert levels is not None
    tracks = still(OBJECTS, len(trace.frames))
    none = np.zeros_like(levels.frame_level)
    some = (np.arange(OBJECTS) < 2).astype(float)
    levels = replace(levels, strength=some, margin=some - 0.5, level=some, frame_level=none)
    six = replace(trace, tracks=tracks, steps=(), counterfactual=levels, choice_map=None,
                  occlusion=None, controls=None)  # fmt: skip
    spent, processor = [], []
    for _ in range(runs + 1):
        bench = Workbench(six, lm)
        assert bench.context.base.length
        began, used = time.perf_counter(), time.process_time()
        for _event in bench.choice_events():
            pass
        spent.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    found = bench.trace.choice_map
    assert found is not None
    assert len(found.subsets) == 1 << OBJECTS
    return bench.trace, statistics.median(spent[1:]), statistics.median(processor[1:])


def _hover(trace: Trace) -> dict[str, float]:
    """Pointing at one subset after the other, in a page that holds the viewer alone."""
    data = json.dumps(payload(trace)).replace("<", "\\u003c")
    viewer = bundle(JS / "viewer.js")
    page_text = (
        f"<!doctype html><style>{style()}</style><main id=viewer></main><script>"
        f'const place = document.getElementById("viewer"), host = {{ send() {{}} }};'
        f"window.viewer = new ({viewer}).Viewer(place, host);"
        f"window.viewer.update({data});</script>"
    )
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_content(page_text)
        page.wait_for_selector(".mv-choice")
        page.wait_for_timeout(1000)
        work = main_thread_ms(browser, page, _HOVER, [MOVES], "tdur")
        page.evaluate(_HOVER, [MOVES])  # without the tracing, which takes time itself
        times = sorted(page.evaluate("window.frameTimes"))
        browser.close()
    return {
        "choices_hover_paint_ms": round(work, 2),
        "choices_hover_frame_ms": round(statistics.median(times), 1),
        "choices_hover_frame_p95_ms": round(times[int(0.95 * len(times))], 1),
    }
