"""Runs a benchmark over as many processes as asked; killed at any moment, it goes on where it was.

Each worker appends rows to a file of its own; a row is known by its content, so what is already
there is never computed again, whoever computed it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from core.methods import find_methods
from evals.answer import GRID, ONE_VIEW, PendingAnswer, answer_clip
from evals.benchmarks import find_benchmark
from evals.benchmarks.base import Benchmark, Item, Split
from evals.rows import Row, Setting, append, read, row_key, seeded

Contrasts = dict[str, tuple[float, float]]
Progress = Callable[[int, int], None]

DERIVED = ("yes-bias",)
"""Methods whose answers follow from the baseline's rows (`evals.constant`)."""


def plan(
    benchmark: Benchmark,
    setting: Setting,
    split: Split,
    n: int,
    methods: Sequence[str],
    contrasts: Contrasts | None,
) -> list[PendingAnswer]:
    """Every row that a run needs of the model. contrasts: α and β a method; None tries the grid.

    Captions of the choose split are left out: nothing is chosen by them.
    """
    find_methods(methods)
    content = setting.content(benchmark)
    wanted = []
    for item in benchmark.items(split, n):
        if split == "choose" and item.kind == "caption":
            continue
        for method in methods:
            if method in DERIVED:
                continue
            own = contrasts.get(method, (1.0, 0.1)) if contrasts else None
            if method in ONE_VIEW:
                own = (1.0, 0.0)
            wanted.append(PendingAnswer(item, method, own, row_key(content, item, method, own)))
    return wanted


def complete(
    wanted: Sequence[PendingAnswer],
    setting: Setting,
    folder: Path,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> dict[str, Row]:
    """Computes what is missing of `wanted` and returns its rows by key."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {w.key for w in wanted}
    known = {r.key: r for r in read(folder) if r.key in keys}
    clips: dict[str, list[PendingAnswer]] = defaultdict(list)
    for want in wanted:
        if want.key not in known:
            clips[want.item.clip].append(want)
    groups = list(clips.values())
    total, missing = len(wanted), sum(map(len, groups))
    progress(total - missing, total)
    if missing:
        if workers <= 1:
            for done in _work(groups, setting, folder, 0):
                progress(total - missing + done, total)
        else:
            _spread(
                groups, setting, folder, workers, lambda d: progress(total - missing + d, total)
            )
        known = {r.key: r for r in read(folder) if r.key in keys}
    return known


def _work(groups: list[list[PendingAnswer]], setting: Setting, folder: Path, worker: int) -> Any:
    """Yields the number of rows done, one at a time."""
    from core.backbones import load_backbone
    from core.objects.detect import load_detector

    benchmark = seeded(find_benchmark(setting.benchmark), setting.seed)
    lm = load_backbone(setting.backbone)
    device = lm.info.device
    detector = load_detector(setting.detector, device) if setting.boxes == "detector" else None
    path, done = folder / f"rows-{worker}-{os.getpid()}.jsonl", 0
    for group in groups:
        for row in answer_clip(benchmark, group, lm, detector, setting.options):
            append(path, row)
            done += 1
            yield done


def _spread(
    groups: list[list[PendingAnswer]],
    setting: Setting,
    folder: Path,
    workers: int,
    progress: Callable[[int], None],
) -> None:
    context = multiprocessing.get_context("spawn")
    told: Any = context.Queue()
    parent = os.getpid()
    processes = [
        context.Process(
            target=_worker,
            args=(groups[i::workers], setting, folder, i, told, parent),
            daemon=True,
        )
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    counts = dict.fromkeys(range(workers), 0)
    while any(p.is_alive() for p in processes) or not told.empty():
        try:
            worker, done = told.get(timeout=0.5)
            counts[worker] = done
            progress(sum(counts.values()))
        except queue.Empty:
            continue
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a worker ended with exit code {process.exitcode}; see its output")


def _worker(
    groups: list[list[PendingAnswer]],
    setting: Setting,
    folder: Path,
    worker: int,
    told: Any,
    parent: int,
) -> None:
    import torch

    torch.set_num_threads(1)
    for done in _work(groups, setting, folder, worker):
        told.put((worker, done))
        if os.getppid() != parent:  # the parent was killed: nobody would read the rest
            return


def choose(
    items: Sequence[Item], rows: dict[str, Row], wanted: Sequence[PendingAnswer]
) -> Contrasts:
    """α and β for each method: best mean over regimes of the share of right first tokens.

    The paper's own way of picking them for a benchmark; of equals the smallest α, then the largest
    β. Captions take part in nothing here: their first token is an article.
    """
    by_id = {i.id: i for i in items}
    hits: dict[str, dict[str, list[list[bool]]]] = defaultdict(lambda: defaultdict(list))
    for want in wanted:
        row, item = rows.get(want.key), by_id[want.item.id]
        if row is None or not row.grid or item.kind == "caption":
            continue
        truth = item.truth.split()[0].lower()
        hits[want.method][item.regime].append([t.lower() == truth for t in row.grid])
    chosen: Contrasts = {}
    for method, regimes in hits.items():
        shares = [[sum(c) / len(c) for c in zip(*rs, strict=True)] for rs in regimes.values()]
        means = [sum(c) / len(c) for c in zip(*shares, strict=True)]
        best = max(range(len(GRID)), key=lambda i: (round(means[i], 9), -GRID[i][0], GRID[i][1]))
        chosen[method] = GRID[best]
    for want in wanted:
        chosen.setdefault(want.method, (1.0, 0.1))
    return chosen


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all."""
    part = path.with_suffix(".part")
    try:
        part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def ticking(label: str, say: Callable[[str], None]) -> Progress:
    """A progress line at most once every two seconds: share done and time left."""
    began, last = time.monotonic(), -9.0
    start: int | None = None

    def tick(done: int, total: int) -> None:
        nonlocal last, start
        start = done if start is None else start
        now = time.monotonic()
        if now - last < 2 and done < total:
            return
        last = now
        speed = (done - start) / (now - began) if done > start else 0.0
        left = f", {(total - done) / speed / 60:.1f} min left" if speed and done < total else ""
        say(f"{label}: {done} of {total} answers{left}")

    return tick
