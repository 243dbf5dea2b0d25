"""What a request to each open route may cost a public server, and what bounds that, as a table.

python -m macd_ui.serving.costs    prints the bounds, every route, and what files cost
"""

from __future__ import annotations

from collections.abc import Iterable

from macd_studio.macd_ui.limits import VisitorLimits
from macd_studio.macd_ui.queues import MAX_WAITING, NEAR
from macd_studio.macd_ui.serving import file_costs as before
from macd_studio.macd_ui.serving.bodies import (
    ANSWERS_HELD,
    ANSWERS_SHARE,
    HELD,
    MIN_FREE,
    PIECE,
    SHARE,
)
from macd_studio.macd_ui.serving.connections import HEAD_S, RESERVED
from macd_studio.macd_ui.serving.logs import MINUTE_S
from macd_studio.macd_ui.serving.logs import MOST as MAX_RECORDS
from macd_studio.macd_ui.serving.passwords import APART_S, FIRST_S, FREE, LONGEST_S
from macd_studio.macd_ui.serving.routes import API, JSON, LOGIN, MOST, NOTHING, UPLOAD, Door, Doors
from macd_studio.macd_ui.serving.upstream import MAX_UNREAD
from macd_studio.macd_ui.session import MAX_SESSIONS
from macd_studio.macd_ui.settings import KEPT_SHARED
from macd_studio.macd_ui.traces import MAX_OPENING

EVENTS = tuple(f"{API}/{kind}" for kind in ("queue/join", "run/", "api/", "call/", "mcp"))
"""Where a function of the page is called; calls have bounds beside those of their request."""
MB = 10**6


def bounds(limits: VisitorLimits) -> dict[str, str]:
    """What holds for routes that name it in the table, and two that hold for all: name → rule."""
    return {
        "answers": f"answers of one visitor take {limits.answer_s_per_s:g} s of one processor a"
        f" second, and {limits.answer_burst_s:g} s at once; then 429",
        "sent": f"{_mb(ANSWERS_SHARE)} of answers are on their way to one visitor, and"
        f" {_mb(ANSWERS_HELD)} to all, counted from {PIECE // 1024} kB on; then 503",
        "streams": f"{limits.streams:,} places for open streams of one visitor; then 429",
        "requests": f"{limits.requests_per_s:g} requests a second of one visitor, and"
        f" {limits.burst} at once; then 429",
        "bodies": f"{_mb(SHARE)} of bodies under way from one visitor, and {_mb(HELD)} from all;"
        " then 503; a minute to arrive, then 408",
        "uploads": f"{limits.megabytes:g} MB and {limits.files} files of one visitor an hour; then"
        f" 429; {_mb(MIN_FREE)} of the disk stay free; then 507",
        "events": f"{limits.events} calls of one visitor wait for a thread, and"
        f" {limits.unread} messages for its tabs to read them, {limits.unread_of_tab} of them for"
        f" one tab, which is sent at most {MAX_UNREAD};"
        f" {limits.sessions} tabs of one, {MAX_SESSIONS:,} of all; then 429",
        "runs": f"{limits.jobs} runs of one visitor wait or compute;"
        f" {limits.device_minutes:g} minutes of computing and {limits.read_minutes:g} of reading"
        f" files of one an hour; {NEAR + 1} clips of runs that compute or wait are held in memory,"
        " each with its partner;"
        f" {MAX_WAITING} runs wait; then a sentence on the page",
        "opening": f"{MAX_OPENING} traces are read at the same time, of which each may take 300 MB;"
        f" {limits.opening} of one visitor and {MAX_WAITING} of all wait; then 429, or a sentence"
        " on the page",
        "kept": f"{_mb(KEPT_SHARED.memory)} of clips, traces and caches stay in memory for all tabs"
        f" together, and {_mb(KEPT_SHARED.files)} of their traces in files",
        "logins": f"after {FREE} wrong passwords for one account from one address, attempts there"
        f" wait {FIRST_S:g} to {LONGEST_S:g} s, and one is made every {APART_S:g} s; one password"
        " is hashed at a time; nobody is refused",
        "connections": f"a server has {RESERVED} descriptors fewer connections than it may open"
        " files, half of them for one address, or for one visitor of a trusted proxy;"
        " a request head has"
        f" {HEAD_S:g} s to arrive; then they are closed",
        "log": f"{MAX_RECORDS} records of one kind in {MINUTE_S:g} s; the next one says how"
        " many were left out",
    }


def is_event(door: Door) -> bool:
    """Whether a function of the page is called here."""
    return door.method == "POST" and door.path.startswith(EVENTS)


def bounds_of(door: Door) -> tuple[str, ...]:
    """The names of those that hold for a route."""
    if door.method != "POST":
        opening = ("opening",) if door.path.startswith("/files/") else ()
        return ("answers", "streams" if door.stream else "sent", *opening)
    if door.path == LOGIN:
        return ("bodies", "logins")
    names = ["requests", "uploads" if door.body == UPLOAD else "bodies"]
    if is_event(door):
        names += ["events", "runs", "opening", "kept"]
    return tuple(names)


def table(limits: VisitorLimits) -> str:
    """The bounds in Markdown."""
    lines = ["| bound | of a public server |", "|---|---|"]
    lines += [f"| *{name}* | {rule} |" for name, rule in bounds(limits).items()]
    return "\n".join(lines) + "\n"


def routes(doors: Iterable[Door]) -> str:
    """Every route, those that cost the same in one row, in Markdown."""
    lines = [
        "| requests | brings at most | processor | on the disk | in the log | bound |",
        "|---|---|---|---|---|---|",
    ]
    alike: dict[tuple[str, ...], list[str]] = {}
    for door in doors:
        processor = "that of the call" if is_event(door) else f"{door.ms} ms"
        cells = (_brings(door), processor, door.writes or "nothing",
                 f"{door.log} record" if door.log else "nothing",
                 ", ".join(bounds_of(door)))  # fmt: skip
        alike.setdefault((door.method, *cells), []).append(f"`{door.path}`")
    for (method, *row), paths in alike.items():
        lines.append(f"| {method} {', '.join(paths)} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _brings(door: Door) -> str:
    most = "nothing" if door.body == NOTHING else _mb(MOST[door.body])
    return f"{most} of JSON" if door.body == JSON else most


def _mb(count: int) -> str:
    return f"{count / MB:.0f} MB" if count >= MB else f"{count / 1000:.0f} kB"


def main() -> None:
    """Prints the tables."""
    print(table(VisitorLimits()))
    print(routes(Doors(mcp=True, study=True).all))
    print(before.table(), end="")


if __name__ == "__main__":
    main()
