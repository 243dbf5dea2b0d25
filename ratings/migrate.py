"""Studies of former versions, in the tables of the present one.

Nothing that was rated is changed: chains keep the hashes that they had.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from macd_studio.ratings.chain import GENESIS, stamp_after
from macd_studio.ratings.schema import CONTROLS, EVENTS, VERSION, insert_row


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
