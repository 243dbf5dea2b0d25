"""The questions of one folder about the video files of another, both of the same benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from macd_studio.core.types import Clip
from macd_studio.evals.benchmarks.base import Item, Split
from macd_studio.evals.benchmarks.files import FileBenchmark


class OtherClips:
    """A benchmark of files whose clips are those that another folder has for the same questions.

    Questions are matched by id; those that the other folder lacks are left out. Which part of a
    video is shown comes with the video. Anything else is that of the folder of questions.
    """

    def __init__(self, asked: FileBenchmark, shown: FileBenchmark) -> None:
        self._asked, self._shown = asked, shown
        self._clips: Mapping[str, Item] = {i.id: i for i in shown.everything}
        self._own = {i.id: i for i in asked.everything if i.id in self._clips}
        self.everything = [self._item(i) for i in self._own.values()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asked, name)

    def _item(self, item: Item) -> Item:
        return replace(item, clip=self._clips[item.id].clip)

    def items(self, split: Split, n: int) -> list[Item]:
        """See `Benchmark.items`; the folder of questions says which are in a split."""
        return [self._item(i) for i in self._asked.items(split, n) if i.id in self._own]

    def clip(self, key: str) -> Clip:
        """The other folder's clip."""
        return self._shown.clip(key)

    def partner(self, item: Item) -> str | None:
        """The other folder's partner of the clip."""
        return self._shown.partner(self._clips[item.id])

    def cluster(self, item: Item) -> str:
        """As the folder of questions has it."""
        return self._asked.cluster(self._own[item.id])

    def fingerprint(self) -> str:
        """Of both folders."""
        both = f"{self._asked.fingerprint()} {self._shown.fingerprint()}"
        return hashlib.sha256(both.encode()).hexdigest()[:16]
