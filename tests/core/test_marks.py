"""Other choices on the choice map: by measured effects, by what is enough, and what is asked."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.measurements import ChoiceMap, Enough, Given, Piece, Smallest, Subset, Target
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.views.measured import measured_changes
from macd_studio.core.whatif.verdict import asked_objects, map_as_text, marks_of
from macd_studio.core.whatif.workbench import Workbench
from tests.small_trace import small_trace


def with_map(trace, measured=(), objects=None):
    ids = tuple(t.id for t in trace.tracks)
    one = Subset(ids[:1], False, True, 1.0, "a", "b")
    found = ChoiceMap(0, objects or ids, (), (one,), one, 1.0, measured)
    return replace(trace, choice_map=found)


def removing(trace, *pieces):
    """What is enough of a trace, where removing these pieces changes the answer."""
    rest = Piece(None, None, (0, len(trace.groups) - 1))
    given = Given((0,), "no", True, 0.5, 1.0)
    removed = Smallest(tuple(range(len(pieces))), len(pieces), 1, given)
    target = Target("baseline", 0, 1, "no", None, None)
    return Enough(target, "token", 0.0, "mean", (*pieces, rest), given, given, None, removed)


def piece(trace, track, first=0):
    return Piece(track, None, (first, len(trace.groups) - 1))


def test_what_the_question_names_is_asked_else_what_is_right():
    trace = small_trace()
    first, second = (replace(t, label=n) for t, n in
                     zip(trace.tracks[:2], ("dog", "traffic light"), strict=True))  # fmt: skip

    def asked(question, truth=""):
        return asked_objects(replace(trace, tracks=(first, second), question=question, truth=truth))

    assert asked("Is there a dog in the video?", "traffic light") == (first.id,)
    assert asked("Where is the Traffic Light?") == (second.id,)
    assert asked("Which animal is it?", "dog") == (first.id,)
    assert asked("Is there a hotdog?") == asked("Is there a cat?", "no") == ()


def test_only_whole_objects_that_were_read_are_points():
    trace = small_trace()
    ids = tuple(t.id for t in trace.tracks[:2])
    assert marks_of(replace(trace, choice_map=None)) == {}
    trace = replace(with_map(trace, measured=ids[:1]), question="Why?", truth="")
    assert marks_of(trace) == {"measured": ids[:1]}
    for pieces, ids_removed in (
        ([piece(trace, ids[0]), piece(trace, ids[1])], ids),
        ([piece(trace, ids[0], first=1)], None),
        ([piece(trace, None)], None),
    ):
        found = marks_of(replace(trace, enough=(removing(trace, *pieces),)))
        assert found.get("enough") == ids_removed
    assert marks_of(with_map(trace, measured=ids[:1], objects=ids[1:])) == {}


@pytest.mark.parametrize("name", ["repaired", "small"])
def test_measured_objects_are_those_that_macd_measured_masks(name, toyworld):
    trace = load(assets() / "examples" / f"{name}.macd")
    change = measured_changes(Workbench(trace, toyworld).context)
    expected = tuple(
        t.id for t, z in zip(trace.tracks, change, strict=True) if z >= change.max() / 2
    )
    assert trace.choice_map.measured == expected
    assert np.count_nonzero(change) > 0
    lines = map_as_text(trace).splitlines()
    assert sum("(measured)" in line for line in lines) == 1
