"""The smallest sets of pieces that keep an answer, and those whose removal changes it. Pure Python.

A set of pieces is a whole number: bit i says whether the model is shown piece i. What it scores may
be anything: nothing here takes effects to add up, or a larger set to do at least what a smaller one
does. So the only bound that holds is the number of pieces, and a size is certified as the smallest
once every smaller set was read.

Up to `EXHAUSTED` pieces all sets are read, by size, until both sizes are certified. Above, branch
and bound: the best set so far comes from adding pieces in the order of what each does alone, and
from leaving pieces out again; then sets are read by size, the most promising first, and a branch
ends where it cannot hold fewer pieces than the best. What the budget does not reach is not
certified: the best set is then an upper bound of the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Literal

EXHAUSTED = 8
"""Pieces up to which all sets are read: 256 views at most."""

Search = Literal["keep", "remove"]


@dataclass(frozen=True)
class Scored:
    """What the model says given some pieces alone.

    same: whether the answer is that given all of them. margin: of the token over the best other
    one, in logits. probability: of the token.
    """

    same: bool
    margin: float
    probability: float = 0.0


@dataclass(frozen=True)
class Best:
    """What is known of the smallest set.

    chosen: bits of its pieces, the ones to keep or to remove; None where no set was found. size:
    how many these are. lower: every set of fewer pieces was read, and none of them does it; one
    more than there are pieces where no set does. alike: sets of `size` pieces known to do it.
    """

    chosen: int | None = None
    size: int = 0
    lower: int = 0
    alike: int = 0

    def certified(self, pieces: int) -> bool:
        """Whether no smaller set does it; without a set, whether none of all does."""
        return self.lower > pieces if self.chosen is None else self.lower == self.size


@dataclass(frozen=True)
class Bounds:
    """How far a search is. read: sets that were read."""

    keep: Best
    remove: Best
    read: int


Read = Callable[[Sequence[int]], Sequence[Scored]]


def smallest_sets(
    pieces: int, read: Read, threshold: float = 0.0, budget: int = 512, together: int = 32
) -> Iterator[Bounds]:
    """What is known after each batch of sets; the last one is the result.

    pieces: how many, at least 1. read: scores sets, each the bits of what is shown. threshold: the
    margin, in logits, that a kept set must reach. budget: sets that are read at most. together: how
    many are read in a batch.
    """
    return _Searching(pieces, read, threshold, budget, together).run()


class _Searching:
    def __init__(
        self, pieces: int, read: Read, threshold: float, budget: int, together: int
    ) -> None:
        self.pieces, self.full = pieces, (1 << pieces) - 1
        self._read_them, self.threshold = read, threshold
        self.budget, self.together = budget, together
        self.scored: dict[int, Scored] = {}
        self.best: dict[Search, Best] = {"keep": Best(), "remove": Best()}

    def run(self) -> Iterator[Bounds]:
        full, each = self.full, range(self.pieces)
        yield from self._read([full, 0, *(1 << i for i in each), *(full ^ 1 << i for i in each)])
        self._rank()
        for what in self._open(2):
            chain = [sum(1 << i for i in self.order[:k]) for k in range(2, self.pieces)]
            yield from self._read(self._shown(what, chosen) for chosen in chain)
        if self.pieces > EXHAUSTED:
            for what in self._open(2):
                yield from self._thin_out(what)
        for size in range(2, self.pieces + 1):
            for what in self._open(size):
                # those of the pieces that do most first
                sets = (sum(1 << i for i in among) for among in combinations(self.order, size))
                for bounds in self._read(self._shown(what, chosen) for chosen in sets):
                    yield bounds
                    if what not in self._open(size):
                        break
        yield self.bounds()

    def _shown(self, what: Search, chosen: int) -> int:
        return chosen if what == "keep" else self.full ^ chosen

    def _open(self, size: int) -> list[Search]:
        """What a set of that many pieces can still tell anything of.

        Up to `EXHAUSTED` pieces, that a set has as few as can be does not end the search: those of
        the same size are read too, so that the clearest of them is chosen.
        """
        if len(self.scored) >= self.budget:
            return []
        last = 0 if self.pieces <= EXHAUSTED else 1
        kinds: tuple[Search, ...] = ("keep", "remove")
        found = [w for w in kinds if self.best[w].chosen is not None]
        return [w for w in kinds if w not in found or size <= self.best[w].size - last]

    def _read(self, sets: Iterable[int]) -> Iterator[Bounds]:
        """Reads what was not read before, as far as the budget goes."""
        new = (shown for shown in sets if shown not in self.scored)
        while room := min(self.together, self.budget - len(self.scored)):
            batch = list(dict.fromkeys(islice(new, room)))
            if not batch:
                return
            self.scored.update(zip(batch, self._read_them(batch), strict=True))
            self._update()
            yield self.bounds()

    def bounds(self) -> Bounds:
        return Bounds(self.best["keep"], self.best["remove"], len(self.scored))

    def does(self, what: Search, scored: Scored) -> bool:
        """Whether a set does what is asked of it."""
        if what == "keep":
            return scored.same and scored.margin >= self.threshold
        return not scored.same

    def _update(self) -> None:
        for what in self.best:
            known = [0] * (self.pieces + 1)
            good: dict[int, list[int]] = {}
            for shown, scored in self.scored.items():
                chosen = self._shown(what, shown)
                known[chosen.bit_count()] += 1
                if self.does(what, scored):
                    good.setdefault(chosen.bit_count(), []).append(chosen)
            best = Best()
            if good:
                size = min(good)
                best = Best(self._clearest(what, good[size]), size, alike=len(good[size]))
            lower, whole = 0, 1
            while lower <= self.pieces and lower not in good and known[lower] == whole:
                lower += 1
                whole = whole * (self.pieces - lower + 1) // lower
            self.best[what] = replace(best, lower=lower)

    def _clearest(self, what: Search, sets: list[int]) -> int:
        """Of sets of one size, that with the largest margin kept, or lost; then the first."""
        sign = 1 if what == "keep" else -1
        return max(sets, key=lambda s: (sign * self.scored[self._shown(what, s)].margin, -s))

    def _rank(self) -> None:
        """Orders the pieces by what each does to the margin, shown alone and hidden alone."""
        nothing, everything = (self._margin(shown) for shown in (0, self.full))
        self.effect = [
            self._margin(1 << i) - nothing + everything - self._margin(self.full ^ 1 << i)
            for i in range(self.pieces)
        ]
        self.order = sorted(range(self.pieces), key=lambda i: -self.effect[i])

    def _margin(self, shown: int) -> float:
        return self.scored[shown].margin if shown in self.scored else 0.0

    def _thin_out(self, what: Search) -> Iterator[Bounds]:
        """Leaves pieces out of the best set as long as one of them can be spared."""
        while (best := self.best[what]).chosen is not None:
            inside = [i for i in range(self.pieces) if best.chosen >> i & 1]
            before = len(self.scored)
            yield from self._read(self._shown(what, best.chosen ^ 1 << i) for i in inside)
            if self.best[what].size == best.size or len(self.scored) == before:
                return
