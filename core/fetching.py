"""A model's files from the hub: listed, downloaded with progress, gone on with after a break."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import DryRunError
from tqdm.std import tqdm  # type: ignore[import-untyped]

from core.errors import BackboneNotFound, Cancelled, MacdError
from core.types import Progress

FILES = ["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"]
"""What is fetched of a model: no pickled weights, no other formats, no code."""
WEIGHTS = ".safetensors"


def fetch(
    source: str,
    revision: str | None,
    progress: Progress,
    online: bool,
    check: Callable[[Sequence[Any]], None] = lambda listed: None,
    broken: type[MacdError] = BackboneNotFound,
) -> str:
    """The local folder of a hub model; what is on this disk already is not downloaded again.

    check: sees the list of files before any is downloaded, and may raise. broken: the error of a
    download that broke off; the next call goes on where it stopped. Raises OSError for a model
    that the hub does not have, or that is not on this disk while the hub cannot be asked.
    """
    progress.begin(f"Looking for {source}")
    request: dict[str, Any] = {"revision": revision or None, "allow_patterns": FILES}
    if not online:
        return _downloaded_before(source, request, ConnectionError("nothing, it cannot be reached"))
    try:
        listed = snapshot_download(source, dry_run=True, **request)
    except DryRunError as error:  # it answers, but not to this
        return _downloaded_before(source, request, error.__cause__ or error)
    check(listed)
    size = sum(f.file_size for f in listed if f.will_download)
    amount = f"{size / 1e9:.1f} GB" if size > 1e9 else f"{size / 1e6:.0f} MB"
    progress.begin(f"Downloading {source}, {amount}")
    try:
        return str(snapshot_download(source, tqdm_class=downloading(progress, size), **request))
    except (MacdError, OSError, ValueError):
        raise
    except Exception as error:  # whatever the network provokes
        raise broken(
            f"the download of {source!r} broke off ({type(error).__name__})",
            "Run it again: it goes on where it stopped",
        ) from error


def _downloaded_before(source: str, request: dict[str, Any], why: BaseException) -> str:
    """The folder of a model that is whole on this disk; raises OSError, with why, if none is."""
    try:
        folder = str(snapshot_download(source, local_files_only=True, **request))
    except OSError:
        folder = ""
    if not folder or not any(f.name.endswith(WEIGHTS) for f in Path(folder).iterdir()):
        raise OSError(f"the hub answered: {why}") from why
    return folder


def downloading(progress: Progress, total: int) -> type[Any]:
    """What the hub's client takes for a class of progress bars; `total`: bytes to come.

    The client has a bar of files and one of bytes from the network too; bytes on disk count.
    """
    silent, counted = bar(Progress()), bar(progress, total)

    class Bar(tqdm):  # type: ignore[misc]
        def __new__(cls, *args: Any, **named: Any) -> Any:
            on_disk = named.get("unit") == "B" and "Download" not in named.get("desc", "")
            return (counted if on_disk else silent)(*args, **named)

    return Bar


def bar(progress: Progress, total: int | None = None) -> type[Any]:
    """A class of progress bars that are not shown and update `progress`, by `total` if given."""
    counting = threading.Lock()  # files are fetched side by side

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named | {"file": io.StringIO(), "disable": False})
            self.completed = 0.0

        def update(self, n: float | None = 1) -> Any:
            if progress.stopped:
                raise Cancelled("the loading was stopped", "Run again; a download goes on")
            with counting:
                self.completed += n or 0
                whole = total or self.total
                if whole:
                    progress.fraction = min(1.0, self.completed / whole)
            return super().update(n)

        def __iter__(self) -> Iterator[Any]:
            for item in self.iterable:
                yield item
                self.update()

    return Bar
