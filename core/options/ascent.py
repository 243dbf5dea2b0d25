"""Options of the ascent, and the levels that strengths become."""

# ruff: noqa: RUF009  (`choice` and `part` make fields, as `dataclasses.field` does)
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Checked, choice, number, whole

Gradient = Literal["exact", "base", "half", "difference"]
Objective = Literal["query", "answer", "margin"]
Strengths = Literal["per-object", "shared"]
Levels = Literal["three", "continuous"]
Memory = Literal["normal", "low"]
DITHERS = 4
"""How often the loss is read under noise, for what a difference must exceed."""


@dataclass(frozen=True)
class Level:
    """What a strength becomes. value: None stands for every strength between 0 and 1."""

    value: float | None
    name: str


@dataclass(frozen=True)
class AscentOptions(Checked):
    """Gradient ascent on the strengths, and how they become levels (steps 7 and 8).

    memory "low" keeps few activations and computes the rest twice; the result is the same.
    gradient "base" and "half" are cheaper approximations, never the paper's: the slope at r = 0,
    from the pass that reads the plain video anyway; the slope at r0 on frames of half the size.
    "difference" needs no gradient of the model: central differences of a step along each
    strength, 0 where they do not exceed the noise, see `undecided`.
    objective: what the ascent climbs, given V_d: the paper's query loss; or the mean negative log
    likelihood of the answer that plain decoding gives; or how far that answer's first token falls
    behind its runner-up. Both need the video to be decoded first.
    strengths: one for each object, or one that all objects share, whose gradient is that of the
    loss when all of them move alike. Frame groups keep a strength each.
    """

    steps: int = whole(1, 1, 200, "ascent steps")
    eta: float = number(0.01, 1e-8, 1e6, "ascent step size η")
    r0: float = number(0.75, 0.01, 0.99, "strength at which the ascent starts")
    tau: float = number(0.0, 0, 1, "dead band τ around r0 in which a level stays at r0")
    levels: Levels = choice(
        "three", Levels, "three levels 0 / r0 / 1, or strengths as the ascent left them"
    )
    frame_fraction: float = number(
        0.25,
        0,
        1,
        "largest share of frame groups that stay masked; one of them at least, unless it is 0",
    )
    memory: Memory = choice("normal", Memory, "low keeps fewer activations and takes longer")
    gradient: Gradient = choice(
        "exact",
        Gradient,
        "exact is MACD; base and half are cheaper approximations; difference"
        " reads 4 views a strength, and needs no gradient",
    )
    difference_step: float = number(0.05, 0.01, 0.5, "step h of the gradient 'difference'")
    objective: Objective = choice(
        "query",
        Objective,
        "what the ascent climbs: the question's loss (the paper), the answer's, or its margin",
    )
    strengths: Strengths = choice(
        "per-object", Strengths, "a strength for each object, or one that all objects share"
    )

    def named_levels(self) -> tuple[Level, Level, Level]:
        """The levels and their names, from the lowest to the highest.

        >>> [(level.value, level.name) for level in AscentOptions().named_levels()]
        [(0.0, 'kept'), (0.75, 'partly masked'), (1.0, 'masked')]
        """
        partly = self.r0 if self.levels == "three" else None
        return Level(0.0, "kept"), Level(partly, "partly masked"), Level(1.0, "masked")

    def level_name(self, value: float) -> str:
        """The name of a level in [0, 1]; one between 0 and 1 is partly masked, r0 or not."""
        lowest, between, highest = self.named_levels()
        return next((z.name for z in (lowest, highest) if z.value == value), between.name)

    def reads(self, objects: int, groups: int) -> int:
        """How many videos one step by reading alone reads, see `core.masking.difference`.

        0 with another gradient. objects, groups: how many strengths there are of each.
        """
        if self.gradient != "difference":
            return 0
        moved = min(objects, 1) if self.strengths == "shared" else objects
        return 1 + DITHERS + 4 * (moved + groups)

    def undecided(self, slopes: Iterable[float]) -> list[bool]:
        """Which slopes of a step, objects' or groups', are told from 0 by no difference.

        Such a strength stays at r0: what its mask does to the loss lies below the noise.
        """
        return [self.gradient == "difference" and slope == 0 for slope in slopes]

    def check_together(self) -> None:
        """Raises OptionError for several steps along a gradient that stays the same.

        And for the gradients "base" and "difference" of another objective: both know only the
        question's loss.
        """
        if self.gradient in ("base", "difference") and self.objective != "query":
            raise OptionError(
                f"the gradient {self.gradient!r} is that of the query loss, and"
                f" {self.objective!r} was asked for",
                "Take the gradient 'exact', or the objective 'query'",
            )
        if self.gradient == "base" and self.steps > 1:
            raise OptionError(
                f"the gradient 'base' is the same at every step, and {self.steps} were asked for",
                "Take one step, or the gradient 'exact'",
            )
