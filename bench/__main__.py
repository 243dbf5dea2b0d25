"""`python -m bench [PART …]`: measures and prints; writes latest.json and history.jsonl."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import history
from macd_studio.core.system.process import configure_process

RESULTS = Path(__file__).parent / "results" / "latest.json"
WORKERS = RESULTS.with_name("workers.json")
"""What `bench.workers` wrote, which runs by itself."""
VLLM = RESULTS.with_name("vllm.json")
"""What `bench.vllm_check` wrote, which runs by itself too."""
GPU = RESULTS.with_name("gpu.json")
"""What `bench.gpu_check` wrote, which runs where there is a GPU."""
PARTS = (
    "estimate",
    "trace",
    "scale",
    "approximate",
    "evidence",
    "large",
    "page",
    "browser",
)
SLOW = ("deep", "start", "lazy", "memory")
"""Only measured where it is asked for by name."""


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def write(path: Path, figures: Mapping[str, Any]) -> None:
    """Writes figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1, default=float) + "\n", encoding="utf-8")


def main() -> None:
    """Keys measured now replace those of earlier runs; the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS + SLOW))
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS + SLOW):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    configure_process()  # as the programs that are measured
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    now: dict[str, Any] = {}
    for part in args.parts or PARTS:
        print(f"{part} …", file=sys.stderr, flush=True)
        measured = import_module(f"bench.{part}").measure()
        for key, value in measured.items():
            print(f"{key:<28}{value:>12}")
        now |= measured
    results |= now
    before = results.get("machine")
    results["machine"] = machine()
    last = results.get("last", []) if results["machine"] == before else []
    results["last"] = sorted({*last, *(args.parts or PARTS)})
    write(RESULTS, results)
    history.append(now, results["machine"])
    print(history.table())


if __name__ == "__main__":
    main()
