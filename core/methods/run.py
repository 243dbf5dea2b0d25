"""Runs one method on a case."""

from __future__ import annotations

import time
from dataclasses import replace

from core.methods import Method
from core.methods.base import Case
from core.search import find_answer
from core.types import Answer


def run_method(case: Case, method: Method) -> Answer:
    """One method's answer, with its own time in milliseconds."""
    began = time.monotonic()
    case.begin()
    prepared = method.prepare(case)
    if prepared.said is not None:
        return Answer(method.name, prepared.said, (), True, view=prepared.view)
    found = find_answer(
        case.lm,
        method.name,
        prepared.base,
        prepared.counter,
        prepared.contrast,
        case.options.decode,
        prepared.bias,
    )
    spent = round(1000 * (time.monotonic() - began), 1)
    return replace(found, view=prepared.view, ms=spent)
