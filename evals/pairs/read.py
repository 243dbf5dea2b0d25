"""The logits of yes and no: of a clip, its partner, the removed object masked, and methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.core.run.order import decoding_views
from macd_studio.core.text.question import word_tokens
from macd_studio.core.types import Clip, Track
from macd_studio.core.views.context import MethodContext, Partner
from macd_studio.evals.pairs.items import PairItem, names
from macd_studio.evals.running.answer import item_seed
from macd_studio.evals.running.given import given, shown_of
from macd_studio.evals.running.prompting import PromptedLM

CLIP, PARTNER, MASK = "clip", "partner", "mask"
METHODS = ("macd", "random-place")
"""Second views that stand beside the partner."""


@dataclass(frozen=True)
class PairRow:
    """One pair: view → [logit of yes, logit of no]. masked: how many objects the mask covers.

    error: why it could not be read. given: what the clip's margin was computed from, and "partner",
    what was shown of the partner (`evals.running.given`).
    """

    id: str
    cluster: str
    truth: str
    replaced: bool
    views: dict[str, list[float]]
    masked: int = 0
    error: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    def margin(self, view: str) -> float:
        """Of yes over no, in logits."""
        yes, no = self.views[view]
        return yes - no


def read_pair(
    lm: LocalLM,
    pair: PairItem,
    clip: Clip,
    partner: Clip,
    tracks: Sequence[Track],
    options: RunOptions,
    methods: Sequence[str] = METHODS,
    cluster: str = "",
) -> PairRow:
    """The row of a pair. tracks: objects of the clip.

    The mask covers the tracks of what is removed, or of what the question names where that is not
    known, fully and nothing else. Raises MacdError for a partner that does not fit the clip.
    """
    item = pair.item
    asking: Any = PromptedLM(lm, item.before, item.after)
    fit = options.video.fit
    encoded = asking.encode(clip, item.question, fit=fit)
    own = RunOptions(video=options.video, mask=options.mask, ascent=options.ascent,
                     seed=item_seed(item.id))  # fmt: skip
    context = MethodContext(asking, encoded, tuple(tracks), own)
    of_partner = lm.preprocess(partner, fit)
    context.partner = Partner(partner.name, partner.sha256, of_partner)
    hidden = hidden_tracks(pair, tracks)
    videos = {CLIP: encoded.video, PARTNER: context.partner_video()[0]}
    if hidden:
        masks = context.masks(
            MaskOptions(frame_mask="off", fill=options.mask.fill, fusion="max"), hidden
        )
        strengths = torch.ones(len(hidden), device=masks.objects.device)
        videos[MASK] = masks.video(strengths, strengths.new_zeros(0))
    yes, no = (np.array(word_tokens(lm.tokens, word)) for word in ("yes", "no"))

    def of(state: Any) -> list[float]:
        (row,) = lm.next_rows(state, ids=[*yes, *no])
        return [float(row.among(z).values.max()) for z in (yes, no)]

    views = {name: of(asking.prefill(encoded, video[None])) for name, video in videos.items()}
    for name in methods:
        try:
            built = decoding_views(context, find_method(name))
        except OptionError:
            continue
        views[name] = np.mean([of(state) for state in built.others], 0).tolist()
    rounded = {name: [round(z, 4) for z in logits] for name, logits in views.items()}
    named = cluster or item.clip
    from_what = given(lm, clip, encoded) | {"partner": shown_of(partner, of_partner)}
    return PairRow(item.id, named, item.truth, pair.replaced, rounded, len(hidden), given=from_what)


def hidden_tracks(pair: PairItem, tracks: Sequence[Track]) -> tuple[Track, ...]:
    """The objects that a mask has to hide to do what the partner does."""
    if pair.removed:
        return tuple(t for t in tracks if t.label in pair.removed)
    return tuple(t for t in tracks if names(pair.item.question, t.label))


def read_pairs(
    lm: LocalLM,
    pairs: Sequence[PairItem],
    clip_of: Callable[[str], Clip],
    tracks_of: Callable[[PairItem], Sequence[Track]],
    options: RunOptions,
    cluster_of: Callable[[Any], str],
    methods: Sequence[str] = METHODS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PairRow]:
    """All rows; a pair that cannot be read gives one that says why."""
    rows = []
    for done, pair in enumerate(pairs):
        progress(done, len(pairs))
        cluster = cluster_of(pair.item)
        try:
            clips = clip_of(pair.item.clip), clip_of(pair.partner)
            rows.append(read_pair(lm, pair, *clips, tracks_of(pair), options, methods, cluster))
        except MacdError as error:
            rows.append(PairRow(pair.item.id, cluster, pair.item.truth, pair.replaced, {},
                                error=str(error)))  # fmt: skip
    progress(len(pairs), len(pairs))
    return rows
