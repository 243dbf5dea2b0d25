"""A model's files from the hub, or one file: downloaded with progress, also after a break."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    get_session,
    hf_hub_url,
    snapshot_download,
)
from huggingface_hub.errors import DryRunError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import WeakFileLock, build_hf_headers
from tqdm.std import tqdm  # type: ignore[import-untyped]

from macd_studio.core.errors import BackboneNotFound, Cancelled, MacdError
from macd_studio.core.system.whole import written_whole
from macd_studio.core.types import Progress

FILES = ["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"]
"""What is fetched of a model: no pickled weights, no other formats, no code."""
WEIGHTS = ".safetensors"
SHA256 = 64
HASH = re.compile(rf"[0-9a-f]{{40}}|[0-9a-f]{{{SHA256}}}")
"""What names a file: of a large one its SHA-256, of others a hash of git."""
SIDE_BY_SIDE, PIECE = 4, 2**18
"""Files that are downloaded at once, and bytes that are written at once."""
SILENT_S, SILENCES = 8.0, 3
"""A server that says nothing for so long is asked again for the rest, at most so often in a row."""


def fetch(
    source: str,
    revision: str | None,
    progress: Progress,
    online: bool,
    check: Callable[[Sequence[Any]], None] = lambda listed: None,
    broken: type[MacdError] = BackboneNotFound,
    look_over: Callable[[str], None] = lambda folder: None,
) -> str:
    """The local folder of a hub model; what is on this disk already is not downloaded again.

    check: sees the list of files before any is downloaded, and may raise. broken: the error of a
    download that broke off; the next call continues where it stopped. look_over: called with the
    folder once all but the weights are there, and may raise; then no weights are downloaded. Raises
    OSError for a model that the hub does not have, or that is not on this disk while the hub cannot
    be asked.
    """
    progress.begin(f"Looking for {source}")
    request: dict[str, Any] = {"revision": revision or None, "allow_patterns": FILES}
    why: BaseException = ConnectionError("nothing, it cannot be reached")
    try:
        listed = snapshot_download(source, dry_run=True, **request) if online else None
    except DryRunError as error:  # it answers, but not to this
        listed, why = None, error.__cause__ or error
    if listed is None:
        folder = _downloaded_before(source, request, why)
        look_over(folder)
        return folder
    check(listed)
    silent = bar(Progress())
    with _named_breaks(source, broken):
        small = request | {"ignore_patterns": [f"*{WEIGHTS}"]}
        folder = str(snapshot_download(source, tqdm_class=silent, **small))
    look_over(folder)
    weights = [f for f in listed if f.will_download and f.filename.endswith(WEIGHTS)]
    size = sum(f.file_size for f in weights)
    amount = f"{size / 1e9:.1f} GB" if size > 1e9 else f"{size / 1e6:.0f} MB"
    if weights:
        progress.begin(f"Downloading {source}, {amount}")
    counted = bar(progress, size)(total=size)
    with _named_breaks(source, broken):
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(lambda f: _go_on(source, f.commit_hash, f.filename, counted), weights))
        # of the commit that was looked over, where a branch has moved since
        request["revision"] = Path(folder).name
        return str(snapshot_download(source, tqdm_class=silent, **request))


@contextmanager
def _named_breaks(source: str, broken: type[MacdError]) -> Iterator[None]:
    """While inside, whatever the network provokes becomes `broken`."""
    try:
        yield
    except (MacdError, OSError, ValueError):
        raise
    except Exception as error:
        raise broken(
            f"the download of {source!r} broke off ({type(error).__name__})",
            "Run it again: it goes on where it stopped",
        ) from error


def _go_on(source: str, commit: str, name: str, counted: Any) -> None:
    """Downloads a file into the client's cache, from where an earlier attempt broke off.

    The client itself begins a file again; it gets those that are empty, or whose hash the hub does
    not tell.
    Raises OSError where what came is not the file.
    """
    url = hf_hub_url(source, name, revision=commit)
    about = get_hf_file_metadata(url)
    if not about.size or not HASH.fullmatch(about.etag or ""):
        return
    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=source, repo_type="model")
    blob = folder / "blobs" / str(about.etag)
    blob.parent.mkdir(parents=True, exist_ok=True)
    part = blob.with_name(f"{blob.name}.part")
    with WeakFileLock(blob.with_name(f"{blob.name}.lock")):  # of several processes, one downloads
        if blob.exists():
            return
        if _size(part) > about.size:
            part.unlink()
        counted.update(_size(part))
        while (there := _size(part)) < about.size:
            try:
                _receive(url, part, counted)
            except httpx.TransportError:
                if _size(part) <= there:
                    raise
            if _size(part) <= there:  # as long as it goes on, it is asked again
                raise httpx.RemoteProtocolError("nothing came")
        if len(blob.name) == SHA256 and _sha256(part) != blob.name:
            part.unlink()
            raise OSError(f"{name} came damaged, and was deleted")
        part.replace(blob)


def _receive(url: str, part: Path, counted: Any) -> None:
    """Adds what the hub sends of the rest of a file. Raises errors of httpx."""
    there = _size(part)
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if there:
        headers["Range"] = f"bytes={there}-"
    with get_session().stream("GET", url, headers=headers, follow_redirects=True) as answer:
        answer.raise_for_status()
        goes_on = answer.status_code == httpx.codes.PARTIAL_CONTENT
        if there and not goes_on:
            counted.update(-there)
        with part.open("ab" if goes_on else "wb") as file:
            for piece in answer.iter_raw(PIECE):
                file.write(piece)
                counted.update(len(piece))


def fetch_file(
    url: str, path: Path, progress: Progress, title: str, broken: type[MacdError]
) -> None:
    """Downloads a file to `path`, whole, or leaves nothing there.

    title: what it holds, for progress and errors. Raises Cancelled where progress is stopped, else
    `broken`.
    """
    progress.begin(f"Looking for {title}")
    by_hand = f"put {path.name} into the folder that the program was started in"
    try:
        with written_whole(path) as part:
            _receive_whole(url, part, progress, title)
    except httpx.HTTPError as error:
        what = type(error).__name__
        if isinstance(error, httpx.HTTPStatusError):
            what = f"answer {error.response.status_code}"
        raise broken(
            f"{title} could not be downloaded from {httpx.URL(url).host} ({what})",
            f"Check the network and try again, or {by_hand}",
        ) from error
    except OSError as error:
        raise broken(
            f"{path.name} cannot be written here ({error.strerror or type(error).__name__})",
            "Free some space, or start in a folder that can be written to",
        ) from error


def _receive_whole(url: str, part: Path, progress: Progress, title: str) -> None:
    """Writes what the server sends, asking for the rest where it breaks off. Raises as httpx."""
    part.unlink(missing_ok=True)
    silences = 0
    with httpx.Client(timeout=SILENT_S, follow_redirects=True) as client:
        while True:
            there = _size(part)
            try:
                _receive_rest(client, url, part, progress, title)
                return
            except httpx.TransportError:
                silences = 0 if _size(part) > there else silences + 1
                if silences >= SILENCES:
                    raise
            _raise_if_stopped(progress)


def _receive_rest(
    client: httpx.Client, url: str, part: Path, progress: Progress, title: str
) -> None:
    there = _size(part)
    headers = {"Accept-Encoding": "identity"}
    if there:
        headers["Range"] = f"bytes={there}-"
    with client.stream("GET", url, headers=headers) as answer:
        answer.raise_for_status()
        goes_on = answer.status_code == httpx.codes.PARTIAL_CONTENT
        there = there if goes_on else 0
        total = there + int(answer.headers.get("Content-Length", 0))
        progress.begin(f"Downloading {title}" + (f", {total / 1e6:.1f} MB" if total else ""))
        with part.open("ab" if goes_on else "wb", buffering=0) as file:
            for piece in answer.iter_raw():
                _raise_if_stopped(progress)
                file.write(piece)
                there += len(piece)
                progress.fraction = min(1.0, there / total) if total else 0.0


def _raise_if_stopped(progress: Progress) -> None:
    if progress.stopped:
        raise Cancelled("the download was stopped", "Start it again at any time")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _downloaded_before(source: str, request: dict[str, Any], why: BaseException) -> str:
    """The folder of a model that is whole on this disk; raises OSError, with why, if none is."""
    try:
        folder = str(snapshot_download(source, local_files_only=True, **request))
    except OSError:
        folder = ""
    if not folder or not any(f.name.endswith(WEIGHTS) for f in Path(folder).iterdir()):
        raise OSError(f"the hub answered: {why}") from why
    return folder


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
