"""What differs between two runs, run again on some questions: each cause alone, all in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.statistics import Interval
from macd_studio.core.text.words import count
from macd_studio.evals.protocol.causes import (
    ANNOTATION,
    CLIP,
    ORDER,
    VERSIONS,
    Differences,
    differences,
)
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.jobs import Job, Texts, answer
from macd_studio.evals.protocol.switch import described, job_of, job_of_second, switch
from macd_studio.evals.protocol.untold import untold
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.statistics.stats import mean_difference

Say = Callable[[str], None]


@dataclass(frozen=True)
class Places:
    """Where what two figures were computed from lies now; None for where their reports say.

    data, second_data: folders of questions and videos. python: the interpreter of the second's
    packages.
    """

    data: Path | None = None
    second_data: Path | None = None
    python: Path | None = None


@dataclass(frozen=True)
class _Step:
    """How questions are answered, and whose right answers they are held against, 0 or 1."""

    job: Job
    truth: int = 0


def rerun(
    first: Figure, second: Figure, n: int, out: Path, places: Places, say: Say
) -> dict[str, Any]:
    """The shares by running again, as plain data; see `show`.

    n: questions at most. out: where rows are kept. Raises MacdError.
    """
    if not first.folder:
        raise OptionError(
            "--rerun answers again what a folder of ours answered", "Give such a folder as A"
        )
    if CONSTANT in (first.method, second.method):
        raise OptionError(
            f"the answers of {CONSTANT} follow from others", "Choose another --method"
        )
    ids = chosen(first, second, n)
    found = differences(first, second, [i for i in ids if i in second.items])
    start = job_of(first, places.data)
    end = job_of_second(first, second, start, places.python, places.second_data)
    truths = any(i in second.items and second.items[i].truth != first.items[i].truth for i in ids)

    def step(name: str, state: _Step) -> _Step:
        if name == ANNOTATION:
            return _Step(_asked_again(found, state.job, end), int(truths))
        return replace(state, job=switch(name, state.job, end))

    plain = _Step(start)
    order = [c for c in ORDER if _counts(c, found, truths) and step(c, plain) != plain]
    reworded = _asked_again(found, start, end) != start
    switched_whole = [c for c in order if c != ANNOTATION or reworded]
    folder = out / "rerun"
    say(f"{count(len(ids), 'question')}, {2 * len(order) + 1} runs at most")

    def right(texts: Mapping[str, str | None], truth: int = 0) -> np.ndarray:
        items = (first, second)[truth].items
        return np.array([first.verdict(texts.get(i), items[i])[0] for i in ids], float)

    clusters = [first.clusters.get(i, i) for i in ids]

    def change(a: np.ndarray, b: np.ndarray) -> list[float]:
        between: Interval = mean_difference(a, b, clusters)
        return [100 * x for x in between]

    done: dict[Job, Texts] = {}

    def run(state: _Step, what: str) -> np.ndarray:
        if state.job not in done:
            say(f"answering: {what}")
            done[state.job] = answer(state.job, ids, folder)
        return right(done[state.job], state.truth)

    state, begin = plain, run(plain, "as before")
    before, base = begin, done[start]
    shares: list[dict[str, Any]] = []
    for name in order:
        try:
            alone = run(step(name, plain), f"{name} alone")
            state = step(name, state)
            after = run(state, f"{name} in order")
        except MacdError as error:
            raise OptionError(f"{name} cannot be run again: {error.cause}", error.remedy) from None
        detail = found.details.get(name) if name in (ANNOTATION, CLIP) else ""
        detail = detail or described(name, start, end) or TRUTHS
        points = {"alone": change(begin, alone), "in_order": change(before, after)}
        shares.append({"cause": name, "detail": detail, **points})
        before = after
    total = 100 * float(before.mean() - begin.mean())
    if second.has_answers:
        rest: list[float | None] = [*change(before, right(second.texts, state.truth))]
    else:
        assert second.stated is not None
        rest = [second.stated[0] - 100 * float(before.mean()), None, None]
    return {
        "n": len(ids),
        "order": order,
        "causes": shares,
        "interaction": total - sum(s["alone"][0] for s in shares),
        "repeated": sum((base.get(i) or "") == (first.texts.get(i) or "") for i in ids),
        "not_repeated": change(right(first.texts), begin),
        "rest": rest,
        "left": untold(found, first, second, switched_whole),
    }


TRUTHS = "other right answers"


def _counts(name: str, found: Differences, truths: bool) -> bool:
    """Whether a cause is looked at: what was recorded as differing, and all that a row states."""
    named = any(name in names for names in found.causes.values())
    if name in (ANNOTATION, CLIP):
        return named or (truths and name == ANNOTATION)
    return named or found.unknown or name == VERSIONS


def _asked_again(found: Differences, job: Job, end: Job) -> Job:
    """The job with the other's questions; itself where these are worded alike."""
    worded = any(ANNOTATION in names for names in found.causes.values())
    return switch(ANNOTATION, job, end) if worded else job


def chosen(first: Figure, second: Figure, n: int) -> list[str]:
    """n questions that both answer, spread over all of them, always the same ones."""
    both = [i for i in first.items if not second.has_answers or i in second.items]
    ranked = sorted(both, key=lambda i: hashlib.sha256(i.encode()).hexdigest())[:n]
    return [i for i in both if i in set(ranked)]
