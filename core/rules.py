"""Score rules: how the logits of the views become one score for each token.

`RULES` is the table. A rule is a class in this module and its entry there. Imports no torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.macd import (
    Float64Array,
    LinearContrast,
    Logits,
    only_one_is_plausible,
    plausibility_threshold,
    weighted,
)
from macd_studio.core.options import ContrastOptions, RuleOptions
from macd_studio.core.repeats import Repeats, penalised, undo_repetition_penalty
from macd_studio.core.text.question import require_yes_no, word_tokens
from macd_studio.core.text.words import count
from macd_studio.core.token_logits import log_partition
from macd_studio.core.types import StepWeights
from macd_studio.core.validation import check_named


@dataclass(frozen=True)
class Setting:
    """What a rule is made from.

    contrast: α, β and cut published for the view it is paired with. options: what other rules
    take. tokens: text → token ids, for rules that use words. question: as it was asked. penalty:
    the model's for repeats, taken after the rule. depth, frames: decoder layers and temporal
    patches, for rules that read attention.
    """

    contrast: ContrastOptions
    options: RuleOptions
    tokens: Any
    question: str
    penalty: float = 1.0
    depth: int = 0
    frames: int = 0


class ScoreRule(ABC):
    """Weighs the views of one token.

    Its docstring names the source.
    """

    name: ClassVar[str] = ""
    """In `RULES`, and in METHOD names."""
    title: ClassVar[str] = ""
    """For tables."""
    second_views: ClassVar[int] = 1
    """How many second views it must be given; with more or fewer it is refused."""
    at_most: ClassVar[int | None] = None
    """The largest number of second views where it takes several."""
    moves_with_views: ClassVar[bool] = False
    """Whether its weights follow from the views' values."""
    constant_alpha: ClassVar[bool] = False
    """Whether it has the same α for every token, over the mean of the second views."""
    needs_every_logit: ClassVar[bool] = False
    """Whether it takes a sum over the vocabulary."""
    reads_words: ClassVar[bool] = False
    """Whether it looks words up in the model's vocabulary."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Of `core.records.CAPABILITIES`, what it takes of the model beside logits."""

    @classmethod
    def takes(cls, second_views: int) -> bool:
        """Whether it weighs that many second views."""
        return cls.second_views <= second_views <= (cls.at_most or cls.second_views)

    @classmethod
    def views_taken(cls) -> str:
        """How many second views it takes, in words."""
        if cls.at_most is None:
            return count(cls.second_views, "second view")
        return f"{cls.second_views} to {cls.at_most} second views"

    @property
    def reads_layers(self) -> tuple[int, ...]:
        """The decoder layers whose attention to vision tokens it reads, see `attending`."""
        return ()

    @property
    def needs_raw_logits(self) -> bool:
        """Whether the zero of the logits counts, which log-probabilities have lost."""
        return False

    @property
    def constant_contrast(self) -> ContrastOptions | None:
        """α, β and cut where they alone say how every token is weighed; None elsewhere."""
        return None

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """The rule as the options have it; without fields of its own it takes none.

        Raises NotApplicable for a question it cannot score.
        """
        return cls()

    def attending(self, views: Sequence[NDArray[np.floating[Any]]]) -> Self:
        """The rule for one token, where it reads attention.

        views: (N,) of the video and each second view: attention of the token before to each vision
        token, mean over heads, sum over `reads_layers`.
        """
        return self

    @abstractmethod
    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The weights for the token at `index`, counted from 0.

        base: (V,) logits of the video; others: (V,) each, of the second views.
        """

    @property
    def cuts_by_video(self) -> bool:
        """Whether a cut that is computed from the video alone can decide a token."""
        return self.second_views > 0 and self.floor(np.zeros(1)) > -np.inf

    def floor(self, base: Logits) -> float:
        """The cut as the video alone decides it, as the lowest logit that passes it.

        base: (V,). −inf where nothing is cut, and where a second view moves the cut.
        """
        return -np.inf

    def decides(self, base: Logits) -> bool:
        """Whether the video alone decides the token, whatever the second views say.

        Not where no second view is contrasted: there is nothing to leave out.
        """
        return self.second_views > 0 and only_one_is_plausible(base, self.floor(base))


def probabilities(logits: Logits) -> Float64Array:
    """Softmax in float64, (V,)."""
    return np.asarray(np.exp(np.asarray(logits, np.float64) - log_partition(logits)))


@dataclass(frozen=True)
class Plain(ScoreRule):
    """z: plain decoding of the video."""

    name = "plain"
    title = "Plain decoding"
    second_views = 0

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The base alone."""
        return StepWeights()


@dataclass(frozen=True)
class Linear(LinearContrast, ScoreRule):
    """(1 + α)·z − α·z′ where p ≥ β·max p; with `head` "raw" where z ≥ β·max z (the MACD paper, eq.
    8 and 9; VCD, arXiv 2311.16922; TCD cuts by raw logits).
    """

    name = "linear"
    title = "Linear contrast"
    constant_alpha = True

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """α, β and cut of the view."""
        return cls(setting.contrast)

    @property
    def constant_contrast(self) -> ContrastOptions | None:
        """Its contrast; a rule that derives from it may weigh in another way."""
        return self.contrast if type(self) is Linear else None

    @property
    def needs_raw_logits(self) -> bool:
        """The cut by raw logits: log-probabilities have another zero."""
        return self.contrast.head == "raw"

    def floor(self, base: Logits) -> float:
        """Of its contrast; −inf for a rule that derives from it, which may cut in another way."""
        if type(self) is not Linear:
            return -np.inf
        return plausibility_threshold(base, self.contrast.beta, self.contrast.head)


@dataclass(frozen=True)
class MeanViews(ScoreRule):
    """(1 + α)·z − α·mean(z′, z″, …) over two to eight second views, where p ≥ β·max p.

    The form of SEASON (arXiv 2512.04643), (1 + α)·z − α·(w_S·z_S + w_T·z_T) over a spatially and a
    temporally degraded view, with equal weights; the rule `season` has SEASON's own.
    """

    name = "mean-views"
    title = "Mean of views"
    constant_alpha = True
    second_views = 2
    at_most = 8
    contrast: ContrastOptions

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """α, β and cut of the run."""
        return cls(setting.contrast)

    @property
    def needs_raw_logits(self) -> bool:
        """See `Linear.needs_raw_logits`."""
        return self.contrast.head == "raw"

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token."""
        share = -self.contrast.alpha / len(others)
        return StepWeights(1 + self.contrast.alpha, (share,) * len(others), self.floor(base))

    def floor(self, base: Logits) -> float:
        """Of its contrast."""
        return plausibility_threshold(base, self.contrast.beta, self.contrast.head)


SEASON_LAYERS, SEASON_DEPTH = (20, 24), 28
"""The decoder layers that SEASON reads, from the first to before the last, and of how many."""


def season_layers(depth: int, first: int | None = None) -> tuple[int, ...]:
    """Four from `first` on, or as many as there are; without it those at the published place.

    Of a decoder of another depth these are as large a part, at least one.

    >>> season_layers(28), season_layers(6), season_layers(6, 3)
    ((20, 21, 22, 23), (4,), (3, 4, 5))
    """
    if first is not None:
        return tuple(range(first, min(first + 4, depth)))
    start, end = (depth * layer // SEASON_DEPTH for layer in SEASON_LAYERS)
    return tuple(range(start, max(start + 1, end)))


def jensen_shannon(p: Float64Array, q: Float64Array) -> float:
    """½·KL(p ‖ m) + ½·KL(q ‖ m) with m = ½·(p + q), nats; p, q: (F,) positive, each of sum 1."""
    m = (p + q) / 2
    return float((p * np.log(p / m)).sum() + (q * np.log(q / m)).sum()) / 2


@dataclass(frozen=True)
class Season(ScoreRule):
    """(1 + α)·z − α·(w_S·z_S + w_T·z_T), w = D/(D_S + D_T) for each token (SEASON, Wu et al., CVPR
    2026, arXiv 2512.04643).

    D is the Jensen-Shannon divergence between two distributions over the frames, the video's and a
    second view's: the softmax of the attention of the token before, summed over a frame's vision
    tokens and over some decoder layers (`rules.season_layer`). The code is not public. What the
    paper leaves open is chosen so: attention is the mean over heads; frames are temporal patches
    where the model joins frames; two views that both leave the attention as it is weigh the same;
    in decoders of another depth the layers are as large a part, at the same place. There is no cut
    unless `season.contrast.beta` asks for one.
    """

    name = "season"
    title = "SEASON's weights"
    second_views = 2
    moves_with_views = True
    needs = ("attention",)
    contrast: ContrastOptions
    layers: tuple[int, ...]
    frames: int
    shares: tuple[float, ...] = ()

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """α, β and cut of the view. Raises NotApplicable for a layer that the decoder lacks."""
        layers = season_layers(setting.depth, setting.options.season_layer)
        if not layers:
            raise NotApplicable(
                f"the decoder has {setting.depth} layers, and SEASON is to read those from"
                f" {setting.options.season_layer} on",
                f"Give a layer from 0 to {setting.depth - 1}",
            )
        return cls(setting.contrast, layers, setting.frames)

    @property
    def reads_layers(self) -> tuple[int, ...]:
        """As they were chosen."""
        return self.layers

    @property
    def needs_raw_logits(self) -> bool:
        """See `Linear.needs_raw_logits`."""
        return self.contrast.head == "raw"

    def attending(self, views: Sequence[NDArray[np.floating[Any]]]) -> Self:
        """With the weights of one token.

        Raises NotApplicable for a view that does not show the same frames, and for frames that have
        not as many tokens each.
        """
        tokens = len(views[0])
        if not tokens or tokens % self.frames or any(len(view) != tokens for view in views):
            raise NotApplicable(
                "SEASON compares attention to the same frames, and a second view has others",
                "Choose second views of all frames, such as season-spatial/season-temporal",
            )
        video, *others = (
            probabilities(np.asarray(view, np.float64).reshape(self.frames, -1).sum(1))
            for view in views
        )
        apart = np.maximum([jensen_shannon(video, other) for other in others], 0.0)
        shares = apart / apart.sum() if apart.sum() > 0 else np.full(len(apart), 1 / len(apart))
        return replace(self, shares=tuple(shares.tolist()))

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The weights that `attending` found. Raises NotApplicable where it was not asked."""
        if len(self.shares) != len(others):
            raise NotApplicable(
                "SEASON's weights follow from attention, which is not known here",
                "Run the clip with the method season, or choose the rule mean-views",
            )
        alpha = self.contrast.alpha
        floor = plausibility_threshold(base, self.contrast.beta, self.contrast.head)
        return StepWeights(1 + alpha, tuple(-alpha * share for share in self.shares), floor)


@dataclass(frozen=True)
class LogLinear(ScoreRule):
    """log p − λ·log p′ (the MACD paper, eq. 2), where p ≥ β·max p.

    Equation 2 has no cut; β = 0 leaves it out. λ: `rules.log_lambda`.
    """

    name = "log-linear"
    title = "Log-probabilities with λ"
    strength: float
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """λ and β of the options."""
        return cls(setting.options.log_lambda, setting.options.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token; each view's log partition changes no choice."""
        return StepWeights(1.0, (-self.strength,), self.floor(base))

    def floor(self, base: Logits) -> float:
        """β of the rule's own."""
        return plausibility_threshold(base, self.beta)


@dataclass(frozen=True)
class Code(ScoreRule):
    """(2 − D)·z − (1 − D)·z′ where p ≥ D·max p, with D = ½ Σ log₂(|p − p′|^a + 1)·(p + p′).

    CODE (Kim et al., NeurIPS 2024, github.com/IVY-LVLM/CODE). a: `rules.code_power`.
    """

    name = "code"
    title = "CODE"
    needs_every_logit = True
    moves_with_views = True
    power: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """a of the options."""
        return cls(setting.options.code_power)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """D is computed for every token; it lies in [0, 1]."""
        p, q = probabilities(base), probabilities(others[0])
        d = float(0.5 * (np.log2(np.abs(p - q) ** self.power + 1) * (p + q)).sum())
        return StepWeights(2 - d, (d - 1,), plausibility_threshold(base, d))


@dataclass(frozen=True)
class Only(ScoreRule):
    """z + 3·z′ where Σ|p − p′| < γ, else 2·z − z′; both where z ≥ max z + log β.

    ONLY (Wan et al., ICCV 2025, github.com/zifuwan/ONLY). γ: `rules.only_threshold`.
    """

    name = "only"
    title = "ONLY's switch"
    needs_every_logit = True
    moves_with_views = True
    threshold: float
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """γ and β of the options."""
        return cls(setting.options.only_threshold, setting.options.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """Two views that agree are added, two that differ are contrasted."""
        distance = np.abs(probabilities(base) - probabilities(others[0])).sum()
        weights = (1.0, 3.0) if distance < self.threshold else (2.0, -1.0)
        return StepWeights(weights[0], (weights[1],), self.floor(base))

    def floor(self, base: Logits) -> float:
        """β of the rule's own."""
        return plausibility_threshold(base, self.beta)


@dataclass(frozen=True)
class M3id(ScoreRule):
    """l + k·(l − l′), k = (1 − γ)/γ, γ = e^(−λt), on log-probabilities, where z ≥ max z + log β.

    M3ID (Favero et al., CVPR 2024; github.com/sangminwoo/AvisC). t counts from 1, so that the
    first token can change too. λ: `rules.m3id_decay`. Log-probabilities differ from logits by a
    constant of each view, which changes no choice.
    """

    name = "m3id"
    title = "M3ID"
    decay: float
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """λ and β of the options."""
        return cls(setting.options.m3id_decay, setting.options.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """(1 − γ)/γ = e^(λt) − 1."""
        k = float(np.expm1(min(self.decay * (index + 1), 50.0)))  # beyond it the same tokens win
        return StepWeights(1 + k, (-k,), self.floor(base))

    def floor(self, base: Logits) -> float:
        """β of the rule's own."""
        return plausibility_threshold(base, self.beta)


@dataclass(frozen=True)
class Crg(ScoreRule):
    """2·z − z′, nothing cut (Contrastive Region Guidance, Wan et al., ECCV 2024)."""

    name = "crg"
    title = "CRG"

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token."""
        return StepWeights(2.0, (-1.0,))


@dataclass(frozen=True)
class CutOnly(ScoreRule):
    """z where p ≥ β·max p: what the cut alone does to sampling ("Mirage", arXiv 2504.10020)."""

    name = "cut-only"
    title = "Plausibility cut alone"
    second_views = 0
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """β of the contrast."""
        return cls(setting.contrast.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The base alone, cut."""
        return StepWeights(floor=plausibility_threshold(base, self.beta))


@dataclass(frozen=True)
class YesBias(ScoreRule):
    """z + δ on the tokens that begin "yes", at the first token ("Mirage", arXiv 2504.10020).

    What a contrast gains on yes-no questions must be more than this gains. δ: `rules.delta`.
    """

    name = "yes-bias"
    title = "Constant on yes"
    reads_words = True
    second_views = 0
    delta: float
    yes: tuple[int, ...]

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """δ of the options. Raises NotApplicable where the question does not ask for yes or no."""
        require_yes_no(setting.question, "yes-bias")
        return cls(setting.options.delta, word_tokens(setting.tokens, "yes"))

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """Nothing but the constant; what follows the first token is plain."""
        if index:
            return StepWeights()
        return StepWeights(bias=tuple((token, self.delta) for token in self.yes))


MASS, MARGIN = 0.2, 0.5


@dataclass(frozen=True)
class Olm(ScoreRule):
    """ "yes" where p_yes + p_no > 0.2 and |p_yes − p_no| < 0.5, else z ("Mirage", arXiv 2504.10020,
    github.com/ustc-hyin/cd_rethink). The first token alone is looked at.
    """

    name = "olm"
    title = "Output-layer rule"
    needs_every_logit = True
    reads_words = True
    moves_with_views = True
    second_views = 0
    yes: tuple[int, ...]
    no: tuple[int, ...]
    penalty: float = 1.0

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """Takes no option. Raises NotApplicable where yes or no is not asked for."""
        require_yes_no(setting.question, "olm")
        yes, no = (word_tokens(setting.tokens, word) for word in ("yes", "no"))
        return cls(yes, no, setting.penalty)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """Raises the likelier "yes" to just above every other token, penalised or not."""
        if index:
            return StepWeights()
        p = probabilities(base)
        yes, no = (max(ids, key=lambda i: p[i]) for ids in (self.yes, self.no))
        if p[yes] + p[no] <= MASS or abs(p[yes] - p[no]) >= MARGIN:
            return StepWeights()
        lowered = Repeats(self.penalty, np.ones(1, bool))
        top = float(base.max())
        above = max(top, *penalised(np.array([top]), lowered)) + 1.0
        enough = max(above, *undo_repetition_penalty(np.array([above]), lowered))
        return StepWeights(bias=((yes, float(enough - base[yes])),))


RULES: dict[str, type[ScoreRule]] = {
    rule.name: rule
    for rule in (
        Plain, Linear, MeanViews, Season, LogLinear, Code, Only, M3id, Crg, CutOnly, YesBias, Olm,
    )
}  # fmt: skip
"""Every rule by name."""

CUT_BY_VIDEO = tuple(n for n, rule in RULES.items() if rule.floor is not ScoreRule.floor)
"""Rules whose cut follows from the video alone, so that it may decide a token."""

CONSTANT_ALPHA = tuple(n for n, rule in RULES.items() if rule.constant_alpha)
"""Rules with the same α for every token, over the mean of the second views."""


def find_rule(name: str) -> type[ScoreRule]:
    """The rule of that name. Raises OptionError where there is none."""
    check_named(name, sorted(RULES), "rule")
    return RULES[name]


def _check_weights(rule: ScoreRule, weights: object, vocabulary: int | None) -> None:
    """Raises OptionError for what a rule cannot give. vocabulary: its size, where it is known."""
    if not isinstance(weights, StepWeights):
        raise OptionError(
            f"the rule {rule.name} gave a {type(weights).__name__}", "Return StepWeights of weigh"
        )
    if not rule.takes(len(weights.others)):
        raise OptionError(
            f"the rule {rule.name} is over {rule.views_taken()}, and gave"
            f" {len(weights.others)} weights",
            "Return a weight for each second view",
        )
    amounts = (weights.base, *weights.others, *(amount for _, amount in weights.bias))
    if not all(map(math.isfinite, amounts)) or math.isnan(weights.floor):
        raise OptionError(
            f"the rule {rule.name} gave a weight, bias or floor that is not a number",
            "Return finite weights, and -inf as the floor where nothing is cut",
        )
    for token, _ in weights.bias:
        if vocabulary is not None and not 0 <= token < vocabulary:
            raise OptionError(
                f"the rule {rule.name} has a bias on token {token} of {vocabulary}",
                "Return ids of the vocabulary",
            )


def score_token(
    rule: ScoreRule,
    base: Logits,
    others: Sequence[Logits],
    index: int,
    repeats: Repeats | None = None,
    tokens: NDArray[np.int64] | None = None,
) -> tuple[StepWeights, Float64Array]:
    """How the rule weighs the views of a token, and the scores (V,) to choose it by.

    rule: equation 8 is the rule "linear". others: empty where `rule.decides` the token by the video
    alone. repeats: the model's repetition penalty, taken after the contrast. tokens: see
    `weighted`. Raises OptionError for what cannot be the weights of this rule.
    """
    if not others and rule.decides(base):
        weights = StepWeights(floor=rule.floor(base))
        return weights, penalised(weighted(base, (), weights), repeats)
    weights = rule.weigh(base, others, index)
    _check_weights(rule, weights, len(base) if tokens is None else None)
    return weights, penalised(weighted(base, others, weights, tokens), repeats)
