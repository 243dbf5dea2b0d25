"""What the largest choice map takes: the embedded model, 32 frames, six objects, 128 views.

    python -m bench.choice_map

Prints the views, seconds of one processor, seconds of the wall clock, the longest time between two
looks at Stop, and the peak of memory above what the process held.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.clips import CUP
from macd_studio import trace
from macd_studio.core.backbones.load import load_backbone
from macd_studio.core.evidence.choices import views_of_map
from macd_studio.core.types import Trace
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.macd_ui.settings import LIMITS

OBJECTS = 8


def peak_mb() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if _mac() else 2**10)


def _mac() -> bool:
    return sys.platform == "darwin"


def largest() -> Trace:
    """A run of as many frames as a public server takes, with a frame mask and many objects."""
    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(
            f"{i} {0.13 + 0.24 * (i % 4):.2f} {0.25 + i // 4 * 0.5} .2 .4\n" for i in range(OBJECTS)
        )
        for frame in range(48):  # those of the clip
            (Path(folder) / f"frame_{frame}.txt").write_text(rows)
        frames = int(LIMITS["video.frames"])
        run = trace(CUP, "Is there a car?", tracks=folder,
                    video={"frames": frames})  # fmt: skip
    levels = run.counterfactual
    assert levels is not None
    on = np.ones_like(levels.frame_level)
    on[: len(on) // 2] = 0
    return replace(run, counterfactual=replace(levels, frame_level=on))


def main() -> None:
    """Measures and prints."""
    run, lm = largest(), load_backbone("toyworld")
    bench, before = Workbench(run, lm), peak_mb()
    began, processor = time.monotonic(), time.process_time()
    last, longest = began, 0.0
    for _ in bench.choice_events():
        now = time.monotonic()
        last, longest = now, max(longest, now - last)
    print(
        json.dumps(
            {
                "views": views_of_map(run) + 1,
                "frames": len(run.frames),
                "processor_s": round(time.process_time() - processor, 2),
                "seconds": round(time.monotonic() - began, 2),
                "longest_step_s": round(longest, 2),
                "mb": round(peak_mb() - before),
            }
        )
    )


if __name__ == "__main__":
    main()
