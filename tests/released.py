"""Keeps what a release writes, so that later versions are held to it.

    python -m tests.released

Writes tests/core/data/release-VERSION: `.macd`, a run of the embedded models with further methods,
changes by hand and everything that can be measured of it; `-summary.json`, what `show --json` says
of it; `.json`, the schema of its manifest. `tests.core.test_compatibility` reads them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import macd_studio as macd
from macd_studio.core.backbones import load_backbone
from macd_studio.core.report.summary import as_json
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import save
from macd_studio.core.types import Trace
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.workbench import Workbench

FOLDER = Path(__file__).parent / "core" / "data"
QUESTION = "Which vehicle is in the video?"
METHODS = ("vcd", "sid", "macd-measured", "mask-all+log-linear")
EDITS = (
    {"kind": "level", "track": 2, "level": 0.75},
    {"kind": "label", "track": 1, "label": "van"},
)


def made() -> Trace:
    """The run that is kept."""
    lm = load_backbone("toyworld", "cpu")
    trace = macd.trace(
        assets() / "examples" / "repaired.mp4", question=QUESTION, backbone=lm, methods=METHODS,
        video={"frames": 4}, ascent={"steps": 2},
    )  # fmt: skip
    for edit in EDITS:
        bench = Workbench(trace, lm)
        for event in bench.change(read_edit(edit, trace)):
            trace = event.trace or trace
    trace = macd.evidence(trace, 1, backbone=lm, kinds=("gradient", "attention", "occlusion"))
    return macd.choices(macd.enough(trace, 1, backbone=lm), backbone=lm)


def main() -> None:
    """Writes the files of this version."""
    trace, start = made(), FOLDER / f"release-{macd.__version__}"
    save(trace, start.with_name(f"{start.name}.macd"))
    told = json.dumps(as_json(trace), ensure_ascii=False)
    start.with_name(f"{start.name}-summary.json").write_text(f"{told}\n", encoding="utf-8")
    schema = FOLDER.parents[2] / "docs" / "trace-schema.json"
    shutil.copy(schema, start.with_name(f"{start.name}.json"))
    for file in sorted(FOLDER.glob(f"{start.name}*")):
        print(f"{file.stat().st_size / 1000:.0f} kB: {file}")


if __name__ == "__main__":
    main()
