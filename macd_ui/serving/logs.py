"""The server's log. Without being asked it holds no question, no file name and no error text."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable

import uvicorn.config

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MOST, MINUTE_S = 30, 60.0
"""Records of one kind in so many seconds."""


class WithoutContent(logging.Formatter):
    """Errors as their types and the lines of code they passed; their texts may quote a visitor."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of the log; a text that another handler made of the error is not reused."""
        record.exc_text = None
        return super().format(record)

    def formatException(self, ei: object) -> str:
        """The chain of errors without their texts."""
        lines: list[str] = []
        error = ei[1] if isinstance(ei, tuple) else None
        while isinstance(error, BaseException):
            frames = traceback.extract_tb(error.__traceback__)
            lines += [f"  {f.filename}:{f.lineno} in {f.name}" for f in frames]
            lines.append(f"{type(error).__module__}.{type(error).__qualname__}")
            error = error.__cause__ or error.__context__
        return "\n".join(lines)


class Seldom(logging.Filter):
    """Lets MOST records of one kind through in a minute; the next tells how many were left out.

    A kind is a line of code that logs, and the type of the error that it logs.

    What anybody can provoke by a request would else fill the disk. clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[object, ...], list[float]] = {}  # when it began, records, left out

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        now = self._clock()
        error = record.exc_info[0] if record.exc_info else None
        kind = self._kinds.setdefault((record.pathname, record.lineno, error), [now, 0, 0])
        if now - kind[0] >= MINUTE_S:
            left_out, kind[:] = int(kind[2]), [now, 0, 0]
            if left_out:
                record.msg = f"{record.getMessage()} (and {left_out:,} more like it before)"
                record.args = None
        kind[1] += 1
        kind[2] += kind[1] > MOST
        return kind[1] <= MOST


def set_up_logging(content: bool) -> None:
    """Logs warnings to stderr. content: errors come with their texts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Seldom())
    handler.setFormatter((logging.Formatter if content else WithoutContent)(FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # else uvicorn gives its loggers handlers of their own when a server is made
    loggers = uvicorn.config.LOGGING_CONFIG["loggers"]
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        loggers[name] = {"handlers": [], "level": "WARNING", "propagate": True}
    for name in (*loggers, "asyncio"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
