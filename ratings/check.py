"""Whether a study file is whole: what `python -m ratings check` reports."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from macd_studio.ratings.chain import GENESIS, ORDER, link, stamp_after
from macd_studio.ratings.errors import StudyError
from macd_studio.ratings.preregistration import sha256
from macd_studio.ratings.reveal import check_media, revealed, verify
from macd_studio.ratings.schema import FROZEN, SEALED
from macd_studio.ratings.store import Study


def check_study(path: str | Path) -> dict[str, int]:
    """Counts of what was checked. Raises StudyError with the first thing that is wrong.

    The database's own structure; that the preregistration is the one whose sha256 stands beside;
    that media and arms are those it names; that no event is missing, changed or out of order.
    """
    with Study(path, write=False) as study:
        try:
            _check_database(study)
            _check_triggers(study)
            items = _check_items(study)
            events = _check_events(study)
        except sqlite3.DatabaseError as error:
            raise StudyError(
                f"the study is damaged ({error})", "Give another copy of it"
            ) from error
        return {"items": items, "raters": len(study.raters()), "events": events}


def _check_database(study: Study) -> None:
    for row in study.rows("PRAGMA integrity_check"):
        if row[0] != "ok":
            raise StudyError(f"the study is damaged ({row[0]})", "Give another copy of it")
    if study.rows("PRAGMA foreign_key_check"):
        raise StudyError("rows of the study name others that are not there", "Give another copy")


def _check_triggers(study: Study) -> None:
    there = {r["name"] for r in study.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    wanted = {f"{t}_{change}" for t in FROZEN for change in ("update", "delete")}
    wanted |= {f"{t}_insert" for t in SEALED}
    if missing := wanted - there:
        raise StudyError(
            f"the study is not frozen: {min(missing)} was taken out", "Give an untouched copy"
        )


def _check_items(study: Study) -> int:
    beside = study.path.with_suffix(".preregistration.json")
    if beside.is_file():
        text = beside.read_text(encoding="utf-8")
        if sha256(text) != study.preregistration_sha256:
            raise StudyError(
                f"the preregistration in {beside.name!r} is not the study's", "Give the right one"
            )
    if study.salt is not None:
        verify(study.preregistration_text, revealed(study))
    check_media(study, study.items)
    return len(study.items)


def _check_events(study: Study) -> int:
    codes = {rater.id: rater.code for rater in study.raters()}
    rater_of = {r["id"]: r["rater"] for r in study.rows("SELECT id, rater FROM tasks")}
    stamps = {GENESIS: 0}
    rows = [dict(row) for row in study.rows(f"SELECT * FROM events ORDER BY {ORDER}")]
    for row in rows:
        before = [stamps.get(parent) for parent in row["parents"].split()]
        known = [stamp for stamp in before if stamp is not None]
        of_version_1 = row["writer"] == ""
        in_order = len(known) == len(before) > 0 and row["stamp"] > max(known)
        if of_version_1 and in_order:
            in_order = row["stamp"] == stamp_after(row["server_time"], max(known))
        signed = of_version_1 or row["signer"] == codes.get(row["rater"])
        own = row["task"] is None or rater_of[row["task"]] == row["rater"]
        if not (in_order and signed and own and row["chain"] == link(row)):
            raise StudyError(f"event {row['id']} was changed, or one before it is missing", REMEDY)
        stamps[row["chain"]] = row["stamp"]
    for count, number in enumerate(sorted(row["id"] for row in rows), 1):
        if number != count:
            raise StudyError(f"an event before {number} is missing", REMEDY)
    return len(rows)


REMEDY = "Give another copy; the events up to there are sound"


def as_line(counts: dict[str, int]) -> str:
    """What the command prints where nothing is wrong."""
    return "sound: " + json.dumps(counts)[1:-1].replace('"', "")
