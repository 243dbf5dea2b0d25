"""Questions a second: two workers on Ray against one with as many threads each, and sharing.

`python -m bench.workers --clips 24` exports drawn clips and answers them in fresh folders. Loading
the models is not counted: each worker answers one clip before the clock starts. Sharing is what
methods of one question have in common, against the same methods asked one by one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from core.options import DecodeOptions, RunOptions
from evals.answer import PendingAnswer
from evals.engine import Engine, Group, in_process
from evals.rows import Setting
from evals.run import plan
from toyworld.export import export

METHODS = ("baseline", "vcd", "macd", "mask-all")


def groups_of(setting: Setting, methods: Sequence[str]) -> list[Group]:
    """The clips of a setting with all they are asked."""
    contrasts = dict.fromkeys(methods, (1.0, 0.1))
    clips: dict[str, list[PendingAnswer]] = defaultdict(list)
    for want in plan(setting.open(), setting, "all", 10**6, methods, contrasts):
        clips[want.item.clip].append(want)
    return list(clips.values())


def rows_a_second(engine: Engine, setting: Setting, groups: list[Group], warm: int) -> float:
    """Answers a second after the first `warm` answers."""
    began, done = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in engine(groups, setting, Path(folder) / "tracks"):
            done += 1
            if done == warm:
                began = time.perf_counter()
    return (done - warm) / (time.perf_counter() - began)


def measure(clips: int, threads: int = 1) -> dict[str, float | None]:
    """Answers a second, and their ratios; those of Ray are None where it is not installed."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        export("questions", Path(folder), clips)
        options = RunOptions(decode=DecodeOptions(max_tokens=16))
        setting = Setting("questions", options, data=folder)
        groups = groups_of(setting, METHODS)
        each = len(groups[0])
        one = rows_a_second(in_process, setting, groups, each)
        alone = sum(1 / rows_a_second(in_process, setting, groups_of(setting, [m]), each // 4)
                    for m in METHODS)  # fmt: skip
        two: float | None = None
        if importlib.util.find_spec("ray") is not None:
            from evals.ray_engine import ray_engine

            two = rows_a_second(ray_engine(2, threads=threads), setting, groups, 2 * each)
    shared, single = one / len(METHODS), 1 / alone
    return {
        "clips": clips,
        "threads": threads,
        "answers_per_s": one,
        "answers_per_s_two_workers": two,
        "two_over_one": None if two is None else two / one,
        "questions_per_s_shared": shared,
        "questions_per_s_one_by_one": single,
        "sharing": shared / single,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    print(json.dumps(measure(args.clips, args.threads), indent=1))


if __name__ == "__main__":
    main()
