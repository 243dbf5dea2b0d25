"""Every event of a study as CSV, JSON lines or Parquet, with what it was about."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.words import spreadsheet_text
from macd_studio.ratings.answers import conflicts_of
from macd_studio.ratings.chain import ORDER
from macd_studio.ratings.secret import write_private
from macd_studio.ratings.store import Study

FORMATS = ("csv", "jsonl", "parquet")
COLUMNS: dict[str, type] = {
    "event": int,
    "uuid": str,
    "rater": str,
    "simulated": str,
    "kind": str,
    "task": str,
    "part": str,
    "position": int,
    "clip": str,
    "clip_sha256": str,
    "question": str,
    "side": str,
    "arm": str,
    "hidden_pixels": float,
    "old": int,
    "new": int,
    "counts": bool,
    "note": str,
    "conflict": bool,
    "tab": str,
    "tab_count": int,
    "client_time": float,
    "elapsed_ms": float,
    "server_time": float,
    "repeats": str,
    "server": str,
}
"""Names and kinds of the columns; any value may be missing. docs/rating.md says what they mean."""
INSTALL = "Install one: pip install pyarrow"


def export(study: Study, kind: str, out: Path) -> int:
    """Writes all events to a private file, whole or not at all; gives how many there are.

    Raises OptionError where the format needs a library that is not there, or nothing can be
    written.
    """
    content = content_of(study, kind)
    try:
        write_private(out, content)
    except OSError as error:
        raise OptionError(
            f"{str(out)[:200]!r} cannot be written ({error.strerror})", "Choose another place"
        ) from error
    (events,) = study.rows("SELECT count(*) FROM history")[0]
    return int(events)


def content_of(study: Study, kind: str) -> bytes:
    """The file's bytes; raises OptionError, see `export`."""
    if kind == "csv":
        return as_csv(study).encode("utf-8")
    if kind == "jsonl":
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows(study))
        return "".join(lines).encode("utf-8", "surrogatepass")
    if kind == "parquet":
        return as_parquet(list(rows(study)))
    raise OptionError(f"there is no format {kind[:40]!r}", f"Choose one of {', '.join(FORMATS)}")


def rows(study: Study) -> Iterator[dict[str, Any]]:
    """One dict by COLUMNS for every event, in the order in which ratings count.

    counts: whether it is the rating of its side that the analysis takes.
    """
    ratings = study.rows(
        f"SELECT uuid, task, side FROM history WHERE kind IN ('rate', 'undo') ORDER BY {ORDER}"
    )
    last = {(r["task"], r["side"]): r["uuid"] for r in ratings}
    conflicts = conflicts_of(study)
    query = """
        SELECT e.*, r.name AS rater_name, r.simulated, t.part, t.position, t.repeats,
               c.name AS clip_name, c.sha256, c.question, s.arm, s.hidden
        FROM history e JOIN raters r ON r.id = e.rater
        LEFT JOIN tasks t ON t.id = e.task
        LEFT JOIN clips c ON c.id = t.clip
        LEFT JOIN sides s ON s.id = CASE e.side WHEN 0 THEN t.left_side WHEN 1 THEN t.right_side END
        ORDER BY e.stamp, e.writer, e.chain"""
    single = study.design == "single"
    for number, e in enumerate(study.rows(query), 1):
        side = None if e["side"] is None else ("only" if single else ("left", "right")[e["side"]])
        yield {
            "event": number,
            "uuid": e["uuid"],
            "rater": e["rater_name"],
            "simulated": e["simulated"],
            "kind": e["kind"],
            "task": e["task"],
            "part": e["part"],
            "position": e["position"],
            "clip": e["clip_name"],
            "clip_sha256": e["sha256"],
            "question": e["question"],
            "side": side,
            "arm": e["arm"],
            "hidden_pixels": e["hidden"],
            "old": e["old"],
            "new": e["new"],
            "counts": last.get((e["task"], e["side"])) == e["uuid"] and e["new"] is not None,
            "note": e["note"],
            "conflict": e["uuid"] in conflicts,
            "tab": e["tab"],
            "tab_count": e["count"],
            "client_time": e["client_time"],
            "elapsed_ms": e["elapsed_ms"],
            "server_time": e["server_time"],
            "repeats": e["repeats"],
            "server": e["writer"],
        }


def as_csv(study: Study) -> str:
    """RFC 4180 with a header. A text that a spreadsheet would run as a formula begins with '."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in rows(study):
        writer.writerow([_cell(row[name]) for name in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return spreadsheet_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def as_parquet(content: list[dict[str, Any]]) -> bytes:
    """Parquet by pyarrow or polars, whichever is there; raises OptionError where neither is."""
    columns = {name: [row[name] for row in content] for name in COLUMNS}
    out = io.BytesIO()
    if (arrow := _library("pyarrow")) is not None:
        kinds = {
            int: arrow.int64(),
            float: arrow.float64(),
            str: arrow.string(),
            bool: arrow.bool_(),
        }
        schema = arrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
        import_module("pyarrow.parquet").write_table(arrow.table(columns, schema), out)
    elif (polars := _library("polars")) is not None:
        kinds = {int: polars.Int64, float: polars.Float64, str: polars.String, bool: polars.Boolean}
        schema = {name: kinds[kind] for name, kind in COLUMNS.items()}
        polars.DataFrame(columns, schema=schema).write_parquet(out)
    else:
        raise OptionError("Parquet needs pyarrow or polars, and neither is installed", INSTALL)
    return out.getvalue()


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
