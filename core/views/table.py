"""Second views: what the model is shown beside the video, each built and prefilled by a function.

`VIEWS` is the table. A view is a function `view(context) -> SecondView` in this module and its row
in one of the two tables that make it up; its docstring is shown as its source. Importing this
module imports no torch: what needs it imports it when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import NotApplicable
from macd_studio.core.macd import empty_counterfactual
from macd_studio.core.masking.controls import (
    OBJECTS,
    PLACE,
    ControlMask,
    Hidden,
    random_objects,
    random_place,
)
from macd_studio.core.types import Counterfactual
from macd_studio.core.validation import check_named
from macd_studio.core.view_records import (
    BlankView,
    FramesView,
    MaskedView,
    NoisedView,
    NoVideoView,
    OtherView,
    PrunedTokensView,
    ShiftView,
)
from macd_studio.core.views.measured import (
    measured_changes,
    measured_counterfactual,
    measured_levels,
)
from macd_studio.core.views.second_view import (
    SecondView,
    fixed_view,
    masked_record,
    masked_view,
    trained_view,
)
from macd_studio.core.views.shift import noised_from, shift_of

if TYPE_CHECKING:
    from torch import Tensor

    from macd_studio.core.macd import MaskCompositor
    from macd_studio.core.views.context import MethodContext


DrawControl = Callable[[Hidden, int], ControlMask]
BuildView = Callable[["MethodContext"], SecondView]


def video_alone(context: MethodContext) -> SecondView:
    """The video alone, without a second view."""
    return SecondView()


# The video behind masks


def macd(context: MethodContext) -> SecondView:
    """MACD as its paper has it: object and frame masks, ascent, three levels."""
    return trained_view(context)


def macd_fixed(context: MethodContext) -> SecondView:
    """The paper's ablation "No Mask Training": every object at r0, no frame mask."""
    return fixed_view(context, np.full(len(context.tracks), context.options.ascent.r0))


def macd_fixed_frames(context: MethodContext) -> SecondView:
    """The other reading of "No Mask Training": every object and every frame group at r0."""
    r0, k, g = context.options.ascent.r0, len(context.tracks), len(context.encoded.groups)
    fixed = replace(empty_counterfactual(), level=np.full(k, r0), frame_level=np.full(g, r0))
    return masked_view(context, fixed, context.options.mask)


def macd_object(context: MethodContext) -> SecondView:
    """The paper's ablation "No Frame-level Mask": objects alone."""
    return trained_view(context, replace(context.options.mask, frame_mask="off"))


def macd_object_subsampled(context: MethodContext) -> SecondView:
    """The paper's ablation "No Frame-level Mask + Frame Extraction": every second frame of V_d."""
    mask = replace(context.options.mask, frame_mask="off")
    counterfactual = context.counterfactual(mask)
    video = context.composite(context.masks(mask), counterfactual.level, counterfactual.frame_level)
    index = tuple(range(0, len(video), 2))
    state = context.lm.prefill(context.subset(index), video[list(index)])
    return SecondView(state, replace(masked_record(counterfactual, mask), frames=index), video)


def macd_continuous(context: MethodContext) -> SecondView:
    """The paper's ablation of the three levels: the strengths as the ascent left them."""
    return trained_view(context, ascent=replace(context.options.ascent, levels="continuous"))


def macd_swept(context: MethodContext) -> SecondView:
    """This project's variant: masks swept over time, so that they do not reveal the motion."""
    return trained_view(context, replace(context.options.mask, swept=True))


def macd_answer(context: MethodContext) -> SecondView:
    """This project's variant: the ascent climbs
    the negative log likelihood of the answer that plain decoding gives.
    """
    return trained_view(context, ascent=replace(context.options.ascent, objective="answer"))


def macd_margin(context: MethodContext) -> SecondView:
    """This project's variant: the ascent climbs
    how far that answer's first token falls behind its runner-up.
    """
    return trained_view(context, ascent=replace(context.options.ascent, objective="margin"))


def mask_all(context: MethodContext) -> SecondView:
    """A control: every object fully masked, whatever the query loss is."""
    return fixed_view(context, np.ones(len(context.tracks)))


def keep_only(context: MethodContext) -> SecondView:
    """A control: every object as it is, everything else fully masked."""
    mask = replace(context.options.mask, frame_mask="outside")
    shown = replace(
        empty_counterfactual(),
        level=np.zeros(len(context.tracks)),
        frame_level=np.ones(len(context.encoded.groups)),
    )
    return masked_view(context, shown, mask)


def reversed_signs(context: MethodContext) -> SecondView:
    """A control: MACD with the sign of its last gradient reversed."""
    mask = context.options.mask
    return masked_view(context, context.counterfactual(mask, reverse=True), mask)


def hidden_pixels_of(context: MethodContext, counterfactual: Counterfactual) -> Hidden:
    """What the counterfactual's levels hide of the context's clip: the input of every control."""
    x0, y0, x1, y1 = context.encoded.frames.content
    levels = counterfactual.level, counterfactual.frame_level
    size, mask = (y1 - y0, x1 - x0), context.options.mask
    return Hidden(tuple(context.tracks), *levels, context.encoded.groups, size, mask)


def control_view(context: MethodContext, draw_mask: DrawControl, draw: int = 0) -> SecondView:
    """A control: the video behind another mask than MACD's, see `core.masking.controls`.

    draw: the first is 0. The record holds the mask, its area and how much it shares with MACD's.
    """
    mask = context.options.mask
    ascends = context.ascends
    counterfactual = context.counterfactual(mask) if ascends else measured_counterfactual(context)
    seed = context.options.seed
    if draw:  # a stream of its own for each further draw
        seed = int(np.random.SeedSequence([seed, draw]).generate_state(1)[0])
    drawn = draw_mask(hidden_pixels_of(context, counterfactual), seed)
    moved = replace(counterfactual, level=drawn.level, frame_level=drawn.frame_level)
    view = masked_view(context, moved, mask, drawn.tracks)
    boxes = tuple(
        tuple(None if np.isnan(b[0]) else tuple(b.tolist()) for b in t.boxes) for t in drawn.tracks
    )
    assert isinstance(view.record, MaskedView)
    return replace(view, record=replace(view.record, boxes=boxes, random=drawn.as_dict()))


def _control(draw_mask: DrawControl, draw: int) -> BuildView:
    def view(context: MethodContext) -> SecondView:
        return control_view(context, draw_mask, draw)

    view.__doc__ = (draw_mask.__doc__ or "").split("\n")[0]
    return view


def macd_measured(context: MethodContext) -> SecondView:
    """This project's variant: levels by what masking each object alone does to the distribution of
    the answer's first token, instead of by a gradient; no frame mask. See `measured_levels`. Where
    the question offers answers, only the distribution over these counts.
    """
    return fixed_view(
        context, measured_levels(measured_changes(context), context.options.ascent.r0)
    )


# The video under noise


@cache
def alphas_bar() -> NDArray[np.float64]:
    """ᾱ_t of VCD's 1000-step sigmoid schedule, (1000,)."""
    x = np.linspace(-6, 6, 1000)
    betas = 1 / (1 + np.exp(-x)) * (0.005 - 1e-5) + 1e-5
    return np.asarray(np.cumprod(1 - betas))


def vcd(context: MethodContext) -> SecondView:
    """VCD (Leng et al., CVPR 2024): DDPM noise on the normalised pixels, one draw per answer."""
    return _diffused(context, context.options.vcd.step)


def season_spatial(context: MethodContext) -> SecondView:
    """SEASON's spatial view: Gaussian noise on the frames; of which scale its paper leaves open,
    and VCD's schedule is taken.
    """
    return _diffused(context, context.options.season.step)


def season_temporal(context: MethodContext) -> SecondView:
    """SEASON's temporal view (Wu et al., CVPR 2026): in every layer of the vision tower each frame
    is moved towards the mean over frames, h ← (1 − b)·h + b·mean(h).
    """
    encoded, share = context.encoded, context.options.season.share
    state = context.local.prefill_mixed(encoded, encoded.video, share)
    caption = f"each layer of the vision tower with {share:g} of the mean over frames"
    return SecondView(state, OtherView("season-temporal", caption))


def _diffused(context: MethodContext, step: int) -> SecondView:
    from macd_studio.core.backbones.base import outside_rgb

    encoded, signal = context.encoded, float(alphas_bar()[step])
    scale = (1 - signal) ** 0.5
    noised = signal**0.5 * encoded.video + scale * context.noise()
    video = noised.to(encoded.video.dtype)
    clamped = outside_rgb(video, encoded.mean, encoded.std) if context.lm.rounds else None
    return SecondView(context.prefill(video), NoisedView(scale=scale, clamped=clamped), video)


def noise_global(context: MethodContext) -> SecondView:
    """The paper's ablation "Trainable Noise Only": one trained scale for the whole clip."""
    masks = context.masks(replace(context.options.mask, frame_mask="off"))
    whole = masks.objects.new_ones((1, *context.encoded.video[:, 0].shape))
    return _trained_noise(context, masks, whole, None, "global")


def noise_object(context: MethodContext) -> SecondView:
    """The paper's ablation "Object-level Trainable Noise": one trained scale per object."""
    masks = context.masks(replace(context.options.mask, frame_mask="off"))
    return _trained_noise(context, masks, masks.objects, None, "object")


def noise_frame(context: MethodContext) -> SecondView:
    """The paper's ablation "Frame-level Trainable Noise": one trained scale per frame group."""
    # no objects, so that no fusion can take their gradients
    masks = context.masks(replace(context.options.mask, frame_mask="whole"))
    return _trained_noise(context, masks, masks.objects[:0], masks.outside, "frame")


def _trained_noise(
    context: MethodContext,
    masks: MaskCompositor,
    objects: Tensor,
    outside: Tensor | None,
    over: Literal["global", "object", "frame"],
) -> SecondView:
    """Noise inside `objects` (K, T, H, W) and `outside` (T, H, W), its scales found by ascent."""
    if not len(objects) and outside is None:
        return SecondView(context.base, NoisedView(scale=0.0))
    from macd_studio.core.masking.composite import noising

    noisy = noising(masks, context.noise(), objects, outside)
    options = replace(
        context.options.ascent,
        levels="continuous",
        frame_fraction=1.0,
        gradient="exact",
        strengths="per-object",  # what shares a scale is the view's own choice
    )
    trained = context.train(noisy, options)
    video = context.composite(noisy, trained.strength, trained.frame_strength)
    record = NoisedView(
        over=over,
        level=tuple(trained.strength.tolist()),
        frame_level=tuple(trained.frame_strength.tolist()),
    )
    return SecondView(context.prefill(video), record, video)


# Less of the video, or another prompt


def sid(context: MethodContext) -> SecondView:
    """SID (Huo et al., ICLR 2025): one video, but this branch sees the least-attended tokens.

    Its public greedy path ignores β; here the cut holds for every search.
    """
    from macd_studio.core.backbones.base import Prune

    context.lm.need("prune")
    options = context.options.sid
    state = context.prefill(context.encoded.video, Prune(options.layer, options.ratio))
    grid = context.encoded.token_grid
    return SecondView(state, PrunedTokensView(options.layer, options.ratio, grid))


TCD_PUBLISHED = {16: 4, 12: 8, 32: 8}


def tcd_frames(frames: int, keep: int | None = None) -> tuple[int, ...]:
    """A chronological uniform subset: 16→4, 12→8, 32→8 as published, else half.

    >>> tcd_frames(16), tcd_frames(8)
    ((0, 5, 10, 15), (0, 2, 5, 7))
    """
    n = min(frames, keep or TCD_PUBLISHED.get(frames) or max(1, frames // 2))
    return tuple(sorted({round(float(i)) for i in np.linspace(0, frames - 1, n)}))


def tcd(context: MethodContext) -> SecondView:
    """TCD (EventHallusion, Zhang et al. 2024): the same question over some of the frames."""
    if context.encoded.frames.duration == 0:
        raise NotApplicable("a picture has no frames to leave out", "Choose another method")
    index = tcd_frames(len(context.encoded.frames.pixels), context.options.tcd.keep)
    encoded = context.subset(index)
    return SecondView(context.lm.prefill(encoded, encoded.video), FramesView(index))


def ssacd(context: MethodContext) -> SecondView:
    """SSACD (github.com/anonymous560123/SSACD, 2026): Gaussian noise on every frame from the
    clip's largest semantic shift on; without a shift it is the video itself. Its authors add the
    noise to the source's frames, before they are resized, and leave the last frame clean, which
    their text does not say. α and β are not public.
    """
    options = context.options.ssacd
    first, cosines = shift_of(context)
    video = context.encoded.video
    if first is not None:
        video = noised_from(context.encoded, first, context.noise(), options.sigma)
    cosine = tuple(round(float(z), 6) for z in cosines)
    record = ShiftView(options.sigma, first, options.features, cosine)
    return SecondView(context.prefill(video), record, video)


def blank(context: MethodContext) -> SecondView:
    """A control: every pixel is the channel mean."""
    video = context.encoded.video.new_zeros(context.encoded.video.shape)
    return SecondView(context.prefill(video), BlankView(), video)


def no_video(context: MethodContext) -> SecondView:
    """The prompt holds the question alone (Favero et al., CVPR 2024)."""
    return SecondView(context.prefill_text(), NoVideoView())


def pair(context: MethodContext) -> SecondView:
    """Its partner: another clip of the same scene, of which another thing is true; no removal."""
    video, about = context.partner_video()
    record = OtherView("pair", f"the partner clip {about['file']}", extra=about)
    return SecondView(context.prefill(video), record, video)


YES_SUFFIX = " Whenever possible, please select yes."


def prompt_bias(context: MethodContext) -> SecondView:
    """A control: Mirage's prompt-based adjustment (arXiv 2504.10020)."""
    encoded = context.encoded
    biased = context.encode_frames(encoded.frames, YES_SUFFIX)
    return SecondView(base=context.lm.prefill(biased, biased.video))


OF_THE_CLIP: dict[str, BuildView] = {
    "video": video_alone,
    "vcd": vcd,
    "noise-global": noise_global,
    "noise-frame": noise_frame,
    "sid": sid,
    "tcd": tcd,
    "ssacd": ssacd,
    "season-spatial": season_spatial,
    "season-temporal": season_temporal,
    "blank": blank,
    "no-video": no_video,
    "prompt-bias": prompt_bias,
}
"""Views that are the same whatever objects were found."""

RANDOM_PLACES = (PLACE, *(f"{PLACE}-{draw}" for draw in range(2, 9)))
"""Draws of the same control, independent of each other."""

OF_OBJECTS: dict[str, BuildView] = {
    "macd": macd,
    "macd-fixed": macd_fixed,
    "macd-fixed-frames": macd_fixed_frames,
    "macd-object": macd_object,
    "macd-object-subsampled": macd_object_subsampled,
    "macd-continuous": macd_continuous,
    "macd-swept": macd_swept,
    "macd-answer": macd_answer,
    "macd-margin": macd_margin,
    "macd-measured": macd_measured,
    "noise-object": noise_object,
    **{name: _control(random_place, draw) for draw, name in enumerate(RANDOM_PLACES)},
    OBJECTS: _control(random_objects, 0),
    "mask-all": mask_all,
    "keep-only": keep_only,
    "reversed": reversed_signs,
}
"""Views that depend on the objects that were found."""

VIEWS = OF_THE_CLIP | OF_OBJECTS

OF_A_PARTNER: dict[str, BuildView] = {"pair": pair}
"""Views that need another clip beside the one that is asked about."""

_ASCENDS = (
    "macd", "macd-object", "macd-object-subsampled", "macd-continuous", "macd-swept", "reversed",
)  # fmt: skip
_TRAINED = ("macd-answer", "macd-margin", "noise-global", "noise-frame", "noise-object")
VIEW_NEEDS = (
    {"sid": ("prune",)}
    | {name: ("ascent",) for name in _ASCENDS}
    | {name: ("gradient",) for name in _TRAINED}
)
"""What must be there for a view, see `MethodContext.need`; others: nothing."""


def find_view(name: str) -> BuildView:
    """The function that builds the view. Raises OptionError where there is none of that name."""
    if name in OF_A_PARTNER:
        return OF_A_PARTNER[name]
    check_named(name, sorted(VIEWS), "view")
    return VIEWS[name]
