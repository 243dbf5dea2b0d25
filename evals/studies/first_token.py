"""First-token logits of a question's options under the video and under each second view.

From these every α, every β and every constant can be tried without reading the clip again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.macd import empty_counterfactual
from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions
from macd_studio.core.run.order import decoding_views
from macd_studio.core.types import Clip, Track
from macd_studio.core.view_records import OtherView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import SecondView, masked_view
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import count_reads
from macd_studio.evals.running.prompting import GatheringLM
from macd_studio.evals.studies.shared import as_options, option_logits

ORACLE, REMOVED = "oracle", "removed"
"""The asked object masked, and the clip drawn again without it: no methods, they know the truth."""


def oracle_view(context: MethodContext, about: str) -> SecondView:
    """The asked class fully masked and nothing else, whatever other objects overlap it.

    It bounds what any rule for choosing objects could gain. It is not a method of `core`, because
    outside an evaluation nobody knows the truth.

    about: the class of `Item.about`; "" hides nothing, and the view is the video itself.
    """
    mask = replace(context.options.mask, frame_mask="off")
    asked = tuple(t for t in context.tracks if t.label == about)
    return masked_view(
        context, replace(empty_counterfactual(), level=np.ones(len(asked))), mask, asked
    )


def removed_view(context: MethodContext, without: Clip | None) -> SecondView:
    """The clip drawn again without the asked object; None: nothing to remove, the video itself."""
    if without is None:
        return SecondView(context.base)
    video = context.lm.encode(without, context.encoded.question).video
    return SecondView(context.prefill(video), OtherView("removed", "without the object"), video)


VIDEO = "baseline"
DIGITS = 4
"""Decimals of the logits."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class OptionLogits:
    """One item: view → the logits of its options, in the order of `Item.options`.

    views: "baseline" is the video itself. reads: view → prompts read for it in all, see
    `answer.count_reads`.
    """

    item: str
    views: dict[str, list[float]]
    reads: dict[str, float] = field(default_factory=dict)


def read_options(
    lm: LocalLM,
    clip: Clip,
    tracks: tuple[Track, ...],
    item: Item,
    methods: Sequence[str],
    options: RunOptions,
    without: Clip | None = None,
) -> OptionLogits:
    """The item's row: the video's logits, and those of the second view of each method.

    The mean of the logits where a method has several second views. methods: names of
    `core.methods`, "oracle" or "removed". without: the clip drawn again without the asked object.
    """
    gathering: Any = GatheringLM(lm)
    encoded = lm.encode(clip, item.question)
    context = MethodContext(gathering, encoded, tracks, as_options(options, item))
    built = []
    reads = {VIDEO: 1.0}
    for name in methods:
        method = find_method("mask-all" if name in TRUTHS else name)
        context.cache.start_method()
        second = TRUTHS[name](context, item, without) if name in TRUTHS else None
        built.append(decoding_views(context, method, second))
        reads[name] = count_reads(context, method)
    *views, video = gathering.resolve([*built, decoding_views(context, find_method(VIDEO))])

    def of_options(state: Any) -> list[float]:
        return option_logits(lm, state, item.options, DIGITS)[0]

    video_logits = {VIDEO: of_options(video.base)}
    means = (np.mean([of_options(z) for z in v.others], 0).tolist() for v in views)
    return OptionLogits(item.id, video_logits | dict(zip(methods, means, strict=True)), reads)


TRUTHS: dict[str, Callable[[MethodContext, Item, Clip | None], SecondView]] = {
    ORACLE: lambda context, item, without: oracle_view(context, item.about),
    REMOVED: lambda context, item, without: removed_view(context, without),
}
"""Second views that need to know the truth, by name."""


def stack(rows: Sequence[OptionLogits], view: str) -> Array:
    """(N, most options) logits of a view; -inf where an item has fewer options."""
    most = max((len(r.views[VIDEO]) for r in rows), default=0)
    table = np.full((len(rows), most), -np.inf)
    for i, row in enumerate(rows):
        table[i, : len(row.views[view])] = row.views[view]
    return table


def contrast_scores(base: Array, counter: Array, alpha: float, beta: float) -> Array:
    """(1 + α)z − αz′ where p ≥ β·max p, else −∞; base, counter: (N, K), or one row for all."""
    with np.errstate(invalid="ignore"):
        scores = (1 + alpha) * base - alpha * counter
    floor = base.max(1, keepdims=True) + (np.log(beta) if beta > 0 else -np.inf)
    return np.where((base >= floor) & np.isfinite(base), scores, -np.inf)


def contrasted(base: Array, counter: Array, alpha: float, beta: float) -> NDArray[np.int64]:
    """Index (N,) of the chosen option, see `contrast_scores`."""
    return np.asarray(contrast_scores(base, counter, alpha, beta).argmax(1))
