"""Kinds of evidence maps, each a function that measures one view and a row of `KINDS`; and the
arithmetic of maps: pooling that keeps sums, shares by region, agreement.

Importing this module imports no torch: what needs it imports it when it is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.search import EXHAUSTED
from macd_studio.core.measurements import VIEWS
from macd_studio.core.statistics import spearman
from macd_studio.core.validation import check_named

if TYPE_CHECKING:
    from torch import Tensor

    from macd_studio.core.evidence.case import EvidenceCase
    from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions

BATCH, BATCH_TOKENS = 8, 2048
"""Views that are read together: at least so many, and more while they hold few vision tokens."""
CURVE_STEPS, RANDOM_ORDERS = 8, 10
"""Steps of an insertion or deletion curve, and random orders that it is compared with."""
LENS, KNOCK_OUT = 0.2, 1.0
"""Readings that the lens takes of one view, and an answer of a few words of the video."""


@dataclass(frozen=True, eq=False)
class Measured:
    """A kind's map (T, R, C), and what it is made of where that is fewer than its cells.

    parts: (P,) amounts that were spread over the map, one an object or a patch; the map itself
    where it is None. random: the same for a head of random weights; None if it was not asked for.
    """

    values: NDArray[np.float64]
    parts: NDArray[np.float64] | None = None
    random: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of map."""

    title: str
    """Its name in tables and on pages."""
    measure: Callable[[EvidenceCase, str], Measured]
    """Gives the map of a case under the view of that name."""
    needs: str = ""
    """What the model must be able to do, of `backbones.base.CAPABILITIES`."""
    once: float = 0.0
    per_object: float = 0.0
    per_patch: float = 0.0
    """`once`, `per_object` and `per_patch`: its cost, in readings of one view; what shares its
    first frames and is read in a batch takes 0.6."""


def gradient(case: EvidenceCase, view: str) -> Measured:
    """Input × gradient of the target's number, in logits, by one backward pass.

    Pixels are normalised, so 0 is the mean colour: to first order, a cell's value is what the
    number loses when the cell becomes that colour (Shrikumar et al. 2016, arXiv 1605.01713). The
    gradient of the pixels is taken in float32 at least.
    """
    import torch

    from macd_studio.core.backbones.host import to_host

    video = case.views[view].detach().clone().requires_grad_()
    hidden = case.lm.answer_hidden(
        case.encoded, video, case.prefix, low_memory=case.options.low_memory
    )

    def by_cell(number: Tensor, keep: bool) -> NDArray[np.float64]:
        (slope,) = torch.autograd.grad(number, video, retain_graph=keep)
        return sum_to(to_host((video.detach() * slope).sum(1)), case.grid)

    sanity = case.options.sanity
    values = by_cell(case.read(hidden)[0], sanity)
    return Measured(values, random=by_cell(case.read_random(hidden)[0], False) if sanity else None)


def attention(case: EvidenceCase, view: str) -> Measured:
    """Attention of the row that predicts the token to each vision token, in shares of the row.

    The mean over heads and layers; together the values are what the row gives to the video. It does
    not ask which token is predicted, so its map is the same for every candidate, and for a head of
    random weights.
    """
    import torch

    from macd_studio.core.backbones.local import Watch

    state, token = case.before_last(view)
    with case.lm.watching(state, Watch(attention=case.layers)) as seen:
        case.lm.step(state, [token])
    rows = torch.stack([seen.attention[layer][0] for layer in case.layers])
    values = case.spread(rows.double().mean(0))
    return Measured(values, random=values if case.options.sanity else None)


Piece = tuple["Tensor", NDArray[np.float64]]
"""What is hidden: a mask (T, H, W) in [0, 1], and the cells (T, R, C) that it covers."""


def occlusion(case: EvidenceCase, view: str) -> Measured:
    """What the target's number loses when each object alone is hidden, in logits over the object.

    Objects are read as one batch, in which frames that no mask touches are shared. Raises
    OptionError where no object was tracked.
    """
    if not len(case.masks.objects):
        raise OptionError(
            "there is no object to hide", "Choose occlusion-grid, or add an object and try again"
        )
    pieces = zip(case.masks.per_object_mask, case.coverage, strict=True)
    return _spread_losses(case, view, _batched(case, pieces))


def occlusion_grid(case: EvidenceCase, view: str) -> Measured:
    """What the number loses when each patch of each frame group alone is hidden, in logits.

    It needs no object: the model's own frames are cut into equal patches, which are read in
    batches.
    """
    groups = (_patches(case, frames) for frames in case.encoded.groups)
    return _spread_losses(case, view, (batch for g in groups for batch in _batched(case, g)))


def _patches(case: EvidenceCase, frames: Sequence[int]) -> Iterator[Piece]:
    """Those of one frame group."""
    rows, columns = case.options.patch_grid()
    height, width = case.encoded.frames.size
    down, across = (np.arange(n + 1) * side // n for n, side in ((rows, height), (columns, width)))
    for y0, y1 in pairwise(down):
        for x0, x1 in pairwise(across):
            mask = case.masks.fill.new_zeros((len(case.encoded.video), height, width))
            mask[list(frames), y0:y1, x0:x1] = 1
            patch = np.zeros((height, width), np.float32)
            patch[y0:y1, x0:x1] = 1
            region = np.zeros((len(mask), *case.grid))
            region[list(frames)] = mean_to(patch, case.grid)
            yield mask, region


def batch_size(vision_tokens: int) -> int:
    """How many views of so many vision tokens are read together."""
    return max(BATCH, BATCH_TOKENS // max(1, vision_tokens))


def _batched(case: EvidenceCase, pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces in lists of what is read together; made when they are needed."""
    most = batch_size(case.encoded.vision_tokens)
    waiting = iter(pieces)
    while batch := list(islice(waiting, most)):
        yield batch


def _spread_losses(case: EvidenceCase, view: str, batches: Iterable[list[Piece]]) -> Measured:
    """What each piece loses, over its cells; only a batch of views is held at a time.

    Views of one batch share what they have in common from the start, so a batch is best of pieces
    that begin at the same frame.
    """
    import torch

    masks = case.over(view)
    before, before_random = case.unhidden(view)
    values = np.zeros((len(case.encoded.video), *case.grid))
    lost: list[float] = []
    lost_random: list[float] = []
    for batch in batches:
        case.raise_if_stopped()
        with torch.no_grad():
            videos = torch.stack([masks.composite(mask) for mask, _ in batch])
        real, random = case.scores(view, videos)
        for (_, region), number in zip(batch, before - real, strict=True):
            if region.any():
                values += float(number) * region / region.sum()
        lost += (before - real).tolist()
        lost_random += (before_random - random).tolist()
    return Measured(
        values,
        parts=np.array(lost),
        random=np.array(lost_random) if case.options.sanity else None,
    )


KINDS = {
    "gradient": Kind("Input × gradient", gradient, "gradient", once=4.5),
    "attention": Kind("Attention", attention, "attention", once=LENS),
    "occlusion": Kind("Occlusion by object", occlusion, per_object=0.6),
    "occlusion-grid": Kind("Occlusion by patch", occlusion_grid, per_patch=0.6),
}


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises OptionError for an unknown name."""
    check_named(name, sorted(KINDS), "kind of evidence")
    return KINDS[name]


def readings(kind: str, tracks: int, groups: int, patches: int) -> float:
    """What one kind of map takes, in readings of one view, for all views. patches: a frame group.

    >>> readings("occlusion", 3, 4, 16), readings("occlusion-grid", 3, 4, 16)
    (3.6, 76.8)
    """
    k = find_kind(kind)
    return round(len(VIEWS) * (k.once + k.per_object * tracks + k.per_patch * groups * patches), 3)


def curve_readings(kinds: int) -> float:
    """What insertion and deletion by so many kinds of maps, and random orders, take."""
    return round(1.2 * (CURVE_STEPS - 1) * (kinds + RANDOM_ORDERS), 3)


def readings_of(options: EvidenceOptions, tracks: int, groups: int) -> float:
    """What everything takes that the options ask for, in readings of one view."""
    rows, columns = options.patch_grid()
    maps = sum(readings(kind, tracks, groups, rows * columns) for kind in options.chosen_kinds)
    blocked = len(options.knock_out) + len(options.boxes)
    maps += curve_readings(len(options.chosen_kinds)) * options.curves
    return maps + KNOCK_OUT * (blocked + 1 if blocked else 0) + LENS * len(VIEWS) * options.lens


def views_of(options: EnoughOptions, tracks: int, groups: int) -> int:
    """Views that are read at most to find what is enough, two of which are all and nothing."""
    if not options.search:
        return 3
    regions = tracks + len(options.boxes) + 1
    most = max(1, min(groups, EXHAUSTED // regions))
    pieces = regions * (min(options.spans, groups) or most)
    return min(options.budget, 1 << pieces)


Array = NDArray[Any]
CELLS = 24
"""About how many cells the longer side of a map has; always a multiple of the vision tokens."""


def grid_of(token_rows: int, token_columns: int) -> tuple[int, int]:
    """Rows and columns of a map over frames of so many vision tokens.

    >>> grid_of(3, 3), grid_of(10, 6), grid_of(40, 30)
    ((24, 24), (20, 12), (40, 30))
    """
    times = max(1, round(CELLS / max(token_rows, token_columns)))
    return times * token_rows, times * token_columns


def overlaps(fine: int, coarse: int) -> NDArray[np.float64]:
    """(coarse, fine) the share of each of `fine` equal pieces of a side in each of `coarse` ones.

    >>> overlaps(3, 2).round(2).tolist()
    [[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]
    """
    ends = np.arange(fine + 1) / fine
    edges = np.arange(coarse + 1) / coarse
    low = np.maximum(ends[None, :-1], edges[:-1, None])
    high = np.minimum(ends[None, 1:], edges[1:, None])
    return np.asarray((high - low).clip(0) * fine, np.float64)


def sum_to(values: Array, size: tuple[int, int]) -> NDArray[np.float64]:
    """(…, H, W) → (…, R, C): what lies in a pixel is shared by the cells it lies in; sums stay."""
    rows, columns = overlaps(values.shape[-2], size[0]), overlaps(values.shape[-1], size[1])
    return np.asarray(rows @ values.astype(np.float64) @ columns.T)


def mean_to(values: Array, size: tuple[int, int]) -> NDArray[np.float64]:
    """(…, H, W) → (…, R, C): the mean over each cell's area."""
    cells = size[0] * size[1] / (values.shape[-2] * values.shape[-1])
    return np.asarray(sum_to(values, size) * cells)


def shares(values: Array, coverage: Array) -> tuple[tuple[float, ...], float]:
    """Of the magnitude of a map (T, R, C), what lies on each region (K, T, R, C), and on none.

    Regions overlap, so that shares may sum to more than 1. All are 0 for a map of zeros.
    """
    size = np.abs(np.asarray(values, np.float64))
    total = float(size.sum())
    if not total > 0:
        return (0.0,) * len(coverage), 0.0
    each = tuple(float((size * region).sum() / total) for region in coverage)
    free = 1 - coverage.max(0) if len(coverage) else np.ones_like(size)
    return each, float((size * free).sum() / total)


def group_shares(values: Array, groups: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Of the magnitude of a map (T, R, C), what lies in each frame group."""
    by_frame = np.abs(np.asarray(values, np.float64)).sum((1, 2))
    total = float(by_frame.sum())
    return tuple(float(by_frame[list(g)].sum() / total) if total > 0 else 0.0 for g in groups)


def rank_correlation(a: Array, b: Array) -> float | None:
    """Spearman's correlation of two maps' magnitudes; None where one is flat.

    Magnitudes, because attention has no sign. Over the cells where neither is exactly 0: where no
    object is, a map by object says nothing.
    """
    first, second = np.abs(a).ravel(), np.abs(b).ravel()
    both = (first > 0) & (second > 0)
    found = spearman(first[both], second[both])
    return None if math.isnan(found) else found
