"""Whether a map is true of the model: insertion and deletion (Petsiuk et al. 2018, RISE).

The cells of the model's vision tokens are ordered by a map, the strongest evidence first. Deletion
hides more and more of them in the video; insertion shows more and more of them in a video that is
hidden whole. A map that is true of the model makes the token's probability fall early in the one
and rise early in the other. Random orders say what an order that knows nothing achieves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.errors import HALF_OR_DAMAGED, NumericalError
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.kinds import CURVE_STEPS, RANDOM_ORDERS, batch_size, mean_to
from macd_studio.core.measurements import RANDOM_ORDER, Curve, Curves

Cells = NDArray[np.int64]


def measure_curves(case: EvidenceCase, maps: Mapping[str, NDArray[np.float32]]) -> Curves:
    """Curves of maps (T, R, C) of the video by kind, and of `RANDOM_ORDERS` random orders.

    Raises Cancelled between batches, NumericalError for a probability that is not finite.
    """
    generator = np.random.default_rng([case.context.options.seed, CURVE_STEPS])
    groups, rows, columns = case.encoded.token_grid
    cells = groups * rows * columns
    orders = [(kind, order_of(case, values, generator)) for kind, values in maps.items()]
    orders += [(RANDOM_ORDER, generator.permutation(cells)) for _ in range(RANDOM_ORDERS)]
    counts = [round(cells * i / CURVE_STEPS) for i in range(CURVE_STEPS + 1)]
    sets: list[NDArray[np.bool_]] = []
    for _, order in orders:
        first = [np.isin(np.arange(cells), order[:n]) for n in counts]
        sets += [*first, *(~chosen for chosen in first)]
    by_set = _probabilities(case, sets)
    each = len(counts)
    curves = []
    for i, (kind, _) in enumerate(orders):
        deletion = by_set[2 * i * each : (2 * i + 1) * each]
        insertion = by_set[(2 * i + 1) * each : (2 * i + 2) * each]
        curves.append(Curve(kind, tuple(deletion), tuple(insertion)))
    return Curves(tuple(n / cells for n in counts), tuple(curves))


def order_of(
    case: EvidenceCase, values: NDArray[np.float32], generator: np.random.Generator
) -> Cells:
    """Cells (G·R·C) of the vision tokens, the strongest evidence first; equal ones at random."""
    by_frame = mean_to(values, case.tokens_of_frame)
    groups = [by_frame[list(frames)].mean(0).ravel() for frames in case.encoded.groups]
    strength = np.concatenate(groups)
    return np.lexsort((generator.permutation(len(strength)), -strength))


def _probabilities(case: EvidenceCase, sets: Sequence[NDArray[np.bool_]]) -> list[float]:
    """The token's probability with each set of cells hidden; equal sets are read once."""
    known: dict[bytes, float] = {}
    new = list({s.tobytes(): s for s in sets}.values())
    most = batch_size(case.encoded.vision_tokens)
    for at in range(0, len(new), most):
        case.raise_if_stopped()
        batch = new[at : at + most]
        for hidden, probability in zip(batch, _read(case, batch), strict=True):
            known[hidden.tobytes()] = probability
    return [known[s.tobytes()] for s in sets]


@torch.no_grad()
def _read(case: EvidenceCase, sets: Sequence[NDArray[np.bool_]]) -> Iterator[float]:
    videos = torch.stack([case.masks.composite(_mask(case, hidden)) for hidden in sets])
    hidden = case.lm.answer_hidden(case.encoded, videos, case.prefix, reuse=case.state("video"))
    logits = case.lm.read_out(hidden).double()
    token, against = case.target.token, case.target.against
    if against is not None:  # of these two alone
        logits = logits[:, [token, against]]
        token = 0
    found = to_host(torch.softmax(logits, -1)[:, token])
    if not np.isfinite(found).all():
        raise NumericalError("the token's probability is not finite", HALF_OR_DAMAGED)
    yield from found.tolist()


def _mask(case: EvidenceCase, hidden: NDArray[np.bool_]) -> Tensor:
    """(T, H, W), 1 where a cell is hidden."""
    groups, rows, columns = case.encoded.token_grid
    height, width = case.encoded.frames.size
    down = np.arange(height) * rows // height
    across = np.arange(width) * columns // width
    by_group = hidden.reshape(groups, rows, columns)[:, down][:, :, across]
    mask = np.zeros((len(case.encoded.video), height, width), np.float32)
    for group, frames in enumerate(case.encoded.groups):
        mask[list(frames)] = by_group[group]
    return torch.as_tensor(mask, device=case.masks.fill.device).to(case.masks.fill.dtype)
