"""Many visitors of one server: what it keeps of them. `python -m bench.soak --runs 1000`.

Runs, stops, changes by hand, opened traces and files of tracks, some of which are to be refused,
each by a visitor who comes and goes. Memory, descriptors, threads, child processes and temporary
bytes are read from /proc and the server's folder when all visitors are gone. Ends with 1 if any has
grown by more than 5 % since the first reading (threads: by more than two), or if an event failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.__main__ import write
from bench.server import ROOT, children, serving_process
from bench.visitor import EventFailed, Visitor
from macd_studio.macd_ui.examples import examples as page_examples

RESULTS = ROOT / "bench" / "results" / "soak.json"
MARKS = (100, 500, 1000)
ALLOWED = 1.05
"""Growth over the first reading that does not count as a leak."""
ALLOWED_THREADS = 2
"""Threads by which a pool may differ: idle ones end only when the pool is next used."""
GRACE_S = 4.0
"""How long the server keeps what belongs to a visitor who has left. A file that no event has
referred to yet stays for five times as long: less than 20 s would drop uploads on a busy machine.
"""
SETTLE_S = 240.0
"""How long the server may take to let go of everything."""
QUESTIONS = (
    "Which animal is in the video?",
    "Is there a dog in the video?",
    "What is in the video?",
    "Is there a cup in the video?",
    "Which way does it move?",
)
FIGURES = ("rss_mb", "descriptors", "threads", "children", "temporary_bytes")


def reading(pid: int, folder: Path) -> dict[str, float]:
    """What the server holds now: by name, as in FIGURES. Raises OSError where it has ended."""
    place = Path("/proc") / str(pid)
    status = dict(
        line.split(":", 1) for line in (place / "status").read_text().splitlines() if ":" in line
    )
    return {
        "rss_mb": int(status["VmRSS"].split()[0]) / 1024,
        "descriptors": len(os.listdir(place / "fd")),
        "threads": int(status["Threads"]),
        "children": len(children(pid)),
        "temporary_bytes": sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()),
    }


def grown(readings: Sequence[dict[str, float]]) -> list[str]:
    """The figures whose last reading exceeds the first by more than is allowed."""
    first, last = readings[0], readings[-1]
    spare = {"threads": ALLOWED_THREADS}
    return [n for n in FIGURES if last[n] > max(ALLOWED * first[n], first[n] + spare.get(n, 0))]


def settled(pid: int, folder: Path) -> dict[str, float]:
    """A reading after all visitors have left, once temporary bytes and descriptors are stable."""
    end = time.monotonic() + SETTLE_S
    before = reading(pid, folder)
    while time.monotonic() < end:
        time.sleep(8 * GRACE_S)  # longer than an upload that nobody refers to is kept
        now = reading(pid, folder)
        if all(now[n] == before[n] for n in ("descriptors", "threads", "temporary_bytes")):
            return now
        before = now
    return before


def drawn_clips(folder: Path) -> list[Path]:
    """Clips of one to three objects and of another shape, made here."""
    from macd_studio.toyworld.clips import write_mp4
    from macd_studio.toyworld.world import ClipSpec, ObjectSpec

    objects = (
        ObjectSpec("dog", 0.3, (0.25, 0.7), "right", 0.4),
        ObjectSpec("cup", 0.25, (0.7, 0.25), "still"),
        ObjectSpec("bird", 0.2, (0.5, 0.5), "still"),
    )
    paths = []
    for count in (1, 2, 3):
        path = folder / f"{count} objects.mp4"
        write_mp4(ClipSpec(scene="kitchen", objects=objects[:count], background=3, seed=5), path)
        paths.append(path)
    return paths


@dataclass(frozen=True)
class Material:
    """What visitors bring: clips, saved traces, the objects of each trace, and files of objects
    that no run may take.
    """

    clips: Sequence[Path]
    traces: Sequence[Path]
    tracks: Sequence[Path] = ()
    refused: Sequence[Path] = ()


def track_files(traces: Sequence[Path], folder: Path) -> Material:
    """The objects of each trace as a file, and files that are to be refused, made here."""
    from macd_studio.core.report.export import exported
    from macd_studio.core.traces.bundle import load

    tracks = [folder / f"{path.stem}.json" for path in traces]
    for path, trace in zip(tracks, traces, strict=True):
        path.write_bytes(exported(load(trace), "json", "tracks"))
    noise = np.random.default_rng(0).integers(0, 2**16, (360, 640), dtype=np.uint16)
    Image.fromarray(noise).save(folder / "m_1.png")
    (folder / "gt.txt").write_text(f"{'9' * 400},1,10,10,50,50,1,1,1\n")
    (folder / "half.json").write_bytes(tracks[0].read_bytes()[:200])
    refused = [folder / name for name in ("m_1.png", "gt.txt", "half.json")]
    return Material((), traces, tracks, refused)


def visit(url: str, seed: int, material: Material) -> Counter[str]:
    """One visitor with one run; how often each event was fired and what failed."""
    rng = random.Random(seed)
    done: Counter[str] = Counter()
    try:
        with Visitor(url, rng) as visitor:
            _choose(visitor, rng, material, done)
            _run(visitor, rng, done)
            _change(visitor, rng, done)
            if rng.random() < 0.25:
                visitor.fill(visitor.upload(rng.choice(material.traces)), elem_id="open")
                visitor.event("reopen")
                done["trace opened"] += 1
            _change(visitor, rng, done)
    except Exception as error:  # the others go on; the failure is counted and told
        done["failed"] += 1
        print(f"visitor {seed}: {type(error).__name__}: {error}", file=sys.stderr)
    return done


def _choose(visitor: Visitor, rng: random.Random, material: Material, done: Counter[str]) -> None:
    """A clip of one's own, or an example, half of them with a file of objects."""
    if rng.random() >= 0.5:
        visitor.fill(visitor.upload(rng.choice(material.clips)), elem_id="video")
        visitor.event("upload")
        visitor.fill(None, elem_id="example")
        done["clip uploaded"] += 1
        return
    number = rng.randrange(len(material.traces))
    visitor.fill(number, elem_id="example")
    visitor.event("choose")
    done["example chosen"] += 1
    if material.tracks and rng.random() < 0.5:
        visitor.brings_refused = bad = rng.random() < 0.4
        path = rng.choice(material.refused) if bad else material.tracks[number]
        visitor.fill(visitor.upload(path), elem_id="tracks")
        done["refused tracks uploaded" if bad else "tracks uploaded"] += 1


def _change(visitor: Visitor, rng: random.Random, done: Counter[str]) -> None:
    if rng.random() >= 0.4 or not visitor.run_id:
        return
    action = rng.choice((
        {"do": "occlusion"},
        {"do": "redecode", "alpha": rng.choice((0.0, 2.0)), "beta": 0.1},
        {"do": "edit", "edit": {"kind": "frames", "track": 0, "level": rng.random()}},
    ))  # fmt: skip
    visitor.event("act", action | {"run": visitor.run_id})
    done[f"changed: {action['do']}"] += 1
    if rng.random() < 0.5:
        visitor.event("act", {"do": "undo", "run": visitor.run_id})
        done["changed: undo"] += 1


def _run(visitor: Visitor, rng: random.Random, done: Counter[str]) -> None:
    blank = rng.random() < 0.05
    visitor.fill("  " if blank else rng.choice(QUESTIONS), elem_id="question")
    stop_after = rng.randrange(1, 6) if rng.random() < 0.2 else 0
    heard = 0

    def progress() -> None:
        nonlocal heard
        heard += 1
        if heard == stop_after:
            visitor.event("stop")
            done["stopped"] += 1

    state = visitor.event("run", on_progress=progress).get("status", {})
    done["run"] += 1
    to_refuse = blank or visitor.brings_refused
    if to_refuse and not state.get("error") and not stop_after:
        raise EventFailed(f"run: it took what is to be refused, and ended at {state}")
    if state.get("error") and not to_refuse:
        raise EventFailed(f"run: {state['error']}")
    done["run refused"] += bool(state.get("error"))
    if not state.get("error") and not stop_after and state.get("stage") != "done":
        raise EventFailed(f"run: it ended at {state}")


def soak(runs: int, marks: Sequence[int], seed: int, at_once: int) -> dict[str, Any]:
    """Serves the page, sends the visitors, and reads what is held at every mark.

    runs: in all, one a visitor; marks: after how many to read; at_once: visitors at a time.
    """
    examples = ROOT / "assets" / "examples"
    done: Counter[str] = Counter()
    readings = []
    lock = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="macd-soak-") as temporary:
        folder, own = Path(temporary) / "server", Path(temporary) / "clips"
        folder.mkdir()
        own.mkdir()
        clips = [*sorted(examples.glob("*.mp4")), *drawn_clips(own)]
        traces = [one.trace for one in page_examples() if one.trace is not None]  # by number
        material = replace(track_files(traces, own), clips=clips)
        where = {"TMPDIR": str(folder), "GRADIO_TEMP_DIR": "", "MACD_GRACE_S": str(GRACE_S)}
        with serving_process(**where) as (server, url):

            def send(number: int) -> None:
                counted = visit(url, seed * 1_000_003 + number, material)
                with lock:
                    done.update(counted)

            first, seconds = 0, 0.0
            for mark in [*(m for m in marks if m < runs), runs]:
                began = time.monotonic()
                with ThreadPoolExecutor(at_once) as visitors:
                    list(visitors.map(send, range(first, mark)))
                seconds += time.monotonic() - began
                first = mark
                readings.append({"runs": mark, "seconds": seconds} | settled(server.pid, folder))
                print({name: round(value) for name, value in readings[-1].items()}, flush=True)
    return {
        "seed": seed,
        "at_once": at_once,
        "command": " ".join(["python -m bench.soak", *sys.argv[1:]]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "events": dict(sorted(done.items())),
        "readings": readings,
        "grown": grown(readings),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Returns 1 where something grew or failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--marks", default=",".join(map(str, MARKS)), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=3, help="visitors at a time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="default: %(default)s")
    args = parser.parse_args(words)
    report = soak(args.runs, sorted(map(int, args.marks.split(","))), args.seed, args.at_once)
    write(args.out, report)
    print(report["events"])
    print(f"grown by more than {ALLOWED - 1:.0%}: {', '.join(report['grown']) or 'nothing'}")
    return int(bool(report["grown"]) or "failed" in report["events"])


if __name__ == "__main__":
    raise SystemExit(main())
