"""Plans every listed backbone again: the stored figures, and the table of docs/backbones.md.

`python -m bench.planned [ID …]`, after a change of the catalogue or of what a run keeps in memory;
with hub ids, these alone are planned again. PerceptionLM needs the package timm.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from macd_studio.core.backbones.catalogue import CATALOGUE, PLANNED, planned
from macd_studio.core.backbones.load import FAMILIES
from macd_studio.core.planning.plan import plan

DOCS = Path(__file__).parents[1] / "docs" / "backbones.md"
LISTED_BEGIN, LISTED_END = "<!-- listed -->", "<!-- end of listed -->"
BEGIN, END = "<!-- planned -->", "<!-- end of planned -->"
COLUMNS = ("baseline", "macd", "macd_low_memory")
HELD = ("int8", "nf4")


def listed_table() -> str:
    """The catalogue in Markdown."""
    lines = ["| model | hub id | licence | commit |", "|---|---|---|---|"]
    for model in CATALOGUE:
        own = "\\*" if model.family in FAMILIES else ""
        commit = f"`{model.revision[:10]}`" if model.revision else "newest"
        lines.append(f"| {model.title}{own} | `{model.hub_id}` | {model.licence} | {commit} |")
    return "\n".join(lines)


def table() -> str:
    """The planned figures in Markdown, in GB, from the stored plans."""
    lines = [
        f"| model | frames | baseline | MACD | low memory | smallest GPU | {' | '.join(HELD)} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model in CATALOGUE:
        figures = planned(model.hub_id)
        assert figures is not None
        height, width = figures["frame_size"]
        peaks = " | ".join(f"{figures[f'{kind}_peak_gb']:.1f}" for kind in COLUMNS)
        fits = [figures["fits"], *(figures["held"][name]["fits"] for name in HELD)]
        sizes = [", ".join(_smallest(way, kind) for kind in COLUMNS) for way in fits]
        lines.append(f"| {model.title} | {width}×{height} | {peaks} | {' | '.join(sizes)} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The document with the tables between their marks replaced."""
    for begin, end, lines in (
        (LISTED_BEGIN, LISTED_END, listed_table()),
        (BEGIN, END, table()),
    ):
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{lines}\n{end}{rest.split(end)[1]}"
    return text


def _smallest(fits: dict[str, dict[str, bool]], kind: str) -> str:
    return next((gb for gb, kinds in fits.items() if kinds[kind]), "none")


def main(argv: Sequence[str] | None = None) -> None:
    """Computes and writes both."""
    chosen = list(sys.argv[1:] if argv is None else argv)
    plans = json.loads(PLANNED.read_text())
    for model in CATALOGUE:
        if not chosen or model.hub_id in chosen:
            plans[model.hub_id] = plan(model.hub_id)
            print(f"  {model.title}", file=sys.stderr, flush=True)
    kept = {model.hub_id: plans[model.hub_id] for model in CATALOGUE}
    PLANNED.write_text(json.dumps(kept, indent=1) + "\n")
    planned.cache_clear()
    DOCS.write_text(with_table(DOCS.read_text()))


if __name__ == "__main__":
    main()
