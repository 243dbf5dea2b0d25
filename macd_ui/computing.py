"""Where a run computes: in this process, or in one that a Space lends a GPU; and a first try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from macd_studio.core.types import Clip, Progress
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.session import Store

if TYPE_CHECKING:
    from macd_studio.core.backbones import VideoLM
    from macd_studio.core.cache import StageCache
    from macd_studio.core.objects.detect import Detector
    from macd_studio.core.pipeline import Event


def run_events(
    store: Store,
    job: zerogpu.RunJob,
    stopped: Callable[[], bool],
    cache: StageCache | None = None,
) -> Iterator[Event]:
    """The events of a run, see `core.pipeline.run`; the models are the store's.

    cache: of stages that are the same again; a process that is lent a GPU has none.
    """
    if zerogpu.active():
        return zerogpu.run(job, stopped)
    from macd_studio.core.pipeline import run

    loading = Progress()
    return run(
        lambda: job.clip,
        job.question,
        lambda: store.backbone(job.backbone, loading),
        lambda: store.detector(job.detector, loading),
        job.options,
        methods=job.methods,
        cache=cache,
        cancelled=stopped,
        loading=loading,
        answer_outside=job.answer_outside,
    )


def try_out(lm: VideoLM, detector: Detector) -> None:
    """One pass of every kind that a run makes, on blank frames."""
    import torch

    from macd_studio.core.options import DetectOptions

    frames = np.zeros((8, 96, 96, 3), np.uint8)
    for count in (1, 2, 4, 8):  # a detector prepares itself for every size of a batch
        list(detector.detect(frames[:count], DetectOptions()))
    times = np.arange(8, dtype=np.float64)
    clip = Clip(frames, times, frames[:0], times[:0], "", "", 8.0, (96, 96))
    encoded = lm.encode(clip, "What is in the video?")
    video = encoded.video.clone().requires_grad_()
    torch.autograd.grad(lm.query_logits(encoded, video).sum(), video)
    state = lm.prefill(encoded, encoded.video)
    lm.step(lm.join([state, state]), [next(iter(lm.end_tokens))] * 2)
