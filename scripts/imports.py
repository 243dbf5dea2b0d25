"""Draws the order of imports, from `.importlinter` and the packages' docstrings, in the documents.

    python -m scripts.imports

writes the drawing into docs/architecture.md; a test compares it.
"""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- drawn by `python -m scripts.imports` -->\n```\n", "```\n<!-- end -->"
CONTRACTS = ("parts", "core")


def layers(contract: str) -> tuple[str, list[list[str]]]:
    """The container of a contract of `.importlinter` and its layers, from the top down."""
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    section = config[f"importlinter:contract:{contract}"]
    rows = [row.split(" | ") for row in section["layers"].split("\n") if row]
    return section.get("containers", ""), rows


def purpose(module: str) -> str:
    """What a module or package says of itself: its docstring, up to a colon."""
    place = ROOT.joinpath(*module.removeprefix("macd_studio.").split("."))
    inner = place / "__init__.py"
    file = inner if inner.is_file() else place.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
    return re.split(r"[:;.] ", text)[0].rstrip(".")


def drawing() -> str:
    """Every layer in a line or more, from the top down, with what it does."""
    lines: list[str] = []
    for contract in CONTRACTS:
        container, rows = layers(contract)
        lines += ["", f"{container.removeprefix('macd_studio.') or 'the project'}:"]
        for row in rows:
            for n, name in enumerate(row):
                module = f"{container}.{name}" if container else name
                short = name.removeprefix("macd_studio.")
                lines.append(
                    f"  {'│' if n else '┌' if len(row) > 1 else ' '} {short:<13} {purpose(module)}"
                )
    return "\n".join(lines[1:]) + "\n"


def written(text: str) -> str:
    """The document with the drawing in it."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + drawing() + END + rest.split(END)[1]


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text()))
