"""Traces of a benchmark's answers, computed with the tracks and the options of their rows.

A trace holds one method's answer beside plain decoding's and MACD's, all under that method's
options, α and β; its file is named by the key of the answer's row, so that it is known to be of the
same video, question, options, models and code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from macd_studio.core.objects.find import prompted, tracks_key
from macd_studio.core.run.cache import StageCache
from macd_studio.core.run.pipeline import run
from macd_studio.core.text.words import visible
from macd_studio.core.types import Trace
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import ONE_VIEW, item_seed, with_contrast
from macd_studio.evals.running.engine import Worker
from macd_studio.evals.running.prompting import PromptedLM

Pair = tuple[float, float]


def contrast_of(method: str, contrasts: dict[str, Pair]) -> Pair:
    """α and β of a method's rows in a run, see `evals.running.run.plan`."""
    return (1.0, 0.0) if method in ONE_VIEW else contrasts.get(method, (1.0, 0.1))


def compute_trace(worker: Worker, item: Item, method: str, contrast: Pair) -> Trace:
    """The trace of one answer, on the tracks that its row was computed with. Raises MacdError."""
    options = with_contrast(
        replace(worker.setting.options, seed=item_seed(item.id), lazy=False), method, contrast
    )
    prepared = worker.preparing.prepare(item.clip, (item.question,))
    if prepared.clip is None:
        assert prepared.error is not None
        raise prepared.error
    clip, detector = prepared.clip, worker.preparing.detector
    assert detector is not None
    chosen = prompted(detector, options.detect, item.question)
    cache, tracks = StageCache(), prepared.tracks_for(item.question)
    if tracks is None:
        tracks = worker.preparing.tracks_of(item.clip, clip, item.question)
    cache.put(tracks_key(clip, options, chosen, detector), (tracks, ()))
    asking: Any = PromptedLM(worker.lm, item.before, item.after)
    *_, last = run(
        lambda: clip,
        item.question,
        lambda: asking,
        lambda: detector,
        options,
        methods=[method],
        cache=cache,
    )
    assert last.trace is not None
    source = (
        f"asked as question {visible(item.id)} of {worker.setting.benchmark}"
        f"{', in its published prompt' if item.before or item.after else ''}; `python -m evals"
        " trace` computes it again"
    )
    return replace(last.trace, truth=item.truth, warnings=(*last.trace.warnings, source))


def differs(trace: Trace, method: str, text: str | None) -> str:
    """What differs between a trace's answer and that of the run; "" where they are the same."""
    answer = trace.answers.get(method)
    if answer is None:
        return f"{method} has no answer in the trace: {trace.skipped.get(method, trace.status)}"
    if answer.text == text:
        return ""
    return (
        f"{method} answers {answer.text[:80]!r} in the trace and {(text or '')[:80]!r} in the run"
    )
