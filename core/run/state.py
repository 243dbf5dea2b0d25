"""A run under way: its growing trace and clock, its events, and a model that loads beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar

from macd_studio.core.errors import Cancelled
from macd_studio.core.run.cache import run_in_thread
from macd_studio.core.system.machine import peak_memory_mb
from macd_studio.core.types import (
    Progress,
    Trace,
)

_Model = TypeVar("_Model")


Stage = Literal["video", "detect", "track", "load", "ascent", "views", "decode", "done"]


STAGES: tuple[Stage, ...] = ("video", "detect", "track", "load", "ascent", "views", "decode")


PATIENCE_S = 0.25
"""How often the progress of a model that loads is reported, seconds."""


STOPPING_S = 5.0
"""How long a stopped run waits for a load to end."""


@dataclass(frozen=True, eq=False)
class Event:
    """Where a run is. fraction: of this stage, [0, 1]; trace: None before the video was read."""

    stage: Stage
    fraction: float
    message: str
    trace: Trace | None = None


@dataclass
class RunState:
    """The growing trace and its clock."""

    trace: Trace
    cancelled: Callable[[], bool]
    warnings: list[str] = field(default_factory=list)
    waiting: Progress = field(default_factory=Progress)
    """Where a model says whom it waits for."""

    def is_over(self) -> bool:
        """Whether nobody needs what is being computed."""
        return self.waiting.stopped or self.cancelled()

    def update_trace(self, **changes: Any) -> Trace:
        """The trace with these fields, and the warnings so far."""
        self.trace = replace(self.trace, warnings=tuple(self.warnings), **changes)
        return self.trace

    def timed(self, stage: str, began: float) -> None:
        """Notes what a stage took since `began`, a time of `time.monotonic`."""
        spent = self.trace.timings_ms | {stage: round(1000 * (time.monotonic() - began), 1)}
        self.update_trace(timings_ms=spent, peak_memory_mb=peak_memory_mb())

    def end_early(self) -> None:
        """Says where the run ended, unless that was said."""
        trace = self.trace
        stage = "decode" if trace.answers or trace.counterfactual is not None else "ascent"
        self.update_trace(
            status=f"stopped: {stage}" if trace.status == "complete" else trace.status
        )

    def raise_if_cancelled(self, stage: str) -> None:
        """Raises Cancelled where the run is to stop; the trace then says in which stage."""
        if self.cancelled():
            self.update_trace(status=f"stopped: {stage}")
            raise Cancelled(f"stopped during {stage}", "What was computed is kept")


def loaded_beside(
    run: RunState, stage: Stage, call: Callable[[], _Model], progress: Progress, message: str
) -> Generator[Event, None, _Model]:
    """The model that a call loads beside this thread, with an event of the stage while it does."""
    progress.begin("")
    loaded = run_in_thread(call)
    try:
        while not wait([loaded], PATIENCE_S).done:
            yield Event(stage, progress.fraction, progress.message or message, run.trace)
            run.raise_if_cancelled(stage)
    except BaseException:  # stopped, or the tab was closed: reading weights disturbs other models
        progress.stopped = True
        wait([loaded], STOPPING_S)
        raise
    return loaded.result()


def with_waiting_told(
    run: RunState, events: Generator[Event, None, None], first: Event
) -> Generator[Event, None, None]:
    """The events of a model that may be waited for long, and what it says meanwhile.

    They are made beside this thread. first: the event before them, whose place the words take.
    """
    last, context = first, copy_context()
    try:
        while True:
            step = run_in_thread(partial(context.run, next, events, None))
            told = ""
            while not wait([step], PATIENCE_S).done:
                if run.waiting.message != told:
                    told = run.waiting.message
                    yield replace(last, message=told or last.message, trace=run.trace)
            event = step.result()
            if event is None:
                return
            last = event
            yield event
    finally:  # stopped, or the tab was closed
        run.waiting.stopped = True
        wait([step], STOPPING_S)
        if step.done():
            events.close()
