"""Runs one method on a case."""

from __future__ import annotations

import time
from dataclasses import replace

from core.backbones.base import to_pixels
from core.decoding.search import find_answer
from core.methods import Method
from core.methods.base import DecodingViews, MethodContext
from core.types import Answer, Pixels


def run_method(case: MethodContext, method: Method) -> Answer:
    """One method's answer, with its own time, the time from clip to answer, and peak memory."""
    began = time.perf_counter()
    case.start_method()
    with case.meter.measure() as own:
        prepared = method.prepare(case)
        found = answer_of(case, method.name, prepared)
    whole = case.whole_cost(own, case.needs())
    return replace(
        found,
        view=prepared.view,
        shown=shown(case, prepared),
        ms=round(1000 * (time.perf_counter() - began), 1),
        total_ms=round(1000 * whole.seconds, 1),
        memory_mb=case.memory_mb(whole),
    )


def answer_of(case: MethodContext, name: str, prepared: DecodingViews) -> Answer:
    """The answer that a method's views give."""
    if prepared.said is not None:
        return Answer(name, prepared.said, (), True)
    return find_answer(
        case.lm,
        name,
        prepared.base,
        prepared.counter,
        prepared.contrast,
        case.options.decode,
        prepared.bias,
    )


def shown(case: MethodContext, prepared: DecodingViews) -> Pixels | None:
    """The second view's frames as the model read them, (T, h, w, 3)."""
    if prepared.video is None:
        return None
    return to_pixels(prepared.video, case.encoded.mean, case.encoded.std)
