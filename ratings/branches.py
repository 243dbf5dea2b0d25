"""What two servers of one study took, brought together: every event once, in the order of all.

A branch is a list of rows that were added since the study was created: of another file, or JSON
lines of a mirror. They name raters by the hash of their codes and events by their hashes, so that
they mean the same in every file of the study. Rows of version 1 name raters by numbers, which two
servers may have given to different people: a number means what the same file says of it, else the
one rater whom any file gives it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from macd_studio.core.text.words import count
from macd_studio.ratings.answers import forks_of
from macd_studio.ratings.chain import GENESIS, Fork, heads, link
from macd_studio.ratings.erasure import (
    ERASE,
    ERASED,
    PURGED,
    erase_in,
    erased_code,
    without_erased,
)
from macd_studio.ratings.errors import StudyError
from macd_studio.ratings.roster import MERGE, free_name
from macd_studio.ratings.store import Study
from macd_studio.ratings.study_file import insert_row, upgrade_controls, upgrade_event

Values = dict[str, Any]
Row = tuple[str, Values]
TABLES = ("raters", "tasks", "controls", "events")
"""What is added to a study after its creation, in the order in which rows name one another."""
NUMBERS = {"raters": "id", "tasks": "rater", "controls": "id", "events": "id"}
"""By table, the column that rises in one file. A rater's tasks come with the rater."""
COLUMNS = {
    "raters": {"name", "code_sha256", "simulated", "created"},
    "tasks": {"id", "rater", "position", "part", "clip", "left_side", "right_side", "repeats"},
    "controls": {"time", "what", "value", "writer", "stamp"},
    "events": {
        "uuid", "rater", "task", "side", "kind", "old", "new", "note", "tab", "count",
        "client_time", "elapsed_ms", "server_time", "conflict", "writer", "stamp", "signer",
        "parents", "chain",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    events: int
    raters: int
    """`events` and `raters`: how many were added."""
    renamed: tuple[tuple[str, str], ...]
    """Pairs of the name that a rater had and the one they have here."""
    changed: int
    """Events that do not fit their hash."""
    orphans: int
    """Events of raters or screens that the branch lacks, which were left out."""
    forks: tuple[Fork, ...]
    """Forks that came to light by this merge."""

    def lines(self) -> list[str]:
        """In words, for the organiser."""
        told = [f"{count(self.events, 'event')} and {count(self.raters, 'rater')} added"]
        told += [f"another server's {former} is {now} here" for former, now in self.renamed]
        told += [words for fork in self.forks for words in fork_lines(fork)]
        if self.changed:
            told.append(f"{count(self.changed, 'event')} changed since: see `ratings check`")
        if self.orphans:
            told.append(f"{count(self.orphans, 'event')} left out: their raters are missing")
        return told


def fork_lines(fork: Fork) -> list[str]:
    """In words, what happened at a fork."""
    after = "before any event" if fork.after is None else f"after the event of {_clock(fork.after)}"
    sides = "; ".join(
        f"server {' and '.join(w or 'of an earlier version' for w in b.writers)} took"
        f" {count(b.events, 'event')} of {count(b.raters, 'rater')} from {_clock(b.began)} to"
        f" {_clock(b.ended)}"
        for b in fork.branches
    )
    told = [f"the study was forked {after}: {sides}. All are kept"]
    if fork.twice:
        told.append(f"{count(fork.twice, 'event')} came to both servers and counts once")
    if fork.masks:
        told.append(f"{count(fork.masks, 'mask')} rated at both: the later rating counts")
    return told


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def numbered_rows(study: Study, since: Mapping[str, int]) -> Iterator[tuple[int, Row]]:
    """Rows that were added after those numbers of each table, each with its number."""
    for table in TABLES:
        number, source, code = NUMBERS[table], f"{table} t", ""
        if table in ("tasks", "events"):
            source, code = f"{source} JOIN raters r ON r.id = t.rater", ", r.code_sha256 AS code"
        order = "rater, repeats IS NOT NULL, position" if table == "tasks" else f"t.{number}"
        query = f"SELECT t.*{code} FROM {source} WHERE t.{number} > ? ORDER BY {order}"
        for found in study.rows(query, since.get(table, 0)):
            if table == "controls" and found["what"] == PURGED:
                continue
            row = {name: found[name] for name in found.keys() if name in COLUMNS[table]}
            if code:
                row["rater"] = found["code"]
            yield found[number], (table, row)


def read_rows(study: Study) -> list[Row]:
    """Everything that was added to a study."""
    return [row for _, row in numbered_rows(study, {})]


def key(table: str, row: Values) -> tuple[Any, ...]:
    """By what a row is known in every file of the study."""
    if table == "raters":
        return table, row["code_sha256"]
    if table == "controls" and row["writer"] == "":
        return table, row["time"], row["what"], row["value"]
    if table == "controls":
        return table, row["writer"], row["stamp"]
    return table, row["chain" if table == "events" else "id"]


def erased_by(rows: Iterable[Row]) -> set[str]:
    """Of raters whom the rows say to be erased, the `erasure.erased_code`."""
    return {r["value"] for table, r in rows if table == "controls" and r["what"] == ERASE}


def merge(study: Study, rows: Iterable[Row]) -> Merged:
    """Adds what the study does not have yet, all of it or nothing.

    Raises StudyError for rows of another study or of a later version, StudyBusy where nothing can
    be written.
    """
    by_table: dict[str, list[Values]] = {table: [] for table in TABLES}
    rows = list(rows)
    for table, row in rows:
        if set(row) != COLUMNS.get(table):
            raise StudyError("the branch is of a later version", "Use that version")
    erased = study.erased() | erased_by(rows)
    for table, row in without_erased(rows, erased):
        by_table[table].append(row)
    former = forks_of(study)
    try:
        with study.transaction() as db:
            for rater in study.raters():
                if erased_code(rater.code) in erased:
                    erase_in(db, rater.id, rater.code)
            raters, renamed = _add_raters(db, by_table["raters"])
            ids = {code: number for code, (number, _) in raters.items()}
            wanted = {row["task"] for row in by_table["events"]}
            _add_tasks(db, by_table["tasks"], ids, wanted)
            _add_controls(db, by_table["controls"])
            added, changed, orphans = _add_events(db, by_table["events"], ids)
            ends = heads(map(dict, db.execute("SELECT chain, parents FROM events")))
            if added and len(ends) > 1:
                study.add_control(db, MERGE, " ".join(ends))
    except (sqlite3.IntegrityError, sqlite3.InterfaceError, KeyError, TypeError) as error:
        raise StudyError(
            f"the branch does not fit the study ({type(error).__name__})",
            "Give a branch of the same study",
        ) from error
    study.purge()
    forks = tuple(fork for fork in forks_of(study) if fork not in former)
    new = sum(is_new for _, is_new in raters.values())
    return Merged(added, new, tuple(renamed), changed, orphans, forks)


def _add_raters(
    db: sqlite3.Connection, rows: Sequence[Values]
) -> tuple[dict[str, tuple[int, bool]], list[tuple[str, str]]]:
    """The number of every rater by the hash of the code, and whether they are new; new names."""
    known = db.execute("SELECT id, code_sha256 FROM raters").fetchall()
    raters = {r["code_sha256"]: (r["id"], False) for r in known}
    number, renamed = max((r["id"] for r in known), default=0), []
    for row in sorted(rows, key=lambda r: (r["created"], r["code_sha256"])):
        if row["code_sha256"] in raters:
            continue
        number += 1
        taken = db.execute("SELECT 1 FROM raters WHERE name = ?", (row["name"],)).fetchone()
        letter = "A" if str(row["name"]).startswith("A") else "R"
        name = free_name(db, number, letter) if taken else row["name"]
        if taken:
            renamed.append((row["name"], name))
        insert_row(db, "raters", row | {"id": number, "name": name})
        raters[row["code_sha256"]] = number, True
    return raters, renamed


def _add_tasks(
    db: sqlite3.Connection, rows: Sequence[Values], ids: Mapping[str, int], wanted: set[str]
) -> None:
    """Screens of new raters; of others only those with events, after the ones that they have.

    Somebody who signed in at two servers of version 1 has two plans: the first one stays.
    """
    present = {r["id"] for r in db.execute("SELECT id FROM tasks")}
    last: dict[int, int] = {}
    for r in db.execute("SELECT rater, max(position) AS last FROM tasks GROUP BY rater"):
        last[r["rater"]] = r["last"]
    former = set(last)
    repeated = {row["repeats"] for row in rows if row["id"] in wanted}
    for row in sorted(rows, key=lambda r: (r["repeats"] is not None, r["position"])):
        rater = ids[row["rater"]]
        if row["id"] in present or (
            rater in former and row["id"] not in wanted and row["id"] not in repeated
        ):
            continue
        position = row["position"]
        if rater in former:
            position = last[rater] = last[rater] + 1
        insert_row(db, "tasks", row | {"rater": rater, "position": position})
        present.add(row["id"])


def _add_controls(db: sqlite3.Connection, rows: Sequence[Values]) -> None:
    present = {key("controls", dict(r)) for r in db.execute("SELECT * FROM controls")}
    for row in sorted(rows, key=lambda r: (r["stamp"], r["writer"])):
        if key("controls", row) not in present:
            insert_row(db, "controls", row)
            present.add(key("controls", row))


def _add_events(
    db: sqlite3.Connection, rows: Sequence[Values], ids: Mapping[str, int]
) -> tuple[int, int, int]:
    """How many were added, how many of them do not fit their hash, and how many had no place."""
    present = {r["chain"] for r in db.execute("SELECT chain FROM events")}
    tasks = {r["id"] for r in db.execute("SELECT id FROM tasks")} | {None}
    added = changed = orphans = 0
    for row in sorted(rows, key=lambda r: (r["stamp"], r["writer"], r["chain"])):
        if row["chain"] in present:
            continue
        if row["rater"] not in ids or row["task"] not in tasks:
            orphans += 1
            continue
        changed += row["kind"] != ERASED and link(row) != row["chain"]
        insert_row(db, "events", row | {"rater": ids[row["rater"]]})
        present.add(row["chain"])
        added += 1
    return added, changed, orphans


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
