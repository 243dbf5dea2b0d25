"""Every event of a study as CSV, JSON lines or Parquet, with what it was about.

`python -m ratings.export` prints the data dictionary.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.text.words import spreadsheet_text
from macd_studio.ratings.answers import (
    conflicts_of,
    main_answers,
    read_answers,
    read_screens,
)
from macd_studio.ratings.chain import ORDER
from macd_studio.ratings.erasure import ERASED
from macd_studio.ratings.events import LEFT, RIGHT
from macd_studio.ratings.secret import write_private
from macd_studio.ratings.store import Study

FORMATS = ("csv", "jsonl", "parquet")


@dataclass(frozen=True)
class Column:
    """One column of the export: the kind of its values, and what they mean."""

    kind: type
    meaning: str


COLUMNS: dict[str, Column] = {
    "event": Column(int, "from 1, in the order in which events count"),
    "uuid": Column(str, "id given by the rater's browser"),
    "rater": Column(str, "R01 and so on"),
    "simulated": Column(str, "which program rated; empty for a person"),
    "kind": Column(
        str,
        "consent, screening (an answer to the question before the first screen), shown, rate,"
        " prefer (in a study of pairs), undo, reason, skip (cannot judge), flag, next, or finish",
    ),
    "task": Column(str, "id of the screen; each rater has their own"),
    "part": Column(
        str,
        "training, main, gold (a known item), repeat (a main screen shown again), or adjudication",
    ),
    "position": Column(int, "place in the rater's order, from 0"),
    "item": Column(int, "the same number for all raters"),
    "clip": Column(str, "its file's name"),
    "clip_sha256": Column(str, "its hash"),
    "question": Column(str, "what was asked"),
    "side": Column(str, "left, right, or only where a screen shows one mask; empty for a screen"),
    "arm": Column(str, "what hid the pixels there; of a preference, the preferred one"),
    "left_arm": Column(str, "what hid them on the left, or on the only mask"),
    "right_arm": Column(str, "what hid them on the right"),
    "hidden_pixels": Column(float, "summed over frames and strengths"),
    "old": Column(int, "the rating before the event"),
    "new": Column(
        int,
        "the rating after it, 1 to 5; of a preference 1 left, 2 right, 0 no difference; of a reason"
        " 1; of an answer to the screening question the option's number, from 1; empty where it was"
        " taken back",
    ),
    "stands": Column(bool, "whether it is the last of its mask, or preference of its screen"),
    "analysed": Column(
        bool,
        "whether the report is computed from it: it stands, its screen is a main one, and the rater"
        " did not leave the screen by *cannot judge*",
    ),
    "note": Column(str, "text of a flag, or the word of a reason"),
    "conflict": Column(bool, "whether it replaced a rating of another tab or device unseen"),
    "tab": Column(str, "random id of the browser's tab"),
    "tab_count": Column(int, "number within its tab, from 0"),
    "client_time": Column(float, "milliseconds since 1970 by the browser's clock"),
    "elapsed_ms": Column(float, "milliseconds on the screen until the event, without breaks"),
    "server_time": Column(float, "seconds since 1970 by the server's clock"),
    "repeats": Column(str, "the task that this one shows again, sides exchanged"),
    "server": Column(str, "random id of the server process"),
}
"""The data dictionary. Any value may be missing."""
PARTICIPANT = {"participant": Column(str, "id by which a panel knows the rater")}
"""A last column where it is asked for; it is no part of what is published."""
INSTALL = "Install one: pip install pyarrow"


def export(study: Study, kind: str, out: Path, participants: bool = False) -> int:
    """Writes all events to a private file, whole or not at all; gives how many there are.

    participants: whether a last column holds the ids by which participants were recruited.

    Raises OptionError where the format needs a library that is not there, or nothing can be
    written.
    """
    content = content_of(study, kind, participants)
    write_private(out, content)
    (events,) = study.rows("SELECT count(*) FROM history WHERE kind <> ?", ERASED)[0]
    return int(events)


def content_of(study: Study, kind: str, participants: bool = False) -> bytes:
    """The file's bytes; raises OptionError, see `export`."""
    if kind == "csv":
        return as_csv(study, participants).encode("utf-8")
    if kind == "jsonl":
        content = rows(study, participants)
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        return "".join(lines).encode("utf-8", "surrogatepass")
    if kind == "parquet":
        return as_parquet(list(rows(study, participants)), columns_of(participants))
    raise OptionError(f"there is no format {kind[:40]!r}", f"Choose one of {', '.join(FORMATS)}")


def columns_of(participants: bool) -> dict[str, Column]:
    """The columns of an export."""
    return COLUMNS | PARTICIPANT if participants else COLUMNS


def rows(study: Study, participants: bool = False) -> Iterator[dict[str, Any]]:
    """One dict by COLUMNS for every event, in the order in which ratings count.

    analysed: by the same rule as the report, `answers.main_answers`.
    """
    ratings = study.rows(
        f"SELECT uuid, task, side FROM history WHERE kind IN ('rate', 'undo') ORDER BY {ORDER}"
    )
    last = {(r["task"], r["side"]): r["uuid"] for r in ratings}
    preferred = {r["task"]: r["uuid"] for r in study.rows(
        f"SELECT uuid, task FROM history WHERE kind = 'prefer' ORDER BY {ORDER}")}  # fmt: skip
    taken = {(a.task, a.side) for a in main_answers(read_answers(study), read_screens(study))}
    conflicts = conflicts_of(study)
    query = """
        SELECT e.uuid, e.rater AS number, r.name AS rater, r.simulated, e.kind, e.task, t.part,
               t.position, t.clip AS item, c.name AS clip, c.sha256 AS clip_sha256, c.question,
               e.side, s.arm, l.arm AS left_arm, r2.arm AS right_arm, s.hidden AS hidden_pixels,
               e.old, e.new, e.note, e.tab, e.count AS tab_count, e.client_time, e.elapsed_ms,
               e.server_time, t.repeats, e.writer AS server
        FROM history e JOIN raters r ON r.id = e.rater
        LEFT JOIN tasks t ON t.id = e.task
        LEFT JOIN clips c ON c.id = t.clip
        LEFT JOIN sides l ON l.id = t.left_side
        LEFT JOIN sides r2 ON r2.id = t.right_side
        LEFT JOIN sides s ON s.id = CASE e.side WHEN 0 THEN t.left_side WHEN 1 THEN t.right_side END
        WHERE e.kind <> ? ORDER BY e.stamp, e.writer, e.chain"""
    single = study.design == "single"
    ids, codes = study.participants(), {r.id: r.code for r in study.raters()}
    columns = columns_of(participants)
    for number, found in enumerate(study.rows(query, ERASED), 1):
        e = dict(found)
        place = e["task"], e["side"]
        if e["kind"] == "prefer":
            place = e["task"], LEFT - 1
            stands = preferred[e["task"]] == e["uuid"] and e["new"] is not None
            e["arm"] = {LEFT: e["left_arm"], RIGHT: e["right_arm"]}.get(e["new"])
        else:
            stands = last.get(place) == e["uuid"] and e["new"] is not None
        if e["side"] is not None:
            e["side"] = "only" if single else ("left", "right")[e["side"]]
        e |= {"event": number, "stands": stands, "analysed": stands and place in taken}
        e |= {"conflict": e["uuid"] in conflicts, "participant": ids.get(codes[e["number"]])}
        yield {name: e[name] for name in columns}


def as_csv(study: Study, participants: bool = False) -> str:
    """RFC 4180 with a header. A text that a spreadsheet would run as a formula begins with '."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    columns = columns_of(participants)
    writer.writerow(columns)
    for row in rows(study, participants):
        writer.writerow([_cell(row[name]) for name in columns])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return spreadsheet_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def as_parquet(content: list[dict[str, Any]], described: Mapping[str, Column] = COLUMNS) -> bytes:
    """Parquet by pyarrow or polars, whichever is there; raises OptionError where neither is."""
    columns = {name: [row[name] for row in content] for name in described}
    out = io.BytesIO()
    if (arrow := _library("pyarrow")) is not None:
        kinds = {
            int: arrow.int64(),
            float: arrow.float64(),
            str: arrow.string(),
            bool: arrow.bool_(),
        }
        schema = arrow.schema([(name, kinds[column.kind]) for name, column in described.items()])
        import_module("pyarrow.parquet").write_table(arrow.table(columns, schema), out)
    elif (polars := _library("polars")) is not None:
        kinds = {int: polars.Int64, float: polars.Float64, str: polars.String, bool: polars.Boolean}
        schema = {name: kinds[column.kind] for name, column in described.items()}
        polars.DataFrame(columns, schema=schema).write_parquet(out)
    else:
        raise OptionError("Parquet needs pyarrow or polars, and neither is installed", INSTALL)
    return out.getvalue()


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def dictionary() -> str:
    """What each column means, as a table in Markdown."""
    rows = (f"| `{name}` | {c.meaning} |" for name, c in COLUMNS.items())
    return "\n".join(("| column | meaning |", "|---|---|", *rows)) + "\n"


if __name__ == "__main__":
    print(dictionary(), end="")
