"""A study file that is being served: raters, their screens, and the append-only events.

study = Study(path)
study.append(rater, [event])  # returns when the event is on the disk; raises StudyBusy if it is not
"""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from macd_studio.ratings.chain import GENESIS, NEWEST, ORDER, link, stamp_after
from macd_studio.ratings.connection import connect
from macd_studio.ratings.errors import Refused, StudyBusy, StudyError
from macd_studio.ratings.events import MOST_LOW, Event, refused_again
from macd_studio.ratings.plan import GOLD, MAIN, TRAINING, Shown, keyed_rng, plan_tasks
from macd_studio.ratings.preregistration import sha256
from macd_studio.ratings.schema import insert_row
from macd_studio.ratings.secret import derived_code, hash_code, new_code, new_private_file

OPEN, PAUSED, CLOSED = "open", "paused", "closed"
STATES = (OPEN, PAUSED, CLOSED)
REVEAL = "reveal"
"""Notes that what the preregistration seals was written to a file; the study stays closed."""
MERGE = "merge"
"""Notes the ends of the branches that were merged, which the next event continues."""
MOST_INVITES = 1000
MOST_OF_RATER, MOST_NOTES = 20_000, 2_000
"""Events of one rater, and those with a note; whoever rates for hours sends some hundred."""
MOST_ADMITTED = 5000
"""Raters of one study, above which nobody who signs in becomes another."""


@dataclass(frozen=True)
class Rater:
    """Somebody with a code. name: what the organiser reads; code: its hash, by which other servers
    know the rater; simulated: by which program, or "".
    """

    id: int
    name: str
    code: str
    simulated: str = ""
    revoked: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of an event: committed, or refused with the reason."""

    uuid: str
    committed: bool
    reason: str = ""


class Study:
    """One open study; safe between threads. network: see `ratings.schema.connect`."""

    def __init__(
        self,
        path: str | Path,
        *,
        write: bool = True,
        network: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path, self.clock = Path(path), clock
        self.writer = secrets.token_hex(8)
        """Stands in everything that this process adds: no two servers add under the same name."""
        self.on_commit: Callable[[], None] | None = None
        """Called after each commit, beside no lock; must not raise."""
        self._lock = threading.RLock()
        self._db = connect(path, write=write, network=network)
        try:
            meta = {r["name"]: r["value"] for r in self._db.execute("SELECT * FROM meta")}
            self.preregistration_text = meta["preregistration"]
            self.preregistration: dict[str, Any] = json.loads(self.preregistration_text)
            self.preregistration_sha256 = sha256(self.preregistration_text)
            self.instructions, self.key = meta["instructions"], meta["key"]
            self._login_key = meta.get("login_key", self.key)
            self.id, self.design = self.preregistration["study"], self.preregistration["design"]
            self.salt: str | None = meta.get("salt")
            # the preregistration of a study without a salt holds everything itself
            self.sealed: dict[str, Any] = (
                json.loads(meta["sealed"])
                if self.salt
                else {name: self.preregistration[name] for name in ("seed", "left_out", "items")}
            )
            self.items: list[dict[str, Any]] = self.sealed["items"]
            self.left_out: list[dict[str, str]] = self.sealed["left_out"]
        except sqlite3.OperationalError as error:
            self._db.close()
            raise StudyBusy(
                f"the study cannot be read ({error})", "Close what has it open"
            ) from error
        except (sqlite3.DatabaseError, KeyError, ValueError) as error:
            self._db.close()
            raise StudyError("the study is damaged", "Give another copy of it") from error

    def close(self) -> None:
        """Nothing can be read or written afterwards."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """The rows of a query."""
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query."""
        with self._lock:
            first: sqlite3.Row | None = self._db.execute(sql, values).fetchone()
            return first

    def copy_to(self, path: Path) -> None:
        """A whole copy of the study as it is now; raises StudyError where it cannot be written."""
        try:
            new_private_file(path)
            with self._lock, closing(sqlite3.connect(path)) as copy:
                self._db.backup(copy)
        except (OSError, sqlite3.Error) as error:
            raise StudyError(f"the copy failed ({error})", "Choose another place") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside is on the disk when this ends, or nothing is. Raises StudyBusy."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    try:
                        self._db.execute("ROLLBACK")
                    except sqlite3.Error:  # a full disk may have ended it already
                        pass
                if isinstance(error, sqlite3.OperationalError):
                    raise StudyBusy(
                        f"nothing was saved ({error})", "Free space on the disk; it is sent again"
                    ) from error
                raise
        if self.on_commit is not None:
            self.on_commit()

    # ---- who may do what

    def invite(self, count: int, simulated: str = "") -> list[str]:
        """Makes raters with their screens; their codes, which are kept nowhere."""
        if not 1 <= count <= MOST_INVITES:
            raise Refused(f"{count} invitations", f"Choose 1 to {MOST_INVITES}")
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
                row = self.row("SELECT count(*) AS raters FROM raters")
                if row is None or row["raters"] >= MOST_ADMITTED:
                    raise Refused("the study takes no more raters", "Ask its organiser", 403)
                self._add_raters([code], signed_in=True)
        return code

    def _add_raters(
        self, codes: list[str], simulated: str = "", *, signed_in: bool = False
    ) -> None:
        shown = {part: self._shown(part) for part in (MAIN, TRAINING, GOLD)}
        with self.transaction() as db:
            (known,) = db.execute("SELECT coalesce(max(id), 0) FROM raters").fetchone()
            for number, code in enumerate(codes, known + 1):
                db.execute(
                    "INSERT INTO raters VALUES (?, ?, ?, ?, ?)",
                    (number, free_name(db, number), hash_code(code), simulated or None,
                     self.clock()),
                )  # fmt: skip
                # who signs in may do so at two servers that do not know of each other, and gets
                # the same screens there: drawn by the code, not by how many came before
                rng = keyed_rng(self._login_key, "screens", code) if signed_in else None
                place = number - 1 if rng is None else int(rng.integers(2**31))
                tasks = plan_tasks(
                    self.design, shown[MAIN], shown[TRAINING], shown[GOLD],
                    self.preregistration["repeat"], self.key, place,
                )  # fmt: skip
                ids = [(secrets.token_bytes if rng is None else rng.bytes)(16).hex() for _ in tasks]
                ordered = sorted(enumerate(tasks), key=lambda z: z[1].repeats is not None)
                for at, task in ordered:
                    again = None if task.repeats is None else ids[task.repeats]
                    db.execute(
                        "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        (ids[at], number, at, task.part, task.clip, task.left, task.right, again),
                    )

    def _shown(self, part: str) -> list[Shown]:
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
        revoked = self._revoked()
        return [_rater(r, revoked) for r in self.rows("SELECT * FROM raters ORDER BY id")]

    def rater_of(self, code: str) -> Rater | None:
        """The rater with this code, a revoked one too; None where there is none."""
        # by its hash, so that the time of the search tells nothing of the code
        row = self.row("SELECT * FROM raters WHERE code_sha256 = ?", hash_code(code))
        return None if row is None else _rater(row, self._revoked())

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
        if what in (OPEN, PAUSED) and self._last(REVEAL, "what") is not None:
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
            (self.clock(), what, value, self.writer, stamp_after(self.clock(), _last_stamp(db))),
        )

    def revoke(self, name: str, *, restore: bool = False) -> None:
        """The rater's code no longer opens anything, or does again. Ratings stay."""
        rater = next((r for r in self.raters() if r.name == name), None)
        if rater is None:
            raise Refused(f"there is no rater {name[:20]!r}", "Choose a listed one", 404)
        self.control("restore" if restore else "revoke", rater.code)

    def _revoked(self) -> set[str]:
        revoked: set[str] = set()
        for r in self.rows(
            "SELECT what, value FROM controls WHERE what IN ('revoke', 'restore')"
            " ORDER BY stamp, writer"
        ):
            (revoked.add if r["what"] == "revoke" else revoked.discard)(r["value"])
        return revoked

    def _last(self, what: str, column: str = "value") -> str | None:
        row = self.row(
            "SELECT * FROM controls WHERE what = ? ORDER BY stamp DESC, writer DESC LIMIT 1", what
        )
        return None if row is None else row[column]

    @property
    def state(self) -> str:
        """open; paused: no further item is shown; closed: nothing more is taken."""
        row = self.row(
            "SELECT what FROM controls WHERE what IN ('open', 'paused', 'closed')"
            " ORDER BY stamp DESC, writer DESC LIMIT 1"
        )
        return OPEN if row is None else str(row["what"])

    # ---- what raters see

    def tasks(self, rater: Rater) -> list[dict[str, Any]]:
        """The rater's screens in order: opaque id, kind, ratings and reasons of each mask, done.

        Gold and repeated screens are items like all others.
        """
        answers, reasons = self._answers(rater), self.reasons()
        done = {
            r["task"]
            for r in self.rows(
                "SELECT DISTINCT task FROM events WHERE rater = ? AND kind IN ('next', 'skip')",
                rater.id,
            )
        }
        screens = []
        for r in self.rows("SELECT * FROM tasks WHERE rater = ? ORDER BY position", rater.id):
            places = [(r["id"], side) for side in range(1 if r["right_side"] is None else 2)]
            screens.append({
                "id": r["id"],
                "kind": TRAINING if r["part"] == TRAINING else "item",
                "ratings": [answers.get(place) for place in places],
                "reasons": [reasons.get(place, []) for place in places],
                "done": r["id"] in done,
            })  # fmt: skip
        return screens

    def _answers(self, rater: Rater) -> dict[tuple[str, int], int | None]:
        return {
            (r["task"], r["side"]): r["new"]
            for r in self.rows(
                "SELECT task, side, new FROM history WHERE rater = ? AND kind IN ('rate', 'undo')"
                f" ORDER BY {ORDER}",
                rater.id,
            )
        }

    def reasons(self) -> dict[tuple[str, int], list[str]]:
        """By screen and side, why it was rated low, as it stands."""
        rows = self.rows(
            f"SELECT task, side, note, new FROM history WHERE kind = 'reason' ORDER BY {ORDER}"
        )
        last = {(r["task"], r["side"], r["note"]): bool(r["new"]) for r in rows}
        given: dict[tuple[str, int], list[str]] = {}
        for task, side, word in sorted(place for place, on in last.items() if on):
            given.setdefault((task, side), []).append(word)
        return given

    def _task(self, rater: Rater, task: str) -> sqlite3.Row:
        row = self.row("SELECT * FROM tasks WHERE id = ? AND rater = ?", task, rater.id)
        if row is None:
            raise Refused("there is no such item", "Reload the page", 404)
        return row

    def describe(self, rater: Rater, task: str) -> dict[str, Any]:
        """What a screen shows beside its pictures."""
        row = self._task(rater, task)
        clip = self.row(
            "SELECT question, width, height, times FROM clips WHERE id = ?", row["clip"]
        )
        assert clip is not None
        return {
            "id": task,
            "question": clip["question"],
            "width": clip["width"],
            "height": clip["height"],
            "times": json.loads(clip["times"]),
        }

    def media(self, rater: Rater, task: str, which: str) -> bytes:
        """A packed clip: "clip" without a mask, "0" behind the left one, "1" the right one."""
        row = self._task(rater, task)
        side = {"0": row["left_side"], "1": row["right_side"]}.get(which)
        if which == "clip":
            stored = self.row("SELECT media FROM clips WHERE id = ?", row["clip"])
        else:
            stored = self.row("SELECT media FROM sides WHERE id = ?", side)
        if stored is None:
            raise Refused("there is no such picture", "Reload the page", 404)
        return bytes(stored["media"])

    def feedback(self, rater: Rater, task: str) -> list[dict[str, Any]] | None:
        """For a training screen whose masks are all rated: how each should be, and why."""
        row = self._task(rater, task)
        if row["part"] != TRAINING:
            return None
        answers = self._answers(rater)
        sides = [s for s in (row["left_side"], row["right_side"]) if s is not None]
        if any(answers.get((task, i)) is None for i in range(len(sides))):
            return None
        out = []
        for i, side in enumerate(sides):
            known = self.row("SELECT low, high, reason FROM sides WHERE id = ?", side)
            assert known is not None
            rating = answers[task, i]
            assert rating is not None
            fits = (known["low"] or 1) <= rating <= (known["high"] or 5)
            out.append({"fits": fits, "why": known["reason"] or ""})
        return out

    # ---- what raters do

    def append(self, rater: Rater, events: Sequence[Event]) -> list[Outcome]:
        """Writes events in one transaction; what is committed is on the disk when this returns.

        An event that is there already is committed. One that does not fit is refused, without the
        others. Raises StudyBusy where nothing could be written, Refused where the study is closed.
        """
        if self.state == CLOSED:
            raise Refused("the study is closed", "Ask whoever invited you", 409)
        outcomes = []
        with self.transaction() as db:
            parents, stamp = _ends(db), _last_stamp(db)
            sent, notes = db.execute(
                "SELECT count(*), count(CASE kind WHEN 'flag' THEN 1 END) FROM events"
                " WHERE rater = ?",
                (rater.id,),
            ).fetchone()
            for event in events:
                same = db.execute("SELECT * FROM events WHERE uuid = ?", (event.uuid,))
                if stored := same.fetchall():
                    reason = refused_again(event, rater.id, stored)
                    outcomes.append(Outcome(event.uuid, not reason, reason))
                    continue
                try:
                    old = self._old(rater, event)
                except Refused as error:
                    outcomes.append(Outcome(event.uuid, False, str(error)))
                    continue
                sent, notes = sent + 1, notes + (event.kind == "flag")
                if sent > MOST_OF_RATER or notes > MOST_NOTES:
                    reason = "you have sent more than a study keeps of one rater"
                    outcomes.append(Outcome(event.uuid, False, reason))
                    continue
                conflict = event.kind in ("rate", "undo") and old != event.old
                now = self.clock()
                stamp = stamp_after(now, stamp)
                row = asdict(event) | {
                    "old": old, "server_time": now, "conflict": int(conflict), "rater": rater.id,
                    "signer": rater.code, "writer": self.writer, "stamp": stamp, "parents": parents,
                }  # fmt: skip
                parents = row["chain"] = link(row)
                insert_row(db, "events", row)
                outcomes.append(Outcome(event.uuid, True))
        return outcomes

    def _old(self, rater: Rater, event: Event) -> int | None:
        """The side's rating before the event; raises Refused where the event fits no screen."""
        if event.task is None:
            return None
        row = self._task(rater, event.task)
        if event.side is None:
            return None
        if event.side == 1 and row["right_side"] is None:
            raise Refused("there is no right mask", "Reload the page")
        last = self.row(
            "SELECT new FROM history WHERE task = ? AND side = ? AND kind IN ('rate', 'undo')"
            f" ORDER BY {NEWEST} LIMIT 1",
            event.task,
            event.side,
        )
        rating: int | None = None if last is None else last["new"]
        if event.kind == "reason" and event.new and (rating is None or rating > MOST_LOW):
            raise Refused("this mask is not rated low", f"Rate it {MOST_LOW} or lower first")
        return rating


def _rater(row: sqlite3.Row, revoked: set[str]) -> Rater:
    code = row["code_sha256"]
    return Rater(row["id"], row["name"], code, row["simulated"] or "", code in revoked)


def _last_stamp(db: sqlite3.Connection) -> int:
    """The newest stamp of the study, 0 where there is none."""
    (newest,) = db.execute(
        "SELECT max((SELECT coalesce(max(stamp), 0) FROM events),"
        " (SELECT coalesce(max(stamp), 0) FROM controls))"
    ).fetchone()
    return int(newest)


def _ends(db: sqlite3.Connection) -> str:
    """What the next event continues: the newest event, or the ends of all merged branches."""
    last = db.execute(f"SELECT stamp, chain FROM events ORDER BY {NEWEST} LIMIT 1").fetchone()
    if last is None:
        return GENESIS
    merged = db.execute(
        "SELECT value FROM controls WHERE what = ? AND stamp > ? ORDER BY stamp DESC LIMIT 1",
        (MERGE, last["stamp"]),
    ).fetchone()
    return str(last["chain"] if merged is None else merged["value"])


def free_name(db: sqlite3.Connection, number: int) -> str:
    """The name of a new rater: R and the number, or the next one that nobody has."""
    while db.execute("SELECT 1 FROM raters WHERE name = ?", (f"R{number:02d}",)).fetchone():
        number += 1
    return f"R{number:02d}"
