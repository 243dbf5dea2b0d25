"""Lazy runs on the drawn benchmark: equal answers, their time over plain decoding, a sweep over β.

Every question of every regime, captions among them, on clips that go through a codec, with the
objects that the detector finds. Times are those of the processor, so that other programs on the
machine change them little.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.decoding.answers import find_answer
from macd_studio.core.macd import contrast_weights, weighted
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.objects.track import track
from macd_studio.core.options import ContrastOptions, DecodeOptions, RunOptions
from macd_studio.core.rules import Linear
from macd_studio.core.run.order import decoding_views, run_method
from macd_studio.core.system.shipped import TOYWORLD
from macd_studio.core.types import Answer, Clip, TokenStep, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import item_seed, open_tokens
from macd_studio.toyworld.clips import write_mp4

EACH = int(os.environ.get("LAZY_QUESTIONS", "50"))
"""Questions a regime: of six regimes and 37 answers a question more than 10,000 answers."""
BETAS = (0.0036, 0.01, 0.03, 0.1, 0.2, 0.5)
GREEDY = DecodeOptions(max_tokens=24)
SETTINGS = [
    *((ContrastOptions(1.0, beta), GREEDY) for beta in BETAS),
    *((ContrastOptions(2.6, beta), GREEDY) for beta in BETAS),
    *((ContrastOptions(1.0, beta), replace(GREEDY, search="sample")) for beta in BETAS),
]
FULL_READS = 4.0
TIE = 1e-3
"""Scores, or a logit and the cut, closer than this may change places by rounding."""
Row = dict[str, Any]
Seen = tuple[Clip, tuple[Track, ...], dict[str, float]]
"""A clip, its objects, and the seconds that reading and looking took."""


def measure() -> dict[str, float | str]:
    """Ratios and shares of all questions, and the weights that they are of."""
    weights = json.loads((TOYWORLD / "manifest.json").read_text())["backbone/model.safetensors"]
    return {"lazy_weights": weights[:12], **figures(list(rows()))}


def rows() -> Iterator[Row]:
    """A row of each question."""
    benchmark: Any = find_benchmark("toyworld")
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    with tempfile.TemporaryDirectory() as folder:

        @lru_cache(maxsize=12)
        def seen(key: str) -> Seen:
            path = Path(folder) / "clip.mp4"
            write_mp4(benchmark.spec(key), path)
            times: dict[str, float] = {}
            clip: Clip = timed(times, "read", lambda: read_clip(path))
            return clip, timed(times, "detect", lambda: look(detector, clip)), times

        for index, item in enumerate(in_turn(benchmark.items("test", EACH))):
            row = answer(lm, item, *seen(item.clip), index)
            if index % 25 == 24:
                print(f"{index + 1} questions", file=sys.stderr, flush=True)
            yield row


def in_turn(items: Sequence[Item]) -> Iterator[Item]:
    """The items, one of every regime in turn, so that a part of them represents all."""
    regimes: dict[str, list[Item]] = {}
    for item in items:
        regimes.setdefault(item.regime, []).append(item)
    for some in zip_longest(*regimes.values()):
        yield from (item for item in some if item is not None)


def answer(
    lm: LocalLM,
    item: Item,
    clip: Clip,
    tracks: tuple[Track, ...],
    before: dict[str, float],
    index: int,
) -> Row:
    """Times of the three ways, in another order for every question; equal answers; the sweep."""
    times = dict(before)
    encoded = timed(times, "encode", lambda: lm.encode(clip, item.question))
    seed = item_seed(item.id)
    options = RunOptions(decode=GREEDY, seed=seed)

    def context(lazy: bool) -> MethodContext:
        return MethodContext(lm, encoded, lambda: tracks, replace(options, lazy=lazy))

    ways: list[tuple[str, Callable[[], Answer]]] = [
        ("plain", lambda: run_method(context(False), METHODS["baseline"])),
        ("full", lambda: run_method(context(False), METHODS["macd"])),
        ("lazy", lambda: run_method(context(True), METHODS["macd"])),
    ]
    ways = ways[index % 3 :] + ways[: index % 3]
    given = {name: timed(times, name, way) for name, way in ways}
    pairs = [(given["full"], given["lazy"])]
    whole, sweep = context(False), {}
    for name in ("macd", "vcd"):
        views = decoding_views(whole, METHODS[name])
        for contrast, decode in SETTINGS:
            rule, how = Linear(contrast), replace(decode, seed=seed)
            eager = find_answer(lm, name, views.base, views.others, rule, how)
            lazy = find_answer(lm, name, views.base, partial(getattr, views, "others"), rule, how)
            pairs.append((eager, lazy))
            if name == "macd" and contrast.alpha == 1.0 and decode.search == "greedy":
                sweep[str(contrast.beta)] = open_tokens(eager, rule)
    row: Row = {"item": item.id, "regime": item.regime, "times": times, "sweep": sweep}
    row["open"] = sum(bool(step.others) for step in given["lazy"].tokens)
    row["answers"] = len(pairs)
    row["gaps"] = [gap for pair in pairs if (gap := gap_of(*pair)) is not None]
    return row


def timed(times: dict[str, float], name: str, call: Callable[[], Any]) -> Any:
    """The call's result; the processor's seconds in it are noted, children that ended included."""
    began = spent()
    result = call()
    times[name] = spent() - began
    return result


def spent() -> float:
    """Seconds of the processor that this process and its children took so far."""
    usages = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def look(detector: Detector, clip: Clip) -> tuple[Track, ...]:
    """The clip's objects, as a run finds them."""
    options = RunOptions()
    found = list(detector.detect(clip.dense_frames, options.detect))
    aspect = clip.size[0] / clip.size[1]
    where = (found, clip.dense_times, clip.times)
    return track(*where, options.track, options.detect, aspect)[0]


def gap_of(eager: Answer, lazy: Answer) -> float | None:
    """None for equal tokens; else how far the first other token was from a tie, in logits."""
    one, other = ([t.token for t in a.tokens] for a in (eager, lazy))
    if one == other:
        return None
    at = next(i for i, (a, b) in enumerate(zip_longest(one, other)) if a != b)
    return tie_gap(eager.tokens[min(at, len(one) - 1)], eager)


def tie_gap(step: TokenStep, eager: Answer) -> float:
    """The least of: best score over the next; a logit from the cut."""
    weights = contrast_weights(step.base, eager.alpha, eager.beta)
    scores = np.sort(weighted(step.base, step.others, weights))[::-1]
    best = float(scores[0] - scores[1]) if len(scores) > 1 else np.inf
    cut = float(np.abs(step.base - weights.floor).min())
    return min(best, cut)


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Ratios of mean times, shares, and the bound that the times are to keep."""
    gaps = [gap for row in rows for gap in row["gaps"]]
    answers = sum(row["answers"] for row in rows)
    out: dict[str, float] = {
        "lazy_questions": len(rows),
        "lazy_answers": answers,
        "lazy_equal_answers": answers - len(gaps),
        "lazy_ties": sum(gap < TIE for gap in gaps),
        "lazy_open_share": share(rows),
    }
    captions = [row for row in rows if row["regime"] == "captions"]
    options = [row for row in rows if row["regime"] != "captions"]
    for name, some in (("options", options), ("captions", captions)):
        if not some:
            continue
        out[f"lazy_open_share_{name}"] = share(some)
        for run, key in ((False, ""), (True, "run_")):
            plain, full, lazy = (mean(some, way, run) for way in ("plain", "full", "lazy"))
            out[f"full_macd1_{key}over_base_{name}"] = full / plain
            out[f"lazy_macd1_{key}over_base_{name}"] = lazy / plain
            out[f"lazy_macd1_{key}bound_{name}"] = 1 + share(some) * (full / plain - 1) + 0.05
    both = [row["times"]["lazy"] / row["times"]["full"] for row in rows if row["open"]]
    if both:
        out["lazy_over_full_where_open"] = float(np.median(both))
    for beta in BETAS:
        opened = [row["sweep"][str(beta)] > 0 for row in rows]
        out[f"lazy_beta_{beta}_open"] = float(np.mean(opened))
        out[f"lazy_beta_{beta}_reads"] = float(np.mean(np.where(opened, FULL_READS, 1.0)))
    return {key: round(value, 4) for key, value in out.items()}


def share(rows: Sequence[Row]) -> float:
    """Of questions with a token that MACD's contrast could change."""
    return float(np.mean([row["open"] > 0 for row in rows]))


def mean(rows: Sequence[Row], way: str, run: bool) -> float:
    """Seconds a question; run: with reading, encoding and, where it is needed, detection."""
    total = 0.0
    for row in rows:
        times: dict[str, float] = row["times"]
        total += times[way]
        if run:
            total += times["read"] + times["encode"]
            total += times["detect"] * (way == "full" or (way == "lazy" and row["open"] > 0))
    return total / len(rows)
