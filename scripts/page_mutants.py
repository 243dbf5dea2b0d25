"""Plants small faults in what the viewer draws, one at a time; its browser tests must notice.

    python -m scripts.page_mutants            all of them
    python -m scripts.page_mutants bars       those whose name holds this

The faults are made in a copy of the checkout. `scripts.js_mutants` does the same to what the
scripts compute, by checks of parity. Exits 1 where less than GOAL of them are noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.mutants import NOT_COPIED, ROOT

GOAL = 0.95
BARS, FLIPS, STAGE = (f"viewer/js/{name}.js" for name in ("bars", "flips", "stage"))
TESTS = [
    f"tests/browser/test_{name}.py"
    for name in ("answers", "layout", "tools", "steps", "reach", "first_screen", "signs", "export")
]
MUTANTS: dict[str, tuple[str, str, str]] = {
    "bars: names of the views": (
        BARS,
        'answer.method === "macd" ? masks',
        "!answer.method ? masks",
    ),
    "bars: share under the mask": (
        BARS,
        "others[0] - step.others_log_z[0]",
        "others[0] - step.base_log_z",
    ),
    "bars: order of the scores": (
        BARS,
        "sort((a, b) => b.share - a.share).slice",
        "sort((a, b) => a.share - b.share).slice",
    ),
    "bars: order of the likeliest": (
        BARS,
        "sort((a, b) => bars[b].share - bars[a].share)",
        "sort((a, b) => bars[a].share - bars[b].share)",
    ),
    "bars: those that the mask raises": (BARS, "[first[rank], second[rank]]", "[first[rank]]"),
    "bars: width": (BARS, "(100 * share).toFixed(2)", "(10 * share).toFixed(2)"),
    "bars: the best one": (
        BARS,
        "(share > bars[best].share ? i : best)",
        "(share < bars[best].share ? i : best)",
    ),
    "bars: below the cutoff": (BARS, "value: row.inside ?", "value: !row.inside ?"),
    "bars: exact shares": (BARS, 'exact ? "" : "≤ "', 'exact ? "≤ " : ""'),
    "bars: the last token": (
        BARS,
        "token >= this.tokens.lastShown(answer)",
        "token > this.tokens.lastShown(answer)",
    ),
    "bars: one view": (BARS, "two ? alpha : 0", "0"),
    "bars: a change of α": (BARS, "method, token, alpha, beta].join", "method, token].join"),
    "flips: cell that is clicked": (
        FLIPS,
        "betas[Math.floor(i / alphas.length)]",
        "betas[i % betas.length]",
    ),
    "flips: the cell of α and β": (FLIPS, "j === here[1] ?", "j !== here[1] ?"),
    "flips: colours": (FLIPS, "names.get(row.id) ||", ""),
    "flips: without a second view": (FLIPS, "!step || !step.others.length", "!step"),
    "flips: without α": (FLIPS, "if (!able) {", "if (able) {"),
    "stage: which view": (
        STAGE,
        'if (layers.counter) return "masked"',
        'if (!layers.counter) return "masked"',
    ),
    "stage: both views": (STAGE, 'both: view === "both"', 'both: view !== "both"'),
    "stage: speed": (STAGE, "FRAME_MS / speed", "FRAME_MS * speed"),
    "stage: frames of the slider": (
        STAGE,
        "Math.max(0, trace.times.length - 1)",
        "Math.max(0, trace.times.length)",
    ),
    "stage: key of the levels": (STAGE, "KEYS[i]}`", "KEYS[2 - i]}`"),
    "stage: shape of the picture": (STAGE, "String(w / h)", "String(h / w)"),
    "stage: place of a pointer": (STAGE, "(y - area.y) / area.h", "(y - area.y) / area.w / 2"),
    "stage: picture of another frame": (
        STAGE,
        "model.frames[frame] : trace.frames[frame]",
        "model.frames[frame] : trace.frames[0]",
    ),
}
"""Name → file, text that occurs once in it, and its replacement."""


def main(part_of_name: str = "") -> int:
    """The exit status; tells which test noticed each fault."""
    chosen = {name: m for name, m in MUTANTS.items() if part_of_name in name}
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        if trouble := _noticed_by(copy):
            print(f"without any fault: {trouble}")
            return 1
        for name, (file, old, new) in chosen.items():
            text = (copy / file).read_text(encoding="utf-8")
            if text.count(old) != 1:
                raise SystemExit(f"{name}: {old!r} stands {text.count(old)} times in {file}")
            (copy / file).write_text(text.replace(old, new), encoding="utf-8")
            noticed = _noticed_by(copy)
            (copy / file).write_text(text, encoding="utf-8")
            print(f"{name:36} {noticed or 'SURVIVED'}", flush=True)
            survivors += [] if noticed else [name]
    print(f"{len(survivors)} of {len(chosen)} survived")
    return int(len(survivors) > (1 - GOAL) * len(chosen))


def _noticed_by(copy: Path) -> str:
    """The first test that fails in this checkout; empty where all pass."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-n", "2", "--tb=no", *TESTS],
        cwd=copy, capture_output=True, text=True,
        env=os.environ | {"MACD_REQUIRE_BROWSER": "1", "MACD_PATIENCE_S": "60"},
    )  # fmt: skip
    if ran.returncode == 0:
        return ""
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (ran.stdout + ran.stderr)[-300:]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
