"""Where a run computes: in this process, or in one that a Space lends a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from core.types import Progress
from macd_ui import zerogpu
from macd_ui.session import Store

if TYPE_CHECKING:
    from core.pipeline import Event, StageCache


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
    from core.pipeline import run

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
