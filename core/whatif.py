"""What if: changes made by hand to a finished trace, and only what they invalidate is run again.

Works on traces: the frames in one are what the backbone saw, so the video itself is not needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from core.ascent import conclude
from core.backbones.base import VideoLM, to_pixels
from core.decode import Pair, answer, go_on, redecode, scores
from core.errors import OptionError
from core.ledger import measure
from core.methods.base import Case
from core.options import ContrastOptions, RunOptions, options_from
from core.pipeline import Event, with_losses
from core.search import find_answer
from core.types import (
    LOST,
    SEEN,
    Answer,
    AscentStep,
    Counterfactual,
    Stroke,
    TokenStep,
    Trace,
    Track,
)

KINDS = {
    "level": ("track", "level"),
    "frames": ("track", "level"),
    "drop": ("track",),
    "merge": ("track", "other"),
    "label": ("track", "label"),
    "brush": ("track", "frame", "points", "radius", "erase"),
    "add": ("label", "box"),
}
"""What can be changed, and what each change is told by."""
MAX_POINTS, MAX_EDITS = 400, 200


@dataclass(frozen=True, eq=False)
class Edit:
    """One change by hand.

    level: `track` gets `level`. frames: frame group `track` (counted from 0) gets `level`. drop:
    `track` goes. merge: `other` becomes part of `track`. label: `track` is called `label`. brush:
    `points` (N, 2), in shares of the frame, on frame `frame` of `track`. add: a still object with
    `box`, called `label`. Tracks are named by their id.
    """

    kind: str
    track: int = 0
    other: int = 0
    level: float = 0.0
    label: str = ""
    frame: int = 0
    points: tuple[tuple[float, float], ...] = ()
    radius: float = 0.05
    erase: bool = False
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as `read_edit` takes them."""
        told = {"kind": self.kind} | {name: getattr(self, name) for name in KINDS[self.kind]}
        if "points" in told:
            told["points"] = [list(p) for p in self.points]
        return told | ({"box": list(self.box)} if "box" in told else {})


def read_edit(raw: Any, trace: Trace) -> Edit:
    """An Edit from untrusted plain values; raises OptionError where it does not fit the trace."""
    if not isinstance(raw, Mapping) or raw.get("kind") not in KINDS:
        raise OptionError("this is no change that can be made", f"Choose of {', '.join(KINDS)}")
    kind = str(raw["kind"])
    ids = [t.id for t in trace.tracks]

    def number(name: str, low: float, high: float) -> float:
        value = raw.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OptionError(f"{name} is {value!r}", "Give a number")
        if not (math.isfinite(value) and low <= value <= high):
            raise OptionError(f"{name} is {value!r}", f"Choose from {low:g} to {high:g}")
        return float(value)

    def track(name: str) -> int:
        found = raw.get(name)
        if not isinstance(found, int) or isinstance(found, bool) or found not in ids:
            listed = ", ".join(f"{t.id} ({t.label})" for t in trace.tracks)
            raise OptionError(
                f"there is no object {found!r}",
                f"Choose one of {listed}" if listed else "Add one: none is tracked",
            )
        return found

    if kind == "level":
        return Edit(kind, track=track("track"), level=number("level", 0, 1))
    if kind == "frames":
        group, last = raw.get("track"), len(trace.groups) - 1
        if not isinstance(group, int) or isinstance(group, bool) or not 0 <= group <= last:
            raise OptionError(f"there is no frame group {group!r}", f"Choose from 0 to {last}")
        return Edit(kind, track=group, level=number("level", 0, 1))
    if kind == "drop":
        return Edit(kind, track=track("track"))
    if kind == "merge":
        pair = track("track"), track("other")
        if pair[0] == pair[1]:
            raise OptionError("an object cannot be merged with itself", "Choose two objects")
        return Edit(kind, track=pair[0], other=pair[1])
    if kind == "label":
        return Edit(kind, track=track("track"), label=_label(raw.get("label")))
    if kind == "add":
        box = tuple(_shares(raw.get("box"), 4, 0, 1))
        if len(box) != 4 or box[2] - box[0] < 0.01 or box[3] - box[1] < 0.01:
            raise OptionError("the new object has no size", "Draw a larger box")
        return Edit(
            kind, label=_label(raw.get("label") or "drawn"), box=(box[0], box[1], box[2], box[3])
        )
    points = raw.get("points")
    if not isinstance(points, Sequence) or not 1 <= len(points) <= MAX_POINTS:
        raise OptionError("the stroke has no points, or too many", f"Draw 1 to {MAX_POINTS} points")
    pairs = [_shares(p, 2, -1, 2) for p in points]
    return Edit(
        kind,
        track=track("track"),
        frame=int(number("frame", 0, len(trace.frames) - 1)),
        points=tuple((p[0], p[1]) for p in pairs),
        radius=number("radius", 0.005, 0.5),
        erase=bool(raw.get("erase")),
    )


def read_edits(raws: Sequence[Any], trace: Trace) -> list[Edit]:
    """Changes that follow one another, each checked against the trace as those before leave it.

    Needs no model. Raises OptionError for the first that does not fit.
    """
    edits = []
    for raw in raws:
        edits.append(edit := read_edit(raw, trace))
        if edit.kind == "frames":
            _check_frame_mask(trace)
        made = [*trace.options.get("edits", ()), edit.as_dict()]
        trace = replace(
            trace, tracks=edited_tracks(trace, edit), options=trace.options | {"edits": made}
        )
    return edits


def _check_frame_mask(trace: Trace) -> None:
    if trace.counterfactual is None or not len(trace.counterfactual.frame_level):
        raise OptionError("the frame mask is off", "Turn it on in the settings and run again")


def _label(value: Any) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > 60
        or not value.isprintable()
    ):
        raise OptionError("this is no name for an object", "Give 1 to 60 printable characters")
    return value.strip()


def _shares(value: Any, n: int, low: float, high: float) -> list[float]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or len(value) != n
        or any(isinstance(x, bool) or not isinstance(x, int | float) for x in value)
        or any(not (math.isfinite(x) and low <= x <= high) for x in value)
    ):
        raise OptionError("a place lies outside the frame", "Draw inside the frame")
    return [float(x) for x in value]


def edited_tracks(trace: Trace, edit: Edit) -> tuple[Track, ...]:
    """The trace's tracks after one change; those it does not touch are the same objects."""
    if edit.kind == "add":
        box = np.tile(np.array(edit.box, np.float32), (len(trace.frames), 1))
        state = np.full(len(trace.frames), SEEN, np.int8)
        new = 1 + max(_used_ids(trace), default=0)
        return (*trace.tracks, Track(new, edit.label, 1.0, box, state, 0))
    by_id = {t.id: t for t in trace.tracks}
    if edit.kind == "drop":
        del by_id[edit.track]
    elif edit.kind == "label":
        by_id[edit.track] = replace(by_id[edit.track], label=edit.label)
    elif edit.kind == "merge":
        by_id[edit.track] = _merged(by_id[edit.track], by_id.pop(edit.other))
    elif edit.kind == "brush":
        by_id[edit.track] = _brushed(by_id[edit.track], edit)
    return tuple(by_id.values())


def _used_ids(trace: Trace) -> set[int]:
    """Ids of the tracks there are and of those that were dropped or merged away."""
    edits = [e for e in trace.options.get("edits", ()) if e["kind"] != "frames"]
    named = {int(e[n]) for e in edits for n in ("track", "other") if n in e}
    return named | {t.id for t in trace.tracks}


def _merged(a: Track, b: Track) -> Track:
    """One track with the box around both where both are seen; the brush of `a` stays.

    Outlines go: those of two objects are no outline of one.
    """
    boxes = np.stack([a.boxes, b.boxes])
    both = np.isfinite(a.boxes[:, 0]) & np.isfinite(b.boxes[:, 0])
    around = np.concatenate([boxes[..., :2].min(0), boxes[..., 2:].max(0)], axis=1)
    only = np.where(np.isfinite(a.boxes), a.boxes, b.boxes)
    return replace(
        a,
        confidence=max(a.confidence, b.confidence),
        boxes=np.where(both[:, None], around, only).astype(np.float32),
        state=np.maximum(a.state, b.state),
        frames_seen=max(a.frames_seen, b.frames_seen),
        outlines=(),
    )


def _brushed(track: Track, edit: Edit) -> Track:
    box = track.boxes[edit.frame]
    if track.state[edit.frame] == LOST:
        raise OptionError(
            f"{track.label} is not seen on frame {edit.frame + 1}", "Draw where it has a box"
        )
    points = (np.array(edit.points, np.float32) - box[:2]) / np.maximum(box[2:] - box[:2], 1e-4)
    stroke = Stroke(points.astype(np.float32), edit.radius, edit.erase)
    return replace(track, brush=(*track.brush, stroke))


class Workbench:
    """A trace with the model that made it, ready for changes; keeps prefills and caches.

    Raises OptionError where the trace was not finished or its options cannot be read.
    """

    def __init__(self, trace: Trace, lm: VideoLM) -> None:
        if "baseline" not in trace.answers or trace.counterfactual is None or not trace.groups:
            raise OptionError("this run was not finished", "Run it again, then change it")
        if trace.model_frames is None:
            raise OptionError(
                "this trace does not hold the pixels that the backbone read",
                "Run the clip again to get one that can be changed",
            )
        self.lm, self.trace = lm, trace
        self.options: RunOptions = options_from(trace.options)
        self.encoded = lm.encode_frames(trace.model_frames, trace.question)
        if self.encoded.prompt != trace.backbone.get("prompt", self.encoded.prompt):
            raise OptionError(
                f"{lm.info.name} reads this question in another prompt than the trace holds",
                "Choose the backbone that made the trace",
            )
        self.case = Case(lm, self.encoded, trace.tracks, self.options)
        self._pair: Pair | None = None

    def change(self, edit: Edit) -> Iterator[Event]:
        """Runs again what one change invalidates; the last event holds the new trace.

        A new name costs nothing, a level one prefill and the decoding, anything that moves a mask
        the ascent too. Other methods' answers are dropped: they stood on the former masks. A level
        that is so already is no change: the trace stays as it is, and the last event says so.
        """
        if (same := self._is_so_already(edit)) is not None:
            yield Event("done", 1.0, same, self.trace)
            return
        edits = list(self.trace.options.get("edits", ()))
        if len(edits) >= MAX_EDITS:
            raise OptionError(f"{MAX_EDITS} changes were made by hand", "Run the clip again")
        tracks = edited_tracks(self.trace, edit)
        options = self.trace.options | {"edits": [*edits, edit.as_dict()]}
        before, case = self.trace, self.case
        try:
            yield from self._change(edit, tracks, options, before)
        except BaseException:  # what was begun is taken back, so that the next change starts whole
            self.case, self.trace, self._pair = case, before, None
            self.case.tracks = before.tracks
            raise
        yield Event("done", 1.0, "complete", self.trace)

    def _is_so_already(self, edit: Edit) -> str | None:
        """Says so where the edit sets a level that its object or frame group has."""
        found = self.trace.counterfactual
        assert found is not None
        if edit.kind == "level":
            track = [t.id for t in self.trace.tracks].index(edit.track)
            if found.level[track] == edit.level:
                return f"object {edit.track} is at level {edit.level:g} already: nothing changed"
        if edit.kind == "frames" and len(found.frame_level):
            if found.frame_level[edit.track] == edit.level:
                group = f"frame group {edit.track}"
                return f"{group} is at level {edit.level:g} already: nothing changed"
        return None

    def _change(
        self, edit: Edit, tracks: tuple[Track, ...], options: dict[str, Any], before: Trace
    ) -> Iterator[Event]:
        now = replace(before, tracks=tracks, options=options, ledger=None, shared={})
        if edit.kind == "label":
            self.case.tracks = tracks
            self.trace = replace(now, ledger=before.ledger, shared=before.shared)
        elif edit.kind in ("level", "frames"):
            self.case.tracks = tracks
            yield from self._decode_again(now, _with_level(before, edit))
        else:
            former = self.case
            self.case = Case(self.lm, self.encoded, tracks, self.options)
            self.case.know("base prefill", None, former.read)
            yield from self._ascend_again(now)

    def _ascend_again(self, trace: Trace) -> Iterator[Event]:
        chosen = self.options.ascent
        none = np.zeros(0)
        found = Counterfactual(none, none, none, none, none, none)
        steps: list[AscentStep] = []
        for step in self.case.climb(self.options.mask, chosen):
            steps.append(step)
            found = conclude(step, chosen)
            trace = replace(trace, steps=tuple(steps), counterfactual=found)
            done = len(steps) / chosen.steps
            yield Event("ascent", done, f"step {len(steps)}, loss {step.loss:.3f}", trace)
        yield from self._decode_again(
            replace(trace, steps=tuple(steps)), _kept_by_hand(trace, found)
        )

    def _decode_again(self, trace: Trace, found: Counterfactual) -> Iterator[Event]:
        began = time.monotonic()
        yield Event("views", 0.5, "Reading the counterfactual", trace)
        view, base = self.case.masked(self.options.mask), self.case.base
        frame_level = found.frame_level if len(found.frame_level) else np.zeros(len(trace.groups))
        counter, video = self.case.prefill_levels(view, found.level, frame_level)
        trace = replace(trace, counterfactual=with_losses(found, self.encoded, base, counter))
        pixels = to_pixels(video, self.encoded.mean, self.encoded.std)
        self._pair = Pair(self.lm, base, counter)
        kept = {"baseline": trace.answers["baseline"]}
        search, contrast = self.options.decode, self.options.contrast
        if search.search in ("beam", "vote"):
            said = find_answer(self.lm, "macd", base, counter, contrast, search)
        else:
            steps: list[TokenStep] = []
            for step in go_on(self._pair, contrast, search):
                steps.append(step)
                said = answer(self.lm, "macd", steps, contrast)
                yield Event("decode", len(steps) / search.max_tokens, said.text,
                            replace(trace, answers=kept | {"macd": said}))  # fmt: skip
        said = self._signed(replace(said, shown=pixels), trace, began)
        self.trace = replace(trace, answers=kept | {"macd": said}, status="complete")

    def _signed(self, said: Answer, trace: Trace, began: float) -> Answer:
        found = trace.counterfactual
        assert found is not None
        view = {
            "kind": "masks",
            "level": found.level.tolist(),
            "frame_level": found.frame_level.tolist(),
            "swept": trace.mask.swept,
            "frame_mask": trace.mask.frame_mask,
        }
        spent = round(1000 * (time.monotonic() - began), 1)
        return replace(said, view=view, ms=spent, total_ms=spent)

    def redecode(self, alpha: float, beta: float) -> Trace:
        """The MACD answer under another α and β: from the first token they change, by cropping.

        What changes is judged on the candidates that the trace holds. Raises OptionError for α or β
        out of range and for a search that is not greedy.
        """
        if self.options.decode.search != "greedy":
            raise OptionError(
                "only a greedy answer can be decoded on", "Run again with the new α and β"
            )
        contrast = replace(self.options.contrast, alpha=alpha, beta=beta)
        self.options = replace(self.options, contrast=contrast)
        self.case.options = self.options
        began = time.monotonic()
        kept, token = self._kept_until(contrast)
        pair = self._standing_pair()
        steps = list(self.trace.answers["macd"].tokens)
        if token is not None:
            changed = replace(steps[kept], token=token, text=self.lm.piece(token))
            after = redecode(pair, kept, token, contrast, self.options.decode)
            steps = [*steps[:kept], changed, *after]
        before = self.trace.answers["macd"]
        said = replace(answer(self.lm, "macd", steps, contrast), shown=before.shown)
        options = self.trace.options | {"contrast": asdict(contrast)}
        said = self._signed(said, self.trace, began)
        answers = {n: a for n, a in self.trace.answers.items() if n == "baseline"}
        self.trace = replace(self.trace, answers=answers | {"macd": said}, options=options)
        return self.trace

    def _kept_until(self, contrast: ContrastOptions) -> tuple[int, int | None]:
        """How many tokens stand under the new rule, and the one that then comes instead."""
        for step in self.trace.answers["macd"].tokens:
            s = scores(step.base, step.counter, contrast, None)
            token = int(step.candidates[int(s.argmax())])
            if token != step.token:
                return step.index, token
        return len(self.trace.answers["macd"].tokens), None

    def _standing_pair(self) -> Pair:
        """Both views' caches with the present answer in them; made once, then only cropped."""
        tokens = [s.token for s in self.trace.answers["macd"].tokens]
        if self._pair is None:
            found = self.trace.counterfactual
            assert found is not None
            view = self.case.masked(self.options.mask)
            groups = len(self.trace.groups)
            frame_level = found.frame_level if len(found.frame_level) else np.zeros(groups)
            counter, _ = self.case.prefill_levels(view, found.level, frame_level)
            self._pair = Pair(self.lm, self.case.base, counter)
            for token in tokens:
                if token not in self.lm.end_tokens:
                    self._pair.step([token])
        return self._pair

    def ledger(self) -> Trace:
        """The trace with its causal ledger; see `core.ledger`."""
        found = self.trace.counterfactual
        assert found is not None
        steps = self.trace.steps
        gradient = steps[0].gradient if steps else np.zeros(len(self.trace.tracks))
        said = [s.token for s in self.trace.answers["baseline"].tokens]
        view = self.case.masked(self.options.mask)
        made = measure(self.lm, view, self.case.base, said, gradient, found.level)
        self.trace = replace(self.trace, ledger=made)
        return self.trace


def _with_level(trace: Trace, edit: Edit) -> Counterfactual:
    found = trace.counterfactual
    assert found is not None
    if edit.kind == "level":
        level = found.level.copy()
        level[[t.id for t in trace.tracks].index(edit.track)] = edit.level
        return replace(found, level=level)
    _check_frame_mask(trace)
    frames = found.frame_level.copy()
    frames[edit.track] = edit.level
    return replace(found, frame_level=frames)


def _kept_by_hand(trace: Trace, found: Counterfactual) -> Counterfactual:
    """Levels that were set by hand earlier stay so after a new ascent."""
    level, frames = found.level.copy(), found.frame_level.copy()
    ids = [t.id for t in trace.tracks]
    for edit in trace.options.get("edits", ()):
        if edit["kind"] == "level" and edit["track"] in ids:
            level[ids.index(edit["track"])] = edit["level"]
        if edit["kind"] == "frames" and len(frames):
            frames[edit["track"]] = edit["level"]
    return replace(found, level=level, frame_level=frames)
