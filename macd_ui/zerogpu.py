"""Computing on a Space's shared GPUs (ZeroGPU). The only module that knows `spaces`.

There a function that is marked for the GPU runs in a forked process that has one for the seconds
that it declared. What it changes stays in that process, its arguments and what it yields are
pickled, and tensors on the GPU cannot come back. So jobs hold plain values, the models are those
that were loaded before the fork, and events bring traces of NumPy arrays, without the frames that
the page has already. Without `spaces` nothing here is used.

    models are loaded      load_models(store), at the start
    what a run declares    seconds_of_run(job), shown before it runs
    a run, a change        run(job, stopped), change(job, stopped)
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.embedded import AUTO, EMBEDDED, EVERYDAY
from macd_studio.core.errors import BackboneNotFound, Cancelled, MacdError
from macd_studio.core.objects.placing import FoundTracks
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.types import Answer, Clip, ModelFrames, Pixels, Progress, ShownView, Trace
from macd_studio.macd_ui.actions import change_events, expected_s
from macd_studio.macd_ui.estimate import Estimator, Work, work_of, work_of_trace

try:
    import spaces  # before torch, whose CUDA it replaces as long as there is no GPU
except ImportError:  # everywhere but in a Space
    spaces = None

if TYPE_CHECKING:
    from macd_studio.core.run.cache import StageCache
    from macd_studio.core.run.state import Event
    from macd_studio.macd_ui.models import Models
    from macd_studio.macd_ui.store import Store

MIN_S, MAX_S = 5, 120
"""Of a declared duration, seconds. The daily quota is checked against what is declared."""
MARGIN = 1.5
"""A run may take that much longer than the runs before it let expect."""
START_S = 4.0
READ_S, TOKEN_S, LOOK_S = 0.05, 0.04, 0.02
"""Until a run was timed: seconds for a frame read by a billion parameters, for a token of an
answer, and for a frame looked at by the detector. They are allowances, not measurements."""
GRADIENT_READS = 2.1
"""An ascent step costs as much as that many readings of the video; see docs/methods.md."""
SMALLEST_BILLIONS = 0.1
PARENT = os.getpid()
MODELS: dict[tuple[str, str], Any] = {}
"""What was loaded before the fork, by kind and name."""
estimator = Estimator()
"""The store's, once it uses this module."""


class GpuError(MacdError):
    """The shared GPU could not be had, or was taken away before the run ended."""


@dataclass(frozen=True, eq=False)
class RunJob:
    """A run in plain values; see `core.run.pipeline.run`. tracks: of a file, placed.

    counterpart: the clip's partner, read.
    """

    clip: Clip
    spec: RunSpec
    tracks: FoundTracks | None = None
    counterpart: Clip | None = None

    def events(
        self, backbone: Callable[[], Any], detector: Callable[[], Any], **how: Any
    ) -> Iterator[Event]:
        """The events of the run. backbone, detector: load the models. how: for the pipeline."""
        from macd_studio.core.run import pipeline

        tracks, partner = self.tracks, self.counterpart
        return pipeline.run(
            lambda: self.clip,
            self.spec.question,
            backbone,
            detector,
            self.spec.options,
            methods=self.spec.methods,
            tracks=None if tracks is None else lambda _: tracks,
            counterpart=None if partner is None else lambda: partner,
            **how,
        )

    @property
    def work(self) -> Work:
        """What its time depends on."""
        return work_of(self.clip, self.spec)


@dataclass(frozen=True, eq=False)
class ChangeJob:
    """A change by hand in plain values: the finished trace, and the viewer's action.

    action: {"do": "edit", "edit": …}, {"do": "redecode", "alpha": …, "beta": …} or
    {"do": "occlusion"}, {"do": "controls"}, {"do": "choices"} or {"do": "evidence", "evidence": …},
    validated already.
    """

    trace: Trace
    action: dict[str, Any]
    backbone: str = EMBEDDED

    @property
    def work(self) -> Work:
        """What its time depends on."""
        return work_of_trace(self.trace)


def active() -> bool:
    """Whether this process serves a Space whose GPUs are shared."""
    wanted = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    return wanted and spaces is not None


def borrows(backbone: str) -> bool:
    """Whether what this backbone computes is done in a process that is lent a GPU.

    Not what another server computes: it would use up a visitor's quota for waiting, and a forked
    process would share the connections of this one.
    """
    return active() and not is_remote(backbone)


def own_device() -> str:
    """Where this process itself looks for objects: it has no GPU where they are lent."""
    return "cpu" if active() else "auto"


def run_events(
    models: Models,
    job: RunJob,
    stopped: Callable[[], bool],
    cache: StageCache | None = None,
) -> Iterator[Event]:
    """The events of a run, see `core.run.pipeline.run`, in this process or on a GPU that is lent.

    cache: of stages that are the same again; a process that is lent a GPU has none.
    """
    if borrows(job.spec.backbone):
        return run(job, stopped)
    loading = Progress()
    return job.events(
        lambda: models.backbone(job.spec.backbone, loading),
        lambda: models.detector(job.spec.detector, loading, own_device()),
        cache=cache,
        cancelled=stopped,
        loading=loading,
    )


def load_models(store: Store) -> None:
    """Loads every offered model, before the first fork; later ones would be loaded in each.

    A backbone that another server holds is asked when it is first used: the Space starts without.
    """
    global estimator
    estimator = store.estimator
    chosen = (name for name in store.settings.backbones if name != AUTO)
    for name in filter(borrows, chosen):
        MODELS["backbone", name] = store.models.backbone(name)
    for name in store.settings.detectors:
        if name == AUTO:
            continue
        MODELS["detector", name] = store.models.detector(name)
    for name in store.settings.segmenters:
        MODELS["segmenter", name] = store.models.segmenter(name)


def allowance(work: Work) -> float:
    """Seconds from frames × steps × methods, as long as no such run was timed.

    The video is read once, once more for the counterfactual and each method, and GRADIENT_READS
    times for each ascent step, by reading alone `Work.reads` times. Each answer may take all its
    tokens, and so may each thought of a model that thinks.
    """
    methods = len(work.methods)
    reads = 2 + methods + (work.reads or GRADIENT_READS) * work.steps
    tokens = (2 + methods) * work.max_tokens * work.width
    if getattr(MODELS.get(("backbone", work.backbone)), "thinks", False):
        tokens += work.thoughts * work.max_thought
    return (
        START_S
        + READ_S * max(SMALLEST_BILLIONS, billions_of(work.backbone)) * reads * work.frames
        + TOKEN_S * tokens
        + LOOK_S * work.dense_frames
    )


def billions_of(backbone: str) -> float:
    """Parameters of a listed model; of another one as many as the largest that is listed."""
    from macd_studio.core.backbones.catalogue import CATALOGUE

    known = {m.hub_id: m.billions for m in CATALOGUE} | {EMBEDDED: 0.005, EVERYDAY: 0.006}
    return known.get(backbone.partition("@")[0], max(known.values()))


def declared(work: Work, expected_s: float | None = None) -> int:
    """Whole seconds to be declared; expected_s: what earlier runs let expect, None if unknown."""
    seconds = allowance(work) if expected_s is None else START_S + MARGIN * expected_s
    return max(MIN_S, min(MAX_S, math.ceil(seconds)))


def seconds_of_run(job: RunJob) -> int:
    """What a run declares; also the callable that `spaces` asks before it takes a GPU."""
    return declared(job.work, estimator.total(job.work))


def seconds_of_change(job: ChangeJob) -> int:
    """What a change by hand declares."""
    return declared(job.work, expected_s(estimator, job.work, job.trace, job.action))


def _in_worker() -> None:
    """A forked child of a process that computed with threads hangs in its first threaded one."""
    if os.getpid() != PARENT:
        import torch

        torch.set_num_threads(1)


def _model(kind: str, name: str) -> Any:
    if (kind, name) not in MODELS:
        raise BackboneNotFound(
            f"the {kind} {name!r} was not loaded when the Space started", "Choose one of the list"
        )
    return MODELS[kind, name]


def _run_in_worker(job: RunJob) -> Iterator[Event | MacdError]:
    """The run's events, or the error that ended it, which would lose its words on the way."""
    _in_worker()
    try:
        yield from _lighter(
            job.events(
                lambda: _model("backbone", job.spec.backbone),
                lambda: _model("detector", job.spec.detector),
            )
        )
    except MacdError as error:
        yield error


def _change_in_worker(job: ChangeJob) -> Iterator[Event | MacdError]:
    """The change's events; the last one holds the new trace."""
    _in_worker()
    from macd_studio.core.whatif.workbench import Workbench, read_edit

    try:
        lm = _model("backbone", job.backbone)
        bench = Workbench(job.trace, lm, lambda name, _: _model("segmenter", name))
        action = job.action
        edit = read_edit(action["edit"], job.trace) if action["do"] == "edit" else None
        yield from _lighter(change_events(bench, action, edit))
    except MacdError as error:
        yield error


def _lighter(events: Iterator[Event]) -> Iterator[Event]:
    """The events with pictures only where they are new; what was sent before has no frames."""
    read: ModelFrames | None = None
    sent: dict[tuple[str, int], Pixels] = {}

    def lighter(place: tuple[str, int], view: ShownView) -> ShownView:
        if view.shown is None:
            return view
        known = sent.get(place) is view.shown
        sent[place] = view.shown
        return replace(view, shown=view.shown[:0]) if known else view

    for event in events:
        trace = event.trace
        if trace is None:
            yield event
            continue
        light = _with_views(trace.answers, lighter)
        new = trace.model_frames is not read
        read = trace.model_frames
        trace = replace(
            trace, frames=trace.frames[:0], model_frames=read if new else None, answers=light
        )
        yield replace(event, trace=trace)


def _heavier(
    events: Iterator[Event | MacdError], frames: Pixels, read: ModelFrames | None
) -> Iterator[Event]:
    """Takes back what `_lighter` left out; raises the error that a worker handed on."""
    sent: dict[tuple[str, int], Pixels] = {}

    def heavier(place: tuple[str, int], view: ShownView) -> ShownView:
        if view.shown is None:
            return view
        sent[place] = view.shown if len(view.shown) else sent[place]
        return replace(view, shown=sent[place])

    for event in events:
        if isinstance(event, MacdError):
            raise event
        trace = event.trace
        if trace is None:
            yield event
            continue
        read = trace.model_frames or read
        whole = _with_views(trace.answers, heavier)
        trace = replace(trace, frames=frames, model_frames=read, answers=whole)
        yield replace(event, trace=trace)


def _with_views(
    answers: Mapping[str, Answer], change: Callable[[tuple[str, int], ShownView], ShownView]
) -> dict[str, Answer]:
    """The answers with each second view changed, by its method and its index."""
    return {
        name: replace(
            answer,
            second_views=tuple(change((name, j), z) for j, z in enumerate(answer.second_views)),
        )
        for name, answer in answers.items()
    }


def _on_gpu(task: Callable[[Any], Iterator[Any]], duration: Callable[[Any], int]) -> Any:
    """The task, run in a forked process with a GPU where there is `spaces`."""
    return task if spaces is None else spaces.GPU(task, duration=duration)


gpu_run = _on_gpu(_run_in_worker, seconds_of_run)
gpu_change = _on_gpu(_change_in_worker, seconds_of_change)


def run(job: RunJob, stopped: Callable[[], bool]) -> Generator[Event, None, None]:
    """The events of a run as `core.run.pipeline.run` gives them; the last one is of stage "done".

    A run that is stopped, that finds its quota used up or whose worker ends early keeps what it
    has. Raises MacdError where there is nothing to keep.
    """
    from macd_studio.core.run.state import Event

    last: Event | None = None
    try:
        for event in _whole(gpu_run(job), job.clip.frames, None, seconds_of_run(job)):
            last = event
            yield event
            if event.stage != "done" and stopped():
                break
        else:
            return
        warnings: tuple[str, ...] = ()
    except GpuError as error:
        if last is None or last.trace is None:
            raise
        warnings = (str(error),)
    if last.trace is None:
        raise Cancelled("stopped before anything was computed", "Run the clip again")
    status = f"stopped: {last.stage}"
    trace = replace(last.trace, status=status, warnings=(*warnings, *last.trace.warnings))
    yield Event("done", 1.0, status, trace)


def change(job: ChangeJob, stopped: Callable[[], bool]) -> Generator[Event, None, None]:
    """The events of a change by hand; the last one holds the new trace.

    Raises MacdError where the change did not come to its end, Cancelled where it was stopped.
    """
    frames, read = job.trace.frames, job.trace.model_frames
    for event in _whole(gpu_change(job), frames, read, seconds_of_change(job)):
        yield event
        if event.stage != "done" and stopped():
            raise Cancelled("the change was stopped", "What was there before is shown")


def _whole(
    stream: Iterator[Event | MacdError], frames: Pixels, read: ModelFrames | None, seconds: int
) -> Iterator[Event]:
    """The worker's events with all frames again. Raises its MacdErrors, and GpuError."""
    try:
        yield from _heavier(stream, frames, read)
    except MacdError:
        raise
    except Exception as error:  # spaces raises gr.Error for the quota, the queue and the worker
        raise lost_gpu(error, seconds) from error


def lost_gpu(error: Exception, seconds: int) -> GpuError:
    """Cause and remedy of what `spaces` says, whose messages may hold markup."""
    message = re.sub(r"<[^>]*>", "", str(getattr(error, "message", "") or error))
    kind = f"{getattr(error, 'title', '')} {message}".lower()
    message = " ".join(message.split())[:200].rstrip(".") or type(error).__name__
    if "quota" in kind or "credits" in kind:
        return GpuError(
            f"your GPU quota does not cover the {seconds} s that this may take ({message})",
            "Log in to Hugging Face, choose fewer frames, steps or methods, or come back later",
        )
    if "queue" in kind or "no gpu" in kind:
        return GpuError(f"no GPU is free now ({message})", "Try again in a minute")
    return GpuError(
        f"the GPU was taken away before the end; {seconds} s were asked for ({message})",
        "Run it again, with fewer frames, steps or methods",
    )
