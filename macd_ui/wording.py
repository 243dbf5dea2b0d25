"""The messages of a job to its visitor."""

from __future__ import annotations

import errno

from macd_studio.core.errors import Cancelled, MacdError
from macd_studio.core.words import count
from macd_studio.macd_ui.line import Ticket
from macd_studio.macd_ui.session import Turn

UNFORESEEN = "Something unforeseen went wrong; the server's log has the details."
FULL_DISK = "The server's disk is full. Try again later, or inform its operator."


def explained(error: BaseException) -> str | None:
    """Cause and remedy of an error for a visitor; None for an unexpected one."""
    if isinstance(error, MacdError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FULL_DISK
    return None


def out_of_time_in_words(turn: Turn) -> str:
    """Why a run was stopped that its visitor did not stop."""
    return f"this server gives each run {turn.limit_s:g} s, and this one took longer"


def place_in_words(ticket: Ticket) -> str:
    """How many come first, and how long that may take."""
    ahead = ticket.runs_ahead
    if not ahead:
        return "Waiting until the models are ready"
    seconds = ticket.wait_s
    about = "" if seconds is None else f", about {max(1, round(seconds))} s"
    return f"Waiting: {count(ahead, 'run')} before yours{about}"


def opening_in_words(ticket: Ticket) -> str:
    """How many files are opened first, and how long that may take."""
    files = count(ticket.ahead, "file")
    seconds = (ticket.wait_s or 0.0) / ticket.at_once
    return f"Waiting: {files} before yours, about {max(1, round(seconds))} s"


def stopped_in_words(error: Cancelled) -> str:
    """Where a job was stopped, as a sentence."""
    return str(error)[:1].upper() + str(error)[1:]


def left_in_words(left: float | None, spent: float = 0.0) -> str:
    """The seconds left, to be added to a message; those spent where no run has shown how many."""
    if left is not None:
        return f" · about {max(1, round(left))} s left"
    return f" · {round(spent)} s so far" if spent >= 1 else ""
