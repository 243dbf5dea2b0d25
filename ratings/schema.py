"""The study file: one SQLite database that holds items, media, raters and every event.

What is fixed at creation is frozen by triggers, and events can only be added.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

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
