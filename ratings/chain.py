"""The hash chain over the events of a study, and where two servers continued it side by side.

Each event names the event before it, by its hash; after branches were merged, the ends of all of
them. The hash covers the event and what it names, so that no event can be changed, or taken out
from between others, unnoticed. Two events that name the same one are a fork: two servers took
ratings for the same study, each without those of the other.

Events are ordered by (stamp, writer, chain). A stamp is the server's clock in microseconds, but
always after everything that the server knew, so that the order is the same wherever branches meet,
and no clock that goes back moves an event before one that it followed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GENESIS = "0" * 64
"""What the chain of the first event continues."""
ORDER = "stamp, writer, chain"
"""The order of events, in SQL."""
NEWEST = "stamp DESC, writer DESC, chain DESC"
VALUES = (
    "uuid", "signer", "task", "side", "kind", "old", "new", "note", "tab", "count", "client_time",
    "elapsed_ms", "server_time", "conflict", "writer", "stamp",
)  # fmt: skip
"""What the chain covers, in this order. signer: the hash of the rater's code."""
UNSIGNED = ("writer", "stamp")
"""What it does not cover of an event of version 1, whose writer is "" and whose signer is the
rater's number at that time."""
Row = Mapping[str, Any]


def link(event: Row) -> str:
    """The hash of an event and of what it continues; 64 hexadecimal digits.

    event: VALUES and parents, the hashes that it names, with spaces between.
    """
    values = [event[name] for name in VALUES]
    if event["writer"] == "":
        values = values[: -len(UNSIGNED)]
        values[1] = int(values[1])
    content = json.dumps([event["parents"], *values], ensure_ascii=False)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def stamp_after(seconds: float, before: int) -> int:
    """The stamp of an event at that time of the server's clock, after the stamp `before`."""
    return max(int(seconds * 1e6), before + 1)


def heads(events: Iterable[Row]) -> list[str]:
    """The hashes that no event continues, sorted."""
    ends: set[str] = set()
    continued: set[str] = set()
    for event in events:
        ends.add(event["chain"])
        continued.update(event["parents"].split())
    return sorted(ends - continued)


@dataclass(frozen=True)
class Branch:
    """Events that one side of a fork has and no other. began, ended: seconds since 1970."""

    writers: tuple[str, ...]
    events: int
    raters: int
    began: float
    ended: float


@dataclass(frozen=True)
class Fork:
    """Servers that took ratings side by side. after: when the last common event came, None: never.

    twice: events that more than one of them took, and that count once. masks: those that a rater
    rated on more than one of them, where the later rating counts.
    """

    after: float | None
    branches: tuple[Branch, ...]
    twice: int
    masks: int


def find_forks(events: Sequence[Row]) -> list[Fork]:
    """All forks, in order. events: every event, in any order."""
    children: dict[str, list[Row]] = {}
    for event in sorted(events, key=lambda e: (e["stamp"], e["writer"], e["chain"])):
        for parent in event["parents"].split():
            children.setdefault(parent, []).append(event)
    times = {event["chain"]: event["server_time"] for event in events}
    return [
        _describe(times.get(parent), [_following(child, children) for child in found])
        for parent, found in children.items()
        if len(found) > 1
    ]


def _following(first: Row, children: Mapping[str, Sequence[Row]]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    left = [first]
    while left:
        event = left.pop()
        if event["chain"] not in found:
            found[event["chain"]] = event
            left += children.get(event["chain"], ())
    return found


def _describe(after: float | None, sides: Sequence[Mapping[str, Row]]) -> Fork:
    own = []
    for i, side in enumerate(sides):
        others = {chain for j, other in enumerate(sides) if j != i for chain in other}
        own.append([event for chain, event in side.items() if chain not in others])
    branches = tuple(
        Branch(
            tuple(sorted({e["writer"] for e in side})),
            len(side),
            len({e["rater"] for e in side}),
            min(e["server_time"] for e in side),
            max(e["server_time"] for e in side),
        )
        for side in own
    )
    rated = [
        {(e["task"], e["side"]) for e in side if e["kind"] in ("rate", "undo")} for side in own
    ]
    return Fork(
        after,
        branches,
        _in_several([{e["uuid"] for e in side} for side in own]),
        _in_several(rated),
    )


def _in_several(sets: Sequence[set[Any]]) -> int:
    return sum(sum(value in s for s in sets) > 1 for value in set().union(*sets))
