"""Every measurement with its commit: bench/results/history.jsonl, one line each.

Ratios of times are measured within one run, so they can be compared between days and, with some
care, between machines. Seconds cannot.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench import markdown

ROOT = Path(__file__).parents[1]
HISTORY = Path(__file__).parent / "results" / "history.jsonl"
SLOWER = 1.1
"""A ratio that grew by more is told."""
_RATIO = re.compile(r"_over_")
_NO_TIME = re.compile(r"flops|memory(?!_time)|_open|_where_|activations")
"""Ratios of other things than time."""


class Slower(NamedTuple):
    """A ratio of times that grew. before, now: the ratio; commit, date: of the former."""

    key: str
    before: float
    now: float
    commit: str
    date: str


def is_time_ratio(key: str) -> bool:
    """Whether a figure says how many times as long something takes.

    >>> is_time_ratio("token2_over_1_cpu"), is_time_ratio("flops_macd1_over_base")
    (True, False)
    """
    return bool(_RATIO.search(key)) and not _NO_TIME.search(key)


def commit() -> str:
    """The commit that is measured, with "+" where files were changed since; "" outside of git."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def append(
    figures: Mapping[str, Any], machine: Mapping[str, Any], path: Path | None = None
) -> None:
    """Adds what was measured now."""
    row = {"commit": commit(), **machine, "figures": dict(figures)}
    with (path or HISTORY).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def rows(path: Path | None = None) -> Iterator[dict[str, Any]]:
    """What was measured, the oldest first."""
    path = path or HISTORY
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def slower(path: Path | None = None) -> list[Slower]:
    """Ratios of times whose last measurement is more than a tenth above the one before it.

    Of the machine that measured last: a processor of that name with as many cores. The largest
    growth first.
    """
    every = list(rows(path))
    here = [r for r in every if _machine(r) == _machine(every[-1])]
    last: dict[str, dict[str, Any]] = {}
    found: dict[str, Slower] = {}
    for row in here:
        for key, now in row["figures"].items():
            if not is_time_ratio(key):
                continue
            found.pop(key, None)
            former = last.get(key)
            if former is not None and now > SLOWER * former["figures"][key]:
                before = former["figures"][key]
                found[key] = Slower(key, before, now, former["commit"], former["date"])
            last[key] = row
    return sorted(found.values(), key=lambda z: z.before / z.now)


def _machine(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row["processor"], row["cores"]


def table(path: Path | None = None) -> str:
    """Ratios that grew, as a table in Markdown; one sentence where none did."""
    found = slower(path)
    if not found:
        return "No ratio of times grew by more than a tenth since it was last measured here."
    return markdown.table("ratio | before | now | measured before", (
        (f"`{z.key}`", f"{z.before:.3f}", f"{z.now:.3f}", f"{z.date}, {z.commit}") for z in found
    ))  # fmt: skip
