"""What differs between two runs, run again on some questions: each cause alone, all in order.

What cannot be run again is named with the reason: part of the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.statistics import Interval
from macd_studio.core.text.words import count
from macd_studio.evals.protocol import causes as cause
from macd_studio.evals.protocol.causes import (
    ANNOTATION,
    CAUSE_OF,
    CLIP,
    ORDER,
    VERSIONS,
    Differences,
    differences,
    same,
    statements,
)
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.jobs import Job, Texts, answer
from macd_studio.evals.protocol.switch import (
    PROMPTS,
    ROLES,
    described,
    device_of,
    job_of,
    job_of_second,
    lost_roles,
    switch,
    worded,
)
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.given import DIGITS
from macd_studio.evals.running.rows import code_fingerprint
from macd_studio.evals.statistics.stats import mean_difference

NOT_RECORDED = "whatever the second figure does not state"
NO_EFFECT = "answers in the first figure's setting do not depend on it"
FOLLOWS = "both settings say the same, so it follows from something else that differs"
REASONS = {
    cause.ANNOTATION: "the second's questions are not here; name their folder by --second-data",
    cause.CLIP: "the second's videos are not here; name their folder by --second-data",
    cause.DECODING: "the same file was decoded into other pictures, which other packages do; name"
    " the second's environment by --python",
    cause.VERSIONS: "name the Python of the second's environment by --python",
    **dict.fromkeys(ROLES, "parts of models are exchanged where both are folders here"),
}  # fmt: skip


OF_STATED = {
    "model": "it is known by its name alone; give both figures as folders of runs",
    "transformers": "name a Python that holds it by --python",
    "torch": "name a Python that holds it by --python",
    "arguments": "they are of another program's model",
    "prompts": "this program has published and bare ones alone",
    "rule": "what is run again is judged by the first figure's rule",
    "over": "of what is run again every question is counted",
    "alpha": "the first figure's method has no second view",
    "beta": "the first figure's method has no second view",
}


def unrecorded_causes(
    found: Differences, first: Figure, second: Figure, order: Sequence[str]
) -> list[dict[str, str]]:
    """[{cause, reason}] of what is not in the order; together they are the rest.

    Of a figure without a protocol: each thing that it states and that was not exchanged, and then
    all that it does not state.
    """
    if second.protocol is None:
        what = "a printed row" if second.stated else "a file of answers"
        rest = {"cause": NOT_RECORDED, "reason": f"{what} says nothing of it"}
        return [*_stated_only(first, second, order), rest]
    named = {n for names in found.causes.values() for n in names}
    left = [n for n in ORDER if n in named and n not in order]
    lost = lost_roles(first, second)
    return [
        {"cause": n, "reason": lost.get(ROLES.get(n, "")) or _reason(n, first, second)}
        for n in left
    ]


def _stated_only(first: Figure, second: Figure, order: Sequence[str]) -> list[dict[str, str]]:
    """What the second states otherwise than the first, or alone, and no run exchanged."""
    own, left = statements(first), []
    for name, value in worded(second.said).items():
        if CAUSE_OF.get(name) in order or _alike(name, own.get(name, ""), value):
            continue
        reason = _of_device(first, second) if name == "device" else OF_STATED.get(name, NO_EFFECT)
        reason = NO_EFFECT if name == "prompts" and value in PROMPTS else reason
        left.append({"cause": f"{name} {value}", "reason": reason})
    return left


def _alike(name: str, own: str, value: str) -> bool:
    """Whether a stated value is what is run anyway."""
    if name == "over":
        return value == "all"
    if name == "rule":  # named with its version or without
        return value in (own, own.split(" ")[0])
    if name == "device":  # cuda, cuda:0
        own, value = (z.partition(":")[0] for z in (own, value))
    return same(own, value)


def _reason(name: str, first: Figure, second: Figure) -> str:
    if name == cause.CODE:
        return _of_code(first, second)
    if name == cause.DEVICE:
        return _of_device(first, second)
    return REASONS.get(name, FOLLOWS)


def _of_code(first: Figure, second: Figure) -> str:
    """A program holds one version of itself."""
    here = code_fingerprint()[:DIGITS]
    recorded = [_code(f) for f in (first, second)]
    if here == recorded[1]:
        return (
            "this version is the second's: its share is part of what answering the first's"
            " questions again changed"
        )
    whose = "this version is the first's" if here == recorded[0] else "this version is neither's"
    return f"{whose}; answer the first's questions with the second's version and compare these runs"


def _code(figure: Figure) -> Any:
    return figure.protocol.made_by.get("code") if figure.protocol else None


def _of_device(first: Figure, second: Figure) -> str:
    names = [device_of(f) for f in (first, second)]
    models = second.protocol.models if second.protocol else []
    model = str(models[0].get("device_name") or "") if models else second.said.get("device", "")
    if names[0] == names[1]:
        return f"this program cannot choose between two of a kind; the second ran on {model}"
    return f"the second ran on {model or names[1] or 'another machine'}, which this machine lacks"


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
        "left": unrecorded_causes(found, first, second, switched_whole),
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
