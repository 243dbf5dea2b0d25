"""Changes by hand, against doing it all from the start with the same masks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.evidence.run import evidence_events
from macd_studio.core.macd import loss_of
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.options import AscentOptions, ContrastOptions, RunOptions, options_from
from macd_studio.core.run.pipeline import run
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import LOST, SEEN, Stroke, Track
from macd_studio.core.views.second_view import fixed_view, masked_view
from macd_studio.core.whatif.occlusion import measure
from macd_studio.core.whatif.workbench import Edit, Workbench, edited_tracks, read_edit, read_edits
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


def test_a_trace_holds_all_that_a_change_needs(trace, toyworld):
    again = Workbench(unpack(pack(trace)), toyworld)
    first = trace.tracks[0].id
    mine, theirs = (
        changed(b, kind="level", track=first, level=1.0)
        for b in (Workbench(trace, toyworld), again)
    )
    assert tokens(mine) == tokens(theirs)
    assert mine.counterfactual.loss == pytest.approx(theirs.counterfactual.loss, abs=1e-6)
    assert mine.counterfactual.base_loss == pytest.approx(trace.counterfactual.base_loss, abs=1e-5)


def test_a_level_by_hand_is_the_view_with_that_level(bench, trace):
    first = trace.tracks[0].id
    out = changed(bench, kind="level", track=first, level=0.0)
    assert out.counterfactual.level[0] == 0
    np.testing.assert_array_equal(out.counterfactual.level[1:], trace.counterfactual.level[1:])
    state = masked_view(bench.context, out.counterfactual, bench.options.mask).state
    expected = float(loss_of(state.query_logits[0], bench.encoded))
    assert out.counterfactual.loss == pytest.approx(expected, abs=1e-6)
    assert out.steps == trace.steps
    assert tokens(out, "baseline") == tokens(trace, "baseline")


@pytest.mark.parametrize("kind", ["level", "frames"])
def test_a_level_that_is_so_already_is_no_edit(bench, trace, kind):
    changed(bench, kind="level", track=trace.tracks[1].id, level=0.4)
    before = bench.measure_occlusion()
    found = before.counterfactual
    place, levels = (trace.tracks[0].id, found.level) if kind == "level" else (0, found.frame_level)
    (event,) = bench.change(Edit(kind, track=place, level=float(levels[0])))
    assert "already" in event.message
    assert event.trace is before
    assert bench.trace is before
    other = changed(bench, kind=kind, track=place, level=float(levels[0]) - 0.125)
    assert len(other.edits) == 2


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


def test_dropping_every_object_leaves_the_frame_mask(bench, trace):
    for t in trace.tracks:
        out = changed(bench, kind="drop", track=t.id)
    assert out.tracks == ()
    assert len(out.counterfactual.level) == 0
    assert len(out.counterfactual.frame_level) == len(trace.groups)
    assert [edit.kind for edit in out.edits] == ["drop", "drop"]


def test_a_new_ascent_equals_a_run_with_those_tracks(bench, trace, toyworld):
    out = changed(bench, kind="drop", track=trace.tracks[1].id)
    fresh = Workbench(replace(trace, tracks=trace.tracks[:1]), toyworld)
    view = fresh.context.masks(fresh.options.mask)
    assert len(view.objects) == 1
    (step,) = fresh.context.ascent(fresh.options.mask)
    np.testing.assert_allclose(out.steps[-1].gradient, step.gradient, atol=1e-9)


def test_levels_by_hand_survive_a_new_ascent(bench, trace):
    first, second = (t.id for t in trace.tracks)
    changed(bench, kind="level", track=first, level=0.25)
    out = changed(bench, kind="drop", track=second)
    assert out.counterfactual.level.tolist() == [0.25]


def test_a_new_name_costs_nothing(bench, trace):
    events = list(bench.change(Edit("label", track=trace.tracks[0].id, label="wolf")))
    assert [e.stage for e in events] == ["done"]
    assert events[0].trace.tracks[0].label == "wolf"
    assert events[0].trace.answers == trace.answers


def test_merged_tracks_cover_both(trace):
    a, b = trace.tracks
    (one,) = edited_tracks(trace, Edit("merge", track=a.id, other=b.id))
    for t in range(8):
        both = [x.boxes[t] for x in (a, b) if x.state[t] != LOST]
        np.testing.assert_allclose(one.boxes[t, :2], np.min(both, 0)[:2])
        np.testing.assert_allclose(one.boxes[t, 2:], np.max(both, 0)[2:])


def test_a_drawn_object_is_masked_and_stays(bench, trace):
    out = changed(bench, kind="add", label="drawn", box=(0.1, 0.1, 0.4, 0.4))
    assert [t.label for t in out.tracks][-1] == "drawn"
    assert len(out.steps[0].gradient) == 3
    assert unpack(pack(out)).tracks[-1].label == "drawn"


def test_a_brush_moves_with_its_object():
    boxes = np.array([[0.1, 0.4, 0.3, 0.6], [0.5, 0.4, 0.7, 0.6]], np.float32)
    points = np.array([[1.5, 0.5]], np.float32)  # right of the box by half its width
    for erase in (False, True):
        stroke = Stroke(points if not erase else np.array([[0.5, 0.5]], np.float32), 0.08, erase)
        track = Track(1, "dog", 0.9, boxes, np.full(2, SEEN, np.int8), 2, (stroke,))
        plain = draw_masks([replace(track, brush=())], 2, (100, 100)).objects[0]
        mask = draw_masks([track], 2, (100, 100)).objects[0]
        for t, x in enumerate((0.4, 0.8) if not erase else (0.2, 0.6)):
            at = mask[t, 50, int(100 * x)], plain[t, 50, int(100 * x)]
            assert at[0] > at[1] + 0.8 if not erase else at[0] < at[1] - 0.8
        assert mask.min() >= 0
        assert mask.max() <= 1


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


def test_decoding_on_equals_decoding_from_the_start(bench, trace, toyworld):
    for alpha, beta in ((0.0, 0.1), (4.0, 0.0), (8.0, 0.0), (1.0, 0.1)):
        again = bench.redecode(alpha, beta)
        options = replace(trace.options, contrast=ContrastOptions(alpha, beta))
        whole = Workbench(replace(trace, options=options), toyworld)
        first, level = trace.tracks[0].id, float(trace.counterfactual.level[0])
        changed(whole, kind="level", track=first, level=0.4)
        expected = changed(whole, kind="level", track=first, level=level)
        assert tokens(again) == tokens(expected), alpha
        assert again.answers["macd"].alpha == alpha
        if alpha == 0:
            assert tokens(again) == tokens(trace, "baseline")
    for a, b in zip(again.answers["macd"].tokens, trace.answers["macd"].tokens, strict=True):
        np.testing.assert_allclose(a.base, b.base, atol=1e-4)


def test_the_occlusion_report_measures_each_object_alone(bench, trace):
    made = bench.measure_occlusion().occlusion
    base = bench.context.base
    said = tokens(trace, "baseline")
    for k in range(len(trace.tracks)):
        state = fixed_view(bench.context, np.eye(len(trace.tracks))[k]).state
        loss = float(loss_of(state.query_logits[0], bench.encoded))
        own = float(loss_of(base.query_logits[0], bench.encoded))
        assert made.loss_change[k] == pytest.approx(loss - own, abs=1e-5)
        first = torch.log_softmax(torch.cat([state.logits, base.logits]).double(), -1)[:, said[0]]
        assert made.token_change[k, 0] == pytest.approx(float(first[0] - first[1]), abs=1e-5)
    assert made.token_change.shape == (len(trace.tracks), len(said))
    np.testing.assert_allclose(made.gradient, trace.steps[0].gradient)
    again = unpack(pack(bench.trace)).occlusion
    np.testing.assert_allclose(again.odds_change, made.odds_change)
    assert again.verdict == made.verdict


def test_hiding_nothing_changes_nothing(bench):
    view = bench.context.masks(bench.options.mask)
    empty = replace(view, objects=torch.zeros_like(view.objects))
    said = tokens(bench.trace, "baseline")
    made = measure(bench.lm, empty, bench.context.base, said, np.array([1.0, -1.0]), np.zeros(2))
    np.testing.assert_allclose(made.loss_change, 0, atol=1e-5)
    np.testing.assert_allclose(made.token_change, 0, atol=1e-4)


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


def test_options_come_back_from_a_trace():
    options = RunOptions(ascent=AscentOptions(steps=3), contrast=ContrastOptions(2.6, 0.0036))
    assert options_from(options.as_dict()) == options
    assert options_from({}) == RunOptions()
    for broken in ({"ascent": {"steps": -1}}, {"ascent": {"magic": 1}}, {"contrast": 3}):
        with pytest.raises(OptionError):
            options_from(broken)


def test_an_unfinished_run_cannot_be_changed(trace, toyworld):
    with pytest.raises(OptionError, match="not finished"):
        Workbench(replace(trace, answers={}), toyworld)


def test_another_backbone_is_told(trace, toyworld):
    with pytest.raises(OptionError, match="cannot read frames of 96×96"):
        Workbench(trace, tiny("internvl"))
    other = replace(trace, backbone=replace(trace.backbone, prompt="Something else"))
    with pytest.raises(OptionError, match="another prompt"):
        Workbench(other, toyworld)


def moved_logits(trace, by):
    """The trace as other weights would have made it: its first logits moved up and down."""
    baseline = trace.answers["baseline"]
    first = baseline.tokens[0]
    signs = np.where(np.arange(len(first.base)) % 2, -1, 1).astype(np.float32)
    first = replace(first, base=first.base + by * signs)
    baseline = replace(baseline, tokens=(first, *baseline.tokens[1:]))
    return replace(trace, answers=trace.answers | {"baseline": baseline})


def test_other_weights_of_the_same_name_are_refused(trace, toyworld):
    bench = Workbench(moved_logits(trace, 2.0), toyworld)
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


def test_rounding_is_no_other_model(trace, toyworld):
    bench = Workbench(moved_logits(trace, 0.3), toyworld)
    out = changed(bench, kind="level", track=trace.tracks[0].id, level=0.5)
    assert len(out.edits) == 1


def test_a_change_that_fails_is_taken_back(bench, trace, monkeypatch):
    from macd_studio.core.errors import BlindGradient

    def blind(*_):
        raise BlindGradient("no mask changes the query loss at all", "x")

    monkeypatch.setattr("macd_studio.core.views.context.ascend", blind)
    with pytest.raises(BlindGradient):
        changed(bench, kind="drop", track=trace.tracks[0].id)
    monkeypatch.undo()
    assert bench.trace is trace
    assert bench.context.tracks == trace.tracks
    first = trace.tracks[0].id
    fresh = Workbench(trace, bench.lm)
    mine, theirs = (changed(b, kind="level", track=first, level=0.5) for b in (bench, fresh))
    assert mine.counterfactual.loss == theirs.counterfactual.loss


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
