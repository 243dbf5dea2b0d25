"""A study whose disk does not last, as on a Space: its rows go to a dataset, and come back.

Each process appends what was committed to a JSON lines file of its own, which
`huggingface_hub.CommitScheduler` uploads every few minutes. At start the rows of all such files are
merged into the study, also those of a server that went on after this study was restored elsewhere.
A hub that fails delays the upload; it never holds up a rating.

Where a rater was erased, this process's file is written anew without them, and all files of the
dataset become one without them, whose history is dropped. What fails there is done at the next
start.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from macd_studio.ratings.branches import (
    TABLES,
    Row,
    erased_by,
    key,
    merge,
    numbered_rows,
    read_rows,
    read_shards,
)
from macd_studio.ratings.erasure import without_erased
from macd_studio.ratings.errors import StudyBusy
from macd_studio.ratings.store import Study

EVERY_MINUTES = 2
UPLOAD_S = 10.0
"""How long a server that ends waits for the last upload."""
log = logging.getLogger(__name__)


class Scheduler(Protocol):
    """What is used of a CommitScheduler. lock: held while the folder is written to."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """See above."""

    def trigger(self) -> Any:
        """Uploads now; gives a future."""


class Mirror:
    """Keeps the rows of a study in a folder that a scheduler uploads.

    known: rows that the hub has already. forget: takes erased raters out of what the hub has; in a
    thread of its own, and may raise.
    """

    def __init__(
        self,
        study: Study,
        folder: Path,
        scheduler: Scheduler,
        known: Iterable[Row] = (),
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.study, self.scheduler, self._forget = study, scheduler, forget
        self._shard = folder / f"{uuid.uuid4().hex}.jsonl"
        self._known = {key(table, row) for table, row in known}
        self._since, self._size = dict.fromkeys(TABLES, 0), 0
        self._lock = threading.Lock()
        self._forgetting: threading.Thread | None = None
        study.on_commit = self.catch_up
        self.catch_up()

    def catch_up(self) -> None:
        """Writes what is not in the folder yet; a failure is logged and made good next time."""
        try:
            with self._lock:
                since, rows = dict(self._since), []
                for number, (table, row) in numbered_rows(self.study, self._since):
                    since[table] = max(since[table], number)
                    if key(table, row) not in self._known:
                        rows.append((table, row))
                if erased_by(rows):
                    self._write_anew()
                elif rows:
                    content = lines_of(rows)
                    with self.scheduler.lock, self._shard.open("ab") as file:
                        file.truncate(self._size)  # a write that failed may have left half a line
                        file.write(content)
                    self._size += len(content)
                self._since = since
        except (OSError, sqlite3.Error) as error:
            log.error("the mirror of the study could not be written", exc_info=error)

    def _write_anew(self) -> None:
        """Everything as it is now, in the place of what was written before."""
        content, scratch = lines_of(read_rows(self.study)), self._shard.with_suffix(".new")
        with self.scheduler.lock:
            scratch.write_bytes(content)
            os.replace(scratch, self._shard)
        self._size = len(content)
        self._forgetting = threading.Thread(target=self.forget, daemon=True)
        self._forgetting.start()

    def forget(self) -> None:
        """Takes erased raters out of the hub; a failure is logged and made good at a start."""
        try:
            self.scheduler.trigger().result(timeout=UPLOAD_S)  # first that they were erased
            self._forget()
        except Exception as error:  # the client raises errors of many libraries
            log.error("erased raters could not be taken out of the mirror", exc_info=error)

    def close(self) -> None:
        """Uploads what is left, if the hub answers in time: the server has to end."""
        self.catch_up()
        if self._forgetting is not None:
            self._forgetting.join(UPLOAD_S)
        try:
            self.scheduler.trigger().result(timeout=UPLOAD_S)
        except Exception as error:  # of whatever kind: the server ends all the same
            log.error("the last ratings could not be uploaded", exc_info=error)


def lines_of(rows: Iterable[Row]) -> bytes:
    """Rows as a file of the mirror."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return lines.encode("utf-8", "surrogatepass")


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
    merged = merge(study, rows)
    if merged.forks or merged.renamed or merged.changed or merged.orphans:
        for line in merged.lines():
            log.warning("%s", line)
    scheduler = CommitScheduler(
        repo_id=dataset, repo_type="dataset", folder_path=folder, path_in_repo=place,
        every=EVERY_MINUTES, private=True,
    )  # fmt: skip
    mirror = Mirror(
        study, folder, scheduler, rows, lambda: forget_on_hub(HfApi(), dataset, place, study)
    )
    if study.erased():
        mirror.forget()
    return mirror


def forget_on_hub(api: Any, dataset: str, place: str, study: Study) -> None:
    """Makes one file without erased raters of all files of a study, and drops their history.

    Nothing is done where no file holds an erased rater. Raises errors of the client.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    names = shards_of(api, dataset, place)
    rows = read_shards(download_shards(api, dataset, place))
    left = list(without_erased(rows, study.erased()))
    if left == rows:
        return
    whole = CommitOperationAdd(f"{place}/{uuid.uuid4().hex}.jsonl", lines_of(left))
    operations = [*(CommitOperationDelete(name) for name in names), whole]
    message = "One file without raters who were erased"
    api.create_commit(dataset, operations, commit_message=message, repo_type="dataset")
    api.super_squash_history(dataset, repo_type="dataset", commit_message=message)


def shards_of(api: Any, dataset: str, place: str) -> list[str]:
    """The files of a study in a dataset; none where the dataset does not exist yet."""
    if not api.repo_exists(dataset, repo_type="dataset"):
        return []
    names = api.list_repo_files(dataset, repo_type="dataset")
    return sorted(n for n in names if n.startswith(f"{place}/") and n.endswith(".jsonl"))


def download_shards(api: Any, dataset: str, place: str) -> list[bytes]:
    """What `shards_of` names; nothing of it stays in a cache on this machine."""
    with tempfile.TemporaryDirectory() as cache:
        return [
            Path(
                api.hf_hub_download(dataset, name, repo_type="dataset", cache_dir=cache)
            ).read_bytes()
            for name in shards_of(api, dataset, place)
        ]
