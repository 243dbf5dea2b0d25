"""The whole chain as one generator: each event carries the trace as far as it is.

Stop asking for events, or set `cancelled`, and the run ends; what exists is kept.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

from core.ascent import conclude, read_base
from core.backbones.base import Encoded, State, VideoLM
from core.decode import answer, decode
from core.detect import Detector, only
from core.errors import Cancelled, OutOfMemory
from core.methods import Method, find_methods
from core.methods.base import Case
from core.methods.controls import PLAIN
from core.methods.run import run_method
from core.objective import loss_of
from core.options import RunOptions, VideoOptions
from core.question import clean_question, nouns
from core.search import find_answer
from core.track import track
from core.types import (
    AscentStep,
    Clip,
    Detections,
    Pixels,
    Progress,
    TokenStep,
    Trace,
    Track,
)
from core.video import read_clip
from core.words import count

Stage = Literal["video", "detect", "track", "load", "ascent", "views", "decode", "done"]
STAGES: tuple[Stage, ...] = ("video", "detect", "track", "load", "ascent", "views", "decode")
PACKAGES = ("torch", "transformers", "ultralytics", "trackers", "supervision", "av", "numpy")

PATIENCE_S = 0.25
"""How often somebody who waits for a model hears how far it is."""

STOPPING_S = 5.0
"""How long a stopped run waits for a load to end."""

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

    def grow(self, **changes: Any) -> Trace:
        self.trace = replace(self.trace, warnings=tuple(self.warnings), **changes)
        return self.trace

    def timed(self, stage: str, began: float) -> None:
        spent = self.trace.timings_ms | {stage: round(1000 * (time.monotonic() - began), 1)}
        self.grow(timings_ms=spent, peak_memory_mb=peak_memory_mb())

    def breathe(self, stage: str) -> None:
        if self.cancelled():
            self.grow(status=f"stopped: {stage}")
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
        case = Case(model, clip, encoded, tracks, options)
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


def _analyse(run: _Run, case: Case) -> Iterator[Event]:
    yield from _read_base(run, case)
    last = yield from _ascend(run, case)
    counter = yield from _prefill(run, case, last)
    yield from _decode(run, case.lm, case.base, counter, case.options)


def _read_base(run: _Run, case: Case) -> Iterator[Event]:
    began = time.monotonic()
    yield Event("ascent", 0.0, "Reading the video as it is", run.trace)
    kind = case.options.ascent.gradient
    if kind in APPROXIMATE:
        run.warnings.append(APPROXIMATE[kind])
    case.know("base prefill", None, read_base(case.lm, case.encoded, case.options.ascent))
    run.timed("prefill", began)
    run.breathe("ascent")


def _compare(run: _Run, case: Case, methods: list[Method]) -> Iterator[Event]:
    began = time.monotonic()
    for i, method in enumerate(methods):
        run.breathe("decode")
        yield Event("decode", i / len(methods), method.title, run.trace)
        found = replace(run_method(case, method), memory_mb=peak_memory_mb())
        run.grow(answers=run.trace.answers | {method.name: found}, shared=dict(case.shared))
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
    run.grow(detector={"name": finder.name} | asdict(chosen))
    run.timed("load detector", began)
    began = time.monotonic()
    key = (clip.sha256, options.video, chosen, options.track, finder.name)
    known: tuple[tuple[Track, ...], tuple[str, ...]] | None = cache.get(key)
    if known is None:
        single = len(clip.dense_frames) == 0
        frames = clip.frames if single else clip.dense_frames
        seen: list[Detections] = []
        for found in finder.detect(frames, chosen):
            seen.append(only(found, chosen.classes))
            run.breathe("detect")
            if len(seen) % 8 == 0:
                done = len(seen) / len(frames)
                told = f"{len(seen)} of {count(len(frames), 'frame')}"
                yield Event("detect", done, told, run.trace)
        run.timed("detect", began)
        began = time.monotonic()
        times = clip.times if single else clip.dense_times
        aspect = clip.size[0] / clip.size[1]
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
    yield Event("track", 1.0, count(len(tracks), "object"), run.grow(tracks=tracks))
    return tracks


def _load(
    run: _Run, clip: Clip, question: str, lm: Callable[[], VideoLM], progress: Progress
) -> Generator[Event, None, tuple[VideoLM, Encoded]]:
    yield Event("load", 0.0, "Loading the backbone", run.trace)
    run.breathe("load")
    began = time.monotonic()
    loaded = _beside(lm)
    try:
        while not wait([loaded], PATIENCE_S).done:
            told = progress.message or "Loading the backbone"
            yield Event("load", progress.fraction, told, run.trace)
            run.breathe("load")
    except BaseException:  # stopped, or the tab was closed: reading weights disturbs other models
        progress.stopped = True
        wait([loaded], STOPPING_S)
        raise
    model = loaded.result()
    run.timed("load", began)
    began = time.monotonic()
    encoded = model.encode(clip, question)
    if model.info.domain and clip.title != model.info.domain_title:
        run.warnings.append(model.info.domain)
    run.warnings += encoded.notes
    mean = [round(float(m), 6) for m in encoded.mean]
    run.grow(
        question=encoded.question,
        frames=encoded.frames,
        groups=encoded.groups,
        backbone=asdict(model.info) | {"prompt": encoded.prompt, "pixel_mean": mean},
    )
    run.timed("encode", began)
    yield Event("load", 1.0, model.info.name, run.trace)
    return model, encoded


def _beside(call: Callable[[], VideoLM]) -> Future[VideoLM]:
    """The call's result, from a thread that does not hold up the end of the process."""
    future: Future[VideoLM] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="load", daemon=True).start()
    return future


def _ascend(run: _Run, case: Case) -> Generator[Event, None, AscentStep | None]:
    began = time.monotonic()
    mask, options = case.options.mask, case.options.ascent
    steps: list[AscentStep] = []
    for step in case.climb(mask, options):
        steps.append(step)
        trace = run.grow(steps=tuple(steps), counterfactual=conclude(step, options))
        done = len(steps) / options.steps
        yield Event("ascent", done, f"step {len(steps)}, loss {step.loss:.3f}", trace)
        run.breathe("ascent")
    if not steps:
        return None
    case.know("ascent", (mask, options), steps[-1])
    run.timed("ascent", began)
    return steps[-1]


def _prefill(run: _Run, case: Case, last: AscentStep | None) -> Generator[Event, None, State]:
    began = time.monotonic()
    yield Event("views", 0.0, "Reading the counterfactual", run.trace)
    base = counter = case.base
    if last is not None:
        view, chosen = case.masked(case.options.mask), conclude(last, case.options.ascent)
        level, frame_level = torch.tensor(chosen.level), torch.tensor(chosen.frame_level)
        device = view.objects.device
        with torch.no_grad():
            strengths = level.to(device), frame_level.to(device)
            hidden = float(view.mask(*strengths).mean())
            if hidden > 0:
                counter = case.prefill(view.video(*strengths))
        if not chosen.level.any() and not chosen.frame_level.any():
            run.warnings.append(SAME_VIEWS)
        if hidden > 0.98:
            run.warnings.append(ALL_MASKED)
        assert base.query_logits is not None
        assert counter.query_logits is not None
        run.grow(
            counterfactual=replace(
                chosen,
                base_loss=float(loss_of(base.query_logits[0], case.encoded)),
                loss=float(loss_of(counter.query_logits[0], case.encoded)),
            )
        )
    run.timed("views", began)
    yield Event("views", 1.0, "Both views read", run.trace)
    return counter


def _decode(
    run: _Run, lm: VideoLM, base: State, counter: State, options: RunOptions
) -> Iterator[Event]:
    whole = time.monotonic()
    for method, other in (("baseline", None), ("macd", counter)):
        began = time.monotonic()
        contrast = PLAIN if other is None else options.contrast
        if options.decode.search in ("beam", "vote"):
            found = find_answer(lm, method, base, other, contrast, options.decode)
            run.grow(answers=run.trace.answers | {method: found})
        else:
            steps: list[TokenStep] = []
            for step in decode(lm, base, other, contrast, options.decode):
                steps.append(step)
                found = answer(lm, method, steps, contrast if other is not None else None)
                answers = run.trace.answers | {method: found}
                done = 0.5 * (method == "macd") + 0.5 * len(steps) / options.decode.max_tokens
                told = f"{'MACD' if method == 'macd' else 'Baseline'}: {found.text}"
                yield Event("decode", done, told, run.grow(answers=answers))
                run.breathe("decode")
        if not found.finished:
            length = count(len(found.tokens), "token")
            run.warnings.append(f"the {method} answer was cut at {length}")
        own = ("prefill",) if method == "baseline" else ("ascent", "views")
        before = sum(run.trace.timings_ms.get(stage, 0.0) for stage in own)
        spent = round(before + 1000 * (time.monotonic() - began), 1)
        found = replace(found, view=_view(run, method), ms=spent, memory_mb=peak_memory_mb())
        run.grow(answers=run.trace.answers | {method: found})
    run.timed("decode", whole)


def _view(run: _Run, method: str) -> dict[str, Any]:
    chosen = run.trace.counterfactual
    if method == "baseline" or chosen is None:
        return {"kind": "none"}
    return {
        "kind": "masks",
        "level": chosen.level.tolist(),
        "frame_level": chosen.frame_level.tolist(),
        "swept": run.trace.mask.swept,
        "frame_mask": run.trace.mask.frame_mask,
    }


def _opening(clip: Clip, question: str, options: RunOptions) -> Trace:
    """The trace before a model was asked; its frames are a preview until one encodes them."""
    return Trace(
        question=question,
        frames=_preview(clip),
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


def _preview(clip: Clip, side: int = 320) -> Pixels:
    scale = min(1.0, side / max(clip.size))
    size = max(1, round(clip.size[0] * scale)), max(1, round(clip.size[1] * scale))
    return np.stack([np.asarray(Image.fromarray(f).resize(size)) for f in clip.frames])


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def peak_memory_mb() -> float:
    """Peak memory so far: of the GPU if it was used, else of this process."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale, 1)
