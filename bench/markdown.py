"""Tables of documents, and what stands between their marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """A table; head: with " | " between its columns."""
    lines = [f"| {head} |", "|---" * (1 + head.count(" | ")) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def replaced(text: str, begin: str, end: str, lines: str) -> str:
    """The text with other lines between two marks."""
    before, rest = text.split(begin)
    return f"{before}{begin}\n{lines}\n{end}{rest.split(end)[1]}"
