"""What if: changes made by hand to a finished trace, and only what they invalidate is run again.

Works on traces: the frames in one are what the backbone saw, so the video itself is not needed. Its
weights may have changed since, and a change by hand would then set answers of two models side by
side: so the first prefill compares logits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import numpy as np

from macd_studio.core.backbones.base import Encoded, Reader
from macd_studio.core.errors import OptionError
from macd_studio.core.masking.ascent import BasePrefill
from macd_studio.core.measurements import RANDOM_MASKS
from macd_studio.core.methods import depends_on_masks, masked_answer
from macd_studio.core.objects.edits import MAX_EDITS
from macd_studio.core.objects.segment import Segmenter, follow, load_segmenter
from macd_studio.core.options import RunOptions
from macd_studio.core.records import EDIT_FIELDS, Edit
from macd_studio.core.run.order import (
    AnswerUpdate,
    AscentUpdate,
    CounterfactualPrefilled,
    macd_events,
)
from macd_studio.core.run.state import Event
from macd_studio.core.system.library_notes import collecting
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.traces.write import stored_frames
from macd_studio.core.types import Answer, AscentStep, Counterfactual, Trace, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.measured import measured_counterfactual
from macd_studio.core.whatif.controls import measure_choices, measure_controls
from macd_studio.core.whatif.edits import (
    check_changeable,
    check_frame_mask,
    edited_levels,
    edited_tracks,
    read_edit,
    read_edits,
)
from macd_studio.core.whatif.occlusion import measure
from macd_studio.core.whatif.redecoding import Redecoder

__all__ = ["EDIT_FIELDS", "Edit", "Workbench", "edited_tracks", "read_edit", "read_edits"]


LoadSegmenter = Callable[[str, int], Segmenter]
CANDIDATES = 10
TOLERANCE = 0.75
"""Mean difference, in logits, of the best `CANDIDATES` that may come from rounding.

Five traces of the embedded backbone before its last training differ by 1.06 to 2.12, eleven of the
present one by 0.000. The room is for half precision and other devices, which were not measured.
"""


class Workbench:
    """A trace with the model that made it, ready for changes; keeps prefills and caches.

    segmenter: gives a segmenter by name, for so many frames; loads it where there is no such call.
    Raises OptionError where the trace was not finished, its options cannot be read, or, at the
    first use of the model, other weights made it.
    """

    def __init__(self, trace: Trace, lm: Reader, segmenter: LoadSegmenter | None = None) -> None:
        check_changeable(trace)
        assert trace.model_frames is not None
        lm = lm.reading(trace.is_picture)
        self.lm, self.trace = lm, trace
        self.encoded = lm.encode_frames(trace.model_frames, trace.question)
        if trace.thought is not None:
            self.encoded = lm.with_thought(self.encoded, trace.thought.tokens)
        if self.encoded.prompt != trace.backbone.prompt:
            raise OptionError(
                f"{lm.info.name} reads this question in another prompt than the trace holds",
                "Choose the backbone that made the trace",
            )
        self.context: MethodContext = TraceContext(trace, lm, self.encoded)
        self._redecoder = Redecoder(self.context)
        self._segmenter = segmenter or self._load_segmenter

    @property
    def options(self) -> RunOptions:
        """Those of the trace as it is."""
        return self.trace.options

    def check_weights(self) -> None:
        """Raises OptionError where other weights made the trace; reads the video once for it."""
        _ = self.context.base_prefill

    def change(self, edit: Edit) -> Generator[Event, None, None]:
        """Runs again what one change invalidates; the last event holds the new trace.

        A new name costs nothing, a level one prefill and the decoding, anything that moves a mask
        the ascent too, or the measured effects of a model without gradient. Answers of other
        methods that depend on the masks are dropped. A level that is so already changes
        nothing: the last event's message says so.
        """
        if (same := self._is_so_already(edit)) is not None:
            yield Event("done", 1.0, same, self.trace)
            return
        if len(self.trace.edits) >= MAX_EDITS:
            raise OptionError(f"{MAX_EDITS} changes were made by hand", "Run the clip again")
        found = (yield from self._segment(edit)) if edit.kind == "point" else None
        tracks = edited_tracks(self.trace, edit, found)
        before, case = self.trace, self.context
        try:
            yield from self._change(edit, tracks, before)
        except BaseException:  # what was begun is taken back, so that the next change starts whole
            self.context, self.trace = case, before
            self.context.tracks = before.tracks
            self._redecoder = Redecoder(case)
            raise
        yield Event("done", 1.0, "complete", self.trace)

    def _segment(self, edit: Edit) -> Generator[Event, None, Track]:
        """What is under the points of a change, followed through the trace's frames."""
        trace = self.trace
        yield Event("detect", 0.0, f"Loading {edit.segmenter}", trace)
        segmenter = self._segmenter(edit.segmenter, len(trace.frames))
        yield Event("track", 0.0, "Looking at the point", trace)
        frames = stored_frames(trace)
        following = follow(segmenter, frames, trace.times, edit.frame, edit.points, trace.clip.cuts)
        notes: list[str] = [*getattr(segmenter, "notes", ())]
        while True:
            try:
                with collecting(notes):
                    done, of = next(following)
            except StopIteration as end:
                found: Track = end.value
                reports = [one for one in notes if one not in trace.warnings]
                self.trace = replace(trace, warnings=(*trace.warnings, *reports))
                return found
            message = f"Following {edit.label}: frame {done} of {of}"
            yield Event("track", done / of, message, trace)

    def _load_segmenter(self, name: str, frames: int) -> Segmenter:
        return load_segmenter(name, self.lm.info.device.partition(":")[0], frames=frames)

    def _is_so_already(self, edit: Edit) -> str | None:
        """Says so where the edit sets a level that its object or frame group has."""
        counterfactual = self.trace.counterfactual
        assert counterfactual is not None
        if edit.kind == "level":
            track = [t.id for t in self.trace.tracks].index(edit.track)
            if counterfactual.level[track] == edit.level:
                return f"object {edit.track} is at level {edit.level:g} already: nothing changed"
        if edit.kind == "frames" and len(counterfactual.frame_level):
            if counterfactual.frame_level[edit.track] == edit.level:
                group = f"frame group {edit.track}"
                return f"{group} is at level {edit.level:g} already: nothing changed"
        return None

    def _change(self, edit: Edit, tracks: tuple[Track, ...], before: Trace) -> Iterator[Event]:
        now = replace(before, tracks=tracks, edits=(*before.edits, edit))
        if edit.kind == "label":
            self.context.tracks = tracks
            self.trace = now
            return
        now = replace(now.without_measurements(), shared={})
        if edit.kind in ("level", "frames"):
            self.context.tracks = tracks
            yield from self._compute(now, _with_level(before, edit))
        else:
            before_context = self.context
            self.context = MethodContext(self.lm, self.encoded, tracks, self.options)
            self.context.cache.put("base prefill", self.options.ascent, before_context.base_prefill)
            self._redecoder = Redecoder(self.context)
            levels = None
            if not self.context.ascends:
                levels = _kept_by_hand(now, measured_counterfactual(self.context))
            yield from self._compute(now, levels)

    def _compute(self, trace: Trace, counterfactual: Counterfactual | None) -> Iterator[Event]:
        """MACD's answer on these tracks, by an ascent unless the levels are given."""
        began, name = time.monotonic(), masked_answer(trace)
        options = self.options
        steps: list[AscentStep] = []
        kept = {
            n: a for n, a in trace.answers.items() if n == name or not depends_on_masks(n)
        }  # in their order
        events = macd_events(
            self.context,
            counterfactual=counterfactual,
            adjust=lambda ascended: _kept_by_hand(trace, ascended),
            answers=("macd",),
        )
        if counterfactual is not None:
            yield Event("views", 0.5, "Reading the counterfactual", trace)
        else:
            trace = replace(trace, steps=())
        for event in events:
            match event:
                case AscentUpdate(step=step, counterfactual=current):
                    steps.append(step)
                    trace = replace(trace, steps=tuple(steps), counterfactual=current)
                    message = f"step {len(steps)}, loss {step.loss:.3f}"
                    yield Event("ascent", len(steps) / options.ascent.steps, message, trace)
                case CounterfactualPrefilled(counterfactual=current):
                    trace = replace(trace, counterfactual=current)
                    yield Event("views", 1.0, "Both views read", trace)
                case AnswerUpdate(answer=answered, views=views, finished=finished):
                    made = replace(_timed(answered, began), method=name)
                    trace = replace(trace, answers=kept | {name: made})
                    if not finished:
                        done = len(answered.tokens) / options.decode.max_tokens
                        yield Event("decode", done, answered.text, trace)
                    self._redecoder.keep(name, views)
        self.trace = replace(trace, status="complete")

    def redecode(self, alpha: float, beta: float, method: str = "") -> Trace:
        """An answer under another α and β: from the first token they change, by cropping.

        method: whose; by default that of the trace's own masks. See `core.whatif.redecoding`.
        Raises OptionError for α or β out of range, and for an answer that cannot be decoded on.
        """
        self.trace = self._redecoder.redecode(
            self.trace, method or masked_answer(self.trace), alpha, beta
        )
        return self.trace

    def measure_controls(self, draws: int = RANDOM_MASKS) -> Trace:
        """The trace with MACD's masks beside controls; see `core.whatif.controls`."""
        trace = self.trace
        assert trace.counterfactual is not None
        report = measure_controls(
            self.context,
            trace.steps,
            trace.counterfactual,
            trace.answers["baseline"],
            trace.answers[masked_answer(trace)],
            draws,
        )
        self.trace = replace(trace, controls=report)
        return self.trace

    def choice_events(
        self, stopped: Callable[[], bool] = lambda: False
    ) -> Generator[Event, None, None]:
        """The choice map in batches; the last event holds the trace with it.

        stopped: asked between batches. Raises Cancelled and what `measure_choices` raises.
        """
        measuring = measure_choices(self.context, self.trace, stopped)
        while True:
            try:
                done, of = next(measuring)
            except StopIteration as end:
                self.trace = replace(self.trace, choice_map=end.value)
                break
            yield Event("views", done / of, f"{done} of {of} subsets read", self.trace)
        yield Event("done", 1.0, "complete", self.trace)

    def measure_occlusion(self) -> Trace:
        """The trace with its occlusion report; see `core.whatif.occlusion`."""
        counterfactual = self.trace.counterfactual
        assert counterfactual is not None
        steps = self.trace.steps
        gradient = steps[0].gradient if steps else np.zeros(len(self.trace.tracks))
        answer_tokens = [s.token for s in self.trace.answers["baseline"].tokens]
        view = self.context.masks(self.options.mask)
        made = measure(
            self.lm, view, self.context.base, answer_tokens, gradient, counterfactual.level
        )
        self.trace = replace(self.trace, occlusion=made)
        return self.trace


def _timed(answer: Answer, began: float) -> Answer:
    """The answer with the time since the change was asked for."""
    spent = round(1000 * (time.monotonic() - began), 1)
    return replace(answer, ms=spent, total_ms=spent)


def _with_level(trace: Trace, edit: Edit) -> Counterfactual:
    counterfactual = trace.counterfactual
    assert counterfactual is not None
    if edit.kind == "level":
        level = counterfactual.level.copy()
        level[[t.id for t in trace.tracks].index(edit.track)] = edit.level
        return replace(counterfactual, level=level)
    check_frame_mask(trace)
    frames = counterfactual.frame_level.copy()
    frames[edit.track] = edit.level
    return replace(counterfactual, frame_level=frames)


def _kept_by_hand(trace: Trace, counterfactual: Counterfactual) -> Counterfactual:
    """Levels that were set by hand earlier stay so after a new ascent."""
    level, frames = counterfactual.level.copy(), counterfactual.frame_level.copy()
    objects_by_hand, frames_by_hand = edited_levels(trace)
    for k, track in enumerate(trace.tracks):
        level[k] = objects_by_hand.get(track.id, level[k])
    for g in range(len(frames)):
        frames[g] = frames_by_hand.get(g, frames[g])
    return replace(counterfactual, level=level, frame_level=frames)


class TraceContext(MethodContext):
    """A trace's frames and question, for the model that made the trace to read again.

    The first read of the video raises OptionError where other weights made the trace.
    """

    def __init__(self, trace: Trace, lm: Reader, encoded: Encoded) -> None:
        super().__init__(lm, encoded, trace.tracks, trace.options)
        self._trace: Trace | None = trace

    @property
    def base_prefill(self) -> BasePrefill:
        """See `MethodContext.base_prefill`."""
        read = super().base_prefill
        if self._trace is not None:
            tokens = self._trace.answers["baseline"].tokens
            if tokens:
                asked = tokens[0].candidates[:CANDIDATES]
                (row,) = self.lm.next_logits(read.state, ids=asked.tolist())
                check_same_weights(self._trace, row)
            self._trace = None
        return read


def check_same_weights(trace: Trace, row: NextTokenLogits) -> None:
    """Compares the baseline's first token. row: given the video, of the model at hand.

    Raises OptionError where their best candidates differ by more than `TOLERANCE` on average.
    """
    first = trace.answers["baseline"].tokens[0]
    stored = first.base[:CANDIDATES].astype(np.float64)
    logits = row.among(first.candidates[:CANDIDATES]).values
    difference = float(np.abs(logits - stored).mean())
    if not difference <= TOLERANCE:
        raise OptionError(
            f"{trace.backbone.name} has other weights here than the ones that made this trace: "
            f"its logits differ by {difference:.1f} on average",
            "Run the clip again with these weights, or open the trace with those that made it",
        )
