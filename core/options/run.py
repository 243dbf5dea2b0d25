"""Options of a whole run, of a plan, and how they are read."""

# ruff: noqa: RUF009  (`choice` and `part` make fields, as `dataclasses.field` does)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.options.ascent import AscentOptions
from macd_studio.core.options.decoding import (
    ContrastOptions,
    DecodeOptions,
    RuleOptions,
    SidOptions,
    TcdOptions,
    VcdOptions,
)
from macd_studio.core.options.objects import (
    MAX_SEED,
    DetectOptions,
    MaskOptions,
    TrackOptions,
    VideoOptions,
)
from macd_studio.core.validation import Checked, Part, flag, number, part, shown, texts, whole


@dataclass(frozen=True)
class PlanOptions(Checked):
    """Input of `core.planning.plan`.

    frame_size: side in pixels. open_share: of questions, see `lazy_cost`.
    """

    frames: int = whole(8, 1, 512)
    frame_size: int = whole(280, 28, 4096)
    steps: int = whole(1, 1, 200)
    open_share: float | None = number(None, 0, 1)


@dataclass(frozen=True)
class RunOptions(Checked):
    """One set of options for a whole run; each stage is handed its own part only."""

    video: VideoOptions = part(VideoOptions())
    detect: DetectOptions = part(DetectOptions())
    track: TrackOptions = part(TrackOptions())
    mask: MaskOptions = part(MaskOptions())
    ascent: AscentOptions = part(AscentOptions())
    contrast: ContrastOptions = part(ContrastOptions())
    decode: DecodeOptions = part(DecodeOptions())
    vcd: VcdOptions = part(VcdOptions())
    sid: SidOptions = part(SidOptions())
    tcd: TcdOptions = part(TcdOptions())
    rules: RuleOptions = part(RuleOptions())
    seed: int = whole(
        0, 0, MAX_SEED, "seed of noise, random masks and, without one of its own, of the search"
    )
    masks_only: bool = flag(False, "stop after the masks: no answer is decoded")
    choices: tuple[str, ...] = texts(
        20, 100, "answers that the question offers, as in dog,cat; macd-measured weighs these alone"
    )
    lazy: bool = flag(
        False,
        "look for objects and read second views only where a token needs them: the same answers,"
        " and no more in the trace than that",
    )

    def check_runnable(self) -> None:
        """Raises OptionError for options that no run takes; see `MaskOptions.check_trainable`.

        It is called where options are read and where a run begins, and not at construction, so
        that the options of an older trace can be held.
        """
        self.mask.check_trainable()
        if self.decode.contrast_thought and (self.lazy or self.decode.search in ("beam", "vote")):
            raise OptionError(
                "a lazy run, beam search and votes cannot contrast a thought",
                "Leave contrast_thought out, or choose greedy or sample without lazy",
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain nested dict, as written into the trace."""
        return asdict(self)


OWN_CONTRAST = tuple(n for n, value in vars(RunOptions()).items() if hasattr(value, "contrast"))
"""Parts named after a view that was published with an α, β and cut of its own."""


def options_from(values: Mapping[str, Any]) -> RunOptions:
    """The RunOptions that `as_dict` wrote, or any part of them; the one reader of options.

    What is missing keeps its default. Raises OptionError, with the path of the key, for a value of
    another type or out of its range, and for a key that is not an option.
    """
    if not isinstance(values, Mapping):
        raise OptionError("options are not an object", 'Give {} or, say, {"ascent": {"steps": 3}}')
    options: RunOptions = Part(RunOptions()).read(values, "")
    options.check_runnable()
    return options


def read_options(options: RunOptions | None, parts: Mapping[str, Any]) -> RunOptions:
    """Options that were given either whole or by their parts. Raises OptionError."""
    if options is None:
        return options_from(parts)
    if parts:
        raise OptionError(
            f"options were given as a whole and {', '.join(parts)} in addition",
            "Give either options=RunOptions(...) or its parts",
        )
    if not isinstance(options, RunOptions):
        raise OptionError(f"options is {shown(options)}", "Give RunOptions(...), or parts by name")
    options.check_runnable()
    return options
