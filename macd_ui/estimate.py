"""How long a run will take: seconds per unit of work, or of a stage by the number of frames, learnt
from the runs that ended.

Pure: no clock and no model. Loading weights is not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from macd_studio.core.measurements import RANDOM_MASKS
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.types import Clip, Trace

STAGES = ("video", "detect", "track", "load", "ascent", "views", "decode")
BEFORE_THOUGHT = STAGES[:4]
DEFAULT_LENGTH = 12.0
"""Tokens of an answer, as long as no answer of a backbone was seen."""
NEWEST = 0.5
"""Share of the newest run in a rate."""


@dataclass(frozen=True)
class Work:
    """What the time of a run depends on."""

    backbone: str
    detector: str
    frames: int
    """Frames that the backbone sees."""
    dense_frames: int = 0
    """Frames that the detector sees."""
    steps: int = 1
    max_tokens: int = 64
    """Longest answer, tokens; 0 where none is decoded."""
    search: str = "greedy"
    width: int = 1
    """Beams or samples of the search."""
    mode: str = "exact"
    """How the gradient is taken."""
    reads: int = 0
    """The most videos that an ascent step by reading alone reads; 0 with a gradient."""
    methods: tuple[str, ...] = ()
    """Methods beside baseline and MACD."""
    max_thought: int = 0
    """Longest thought, tokens; 0 where there is none."""
    thoughts: int = 1
    """Thoughts in a run of a model that thinks."""


def work_of(clip: Clip, spec: RunSpec) -> Work:
    """The work of a run on a clip."""
    return Work(
        frames=len(clip.frames),
        dense_frames=len(clip.dense_frames) or len(clip.frames),
        **_settings(spec),
    )


def work_of_spec(spec: RunSpec) -> Work:
    """The most that a run can be, before its clip is read."""
    video = spec.options.video
    return Work(frames=video.wanted, dense_frames=video.dense_limit, **_settings(spec))


def work_of_trace(trace: Trace) -> Work:
    """The work of a finished run that is changed by hand; its thought is kept."""
    spec = RunSpec(trace.question, trace.options, (), trace.backbone.name, trace.detector.name)
    settings = _settings(spec)
    found = {"max_thought": 0, "reads": _reads(trace)}
    return Work(frames=len(trace.frames), **settings | found)


def _reads(trace: Trace) -> int:
    """Videos that an ascent step of a run reads; 0 with a gradient, or as long as none is known."""
    if not trace.groups:
        return 0
    groups = 0 if trace.options.mask.frame_mask == "off" else len(trace.groups)
    return trace.options.ascent.reads(len(trace.tracks), groups)


def _settings(spec: RunSpec) -> dict[str, Any]:
    options = spec.options
    search = options.decode.search
    width = {"beam": options.decode.beams, "vote": options.decode.samples}.get(search, 1)
    further = tuple(m for m in spec.methods if m not in ("baseline", "macd"))
    return {
        "backbone": spec.backbone,
        "detector": spec.detector,
        "steps": options.ascent.steps,
        "max_tokens": 0 if options.masks_only else options.decode.max_tokens,
        "search": search,
        "width": width,
        "reads": options.ascent.reads(options.track.max_tracks, options.video.wanted),
        "mode": f"{options.ascent.gradient} {options.ascent.memory}",
        "methods": further,
        "max_thought": 0 if options.masks_only else options.decode.max_thought,
        "thoughts": 2 + len(further) if options.decode.contrast_thought else 1,
    }


class _ByFrames:
    """Seconds of one stage by the number of frames: a fixed part, and one that grows with them."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}

    def learn(self, frames: int, seconds: float) -> None:
        self._seen[frames] = _newer(self._seen.get(frames, seconds), seconds)

    def at(self, frames: int) -> float:
        """As was seen; else on the line through the two nearest numbers, or in proportion to one.

        >>> stage = _ByFrames()
        >>> stage.learn(8, 2.0)
        >>> stage.at(16)
        4.0
        >>> stage.learn(16, 3.0)
        >>> stage.at(16), stage.at(32), stage.at(12), stage.at(4)
        (3.0, 5.0, 2.5, 1.5)
        """
        if frames in self._seen:
            return self._seen[frames]
        near, *others = sorted(self._seen, key=lambda n: abs(n - frames))
        if not others:
            return self._seen[near] * frames / near
        slope = (self._seen[others[0]] - self._seen[near]) / (others[0] - near)
        return max(0.0, self._seen[near] + max(0.0, slope) * (frames - near))


def _newer(before: float, now: float) -> float:
    return (1 - NEWEST) * before + NEWEST * now


class Estimator:
    """Learns from complete runs and estimates others; safe to share between threads."""

    def __init__(self) -> None:
        self._rates: dict[Hashable, float] = {}
        self._stages: dict[Hashable, _ByFrames] = {}
        self._lock = threading.Lock()

    def learn(self, work: Work, trace: Trace) -> None:
        """Learns from a run. One that was stopped is ignored, as is a stage without a time:
        its result came from the cache.
        """
        if trace.status != "complete":
            return
        with self._lock:
            self._learn(work, trace)

    def _learn(self, work: Work, trace: Trace) -> None:
        seconds = {name: ms / 1000 for name, ms in trace.timings_ms.items()}

        def put(key: Hashable, value: float, units: float) -> None:
            if units > 0:
                self._rates[key] = _newer(self._rates.get(key, value / units), value / units)

        def put_stage(key: Hashable, value: float) -> None:
            self._stages.setdefault(key, _ByFrames()).learn(work.frames, value)

        if "detect" in seconds:
            put(("detect", work.detector), seconds["detect"], work.dense_frames)
            put("track", seconds.get("track", 0.0), work.dense_frames)
        for part in ("encode", "prefill"):
            if part in seconds:
                put_stage((part, work.backbone), seconds[part])
        if "ascent" in seconds and work.steps:
            key = ("ascent", work.backbone, work.mode)
            reads = _reads(trace)
            put_stage(key, seconds["ascent"] / (work.steps * (reads or 1)))
            if reads:
                put(("reads", work.backbone), reads, 1)
        levels = trace.counterfactual
        hidden = levels is not None and (levels.level.any() or levels.frame_level.any())
        if "views" in seconds and hidden:  # otherwise both views are one, and nothing was read
            put_stage(("views", work.backbone), seconds["views"])
        pair = [trace.answers[m] for m in ("baseline", "macd") if m in trace.answers]
        tokens = sum(len(a.tokens) for a in pair)
        if "decode" in seconds and tokens:
            put(("token", work.backbone, work.search), seconds["decode"], tokens * work.width)
            put(("length", work.backbone), tokens, len(pair))
        if "thought" in seconds and trace.thought is not None:
            written = len(trace.thought.tokens)
            put(("thought token", work.backbone), seconds["thought"], written)
            put(("thought", work.backbone), written, 1)
        one = self._one_answer(work)
        for name in work.methods:
            if name in trace.answers and one:
                put(("method", work.backbone, name), trace.answers[name].ms / 1000, one)

    def learn_action(self, work: Work, kind: str, units: float, seconds: float) -> None:
        """Learns what a measurement took; kind: "controls", "choices" or, by kind of
        map, "evidence …".

        units: of its work on each frame, as `measured` is asked for.
        """
        units *= work.frames
        if units > 0:
            with self._lock:
                key = ("action", work.backbone, kind)
                self._rates[key] = _newer(self._rates.get(key, seconds / units), seconds / units)

    def measured(self, work: Work, kind: str, units: float) -> float | None:
        """Seconds of a measurement; None as long as no such one was timed here."""
        with self._lock:
            return self._measured(work, kind, units)

    def _measured(self, work: Work, kind: str, units: float) -> float | None:
        return _times(self._rate("action", work.backbone, kind), units * work.frames)

    def _rate(self, *key: Hashable) -> float | None:
        return self._rates.get(key if len(key) > 1 else key[0])

    def _of_frames(self, work: Work, *key: str) -> float | None:
        seen = self._stages.get(key)
        return None if seen is None else seen.at(work.frames)

    def _tokens(self, work: Work) -> float:
        """How many tokens an answer has, as far as was seen."""
        return min(float(work.max_tokens), self._rate("length", work.backbone) or DEFAULT_LENGTH)

    def _thought(self, work: Work) -> float:
        """Seconds of thinking before all answers; 0 for a model that was not seen to think."""
        tokens = min(float(work.max_thought), self._rate("thought", work.backbone) or 0.0)
        return tokens * (self._rate("thought token", work.backbone) or 0.0)

    def _token(self, work: Work) -> float | None:
        rate = self._rate("token", work.backbone, work.search)
        if rate is None:
            rate = self._rate("token", work.backbone, "greedy")
        return None if rate is None else rate * work.width

    def _views(self, work: Work) -> float | None:
        seen = self._of_frames(work, "views", work.backbone)
        return self._prefill(work) if seen is None else seen

    def _one_answer(self, work: Work) -> float | None:
        """Reading one more view and decoding one answer; methods are measured in this unit."""
        token, views = self._token(work), self._views(work)
        return None if token is None or views is None else views + token * self._tokens(work)

    def _methods(self, work: Work, names: Sequence[str]) -> float | None:
        one = self._one_answer(work)
        if one is None:
            return None if names else 0.0
        return one * sum(self._rate("method", work.backbone, m) or 1.0 for m in names)

    def stage(self, work: Work, stage: str) -> float | None:
        """Seconds of a stage as a whole; None if it was not seen yet."""
        if stage == "detect":
            return _times(self._rate("detect", work.detector), work.dense_frames)
        if stage == "track":
            return _times(self._rate("track"), work.dense_frames)
        if stage == "load":
            return self._of_frames(work, "encode", work.backbone)
        if stage == "ascent":
            return _sum(self._prefill(work), self._ascent(work))
        if stage == "views":
            return self._views(work)
        if stage == "decode":
            if not work.max_tokens:
                return 0.0
            both = _times(self._token(work), 2 * self._tokens(work))
            return _sum(both, self._methods(work, work.methods))
        return 0.0

    def _prefill(self, work: Work) -> float | None:
        return self._of_frames(work, "prefill", work.backbone)

    def _ascent(self, work: Work, trace: Trace | None = None) -> float | None:
        if not work.steps:
            return 0.0
        units = float(work.steps)
        if work.reads:
            known = trace is not None and _reads(trace)
            units *= known or min(self._rate("reads", work.backbone) or work.reads, work.reads)
        return _times(self._of_frames(work, "ascent", work.backbone, work.mode), units)

    def total(self, work: Work) -> float | None:
        """Seconds of the whole run once its clip is read; None if a stage was not seen yet."""
        with self._lock:
            return _sum(self._thought(work), *(self.stage(work, s) for s in STAGES))

    def left(
        self, work: Work, stage: str, fraction: float, trace: Trace | None = None
    ) -> float | None:
        """Seconds left at `fraction` of a stage; trace: the run as far as it is."""
        with self._lock:
            later = (self.stage(work, s) for s in STAGES[STAGES.index(stage) + 1 :])
            timed = trace.timings_ms if trace is not None else {}
            ahead = stage in BEFORE_THOUGHT and "thought" not in timed
            thought = self._thought(work) if ahead else 0.0
            return _sum(thought, self._rest(work, stage, fraction, trace), *later)

    def _rest(self, work: Work, stage: str, fraction: float, trace: Trace | None) -> float | None:
        if stage == "ascent":
            read = trace is not None and "prefill" in trace.timings_ms
            begun = _times(self._ascent(work, trace), 1 - fraction)
            return begun if read else _sum(self._prefill(work), begun)
        if stage == "decode" and trace is not None:
            done = sum(len(a.tokens) for m, a in trace.answers.items() if m in ("baseline", "macd"))
            both_done = "decode" in trace.timings_ms
            tokens = 0.0 if both_done else max(0.0, 2 * self._tokens(work) - done)
            open_ = [m for m in work.methods if m not in trace.answers]
            return _sum(_times(self._token(work), tokens), self._methods(work, open_))
        return _times(self.stage(work, stage), 1 - fraction)

    def reading(self, work: Work, views: float) -> float | None:
        """Seconds of reading so many more views."""
        with self._lock:
            return _times(self._views(work), views)

    def change(self, work: Work, kind: str, tracks: int = 0) -> float | None:
        """Seconds of an edit of that kind, or of "redecode", "occlusion", "controls"."""
        with self._lock:
            if kind == "label":
                return 0.0
            units = {"occlusion": tracks, "controls": RANDOM_MASKS + 3}.get(kind)
            if units is not None:
                measured = self._measured(work, kind, units)
                return _times(self._views(work), units) if measured is None else measured
            token = _times(self._token(work), self._tokens(work))
            if kind == "redecode":
                return token
            if kind in ("level", "frames"):
                return _sum(self._views(work), token)
            return _sum(self._ascent(work), self._views(work), token)


def _times(rate: float | None, units: float) -> float | None:
    return None if rate is None else rate * units


def _sum(*parts: float | None) -> float | None:
    known = [p for p in parts if p is not None]
    return sum(known) if len(known) == len(parts) else None
