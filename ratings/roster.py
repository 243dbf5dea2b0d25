"""Who may do what in a study: raters, the organiser, and whether it is open."""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macd_studio.ratings.chain import stamp_after
from macd_studio.ratings.erasure import ERASE, PURGED, erase_in, erased_code
from macd_studio.ratings.errors import Refused, StudyBusy
from macd_studio.ratings.plan import (
    ADJUDICATED,
    GOLD,
    MAIN,
    PROPOSED,
    TRAINING,
    Shown,
    Task,
    keyed_rng,
    plan_tasks,
)
from macd_studio.ratings.screening import PARTICIPANT, PATTERN, check_completion
from macd_studio.ratings.secret import derived_code, hash_code, new_code
from macd_studio.ratings.study_file import StudyFile

OPEN, PAUSED, CLOSED = "open", "paused", "closed"
STATES = (OPEN, PAUSED, CLOSED)
REVEAL = "reveal"
"""Notes that what the preregistration seals was written to a file; the study stays closed."""
MERGE = "merge"
"""Notes the ends of the branches that were merged, which the next event continues."""
CONFIRM = "confirm"
"""Notes what the organiser decided of a proposed item."""
ROLES = (TRAINING, GOLD, "no")
"""What a proposed item can be; "no": nothing."""
JOIN, COMPLETION, NAMED = "join", "completion", "participant"
"""Note the code of the link for participants, what raters get at the end, and an id."""
MAX_INVITES = 1000
UNPURGED = "the rater was erased, but free space of the file may still hold what was deleted"
PURGE_LATER = "Free disk space and close what reads the study; it is cleared when next opened"
log = logging.getLogger(__name__)
MAX_ADMITTED = 5000
"""Raters of one study, above which nobody who signs in becomes another."""


@dataclass(frozen=True)
class Rater:
    """Somebody with a code. name: what the organiser reads; code: its hash, by which other servers
    know the rater; simulated: by which program, or ""; created: when, s since 1970.
    """

    id: int
    name: str
    code: str
    simulated: str = ""
    revoked: bool = False
    created: float = 0.0
    erased: bool = False


class Roster(StudyFile):
    """A study file with its raters and its organiser."""

    def __init__(self, path: str | Path, *, write: bool = True, **how: Any) -> None:
        super().__init__(path, write=write, **how)
        if write:
            try:
                self.purge()  # what a process that was killed left to do
            except StudyBusy as error:
                log.error("what was erased may still be in free space of the file", exc_info=error)

    def invite(self, count: int, simulated: str = "") -> list[str]:
        """Makes raters with their screens; their codes, which are kept nowhere."""
        if not 1 <= count <= MAX_INVITES:
            raise Refused(f"{count} invitations", f"Choose 1 to {MAX_INVITES}")
        if self.state == CLOSED:
            raise Refused("the study is closed", "Open it again before you invite")
        codes = [new_code() for _ in range(count)]
        self._add_raters(codes, simulated)
        return codes

    def admit(self, identity: str) -> str:
        """The code of somebody whom a login has identified, who becomes a rater the first time.

        The code is derived from the identity and the study's key, so that nothing of the identity
        is stored. Raises Refused where the study has as many raters as it can have.
        """
        code = derived_code(self._login_key, identity)
        with self._lock:
            if self.rater_of(code) is None:
                if erased_code(hash_code(code)) in self.erased():
                    raise Refused(
                        "what you gave was erased on request", "You cannot take part again", 403
                    )
                row = self.row("SELECT count(*) AS raters FROM raters")
                if row is None or row["raters"] >= MAX_ADMITTED:
                    raise Refused("the study takes no more raters", "Ask its organiser", 403)
                self._add_raters([code], signed_in=True)
        return code

    def recruit(self) -> str:
        """A new code by which anybody with a participant's id joins; the one before no longer does.

        It stands in a link that all participants get.
        """
        code = new_code()
        self.control(JOIN, hash_code(code))
        return code

    def complete_with(self, code: str, address: str) -> None:
        """Sets what a rater is shown who has finished: a completion code, and where to go back."""
        check_completion(code, address)
        if code and code == self.screened_out["code"]:
            raise Refused("those who fail the screening question get this code", "Give another")
        self.control(COMPLETION, json.dumps({"code": code, "address": address}))

    @property
    def completion(self) -> dict[str, str]:
        """code and address of `complete_with`, empty where there is none."""
        stored = self._last(COMPLETION)
        return {"code": "", "address": ""} if stored is None else dict(json.loads(stored))

    def admit_participant(self, code: str, participant: str) -> str:
        """The rater's code of a participant who came by a link with an id.

        code: of `recruit`, by which they become a rater the first time, always the same one; or a
        rater's own, whose participant is noted. Raises Refused for other codes and ids.
        """
        if not PARTICIPANT.fullmatch(participant):
            raise Refused("the participant's id is not one", PATTERN)
        stored = self._last(JOIN)
        if stored is not None and hmac.compare_digest(hash_code(code), stored):
            code = self.admit(f"participant {participant}")
        elif self.rater_of(code) is None:
            raise Refused(
                "this link opens no study", "Ask whoever invited you for another one", 401
            )
        rater = self.rater_of(code)
        if rater is not None and self.participants().get(rater.code) is None:
            self.control(NAMED, f"{rater.code} {participant}")
        return code

    def participants(self) -> dict[str, str]:
        """By the hash of a rater's code, the participant's id that came first."""
        named: dict[str, str] = {}
        for r in self._controls(NAMED):
            code, participant = str(r["value"]).split(" ", 1)
            named.setdefault(code, participant)
        return named

    def _add_raters(
        self, codes: list[str], simulated: str = "", *, signed_in: bool = False
    ) -> None:
        shown = {part: self._shown(part) for part in (MAIN, TRAINING, GOLD)}
        with self.transaction() as db:
            (known,) = db.execute("SELECT coalesce(max(id), 0) FROM raters").fetchone()
            # adjudicators take no place in the pairs of raters
            (others,) = db.execute(
                "SELECT count(DISTINCT rater) FROM tasks WHERE part = ?", (ADJUDICATED,)
            ).fetchone()
            for number, code in enumerate(codes, known + 1):
                row = (
                    number,
                    free_name(db, number),
                    hash_code(code),
                    simulated or None,
                    self.clock(),
                )
                db.execute("INSERT INTO raters VALUES (?, ?, ?, ?, ?)", row)
                # who signs in may do so at two servers that do not know of each other, and gets
                # the same screens there: drawn by the code, not by how many came before
                rng = keyed_rng(self._login_key, "screens", code) if signed_in else None
                place = number - 1 - others if rng is None else int(rng.integers(2**31))
                tasks = plan_tasks(
                    self.design, shown[MAIN], shown[TRAINING], shown[GOLD],
                    self.preregistration["repeat"], self.key, place,
                )  # fmt: skip
                ids = [(secrets.token_bytes if rng is None else rng.bytes)(16).hex() for _ in tasks]
                insert_tasks(db, number, tasks, ids)

    def add_adjudicator(self, code: str, tasks: Sequence[Task]) -> None:
        """Makes somebody with this code who rates these screens, and is no rater of the others."""
        with self.transaction() as db:
            (known,) = db.execute("SELECT coalesce(max(id), 0) FROM raters").fetchone()
            name = free_name(db, 1, "A")
            row = (known + 1, name, hash_code(code), None, self.clock())
            db.execute("INSERT INTO raters VALUES (?, ?, ?, ?, ?)", row)
            insert_tasks(db, known + 1, tasks, [secrets.token_hex(16) for _ in tasks])

    def confirm(self, item: int, role: str) -> None:
        """Notes what a proposed item is for raters invited from now on: one of ROLES.

        Raises Refused for an item that was not proposed.
        """
        if role not in ROLES:
            raise Refused("there is no such role", f"Choose one of {', '.join(ROLES)}")
        if not any(i["number"] == item and i["part"] == PROPOSED for i in self.items):
            raise Refused("this item was not proposed", "Reload the page", 404)
        self.control(CONFIRM, f"{item} {role}")

    def confirmed(self) -> dict[int, str]:
        """By the number of every proposed item, its role; "" where nothing was decided."""
        roles = {i["number"]: "" for i in self.items if i["part"] == PROPOSED}
        for r in self._controls(CONFIRM):
            number, role = str(r["value"]).split(" ", 1)
            if int(number) in roles:
                roles[int(number)] = role
        return roles

    def _shown(self, part: str) -> list[Shown]:
        sides = self._sides_of(part)
        if part in (TRAINING, GOLD):
            roles = self.confirmed()
            sides += [s for s in self._sides_of(PROPOSED) if roles.get(s.clip) == part]
        return sides

    def _sides_of(self, part: str) -> list[Shown]:
        order = {a: i for i, a in enumerate(self.preregistration["arms"])}
        sides: dict[int, list[tuple[int, int]]] = {}
        for r in self.rows(
            "SELECT s.id, s.clip, s.arm FROM sides s JOIN clips c ON c.id = s.clip"
            " WHERE c.part = ? ORDER BY s.clip, s.arm",
            part,
        ):
            sides.setdefault(r["clip"], []).append((order.get(r["arm"], len(order)), r["id"]))
        return [Shown(clip, tuple(i for _, i in sorted(z))) for clip, z in sides.items()]

    def raters(self) -> list[Rater]:
        """All raters, revoked ones among them."""
        revoked, erased = self._revoked(), self.erased()
        return [_rater(r, revoked, erased) for r in self.rows("SELECT * FROM raters ORDER BY id")]

    def rater_of(self, code: str) -> Rater | None:
        """The rater with this code, a revoked one too; None where there is none."""
        # by its hash, so that the time of the search tells nothing of the code
        row = self.row("SELECT * FROM raters WHERE code_sha256 = ?", hash_code(code))
        return None if row is None else _rater(row, self._revoked(), set())

    def is_organiser(self, code: str) -> bool:
        """Whether this is the organiser's code; the last one that was made holds."""
        stored = self._last("organiser")
        return stored is not None and hmac.compare_digest(hash_code(code), stored)

    def renew_organiser(self) -> str:
        """A new code of the organiser; the one before no longer holds."""
        code = new_code()
        self.control("organiser", hash_code(code))
        return code

    def control(self, what: str, value: str | None = None) -> None:
        """Notes a change of the study's state: open, paused, closed, revoke, restore, reveal.

        Raises Refused for opening a study whose arms have been revealed.
        """
        if what in (OPEN, PAUSED) and self._controls(REVEAL):
            raise Refused(
                "the arms of this study were revealed, so that no further rating would be blind",
                "Make a new study: ratings create",
                409,
            )
        with self.transaction() as db:
            self.add_control(db, what, value)

    def add_control(self, db: sqlite3.Connection, what: str, value: str | None) -> None:
        """A control inside a transaction, after everything that the study holds."""
        db.execute(
            "INSERT INTO controls (time, what, value, writer, stamp) VALUES (?, ?, ?, ?, ?)",
            (self.clock(), what, value, self.writer, stamp_after(self.clock(), last_stamp(db))),
        )

    def revoke(self, name: str, *, restore: bool = False) -> None:
        """The rater's code no longer opens anything, or does again. Ratings stay."""
        self.control("restore" if restore else "revoke", self._named(name).code)

    def _named(self, name: str) -> Rater:
        rater = next((r for r in self.raters() if r.name == name and not r.erased), None)
        if rater is None:
            raise Refused(f"there is no rater {name[:20]!r}", "Choose a listed one", 404)
        return rater

    def erase(self, name: str) -> int:
        """Takes everything that a rater gave, and what is known of them, out of the study.

        Gives how many events became tombstones (`ratings.erasure`). It cannot be taken back. Raises
        Refused for a rater who is not listed, StudyBusy where the file could not be written, or not
        be cleared of what was deleted: that is done when the study is next opened for writing.
        """
        rater = self._named(name)
        with self.transaction() as db:
            events = erase_in(db, rater.id, rater.code)
            self.add_control(db, ERASE, erased_code(rater.code))
        self.purge()
        return events

    def erased(self) -> set[str]:
        """Of every erased rater the `erasure.erased_code`."""
        return {r["value"] for r in self._controls(ERASE)}

    def purge(self) -> None:
        """Writes the file anew where its free space may hold what was erased. Raises StudyBusy."""
        left = self.erased() - {r["value"] for r in self._controls(PURGED)}
        if not left:
            return
        with self._lock:
            try:
                self._db.execute("VACUUM")
                busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                raise StudyBusy(f"{UNPURGED} ({error})", PURGE_LATER) from error
        if busy:
            raise StudyBusy(UNPURGED, PURGE_LATER)
        with self.transaction() as db:
            for code in sorted(left):
                self.add_control(db, PURGED, code)

    def _revoked(self) -> set[str]:
        revoked: set[str] = set()
        for r in self._controls("revoke", "restore"):
            (revoked.add if r["what"] == "revoke" else revoked.discard)(r["value"])
        return revoked

    def _controls(self, *what: str) -> list[sqlite3.Row]:
        marks = ", ".join("?" * len(what))
        query = f"SELECT what, value FROM controls WHERE what IN ({marks}) ORDER BY stamp, writer"
        return self.rows(query, *what)

    def _last(self, what: str) -> str | None:
        return next((r["value"] for r in reversed(self._controls(what))), None)

    @property
    def state(self) -> str:
        """open; paused: no further item is shown; closed: nothing more is taken."""
        return next((str(r["what"]) for r in reversed(self._controls(*STATES))), OPEN)


def _rater(row: sqlite3.Row, revoked: set[str], erased: set[str]) -> Rater:
    code = row["code_sha256"]
    simulated, created = row["simulated"] or "", row["created"]
    number, name = row["id"], row["name"]
    return Rater(number, name, code, simulated, code in revoked, created, code in erased)


def last_stamp(db: sqlite3.Connection) -> int:
    """The newest stamp of the study, 0 where there is none."""
    (newest,) = db.execute(
        "SELECT max((SELECT coalesce(max(stamp), 0) FROM events),"
        " (SELECT coalesce(max(stamp), 0) FROM controls))"
    ).fetchone()
    return int(newest)


def free_name(db: sqlite3.Connection, number: int, letter: str = "R") -> str:
    """The name of a new rater: R and the number, or the next one that nobody has.

    letter: A for an adjudicator.
    """
    while db.execute("SELECT 1 FROM raters WHERE name = ?", (f"{letter}{number:02d}",)).fetchone():
        number += 1
    return f"{letter}{number:02d}"


def insert_tasks(
    db: sqlite3.Connection, rater: int, tasks: Sequence[Task], ids: Sequence[str]
) -> None:
    """Adds a rater's screens in their order, under these ids."""
    for at, task in sorted(enumerate(tasks), key=lambda z: z[1].repeats is not None):
        again = None if task.repeats is None else ids[task.repeats]
        row = (ids[at], rater, at, task.part, task.clip, task.left, task.right, again)
        db.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
