"""The whole chain as one generator: each event carries the trace as far as it is.

Stop asking for events, or set `cancelled`, and the run ends; what exists is kept.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from core.backbones.base import DecodeState, Encoded, VideoLM
from core.backbones.host import to_float
from core.decoding.loop import answer, decode
from core.environment import peak_memory_mb, versions
from core.errors import Cancelled, OutOfMemory
from core.masking.ascent import finalize_ascent
from core.masking.objective import loss_of
from core.masking.random_masks import placement_warnings
from core.media.video import read_clip
from core.metering import Cost, Meter
from core.methods import Method, find_methods
from core.methods.base import DecodingViews, MethodContext
from core.methods.controls import baseline
from core.methods.masked import macd
from core.methods.run import answer_of, run_method, shown
from core.objects.detect import Detector, only
from core.objects.track import track
from core.options import RunOptions, VideoOptions
from core.question import clean_question, nouns
from core.types import (
    Answer,
    AscentStep,
    Clip,
    Counterfactual,
    Detections,
    Progress,
    TokenStep,
    Trace,
    Track,
)
from core.words import count

Stage = Literal["video", "detect", "track", "load", "ascent", "views", "decode", "done"]
STAGES: tuple[Stage, ...] = ("video", "detect", "track", "load", "ascent", "views", "decode")

PATIENCE_S = 0.25
"""How often somebody who waits for a model hears how far it is."""

STOPPING_S = 5.0
"""How long a stopped run waits for a load to end."""

FIRST_BOXES_S, BOXES_S = 0.1, 0.4
"""How often the boxes found so far are looked at until there is one, and shown from then on."""

NO_TRACKS = "no objects were found: only the frame mask is used"
NOTHING = "no objects were found and the frame mask is off: MACD has nothing to hide"
SAME_VIEWS = "every mask ended at level 0: both views are the same, so contrast changes nothing"
APPROXIMATE = {
    "base": "approximate gradient: taken on the plain video (r = 0), not at the strengths' start",
    "half": "approximate gradient: taken on frames of half the size",
}
ALL_MASKED = "the masks hide nearly the whole video: the counterfactual holds no evidence at all"


@dataclass(frozen=True, eq=False)
class Event:
    """Where a run is. fraction: of this stage, [0, 1]; trace: None before the video was read."""

    stage: Stage
    fraction: float
    message: str
    trace: Trace | None = None


class StageCache:
    """Remembers the results of the slow, question-free stages for the last few clips."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """The result kept under a key, or None."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Keeps a result and forgets the one not used for longest."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)


@dataclass
class _Run:
    """The growing trace and its clock."""

    trace: Trace
    cancelled: Callable[[], bool]
    warnings: list[str] = field(default_factory=list)

    def update_trace(self, **changes: Any) -> Trace:
        self.trace = replace(self.trace, warnings=tuple(self.warnings), **changes)
        return self.trace

    def timed(self, stage: str, began: float) -> None:
        spent = self.trace.timings_ms | {stage: round(1000 * (time.monotonic() - began), 1)}
        self.update_trace(timings_ms=spent, peak_memory_mb=peak_memory_mb())

    def raise_if_cancelled(self, stage: str) -> None:
        if self.cancelled():
            self.update_trace(status=f"stopped: {stage}")
            raise Cancelled(f"stopped during {stage}", "What was computed is kept")


def run(
    video: str | Path | Callable[[], Clip],
    question: str,
    lm: Callable[[], VideoLM],
    detector: Callable[[], Detector],
    options: RunOptions | None = None,
    *,
    methods: Sequence[str] = (),
    cache: StageCache | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    loading: Progress | None = None,
) -> Iterator[Event]:
    """From a file and a question to a Trace, event by event; the last one is of stage "done".

    video: a file, or a call that gives its clip, for whoever began reading it already.
    lm, detector: called when first needed, so that loading can go on beside decoding.
    methods: further decoders by name; they share what can be shared with MACD and the baseline.
    loading: where `lm` tells how far it is; told on as events of the stage "load".
    cancelled: asked between small pieces of work; when true, the last event holds the partial
    trace with status "stopped: STAGE". Raises a MacdError for everything that can be explained.
    """
    options = options or RunOptions()
    question = clean_question(question)
    further = [m for m in find_methods(methods) if m.name not in ("baseline", "macd")]
    cache = cache or StageCache()
    yield Event("video", 0.0, "Reading the video")
    began = time.monotonic()
    clip = video() if callable(video) else _read(video, options.video, cache)
    state = _Run(_opening(clip, question, options), cancelled, list(clip.notes))
    state.timed("video", began)
    try:
        tracks = yield from _tracks(state, clip, detector, options, cache)
        model, encoded = yield from _load(state, clip, question, lm, loading or Progress())
        meter = Meter(model.info.device, memory=True)
        case = MethodContext(model, encoded, tracks, options, meter)
        yield from _analyse(state, case)
        yield from _compare(state, case, further)
    except Cancelled:
        pass
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            "the device ran out of memory",
            "Choose less memory for more time, fewer frames, a smaller backbone, or the CPU",
        ) from error
    yield Event("done", 1.0, state.trace.status, state.trace)


@dataclass(frozen=True, eq=False)
class _Views:
    """What an answer is decoded from, with what that took.

    cost: of the second view alone; needs: shared pieces; paid_s: seconds of those that another
    answer pays for.
    """

    prepared: DecodingViews
    cost: Cost
    needs: frozenset[Hashable]
    paid_s: float = 0.0


def _analyse(run: _Run, case: MethodContext) -> Iterator[Event]:
    plain = yield from _read_base(run, case)
    last = yield from _ascend(run, case)
    other = yield from _read_counterfactual(run, case, last)
    yield from _decode(run, case, plain, other)


def _read_base(run: _Run, case: MethodContext) -> Generator[Event, None, _Views]:
    began = time.monotonic()
    yield Event("ascent", 0.0, "Reading the video as it is", run.trace)
    kind = case.options.ascent.gradient
    if kind in APPROXIMATE:
        run.warnings.append(APPROXIMATE[kind])
    case.start_method()
    prepared = baseline(case)
    run.timed("prefill", began)
    run.raise_if_cancelled("ascent")
    return _Views(prepared, Cost(), case.needs())


def _compare(run: _Run, case: MethodContext, methods: list[Method]) -> Iterator[Event]:
    began = time.monotonic()
    for i, method in enumerate(methods):
        run.raise_if_cancelled("decode")
        yield Event("decode", i / len(methods), method.title, run.trace)
        found = run_method(case, method)
        if "random" in found.view:
            run.warnings += placement_warnings(found.view["random"])
        run.update_trace(answers=run.trace.answers | {method.name: found}, shared=dict(case.shared))
    if methods:
        run.timed("compare", began)


def _read(video: str | Path, options: VideoOptions, cache: StageCache) -> Clip:
    path = Path(video)
    stat = path.stat() if path.is_file() else None
    key = ("clip", str(video), options, stat and (stat.st_mtime_ns, stat.st_size))
    clip: Clip | None = cache.get(key)
    if clip is None:
        clip = read_clip(video, options)
        cache.put(key, clip)
    return clip


def _tracks(
    run: _Run,
    clip: Clip,
    detector: Callable[[], Detector],
    options: RunOptions,
    cache: StageCache,
) -> Generator[Event, None, tuple[Track, ...]]:
    yield Event("detect", 0.0, "Looking for objects", run.trace)
    began = time.monotonic()
    finder = detector()
    chosen = options.detect
    if finder.open_vocabulary and not chosen.prompt:
        chosen = replace(chosen, prompt=". ".join(nouns(run.trace.question)))
    single = len(clip.dense_frames) == 0
    frames, times = (clip.frames, clip.times) if single else (clip.dense_frames, clip.dense_times)
    size = finder.input_size(frames, chosen)
    length = float(times[-1] - times[0]) if len(times) > 1 else 0.0
    looked_at = {
        "image_size": size,
        "frames": len(frames),
        "fps": round((len(times) - 1) / length, 2) if length else None,
    }
    run.update_trace(detector={"name": finder.name} | asdict(chosen) | looked_at)
    run.timed("load detector", began)
    began = time.monotonic()
    key = (clip.sha256, options.video, chosen, options.track, finder.name)
    known: tuple[tuple[Track, ...], tuple[str, ...]] | None = cache.get(key)
    if known is None:
        aspect = clip.size[0] / clip.size[1]
        seen: list[Detections] = []
        early: tuple[Track, ...] = ()
        told = time.monotonic()
        for found in finder.detect(frames, chosen):
            seen.append(only(found, chosen.classes))
            run.raise_if_cancelled("detect")
            if time.monotonic() - told > (BOXES_S if early else FIRST_BOXES_S):
                done = f"{len(seen)} of {count(len(frames), 'frame')}"
                early = _provisional(seen, times, clip.times, options, aspect)
                trace = run.update_trace(tracks=early)
                yield Event("detect", len(seen) / len(frames), done, trace)
                told = time.monotonic()
        run.timed("detect", began)
        began = time.monotonic()
        tracks, notes = track(seen, times, clip.times, options.track, options.detect, aspect)
        if any(len(d.boxes) >= options.detect.max_per_frame for d in seen):
            most = count(options.detect.max_per_frame, "detection")
            cap = f"a frame held {most} or more; more were cut"
            notes = (*notes, cap)
        known = tracks, notes
        cache.put(key, known)
    tracks, notes = known
    run.warnings += notes
    if not tracks:
        run.warnings.append(NOTHING if options.mask.frame_mask == "off" else NO_TRACKS)
    run.timed("track", began)
    yield Event("track", 1.0, count(len(tracks), "object"), run.update_trace(tracks=tracks))
    return tracks


def _provisional(
    seen: Sequence[Detections],
    times: NDArray[np.float64],
    sampled: NDArray[np.float64],
    options: RunOptions,
    aspect: float,
) -> tuple[Track, ...]:
    """Tracks so far, to be shown while the rest of the clip is looked at."""
    tracks, _ = track(seen, times[: len(seen)], sampled, options.track, options.detect, aspect)
    return tracks


def _load(
    run: _Run, clip: Clip, question: str, lm: Callable[[], VideoLM], progress: Progress
) -> Generator[Event, None, tuple[VideoLM, Encoded]]:
    yield Event("load", 0.0, "Loading the backbone", run.trace)
    run.raise_if_cancelled("load")
    began = time.monotonic()
    loaded = run_in_thread(lm)
    try:
        while not wait([loaded], PATIENCE_S).done:
            told = progress.message or "Loading the backbone"
            yield Event("load", progress.fraction, told, run.trace)
            run.raise_if_cancelled("load")
    except BaseException:  # stopped, or the tab was closed: reading weights disturbs other models
        progress.stopped = True
        wait([loaded], STOPPING_S)
        raise
    model = loaded.result()
    run.timed("load", began)
    began = time.monotonic()
    encoded = model.encode(clip, question, fit=run.trace.options["video"]["fit"])
    if model.info.domain and clip.title != model.info.domain_title:
        run.warnings.append(model.info.domain)
    run.warnings += encoded.notes
    if abs(encoded.frames.stretch - 1) > 0.05:
        run.warnings.append(
            f"the backbone's own processor stretches frames by {encoded.frames.stretch:.2f}"
        )
    mean = [round(float(m), 6) for m in encoded.mean]
    run.update_trace(
        question=encoded.question,
        model_frames=encoded.frames,
        groups=encoded.groups,
        backbone=asdict(model.info) | {"prompt": encoded.prompt, "pixel_mean": mean},
    )
    run.timed("encode", began)
    yield Event("load", 1.0, model.info.name, run.trace)
    return model, encoded


def run_in_thread(call: Callable[[], VideoLM]) -> Future[VideoLM]:
    """The call's result, from a thread that does not hold up the end of the process."""
    future: Future[VideoLM] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="load", daemon=True).start()
    return future


def _ascend(run: _Run, case: MethodContext) -> Generator[Event, None, AscentStep | None]:
    began, cost = time.monotonic(), Cost()
    mask, options = case.options.mask, case.options.ascent
    steps: list[AscentStep] = []
    for step in case.meter.each(case.ascent_steps(mask, options), cost):
        steps.append(step)
        trace = run.update_trace(steps=tuple(steps), counterfactual=finalize_ascent(step, options))
        done = len(steps) / options.steps
        yield Event("ascent", done, f"step {len(steps)}, loss {step.loss:.3f}", trace)
        run.raise_if_cancelled("ascent")
    if not steps:
        return None
    needs = [("base prefill", None), ("masks", mask)]
    case.seed_cache("ascent", (mask, options), steps[-1], cost, needs)
    run.timed("ascent", began)
    return steps[-1]


def _read_counterfactual(
    run: _Run, case: MethodContext, last: AscentStep | None
) -> Generator[Event, None, _Views]:
    began = time.monotonic()
    yield Event("views", 0.0, "Reading the counterfactual", run.trace)
    case.start_method()
    with case.meter.measure() as cost:
        prepared = macd(case)
    needs = case.needs()
    if last is not None:
        chosen = finalize_ascent(last, case.options.ascent)
        view = case.masked(case.options.mask)
        device = view.objects.device
        levels = (torch.as_tensor(z, device=device) for z in (chosen.level, chosen.frame_level))
        hidden = to_float(view.mask(*levels).mean())
        if not chosen.level.any() and not chosen.frame_level.any():
            run.warnings.append(SAME_VIEWS)
        if hidden > 0.98:
            run.warnings.append(ALL_MASKED)
        run.update_trace(
            counterfactual=with_losses(
                chosen, case.encoded, prepared.base, prepared.counter or prepared.base
            )
        )
    run.timed("views", began)
    yield Event("views", 1.0, "Both views read", run.trace)
    base = case.whole_cost(Cost(), [("base prefill", None)])
    return _Views(prepared, cost, needs, base.seconds)


def with_losses(
    chosen: Counterfactual, encoded: Encoded, base: DecodeState, counter: DecodeState
) -> Counterfactual:
    """The levels with the query loss given V and given V_d."""
    assert base.query_logits is not None
    assert counter.query_logits is not None
    return replace(
        chosen,
        base_loss=to_float(loss_of(base.query_logits[0], encoded)),
        loss=to_float(loss_of(counter.query_logits[0], encoded)),
    )


def _decode(run: _Run, case: MethodContext, baseline: _Views, other: _Views) -> Iterator[Event]:
    """Both answers, token by token."""
    began = time.monotonic()
    for name, views in (("baseline", baseline), ("macd", other)):
        yield from _answer(run, case, name, views)
    run.timed("decode", began)


def _answer(run: _Run, case: MethodContext, name: str, views: _Views) -> Iterator[Event]:
    prepared, options = views.prepared, case.options.decode
    own = replace(views.cost)
    pixels = shown(case, prepared)

    def signed(given: Answer) -> Answer:
        whole = case.whole_cost(own, views.needs)
        return replace(
            given,
            view=prepared.view,
            shown=pixels,
            ms=round(1000 * (whole.seconds - views.paid_s), 1),
            total_ms=round(1000 * whole.seconds, 1),
            memory_mb=case.memory_mb(whole),
        )

    if options.search in ("beam", "vote"):
        with case.meter.measure() as cost:
            given = answer_of(case, name, prepared)
        own.add(cost)
    else:
        contrast = prepared.contrast if prepared.counter is not None else None
        tokens = decode(case.lm, prepared.base, prepared.counter, prepared.contrast, options)
        steps: list[TokenStep] = []
        for step in case.meter.each(tokens, own):
            steps.append(step)
            given = answer(case.lm, name, steps, contrast)
            done = 0.5 * (name == "macd") + 0.5 * len(steps) / options.max_tokens
            title = "MACD" if name == "macd" else "Baseline"
            trace = run.update_trace(answers=run.trace.answers | {name: signed(given)})
            yield Event("decode", done, f"{title}: {given.text}", trace)
            run.raise_if_cancelled("decode")
    if not given.finished:
        length = count(len(given.tokens), "token")
        run.warnings.append(f"the {name} answer was cut at {length}")
    run.update_trace(answers=run.trace.answers | {name: signed(given)})


def _opening(clip: Clip, question: str, options: RunOptions) -> Trace:
    """The trace before a model was asked."""
    return Trace(
        question=question,
        frames=clip.frames,
        times=clip.times,
        groups=(),
        clip={
            "name": clip.name,
            "sha256": clip.sha256,
            "duration": clip.duration,
            "width": clip.size[0],
            "height": clip.size[1],
            "title": clip.title,
        },
        backbone={},
        detector={},
        options=options.as_dict(),
        mask=options.mask,
        seed=options.seed,
        versions=versions(),
    )
