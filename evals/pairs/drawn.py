"""Pairs of the drawn world: clips of `evals.studies.redrawn`, with and without the companion."""

from __future__ import annotations

from collections.abc import Iterator

from macd_studio.core.types import Clip, Track
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.pairs.items import PairItem
from macd_studio.evals.studies.redrawn import draw_clips, true_track
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import drawn_clip
from macd_studio.toyworld.export_pairs import without

PARTNER = "/without"


class DrawnPairs:
    """n pairs of one seed, drawn when they are asked for."""

    name = "drawn"

    def __init__(self, n: int, seed: int) -> None:
        self._seed = seed
        self._drawn = {str(i): clip for i, clip in enumerate(draw_clips(n, seed))}

    def fingerprint(self) -> str:
        """Of the code that draws, and of the seed."""
        return f"{ToyWorld().fingerprint()}, seed {self._seed}"

    def pairs(self) -> Iterator[PairItem]:
        """A question a clip: whether the usual companion's other half is there; it is not."""
        for key, (_, head, absent) in self._drawn.items():
            item = Item(key, key, "pairs", "", "yes-no", ask.exists(absent), "no", about=head)
            yield PairItem(item, f"{key}{PARTNER}", (head,), ())

    def clip(self, key: str) -> Clip:
        """The clip, or the same without its companion."""
        spec, head, _ = self._drawn[key.removesuffix(PARTNER)]
        return drawn_clip(without(spec, head) if key.endswith(PARTNER) else spec, "clip", "clip")

    def tracks(self, pair: PairItem) -> tuple[Track, ...]:
        """The true box of what is removed."""
        spec, head, _ = self._drawn[pair.item.clip]
        return (true_track(spec.find(head)),)

    def cluster(self, item: Item) -> str:
        """Each pair was drawn by itself."""
        return item.clip
