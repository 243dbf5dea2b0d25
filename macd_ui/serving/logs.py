"""The server's log. Without being asked it holds no question, no file name and no error text."""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_Info = tuple[type[BaseException], BaseException, TracebackType | None]


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


def set_up_logging(content: bool) -> None:
    """Logs warnings to stderr. content: errors come with their texts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((logging.Formatter if content else WithoutContent)(FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
