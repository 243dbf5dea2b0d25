"""What differs between two runs and cannot be run again, each with the reason: part of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from macd_studio.evals.protocol import causes as cause
from macd_studio.evals.protocol.causes import ORDER, Differences
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.hashes import DIGITS
from macd_studio.evals.protocol.switch import ROLES, device_of
from macd_studio.evals.running.rows import code_fingerprint

NOT_RECORDED = "whatever the second figure does not state"
FOLLOWS = "both settings say the same, so it follows from something else that differs"
REASONS = {
    cause.ANNOTATION: "the second's questions are not here; name their folder by --second-data",
    cause.CLIP: "the second's videos are not here; name their folder by --second-data",
    cause.DECODING: "the same file was decoded into other pictures, which other packages do; name"
    " the second's environment by --python",
    cause.VERSIONS: "name the Python of the second's environment by --python",
    **dict.fromkeys(ROLES, "the second's model is no folder here that holds what was recorded, so"
                    " that no part of it can be exchanged"),
}  # fmt: skip


def untold(
    found: Differences, first: Figure, second: Figure, order: Sequence[str]
) -> list[dict[str, str]]:
    """[{cause, reason}] of what is not in the order; together they are the rest."""
    if second.protocol is None:
        what = "a printed row" if second.stated else "a file of answers"
        return [{"cause": NOT_RECORDED, "reason": f"{what} holds nothing more"}]
    named = {n for names in found.causes.values() for n in names}
    left = [n for n in ORDER if n in named and n not in order]
    return [{"cause": n, "reason": _reason(n, first, second)} for n in left]


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
    model = str(models[0].get("device_name") or "") if models else ""
    if names[0] == names[1]:
        return f"this program cannot choose between two of a kind; the second ran on {model}"
    return f"the second ran on {model or names[1] or 'another machine'}, which this machine lacks"
