"""The folder of a run over the drawn world → one figure of it.

Its questions are those of the protocol, its answers those of the packed rows. What a caption may
name is what its true caption names, so that nothing is drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.protocol.border import Protocol
from macd_studio.evals.protocol.figure import Figure, rule_parser
from macd_studio.evals.running.contrasts import CONSTANT

POOLED = (
    "Regimes of drawn clips are taken together here, which their reports never do; --split REGIME"
    " compares one of {}."
)


def drawn_figure(
    report: Mapping[str, Any], protocol: Protocol, folder: Path, method: str, rule: str
) -> Figure:
    """The figure of one method of a run, over all of its regimes.

    Raises OptionError, and KeyError where the report is damaged.
    """
    from macd_studio.evals.running.rows import PACKED, unpack

    name = str(report["benchmark"])
    items = {
        i.id: Item(i.id, protocol.clips[i.clip].key, _regime(i.id), "", i.kind, "", i.truth)  # type: ignore[arg-type]
        for i in protocol.items
    }
    rows = unpack(folder / PACKED)
    if method == CONSTANT:
        texts = _with_constants(items, rows, report["constants"])
    else:
        texts = {r.item: r.text for r in rows if r.method == method and not (r.error or r.left_out)}
    if not any(i in items for i in texts):
        raise OptionError(
            f"{shown(folder.name)} has no answer of {shown(method)} that did not fail",
            "Choose another --method",
        )
    regimes = ", ".join(dict.fromkeys(i.regime for i in items.values()))
    return Figure(
        title=f"{folder.name}:{method}",
        benchmark=name,
        items=items,
        texts={i: texts.get(i) for i in items},
        parser=rule_parser(name, next(iter(items.values())), rule),
        clusters={i.id: i.clip for i in items.values()},
        protocol=protocol,
        method=method,
        folder=str(folder),
        notes=(POOLED.format(regimes),) if "," in regimes else (),
    )


def _regime(name: str) -> str:
    """Of a drawn question, "SPLIT/REGIME/CLIP/QUESTION"."""
    parts = name.split("/")
    return parts[1] if len(parts) == 4 else ""


def _with_constants(
    items: Mapping[str, Item], rows: list[Any], constants: dict[str, float]
) -> dict[str, str]:
    """Answers of the tuned constant, which follow from the baseline's rows."""
    from macd_studio.evals.statistics.constant import answers_by_first, with_constants

    plain = {r.item: r for r in rows if r.method == "baseline"}
    texts = answers_by_first([r for name, r in plain.items() if name not in items])
    made = [with_constants(i, plain[i.id], constants, texts) for i in items.values()]
    return {r.item: r.text for r in made if not (r.error or r.left_out)}


def refuse_other_clips(first: Figure, second: Figure) -> None:
    """Raises OptionError for drawn runs whose questions have the same names and are others."""
    a, b = first.protocol, second.protocol
    if a is None or b is None or not (first.drawn or second.drawn):
        return
    if first.benchmark != second.benchmark:
        raise OptionError(
            f"{first.title} answers {first.benchmark}, {second.title} {second.benchmark}",
            "Compare runs over the same benchmark",
        )
    seeds = [p.setting.get("seed", 0) for p in (a, b)]
    if seeds[0] != seeds[1]:
        raise OptionError(
            f"{first.title} and {second.title} were asked about other clips: their --seed is"
            f" {shown(seeds[0])} and {shown(seeds[1])}",
            "Compare runs over the same drawing of the clips",
        )
