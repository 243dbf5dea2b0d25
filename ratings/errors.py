"""What can go wrong with a study file, beside the errors of `core.errors`."""

from __future__ import annotations

from pathlib import Path

from macd_studio.core.errors import MacdError, OptionError


class StudyError(MacdError):
    """Not a study, damaged, changed after it was frozen, or of another version."""


class StudyBusy(MacdError):
    """The study file cannot be written now: another server holds it, or the disk is full."""


class Refused(MacdError):
    """A request that this study does not take. status: of HTTP."""

    def __init__(self, cause: str, remedy: str, status: int = 400) -> None:
        super().__init__(cause, remedy)
        self.status = status

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str, int]]:
        return type(self), (self.cause, self.remedy, self.status)


def cannot_write(path: Path, error: OSError) -> OptionError:
    """What to raise where a file that somebody asked for cannot be written."""
    cause = f"{str(path)[:200]!r} cannot be written ({error.strerror})"
    return OptionError(cause, "Choose another place")


def read_text(path: Path, called: str, remedy: str) -> str:
    """A file in UTF-8; raises OptionError, which calls it `called`."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        cause = f"{called} cannot be read ({type(error).__name__})"
        raise OptionError(cause, remedy) from error
