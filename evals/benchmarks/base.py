"""What a benchmark is: questions about clips, with the truth, in regimes that are never pooled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from core.types import Clip, Track

Kind = Literal["yes-no", "word", "caption", "choice"]
Balance = Literal["balanced", "unbalanced"]
Split = Literal["choose", "test"]


@dataclass(frozen=True)
class Item:
    """One question.

    clip: key of its clip, which several questions may share. level: difficulty, "" where the
    benchmark has none. truth: the right answer; of a caption, a true one. prior_answer: what
    somebody who did not look would say. about: the class that was asked about, "" where it is not
    in the clip or nothing was. options: every answer that could be right, by first word; a "choice"
    is the option whose first token scores highest, whatever else the model would say.
    """

    id: str
    clip: str
    regime: str
    level: str
    kind: Kind
    question: str
    truth: str
    prior_answer: str = ""
    about: str = ""
    options: tuple[str, ...] = ()


class Benchmark(Protocol):
    """What the runner and the report need of a benchmark.

    balance: of each regime. "balanced": every answer, or every kind of answer, is right equally
    often, given what somebody sees who does not see the asked object, so that no constant added to
    an answer's score helps a model without evidence. "unbalanced": such a constant may help.
    """

    name: str
    regimes: tuple[str, ...]
    levels: tuple[str, ...]
    nouns: tuple[str, ...]
    seeds: Mapping[str, int]
    balance: Mapping[str, Balance]

    def items(self, split: Split, n: int) -> list[Item]:
        """At least n questions of each regime, always the same; clips stay together."""
        ...

    def clip(self, key: str) -> Clip:
        """The clip of that key."""
        ...

    def true_tracks(self, key: str) -> tuple[Track, ...]:
        """What is truly there, as tracks; raises OptionError where that is not known."""
        ...

    def present(self, key: str) -> tuple[str, ...]:
        """Classes truly in the clip."""
        ...

    def fingerprint(self) -> str:
        """Changes when its clips or questions do."""
        ...
