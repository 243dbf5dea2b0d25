"""What hostile files of tracks take of a public server: peak memory, seconds, answer.

    python -m bench.hostile_tracks --out bench/results/hostile-tracks.json

Each file is read as an upload to a public page is. Peak memory is that of the reading process above
what it holds before a file is opened.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np

from macd_studio.core.errors import MacdError
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.reading import PUBLIC_SERVER, TrackLimits, read_tracks
from macd_studio.core.system import bounded_job

CLIP = ClipFacts(
    "clip.mp4", np.arange(8) * 6 / 25, np.arange(8) * 6, (640, 360), (640, 360), None, 25.0
)
LOOK_S = 0.005
MEGABYTES, SECONDS = (10, 50, 100, 150, 200), (0.5, 1, 2, 5)
"""Where the table sets files of more memory or time apart."""


class Peak:
    """The most memory of each process that reads a file, megabytes."""

    def __init__(self) -> None:
        self.megabytes = 0.0
        self._start: Callable[[str], Popen[bytes]] = vars(bounded_job)["start_process"]

    @contextmanager
    def watched(self) -> Iterator[Peak]:
        """Watches the process that is started meanwhile."""

        def start(module: str) -> Popen[bytes]:
            process = self._start(module)
            threading.Thread(target=self._look, args=(process,), daemon=True).start()
            return process

        setattr(bounded_job, "start_process", start)  # noqa: B010
        try:
            yield self
        finally:
            setattr(bounded_job, "start_process", self._start)  # noqa: B010

    def _look(self, process: Popen[bytes]) -> None:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            try:
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                self.megabytes = max(self.megabytes, int(lines["VmHWM"].split()[0]) / 1024)
            except (OSError, KeyError, ValueError):
                return
            time.sleep(LOOK_S)


def measure(
    path: Path, cancelled: Callable[[], bool] = lambda: False, limits: TrackLimits = PUBLIC_SERVER
) -> dict[str, Any]:
    """Peak memory, seconds and answer of one file."""
    peak, began = Peak(), time.monotonic()
    with peak.watched():
        try:
            found = read_tracks(path, CLIP, cancelled=cancelled, limits=limits)
            answer = f"{len(found.tracks)} objects"
        except MacdError as error:
            answer = error.cause
    return {
        "bytes": path.stat().st_size,
        "peak_mb": round(peak.megabytes, 1),
        "seconds": round(time.monotonic() - began, 2),
        "answer": answer[:160],
    }


def measure_all(files: dict[str, tuple[str, Callable[[], bytes]]]) -> dict[str, Any]:
    """Those of every file, and of one that holds a single box as `base_mb`."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "1.txt"
        plain.write_text("0 .5 .5 .1 .1\n")
        base = measure(plain)
        for what, (name, make) in files.items():
            path = Path(folder) / name
            path.write_bytes(make())
            rows[what] = measure(path)
            path.unlink()
            print(f"{what}: {rows[what]}", flush=True)
    for row in rows.values():
        row["above_mb"] = round(max(0.0, row["peak_mb"] - base["peak_mb"]), 1)
    return {"base_mb": base["peak_mb"], "limits": vars(PUBLIC_SERVER), "files": rows}


def markdown(report: dict[str, Any]) -> str:
    """The table of docs/security.md: files of about one cost share a row, which tells the most."""
    alike: dict[tuple[int, int, str], dict[str, Any]] = {}
    for what, row in report["files"].items():
        answer = row["answer"]
        ended = "ended" if "of memory or" in answer else "refused"
        outcome = "read" if re.fullmatch(r"\d+ objects", answer) else ended
        place = bisect_left(MEGABYTES, row["above_mb"]), bisect_left(SECONDS, row["seconds"])
        alike.setdefault((*place, outcome), {})[what] = row
    lines = ["| file | MB above the process | s | outcome |", "|---|---|---|---|"]
    for (_, _, outcome), rows in sorted(alike.items()):
        most = [max(row[key] for row in rows.values()) for key in ("above_mb", "seconds")]
        lines.append(f"| {'; '.join(rows)} | {most[0]:.0f} | {most[1]:.1f} | {outcome} |")
    return "\n".join(lines)


def main() -> None:
    """Measures all files, and writes figures and table."""
    from tests.hostile_track_files import FILES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report = measure_all(FILES)
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(markdown(report))


if __name__ == "__main__":
    main()
