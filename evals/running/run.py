"""Runs a benchmark; killed at any moment, it continues where it was.

A row's key is a digest of its content, so a stored row is never computed again, whoever computed
it. Only this process writes rows, whichever engine computes them.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from macd_studio.core.methods import find_methods
from macd_studio.evals.benchmarks.base import LETTERS, Benchmark, Item, Split
from macd_studio.evals.running.answer import GRID, ONE_VIEW, PendingAnswer
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.engine import Engine, in_process
from macd_studio.evals.running.rows import Row, Setting, append, read, row_key

Contrasts = dict[str, tuple[float, float]]
Progress = Callable[[int, int], None]


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
    planned = []
    for item in benchmark.items(split, n):
        if split == "choose" and item.kind == "caption":
            continue
        for method in methods:
            if method == CONSTANT:
                continue
            own = contrasts.get(method, (1.0, 0.1)) if contrasts else None
            if method in ONE_VIEW:
                own = (1.0, 0.0)
            planned.append(PendingAnswer(item, method, own, row_key(content, item, method, own)))
    return planned


def complete(
    planned: Sequence[PendingAnswer],
    setting: Setting,
    folder: Path,
    engine: Engine | None = None,
    progress: Progress = lambda done, total: None,
    take: Callable[[PendingAnswer, Row], None] = lambda want, row: None,
) -> dict[str, Row]:
    """Computes what is missing of `planned` and returns its rows by key.

    engine: who works on the clips; one worker in this process without it. take: called with each
    row as it comes, first with those that are known from before. An answer that failed in an
    earlier run is asked for again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    by_key = {w.key: w for w in planned}
    rows = {r.key: r for r in read(folder) if r.key in by_key and not r.error}
    for key, row in rows.items():
        take(by_key[key], row)
    clips: dict[str, list[PendingAnswer]] = defaultdict(list)
    for want in planned:
        if want.key not in rows:
            clips[want.item.clip].append(want)
    groups = list(clips.values())
    done = len(planned) - sum(map(len, groups))
    progress(done, len(planned))
    if groups:
        path = folder / f"rows-{os.getpid()}.jsonl"
        for row in (engine or in_process)(groups, setting, folder.parent / "tracks"):
            if row.key in by_key and row.key not in rows:
                rows[row.key] = row
                append(path, row)
                done += 1
                progress(done, len(planned))
                take(by_key[row.key], row)
    return rows


def choose(
    items: Sequence[Item], rows: dict[str, Row], planned: Sequence[PendingAnswer]
) -> Contrasts:
    """α and β for each method: best mean over regimes of the share of right first tokens.

    The paper's own way of picking them for a benchmark; of equals the smallest α, then the largest
    β. Captions take part in nothing here: their first token is an article.
    """
    by_id = {i.id: i for i in items}
    hits: dict[str, dict[str, list[list[bool]]]] = defaultdict(lambda: defaultdict(list))
    for want in planned:
        row, item = rows.get(want.key), by_id[want.item.id]
        if row is None or not row.grid or item.kind == "caption":
            continue
        right = first_words(item)
        hits[want.method][item.regime].append([t.lower() in right for t in row.grid])
    chosen: Contrasts = {}
    for method, regimes in hits.items():
        shares = [[sum(c) / len(c) for c in zip(*rs, strict=True)] for rs in regimes.values()]
        means = [sum(c) / len(c) for c in zip(*shares, strict=True)]
        best = max(range(len(GRID)), key=lambda i: (round(means[i], 9), -GRID[i][0], GRID[i][1]))
        chosen[method] = GRID[best]
    for want in planned:
        chosen.setdefault(want.method, (1.0, 0.1))
    return chosen


def first_words(item: Item) -> set[str]:
    """How right answers may begin, in lower case; of a choice its letter, or the option's word."""
    right = {item.truth.split()[0].lower()}
    if item.kind == "choices":
        right |= {item.truth[0].lower()}
    if item.kind == "choice":
        right |= {item.options[LETTERS.index(item.truth)].split()[0].lower()}
    return right


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
