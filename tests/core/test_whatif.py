"""Changes by hand, against doing it all from the start with the same masks."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.evidence.run import evidence_events
from macd_studio.core.options import ContrastOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import LOST
from macd_studio.core.whatif.workbench import Edit, Workbench, edited_tracks, read_edit, read_edits
from tests.core.test_workbench import moved
from tests.families import tiny

QUESTION = "What is in the video?"


@pytest.fixture(scope="module")
def trace(toy_mp4, toyworld, toy_detector):
    *_, last = run(toy_mp4, QUESTION, lambda: toyworld, lambda: toy_detector)
    assert len(last.trace.tracks) == 2
    return last.trace


@pytest.fixture
def bench(trace, toyworld):
    return Workbench(trace, toyworld)


def changed(bench, **edit):
    *_, last = bench.change(Edit(**edit))
    return last.trace


def tokens(trace, method="macd"):
    return [t.token for t in trace.answers[method].tokens]


def test_the_head_stays_when_decoding_on(trace, toyworld):
    raw = replace(trace.options, contrast=ContrastOptions(1.0, 0.5, "raw"))
    bench = Workbench(replace(trace, options=raw), toyworld)
    assert bench.redecode(2.0, 0.5).answers["macd"].head == "raw"


def test_edits_that_follow_one_another_are_checked_in_that_order(trace):
    first, second = (t.id for t in trace.tracks)
    drop = {"kind": "drop", "track": first}
    add = {"kind": "add", "label": "drawn", "box": [0.1, 0.1, 0.4, 0.4]}
    level = {"kind": "level", "track": second + 1, "level": 1}
    assert [e.kind for e in read_edits([drop, add, level], trace)] == ["drop", "add", "level"]
    with pytest.raises(OptionError, match=f"Choose one of {second} "):
        read_edits([drop, {"kind": "level", "track": first, "level": 1}], trace)
    with pytest.raises(OptionError, match=r"no frame group 4.*from 0 to 3"):
        read_edits([{"kind": "frames", "track": 4, "level": 1}], trace)


def test_merged_tracks_cover_both(trace):
    a, b = trace.tracks
    (one,) = edited_tracks(trace, Edit("merge", track=a.id, other=b.id))
    for t in range(8):
        both = [x.boxes[t] for x in (a, b) if x.state[t] != LOST]
        np.testing.assert_allclose(one.boxes[t, :2], np.min(both, 0)[:2])
        np.testing.assert_allclose(one.boxes[t, 2:], np.max(both, 0)[2:])


def test_a_brushed_trace_survives_a_file(bench, trace):
    box = trace.tracks[0].boxes[0]
    middle = (float(box[0] + box[2]) / 2, float(box[1] + box[3]) / 2)
    edit = {
        "kind": "brush", "track": trace.tracks[0].id, "frame": 0,
        "points": [list(middle)], "radius": 0.1, "erase": True,
    }  # fmt: skip
    *_, last = bench.change(read_edit(edit, trace))
    out = unpack(pack(last.trace))
    np.testing.assert_allclose(out.tracks[0].brush[0].points, [[0.5, 0.5]], atol=1e-5)
    assert out.tracks[0].brush[0].erase
    assert not np.array_equal(last.trace.steps[0].gradient, trace.steps[0].gradient)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        {"kind": "explode"},
        {"kind": "level", "track": 1, "level": 2},
        {"kind": "level", "track": 1, "level": float("nan")},
        {"kind": "level", "track": 99, "level": 1},
        {"kind": "level", "track": True, "level": 1},
        {"kind": "drop", "track": "1"},
        {"kind": "merge", "track": 1, "other": 1},
        {"kind": "label", "track": 1, "label": ""},
        {"kind": "label", "track": 1, "label": "a\nb"},
        {"kind": "label", "track": 1, "label": "x" * 61},
        {"kind": "brush", "track": 1, "frame": 99, "points": [[0, 0]], "radius": 0.1},
        {"kind": "brush", "track": 1, "frame": 0, "points": [], "radius": 0.1},
        {"kind": "brush", "track": 1, "frame": 0, "points": [["0", 0]], "radius": 0.1},
        {"kind": "brush", "track": 1, "frame": 0, "points": [[0, 0]] * 500, "radius": 0.1},
        {"kind": "add", "box": [0.5, 0.5, 0.5, 0.5]},
        {"kind": "add", "box": [0, 0, 2, 1]},
        {"kind": "add", "box": "0011"},
    ],
)
def test_changes_that_do_not_fit_are_refused(trace, raw):
    with pytest.raises(OptionError):
        read_edit(raw, trace)


def test_another_backbone_is_told(trace):
    with pytest.raises(OptionError, match="cannot read frames of 96×96"):
        Workbench(trace, tiny("internvl"))


def test_other_weights_of_the_same_name_are_refused(trace, toyworld):
    bench = Workbench(moved(trace, 2.0), toyworld)
    track = trace.tracks[0].id
    for change in (
        lambda: changed(bench, kind="level", track=track, level=0.5),
        lambda: changed(bench, kind="drop", track=track),
        bench.measure_controls,
        bench.measure_occlusion,
        lambda: list(evidence_events(bench, EvidenceOptions(kinds=("gradient",)))),
    ):
        with pytest.raises(OptionError, match=r"differ by 2\.0 .*"):
            change()
    assert bench.trace.edits == ()
    assert changed(bench, kind="label", track=track, label="wolf").tracks[0].label == "wolf"


def test_an_id_is_never_used_twice(bench, trace):
    last = trace.tracks[-1].id
    changed(bench, kind="level", track=last, level=0.4)
    changed(bench, kind="drop", track=last)
    out = changed(bench, kind="add", label="drawn", box=(0.1, 0.1, 0.4, 0.4))
    new = out.tracks[-1]
    assert new.id > last
    margin = out.counterfactual.margin[-1]
    assert out.counterfactual.level[-1] == (1.0 if margin > 0 else 0.0)


def test_nothing_left_to_mask_can_still_be_shown(trace, toyworld):
    from macd_studio.core.options import MaskOptions
    from macd_studio.core.report.summary import as_json, as_text

    off = MaskOptions(frame_mask="off")
    plain = replace(trace.options, mask=off)
    bench = Workbench(replace(trace, options=plain, mask=off), toyworld)
    for t in trace.tracks:
        out = changed(bench, kind="drop", track=t.id)
    assert as_json(out)["strengths"] == []
    assert as_text(out)
    assert unpack(pack(out)).tracks == ()
