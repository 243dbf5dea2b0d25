"""Drops what Gradio keeps of a tab once the tab is gone.

Gradio holds a copy of the page's components for each session hash, about 0.5 MB, until there are
`state_session_capacity` of them.
"""

from __future__ import annotations

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
