"""What can be changed of a trace: changes by hand to its tracks, and answers under another α and β.

Imports no torch; what a change invalidates is computed again by `core.whatif.workbench`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import Method, find_method
from macd_studio.core.objects.edits import NEW, kind_of, validated_edit
from macd_studio.core.records import EDIT_FIELDS, Edit
from macd_studio.core.types import LOST, SEEN, Stroke, Trace, Track
from macd_studio.core.validation import Number, shown


def read_edit(raw: Any, trace: Trace) -> Edit:
    """An Edit from untrusted plain values; raises OptionError where it does not fit the trace."""
    kind = kind_of(raw)
    if kind == "frames":
        _check_group(raw.get("track"), len(trace.groups))
    elif kind not in NEW:
        _check_track(raw.get("track"), trace)
    if kind == "merge":
        _check_track(raw.get("other"), trace)
    if kind in ("brush", "point"):
        Number(0, len(trace.frames) - 1, whole=True).read(raw.get("frame"), "frame")
    return validated_edit(raw)


def _check_track(value: Any, trace: Trace) -> None:
    if not _is_one_of(value, [t.id for t in trace.tracks]):
        listed = ", ".join(f"{t.id} ({t.label})" for t in trace.tracks)
        raise OptionError(
            f"there is no object {shown(value)}",
            f"Choose one of {listed}" if listed else "Add one: none is tracked",
        )


def _check_group(value: Any, groups: int) -> None:
    if not _is_one_of(value, range(groups)):
        raise OptionError(
            f"there is no frame group {shown(value)}", f"Choose from 0 to {groups - 1}"
        )


def _is_one_of(value: Any, numbers: Sequence[int]) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in numbers


def read_edits(raws: Sequence[Any], trace: Trace) -> list[Edit]:
    """Changes that follow one another, each checked against the trace as those before leave it.

    Needs no model. Raises OptionError for the first that does not fit.
    """
    edits = []
    for raw in raws:
        edits.append(edit := read_edit(raw, trace))
        if edit.kind == "frames":
            check_frame_mask(trace)
        trace = replace(trace, tracks=edited_tracks(trace, edit), edits=(*trace.edits, edit))
    return edits


def check_changeable(trace: Trace) -> None:
    """Raises OptionError where the trace does not hold what a change starts from.

    Also where no run takes the trace's options, and where another program computed the trace.
    """
    if trace.backbone.is_recorded:
        raise OptionError(
            "another program computed this trace, so no model here can change it",
            "Change it in that program, and record it again",
        )
    check_options(trace)
    if trace.options.lazy:
        raise OptionError(
            "this run was lazy: its second view was read only where a token needed it",
            "Run the clip again without --lazy, then change it",
        )
    if any(answer.thought is not None for answer in trace.answers.values()):
        raise OptionError(
            "each answer of this run has a thought of its own, since thoughts were contrasted",
            "Run the clip again without --contrast-thought, then change it",
        )
    if "baseline" not in trace.answers or trace.counterfactual is None or not trace.groups:
        raise OptionError("this run was not finished", "Run it again, then change it")
    if trace.model_frames is None:
        raise OptionError(
            "this trace does not hold the pixels that the backbone read",
            "Run the clip again to get one that can be changed",
        )


def check_options(trace: Trace) -> None:
    """Raises OptionError where no run here takes the options that the trace was made with."""
    if trace.unknown_options:
        names = [
            f"{part}.{name}" for part, more in trace.unknown_options.items()
            for name in (more if isinstance(more, dict) else [""])
        ]  # fmt: skip
        raise OptionError(
            f"the trace was made with {shown(names[0].rstrip('.'), 80)}, an option that this"
            " version does not know",
            "Change or repeat it with the version that made it",
        )
    trace.options.check_runnable()


def check_frame_mask(trace: Trace) -> None:
    """Raises OptionError where the trace has no frame mask whose levels could be set."""
    if trace.counterfactual is None or not len(trace.counterfactual.frame_level):
        raise OptionError("the frame mask is off", "Turn it on in the settings and run again")


def edited_tracks(trace: Trace, edit: Edit, found: Track | None = None) -> tuple[Track, ...]:
    """The trace's tracks after one change; those it does not touch are the same objects.

    found: what a segmenter found under the points of a change of that kind; without it, one that is
    nowhere seen takes its place, for checking the changes that follow.
    """
    if edit.kind in NEW:
        new = 1 + max(_used_ids(trace), default=0)
        if found is None:
            drawn = edit.kind == "add"
            box = np.array(edit.box if drawn else (np.nan,) * 4, np.float32)
            boxes = np.tile(box, (len(trace.frames), 1))
            state = np.full(len(boxes), SEEN if drawn else LOST, np.int8)
            found = Track(0, "", 1.0, boxes, state, 0)
        return (*trace.tracks, replace(found, id=new, label=edit.label))
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


def edited_levels(trace: Trace) -> tuple[dict[int, float], dict[int, float]]:
    """The levels that were set by hand: of objects by the track's id, of frame groups by index."""
    objects: dict[int, float] = {}
    frames: dict[int, float] = {}
    for edit in trace.edits:
        if edit.kind in ("level", "frames"):
            (objects if edit.kind == "level" else frames)[edit.track] = edit.level
    return objects, frames


def _used_ids(trace: Trace) -> set[int]:
    """Ids of the tracks there are and of those that were dropped or merged away."""
    named = {
        int(getattr(edit, name))
        for edit in trace.edits
        for name in ("track", "other")
        if edit.kind != "frames" and name in EDIT_FIELDS[edit.kind]
    }
    return named | {t.id for t in trace.tracks}


def _merged(a: Track, b: Track) -> Track:
    """One track with the box around both where both are seen; the brush of `a` stays.

    Outlines are dropped: those of two objects are not one outline.
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


def why_not_redecode(trace: Trace, name: str) -> str:
    """The reason why an answer cannot be decoded on; empty where its view and rule can be built.

    >>> import numpy as np
    >>> why_not_redecode(Trace("Is it?", np.zeros((1, 2, 2, 3), np.uint8), np.zeros(1), ()), "vcd")
    "the trace holds no answer of 'vcd'"
    """
    if trace.backbone.is_recorded:
        return "another program computed this answer, so no model here can decode it on"
    answer = trace.answers.get(name)
    if answer is None:
        return f"the trace holds no answer of {shown(name)}"
    if trace.model_frames is None:
        return "the trace does not hold the pixels that the backbone read"
    if trace.options.decode.search != "greedy":
        return "only a greedy answer can be decoded on"
    if not answer.tokens:
        return "this answer holds no tokens"
    if answer.thought is not None:
        return "thoughts were contrasted in this run, so each answer stands on its own"
    if trace.options.lazy:
        return "this run was lazy, so the second view's logits are not known at every token"
    if not answer.tokens[0].others:
        return "this answer has no second view, so α does not change it"
    if answer.rule != "linear":
        return f"only answers of the rule linear are decoded on, and this one is of {answer.rule}"
    if any(token.weights is not None for token in answer.tokens):
        return "its tokens were weighed one by one, so α and β do not say how"
    try:
        method = find_method(name)
    except OptionError:
        return f"no method here is called {shown(name)}, so its second view cannot be built"
    if method.fixed is not None or method.rule != "linear":
        return f"the method {name} is not the one that gave this answer"
    return ""


def redecodable(trace: Trace, name: str) -> Method:
    """The method of an answer that can be decoded on. Raises OptionError with the reason."""
    if why := why_not_redecode(trace, name):
        raise OptionError(why, "Choose another answer, or run the clip with the new α and β")
    return find_method(name)
