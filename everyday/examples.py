"""Writes the traces of the shipped clips of a camera: `python -m everyday.examples`.

The questions are fixed here and were written by looking at the clips; answers are whatever the
shipped model gives. `index.json` says of each what is true. One was chosen by its answers: the
questions that were tried for it, with what was said at three α, are `tried.jsonl`.
"""

from __future__ import annotations

import json
from typing import Any

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import load_backbone
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.options import ContrastOptions, RunOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import save
from macd_studio.core.whatif.workbench import Workbench

FOLDERS = [assets() / EVERYDAY / name for name in ("examples", "lessons")]
FRAMES = 4
"""Of a trace, which holds every frame: these are to stay small."""
CLIPS: tuple[dict[str, Any], ...] = (
    {
        "video": "street.mp4", "kind": "real-strengths",
        "title": "A car park: a car, and far away people and a bicycle",
        "question": "Which vehicle is in the video?", "answer": "car",
        "truth": "True answer: car. A grey car turns away; far off somebody rides a bicycle.",
    },
    {
        "video": "bottles.mp4", "title": "Three bottles, and a hand that takes one",
        "question": "How many bottles are in the video?", "answer": "three",
        "truth": "True answer: three. A hand takes the left one away and brings it back.",
    },
    {
        "video": "classroom.mp4", "kind": "real-tracks",
        "title": "A classroom with four people",
        "question": "Is there a person in the video?", "answer": "yes",
        "truth": "True answer: yes. Four people sit at tables, among blue chairs.",
    },
)  # fmt: skip
OF_COURSE: tuple[dict[str, Any], ...] = (
    {
        "video": "parking.mp4", "kind": "real-harmed", "alpha": 2.0,
        "title": "The car park once more: one car",
        "question": "How many cars are there?", "answer": "one",
        "truth": "True answer: one. A grey car turns away; far off is somebody with a bicycle."
        " Chosen by its outcome: 53 questions about five clips were asked with α of 1, 2 and 3."
        " Contrast spoiled two right answers, this one from 2 on, and corrected two wrong ones.",
    },
)  # fmt: skip
"""Chosen by its answer, and so in a folder of its own, that no rating study reads."""


def main() -> None:
    """Command line."""
    need_checkout("everyday.examples")
    parser = command_line("everyday.examples", __doc__)
    rows = [
        (folder, row) for folder, of in zip(FOLDERS, (CLIPS, OF_COURSE), strict=True) for row in of
    ]
    names = [row["video"] for _, row in rows]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="VIDEO")
    only = parser.parse_args().only
    lm, detector = load_backbone(EVERYDAY, "cpu"), load_detector(REAL_DETECTOR)
    for folder, row in rows:
        if row["video"] not in only:
            continue
        contrast = ContrastOptions(alpha=row.get("alpha", 1.0))
        options = RunOptions(video=VideoOptions(frames=FRAMES), contrast=contrast)
        video = folder / row["video"]
        *_, last = run(video, row["question"], lambda: lm, lambda: detector, options)
        assert last.trace is not None
        bench = Workbench(last.trace, lm)
        bench.measure_occlusion()
        trace = bench.measure_controls()
        save(trace, video.with_suffix(".macd"))
        print(row["video"], {name: a.text for name, a in trace.answers.items()}, flush=True)
    for folder in FOLDERS:
        listed = [row for place, row in rows if place == folder]
        (folder / "index.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
