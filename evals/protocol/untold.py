"""What differs between two runs and cannot be run again, each with the reason: part of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from macd_studio.evals.protocol import causes as cause
from macd_studio.evals.protocol.causes import ORDER, Differences
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.stated import same, statements
from macd_studio.evals.protocol.switch import PROMPTS, ROLES, device_of, lost_roles, worded
from macd_studio.evals.running.given import DIGITS
from macd_studio.evals.running.rows import code_fingerprint

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


CAUSE_OF = {
    "model": cause.WEIGHTS, "frames": cause.FRAMES, "fps": cause.FRAMES, "size": cause.SIZE,
    "fit": cause.FIT, "prompts": cause.TEMPLATE, "dtype": cause.DTYPE, "device": cause.DEVICE,
    "seed": cause.SEED, "search": cause.SEARCH, "temperature": cause.SEARCH,
    "max_tokens": cause.GENERATION, "alpha": cause.CONTRAST, "beta": cause.CONTRAST,
    "transformers": cause.VERSIONS, "torch": cause.VERSIONS,
}  # fmt: skip
"""What a figure without a protocol may state → the cause that exchanges it."""
OF_STATED = {
    "model": "it is known by its name alone; give both figures as folders of runs",
    "transformers": "name a Python that holds it by --python",
    "torch": "name a Python that holds it by --python",
    "prompts": "this program has published and bare ones alone",
    "rule": "what is run again is judged by the first figure's rule",
    "over": "of what is run again every question is counted",
    "alpha": "the first figure's method has no second view",
    "beta": "the first figure's method has no second view",
}


def untold(
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
