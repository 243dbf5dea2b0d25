"""What a benchmark is: questions about clips, with the truth, in regimes that are never pooled.

Also the options of an evaluation where nothing is said; imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from macd_studio.core.errors import OptionError
from macd_studio.core.options import Fit, RunOptions, options_from
from macd_studio.core.types import Clip, Track

Kind = Literal["yes-no", "word", "caption", "choice", "choices", "forced"]
Balance = Literal["balanced", "unbalanced"]
Split = Literal["choose", "test", "all"]
"""choose: to pick α and β; test: the rest; all: both, for α and β that come from elsewhere."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Item:
    """One question."""

    id: str
    clip: str
    """Key of its clip, which several questions may share."""
    regime: str
    """The benchmark's own split."""
    level: str
    """Difficulty, "" where the benchmark has none."""
    kind: Kind
    question: str
    truth: str
    """The right answer; of a caption, a true one; of a choice, the letter of an option; of several
    ("choices") their letters in order, as "AC"; of an open question the right ones, with a |
    between."""
    prior_answer: str = ""
    """What somebody would answer without seeing the clip."""
    about: str = ""
    """The class that was asked about, "" if none."""
    options: tuple[str, ...] = ()
    """Options of a choice, in the order A, B, C; of yes and no the two words of another language,
    which count beside the English ones; of a forced one, every answer that could be right; the one
    whose first token scores highest counts, whatever else the model would say."""
    before: str = ""
    after: str = ""
    """`before` and `after`: what the published prompt puts around the question."""
    labels: tuple[tuple[str, str], ...] = ()
    """Further dimensions to report by, such as ("area", "physics"); one dimension may hold several
    values."""

    @property
    def answers(self) -> tuple[str, ...]:
        """What the question offers to be answered: letters of a choice, else the options."""
        if self.kind in ("choice", "choices"):
            return tuple(LETTERS[: len(self.options)])
        return self.options


class Benchmark(Protocol):
    """What the runner and the report need of a benchmark.

    balance: of each regime. "balanced": every answer, or every kind of answer, is right equally
    often for a viewer who sees everything but the asked object, so that no constant added to an
    answer's score helps a model without evidence. "unbalanced": a constant may help.
    """

    name: str
    regimes: tuple[str, ...]
    levels: tuple[str, ...]
    nouns: tuple[str, ...]
    seeds: Mapping[str, int]
    balance: Mapping[str, Balance]

    def items(self, split: Split, n: int) -> list[Item]:
        """At least n questions of each regime, or all there are; clips stay together.

        Always the same ones for the same split and n.
        """
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


FIT: Fit = "native"
"""Frames go through the model's own processor as published. "pad", the default of a single run,
keeps the shape of frames that InternVL, SmolVLM and LLaVA-NeXT-Video would stretch or crop.
"""

LONG = {"max_seconds": 7200.0, "max_megabytes": 8000.0}
"""Limits of `VideoOptions` where videos may last an hour: Video-MME's longest do."""


def evaluation_options(
    values: Mapping[str, Any], limits: Mapping[str, Any] | None = None
) -> RunOptions:
    """The options of a run from plain values. Raises OptionError.

    Where these hold none, the fit is FIT, and the longest and largest video are those of `limits`.
    """
    if options_from(values).decode.contrast_thought:
        raise OptionError("evaluations do not contrast thoughts", "Leave contrast_thought out")
    video = {"fit": FIT} | dict(limits or {}) | dict(values.get("video", {}))
    return options_from({**values, "video": video})
