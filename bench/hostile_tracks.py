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
    """The table of docs/security.md: the most memory and time of the files of each outcome."""
    alike: dict[str, dict[str, Any]] = {}
    for what, row in report["files"].items():
        answer = row["answer"]
        ended = "ended" if "of memory or" in answer else "refused"
        outcome = "read" if re.fullmatch(r"\d+ objects", answer) else ended
        alike.setdefault(outcome, {})[what] = row
    lines = ["| outcome | files | most MB | of | most s | of |", "|---|---|---|---|---|---|"]
    for outcome, rows in alike.items():
        most = [max(rows, key=lambda what: rows[what][key]) for key in ("above_mb", "seconds")]
        lines.append(
            f"| {outcome} | {len(rows)} | {rows[most[0]]['above_mb']:.0f} | {most[0]} |"
            f" {rows[most[1]]['seconds']:.1f} | {most[1]} |"
        )
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
