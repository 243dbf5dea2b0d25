"""JSON lines of mirrored rows, as one branch: of this version and of those before.

Rows of version 1 name raters by numbers, which two servers may have given to different people. A
number means what the same file says of it, else the one rater whom any file gives it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from macd_studio.ratings.branches import COLUMNS, Row, Values, key
from macd_studio.ratings.chain import GENESIS, link
from macd_studio.ratings.errors import StudyError
from macd_studio.ratings.migrate import upgrade_controls, upgrade_event

COLUMNS_1 = {
    "raters": COLUMNS["raters"] | {"id"},
    "tasks": COLUMNS["tasks"],
    "controls": {"id", "time", "what", "value"},
    "events": COLUMNS["events"] - {"writer", "stamp", "signer", "parents"} | {"id"},
}
LOST = "0"
"""What an event of version 1 continues whose predecessor is in no file."""
log = logging.getLogger(__name__)


def read_shards(shards: Iterable[bytes]) -> list[Row]:
    """The rows of files, each once; a last line that was cut off is left out.

    Raises StudyError for rows of a later version.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    former: list[list[Row]] = []
    for shard in shards:
        old: list[Row] = []
        for table, row in _read_lines(shard):
            if set(row) == COLUMNS_1.get(table) and not isinstance(row.get("rater"), str):
                old.append((table, row))
            elif set(row) == COLUMNS.get(table):
                rows[key(table, row)] = table, row
            else:
                raise StudyError("the mirror is of a later version", "Use that version")
        former.append(old)
    for table, row in _upgraded(former):
        rows.setdefault(key(table, row), (table, row))
    return list(rows.values())


def _read_lines(shard: bytes) -> list[Row]:
    found: list[Row] = []
    # by bytes: text may hold other ends of lines, and a torn one may end within a character
    for line in shard.split(b"\n"):
        if line:
            try:
                table, row = json.loads(line.decode("utf-8", "surrogatepass"))
                hash(table)
                found.append((table, dict(row)))
            except (ValueError, TypeError):
                log.warning("a line of the mirror is damaged and was left out")
    return found


def _upgraded(shards: Sequence[Sequence[Row]]) -> list[Row]:
    """Rows of version 1 as those of the present version."""
    given: dict[int, str] = {}
    for table, row in (r for shard in shards for r in shard):
        if table == "raters":
            given.setdefault(row["id"], row["code_sha256"])
    out: list[Row] = []
    events: dict[str, Values] = {}
    raters: dict[str, str] = {}
    task_of: dict[str, str] = {}
    for shard in shards:
        own = {row["id"]: row["code_sha256"] for table, row in shard if table == "raters"}
        codes = given | own
        for table, row in shard:
            if table == "raters":
                out.append((table, _without_id(row)))
            elif table == "tasks" and row["rater"] in codes:
                task_of[row["id"]] = codes[row["rater"]]
                out.append((table, row | {"rater": codes[row["rater"]]}))
            elif table == "events":
                events[row["chain"]] = row
                raters[row["chain"]] = codes.get(row["rater"], "")
        controls = sorted((r for t, r in shard if t == "controls"), key=lambda r: int(r["id"]))
        out += [("controls", _without_id(row)) for row in upgrade_controls(controls, codes)]
    for row in _linked(events):
        code = task_of.get(row["task"], raters[row["chain"]])
        out.append(("events", _without_id(row) | {"rater": code}))
    return out


def _linked(events: Mapping[str, Values]) -> list[Values]:
    """Events of version 1, each with the one it continues: the one before it whose hash fits."""
    by_number: dict[int, list[Values]] = {0: [{"chain": GENESIS, "stamp": 0}]}
    linked = []
    for row in sorted(events.values(), key=lambda r: (r["id"], r["chain"])):
        candidates = by_number.get(row["id"] - 1, [])
        tries = [upgrade_event(row, before) for before in candidates]
        lost = upgrade_event(row, {"chain": LOST, "stamp": 0})
        found = next((event for event in tries if link(event) == row["chain"]), lost)
        by_number.setdefault(row["id"], []).append(found)
        linked.append(found)
    return linked


def _without_id(row: Values) -> Values:
    return {name: value for name, value in row.items() if name != "id"}
