"""`python -m bench [PART …]`: measures and prints; writes latest.json."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from macd_studio.core.system.process import configure_process

RESULTS = Path(__file__).parent / "results" / "latest.json"
WORKERS = RESULTS.with_name("workers.json")
"""What `bench.workers` wrote, which runs by itself."""
VLLM = RESULTS.with_name("vllm.json")
"""What `bench.vllm_check` wrote, which runs by itself too."""
GPU = RESULTS.with_name("gpu.json")
"""What `bench.gpu_check` wrote, which runs where there is a GPU."""
PARTS = (
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


Grown = dict[str, dict[str, Any]]
KIND = ("processor", "cores")
SLOWER = 1.1
"""A ratio of times that grew by more is told."""
_NO_TIME = re.compile(r"flops|memory(?!_time)|_open|_where_|activations")
"""Ratios of other things than time."""


def is_time_ratio(key: str) -> bool:
    """Whether a figure says how many times as long something takes.

    >>> is_time_ratio("token2_over_1_cpu"), is_time_ratio("flops_macd1_over_base")
    (True, False)
    """
    return "_over_" in key and not _NO_TIME.search(key)


def slower(before: Mapping[str, Any], part: str, now: Mapping[str, Any], here: Any) -> Grown:
    """Ratios of times that grew by more than a tenth since the part was last measured.

    before: latest.json; now: what the part measured; here: the machine. Ratios are measured within
    one run, so they can be compared between days: what was measured on another processor, or number
    of cores, is no growth. Growth of what was not measured now stays.
    """
    found: Grown = {k: z for k, z in before.get("slower", {}).items() if k not in now}
    last = before.get("measured", {}).get(part, {})
    if [last.get(z) for z in KIND] == [here[z] for z in KIND]:
        for key in filter(is_time_ratio, now):
            if now[key] > SLOWER * before.get(key, now[key]):
                found[key] = {"before": before[key], "now": now[key], "date": last["date"]}
    return found


def main() -> None:
    """Keys measured now replace those of earlier runs; the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS + SLOW))
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS + SLOW):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    configure_process()  # as the programs that are measured
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    before, here = results.get("machine"), machine()
    for part in args.parts or PARTS:
        print(f"{part} …", file=sys.stderr, flush=True)
        measured = import_module(f"bench.{part}").measure()
        for key, value in measured.items():
            print(f"{key:<28}{value:>12}")
        grown = slower(results, part, measured, here)
        parts = results.get("measured", {}) | {part: here}
        results |= measured | {"slower": grown, "measured": parts}
    results["machine"] = here
    last = results.get("last", []) if here == before else []
    results["last"] = sorted({*last, *(args.parts or PARTS)})
    write(RESULTS, results)
    for key, one in results["slower"].items():
        print(f"slower: {key} {one['before']:.3f} → {one['now']:.3f}")


if __name__ == "__main__":
    main()
