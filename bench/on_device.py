"""What the largest jobs of a public server take in their turn on the device, embedded model.

    python -m bench.on_device

Prints for each its views, seconds of one processor, seconds of the wall clock, the longest time
between two looks at Stop, and the peak of memory above what the process held:

choices    the choice map of 32 frames and six of 8 objects
reading    20 steps by reading alone of 32 frames and 40 objects, ended at the server's time limit
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import macd_studio
from bench.clips import CUP
from macd_studio.core.backbones.load import load_backbone
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.reading import read_tracks
from macd_studio.core.options import AscentOptions, RunOptions, TrackOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.whatif.verdict import views_of_map
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.macd_ui.settings import LIMITS, ServerSettings

FRAMES = int(LIMITS["video.frames"])
QUESTION = "Is there a car?"


def peak_mb() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


@contextmanager
def boxes(count: int) -> Iterator[str]:
    """A folder of YOLO labels: so many still objects on every frame of the clip."""
    across = 4 if count <= 8 else 8
    down, side = -(-count // across), 0.95 / across
    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(
            f"{i} {(i % across + 0.5) / across:.4f} {(i // across + 0.5) / down:.4f} {side:.4f}"
            f" {0.95 / down:.4f}\n"
            for i in range(count)
        )
        for frame in range(48):  # those of the clip
            (Path(folder) / f"frame_{frame}.txt").write_text(rows)
        yield folder


def measured(name: str, work: Callable[[Callable[[], None]], dict[str, Any]]) -> dict[str, Any]:
    """Runs a job, which calls what it is given at each look at Stop, and what that took."""
    before, began, processor = peak_mb(), time.monotonic(), time.process_time()
    looks = [began]
    told = work(lambda: looks.append(time.monotonic()))
    looks.append(time.monotonic())
    return {
        "job": name,
        "frames": FRAMES,
        "processor_s": round(time.process_time() - processor, 2),
        "seconds": round(looks[-1] - began, 2),
        "longest_step_s": round(float(np.diff(looks).max()), 2),
        "mb": round(peak_mb() - before),
        **told,
    }


def choices() -> dict[str, Any]:
    """The largest choice map: as many frames as a server takes, a frame mask, many objects."""
    with boxes(8) as folder:
        found = macd_studio.trace(CUP, QUESTION, tracks=folder, video={"frames": FRAMES})
    levels = found.counterfactual
    assert levels is not None
    on = np.ones_like(levels.frame_level)
    on[: len(on) // 2] = 0
    found = replace(found, counterfactual=replace(levels, frame_level=on))
    bench = Workbench(found, load_backbone("toyworld"))

    def work(looked: Callable[[], None]) -> dict[str, Any]:
        for _ in bench.choice_events():
            looked()
        return {"views": views_of_map(found) + 1}

    return measured("choices", work)


def reading() -> dict[str, Any]:
    """The longest ascent by reading alone, until the time of a public run is over."""
    objects, steps = int(LIMITS["track.max_tracks"]), int(LIMITS["ascent.steps"])
    limit = ServerSettings(public=True).time_limit_s
    assert limit is not None
    options = RunOptions(
        video=VideoOptions(frames=FRAMES),
        track=TrackOptions(max_tracks=objects),
        ascent=AscentOptions(steps=steps, gradient="difference"),
    )
    clip, lm = read_clip(CUP, options.video), load_backbone("toyworld")
    with boxes(objects) as folder:
        placed = read_tracks(folder, clip, options.track)

    def no_detector() -> Any:
        raise AssertionError("no detector is asked")

    def work(looked: Callable[[], None]) -> dict[str, Any]:
        ends = time.monotonic() + limit

        def over() -> bool:
            looked()
            return time.monotonic() > ends

        *_, last = run(
            lambda: clip, QUESTION, lambda: lm, no_detector, options, cancelled=over,
            tracks=lambda _: placed,
        )  # fmt: skip
        end = last.trace
        assert end is not None
        assert len(end.tracks) == objects
        views = steps * options.ascent.reads(objects, len(end.groups))
        return {"views": views, "steps_done": len(end.steps), "status": end.status}

    return measured("reading", work)


if __name__ == "__main__":
    for job in (choices, reading):
        print(json.dumps(job()), flush=True)
