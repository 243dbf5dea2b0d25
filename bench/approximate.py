"""How often an approximate gradient, or bfloat16, leads to the same levels, on drawn clips.

With bfloat16 both answers are compared, too: whether all of their tokens are the same.

The embedded backbone, true boxes, one question a clip about its first object; seeds 0 … n − 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.types import SEEN, Counterfactual, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.toyworld.clips import drawn_clip
from macd_studio.toyworld.world import frame_times, sample

CLIPS = 200
KINDS, HALF, ANSWERS = ("base", "half"), "bfloat16", ("baseline", "macd")


def measure(clips: int = CLIPS) -> dict[str, float]:
    """Shares with the same level, of objects and of frame groups, and of answers with the same
    tokens; 95 % intervals, with objects and groups of one clip as a cluster.
    """
    lm = load_backbone("toyworld", "cpu")
    coarse = load_backbone("toyworld", "cpu", dtype="bfloat16")
    names = [f"{k}_{w}" for k in (*KINDS, HALF) for w in ("objects", "frames")]
    names += [f"{HALF}_{method}" for method in ANSWERS]
    same: dict[str, list[bool]] = {name: [] for name in names}
    clip: dict[str, list[int]] = {name: [] for name in names}
    for seed in range(clips):
        for name, agrees in _compared(lm, coarse, seed):
            same[name] += agrees
            clip[name] += [seed] * len(agrees)
    out: dict[str, float] = {}
    for name in names:
        share, low, high = clustered_share(np.array(same[name]), clip[name])
        out |= {
            f"agreement_{name}": share,
            f"agreement_{name}_low": low,
            f"agreement_{name}_high": high,
        }
    return {k: round(v, 3) for k, v in out.items()} | {"agreement_clips": clips}


def _compared(lm: LocalLM, coarse: LocalLM, seed: int) -> Iterator[tuple[str, list[bool]]]:
    spec = sample(np.random.default_rng(seed))
    clip = drawn_clip(spec, "bench", "0" * 64)
    at = frame_times(len(clip.frames))
    state = np.full(len(clip.frames), SEEN, np.int8)
    tracks = tuple(
        Track(i, o.label, 0.9, np.nan_to_num(o.boxes(at)).astype(np.float32), state, len(at))
        for i, o in enumerate(spec.objects, 1)
    )
    question = f"Is there a {spec.objects[0].label} in the video?"
    encoded, levels = lm.encode(clip, question), MaskOptions()
    fine = MethodContext(lm, encoded, tracks, RunOptions())
    exact = fine.counterfactual(levels)
    for kind in KINDS:
        options = AscentOptions(gradient=kind)  # type: ignore[arg-type]
        near = MethodContext(lm, encoded, tracks, RunOptions(ascent=options))
        yield from _levels(kind, exact, near.counterfactual(levels))
    rough = MethodContext(coarse, coarse.encode(clip, question), tracks, RunOptions())
    yield from _levels(HALF, exact, rough.counterfactual(levels))
    for name in ANSWERS:
        one, other = (run_method(context, METHODS[name]) for context in (fine, rough))
        same = [t.token for t in one.tokens] == [t.token for t in other.tokens]
        yield f"{HALF}_{name}", [same]


def _levels(
    kind: str, exact: Counterfactual, near: Counterfactual
) -> Iterator[tuple[str, list[bool]]]:
    yield f"{kind}_objects", (near.level == exact.level).tolist()
    yield f"{kind}_frames", (near.frame_level == exact.frame_level).tolist()
