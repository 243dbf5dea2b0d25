"""Who computes rows: one worker in this process, or actors of Ray (`evals.running.ray_engine`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import torch

from macd_studio.core.backbones.base import Reader
from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.backbones.weights_options import Dtype, Weights
from macd_studio.core.errors import OutOfMemory, RemoteError
from macd_studio.core.methods import find_method
from macd_studio.core.objects.detect import Detector
from macd_studio.core.types import Clip
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import PendingAnswer, Tracks, answer_clip, failed
from macd_studio.evals.running.rows import Row, Setting
from macd_studio.evals.running.tracks import ClipOf, Prepared, Preparing

Group = list[PendingAnswer]
"""The missing answers of one clip, the unit of work."""
Engine = Callable[[list[Group], Setting, Path], Iterable[Row]]
"""(groups, setting, folder for tracks) → their rows, in any order."""


NO_MEMORY = (
    "the device ran out of memory",
    "Run it again with fewer --frames, a smaller --frame-size or a smaller backbone",
)


class Worker:
    """A backbone and a detector, loaded once, that answer one clip after another.

    objects: whether any clip's questions depend on its objects; no detector is loaded otherwise.
    requests: how many a server that holds the backbone is sent at once, at least.
    """

    def __init__(
        self,
        setting: Setting,
        tracks: Path | None = None,
        objects: bool = True,
        requests: int = 1,
    ) -> None:
        benchmark = setting.open()
        self.setting = setting
        held = setting.held, setting.offload, setting.dtype
        self.lm = _backbone(setting.backbone, *held, requests)
        use = objects and setting.boxes == "detector"
        detector = _detector(setting.detector, self.lm.info.device) if use else None
        content = setting.detector_content()
        self.preparing = Preparing(benchmark, detector, setting.options, content, tracks)

    def answer(self, group: Group, prepared: Prepared | None = None) -> Iterator[Row]:
        """The rows of one clip; prepared: the clip, where it was read ahead.

        Where the device runs out of memory, the missing rows hold that error.
        """
        ready = prepared or self.preparing.prepare(*clip_of(group))
        if ready.clip is None:
            assert ready.error is not None
            yield from failed(group, ready.error)
            return
        answered: set[str] = set()
        try:
            for row in self._rows(group, ready.clip, ready):
                answered.add(row.key)
                yield replace(row, notes=list(ready.clip.notes)) if ready.clip.notes else row
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            yield from failed([w for w in group if w.key not in answered], OutOfMemory(*NO_MEMORY))

    def _rows(self, group: Group, clip: Clip, ready: Prepared) -> Iterator[Row]:
        parts, lazy = [group], self.setting.options.lazy
        if ready.by_question or lazy:  # what can be masked differs, or is looked for, by question
            questions = dict.fromkeys(w.item.question for w in group)
            parts = [[w for w in group if w.item.question == q] for q in questions]
        for part in parts:
            item = part[0].item
            tracks: Tracks = ready.tracks_for(item.question)
            if lazy and tracks is None and need_objects(part):
                tracks = partial(self.preparing.tracks_of, item.clip, clip, item.question)
            yield from answer_clip(
                part, self.lm, clip, tracks, self.setting.options, self._partner_of
            )

    def _partner_of(self, item: Item) -> Clip | None:
        """Another clip of the same scene, where the benchmark knows one."""
        benchmark = self.preparing.benchmark
        find = getattr(benchmark, "partner", None)
        key = find(item) if find else None
        return None if key is None else benchmark.clip(key)


@lru_cache(maxsize=1)
def _backbone(
    name: str, weights: Weights, offload: bool, dtype: Dtype = "auto", requests: int = 1
) -> Reader:
    """Kept for the next run of this process, as the rows of a table need the same one."""
    from macd_studio.core.backbones import load_backbone, open_backbone

    if not is_remote(name):
        return load_backbone(name, weights=weights, offload=offload, dtype=dtype)
    return open_backbone(
        name, weights=weights, offload=offload, dtype=dtype, concurrency=max(16, requests)
    )


@lru_cache(maxsize=2)
def _detector(name: str, device: str) -> Detector:
    from macd_studio.core.objects.detect import load_detector

    return load_detector(name, device)


def clip_of(group: Group) -> ClipOf:
    """A group's clip as `Preparing.prepare` takes it."""
    questions = tuple(dict.fromkeys(w.item.question for w in group))
    return group[0].item.clip, questions, need_objects(group)


def need_objects(group: Group) -> bool:
    """Whether any of the answers depends on the objects of the clip."""
    return any(find_method(name).needs_objects for name in {w.method for w in group})


def in_process(groups: list[Group], setting: Setting, tracks: Path) -> Iterator[Row]:
    """One worker in this process; the next clip is read while the model works on one."""
    worker = Worker(setting, tracks, any(map(need_objects, groups)))
    ahead = worker.preparing.ahead(clip_of(g) for g in groups)
    for group, prepared in zip(groups, ahead, strict=True):
        yield from worker.answer(group, prepared)


def side_by_side(clips: int) -> Engine:
    """As many clips at once in threads of this process, for a backbone that a server holds.

    Clips are read, and objects looked for, one after another. A server that fails for good ends the
    run: rows that are there are kept, and the next run continues.
    """

    def engine(groups: list[Group], setting: Setting, tracks: Path) -> Iterator[Row]:
        worker = Worker(setting, tracks, any(map(need_objects, groups)), clips)
        ahead = worker.preparing.ahead(clip_of(g) for g in groups)
        under_way: set[Future[Finished]] = set()
        with ThreadPoolExecutor(clips) as pool:
            for group, prepared in zip(groups, ahead, strict=True):
                under_way.add(pool.submit(_finished, worker, group, prepared))
                if len(under_way) >= clips:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    yield from _rows_of(done, under_way)
            yield from _rows_of(under_way)

    return engine


Finished = tuple[list[Row], RemoteError | None]
"""A clip's rows, and why there are no more of them."""


def _finished(worker: Worker, group: Group, prepared: Prepared) -> Finished:
    rows: list[Row] = []
    try:
        rows.extend(worker.answer(group, prepared))
    except RemoteError as error:
        return rows, error
    return rows, None


def _rows_of(
    done: Iterable[Future[Finished]], others: Iterable[Future[Finished]] = ()
) -> Iterator[Row]:
    """The rows of some clips; where one failed the others' too, and then its error is raised."""
    found = [one.result() for one in done]
    if any(error for _, error in found):
        found += [one.result() for one in others]
    for rows, _ in found:
        yield from rows
    for _, error in found:
        if error is not None:
            raise error
