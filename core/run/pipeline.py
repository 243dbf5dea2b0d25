"""The whole chain as one generator: each event carries the trace as far as it is.

Stop asking for events, or set `cancelled`, and the run ends; what exists is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from macd_studio.core.backbones.base import Encoded, Reader
from macd_studio.core.decoding.answers import MAX_BLANKS
from macd_studio.core.embedded import SHIPPED
from macd_studio.core.errors import Cancelled, NotApplicable, OutOfMemory, RemoteError
from macd_studio.core.masking.plates import plate_warnings
from macd_studio.core.masking.random_masks import placement_warnings
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import METHODS, Method, find_methods
from macd_studio.core.objects.detect import Detector
from macd_studio.core.objects.find import find_cuts, look, prompted, record_of, tracks_key
from macd_studio.core.objects.placing import FoundTracks
from macd_studio.core.options import DecodeOptions, RunOptions, VideoOptions
from macd_studio.core.records import CAPABILITIES
from macd_studio.core.run.cache import StageCache
from macd_studio.core.run.notes import (
    APPROXIMATE,
    NO_ANSWER,
    NO_TRACKS,
    NOBODY_FOUND,
    NOTHING,
    NOTHING_OPEN,
    UNNAMED,
    of_masks,
    of_range,
    of_slopes,
    of_view,
)
from macd_studio.core.run.opening import backbone_record, opening_trace
from macd_studio.core.run.order import (
    AnswerUpdate,
    AscentUpdate,
    ContrastNeeded,
    CounterfactualPrefilled,
    VideoPrefilled,
    macd_events,
    macd_waits,
    method_events,
)
from macd_studio.core.run.state import Event, RunState, loaded_beside, with_waiting_told
from macd_studio.core.system.cost import Meter
from macd_studio.core.system.library_notes import collecting, collecting_from
from macd_studio.core.text.phrases import unfound
from macd_studio.core.text.question import clean_question, negation_note
from macd_studio.core.text.words import count
from macd_studio.core.types import (
    Answer,
    AscentStep,
    Clip,
    Progress,
    Trace,
    Track,
)
from macd_studio.core.view_records import MaskedView
from macd_studio.core.views.context import MethodContext, Partner
from macd_studio.core.views.measured import measured_counterfactual


def run(
    video: str | Path | Callable[[], Clip],
    question: str,
    lm: Callable[[], Reader],
    detector: Callable[[], Detector],
    options: RunOptions | None = None,
    *,
    methods: Sequence[str] = (),
    cache: StageCache | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    loading: Progress | None = None,
    answers: Sequence[str] = ("baseline", "macd"),
    tracks: Callable[[Clip], FoundTracks] | None = None,
    counterpart: Callable[[], Clip] | None = None,
) -> Iterator[Event]:
    """From a file and a question to a Trace, event by event; the last one is of stage "done".

    video: a file, or a call that gives its clip, for a caller that already reads it.
    lm, detector: called when first needed, so that loading can go on beside decoding.
    methods: further decoders by name; they share what can be shared with MACD and the baseline.
    loading: where `detector` and then `lm` report how far they are; passed on as events of the
    stages "detect" and "load".
    answers: of "baseline" and "macd", which to decode.
    tracks: gives the clip's objects, where a file describes them; no detector is asked then.
    counterpart: gives the clip's partner, which the method `pair` contrasts with.
    cancelled: asked between small pieces of work; when true, the last event holds the partial
    trace with status "stopped: STAGE". So it does where a server fails after it answered something,
    with its reason among the warnings. Raises a MacdError for everything that can be explained.
    """
    options = options or RunOptions()
    options.check_runnable()
    question = clean_question(question)
    compared = [m for m in find_methods(methods) if m.name not in ("baseline", "macd")]
    cache = cache or StageCache()
    yield Event("video", 0.0, "Reading the video")
    began = time.monotonic()
    clip = video() if callable(video) else _read(video, options.video, cache)
    notes = [*clip.notes, *of_range(clip, options.video)]
    state = RunState(opening_trace(clip, question, options), cancelled, notes)
    state.timed("video", began)
    try:
        loading = loading or Progress()
        objects = _Objects(partial(_tracks, state, clip, detector, tracks, options, cache, loading))
        if not options.lazy:
            yield from objects.look()
        model, encoded = yield from _load(state, clip, question, lm, loading)
        if options.masks_only:
            options = replace(options, lazy=False)
            state.update_trace(options=options)
            state.warnings.append(NO_ANSWER)
            compared, answers = [], ()
        meter = Meter(model.info.device, memory=True)
        reuse = cache.prefill_for(model, encoded)
        context = MethodContext(model, encoded, objects.look_at_once, options, meter, reuse)
        if counterpart is not None:
            other = counterpart()
            frames = model.preprocess(other, options.video.fit)
            context.partner = Partner(other.name, other.sha256, frames)
        context.between_reads = partial(state.raise_if_cancelled, "ascent")
        events = _answer(state, context, cache, objects, compared, answers)
        if model.info.server:
            events = with_waiting_told(state, events, Event("load", 1.0, model.info.name))
        yield from events
    except Cancelled:
        state.end_early()
    except RemoteError as error:
        if not state.trace.answers:
            raise
        state.warnings.append(str(error))  # what was answered before the server failed is kept
        state.end_early()
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            "the device ran out of memory",
            "Choose less memory for more time, fewer frames, a smaller backbone, or the CPU",
        ) from error
    yield Event("done", 1.0, state.trace.status, state.trace)


def _answer(
    run: RunState,
    context: MethodContext,
    cache: StageCache,
    objects: _Objects,
    compared: list[Method],
    answers: Sequence[str],
) -> Generator[Event, None, None]:
    """All that the model is asked for."""
    masks_only = context.options.masks_only
    if not masks_only:
        yield from _think(run, context)
    if not masks_only and not context.ascends:
        answers, compared = (), _without_gradient(run, context.lm, compared)
    elif not macd_waits(context):
        yield from objects.look()
    if context.ascends:
        yield from _analyse(run, context, objects, answers)
    if cache.keep_prefill:
        cache.put_prefill(context.lm, context.encoded, context.base)
    yield from _compare(run, context, compared, objects)
    if not context.ascends and not masks_only:
        run.update_trace(counterfactual=measured_counterfactual(context))


def _without_gradient(run: RunState, model: Reader, compared: list[Method]) -> list[Method]:
    """What answers where no ascent can be taken: in MACD's place its variant that needs none."""
    why = f" ({model.reasons['gradient']})" if "gradient" in model.reasons else ""
    run.warnings.append(f"{model.info.name} runs without ascent: {CAPABILITIES['gradient']}{why}")
    reason = f"{CAPABILITIES['gradient']}; macd-measured stands in its place"
    run.update_trace(skipped={"macd": reason})
    first = [METHODS["baseline"], METHODS["macd-measured"]]
    return [*first, *(m for m in compared if m not in first)]


class _Objects:
    """The clip's objects, looked for at most once: with events, or at once where none can pass."""

    def __init__(self, search: Callable[[], Generator[Event, None, tuple[Track, ...]]]) -> None:
        self._search = search
        self.tracks: tuple[Track, ...] | None = None

    def look(self) -> Generator[Event, None, None]:
        """Looks for them, unless that was done."""
        if self.tracks is None:
            self.tracks = yield from self._search()

    def look_at_once(self) -> tuple[Track, ...]:
        """The objects, looked for without events."""
        for _ in self.look():
            pass
        assert self.tracks is not None
        return self.tracks


def _analyse(
    run: RunState, context: MethodContext, objects: _Objects, decoded: Sequence[str]
) -> Iterator[Event]:
    """MACD's events as events of the run, and what they add to the trace.

    In a lazy run the stages from the objects to the second view are computed during decoding, if at
    all; the time until then counts as that of decoding.
    """
    kind = context.options.ascent.gradient
    if kind in APPROXIMATE:
        run.warnings.append(APPROXIMATE[kind])
    steps: list[AscentStep] = []
    began = time.monotonic()
    lazy, needed, decoding_s = macd_waits(context), False, 0.0
    yield Event("decode" if lazy else "ascent", 0.0, "Reading the video as it is", run.trace)
    reports: list[str] = []
    for event in collecting_from(macd_events(context, answers=decoded), reports):
        match event:
            case VideoPrefilled():
                run.timed("prefill", began)
                run.raise_if_cancelled("decode" if lazy else "ascent")
                began = time.monotonic()
            case ContrastNeeded():
                needed, decoding_s = True, time.monotonic() - began
                yield from objects.look()
                began = time.monotonic()
                yield Event("ascent", 0.0, "A token needs the second view", run.trace)
            case AscentUpdate(step=step, counterfactual=counterfactual):
                steps.append(step)
                trace = run.update_trace(steps=tuple(steps), counterfactual=counterfactual)
                run.timed("ascent", began)
                done = len(steps) / context.options.ascent.steps
                message = f"step {len(steps)}, loss {step.loss:.3f}"
                yield Event("ascent", done, message, trace)
                run.raise_if_cancelled("ascent")
                if len(steps) == context.options.ascent.steps:
                    began = time.monotonic()
                    yield Event("views", 0.0, "Reading the counterfactual", run.trace)
            case CounterfactualPrefilled(counterfactual=counterfactual, masked=masked):
                if steps:
                    shares = context.masks(context.options.mask).uncovered
                    run.warnings += plate_warnings(shares, context.tracks[: len(shares)])
                    run.warnings += of_masks(counterfactual, masked)
                    run.warnings += of_slopes(steps[-1], context.options.ascent)
                    run.update_trace(counterfactual=counterfactual)
                run.timed("views", began)
                yield Event("views", 1.0, "Both views read", run.trace)
                began = time.monotonic() - decoding_s
            case AnswerUpdate(answer=answer, finished=finished):
                if finished and not answer.finished:
                    length = count(len(answer.tokens), "token")
                    run.warnings.append(f"the {answer.method} answer was cut at {length}")
                answers = run.trace.answers | {answer.method: answer}
                trace = run.update_trace(answers=answers)
                if not finished:
                    yield _decoding(answer, context.options.decode, trace)
                    run.raise_if_cancelled("decode")
    run.warnings += [one for one in reports if one not in run.warnings]
    if decoded:
        run.timed("decode", began)
    if lazy and "macd" in decoded and not needed:
        run.warnings.append(NOTHING_OPEN)
        run.update_trace()


def _think(run: RunState, context: MethodContext) -> Iterator[Event]:
    """What the model writes before its answers, where it does; see `MethodContext.think`."""
    began, most = time.monotonic(), context.options.decode.max_thought
    for written in context.think():
        yield Event(
            "decode", written / (most + MAX_BLANKS), f"Thinking: token {written}", run.trace
        )
        run.raise_if_cancelled("decode")
    if (thought := context.thought) is not None:
        if not thought.closed:
            run.warnings.append(f"the thought was cut at {count(len(thought.tokens), 'token')}")
        run.update_trace(thought=thought)
        run.timed("thought", began)


def _decoding(answer: Answer, options: DecodeOptions, trace: Trace) -> Event:
    half = 0.5 * (answer.method == "macd")
    done = half + 0.5 * len(answer.tokens) / options.max_tokens
    return Event("decode", done, f"{METHODS[answer.method].title}: {answer.text}", trace)


def _compare(
    run: RunState, context: MethodContext, methods: list[Method], objects: _Objects
) -> Iterator[Event]:
    began = time.monotonic()
    for i, method in enumerate(methods):
        run.raise_if_cancelled("decode")
        yield Event("decode", i / len(methods), method.title, run.trace)
        try:
            context.need(*method.needs)
            for event in method_events(context, method):
                if isinstance(event, ContrastNeeded) and event.method.needs_objects:
                    yield from objects.look()
                elif isinstance(event, AnswerUpdate) and not event.finished:
                    run.raise_if_cancelled("decode")
            assert isinstance(event, AnswerUpdate)
            answer = event.answer
        except NotApplicable as error:
            run.update_trace(skipped=run.trace.skipped | {method.name: str(error)})
            continue
        for view in (second.view for second in answer.second_views):
            if isinstance(view, MaskedView) and view.random is not None:
                run.warnings += placement_warnings(view.random)
        run.warnings += of_view(answer)
        answers = run.trace.answers | {method.name: answer}
        run.update_trace(answers=answers, shared=dict(context.cache.shared))
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
    run: RunState,
    clip: Clip,
    detector: Callable[[], Detector],
    placed: Callable[[Clip], FoundTracks] | None,
    options: RunOptions,
    cache: StageCache,
    progress: Progress,
) -> Generator[Event, None, tuple[Track, ...]]:
    began = time.monotonic()
    cuts = find_cuts(clip)
    run.update_trace(clip=replace(run.trace.clip, cuts=cuts))
    if placed is not None:
        found = placed(clip)
        run.update_trace(detector=found.record)
        tracks, notes = found.tracks, found.notes
    else:
        yield Event("detect", 0.0, "Looking for objects", run.trace)
        loaded = yield from loaded_beside(run, "detect", detector, progress, "Loading the detector")
        chosen = prompted(loaded, options.detect, run.trace.question)
        run.update_trace(detector=record_of(clip, loaded, chosen, options))
        run.timed("load detector", began)
        run.warnings += getattr(loaded, "notes", ())
        began = time.monotonic()
        key = tracks_key(clip, options, chosen, loaded)
        kept: tuple[tuple[Track, ...], tuple[str, ...]] | None = cache.get(key)
        if kept is None:
            for seen in look(clip, loaded, chosen, options, cuts):
                run.raise_if_cancelled("detect")
                if seen.early is not None:
                    message = f"{seen.done} of {count(seen.total, 'frame')}"
                    trace = run.update_trace(tracks=seen.early)
                    yield Event("detect", seen.done / seen.total, message, trace)
            run.timed("detect", began)
            began = time.monotonic()
            kept = seen.finish()
            cache.put(key, kept)
        tracks, notes = kept
        if getattr(loaded, "unnamed", False) and not chosen.names:
            notes = (*notes, UNNAMED.format(loaded.name))
        if missing := unfound(chosen.prompt, (t.label for t in tracks)):
            notes = (*notes, NOBODY_FOUND.format(", ".join(missing)))
    run.warnings += [one for one in notes if one not in run.warnings]
    if not tracks:
        run.warnings.append(NOTHING if options.mask.frame_mask == "off" else NO_TRACKS)
    run.timed("track", began)
    yield Event("track", 1.0, count(len(tracks), "object"), run.update_trace(tracks=tracks))
    return tracks


def _load(
    run: RunState, clip: Clip, question: str, lm: Callable[[], Reader], progress: Progress
) -> Generator[Event, None, tuple[Reader, Encoded]]:
    yield Event("load", 0.0, "Loading the backbone", run.trace)
    run.raise_if_cancelled("load")
    began = time.monotonic()
    model = yield from loaded_beside(run, "load", lm, progress, "Loading the backbone")
    run.timed("load", began)
    began = time.monotonic()
    reports = list(model.notes)
    model = model.reading(clip.is_picture).stopping_when(run.is_over, run.waiting)
    with collecting(reports):
        encoded = model.encode(clip, question, fit=run.trace.options.video.fit)
    run.warnings += [*encoded.notes, *reports]
    if model.info.name in SHIPPED and (note := negation_note(question)):
        run.warnings.append(note)
    if abs(encoded.frames.stretch - 1) > 0.05:
        run.warnings.append(
            f"the backbone's own processor stretches frames by {encoded.frames.stretch:.2f}"
        )
    mean = tuple(round(float(m), 6) for m in encoded.mean)
    run.update_trace(
        question=encoded.question,
        model_frames=encoded.frames,
        groups=encoded.groups,
        backbone=backbone_record(model, encoded.prompt, mean, clip.is_picture),
    )
    if run.trace.outside_domain:
        run.warnings.insert(0, model.info.domain)
    run.timed("encode", began)
    read = run.trace.options.ascent.gradient == "difference"
    ascends = read or "gradient" in model.capabilities
    blind = "" if ascends else ", which runs without ascent"
    yield Event("load", 1.0, f"{model.info.name}{blind}", run.trace)
    return model, encoded
