"""What every run writes and says: JSON files, packed lines, progress, the machine, what failed."""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.system.whole import written_whole
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown

if TYPE_CHECKING:
    from macd_studio.evals.running.rows import Row


def check_folder(out: Path) -> None:
    """Raises OptionError where a folder cannot be made or written into."""
    try:
        near = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{shown(str(out), 200)} cannot be a folder ({error})", "Choose another"
        ) from None
    if not near.is_dir():
        raise OptionError(
            f"{shown(str(near), 200)} is not a folder", "Choose a folder for the results"
        )
    if not os.access(near, os.W_OK | os.X_OK):
        raise OptionError(
            f"nothing can be written in {shown(str(near), 200)}", "Choose another folder"
        )


def machine() -> str:
    """What computes, and with which versions; imports torch."""
    import platform

    import torch

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, float32"
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def say(line: str) -> None:
    """Tells of progress, beside what the command prints."""
    print(line, file=sys.stderr, flush=True)


def pack_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows as packed lines of JSON, the same bytes for the same rows."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def finite(value: Any) -> Any:
    """Plain values with None in the place of what JSON cannot hold, NaN and infinities.

    >>> finite({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(v) for name, v in value.items()}
    return [finite(v) for v in value] if isinstance(value, list | tuple) else value


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all."""
    with written_whole(path) as part:
        part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


Report = dict[str, Any]
DECIDES = {
    "benchmark": "the benchmark",
    "content": "the questions or frames",
    "setting": "the options",
    "contrasts": "α and β",
}
"""Of a run's report what makes it that of another run, in words."""
MAX_REASONS = 3
EXIT = 1
"""What a command exits with whose report is written but lacks answers."""


def tell_replaced(out: Path, report: Report) -> None:
    """Says where a folder holds the report of another run, which is about to be replaced."""
    try:
        former = json.loads((out / "report.json").read_text(encoding="utf-8"))
        other = [words for key, words in DECIDES.items() if former[key] != finite(report[key])]
    except (OSError, ValueError, KeyError, TypeError):
        return  # there is none, or no whole one
    if other:
        say(
            f"note: {shown(str(out), 200)} holds the report of a run with other values of"
            f" {', '.join(other)}: it is replaced. Its answers stay; give another --out to keep"
            " both reports."
        )


def count_failures(rows: Iterable[Row]) -> Report:
    """failed: answers with an error, of `asked`; reasons: the commonest of them, by message."""
    errors = [row.error for row in rows]
    reasons = Counter(e for e in errors if e)
    return {
        "failed": sum(reasons.values()),
        "asked": len(errors),
        "reasons": dict(reasons.most_common(MAX_REASONS)),
    }


def failures_line(failures: Report | None) -> str:
    """The counts in a sentence; empty where no answer failed, and for reports without the counts.

    >>> failures_line({"failed": 2, "asked": 9, "reasons": {"no file.": 2}})
    '2 of 9 answers failed and count as wrong: no file (2).'
    """
    if not failures or not failures["failed"]:
        return ""
    reasons = "; ".join(f"{why.rstrip('.')} ({n})" for why, n in failures["reasons"].items())
    of = f"{failures['failed']} of {count(failures['asked'], 'answer')}"
    return f"{of} failed and count as wrong: {reasons}."


def count_objects(rows: Iterable[Row]) -> Report:
    """Questions whose objects were looked for, and those of them whose clip had none.

    Rows of earlier versions, which did not say, count as not looked for.
    """
    found: dict[str, int] = {}
    for row in rows:
        if row.objects is not None and row.objects >= 0:
            found[row.item] = row.objects
    return {"looked": len(found), "none": sum(not n for n in found.values())}


def objects_note(objects: Report, methods: Iterable[str]) -> str:
    """What the count means for the methods that mask objects; empty where each clip had some."""
    titles = [m.title for m in map(find_method, methods) if m.needs_objects]
    if not objects["none"] or not titles:
        return ""
    return (
        f"No objects were found for {objects['none']} of {count(objects['looked'], 'question')}:"
        f" {', '.join(titles)} had no object to mask there, at most the frame mask."
    )
