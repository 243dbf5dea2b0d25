"""Answers one clip's questions by every method, sharing what can be shared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.backbones.base import VideoLM
from core.decoding.contrast import Head, score, weighted
from core.decoding.search import find_answer
from core.errors import MacdError
from core.methods import METHODS, find_methods
from core.methods.run import DecodingViews, FixedAnswer, prepare
from core.objects.detect import Detector
from core.objects.track import track
from core.options import ContrastOptions, RunOptions
from core.types import Answer, Clip, StepWeights, TokenStep, Track
from core.views.context import MethodContext
from evals.benchmarks.base import Benchmark, Item
from evals.choices import only_options, pick_option
from evals.gather import GatheringLM
from evals.rows import Row

ALPHAS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
BETAS = (0.01, 0.1, 0.3, 0.5)
GRID = tuple((a, b) for a in ALPHAS for b in BETAS)

OWN_CONTRAST = ("vcd", "sid", "tcd")
ONE_VIEW = tuple(m.name for m in METHODS.values() if not m.second_views)


@dataclass(frozen=True)
class PendingAnswer:
    """A row that is missing: the method, its α and β (None: try the grid), and the row's key."""

    item: Item
    method: str
    contrast: tuple[float, float] | None
    key: str


def answer_clip(
    benchmark: Benchmark,
    wanted: list[PendingAnswer],
    lm: VideoLM,
    detector: Detector | None,
    options: RunOptions,
) -> Iterator[Row]:
    """The missing rows of one clip. Without a detector its true boxes are used.

    An answer that fails with a MacdError becomes a row that says so.
    """
    clip = benchmark.clip(wanted[0].item.clip)
    if detector is None:
        tracks = benchmark.true_tracks(wanted[0].item.clip)
    else:
        tracks = find_tracks(clip, detector, options)
    by_item: dict[str, list[PendingAnswer]] = {}
    for want in wanted:
        by_item.setdefault(want.item.id, []).append(want)
    for mine in by_item.values():
        yield from _answer_item(mine, lm, clip, tracks, options)


def _answer_item(
    wanted: list[PendingAnswer],
    lm: VideoLM,
    clip: Clip,
    tracks: tuple[Track, ...],
    options: RunOptions,
) -> Iterator[Row]:
    item = wanted[0].item
    gathering: Any = GatheringLM(lm)
    ready: list[tuple[PendingAnswer, DecodingViews]] = []
    try:
        own = replace(options, seed=item_seed(item.id))
        context = MethodContext(gathering, lm.encode(clip, item.question), tracks, own)
    except MacdError as error:
        yield from (Row(w.key, item.id, w.method, error=str(error)) for w in wanted)
        return
    for want in wanted:
        try:
            (method,) = find_methods([want.method])
            context.options = with_contrast(own, want.method, want.contrast or (1.0, 0.1))
            views = prepare(context, method)
            if isinstance(views, FixedAnswer):
                yield Row(want.key, item.id, want.method, views.text)
            else:
                ready.append((want, views))
        except MacdError as error:
            yield Row(want.key, item.id, want.method, error=str(error))
    resolved = gathering.resolve([views for _, views in ready])
    for (want, _), views in zip(ready, resolved, strict=True):
        try:
            yield _row(lm, context, want, views)
        except MacdError as error:
            yield Row(want.key, item.id, want.method, error=str(error))


def _row(lm: VideoLM, context: MethodContext, want: PendingAnswer, views: DecodingViews) -> Row:
    found = find_answer(
        lm, want.method, views.base, views.counter, views.rule, context.options.decode
    )
    first = found.tokens[0] if found.tokens else None
    text = found.text
    if want.item.kind == "choice" and first is not None:
        first = only_options(lm, first, want.item.options)
        text = pick_option(first, found) if first is not None else ""
    gradient: list[tuple[str, float]] = []
    if want.method == "macd" and context.tracks:
        if steps := context.ascent(context.options.mask):
            labels = [t.label for t in context.tracks]
            gradient = list(zip(labels, (float(g) for g in steps[-1].gradient), strict=True))
    return Row(
        key=want.key,
        item=want.item.id,
        method=want.method,
        text=text,
        margin=_margin(lm, first, found),
        grid=[] if want.contrast else _grid(first, found),
        gradient=gradient,
    )


def with_contrast(options: RunOptions, method: str, contrast: tuple[float, float]) -> RunOptions:
    """The options with one method's α and β; its head rule stays as published."""
    alpha, beta = contrast
    if method in OWN_CONTRAST:
        part = getattr(options, method)
        own = replace(part, contrast=replace(part.contrast, alpha=alpha, beta=beta))
        return replace(options, **{method: own})
    return replace(options, contrast=ContrastOptions(alpha, beta))


def _grid(first: TokenStep | None, found: Answer) -> list[str]:
    if first is None or first.counter is None or found.rule != "linear":
        return []
    rule: Head = "raw" if found.head == "raw" else "probability"
    picks = [int(score(first.base, first.counter, a, b, rule).argmax()) for a, b in GRID]
    return [first.texts[i].strip() for i in picks]


def _margin(lm: VideoLM, first: TokenStep | None, found: Answer) -> float | None:
    if first is None:
        return None
    ids = first.candidates.tolist()
    places = [[ids.index(t) for w in words if (t := lm.tokens(w)[0]) in ids] for words in WORDS]
    if not all(places):
        return None
    weights = first.weights or StepWeights(1 + found.alpha, (-found.alpha,))
    others = [] if first.counter is None else [first.counter]
    uncut = replace(weights, floor=-np.inf)
    scores = weighted(first.base, others, uncut, first.candidates)
    yes, no = (max(float(scores[i]) for i in z) for z in places)
    return yes - no


WORDS = (("yes", "Yes"), ("no", "No"))


def find_tracks(clip: Clip, detector: Detector, options: RunOptions) -> tuple[Track, ...]:
    """Tracks of the detector, as a run of the project finds them."""
    seen = list(detector.detect(clip.dense_frames, options.detect))
    aspect = clip.size[0] / clip.size[1]
    found, _ = track(
        seen, clip.dense_times, clip.times, options.track, options.detect, aspect=aspect
    )
    return found


def item_seed(item: str) -> int:
    """A seed for what is drawn at random for an item, such as noise."""
    return int.from_bytes(hashlib.sha256(item.encode()).digest()[:4], "big") >> 1
