"""What one visitor may use of a server that others use too, and how a refusal says so."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

MAX_VISITORS = 1000
"""People that one address may stand for: as many as a server has tabs for."""


@dataclass(frozen=True)
class VisitorLimits:
    """What one visitor of a public server may use. Visitors are distinguished by their address, or
    by their name where they log in.
    """

    jobs: int = 3
    """Runs that wait or compute at the same time."""
    megabytes: float = 500.0
    files: int = 500
    device_minutes: float = 15.0
    read_minutes: float = 10.0
    """`megabytes`, `files`, `device_minutes` and `read_minutes`: uploads, computing and reading of
    videos in the last `window_s` seconds."""
    window_s: float = 3600.0
    requests_per_s: float = 20.0
    burst: int = 200
    """`requests_per_s` and `burst`: requests that change something."""
    answer_s_per_s: float = 0.5
    answer_burst_s: float = 60.0
    """`answer_s_per_s` and `answer_burst_s`: time of one processor that answers to all others may
    take, as routes.py estimates it."""
    streams: int = 1200
    """Answers that stay open."""
    opening: int = 20
    """Traces that wait to be read or are being read."""
    events: int = 100
    """Calls that no thread has taken yet."""
    unread: int = 100
    """Messages that wait for its tabs to read them."""
    sessions: int = 50
    """Tabs that are open at the same time."""
    unread_of_tab: int = 30
    """Messages that wait for one tab."""

    def times(self, people: int) -> VisitorLimits:
        """The limits of an address behind which there are so many people."""
        alone = ("window_s", "unread_of_tab")
        shares = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in alone}
        return replace(self, **{name: people * share for name, share in shares.items()})


@dataclass(frozen=True)
class Whose:
    """For whom limits are counted, in the words of a refusal. by_name: for users who log in."""

    by_name: bool = False

    @property
    def words(self) -> str:
        """After what was counted: "3 runs …"."""
        return "of yours" if self.by_name else "from your address"

    def remedy(self, own: str) -> str:
        """What to do, from what the visitor alone can do."""
        if self.by_name:
            return own
        return (
            f"{own}. People behind one address count together: if others share yours, whoever runs"
            " this server can allow more by --visitors-per-address N"
        )


@dataclass(frozen=True)
class KeptLimits:
    """What all sessions together may keep between clicks: bytes of memory, and bytes of files."""

    memory: int
    files: int


ORDINARY, BY_ADDRESS = VisitorLimits(), Whose()
