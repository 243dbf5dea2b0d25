"""How often an approximate gradient leads to the levels of the exact one, on drawn clips.

The embedded backbone, true boxes, one question a clip about its first object; seeds 0 … n − 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.run.context import MethodContext
from macd_studio.core.types import SEEN, Track
from macd_studio.evals.statistics.stats import bootstrap_ratio
from macd_studio.toyworld.clips import drawn_clip
from macd_studio.toyworld.world import frame_times, sample

CLIPS = 200
KINDS = ("base", "half")


def measure(clips: int = CLIPS) -> dict[str, float]:
    """Shares of objects and of frame groups with the same level; 95 % intervals over clips."""
    lm = load_backbone("toyworld", "cpu")
    names = [f"{k}_{w}" for k in KINDS for w in ("objects", "frames")]
    same: dict[str, list[int]] = {name: [] for name in names}
    whole: dict[str, list[int]] = {name: [] for name in names}
    for seed in range(clips):
        for name, agrees in _compared(lm, seed):
            same[name].append(sum(agrees))
            whole[name].append(len(agrees))
    out: dict[str, float] = {}
    for name in names:
        counts = np.array(same[name]), np.array(whole[name])
        share, low, high = bootstrap_ratio(*counts, range(clips))
        out |= {
            f"agreement_{name}": share,
            f"agreement_{name}_low": low,
            f"agreement_{name}_high": high,
        }
    return {k: round(v, 3) for k, v in out.items()} | {"agreement_clips": clips}


def _compared(lm: LocalLM, seed: int) -> Iterator[tuple[str, list[bool]]]:
    spec = sample(np.random.default_rng(seed))
    clip = drawn_clip(spec, "bench", "0" * 64)
    at = frame_times(len(clip.frames))
    state = np.full(len(clip.frames), SEEN, np.int8)
    tracks = tuple(
        Track(i, o.label, 0.9, np.nan_to_num(o.boxes(at)).astype(np.float32), state, len(at))
        for i, o in enumerate(spec.objects, 1)
    )
    encoded = lm.encode(clip, f"Is there a {spec.objects[0].label} in the video?")
    exact = MethodContext(lm, encoded, tracks, RunOptions()).counterfactual(MaskOptions())
    for kind in KINDS:
        options = AscentOptions(gradient=kind)  # type: ignore[arg-type]
        near = MethodContext(lm, encoded, tracks, RunOptions(ascent=options)).counterfactual(
            MaskOptions()
        )
        yield f"{kind}_objects", (near.level == exact.level).tolist()
        yield f"{kind}_frames", (near.frame_level == exact.frame_level).tolist()
