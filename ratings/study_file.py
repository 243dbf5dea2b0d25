"""The study file: one SQLite database that holds items, media, raters and every event.

What is fixed at creation is frozen by triggers, and events can only be added. A commit is on the
disk when it returns. Studies of former versions are brought into the tables of the present one:
nothing that was rated is changed, and chains keep the hashes that they had.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from macd_studio.core.system.whole import new_private_file
from macd_studio.ratings.chain import GENESIS, stamp_after
from macd_studio.ratings.errors import StudyBusy, StudyError
from macd_studio.ratings.plan import RATINGS
from macd_studio.ratings.preregistration import sha256
from macd_studio.ratings.secret import hide_from_others

VERSION = 3
APPLICATION = 0x4D414344  # "MACD", in the file's header

DDL = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE clips (
    id INTEGER PRIMARY KEY, part TEXT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL,
    question TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL, times TEXT NOT NULL,
    media BLOB NOT NULL, motion TEXT
);
CREATE TABLE sides (
    id INTEGER PRIMARY KEY, clip INTEGER NOT NULL REFERENCES clips, arm TEXT NOT NULL,
    hidden REAL NOT NULL, details TEXT NOT NULL, low INTEGER, high INTEGER, reason TEXT,
    media_sha256 TEXT NOT NULL, media BLOB NOT NULL, UNIQUE (clip, arm)
);
CREATE TABLE objects (
    clip INTEGER NOT NULL REFERENCES clips, track INTEGER NOT NULL, label TEXT NOT NULL,
    gradient REAL, level REAL NOT NULL, PRIMARY KEY (clip, track)
) WITHOUT ROWID;
CREATE TABLE coverage (
    side INTEGER NOT NULL REFERENCES sides, track INTEGER NOT NULL, share REAL NOT NULL,
    PRIMARY KEY (side, track)
) WITHOUT ROWID;
CREATE TABLE raters (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, code_sha256 TEXT NOT NULL UNIQUE,
    simulated TEXT, created REAL NOT NULL
);
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, rater INTEGER NOT NULL REFERENCES raters, position INTEGER NOT NULL,
    part TEXT NOT NULL, clip INTEGER NOT NULL REFERENCES clips,
    left_side INTEGER NOT NULL REFERENCES sides, right_side INTEGER REFERENCES sides,
    repeats TEXT REFERENCES tasks, UNIQUE (rater, position)
) WITHOUT ROWID;
CREATE INDEX tasks_of_rater ON tasks (rater, position);
"""
CONTROLS = """
CREATE TABLE controls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, what TEXT NOT NULL, value TEXT,
    writer TEXT NOT NULL, stamp INTEGER NOT NULL
);
CREATE INDEX controls_in_order ON controls (what, stamp);
"""
EVENTS = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL,
    rater INTEGER NOT NULL REFERENCES raters, task TEXT REFERENCES tasks, side INTEGER,
    kind TEXT NOT NULL, old INTEGER, new INTEGER, note TEXT, tab TEXT NOT NULL,
    count INTEGER NOT NULL, client_time REAL NOT NULL, elapsed_ms REAL, server_time REAL NOT NULL,
    conflict INTEGER NOT NULL, writer TEXT NOT NULL, stamp INTEGER NOT NULL, signer TEXT NOT NULL,
    parents TEXT NOT NULL, chain TEXT NOT NULL UNIQUE
);
CREATE INDEX events_in_order ON events (stamp, writer, chain);
CREATE INDEX events_by_uuid ON events (uuid);
CREATE INDEX events_of_task ON events (task, stamp);
CREATE INDEX events_of_rater ON events (rater, stamp);
CREATE VIEW history AS SELECT * FROM events e WHERE NOT EXISTS (
    SELECT 1 FROM events d
    WHERE d.uuid = e.uuid AND (d.stamp, d.writer, d.chain) < (e.stamp, e.writer, e.chain)
);
"""
"""ids are of this file alone; see `ratings.chain` for what an event is known by elsewhere. history:
every event once, also where two servers took the same one."""
FROZEN = ("meta", "clips", "sides", "objects", "coverage", "raters", "tasks", "controls", "events")
"""Tables whose rows never change; to the first five no row is added after the creation either."""
SEALED = FROZEN[:5]


def create_tables(db: sqlite3.Connection) -> None:
    """The empty tables; rows of FROZEN can be added, but neither changed nor deleted."""
    db.executescript(DDL + CONTROLS + EVENTS)
    for table in FROZEN:
        for change in ("UPDATE", "DELETE"):
            db.execute(
                f"CREATE TRIGGER {table}_{change.lower()} BEFORE {change} ON {table}"
                " BEGIN SELECT RAISE(ABORT, 'rows of a study are never changed'); END"
            )
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def seal(db: sqlite3.Connection) -> None:
    """Freezes what the creation has written: items, arms and the preregistration."""
    for table in SEALED:
        db.execute(
            f"CREATE TRIGGER {table}_insert BEFORE INSERT ON {table}"
            " BEGIN SELECT RAISE(ABORT, 'the study is frozen'); END"
        )


def insert_row(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """Adds a row by the names of its columns."""
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def migrate(db: sqlite3.Connection) -> None:
    """Brings an open study to the present version, in one transaction."""
    db.execute("PRAGMA foreign_keys = OFF")  # tables are made again under the same names
    db.execute("BEGIN IMMEDIATE")
    while (version := db.execute("PRAGMA user_version").fetchone()[0]) != VERSION:
        MIGRATIONS[version](db)
        db.execute(f"PRAGMA user_version = {version + 1}")
    db.execute("COMMIT")
    db.execute("PRAGMA foreign_keys = ON")


def _to_version_2(db: sqlite3.Connection) -> None:
    """Events and controls get a place in an order that other servers agree on."""
    codes = {r["id"]: r["code_sha256"] for r in db.execute("SELECT id, code_sha256 FROM raters")}
    triggers = db.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        " AND tbl_name IN ('controls', 'events')"
    ).fetchall()
    for trigger in triggers:
        db.execute(f"DROP TRIGGER {trigger['name']}")
    db.execute("DROP INDEX events_of_task")
    for table, statements in (("controls", CONTROLS), ("events", EVENTS)):
        db.execute(f"ALTER TABLE {table} RENAME TO former_{table}")
        for statement in statements.split(";\n"):
            if statement.strip():
                db.execute(statement)
    for former in upgrade_controls(
        map(dict, db.execute("SELECT * FROM former_controls ORDER BY id")), codes
    ):
        insert_row(db, "controls", former)
    before = {"chain": GENESIS, "stamp": 0}
    for row in db.execute("SELECT * FROM former_events ORDER BY id"):
        before = upgrade_event(dict(row), before)
        insert_row(db, "events", before)
    for table in ("controls", "events"):
        db.execute(f"DROP TABLE former_{table}")
    for trigger in triggers:  # those that somebody took out stay out
        db.execute(trigger["sql"])


def _to_version_3(db: sqlite3.Connection) -> None:
    """The unmasked clip may have pictures between the masked frames; it had none before."""
    db.execute("ALTER TABLE clips ADD COLUMN motion TEXT")


MIGRATIONS = {1: _to_version_2, 2: _to_version_3}
"""By the version that each one starts from."""


def upgrade_event(row: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """An event of version 1 with the columns of version 2. before: the event that it continues."""
    return row | {
        "writer": "",
        "stamp": stamp_after(row["server_time"], before["stamp"]),
        "signer": str(row["rater"]),
        "parents": before["chain"],
    }


def upgrade_controls(
    rows: Iterable[dict[str, Any]], codes: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    """Controls of version 1 with the columns of version 2. rows: of one server, in their order.

    codes: the hash of each rater's code by the rater's number, which they name raters by.
    """
    stamp = 0
    for row in rows:
        stamp = stamp_after(row["time"], stamp)
        value = row["value"]
        if row["what"] in ("revoke", "restore"):
            value = codes.get(int(value), value)
        yield row | {"value": value, "writer": "", "stamp": stamp}


BUSY_S = 10.0
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs"}
"""File systems whose locks and shared memory a write-ahead log cannot rely on; FUSE's too."""

READ_ONLY = "Copy it to a folder that you may write to, or change its permissions"


def on_network(path: Path, mounts: str | None = None) -> bool:
    """Whether the file lies on a network or FUSE mount. mounts: the text of /proc/mounts."""
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    place, best, kind = str(path.resolve()), "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = fields[1].replace("\\040", " ")
        inside = mount == "/" or place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind in NETWORK or kind.startswith("fuse")


def connect(
    path: str | Path, *, write: bool = False, network: bool | None = None
) -> sqlite3.Connection:
    """Opens a study. Raises StudyError for anything else, StudyBusy where it cannot be opened.

    write: commits wait for the disk (`synchronous`); a write-ahead log lets others read meanwhile.
    network: whether to use a rollback journal and an exclusive lock instead; seen by itself. Its
    `synchronous=EXTRA` waits for the folder too, which a rollback journal needs to be safe.
    """
    place = Path(path)
    if not place.is_file():
        raise StudyError(f"there is no study {str(place)[:200]!r}", "Make one: ratings create")
    remote = on_network(place) if network is None else network
    try:
        db = sqlite3.connect(place, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    except sqlite3.DatabaseError as error:
        raise _opening(place, error) from error
    try:
        return _prepared(place, db, write, remote)
    except BaseException:
        db.close()
        raise


def _prepared(place: Path, db: sqlite3.Connection, write: bool, remote: bool) -> sqlite3.Connection:
    """The study of this file in the present version; see `connect`."""
    db.row_factory = sqlite3.Row
    try:
        # an application_id that is read first also proves that the file is a database
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA trusted_schema = OFF")
        if not write:
            db.execute("PRAGMA query_only = ON")
    except sqlite3.DatabaseError as error:
        raise _opening(place, error) from error
    if application != APPLICATION:
        raise StudyError(f"{place.name[:200]!r} is not a study", "Give a file of `ratings create`")
    if version not in (VERSION, *MIGRATIONS):
        raise StudyError(
            f"the study has version {version}, this program reads up to {VERSION}",
            "Use a newer version of the project",
        )
    if write:
        for part in ("", "-wal", "-shm"):  # reading the version may have made the others
            hide_from_others(Path(f"{place}{part}"))
        set_durable(db, remote)
    return db if version == VERSION else _migrated(place, db, write)


def _migrated(place: Path, db: sqlite3.Connection, write: bool) -> sqlite3.Connection:
    """The study in the present version: the file itself, or a temporary copy where it is read."""
    target = db
    try:
        if not write:
            target = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            target.row_factory = sqlite3.Row
            db.backup(target)
            db.close()
        migrate(target)
        if not write:
            target.execute("PRAGMA query_only = ON")
    except BaseException as error:
        target.close()
        if isinstance(error, (sqlite3.DatabaseError, TypeError, ValueError)):
            raise _opening(place, error) from error
        raise
    return target


def set_durable(db: sqlite3.Connection, remote: bool) -> None:
    """Makes every commit wait for the disk; see `connect`. Raises StudyBusy."""
    try:
        if remote:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA synchronous = EXTRA")
        else:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            # each commit goes on into the file itself, so that a plain copy of it is complete
            db.execute("PRAGMA wal_autocheckpoint = 1")
    except sqlite3.OperationalError as error:
        raise StudyBusy(
            f"the study cannot be opened for writing ({error})",
            READ_ONLY
            if "readonly" in str(error)
            else "End the other server that has it open, or free space on its disk",
        ) from error


def _opening(place: Path, error: Exception) -> StudyError | StudyBusy:
    at_work = isinstance(error, sqlite3.OperationalError) and os.access(place, os.R_OK)
    if at_work and getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
        # a write-ahead log wants files beside the study, even to read it
        remedy = READ_ONLY if "readonly" in str(error) else "Close what else has it open"
        return StudyBusy(f"the study cannot be opened ({error})", remedy)
    return StudyError(f"{place.name[:200]!r} is not a study ({error})", "Give a whole study file")


class StudyFile:
    """One open file; safe between threads. network: see `connect`."""

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
            self.scale: str = self.preregistration.get("scale", RATINGS)
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
            self.screening: dict[str, Any] | None = self.sealed.get("screening")
            """`screening.Screening.sealed` of the question before the first screen, if any."""
            self.screened_out: dict[str, str] = json.loads(
                meta.get("screened_out", '{"code": "", "address": ""}')
            )
            """code and address for those who fail it."""
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

    def __enter__(self) -> Self:
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
