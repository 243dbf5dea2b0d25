"""Opens a study file, so that a commit is on the disk when it returns."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from macd_studio.ratings.errors import StudyBusy, StudyError
from macd_studio.ratings.migrate import MIGRATIONS, migrate
from macd_studio.ratings.schema import APPLICATION, VERSION
from macd_studio.ratings.secret import hide_from_others

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
    if version not in (VERSION, *MIGRATIONS):
        db.close()
        raise StudyError(
            f"the study has version {version}, this program reads up to {VERSION}",
            "Use a newer version of the project",
        )
    if write:
        for part in ("", "-wal", "-shm"):  # reading the version may have made the others
            hide_from_others(Path(f"{place}{part}"))
        set_durable(db, remote)
    if version != VERSION:
        db = _migrated(place, db, write)
    return db


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
    except (sqlite3.DatabaseError, TypeError, ValueError) as error:
        target.close()
        raise _opening(place, error) from error
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
