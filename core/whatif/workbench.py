"""What if: changes made by hand to a finished trace, and only what they invalidate is run again.

Works on traces: the frames in one are what the backbone saw, so the video itself is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from core.backbones.base import VideoLM, to_pixels
from core.decoding.loop import TwoViewBatch, answer, continue_decoding, redecode, scores
from core.decoding.search import find_answer
from core.errors import OptionError
from core.masking.ascent import finalize_ascent
from core.methods.base import MethodContext
from core.options import ContrastOptions, RunOptions, recorded_options
from core.pipeline import Event, with_losses
from core.types import Answer, AscentStep, Counterfactual, TokenStep, Trace, Track
from core.whatif.edits import (
    KINDS,
    MAX_EDITS,
    Edit,
    check_changeable,
    check_frame_mask,
    edited_tracks,
    read_edit,
    read_edits,
)
from core.whatif.occlusion import measure

__all__ = ["KINDS", "Edit", "Workbench", "edited_tracks", "read_edit", "read_edits"]


class Workbench:
    """A trace with the model that made it, ready for changes; keeps prefills and caches.

    Raises OptionError where the trace was not finished or its options cannot be read.
    """

    def __init__(self, trace: Trace, lm: VideoLM) -> None:
        check_changeable(trace)
        assert trace.model_frames is not None
        self.lm, self.trace = lm, trace
        self.options: RunOptions = recorded_options(trace.options)
        self.encoded = lm.encode_frames(trace.model_frames, trace.question)
        if self.encoded.prompt != trace.backbone.get("prompt", self.encoded.prompt):
            raise OptionError(
                f"{lm.info.name} reads this question in another prompt than the trace holds",
                "Choose the backbone that made the trace",
            )
        self.case = MethodContext(lm, self.encoded, trace.tracks, self.options)
        self._pair: TwoViewBatch | None = None

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
            self.case = MethodContext(self.lm, self.encoded, tracks, self.options)
            self.case.seed_cache("base prefill", None, former.read)
            yield from self._ascend_again(now)

    def _ascend_again(self, trace: Trace) -> Iterator[Event]:
        chosen = self.options.ascent
        none = np.zeros(0)
        found = Counterfactual(none, none, none, none, none, none)
        steps: list[AscentStep] = []
        for step in self.case.ascent_steps(self.options.mask, chosen):
            steps.append(step)
            found = finalize_ascent(step, chosen)
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
        self._pair = TwoViewBatch(self.lm, base, counter)
        kept = {"baseline": trace.answers["baseline"]}
        search, contrast = self.options.decode, self.options.contrast
        if search.search in ("beam", "vote"):
            said = find_answer(self.lm, "macd", base, counter, contrast, search)
        else:
            steps: list[TokenStep] = []
            for step in continue_decoding(self._pair, contrast, search):
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
            changed = replace(steps[kept], token=token, text=self.lm.token_text(token))
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

    def _standing_pair(self) -> TwoViewBatch:
        """Both views' caches with the present answer in them; made once, then only cropped."""
        tokens = [s.token for s in self.trace.answers["macd"].tokens]
        if self._pair is None:
            found = self.trace.counterfactual
            assert found is not None
            view = self.case.masked(self.options.mask)
            groups = len(self.trace.groups)
            frame_level = found.frame_level if len(found.frame_level) else np.zeros(groups)
            counter, _ = self.case.prefill_levels(view, found.level, frame_level)
            self._pair = TwoViewBatch(self.lm, self.case.base, counter)
            for token in tokens:
                if token not in self.lm.end_tokens:
                    self._pair.step([token])
        return self._pair

    def ledger(self) -> Trace:
        """The trace with its causal ledger; see `core.whatif.occlusion`."""
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
    check_frame_mask(trace)
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
