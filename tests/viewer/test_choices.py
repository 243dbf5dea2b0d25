"""What the page says of a choice map: halves, ranks, MACD's mark, sentence, verdict."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from macd_studio.core.measurements import ChoiceMap, Subset
from macd_studio.core.options import DecodeOptions
from macd_studio.core.records import RECORDED
from macd_studio.core.whatif.verdict import as_text
from macd_studio.viewer import payload
from tests.small_trace import small_trace
from tests.viewer.test_payload import declared


def mapped(framed=True, level=None):
    """A trace with a map whose margins are made up: each subset of two objects, in both halves."""
    trace = small_trace()
    macd = trace.answers["macd"]
    first, *rest = macd.tokens
    macd = replace(macd, tokens=(replace(first, token=-1, text=macd.text), *rest))
    trace = replace(trace, answers=trace.answers | {"macd": macd})
    ids = [t.id for t in trace.tracks][:2]
    levels = trace.counterfactual
    frame_level = np.full_like(levels.frame_level, float(framed))
    level = levels.level if level is None else np.array(level, dtype=levels.level.dtype)
    margins = {(): -1.0, (ids[0],): 0.5, (ids[1],): 2.0, tuple(ids): None}
    subsets = tuple(
        Subset(chosen, frames, flips, None if margin is None else margin - frames, token,
               token if flips else None)
        for frames in ((False, True) if framed else (False,))
        for size in range(3)
        for chosen in combinations(ids, size)
        for margin in (margins[chosen],)
        for flips in (margin is not None and margin - frames > 0,)
        for token in (macd.text if chosen == (ids[1],) else "x",)
    )  # fmt: skip
    found = ChoiceMap(0, tuple(ids), (), subsets, subsets[0], 12.0)
    counterfactual = replace(levels, level=level, frame_level=frame_level)
    return replace(trace, counterfactual=counterfactual, choice_map=found), ids


def test_each_half_has_ranks_a_mark_and_its_sentence():
    trace, ids = mapped()
    level = [float(t.id == ids[0]) for t in trace.tracks]
    trace, ids = mapped(level=level)
    shown = payload(trace)["trace"]
    names = {t.id: f"{t.id} {t.label}" for t in trace.tracks}
    with_mask, without = shown["choices"]["layers"]
    assert (with_mask["frames"], without["frames"]) == (True, False)
    assert with_mask["places"] == [4, 5, 6, 7]
    assert without["places"] == [0, 1, 2, 3]
    # {}, {a}, {b}, {a, b}: the cut leaves the last one nothing, so it is below all others
    assert with_mask["ranks"] == without["ranks"] == [3, 2, 1, 4]
    assert (with_mask["macd"], without["macd"]) == (5, 1)
    assert (with_mask["same"], without["same"]) == ([6], [2])
    rest = f"of 4 subsets change the answer; the strongest change is {{{names[ids[1]]}}}."
    assert with_mask["sentence"] == f"MACD's choice is 2nd of 4; 1 {rest}"
    assert without["sentence"] == f"MACD's choice is 2nd of 4; 2 {rest}"
    assert shown["choices"]["verdict"] == as_text(trace)
    for name, told in (("Choices", shown["choices"]), ("ChoiceLayer", with_mask)):
        assert set(told) == declared()[name][0]
    assert shown["choice_map"]["subsets"][6]["objects"] == [ids[1]]


def test_without_frame_mask_there_is_one_half():
    trace, _ = mapped(framed=False)
    (layer,) = payload(trace)["trace"]["choices"]["layers"]
    assert not layer["frames"]


@pytest.mark.parametrize("change", [
    lambda t: {"tracks": ()},
    lambda t: {"status": "stopped: decode"},
    lambda t: {"counterfactual": None},
    lambda t: {"answers": {"baseline": t.answers["baseline"]}},
    lambda t: {"options": replace(t.options, decode=DecodeOptions(search="beam"))},
    lambda t: {"backbone": replace(t.backbone, family=RECORDED)},
])  # fmt: skip
def test_a_map_is_offered_where_it_can_be_measured(change):
    trace = small_trace()
    trace = replace(trace, options=replace(trace.options, decode=DecodeOptions()))
    shown = payload(trace, costs={"choices": 900.0})["trace"]
    framed = bool(trace.counterfactual.frame_level.any())
    assert shown["choices_views"] == ((1 + framed) << len(trace.tracks)) + len(trace.tracks) + 2
    assert shown["choices_ms"] == 900.0
    assert shown["choices"] is None
    assert payload(replace(trace, **change(trace)))["trace"]["choices_views"] is None
