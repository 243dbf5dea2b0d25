"""Drops what Gradio keeps of a tab once the tab is gone, and gives freed memory back.

Gradio holds a copy of the page's components for each session hash, about 0.5 MB, until there are
`state_session_capacity` of them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any


class TabStates:
    """The states that Gradio holds for one page."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._first_seen: dict[str, float] = {}

    def unread(self, tab: str) -> int:
        """Messages that this tab has not read yet."""
        messages = self._page._queue.pending_messages_per_session.get(tab)
        return 0 if messages is None else int(messages.qsize())

    def drop(self, is_live: Callable[[str], bool], older_s: float) -> int:
        """Drops those that no tab has used for so many seconds; how many.

        is_live: whether a session hash belongs to a tab, or to a call that is still running.
        """
        holder, now = self._page.state_holder, time.monotonic()
        states, queue = holder.session_data, self._page._queue
        hashes = {*states, *queue.pending_event_ids_session}
        self._first_seen = {h: self._first_seen.get(h, now) for h in hashes if not is_live(h)}
        over = [h for h, since in self._first_seen.items() if now - since >= older_s]
        for tab in over:
            with holder.lock:
                states.pop(tab, None)
                holder.time_last_used.pop(tab, None)
            queue.pending_event_ids_session.pop(tab, None)
            queue.pending_messages_per_session.pop(tab, None)
            del self._first_seen[tab]
        return len(over)


ARENAS, MMAP_FROM = 4, 4 * 2**20
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8


def keep_heaps_small() -> None:
    """At the start, where the C library is glibc: few heaps, and large arrays outside of them.

    Else each thread has a heap of its own, up to eight for each core, and the bound above which
    memory goes back to the system at once grows to 32 MB, more than the frames of most clips.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_M_ARENA_MAX, ARENAS)
        tune(_M_MMAP_THRESHOLD, MMAP_FROM)


def return_free_memory() -> None:
    """Gives pages that the C library holds free back to the system, where it is glibc.

    Runs allocate on many threads, each with a heap of its own that would stay as large as its
    largest run.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
