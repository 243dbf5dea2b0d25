"""Whether a study file is whole, and what opens its preregistration once the study is over.

A preregistration commits to each item's part, masks and pictures by a hash with a secret salt. The
reveal holds the salt and what was sealed: with both files anybody can check that nothing was chosen
after the ratings were seen.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.ratings.chain import GENESIS, ORDER, link, stamp_after
from macd_studio.ratings.erasure import tombstone
from macd_studio.ratings.errors import Refused, StudyError, read_text
from macd_studio.ratings.media import MAGIC
from macd_studio.ratings.preregistration import canonical, sealed_sha256, sha256
from macd_studio.ratings.roster import CLOSED, REVEAL
from macd_studio.ratings.secret import write_private
from macd_studio.ratings.store import Study
from macd_studio.ratings.study_file import FROZEN, SEALED


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
    erased = study.erased()
    rater_of = {r["id"]: r["rater"] for r in study.rows("SELECT id, rater FROM tasks")}
    stamps = {GENESIS: 0}
    rows = [dict(row) for row in study.rows(f"SELECT * FROM events ORDER BY {ORDER}")]
    for row in rows:
        before = [stamps.get(parent) for parent in row["parents"].split()]
        known = [stamp for stamp in before if stamp is not None]
        is_erased = codes.get(row["rater"]) in erased
        of_version_1 = row["writer"] == "" and not is_erased
        in_order = len(known) == len(before) > 0 and row["stamp"] > max(known)
        if of_version_1 and in_order:
            in_order = row["stamp"] == stamp_after(row["server_time"], max(known))
        signed = of_version_1 or row["signer"] == codes.get(row["rater"])
        own = row["task"] is None or rater_of[row["task"]] == row["rater"]
        if is_erased:  # its hash is of what is no longer there
            sound = row == tombstone(row, row["rater"], codes[row["rater"]])
        else:
            sound = signed and row["chain"] == link(row)
        if not (in_order and own and sound):
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


MAX_BYTES = 50 * 10**6
ITEM_KEYS = ("clip", "clip_sha256", "question", "frames")


def reveal(study: Study, out: Path) -> None:
    """Notes in the study that its arms are no longer secret, and writes what it sealed.

    Raises Refused while ratings are taken, OptionError where there is nothing to reveal or the file
    cannot be written.
    """
    if study.salt is None:
        raise OptionError(
            "this study's preregistration holds its digests without a salt",
            "Publish the preregistration itself, once the study is closed",
        )
    if study.state != CLOSED:
        raise Refused(
            f"the study is {study.state}, and what is revealed tells raters the arms apart",
            "Close it on the organiser's page first",
            409,
        )
    study.control(REVEAL)  # before anybody can read the file
    write_private(out, canonical(revealed(study)).encode("utf-8"))


def revealed(study: Study) -> dict[str, Any]:
    """What a reveal holds, as plain values."""
    return {
        "study": study.id,
        "preregistration_sha256": study.preregistration_sha256,
        "salt": study.salt,
        "assignment_key": study.key,
        "sealed": study.sealed,
    }


def verify(preregistration: str, revealed: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of a study, after every digest of its preregistration was computed again.

    preregistration: its text. Raises StudyError with the first thing that does not fit.
    """
    try:
        public, salt = json.loads(preregistration), revealed["salt"]
        sealed, key = revealed["sealed"], revealed["assignment_key"]
        if revealed["preregistration_sha256"] != sha256(preregistration):
            raise _other("this is not the preregistration that the reveal belongs to")
        if public["assignment_key_sha256"] != sha256(key):
            raise _other("the key of the assignment is another one")
        plan = {name: value for name, value in sealed.items() if name != "items"}
        if public["sealed_sha256"] != sealed_sha256(salt, plan):
            raise _other("seed or left-out clips are not those that were preregistered")
        items: list[dict[str, Any]] = sealed["items"]
        committed = {item["sealed_sha256"]: item for item in public["items"]}
        for item in items:
            stated = committed.pop(sealed_sha256(salt, item), None)
            if stated is None or any(stated[name] != item[name] for name in ITEM_KEYS):
                raise _other(f"item {item['number']} is not one that was preregistered")
        if committed:
            raise _other(f"{len(committed)} preregistered items are missing")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StudyError(
            "this is no preregistration with its reveal",
            "Give both files of one study: ratings verify PREREGISTRATION.json REVEAL.json",
        ) from error
    return items


def check_media(study: Study, items: list[dict[str, Any]]) -> None:
    """Raises StudyError where the study shows other items, arms or pictures than these."""
    for item in items:
        number = item["number"]
        clip = study.row("SELECT question, part, sha256 FROM clips WHERE id = ?", number)
        stated = item["question"], item["part"], item["clip_sha256"]
        if clip is None or tuple(clip) != stated:
            raise StudyError(f"item {number} is not the preregistered one", "Give another")
        rows = study.rows("SELECT arm, media FROM sides WHERE clip = ?", number)
        if {r["arm"] for r in rows} != set(item["arms"]):
            raise StudyError(f"item {number} has other arms", "Give an untouched copy")
        for row in rows:
            content, stated = bytes(row["media"]), item["arms"][row["arm"]]["media_sha256"]
            if hashlib.sha256(content).hexdigest() != stated or not content.startswith(MAGIC):
                raise StudyError(
                    f"the pictures of item {number} were changed", "Give an untouched copy"
                )
    (count,) = study.rows("SELECT count(*) FROM clips")[0]
    if count != len(items):
        raise StudyError("the study holds items that were not preregistered", "Give another copy")


def read_json_text(path: Path) -> str:
    """A text file of a study; raises OptionError."""
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise OptionError(f"{path.name[:200]!r} is too large", "Give a file of this project")
    return read_text(path, repr(str(path)[:200]), "Give a JSON file")


def read_reveal(path: Path) -> dict[str, Any]:
    """The file that `reveal` wrote; raises OptionError."""
    text = read_json_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise OptionError(f"{path.name[:200]!r} is no reveal", "Make one: ratings reveal STUDY.db")
    return content


def _other(cause: str) -> StudyError:
    return StudyError(cause, "Ask for the files that were published first")
