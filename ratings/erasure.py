"""What is left of a rater who was erased on request, and how it is taken out.

Every event of the rater becomes a tombstone: its hash, what it continues, and its place in the
order of events, so that the chain over all others can still be followed. The rater keeps number and
name, and in place of the code's hash a hash of that, by which rows of the rater in other files of
the study, or in its mirror, are known when they come back, and are erased too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from macd_studio.ratings.preregistration import sha256

ERASED = "erased"
"""The kind of an event that is a tombstone."""
ERASE, PURGED = "erase", "purged"
"""Controls. erase: the rater with this `erased_code` was erased. purged: nothing of them is in the
free space of this file; of the file alone, so that it goes into no other."""
TRIGGERS = ("events_update", "raters_update", "tasks_delete", "controls_delete")
"""What keeps rows as they are, and is set aside within the one transaction of an erasure."""
Values = dict[str, Any]


def erased_code(code_sha256: str) -> str:
    """What stands in the place of the hash of an erased rater's code; no code has this hash."""
    return sha256(f"erased {code_sha256}")


def tombstone(event: Values, rater: Any, code: str) -> Values:
    """What stays of an event. rater: as the row names the rater; code: of `erased_code`.

    stamp, writer, parents and chain stay: order and links are made of them.
    """
    empty = dict.fromkeys(("task", "side", "old", "new", "note", "elapsed_ms"))
    zero = {"count": 0, "conflict": 0, "client_time": 0.0, "server_time": 0.0}
    whose = {"uuid": event["chain"], "rater": rater, "signer": code, "kind": ERASED, "tab": ""}
    return event | empty | zero | whose


def erase_in(db: sqlite3.Connection, rater: int, code_sha256: str) -> int:
    """Takes a rater out of an open study, within a transaction; gives how many events they had."""
    code = erased_code(code_sha256)
    triggers = db.execute(
        f"SELECT name, sql FROM sqlite_master WHERE name IN ({', '.join('?' * len(TRIGGERS))})",
        TRIGGERS,
    ).fetchall()
    for trigger in triggers:
        db.execute(f"DROP TRIGGER {trigger['name']}")
    events = db.execute("SELECT * FROM events WHERE rater = ?", (rater,)).fetchall()
    for event in events:
        left = tombstone(dict(event), rater, code)
        names = ", ".join(f"{name} = ?" for name in left)
        db.execute(f"UPDATE events SET {names} WHERE id = ?", (*left.values(), event["id"]))
    db.execute("DELETE FROM tasks WHERE rater = ?", (rater,))
    db.execute("DELETE FROM controls WHERE value LIKE ? || '%'", (code_sha256,))
    db.execute(
        "UPDATE raters SET code_sha256 = ?, simulated = NULL, created = 0 WHERE id = ?",
        (code, rater),
    )
    for trigger in triggers:  # those that somebody took out stay out
        db.execute(trigger["sql"])
    return len(events)


def without_erased(
    rows: Iterable[tuple[str, Values]], erased: Collection[str]
) -> Iterator[tuple[str, Values]]:
    """Rows of a branch (`branches.Row`) as they are once these raters are erased.

    erased: of `erased_code`. Rows that are so already stay as they are.
    """
    for table, row in rows:
        named = {"raters": "code_sha256", "controls": "value"}.get(table, "rater")
        code = erased_code(str(row[named]).split(" ", 1)[0])
        if code not in erased:
            yield table, row
        elif table == "raters":
            yield table, row | {"code_sha256": code, "simulated": None, "created": 0.0}
        elif table == "events":
            yield table, tombstone(row, code, code)
