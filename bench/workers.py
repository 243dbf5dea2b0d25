"""Questions a second: two workers on Ray against one with a core each, and sharing.

`python -m bench.workers` exports drawn clips, answers them in fresh folders and writes
bench/results/workers.json, which `python -m bench.report` shows. Loading the models is not
counted: every worker has loaded them, and has answered a clip, before the clock starts. A worker
has a core of its own, whatever it starts: one that is free to use all cores reads the next clip on
another, so that a second worker gains little where there are two. That is measured beside it.
Sharing is what methods of one question have in common, against the same methods asked one by one.
All measurements are taken in turn, `--runs` times, and the medians are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from bench.__main__ import WORKERS, machine, write
from macd_studio.core.options import DecodeOptions, RunOptions
from macd_studio.evals.running.answer import PendingAnswer
from macd_studio.evals.running.engine import Engine, Group, in_process
from macd_studio.evals.running.rows import Setting
from macd_studio.evals.running.run import plan
from macd_studio.toyworld.export import export

METHODS = ("baseline", "vcd", "macd", "mask-all")
Figures = dict[str, float | int | None]


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
        for row in engine(groups, setting, Path(folder) / "tracks"):
            if row.error:
                raise RuntimeError(f"an answer failed, so that nothing is measured: {row.error}")
            done += 1
            if done == warm:
                began = time.perf_counter()
    return (done - warm) / (time.perf_counter() - began)


def measure(clips: int, threads: int = 1, runs: int = 3) -> Figures:
    """Answers a second, and their ratios; those of Ray are None where it is not installed."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        export("questions", Path(folder), clips)
        options = RunOptions(decode=DecodeOptions(max_tokens=16))
        setting = Setting("questions", options, data=folder)
        groups = groups_of(setting, METHODS)
        rates: dict[str, list[float]] = defaultdict(list)
        for _ in range(runs):
            for name, take in _measurements(setting, groups, threads).items():
                rates[name].append(take())
    found = {name: statistics.median(values) for name, values in rates.items()}

    def over(one: str, other: str) -> float | None:
        return found[one] / found[other] if one in found else None

    shared = found["process"] / len(METHODS)
    single = 1 / sum(1 / found[f"process {m}"] for m in METHODS)
    return {
        "clips": len(groups),
        "questions": sum(map(len, groups)) // len(METHODS),
        "threads": threads,
        "runs": runs,
        "answers_per_s_in_process": found["process"],
        "answers_per_s_one_worker": found.get("ray 1"),
        "answers_per_s_two_workers": found.get("ray 2"),
        "two_over_one": over("ray 2", "ray 1"),
        "answers_per_s_one_worker_any_core": found.get("ray 1, any core"),
        "answers_per_s_two_workers_any_core": found.get("ray 2, any core"),
        "two_over_one_any_core": over("ray 2, any core", "ray 1, any core"),
        "questions_per_s_shared": shared,
        "questions_per_s_one_by_one": single,
        "sharing": shared / single,
    }


def _measurements(
    setting: Setting, groups: list[Group], threads: int
) -> dict[str, Callable[[], float]]:
    """Name → what measures it."""
    each = len(groups[0])  # answers of a clip
    takes = {"process": partial(rows_a_second, in_process, setting, groups, each)}
    for method in METHODS:
        alone = groups_of(setting, [method])
        takes[f"process {method}"] = partial(
            rows_a_second, in_process, setting, alone, each // len(METHODS)
        )
    if importlib.util.find_spec("ray") is not None:
        from macd_studio.evals.running.ray_engine import ray_engine

        def on_ray(workers: int, own_core: bool) -> float:
            # an engine that reports its actors waits until each has loaded its models
            cores = iter(sorted(os.sched_getaffinity(0)) * workers)
            started = (lambda pid: _hold(pid, next(cores))) if own_core else lambda pid: None
            engine = ray_engine(workers, threads=threads, started=started)
            return rows_a_second(engine, setting, groups, workers * each)

        for workers in (1, 2):
            takes[f"ray {workers}"] = partial(on_ray, workers, True)
            takes[f"ray {workers}, any core"] = partial(on_ray, workers, False)
    return dict(takes)


def _hold(pid: int, core: int) -> None:
    """Keeps a process, with what it starts from now on, on one core (Linux)."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread.name), {core})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=8, help="of each split of drawn questions")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=WORKERS)
    args = parser.parse_args()
    results = {**measure(args.clips, args.threads, args.runs), "machine": machine()}
    write(args.out, results)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
