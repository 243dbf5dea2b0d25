"""What libraries report through `logging` and `warnings` → notes of a trace. Imports no library.

A library that repairs, guesses or leaves something out says so in a log that nobody reads beside
the result. While `collecting`, what it reports in this thread at the level of a warning or above is
kept, once each and shortened.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

LIBRARIES = (
    "transformers", "ultralytics", "huggingface_hub", "accelerate", "bitsandbytes", "peft", "torch",
    "timm", "trackers", "supervision", "libav", "PIL", "onnxruntime",
)  # fmt: skip
"""The loggers that are listened to, each with those below it."""
LONGEST, MOST = 200, 20
"""Characters of a note, and notes of one call."""
SAID_OTHERWISE = re.compile(
    r"The following device_map keys"  # weights that are no modules, where weights are spread
    r"|deprecated pixel format used"  # of the conversion to RGB, which sets the range itself
)
"""What does not concern the input, or is said by an error or a note already."""
_LEVEL = re.compile(r"^(WARNING|ERROR)\W+")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FOLDERS = re.compile(r"(?<![\w/.:])(?:/[^\s/:'\"()]+)+/(?=[^\s/:'\"()])")
_COLLECTED: ContextVar[list[str] | None] = ContextVar("collected", default=None)


def shortened(text: str) -> str:
    """A report in one line without colours and folders, of LONGEST characters at most.

    >>> shortened("\\x1b[1mcut\\x1b[0m off:  see /home/me/models/a.bin\\n")
    'cut off: see a.bin'
    """
    line = _LEVEL.sub("", " ".join(_FOLDERS.sub("", _ESCAPE.sub("", text)).split()))
    line = "".join(c for c in line if c.isprintable())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"


def note(notes: list[str], source: str, text: str) -> None:
    """Adds what a library reported, unless it is there already or said otherwise.

    What differs from a note in its numbers only is there already.
    """
    line = shortened(text)
    if not line or SAID_OTHERWISE.search(text) or len(notes) >= MOST:
        return
    added = f"{source} reports: {line}"
    if _without_numbers(added) not in map(_without_numbers, notes):
        notes.append(added)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


class _Listener(logging.Handler):
    """Hands records of this thread to who collects them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the record's message; one that cannot be formatted is its template."""
        notes = _COLLECTED.get()
        if notes is None:
            return
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        note(notes, record.name.partition(".")[0], text)


_LISTENER = _Listener(logging.WARNING)
_LOCK = threading.Lock()
_collecting = 0
_shown_before: Any = None


@contextmanager
def collecting(notes: list[str]) -> Iterator[list[str]]:
    """While inside, what libraries report in this thread is added to `notes` as well."""
    token = _COLLECTED.set(notes)
    _listen()
    try:
        yield notes
    finally:
        _COLLECTED.reset(token)
        _stop_listening()


def collecting_from(items: Iterable[T], notes: list[str]) -> Iterator[T]:
    """The items; what libraries report while each is made is added to `notes`."""
    iterator = iter(items)
    while True:
        with collecting(notes):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def _listen() -> None:
    global _collecting, _shown_before
    with _LOCK:
        _collecting += 1
        for name in LIBRARIES:
            logger = logging.getLogger(name)
            if _LISTENER not in logger.handlers:
                logger.addHandler(_LISTENER)
        if _collecting == 1:
            _shown_before, warnings.showwarning = warnings.showwarning, _show


def _stop_listening() -> None:
    global _collecting
    with _LOCK:
        _collecting -= 1
        if not _collecting and warnings.showwarning is _show:
            warnings.showwarning = _shown_before


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """Shows a warning as before, and hands it to who collects those of this thread."""
    notes = _COLLECTED.get()
    if notes is not None and not issubclass(category, DeprecationWarning | FutureWarning):
        note(notes, _package(filename), str(message))
    _shown_before(message, category, filename, lineno, file, line)


def _package(filename: str) -> str:
    """The library of a source file, such as "torch"; "Python" where it cannot be told.

    >>> _package("/x/site-packages/torch/nn/modules.py"), _package("<string>")
    ('torch', 'Python')
    """
    _, _, inside = filename.replace("\\", "/").rpartition("/site-packages/")
    name = inside.partition("/")[0].removesuffix(".py")
    return name if name.isidentifier() else "Python"
