"""The ascent, decoded tokens with their candidates, and answers."""

# ruff: noqa: RUF009  (`stored` makes fields, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import (
    MAX_LOGIT,
    REAL,
    TEXT,
    Array,
    ByName,
    Row,
    Rows,
    Stored,
    described,
    stored,
)
from macd_studio.core.options import ContrastOptions
from macd_studio.core.records import Thought
from macd_studio.core.repeats import Repeats
from macd_studio.core.types.clips import Floats, Ints, Pixels
from macd_studio.core.validation import Flag, Maybe, Number, Text, rules_of
from macd_studio.core.view_records import AnyView, View

_CONTRAST = rules_of(ContrastOptions)
MAYBE_THOUGHT = Maybe(Row(Thought))


@dataclass(frozen=True, eq=False)
class AscentStep(Stored):
    """One step of the ascent: strengths before it, and the query loss and its gradient there."""

    index: int
    loss: float = stored(Array(), "nats per token")
    strength: NDArray[np.float64] = stored(Array("K"), "of the objects")
    gradient: NDArray[np.float64] = stored(Array("K"), "∂L/∂r of the objects")
    frame_strength: NDArray[np.float64] = stored(Array("G?"), "of the frame groups")
    frame_gradient: NDArray[np.float64] = stored(Array("G?"), "∂L/∂r of the frame groups")


@dataclass(frozen=True, eq=False)
class Counterfactual(Stored):
    """Where the ascent ended, and the level each strength became."""

    strength: NDArray[np.float64] = stored(Array("K"), "of the objects after the last step")
    margin: NDArray[np.float64] = stored(Array("K"), "strength − r0, signed, unclamped by τ")
    level: NDArray[np.float64] = stored(Array("K", 0, 1), "what the strengths became")
    frame_strength: NDArray[np.float64] = stored(Array("G?"), "of the frame groups")
    frame_margin: NDArray[np.float64] = stored(Array("G?"), "their strength − r0")
    frame_level: NDArray[np.float64] = stored(Array("G?", 0, 1), "what their strengths became")
    base_loss: float | None = stored(
        Maybe(REAL), "query loss given V, nats per token; null until both views were read", None
    )
    loss: float | None = stored(Maybe(REAL), "query loss given V_d", None)


@dataclass(frozen=True)
class StepWeights:
    """How one token was chosen: base·z + Σ others·z′ + bias, among tokens with z ≥ floor.

    z: logits of the video, z′: of each second view. The token with the largest z is always among
    them. bias: (token, amount) pairs added to the score.
    """

    base: float = 1.0
    others: tuple[float, ...] = ()
    floor: float = -np.inf
    bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class TokenStep(Stored):
    """One decoded token with its candidates under both views.

    With one second view the candidates hold the winner for any α in [0, 20] and β in [0, 1], with
    several the choice. texts: (C,) their exact text. others: (C,) logits of each second view, and
    others_log_z their partitions. hidden: (N,) vision tokens that the first second view did not
    see, None where it hides none. weights: how it was scored; None where the answer's α, β and cut
    say so. repeats: what a repetition penalty lowers.
    """

    index: int
    token: int = stored(Array(whole=True), "id of the chosen token")
    text: str = described("its exact text")
    candidates: Ints = stored(Array("C", whole=True), "token ids, best base logit first")
    texts: tuple[str, ...] = described("their exact texts")
    base: Floats = stored(
        Array("C", -MAX_LOGIT, MAX_LOGIT, digits=5, kept="f4"), "the candidates' logits given V"
    )
    base_log_z: float = stored(
        Array(least=-MAX_LOGIT, most=MAX_LOGIT),
        "log partition over the whole vocabulary, so that p = exp(logit − log_z) is exact",
    )
    others: tuple[Floats, ...] = ()
    others_log_z: tuple[float, ...] = ()
    hidden: NDArray[np.bool_] | None = None
    floor: float = stored(
        Array(lost=True),
        "every token whose base logit is at least this is a candidate (−∞: all are; ∞: not known),"
        " so probabilities over a head that ends above it are exact, and upper bounds below",
        -np.inf,
    )
    weights: StepWeights | None = None
    repeats: Repeats | None = None


@dataclass(frozen=True, eq=False)
class ShownView(Stored):
    """What a second view was. shown: its frames as the model read them, (T, h, w, 3).

    None where it has the pixels of the first view, or none at all.
    """

    view: View = stored(AnyView(), "its kind, with plain numbers")
    shown: Pixels | None = None


@dataclass(frozen=True, eq=False)
class Answer(Stored):
    """One method's answer. tokens: the end token included."""

    method: str = stored(Text(100, 1, clean=False), "the method's name")
    text: str = stored(TEXT, "the answer")
    tokens: tuple[TokenStep, ...] = described("its tokens, the end token included")
    finished: bool = stored(Flag(), "whether the model ended it itself")
    alpha: float = stored(_CONTRAST["alpha"], "α (0 in the baseline)", 0.0, needed=True)
    beta: float = stored(_CONTRAST["beta"], "β (0 in the baseline)", 0.0, needed=True)
    head: str = stored(
        _CONTRAST["head"], "what the cut compares: `probability`, or TCD's `raw` on raw logits",
        "probability", needed=True,
    )  # fmt: skip
    rule: str = stored(
        Text(100, 1, clean=False),
        "how the views were scored, a name in `core.rules`; α, β and head are those of `linear`",
        "linear", needed=True,
    )  # fmt: skip
    votes: dict[str, int] = stored(
        ByName(Number(0, 10**6, whole=True), 1000, TEXT),
        "of self-consistency: normalised answer → samples that gave it",
        dict,
        needed=True,
    )
    second_views: tuple[ShownView, ...] = stored(
        Rows(ShownView, 9, "{}_"),
        "its second views, in order; none of a plain answer",
        (),
        needed=True,
    )
    thought: Thought | None = stored(MAYBE_THOUGHT, "its own, where thoughts are contrasted", None)
    ms: float = stored(
        REAL, "time it added: the first to need a shared piece pays for it", 0.0, needed=True
    )
    total_ms: float = stored(
        REAL, "time of everything it needs, from the prompt to the answer", 0.0, needed=True
    )
    memory_mb: float = stored(
        REAL, "peak of the tensors alive for it, weights included", 0.0, needed=True
    )
