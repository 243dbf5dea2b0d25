"""Runs a clip by one call, for notebooks, scripts and the command line.

Torch is imported when a clip is run, never before: a saved trace opens without it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.core.backbones.remote_address import is_remote, read_address
from macd_studio.core.backbones.weights_options import Weights, WeightsOptions
from macd_studio.core.embedded import AUTO, SHIPPED, backbone_for, detector_for
from macd_studio.core.errors import BackboneNotFound, OptionError
from macd_studio.core.media.sampling import check_partner
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import find_methods
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.objects.own_detector import check_own
from macd_studio.core.objects.placing import FoundTracks
from macd_studio.core.objects.reading import check_there, read_tracks
from macd_studio.core.options import RunOptions, read_options
from macd_studio.core.text.question import clean_question
from macd_studio.core.types import Clip, Progress, Trace
from macd_studio.core.validation import shown
from macd_studio.core.whatif.edits import check_changeable

if TYPE_CHECKING:
    from macd_studio.core.backbones import Reader
    from macd_studio.core.objects.detect import Detector
    from macd_studio.core.run.state import Event
    from macd_studio.core.whatif.workbench import Workbench

WITH_A_PARTNER = ("pair", "random-place")
"""The methods that run beside MACD where a clip has a partner."""
COMPARED = ("baseline", "macd", "vcd", "sid", "tcd")
"""The methods that are compared where none are named."""

_DEVICE = re.compile(r"auto|(cpu|cuda|mps|xpu|hpu|npu|meta)(:[0-9]{1,3})?")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}(@[\w./-]{1,200})?")


def trace(
    video: str | Path | Clip,
    /,
    question: str,
    *,
    backbone: str | Path | Reader = AUTO,
    detector: str | Path | Detector = AUTO,
    device: str = "auto",
    weights: Weights = "as-is",
    offload: bool = False,
    hash_weights: bool = False,
    methods: str | Sequence[str] = (),
    tracks: str | Path | None = None,
    counterpart: str | Path | Clip | None = None,
    options: RunOptions | None = None,
    progress: Callable[[str, float], object] | None = None,
    **parts: Any,
) -> Trace:
    """Runs plain decoding and MACD on one clip and one question.

    Objects are looked for once: another call on the same file, or the same Clip object, with the
    same detector and options of video, detection and tracks takes over the tracks of the first.

    Args:
        video: a file, or a Clip that was read already. By position, as `video={...}` is a part
            of the options.
        question: about the clip, as plain text.
        backbone: "auto", the embedded one for such a clip: "toyworld" for drawn ones, "everyday"
            for others; a folder, a hub id, or the address of a vLLM server,
            `vllm:http://HOST:PORT[/MODEL]`; or a model that `core.backbones.open_backbone`
            gave, which is then not loaded again.
        detector: "auto", likewise "toyworld" or "yolo11n"; another name, a file or a folder; or a
            loaded one.
        device: "auto", "cpu", "cuda", …: where models given by name are put.
        weights, offload: how a backbone given by name is held, see
            `core.backbones.weights_options.WeightsOptions`.
        hash_weights: whether the hash of its weights in the trace is over every byte of them.
        methods: further decoders by name, VIEW+RULE pairs among them, or "all".
        tracks: a file or folder with the clip's objects, from COCO, CVAT for video, Label Studio,
            YOLO, as PNG masks, or from `export_tracks`; no detector is asked then. How its frames
            are counted: `track={"file_fps": 25, "file_start": 0.4}`.
        counterpart: another clip of the same scene, of which another thing is true. The answer that
            is contrasted with it is `.answers["pair"]`, beside random places. Its frames must lie
            within half a sampling step of the clip's.
        options: all options at once.
        progress: called with the message of each event and how much of its stage is done, [0, 1].
        parts: the parts of RunOptions instead, each a mapping or of its class, such as
            `ascent={"steps": 3}`, `video={"frames": 16}` or `mask=MaskOptions(fill="black")`, and
            `seed`.

    Returns:
        The finished trace; `.answers["macd"].text` is the answer.

    Raises:
        MacdError: for everything that can be explained; before a model is loaded where possible.

    >>> import macd_studio as macd
    >>> from macd_studio.core.system.shipped import assets
    >>> clip = assets() / "examples" / "repaired.mp4"
    >>> t = macd.trace(clip, "Which animal is in the video?", device="cpu", ascent={"steps": 1})
    >>> t.frames.shape[0], sorted(t.answers), t.status
    (8, ['baseline', 'macd'], 'complete')
    """
    return run_video(
        video,
        question,
        read_options(options, parts),
        backbone=backbone,
        detector=detector,
        device=device,
        held=WeightsOptions(weights, offload, hash_weights),
        methods=[methods] if isinstance(methods, str) else methods,
        tracks=tracks,
        counterpart=counterpart,
        on_event=None if progress is None else lambda e: progress(e.message, e.fraction),
    )


def compare(
    video: str | Path | Clip,
    /,
    question: str,
    methods: str | Sequence[str] = COMPARED,
    **options: Any,
) -> Trace:
    """Runs several methods on one clip and one question; baseline and MACD are always among them.

    Args:
        video, question: see `trace`.
        methods: names of core.methods.METHODS, VIEW+RULE pairs such as "vcd+code", or "all".
        options: every other argument of `trace`.

    Returns:
        The trace with one answer a method. Methods that do not apply to the question are in
        `.skipped`, each with the reason.

    >>> import macd_studio as macd
    >>> macd.compare("clip.mp4", "Is there a dog?", methods=["mcad"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    macd_studio.core.errors.OptionError: there is no method 'mcad'. Choose one of baseline, ...
    """
    return trace(video, question, methods=methods, **options)


def evidence(
    trace: Trace,
    /,
    token: int = 1,
    *,
    backbone: str | Path | Reader = AUTO,
    device: str = "auto",
    weights: Weights = "as-is",
    offload: bool = False,
    hash_weights: bool = False,
    **options: Any,
) -> Trace:
    """Measures where the evidence for one token of an answer lies in the video.

    Args:
        trace: a finished one, from `trace`, `compare` or `load`.
        token: the answer's token, counted from 1.
        backbone: what made the trace, as for `trace`.
        device, weights, offload, hash_weights: see `trace`.
        options: the fields of `core.evidence.options.EvidenceOptions`, such as `against="none"`,
            `kinds=("gradient", "occlusion-grid")` or `knock_out=(2,)`.

    Returns:
        The trace with the maps in `.evidence`, the last of which is this token's.

    Raises:
        MacdError: for a token, candidate, object or layer that is not there; for a model that did
            not make the trace.
    """
    from macd_studio.core.evidence.options import read_evidence_options

    chosen = read_evidence_options({"token": token} | options)
    held = WeightsOptions(weights, offload, hash_weights)
    bench = open_workbench(trace, _maker(trace, backbone), device, held)
    from macd_studio.core.evidence.run import evidence_events

    return _after(bench, evidence_events(bench, chosen))


def enough(
    trace: Trace,
    /,
    token: int = 1,
    *,
    backbone: str | Path | Reader = AUTO,
    device: str = "auto",
    weights: Weights = "as-is",
    offload: bool = False,
    hash_weights: bool = False,
    **options: Any,
) -> Trace:
    """Looks for how little of the video is enough for one token of the model's own answer.

    Args:
        trace: a finished one, from `trace`, `compare` or `load`.
        token: of the baseline answer, counted from 1.
        backbone, device, weights, offload, hash_weights: as for `evidence`.
        options: the fields of `core.evidence.options.EnoughOptions`, such as `margin=1.0`,
            `spans=4` or `keep=("2:1-4",)`.

    Returns:
        The trace with the result in `.enough`, the last of which is this token's: the smallest
        set of pieces that keeps the answer, the smallest whose removal changes it, and whether
        each is certified.

    Raises:
        MacdError: for a token, object or piece that is not there; for an answer that was not
            decoded greedily; for a model that did not make the trace.
    """
    from macd_studio.core.evidence.options import read_enough_options

    chosen = read_enough_options({"token": token} | options)
    held = WeightsOptions(weights, offload, hash_weights)
    bench = open_workbench(trace, _maker(trace, backbone), device, held)
    from macd_studio.core.evidence.enough import enough_events

    return _after(bench, enough_events(bench, chosen))


def choices(
    trace: Trace,
    /,
    *,
    backbone: str | Path | Reader = AUTO,
    device: str = "auto",
    weights: Weights = "as-is",
    offload: bool = False,
    hash_weights: bool = False,
) -> Trace:
    """Masks every subset of the objects and says what MACD's contrast answers then.

    Args:
        trace: a finished one, from `trace`, `compare` or `load`.
        backbone, device, weights, offload, hash_weights: as for `evidence`.

    Returns:
        The trace with the result in `.choice_map`: a subset a row, MACD's own levels among them.

    Raises:
        MacdError: for a trace without objects or of another search than the greedy one; for a
            model that did not make the trace.
    """
    held = WeightsOptions(weights, offload, hash_weights)
    bench = open_workbench(trace, _maker(trace, backbone), device, held)
    return _after(bench, bench.choice_events())


def open_workbench(
    trace: Trace, backbone: str | Path | Reader, device: str, held: WeightsOptions
) -> Workbench:
    """A workbench for a finished trace, with its model loaded.

    Raises a MacdError for what can be refused before torch is imported, see `check_measurable`.
    """
    check_measurable(trace, backbone, device)
    from macd_studio.core.whatif.workbench import Workbench

    return Workbench(trace, _backbone(backbone, device, Progress(), held))


def _after(bench: Workbench, events: Iterable[Event]) -> Trace:
    for _ in events:
        pass
    return bench.trace


def _maker(trace: Trace, backbone: str | Path | Reader) -> str | Path | Reader:
    """The backbone to load: of AUTO the embedded one that made the trace, or would have.

    Raises OptionError for what is no trace.
    """
    if not isinstance(trace, Trace):
        raise OptionError(
            f"a {type(trace).__name__} is not a trace", "Open a file first: macd.load('run.macd')"
        )
    if not isinstance(backbone, str) or backbone != AUTO:
        return backbone
    made_by = trace.backbone.name
    return made_by if made_by in SHIPPED else backbone_for(AUTO, trace.clip.title)


def check_measurable(trace: Trace, backbone: str | Path | Reader, device: str) -> None:
    """Raises a MacdError for what can be refused before torch is imported."""
    check_changeable(trace)
    check_device(device)
    if isinstance(backbone, str | Path):
        check_backbone(str(backbone))


def run_video(
    video: str | Path | Clip,
    question: str,
    options: RunOptions,
    *,
    backbone: str | Path | Reader = AUTO,
    detector: str | Path | Detector = AUTO,
    device: str = "auto",
    held: WeightsOptions | None = None,
    methods: Sequence[str] = (),
    tracks: str | Path | None = None,
    counterpart: str | Path | Clip | None = None,
    on_event: Callable[[Event], object] | None = None,
    answers: Sequence[str] = ("baseline", "macd"),
) -> Trace:
    """The whole run, as `trace` and the command line start it.

    What can be refused without torch is refused before torch is imported. on_event: called with
    each event but the last, whose trace is returned. answers: of "baseline" and "macd", which to
    decode.
    """
    if counterpart is not None:
        methods = [*methods, *(m for m in WITH_A_PARTNER if m not in methods)]
    check_run(question, backbone, detector, device, methods)
    if tracks is not None:
        check_there(tracks)
    check_clip(video)
    loading = Progress()
    with ThreadPoolExecutor(1) as beside:
        # the video is decoded in a process of its own while this one imports torch, once a first
        # picture is there: importing takes seconds, which a file that is not a video need not cost
        if isinstance(video, Clip):
            clip = beside.submit(lambda: video)
        else:
            opened = threading.Event()
            clip = beside.submit(read_clip, video, options.video, opened=opened.set)
            clip.add_done_callback(lambda _: opened.set())
            opened.wait()
        other = None if counterpart is None else _partner(counterpart, options)

        def first() -> Clip:
            read = clip.result()
            if other is not None:
                check_partner(read, other)
            return read

        def backbone_of(given: str | Path | Reader) -> str | Path | Reader:
            return backbone_for(given, clip.result().title) if isinstance(given, str) else given

        def detector_of(given: str | Path | Detector) -> str | Path | Detector:
            return detector_for(given, clip.result().title) if isinstance(given, str) else given

        placed: FoundTracks | None = None
        if clip.done() or tracks is not None:
            read = first()  # raises what is wrong with it
            if tracks is not None:  # before a model is loaded for nothing
                placed = read_tracks(tracks, read, options.track)
        from macd_studio.core.run.cache import tracks_cache
        from macd_studio.core.run.pipeline import run

        result: Trace | None = None
        for event in run(
            first,
            question,
            lambda: _backbone(
                backbone_of(backbone), device, loading, held or WeightsOptions(), question
            ),
            lambda: _detector(detector_of(detector), device, loading),
            options,
            methods=methods,
            cache=tracks_cache(video, detector, device),
            loading=loading,
            answers=answers,
            tracks=None if placed is None else lambda _: placed,
            counterpart=None if other is None else lambda: other,
        ):
            result = event.trace
            if on_event is not None and event.stage != "done":
                on_event(event)
    assert result is not None
    return result


def _partner(counterpart: str | Path | Clip, options: RunOptions) -> Clip:
    """The partner, sampled as the clip is; nothing is tracked in it."""
    if isinstance(counterpart, Clip):
        return counterpart
    return read_clip(counterpart, replace(options.video, dense_fps=0.0))


def check_clip(video: Any) -> None:
    """Raises OptionError for what is neither a file's name nor a Clip; reads nothing."""
    if not isinstance(video, str | os.PathLike | Clip):
        raise OptionError(
            f"a {type(video).__name__} is not a clip",
            "Give the file of a video or picture, or a Clip of core.media.video.read_clip",
        )


def check_run(
    question: str,
    backbone: str | Path | Reader,
    detector: str | Path | Detector,
    device: str,
    methods: Sequence[str],
) -> None:
    """Raises a MacdError for what can be refused before the video is read. Imports no torch."""
    find_methods(methods)
    check_device(device)
    if isinstance(backbone, str | Path):
        check_backbone(str(backbone))
    if not isinstance(detector, str | Path):
        check_own(detector)
    elif detector != AUTO:
        check_detector(str(detector))
    clean_question(question)


def check_device(name: str) -> None:
    """Raises OptionError for what is not a device's name; torch checks that it exists."""
    if not isinstance(name, str) or not _DEVICE.fullmatch(name):
        raise OptionError(f"there is no device {shown(name)} here", "Choose auto or cpu")


def check_backbone(name: str) -> None:
    """Raises BackboneNotFound for a name that is no folder, possible hub id or server's address."""
    if name in (AUTO, *SHIPPED) or os.path.isdir(name):
        return
    if is_remote(name):
        read_address(name)
        return
    if not _HUB_ID.fullmatch(name):
        raise BackboneNotFound(
            f"there is no folder {shown(name, 200)}",
            "Give a folder, a hub id, everyday or toyworld",
        )


def _backbone(
    named: str | Path | Reader,
    device: str,
    loading: Progress,
    held: WeightsOptions,
    question: str = "",
) -> Reader:
    from macd_studio.core.backbones import open_backbone

    if not isinstance(named, str | Path):
        return named
    return open_backbone(str(named), device, loading, question=question, **asdict(held))


def _detector(named: str | Path | Detector, device: str, progress: Progress) -> Detector:
    from macd_studio.core.backbones.local import device_of
    from macd_studio.core.objects.detect import load_detector

    if isinstance(named, str | Path):
        return load_detector(str(named), device_of(device).type, progress)
    return named
