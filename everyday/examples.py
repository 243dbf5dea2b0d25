"""Writes the traces of the shipped clips of a camera: `python -m everyday.examples`.

The questions are fixed here and were written by looking at the clips; answers are whatever the
shipped model gives. `index.json` says of each what is true.
"""

from __future__ import annotations

import json
from typing import Any

from macd_studio.commands import need_checkout
from macd_studio.core.backbones import load_backbone
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.options import RunOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import save
from macd_studio.core.whatif.workbench import Workbench

OUT = assets() / EVERYDAY / "examples"
FRAMES = 4
"""Of a trace, which holds every frame: these three are to stay small."""
CLIPS: tuple[dict[str, Any], ...] = (
    {
        "video": "street.mp4", "title": "A car park: a car, and far away people and a bicycle",
        "question": "Which vehicle is in the video?", "answer": "car",
        "truth": "True answer: car. A grey car turns away; far off somebody rides a bicycle.",
    },
    {
        "video": "bottles.mp4", "title": "Three bottles, and a hand that takes one",
        "question": "How many bottles are in the video?", "answer": "three",
        "truth": "True answer: three. A hand takes the left one away and brings it back.",
    },
    {
        "video": "classroom.mp4", "title": "A classroom with four people",
        "question": "Is there a person in the video?", "answer": "yes",
        "truth": "True answer: yes. Four people sit at tables, among blue chairs.",
    },
)  # fmt: skip


def main() -> None:
    """Runs and writes all of them."""
    need_checkout("everyday.examples")
    lm, detector = load_backbone(EVERYDAY, "cpu"), load_detector(REAL_DETECTOR)
    options = RunOptions(video=VideoOptions(frames=FRAMES))
    for row in CLIPS:
        *_, last = run(OUT / row["video"], row["question"], lambda: lm, lambda: detector, options)
        assert last.trace is not None
        bench = Workbench(last.trace, lm)
        bench.measure_occlusion()
        trace = bench.measure_controls()
        save(trace, (OUT / row["video"]).with_suffix(".macd"))
        print(row["video"], {name: a.text for name, a in trace.answers.items()}, flush=True)
    (OUT / "index.json").write_text(json.dumps(list(CLIPS), indent=1) + "\n")


if __name__ == "__main__":
    main()
