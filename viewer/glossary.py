"""The project's terms: `python -m viewer.glossary > docs/glossary.md` writes the guide.

The page shows the same meanings as hover help, so a term is explained in one place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from macd_studio.core.options import AscentOptions

SOURCE = Path(__file__).with_name("glossary.toml")
HEAD = """# Glossary

One term for each concept, in code, page and docs. Written by `python -m viewer.glossary` from
`viewer/glossary.toml`.

| term | symbol | meaning |
|---|---|---|
"""


@dataclass(frozen=True)
class Term:
    """A term, its symbol (empty where it has none), and its meaning in one sentence."""

    name: str
    symbol: str
    meaning: str


@cache
def terms() -> tuple[Term, ...]:
    """All terms, in the order of the method's steps."""
    rows = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["term"]
    ascent = AscentOptions()
    signs = zip(("0", "r0", "1"), ascent.named_levels(), strict=True)
    values = {
        "r0": f"{ascent.r0:g}",
        "levels": ", ".join(f"{z} {level.name}" for z, level in signs),
    }
    return tuple(
        Term(row["name"], row.get("symbol", ""), _filled(row["meaning"], values)) for row in rows
    )


def _filled(meaning: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        meaning = meaning.replace(f"{{{name}}}", value)
    return meaning


def meaning(name: str) -> str:
    """The meaning of a term; KeyError for one that the glossary does not define."""
    return {term.name: term.meaning for term in terms()}[name]


def markdown() -> str:
    """The guide docs/glossary.md."""
    cells = ((t.name, t.symbol, t.meaning) for t in terms())
    rows = (" | ".join(cell.replace("|", r"\|") for cell in row) for row in cells)
    return HEAD + "".join(f"| {row} |\n" for row in rows)


if __name__ == "__main__":
    print(markdown(), end="")
