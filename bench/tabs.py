"""The memory of a public server while many tabs are open. `python -m bench.tabs --clip FILE`.

Every tab is a visitor of an address of its own. Memory is that of the server and all processes
below it, read four times a second, in megabytes (10^6 bytes). The scenes:

tabs     as many tabs upload the clip, run it and stay open
stopped  three tabs run it four times each, with other options each time, and stop each run
traces   as many tabs open a trace of few kilobytes that holds as many pixels as one may
opening  as many programs open that trace by /open at the same time
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.server import ROOT, serving_process
from bench.soak import _children
from bench.visitor import API, EventFailed, Visitor

SIZE = 1920, 1080
"""Of the clip as it is uploaded."""
SETTLE_S = 3.0
"""How long after the last answer memory is read once more."""
QUESTION = "Is there a bottle in the video?"
MOST_FRAMES = 32
"""The option of a run that makes its clip the largest, as a public server bounds it."""


def memory_mb(pid: int) -> float:
    """Resident memory of a process and of all below it, pages that they share once."""
    total = 0
    for one in _processes(pid):
        try:
            with open(f"/proc/{one}/smaps_rollup") as lines:
                total += next(int(x.split()[1]) for x in lines if x.startswith("Pss:"))
        except (OSError, StopIteration):  # it has ended
            continue
    return total * 1024 / 1e6


def _processes(pid: int) -> list[int]:
    """The process and all below it; only itself while threads come and go."""
    try:
        return [pid, *_children(pid)]
    except OSError:
        return [pid]


class Watch:
    """Reads a server's memory four times a second; `peak` since the last `reset`, megabytes."""

    def __init__(self, pid: int) -> None:
        self.pid, self.peak = pid, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self.peak = max(self.peak, memory_mb(self.pid))

    def reset(self) -> float:
        """Memory now, after a moment of rest; the peak counts from here."""
        time.sleep(SETTLE_S)
        self.peak = now = memory_mb(self.pid)
        return now

    def close(self) -> None:
        """Ends the reading."""
        self._over.set()
        self._thread.join()


def enlarged(clip: Path, folder: Path) -> Path:
    """The clip in SIZE, as H.264 with a key frame every second."""
    import av

    path = folder / f"{clip.stem} {SIZE[1]}p.mp4"
    with av.open(str(clip)) as source, av.open(str(path), "w") as target:
        video = source.streams.video[0]
        rate = round(video.average_rate or 25)
        out: Any = target.add_stream("libx264", rate=rate)
        out.width, out.height, out.pix_fmt = *SIZE, "yuv420p"
        out.options = {"preset": "ultrafast", "crf": "32", "g": str(rate)}
        for i, frame in enumerate(source.decode(video)):
            bigger = frame.reformat(*SIZE, "yuv420p")
            bigger.pts, bigger.time_base = i, Fraction(1, rate)
            target.mux(out.encode(bigger))
        target.mux(out.encode())
    return path


def large_trace(folder: Path) -> Path:
    """A file of few kilobytes whose frames take as much memory as those of a trace can."""
    from macd_studio.core.traces.bundle import load, save

    sound = load(next(p for p in sorted((ROOT / "assets" / "examples").glob("*.macd"))))
    assert sound.model_frames is not None
    frames = len(sound.frames)
    grey = np.full((frames, 1350, 1350, 3), 128, np.uint8)
    shown = {n: replace(a, second_views=()) for n, a in sound.answers.items()}
    return save(
        replace(
            sound,
            frames=grey,
            model_frames=replace(
                sound.model_frames,
                pixels=np.full((frames, 1540, 1540, 3), 128, np.uint8),
                content=(0, 0, 1540, 1540),
            ),
            answers=shown,
        ),
        folder / "large.macd",
    )


def wait_stopped(visitor: Visitor, after: int = 2) -> None:
    """Runs the form and stops the run at its second partial answer that shows frames."""
    heard = 0

    def progress() -> None:
        nonlocal heard
        heard += 1
        if heard == after:
            visitor.event("stop")

    visitor.event("run", on_progress=progress)


def tabs(url: str, count: int, clip: Path, stack: ExitStack) -> dict[str, Any]:
    """All tabs at once; how they ended."""

    def one(number: int) -> str:
        visitor = Visitor(url, random.Random(number), f"127.0.1.{number + 1}")
        with lock:
            stack.enter_context(visitor)
        visitor.fill(visitor.upload(clip), elem_id="video")
        visitor.event("upload")
        visitor.fill(None, elem_id="example")
        visitor.fill(QUESTION, elem_id="question")
        state = visitor.event("run").get("status", {})
        return str(state.get("error") or state.get("stage"))

    lock = threading.Lock()
    with ThreadPoolExecutor(count) as pool:
        ends = list(pool.map(one, range(count)))
    return {"ends": {end: ends.count(end) for end in sorted(set(ends))}}


def stopped(url: str, clip: Path, stack: ExitStack) -> dict[str, Any]:
    """Three tabs, four stopped runs each."""
    for number in range(3):
        visitor = stack.enter_context(
            Visitor(url, random.Random(1000 + number), f"127.0.2.{number + 1}")
        )
        visitor.fill(visitor.upload(clip), elem_id="video")
        visitor.event("upload")
        visitor.fill(None, elem_id="example")
        visitor.fill(QUESTION, elem_id="question")
        for fewer in range(4):
            visitor.fill(MOST_FRAMES - fewer, label="frames")
            wait_stopped(visitor)
    return {}


def traces(url: str, count: int, trace: Path, stack: ExitStack) -> dict[str, Any]:
    """Tabs that open a trace, one after another."""
    for number in range(count):
        visitor = stack.enter_context(
            Visitor(url, random.Random(2000 + number), f"127.0.3.{number + 1}")
        )
        visitor.fill(visitor.upload(trace), elem_id="open")
        visitor.event("reopen")
    return {"kilobytes": round(trace.stat().st_size / 1000, 1)}


def opening(url: str, count: int, trace: Path, stack: ExitStack) -> dict[str, Any]:
    """Programs that open a trace at the same time; what they were answered."""

    def one(number: int) -> int:
        way = httpx.HTTPTransport(local_address=f"127.0.4.{number + 1}")
        with httpx.Client(base_url=url, timeout=600, transport=way, trust_env=False) as client:
            with trace.open("rb") as content:
                sent = client.post(f"/{API}/upload", files={"files": content})
            (path,) = sent.raise_for_status().json()
            ready.wait()
            about = {"path": path, "meta": {"_type": "gradio.FileData"}}
            return client.post(f"/{API}/run/open", json={"data": [about]}).status_code

    ready = threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        codes = list(pool.map(one, range(count)))
    return {"answers": {str(code): codes.count(code) for code in sorted(set(codes))}}


@contextmanager
def watched(name: str, watch: Watch, idle: float, report: dict[str, Any]) -> Iterator[Any]:
    """Measures a scene: memory at its peak, and as long as its tabs stay open."""
    told: dict[str, Any] = {}
    began = time.monotonic()
    watch.reset()
    try:
        yield told.update
    except EventFailed as error:
        told["failed"] = str(error)
    seconds = time.monotonic() - began
    peak = watch.peak
    kept = watch.reset()
    report[name] = {
        "peak_above_idle_mb": round(peak - idle),
        "kept_above_idle_mb": round(kept - idle),
        "seconds": round(seconds),
        **told,
    }
    print(name, report[name], flush=True)


def measure(clip: Path, count: int, scenes: Sequence[str]) -> dict[str, Any]:
    """Each scene on a server of its own."""
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "command": " ".join(["python -m bench.tabs", *sys.argv[1:]]),
        "at_once": count,
    }
    with tempfile.TemporaryDirectory(prefix="macd-tabs-") as temporary:
        folder = Path(temporary)
        (folder / "server").mkdir()
        large, hd = large_trace(folder), enlarged(clip, folder)
        report["clip"] = {"size": list(SIZE), "megabytes": round(hd.stat().st_size / 1e6, 1)}
        ways: dict[str, Callable[[str, ExitStack], dict[str, Any]]] = {
            "tabs": lambda url, stack: tabs(url, count, hd, stack),
            "stopped": lambda url, stack: stopped(url, hd, stack),
            "traces": lambda url, stack: traces(url, count, large, stack),
            "opening": lambda url, stack: opening(url, 12, large, stack),
        }
        where = {"TMPDIR": str(folder / "server"), "GRADIO_TEMP_DIR": ""}
        for scene in scenes:
            with serving_process("--public", **where) as (server, url), ExitStack() as stack:
                warm = stack.enter_context(Visitor(url, random.Random(1)))
                warm.event("run")  # the models are loaded and tried out
                watch = Watch(server.pid)
                stack.callback(watch.close)
                idle = watch.reset()
                report.setdefault("idle_mb", round(idle))
                with watched(scene, watch, idle, report) as tell:
                    tell(ways[scene](url, stack))
    return report


def main(words: Sequence[str] | None = None) -> int:
    """Prints the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clip", type=Path, required=True, help="a real clip, which is enlarged")
    parser.add_argument("--tabs", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--scenes", default="stopped,traces,opening,tabs")
    parser.add_argument("--out", type=Path, default=None, help="write the report there too")
    args = parser.parse_args(words)
    report = measure(args.clip, args.tabs, args.scenes.split(","))
    text = json.dumps(report, indent=1) + "\n"
    if args.out is not None:
        args.out.write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
