"""A study whose disk does not last, as on a Space: its rows go to a dataset, and come back.

Each process appends what was committed to a JSON lines file of its own, which
`huggingface_hub.CommitScheduler` uploads every few minutes. At start the rows of all such files are
put into the study again. A hub that fails delays the upload; it never holds up a rating.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ratings.errors import StudyBusy, StudyError
from ratings.store import Study

NUMBERS = {"raters": "id", "tasks": "rater", "controls": "id", "events": "id"}
"""What is added to a study after its creation, in the order in which rows name one another, and the
column that rises. A rater's tasks come with the rater."""
TABLES = tuple(NUMBERS)
EVERY_MINUTES = 2
log = logging.getLogger(__name__)
Row = tuple[str, dict[str, Any]]


class Scheduler(Protocol):
    """What is used of a CommitScheduler. lock: held while the folder is written to."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """See above."""

    def trigger(self) -> Any:
        """Uploads now; gives a future."""


class Mirror:
    """Keeps the rows of a study in a folder that a scheduler uploads.

    known: rows that the hub has already, as `restore` gives them.
    """

    def __init__(
        self, study: Study, folder: Path, scheduler: Scheduler, known: Sequence[Row] = ()
    ) -> None:
        self.study, self.scheduler = study, scheduler
        self._shard = folder / f"{uuid.uuid4().hex}.jsonl"
        self._since = {t: max((_number(t, r) for u, r in known if u == t), default=0)
                       for t in TABLES}  # fmt: skip
        self._lock = threading.Lock()
        study.on_commit = self.catch_up
        self.catch_up()

    def catch_up(self) -> None:
        """Writes what is not in the folder yet; a failure is logged and made good next time."""
        try:
            with self._lock:
                rows = list(read_rows(self.study, self._since))
                if not rows:
                    return
                lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
                with self.scheduler.lock, self._shard.open("ab") as file:
                    file.write(lines.encode("utf-8", "surrogatepass"))
                for table, row in rows:
                    self._since[table] = max(self._since[table], _number(table, row))
        except (OSError, sqlite3.Error) as error:
            log.error("the mirror of the study could not be written", exc_info=error)

    def close(self) -> None:
        """Uploads what is left, if the hub answers."""
        self.catch_up()
        try:
            self.scheduler.trigger().result()
        except Exception as error:  # of whatever kind: the server ends all the same
            log.error("the last ratings could not be uploaded", exc_info=error)


def read_rows(study: Study, since: Mapping[str, int]) -> Iterator[Row]:
    """Rows that were added after the creation, and after those numbers of each table."""
    for table in TABLES:
        number = NUMBERS[table]
        order = "rater, repeats IS NOT NULL, position" if table == "tasks" else number
        query = f"SELECT * FROM {table} WHERE {number} > ? ORDER BY {order}"
        for row in study.rows(query, since.get(table, 0)):
            yield table, dict(row)


def _number(table: str, row: Mapping[str, Any]) -> int:
    return int(row[NUMBERS[table]])


def _key(table: str, row: dict[str, Any]) -> Any:
    # an event's chain says what came before it too: two histories never look alike
    return row["chain"] if table == "events" else row["id"]


def read_shards(shards: Iterable[bytes]) -> list[Row]:
    """The rows of uploaded files, each once; a last line that was cut off is left out."""
    rows: dict[tuple[str, Any], Row] = {}
    for shard in shards:
        # by bytes: text may hold other ends of lines, and a torn one may end within a character
        for line in shard.split(b"\n"):
            if not line:
                continue
            try:
                table, row = json.loads(line.decode("utf-8", "surrogatepass"))
                rows[table, _key(table, row)] = table, row
            except (ValueError, TypeError, KeyError):
                log.warning("a line of the mirror is damaged and was left out")
    return sorted(
        rows.values(), key=lambda z: (TABLES.index(z[0]), z[1].get("repeats") is not None)
    )


def restore(study: Study, rows: list[Row]) -> int:
    """Puts the rows into the study where they are missing; gives how many were.

    Raises StudyError where the study has other events under the same numbers: it went its own way
    since, and nothing is changed.
    """
    added = 0
    with study.transaction() as db:
        for table in TABLES:
            present = {r["id"]: r for r in db.execute(f"SELECT * FROM {table}").fetchall()}
            columns = [r["name"] for r in db.execute(f"PRAGMA table_info({table})")]
            own = [row for t, row in rows if t == table]
            if table in ("events", "controls", "raters"):
                own.sort(key=lambda row: row["id"])
            for row in own:
                if set(row) != set(columns):
                    raise StudyError("the mirror is of another version", "Use that version")
                if row["id"] in present:
                    if tuple(present[row["id"]]) != tuple(row[c] for c in columns):
                        raise StudyError(
                            f"the study and its mirror differ ({table} {row['id']})",
                            "Start from the study file without its ratings, or keep one of both",
                        )
                    continue
                marks = ", ".join("?" * len(columns))
                values = [row[c] for c in columns]
                db.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", values)
                added += 1
    return added


def mirror_to_hub(study: Study, dataset: str, folder: Path) -> Mirror:
    """Restores the study from a dataset on the hub, and mirrors it there from now on.

    folder: an empty one on this machine. Raises StudyBusy where the hub cannot be read and the
    study has no rating: serving it would begin a second history.
    """
    from huggingface_hub import CommitScheduler, HfApi

    place = f"ratings/{study.id}"
    rows: list[Row] = []
    try:
        rows = read_shards(download_shards(HfApi(), dataset, place))
    except Exception as error:  # the client raises errors of many libraries
        if not study.rows("SELECT 1 FROM events LIMIT 1"):
            raise StudyBusy(
                f"the ratings in the dataset {dataset[:100]!r} cannot be read"
                f" ({type(error).__name__})",
                "Check its name and the token HF_TOKEN, and start again",
            ) from error
        log.error("the mirror cannot be read; going on with what is on this disk", exc_info=error)
    restore(study, rows)
    scheduler = CommitScheduler(
        repo_id=dataset, repo_type="dataset", folder_path=folder, path_in_repo=place,
        every=EVERY_MINUTES, private=True,
    )  # fmt: skip
    return Mirror(study, folder, scheduler, rows)


def download_shards(api: Any, dataset: str, place: str) -> list[bytes]:
    """The files of a study in a dataset; none where the dataset does not exist yet."""
    if not api.repo_exists(dataset, repo_type="dataset"):
        return []
    names = [
        n for n in api.list_repo_files(dataset, repo_type="dataset") if n.startswith(f"{place}/")
    ]
    return [
        Path(api.hf_hub_download(dataset, name, repo_type="dataset")).read_bytes()
        for name in sorted(names)
        if name.endswith(".jsonl")
    ]
