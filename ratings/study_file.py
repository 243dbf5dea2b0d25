"""An open study file: its fixed contents, its rows, and transactions that are on the disk when
they end.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from macd_studio.ratings.connection import connect
from macd_studio.ratings.errors import StudyBusy, StudyError
from macd_studio.ratings.plan import RATINGS
from macd_studio.ratings.preregistration import sha256
from macd_studio.ratings.secret import new_private_file


class StudyFile:
    """One open file; safe between threads. network: see `ratings.connection.connect`."""

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
