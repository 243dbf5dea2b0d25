"""First-token logits of a question's options under the video and under each second view.

From these every α, every β and every constant can be tried without reading the clip again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.answering import decoding_views
from macd_studio.core.backbones.base import VideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.context import MethodContext
from macd_studio.core.macd import no_masks
from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions
from macd_studio.core.types import Clip, Track
from macd_studio.core.views import SecondView, masked_view
from macd_studio.evals.answer import first_tokens, item_seed
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.prompting import GatheringLM

ORACLE = "oracle"


def oracle_view(context: MethodContext, about: str) -> SecondView:
    """The asked class fully masked and nothing else, whatever other objects overlap it.

    It bounds what any rule for choosing objects could gain. It is not a method of `core`, because
    outside an evaluation nobody knows the truth.

    about: the class of `Item.about`; "" hides nothing, and the view is the video itself.
    """
    mask = replace(context.options.mask, frame_mask="off")
    asked = tuple(t for t in context.tracks if t.label == about)
    return masked_view(context, replace(no_masks(), level=np.ones(len(asked))), mask, asked)


VIDEO = "baseline"
Array = NDArray[np.float64]


@dataclass(frozen=True)
class OptionLogits:
    """One item: view → the logits of its options, in the order of `Item.options`.

    key: of everything they depend on but the views. views: "baseline" is the video itself.
    """

    key: str
    item: str
    views: dict[str, list[float]]


def read_options(
    lm: VideoLM,
    clip: Clip,
    tracks: tuple[Track, ...],
    item: Item,
    methods: Sequence[str],
    options: RunOptions,
) -> dict[str, list[float]]:
    """View → logits of the item's options, for the video and the second view of each method.

    methods: names of `core.methods` with a second view, or "oracle".
    """
    gathering: Any = GatheringLM(lm)
    own = replace(options, seed=item_seed(item.id))
    context = MethodContext(gathering, lm.encode(clip, item.question), tracks, own)
    built = []
    for name in methods:
        oracle = name == ORACLE
        method = find_method("mask-all" if oracle else name)
        second = oracle_view(context, item.about) if oracle else None
        built.append(decoding_views(context, method, second))
    *views, video = gathering.resolve([*built, decoding_views(context, find_method(VIDEO))])
    ids = [first_tokens(lm, option) for option in item.options]

    def of_options(state: Any) -> list[float]:
        logits = to_host(state.logits[0].float())
        return [float(max(logits[i] for i in tokens)) for tokens in ids]

    video_logits = {VIDEO: of_options(video.base)}
    return video_logits | {m: of_options(v.others[0]) for m, v in zip(methods, views, strict=True)}


def stack(rows: Sequence[OptionLogits], view: str) -> Array:
    """(N, most options) logits of a view; -inf where an item has fewer options."""
    most = max((len(r.views[VIDEO]) for r in rows), default=0)
    table = np.full((len(rows), most), -np.inf)
    for i, row in enumerate(rows):
        table[i, : len(row.views[view])] = row.views[view]
    return table


def contrasted(base: Array, counter: Array, alpha: float, beta: float) -> NDArray[np.int64]:
    """Index (N,) of the chosen option: (1 + α)z − αz′ where p ≥ β·max p; base, counter: (N, K)."""
    with np.errstate(invalid="ignore"):
        scores = (1 + alpha) * base - alpha * counter
    floor = base.max(1, keepdims=True) + (np.log(beta) if beta > 0 else -np.inf)
    return np.asarray(np.where((base >= floor) & np.isfinite(base), scores, -np.inf).argmax(1))


def append_logits(path: Path, row: OptionLogits) -> None:
    """Adds one line, flushed; a line torn by a kill is dropped by `stored_logits`."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def stored_logits(path: Path) -> Iterator[OptionLogits]:
    """Every whole row of a file, none where there is no file."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield OptionLogits(**json.loads(line))
        except (ValueError, TypeError):
            continue
