"""MACD: equations 3 to 9 as the paper numbers them, in its order. This is what runs.

    masks → ascent → levels → counterfactual → how the two views of a token are weighed

V: the T sampled frames. m_k: mask of object k; r_k: its strength, and r_f that of frame group f.
V_d(r): the counterfactual, V behind the masks. q: the question's tokens. y: the answer's.
Equation 1 is plain decoding, p(y|V, q) = Π p(y_n|V, q, y_<n). Equation 2 contrasts it with a second
view, log p(t|V) − λ·log p(t|V_ref); equation 8 takes its place. Equations 3 to 9 follow here.
docs/methods.md says which choices the paper leaves open and how they are made here.

Nothing here measures, keeps or reports anything: `core.views.context` keeps results for those who
share them, and `core.run.order` measures them and passes them on as events. Masks are drawn by
`core.masking`, views are read by a `Reader`; `core.decoding.loop` decodes them together.
Importing this module imports no torch: a saved trace is scored without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.options import AscentOptions, ContrastOptions, MaskOptions
from macd_studio.core.types import AscentStep, Counterfactual, StepWeights

if TYPE_CHECKING:
    from torch import Tensor

    from macd_studio.core.backbones.base import Encoded, Handle
    from macd_studio.core.backbones.local import LocalLM

Logits = NDArray[Any]
Float64Array = NDArray[np.float64]
Head = Literal["probability", "raw"]
Values = TypeVar("Values", "Tensor", Float64Array)
MAX_JOINED_VALUES = 2**25
"""Values of objects' masks that are joined together; more are joined frames by frames."""


# Masks → the counterfactual


@dataclass(frozen=True, eq=False)
class MaskCompositor:
    """Everything V_d(r) needs but the strengths.

    Pixels are normalised, which is affine, so blending them equals blending the picture.
    """

    encoded: Encoded
    options: MaskOptions
    objects: Tensor
    """(K, T, H, W) soft masks, [0, 1]."""
    outside: Tensor | None
    """(T, H, W) what no object covers; None without a frame mask."""
    weight: Tensor
    """(K,) confidence of the detector."""
    group_of: Tensor
    """(T,) frame → frame group."""
    fill: Tensor
    """(T, 3, H, W) what masked pixels become, normalised."""
    uncovered: tuple[float, ...] = ()
    """Of each object the share of a plate that had to be inpainted; empty for other fills."""

    def mask(self, strength: Tensor, frame_strength: Tensor) -> Tensor:
        """Equation 3: M = max(max_k r_k·m_k, r_f·m_f), (T, H, W) in [0, 1].

        strength: (K,); frame_strength: (G,). Ties share the gradient. The paper's other fusions
        average the strengths of the masks over a pixel, by confidence or equally, and keep the soft
        outline. "or" is 1 − Π(1 − r·m) over objects and frame mask, in which no mask takes the
        gradient from another. "sum" is M^f + M^o, clamped, as the paper's equation has it. With
        `strength_twice` r² stands for r: the equation multiplies by the strengths once more. NumPy
        reference: `core.masking.masks.combine_masks`.
        """
        import torch

        if self.options.strength_twice:
            strength, frame_strength = strength**2, frame_strength**2
        together = max(1, MAX_JOINED_VALUES // max(1, self.objects[:, 0].numel()))
        if together >= len(self.fill):
            return self._joined(strength, frame_strength)
        pieces = (self._of(slice(at, at + together)) for at in range(0, len(self.fill), together))
        return torch.cat([one._joined(strength, frame_strength) for one in pieces])

    def _of(self, frames: slice) -> MaskCompositor:
        """The part of it for some frames."""
        outside = None if self.outside is None else self.outside[frames]
        return replace(
            self,
            objects=self.objects[:, frames],
            outside=outside,
            group_of=self.group_of[frames],
            fill=self.fill[frames],
        )

    def _joined(self, strength: Tensor, frame_strength: Tensor) -> Tensor:
        import torch

        dtype = self.objects.dtype
        if self.outside is not None:
            frames = frame_strength.to(dtype)[self.group_of][:, None, None] * self.outside
        if self.options.fusion == "or":
            left = (1 - strength.to(dtype)[:, None, None, None] * self.objects).prod(0)
            left = left if self.outside is None else left * (1 - frames)
            return (1 - left).clamp(0, 1)
        layers = strength.to(dtype)[:, None, None, None] * self.per_object_mask
        if self.options.fusion == "sum":
            joined = layers.amax(0) if len(layers) else torch.zeros_like(self.fill[:, 0])
            joined = joined if self.outside is None else joined + frames
            return joined.clamp(0, 1)
        if self.options.fusion != "max":
            layers = layers.sum(0, keepdim=True)
        if self.outside is not None:
            layers = torch.cat([layers, frames[None]])
        return layers.amax(0).clamp(0, 1)

    @property
    def per_object_mask(self) -> Tensor:
        """What each strength alone does to M, (K, T, H, W): M = r_k · mask_k where the rest is 0.

        With `strength_twice` M is r_k² · mask_k. It is the mask itself, or, in the fusions that
        average, its share of the outline of all.
        """
        if self.options.fusion in ("max", "or", "sum") or not len(self.objects):
            return self.objects
        w = self.weight if self.options.fusion == "confidence" else self.weight.new_ones(1)
        shares = w[:, None, None, None] * self.objects
        return shares / shares.sum(0).clamp_min(1e-9) * self.objects.amax(0)

    def composite(self, mask: Tensor) -> Tensor:
        """Equation 4: V_d = (1 − M)·V + M·fill from M (T, H, W), (T, 3, H, W) normalised.

        With the fill "additive" as the paper writes it, V + M in RGB, clamped.
        """
        mask = mask[:, None]
        video = self.encoded.video.to(self.fill.dtype)
        if self.options.fill == "additive":
            mean, std = (
                z.to(video.dtype)[:, None, None] for z in (self.encoded.mean, self.encoded.std)
            )
            return ((video * std + mean + mask).clamp(0, 1) - mean) / std
        return video + mask * (self.fill - video)

    def video(self, strength: Tensor, frame_strength: Tensor) -> Tensor:
        """V_d(r) from strengths (K,) and (G,), (T, 3, H, W) normalised."""
        return self.composite(self.mask(strength, frame_strength))

    def changed_frames(self) -> Tensor:
        """(T,) bool: frames that any strength can change; the others need not be read again."""
        changed = self.objects.flatten(2).any(-1).any(0)
        return changed if self.outside is None else changed | self.outside.flatten(1).any(-1)


# The loss that the ascent raises


def query_loss(
    lm: LocalLM,
    encoded: Encoded,
    video: Tensor,
    low_memory: bool = False,
    reuse: Handle | None = None,
    changed_frames: Tensor | None = None,
) -> Tensor:
    """Equation 5, averaged: −log p(q_n|V_d, q_<n) over the question's tokens, in nats a token.

    video: (T, 3, H, W) normalised; the result has a graph back to it. low_memory, reuse,
    changed_frames: see `LocalLM.query_logits`.
    """
    return question_loss_from_logits(
        lm.query_logits(encoded, video, low_memory, reuse, changed_frames), encoded
    )


def mean_question_loss(log_p: Float64Array) -> float:
    """Equation 5, averaged, in nats a token: from log p (Q,) of the question's tokens."""
    return float(-np.mean(log_p))


def question_loss_from_logits(logits: Tensor, encoded: Encoded) -> Tensor:
    """Equation 5, averaged, in nats a token: from the logits (Q, V) of its tokens, with a graph."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits, encoded.input_ids[0, encoded.query])


# The ascent


def gradient_at(
    view: MaskCompositor, loss: Callable[[Tensor], Tensor], r: Tensor, rf: Tensor
) -> tuple[float, Tensor, Tensor]:
    """L(V_d(r)) and its gradient ∇_r L at the strengths r (K,) and r_f (G,)."""
    from torch.autograd import grad

    from macd_studio.core.backbones.host import to_float

    # at 0 a mask ties with all that is not masked, and a maximum gives it no gradient
    least = 0.0 if view.options.fusion == "or" else 1e-6
    r, rf = (z.clamp_min(least).requires_grad_() for z in (r, rf))
    value = loss(view.video(r, rf))
    if not value.requires_grad:  # no mask reaches a single pixel
        return to_float(value), r.new_zeros(len(r)), rf.new_zeros(len(rf))
    leaves = [z for z in (r, rf) if len(z)]
    slopes = dict(zip(map(id, leaves), grad(value, leaves), strict=True))
    g, gf = (slopes.get(id(z), z.new_zeros(len(z))) for z in (r, rf))
    return to_float(value), g, gf


def update(strength: Values, gradient: Values, eta: float) -> Values:
    """Equation 6: r ← r + η·∇_r L, clamped to [0, 1]."""
    return (strength + eta * gradient).clip(0, 1)


def gradient_ascent(
    view: MaskCompositor,
    options: AscentOptions,
    loss: Callable[[Tensor], Tensor],
    gradient: Callable[..., tuple[float, Tensor, Tensor]] = gradient_at,
) -> Iterator[AscentStep]:
    """The steps, each with what is measured before the update; r (K,) and r_f (G,) start at r0.

    loss: L of a video; the paper's is `query_loss`. gradient: another than the exact one.
    `core.masking.ascent.ascend` chooses both by the options. Strengths are float64, so that small
    steps near r0 do not vanish in rounding.
    """
    import torch

    from macd_studio.core.backbones.host import to_host

    groups = 0 if view.outside is None else len(view.encoded.groups)
    r, rf = (
        torch.full((n,), options.r0, dtype=torch.float64, device=view.objects.device)
        for n in (len(view.objects), groups)
    )
    for index in range(options.steps):
        value, g, gf = gradient(view, loss, r, rf)
        yield AscentStep(index, value, *(to_host(z) for z in (r, g, rf, gf)))
        r, rf = update(r, g, options.eta), update(rf, gf, options.eta)


# Strengths → levels


def finalize_ascent(last: AscentStep, options: AscentOptions) -> Counterfactual:
    """Takes the last step and turns the strengths into levels."""
    r = update(last.strength, last.gradient, options.eta)
    rf = update(last.frame_strength, last.frame_gradient, options.eta)
    return Counterfactual(
        strength=r,
        margin=r - options.r0,
        level=quantize_strengths(r, options),
        frame_strength=rf,
        frame_margin=rf - options.r0,
        frame_level=frame_levels(rf, options),
    )


def quantize_strengths(
    strength: Float64Array, options: AscentOptions | None = None
) -> Float64Array:
    """Equation 7: strengths (K,) → levels, 1 above r0 + τ, 0 below r0 − τ, else r0.

    >>> quantize_strengths(np.array([0.76, 0.74, 0.75])).tolist()
    [1.0, 0.0, 0.75]
    """
    options = options or AscentOptions()
    if options.levels == "continuous":
        return strength.copy()
    up, down = strength > options.r0 + options.tau, strength < options.r0 - options.tau
    return np.where(up, 1.0, np.where(down, 0.0, options.r0))


def frame_levels(strength: Float64Array, options: AscentOptions | None = None) -> Float64Array:
    """Levels of the frame groups (G,), where only the few with the largest margin stay masked.

    At most `frame_fraction` of the groups, but one where the fraction is above 0.
    """
    options = options or AscentOptions()
    out = quantize_strengths(strength, options)
    few = int(options.frame_fraction * len(out))
    if options.frame_fraction > 0 and len(out):
        few = max(1, few)
    order = np.argsort(-(strength - options.r0), kind="stable")
    out[order[few:]] = 0.0
    return out


def empty_counterfactual() -> Counterfactual:
    """The counterfactual where there is nothing to mask."""
    none = np.zeros(0)
    return Counterfactual(none, none, none, none, none, none)


# Both views of a token → its scores


def contrast_weights(
    base: Logits, alpha: float, beta: float, head: Head = "probability"
) -> StepWeights:
    """Equation 8: s(t) = (1 + α)·logit(t|V) − α·logit(t|V_d), where equation 9 lets t through."""
    return StepWeights(1 + alpha, (-alpha,), plausibility_threshold(base, beta, head))


@dataclass(frozen=True)
class LinearContrast:
    """Equations 8 and 9 as what the loop asks of a rule: how each view is weighed."""

    contrast: ContrastOptions

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token."""
        return contrast_weights(base, self.contrast.alpha, self.contrast.beta, self.contrast.head)


def plausibility_threshold(base: Logits, beta: float, head: Head = "probability") -> float:
    """Equation 9: p(t|V) ≥ β·max p(·|V), as the lowest logit of V that it lets through.

    −inf: no cut, as for β = 0. p is untempered. "raw" is TCD's cut, logit ≥ β·max logit.

    >>> plausibility_threshold(np.array([2.0, 1.9, -3.0]), 0.5)
    1.3068528194400546
    >>> plausibility_threshold(np.array([2.0, 0.9]), 0.5, "raw")
    1.0
    """
    top = float(np.max(base))
    if head == "raw":
        return beta * top
    return top + float(np.log(beta)) if beta > 0 else -np.inf


def plausible(base: Logits, floor: float) -> NDArray[np.bool_]:
    """Tokens whose base logit is at least `floor`, and always the base argmax.

    >>> plausible(np.array([2.0, 1.9, -3.0]), floor=1.3).tolist()
    [True, True, False]
    """
    base = np.asarray(base, np.float64)
    inside: NDArray[np.bool_] = base >= floor
    inside[int(base.argmax())] = True
    return inside


def only_one_is_plausible(base: Logits, floor: float) -> bool:
    """Whether one token alone passes the cut: every α and every second view then choose it.

    >>> [only_one_is_plausible(np.array([2.0, other]), 1.95) for other in (1.9, 2.0)]
    [True, False]
    """
    return int(plausible(base, floor).sum()) == 1


def weighted(
    base: Logits,
    others: Sequence[Logits],
    weights: StepWeights,
    tokens: NDArray[np.int64] | None = None,
) -> Float64Array:
    """The scores that the weights give, −inf below their floor.

    base: of V; others: of the second views, all over the vocabulary, or over the stored candidates
    of a `TokenStep` (then the base argmax is among them, and results are exact for every token
    stored). tokens: their ids where they are not those of the whole vocabulary, for the bias.

    >>> w = StepWeights(1.0, (3.0,), floor=1.0, bias=((0, 0.5),))
    >>> weighted(np.array([2.0, 1.5, 0.0]), [np.array([1.0, 1.0, 9.0])], w).tolist()
    [5.5, 4.5, -inf]
    """
    base = np.asarray(base, np.float64)
    scores = weights.base * base
    for other, weight in zip(others, weights.others, strict=False):
        if np.shape(other) != base.shape:
            raise ValueError(f"views differ in shape: {base.shape} and {np.shape(other)}")
        scores = scores + weight * np.asarray(other, np.float64)
    for token, amount in weights.bias:
        scores[token if tokens is None else tokens == token] += amount
    return np.where(plausible(base, weights.floor), scores, -np.inf)
