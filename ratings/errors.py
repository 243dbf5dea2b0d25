"""What can go wrong with a study file, beside the errors of `core.errors`."""

from __future__ import annotations

from macd_studio.core.errors import MacdError


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
