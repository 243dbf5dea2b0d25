"""The patch meter and the headroom of a true removal, with intervals over pairs, as Markdown.

Patch meter: the margin of yes over no behind the mask less that of the partner. 0: a mask does to
the answer what taking the object away does; above 0, the mask itself says yes.

Headroom: how many more questions are right where the video is contrasted with the partner, at one
α and β; MACD's second view and random places beside it. What masks could gain at most, if they did
what the partner does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.core.pages.blocks import as_markdown
from macd_studio.core.run.order import decoding_views
from macd_studio.core.statistics import Interval
from macd_studio.core.text.question import word_tokens
from macd_studio.core.text.words import count
from macd_studio.core.types import Clip, Track
from macd_studio.core.views.context import MethodContext, Partner
from macd_studio.evals.pairs.items import PairItem, names
from macd_studio.evals.printing.figures import as_cell, change, logits, percent, table
from macd_studio.evals.running.answer import item_seed
from macd_studio.evals.running.given import given, shown_of
from macd_studio.evals.running.prompting import PromptedLM
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import bootstrap_ratio, mean_difference
from macd_studio.evals.studies.first_token import contrasted

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
        (row,) = lm.next_logits(state, ids=[*yes, *no])
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


Figures = dict[str, Any]


def figures_of(
    rows: Sequence[PairRow], alpha: float, beta: float, left_out: Mapping[str, int] | None = None
) -> Figures:
    """Both figures of all pairs that were read, and of those whose object was merely removed.

    left_out: reason → questions that could not be used.
    """
    read = [r for r in rows if not r.error]
    without_mask = [r for r in read if MASK not in r.views]
    masked = [r for r in read if MASK in r.views]
    return {
        "pairs": len(read),
        "failed": [{"id": r.id, "error": r.error} for r in rows if r.error],
        "left_out": dict(left_out or {}),
        "nothing_to_mask": len(without_mask),
        "replaced": sum(r.replaced for r in masked),
        "alpha": alpha,
        "beta": beta,
        "meter": meter(masked),
        "meter_of_removals": meter([r for r in masked if not r.replaced]),
        "headroom": headroom(read, alpha, beta),
    }


def meter(rows: Sequence[PairRow]) -> Figures:
    """What a mask adds to the margin over the partner, in logits; also what the clip itself does.

    Each an estimate with its interval over pairs. Shares of answers that are those of the partner.
    """
    if not rows:
        return {"n": 0}
    keys = [r.cluster for r in rows]
    ones = np.ones(len(rows))
    margins = {v: np.array([r.margin(v) for r in rows]) for v in (CLIP, PARTNER, MASK)}
    partner = margins[PARTNER]
    return {
        "n": len(rows),
        "mask": _alone(bootstrap_ratio(margins[MASK] - partner, ones, keys), keys),
        "clip": _alone(bootstrap_ratio(margins[CLIP] - partner, ones, keys), keys),
        "answers_as_partner": _alone(
            clustered_share((margins[MASK] > 0) == (partner > 0), keys), keys
        ),
    }


def _alone(interval: Interval, keys: Sequence[str]) -> Interval:
    """Without its ends where all pairs are of one cluster, which tells nothing of others."""
    return interval if len(set(keys)) > 1 else (interval[0], float("nan"), float("nan"))


def headroom(rows: Sequence[PairRow], alpha: float, beta: float) -> Figures:
    """Right answers of the clip alone, and the change by each second view, as shares."""
    if not rows:
        return {"n": 0}
    keys = [r.cluster for r in rows]
    truth = np.array([0 if r.truth == "yes" else 1 for r in rows])
    base = np.array([r.views[CLIP] for r in rows])
    plain = base.argmax(1) == truth
    names = [v for v in rows[0].views if v != CLIP and all(v in r.views for r in rows)]
    gains: Figures = {}
    for name in names:
        counter = np.array([r.views[name] for r in rows])
        hits = contrasted(base, counter, alpha, beta) == truth
        gains[name] = _alone(mean_difference(plain, hits, keys), keys)
    baseline = _alone(clustered_share(plain, keys), keys)
    return {"n": len(rows), "baseline": baseline, "gains": gains}


TITLES = {
    PARTNER: "Partner clip (a replacement)",
    MASK: "The removed object masked",
    "macd": "MACD",
    "random-place": "Random places, same area",
}


def markdown(figures: dict[str, Any]) -> str:
    """The whole page."""
    return as_markdown(_blocks(figures))


def _blocks(figures: dict[str, Any]) -> Iterator[str]:
    yield f"# {as_cell(figures['name'])}: {count(figures['pairs'], 'pair')}"
    yield (
        f"{figures['replaced']} of them show something else in the place of what is gone, and are"
        f" no mere removals. {count(figures['nothing_to_mask'], 'pair')} without an object to mask."
    )
    if figures["left_out"]:
        reasons = "; ".join(f"{n}: {why}" for why, n in figures["left_out"].items())
        yield f"Questions that could not be used: {reasons}."
    if figures["failed"]:
        first = figures["failed"][0]
        yield as_cell(f"{count(len(figures['failed']), 'pair')} failed, such as {first['id']}:"
                      f" {first['error']}")  # fmt: skip
    yield "## What a patch itself tells"
    rows = []
    for name, key in (("all pairs", "meter"), ("mere removals", "meter_of_removals")):
        part = figures[key]
        if part["n"]:
            rows.append(
                [
                    name,
                    part["n"],
                    logits(part["mask"]),
                    logits(part["clip"]),
                    percent(part["answers_as_partner"]),
                ]
            )
    yield table(
        ["", "n", "mask over partner, logits", "clip over partner, logits", "answers as partner %"],
        rows,
    )
    yield (
        "Margins of yes over no. 0 for the mask: it does to the answer what the partner does; above"
        " it, the mask itself says yes."
    )
    part = figures["headroom"]
    yield "## What a true removal is worth"
    if part["n"]:
        yield table(
            ["second view", "n", "right %, change"],
            [["–", part["n"], percent(part["baseline"])],
             *([TITLES.get(n, n), part["n"], change(g)] for n, g in part["gains"].items())],
        )  # fmt: skip
    yield f"At α {figures['alpha']:g} and β {figures['beta']:g}; intervals of 95 % over pairs."
