"""What a job tells its visitor, in words."""

from __future__ import annotations

from core.errors import Cancelled
from macd_ui.line import Ticket


def place_in_words(ticket: Ticket) -> str:
    """How many come first, and how long that may take."""
    runs = "1 run" if ticket.ahead == 1 else f"{ticket.ahead} runs"
    seconds = ticket.wait_s
    about = "" if seconds is None else f", about {max(1, round(seconds))} s"
    return f"Waiting: {runs} before yours{about}"


def stopped_in_words(error: Cancelled) -> str:
    """Where a job was stopped, as a sentence."""
    return str(error)[:1].upper() + str(error)[1:]


def left_in_words(left: float | None) -> str:
    """The seconds left, to be added to a message; nothing where they are not known."""
    return "" if left is None else f" · about {max(1, round(left))} s left"
