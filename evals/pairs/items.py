"""Pairs of clips with a question each, and what differs between the two clips.

A pair can be used where the asked object is absent from the partner and nothing that the question
or its options name was added there. Everything else is counted with the reason. Drawn pairs are
clips of `evals.studies.redrawn`, with and without the companion.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.text.phrases import noun_phrases
from macd_studio.core.types import Clip, Track
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.benchmarks.questions import Questions
from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.benchmarks.videohallucer import VideoHallucer
from macd_studio.evals.benchmarks.vidpair_halluc import BINARY, VidPairHalluc
from macd_studio.evals.studies.redrawn import draw_clips, true_track
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import drawn_clip
from macd_studio.toyworld.export import without

STAYS, NAMED, OTHER_KIND, NO_PARTNER = (
    "the asked object may be in the partner", "what was added is asked about",
    "no question on yes or no", "no partner",
)  # fmt: skip


@dataclass(frozen=True)
class PairItem:
    """A question about a clip and its partner.

    item: its truth is that of the clip. partner: key of the other clip. removed: classes that are
    in the clip and not in the partner, which a mask has to hide; () where only the question says.
    added: what the partner shows instead. truth: of the partner.
    """

    item: Item
    partner: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    truth: str = "no"

    @property
    def replaced(self) -> bool:
        """Whether something stands where the object was, so that nothing was merely removed."""
        return bool(self.added)


@dataclass(frozen=True)
class PairSet:
    """pairs: that can be used. left_out: reason → how many questions."""

    name: str
    pairs: tuple[PairItem, ...]
    left_out: Mapping[str, int]


def words_of(text: str) -> set[str]:
    """The words of a text, singular ones of plurals too, in lower case."""
    words = set(re.findall(r"[^\W\d_]+", text.lower()))
    return words | {w[:-1] for w in words if w.endswith("s")}


def names(text: str, label: str) -> bool:
    """Whether a text names a class, all of whose words it holds.

    >>> names("Is there a traffic light?", "traffic light"), names("Are there dogs?", "cat")
    (True, False)
    """
    wanted = set(re.findall(r"[^\W\d_]+", label.lower()))
    return bool(wanted) and wanted <= words_of(text)


def usable(pair: PairItem, in_partner: Iterable[str] = ()) -> str:
    """Why a pair cannot be used; "" where it can. in_partner: classes known to be there."""
    text = " ".join([pair.item.question, *pair.item.options])
    if any(names(text, label) for label in pair.added):
        return NAMED
    if pair.truth == "yes" or any(names(text, label) for label in in_partner):
        return STAYS
    return ""


def collect(name: str, pairs: Iterable[PairItem | str]) -> PairSet:
    """Those that can be used; of others, given as a reason or found so, the number a reason."""
    kept: list[PairItem] = []
    left: Counter[str] = Counter()
    for pair in pairs:
        why = pair if isinstance(pair, str) else usable(pair)
        if why:
            left[why] += 1
        elif isinstance(pair, PairItem):
            kept.append(pair)
    return PairSet(name, tuple(kept), dict(left))


def pairs_of(benchmark: FileBenchmark) -> PairSet:
    """The pairs of a benchmark of files. Raises OptionError for one that has none."""
    makers: dict[type[Any], Any] = {
        VidPairHalluc: _of_vidpair, VideoHallucer: _of_videohallucer, Questions: _of_questions,
    }  # fmt: skip
    maker = next((m for kind, m in makers.items() if isinstance(benchmark, kind)), None)
    if maker is None:
        raise OptionError(
            f"{benchmark.name} has no pairs of clips that share their scene",
            "Choose vidpair-halluc, videohallucer, or questions with a column counterpart",
        )
    found = collect(benchmark.name, maker(benchmark))
    if not found.pairs:
        why = "; ".join(f"{n} because {reason}" for reason, n in found.left_out.items())
        raise BenchmarkError(
            f"no pair of {benchmark.name} can be used{f': {why}' if why else ''}",
            "See docs/benchmarks.md for what a pair needs",
        )
    return found


def _of_vidpair(benchmark: VidPairHalluc) -> Iterator[PairItem | str]:
    """Questions on yes or no about an object; what the partner shows is what is asked there."""
    asked = [i for i in benchmark.everything if i.regime == BINARY]
    said = {(i.clip, i.question): i.truth for i in asked}
    for item in benchmark.everything:
        partner = benchmark.partner(item)
        if item.kind != "yes-no":
            yield OTHER_KIND
        elif partner is None:
            yield NO_PARTNER
        elif item.truth != "yes" or ("aspect", "object") not in item.labels:
            yield STAYS
        else:
            instead = (q for (c, q), truth in said.items() if c == partner and truth == "yes"
                       and said.get((item.clip, q)) == "no")  # fmt: skip
            added = tuple(phrase for question in instead for phrase in noun_phrases(question))
            yield PairItem(item, partner, (), added, said.get((partner, item.question), "yes"))


def _of_videohallucer(benchmark: VideoHallucer) -> Iterator[PairItem | str]:
    """One question about two clips; what else differs between them is not known."""
    items = {i.id: i for i in benchmark.everything}
    for item in items.values():
        head, _, side = item.id.rpartition("/")
        if side != "basic":
            continue
        other = items[f"{head}/hallucination"]
        if benchmark.partner(item) is None:
            yield NO_PARTNER
            continue
        yield PairItem(item, other.clip, (), (), other.truth)


def _of_questions(benchmark: Questions) -> Iterator[PairItem | str]:
    """Own questions with the columns counterpart, removed and added."""
    for item in benchmark.everything:
        partner = benchmark.counterparts.get(item.id)
        if item.kind != "yes-no":
            yield OTHER_KIND
        elif partner is None:
            yield NO_PARTNER
        else:
            yield PairItem(item, partner.key, partner.removed, partner.added)


def drawn(n: int, seed: int) -> tuple[PairSet, Any]:
    """Pairs of the drawn world, with the clips and the true boxes: those of
    `evals.studies.redrawn`.

    A clip with one of a usual pair of objects, asked for the other one, which is in neither clip;
    the partner is the clip drawn again without the companion.
    """

    benchmark = DrawnPairs(n, seed)
    return collect("drawn", benchmark.pairs()), benchmark


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
