"""What a trace holds before a model was asked, and what it keeps of the model that is."""

from __future__ import annotations

from dataclasses import asdict, fields

import torch

from macd_studio.core.backbones.base import Reader
from macd_studio.core.options import RunOptions
from macd_studio.core.records import AdapterRecord, BackboneRecord, ClipRecord
from macd_studio.core.system.machine import versions
from macd_studio.core.types import Clip, Trace


def opening_trace(clip: Clip, question: str, options: RunOptions) -> Trace:
    """The trace before a model was asked."""
    return Trace(
        question=question,
        frames=clip.frames,
        times=clip.times,
        groups=(),
        clip=ClipRecord(
            name=clip.name,
            sha256=clip.sha256,
            duration=clip.duration,
            width=clip.size[0],
            height=clip.size[1],
            title=clip.title,
            numbers=() if clip.numbers is None else tuple(clip.numbers.tolist()),
            fps=clip.fps,
        ),
        options=options,
        mask=options.mask,
        seed=options.seed,
        versions=versions(),
    )


def backbone_record(
    model: Reader, prompt: str, mean: tuple[float, ...], picture: bool
) -> BackboneRecord:
    """What a trace keeps of a backbone; how its weights are packed only where they are."""
    on_gpu = model.info.device == "cuda" and torch.cuda.is_available()
    gpu = torch.cuda.get_device_name() if on_gpu else ""
    info = {one.name: getattr(model.info, one.name) for one in fields(model.info)}
    values = info | {"lacks": model.lacks(picture), "device_name": gpu}
    if model.info.adapter is not None:
        values["adapter"] = AdapterRecord(**asdict(model.info.adapter))
    optional = (
        "quantised", "held_bytes", "offloaded", "lacks", "device_name", "weights_hash", "adapter",
        "server", "log_p_error", "video_log_p_error",
    )  # fmt: skip
    absent = frozenset(n for n in optional if not values[n])
    return BackboneRecord(**values, prompt=prompt, pixel_mean=mean, absent=absent)
