"""The study file: one SQLite database that holds items, media, raters and every event.

What is fixed at creation is frozen by triggers, and events can only be added. `connect` opens the
file so that a commit is on the disk when it returns.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ratings.errors import StudyBusy, StudyError
from ratings.files import hide_from_others

VERSION = 1
APPLICATION = 0x4D414344  # "MACD", in the file's header
BUSY_S = 10.0
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs"}
"""File systems whose locks and shared memory a write-ahead log cannot rely on; FUSE's too."""

DDL = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE clips (
    id INTEGER PRIMARY KEY, part TEXT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL,
    question TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL, times TEXT NOT NULL,
    media BLOB NOT NULL
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
CREATE TABLE controls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, what TEXT NOT NULL, value TEXT
);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL UNIQUE,
    rater INTEGER NOT NULL REFERENCES raters, task TEXT REFERENCES tasks, side INTEGER,
    kind TEXT NOT NULL, old INTEGER, new INTEGER, note TEXT, tab TEXT NOT NULL,
    count INTEGER NOT NULL, client_time REAL NOT NULL, elapsed_ms REAL, server_time REAL NOT NULL,
    conflict INTEGER NOT NULL, chain TEXT NOT NULL
);
CREATE INDEX events_of_task ON events (task, id);
CREATE INDEX tasks_of_rater ON tasks (rater, position);
"""
FROZEN = ("meta", "clips", "sides", "objects", "coverage", "raters", "tasks", "controls", "events")
"""Tables whose rows never change; to the first five no row is added after the creation either."""
SEALED = FROZEN[:5]


def create_tables(db: sqlite3.Connection) -> None:
    """The empty tables; rows of FROZEN can be added, but neither changed nor deleted."""
    db.executescript(DDL)
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
        db.row_factory = sqlite3.Row
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
        db.close()
        raise StudyError(f"{place.name[:200]!r} is not a study", "Give a file of `ratings create`")
    if version != VERSION:
        db.close()
        raise StudyError(
            f"the study has version {version}, this program reads {VERSION}",
            "Use the version of the project that made it",
        )
    if write:
        hide_from_others(place)
        set_durable(db, remote)
    return db


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
            "End the other server that has it open, or free space on its disk",
        ) from error


def _opening(place: Path, error: sqlite3.DatabaseError) -> StudyError | StudyBusy:
    if isinstance(error, sqlite3.OperationalError) and os.access(place, os.R_OK):
        return StudyBusy(f"the study cannot be opened ({error})", "Close what else has it open")
    return StudyError(f"{place.name[:200]!r} is not a study ({error})", "Give a whole study file")
