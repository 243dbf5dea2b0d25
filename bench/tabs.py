"""The memory of a public server while many tabs are open. `python -m bench.tabs --clip FILE`.

Every tab is a visitor of an address of its own. Memory is that of the server and all processes
below it, read four times a second, in megabytes (10^6 bytes). The scenes:

stopped  three tabs run the clip four times each, with other options each time, and stop each run
traces   as many tabs open a trace of few kilobytes that holds as many pixels as one may
opening  as many programs open that trace by /open at the same time
tabs     as many tabs upload the clip, run it and stay open
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
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.server import ROOT, memory_mb, serving_process
from bench.visitor import API, EventFailed, Visitor

SIZE = 1920, 1080
"""Of the clip as it is uploaded."""
SETTLE_S = 3.0
"""How long after the last answer memory is read once more."""
QUESTION = "Is there a bottle in the video?"
MAX_FRAMES = 32
"""The option of a run that makes its clip the largest, as a public server bounds it."""
PROGRAMS = 12
"""That open a trace at once."""


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


def _arrive(stack: ExitStack, url: str, block: int, number: int) -> Visitor:
    """A visitor of an address of its own, who stays until the stack is closed."""
    rng = random.Random(1000 * block + number)
    return stack.enter_context(Visitor(url, rng, f"127.0.{block}.{number + 1}"))


def _bring(visitor: Visitor, clip: Path) -> None:
    visitor.fill(visitor.upload(clip), elem_id="video")
    visitor.event("upload")
    visitor.fill(None, elem_id="example")
    visitor.fill(QUESTION, elem_id="question")


def _tabs(url: str, stack: ExitStack, clip: Path, count: int) -> dict[str, Any]:
    """All tabs at once; how they ended."""
    lock = threading.Lock()

    def one(number: int) -> str:
        with lock:
            visitor = _arrive(stack, url, 1, number)
        _bring(visitor, clip)
        state = visitor.event("run").get("status", {})
        return str(state.get("error") or state.get("stage"))

    with ThreadPoolExecutor(count) as pool:
        return {"ends": dict(sorted(Counter(pool.map(one, range(count))).items()))}


def _stopped(url: str, stack: ExitStack, clip: Path) -> dict[str, Any]:
    """Three tabs, four runs each, stopped at the second partial answer."""
    for number in range(3):
        visitor = _arrive(stack, url, 2, number)
        _bring(visitor, clip)
        for fewer in range(4):
            visitor.fill(MAX_FRAMES - fewer, label="frames")
            heard: list[int] = []

            def progress(visitor: Visitor = visitor, heard: list[int] = heard) -> None:
                heard.append(1)
                if len(heard) == 2:
                    visitor.event("stop")

            visitor.event("run", on_progress=progress)
    return {}


def _traces(url: str, stack: ExitStack, trace: Path, count: int) -> dict[str, Any]:
    """Tabs that open a trace, one after another."""
    for number in range(count):
        visitor = _arrive(stack, url, 3, number)
        visitor.fill(visitor.upload(trace), elem_id="open")
        visitor.event("reopen")
    return {"kilobytes": round(trace.stat().st_size / 1000, 1)}


def _opening(url: str, trace: Path) -> dict[str, Any]:
    """Programs that open a trace at the same time; what they were answered."""
    ready = threading.Barrier(PROGRAMS)

    def one(number: int) -> str:
        way = httpx.HTTPTransport(local_address=f"127.0.4.{number + 1}")
        with httpx.Client(base_url=url, timeout=600, transport=way, trust_env=False) as client:
            with trace.open("rb") as content:
                sent = client.post(f"/{API}/upload", files={"files": content})
            (path,) = sent.raise_for_status().json()
            ready.wait()
            about = {"path": path, "meta": {"_type": "gradio.FileData"}}
            return str(client.post(f"/{API}/run/open", json={"data": [about]}).status_code)

    with ThreadPoolExecutor(PROGRAMS) as pool:
        return {"answers": dict(sorted(Counter(pool.map(one, range(PROGRAMS))).items()))}


def _scene(url: str, pid: int, play: Callable[[ExitStack], dict[str, Any]]) -> dict[str, Any]:
    """Plays a scene: memory when nobody is there, at its peak, and while its tabs stay open."""
    with ExitStack() as stack:
        stack.enter_context(Visitor(url, random.Random(1))).event("run")  # the models are loaded
        watch = Watch(pid)
        stack.callback(watch.close)
        idle = watch.reset()
        began = time.monotonic()
        try:
            told = play(stack)
        except EventFailed as error:
            told = {"failed": str(error)}
        seconds, peak = time.monotonic() - began, watch.peak
        return {
            "idle_mb": round(idle),
            "peak_above_idle_mb": round(peak - idle),
            "kept_above_idle_mb": round(watch.reset() - idle),
            "seconds": round(seconds),
            **told,
        }


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
        where = {"TMPDIR": str(folder / "server"), "GRADIO_TEMP_DIR": ""}
        ways: dict[str, Callable[[str, ExitStack], dict[str, Any]]] = {
            "stopped": lambda url, stack: _stopped(url, stack, hd),
            "traces": lambda url, stack: _traces(url, stack, large, count),
            "opening": lambda url, stack: _opening(url, large),
            "tabs": lambda url, stack: _tabs(url, stack, hd, count),
        }
        for scene in scenes:
            with serving_process("--public", **where) as (server, url):
                report[scene] = _scene(url, server.pid, partial(ways[scene], url))
            print(scene, report[scene], flush=True)
    return report


def main(words: Sequence[str] | None = None) -> None:
    """Prints the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clip", type=Path, required=True, help="a real clip, which is enlarged")
    parser.add_argument("--tabs", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--scenes", default="stopped,traces,opening,tabs")
    parser.add_argument("--out", type=Path, help="write the report there too")
    args = parser.parse_args(words)
    text = json.dumps(measure(args.clip, args.tabs, args.scenes.split(",")), indent=1) + "\n"
    if args.out is not None:
        args.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
