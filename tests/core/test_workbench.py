"""The workbench on a small model: each change by hand against a computation of its own."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.evidence.run import evidence_events
from macd_studio.core.macd import finalize_ascent, query_loss
from macd_studio.core.masking.ascent import ascend
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.segment import Sighting
from macd_studio.core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    MaskOptions,
    RunOptions,
)
from macd_studio.core.records import Thought
from macd_studio.core.report.summary import as_json, as_text
from macd_studio.core.run.order import run_method
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.traces.bundle import load, pack, unpack
from macd_studio.core.traces.write import stored_frames
from macd_studio.core.types import LOST, Stroke
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.measured import measured_counterfactual
from macd_studio.core.whatif import workbench
from macd_studio.core.whatif.occlusion import measure
from macd_studio.core.whatif.workbench import (
    Edit,
    TraceContext,
    Workbench,
    check_same_weights,
    edited_tracks,
    read_edit,
    read_edits,
)
from tests.fakes import BoxDetector, ByteLM, clip, segment
from tests.families import tiny

EXAMPLE = assets() / "examples" / "repaired.macd"
QUESTION = "is there a dog?"
OPTIONS = RunOptions(
    mask=MaskOptions(fusion="or"), ascent=AscentOptions(steps=2), decode=DecodeOptions(max_tokens=5)
)


class Blind(ByteLM):
    """The same model without its gradient."""

    capabilities = ByteLM.capabilities - {"gradient"}


def made(lm, options=OPTIONS):
    *_, last = run(clip, QUESTION, lambda: lm, BoxDetector, options)
    return last.trace


@pytest.fixture(scope="module")
def trace():
    return made(ByteLM(5))


@pytest.fixture(scope="module")
def blind_trace():
    return made(Blind(5))


@pytest.fixture
def bench(trace):
    return Workbench(trace, ByteLM(5))


def tokens(trace, method="macd"):
    return [t.token for t in trace.answers[method].tokens]


def changed(bench, kind, **edit):
    *_, last = bench.change(Edit(kind, **edit))
    assert last.trace is bench.trace
    return last.trace


def told(events):
    return [(e.stage, round(e.fraction, 6), e.message) for e in events]


def context_of(trace, lm, tracks=None):
    """A context of the trace's frames that nothing was computed in."""
    encoded = lm.encode_frames(trace.model_frames, trace.question)
    return MethodContext(lm, encoded, trace.tracks if tracks is None else tracks, trace.options)


def answer_of(context, counterfactual):
    """Tokens of MACD's answer where the levels are these."""
    context.counterfactual = lambda *_, **__: counterfactual
    return [t.token for t in run_method(context, METHODS["macd"]).tokens]


def decode_messages(trace, name="macd"):
    """What is told while an answer comes that its length ends: its text after each token."""
    lm, said = ByteLM(5), tokens(trace, name)
    return [
        ("decode", round(n / trace.options.decode.max_tokens, 6), lm.text(said[:n]))
        for n in range(1, len(said) + 1)
    ]


def test_answers_that_do_not_depend_on_masks_stay_where_they_are(trace):
    base = trace.answers["baseline"]
    made = {n: replace(base, method=n) for n in ("vcd", "mask-all", "macd+code", "somebody's")}
    answers = {"baseline": base, **made, "macd": trace.answers["macd"]}
    answers |= {n: replace(base, method=n) for n in ("always-yes", "vcd+code")}
    bench = Workbench(replace(trace, answers=answers), ByteLM(5))
    out = changed(bench, "level", track=trace.tracks[1].id, level=0.25)
    assert list(out.answers) == ["baseline", "vcd", "macd", "always-yes", "vcd+code"]
    same = [n for n in out.answers if out.answers[n] is answers[n]]
    assert same == ["baseline", "vcd", "always-yes", "vcd+code"]


def test_a_level_by_hand_is_one_prefill_and_the_decoding(bench, trace):
    first, second = (t.id for t in trace.tracks)
    assert trace.counterfactual.level[1] != 0.25
    before = replace(trace, controls="controls", occlusion="occlusion", shared={"masks": 1})
    bench.trace = before
    events = list(bench.change(Edit("level", track=second, level=0.25)))
    out = events[-1].trace
    assert out is bench.trace
    expected = np.array([trace.counterfactual.level[0], 0.25])
    assert out.counterfactual.level.tolist() == expected.tolist()
    assert trace.counterfactual.level[1] != 0.25  # the former trace's are left as they were
    np.testing.assert_array_equal(out.counterfactual.frame_level, trace.counterfactual.frame_level)
    assert told(events) == [
        ("views", 0.5, "Reading the counterfactual"), ("views", 1.0, "Both views read"),
        *decode_messages(out), ("done", 1.0, "complete"),
    ]  # fmt: skip
    assert events[0].trace.edits == (Edit("level", track=second, level=0.25),)
    assert events[1].trace.counterfactual is out.counterfactual
    assert [len(e.trace.answers["macd"].tokens) for e in events[2:-1]] == [1, 2, 3, 4, 5]
    context = context_of(trace, ByteLM(5))
    masks = context.masks(trace.options.mask)
    video = context.composite(masks, expected, trace.counterfactual.frame_level)
    loss = float(query_loss(context.lm, context.encoded, video))
    assert out.counterfactual.loss == pytest.approx(loss, abs=1e-6)
    assert out.counterfactual.loss != pytest.approx(trace.counterfactual.loss, abs=1e-6)
    assert tokens(out) == answer_of(context, out.counterfactual)
    assert out.steps == trace.steps
    assert list(out.answers) == ["baseline", "macd"]
    assert out.answers["baseline"] is trace.answers["baseline"]
    assert (out.controls, out.occlusion, out.shared) == (None, None, {})
    assert out.status == "complete"
    assert out.tracks == trace.tracks
    assert bench.context.tracks is out.tracks
    assert [t.id for t in bench.context.tracks] == [first, second]


def test_a_frame_level_by_hand_is_that_of_its_group(bench, trace):
    out = changed(bench, "frames", track=1, level=0.25)
    assert out.counterfactual.frame_level.tolist() == [trace.counterfactual.frame_level[0], 0.25]
    assert trace.counterfactual.frame_level[1] != 0.25
    np.testing.assert_array_equal(out.counterfactual.level, trace.counterfactual.level)
    assert tokens(out) == answer_of(context_of(trace, ByteLM(5)), out.counterfactual)
    assert out.answers["macd"].second_views[0].view.frame_level == tuple(
        out.counterfactual.frame_level
    )


def test_frame_levels_need_a_frame_mask(trace):
    off = made(ByteLM(5), replace(OPTIONS, mask=MaskOptions(frame_mask="off")))
    bench = Workbench(off, ByteLM(5))
    with pytest.raises(OptionError, match="the frame mask is off"):
        changed(bench, "frames", track=0, level=1.0)
    assert bench.trace is off


def test_a_level_that_is_so_already_is_said_and_changes_nothing(bench, trace):
    found = trace.counterfactual
    level, frame = float(found.level[1]), float(found.frame_level[1])
    second = trace.tracks[1].id
    (event,) = bench.change(Edit("level", track=second, level=level))
    said = f"object {second} is at level {level:g} already: nothing changed"
    assert told([event]) == [("done", 1.0, said)]
    assert event.trace is trace
    (event,) = bench.change(Edit("frames", track=1, level=frame))
    said = f"frame group 1 is at level {frame:g} already: nothing changed"
    assert told([event]) == [("done", 1.0, said)]
    assert bench.trace is trace
    other = changed(bench, "frames", track=1, level=0.5 * frame + 0.1)
    assert len(other.edits) == 1
    assert bench._is_so_already(Edit("drop", track=second)) is None


def test_a_new_name_costs_nothing(bench, trace):
    first = trace.tracks[0].id
    (event,) = bench.change(Edit("label", track=first, label="wolf"))
    assert told([event]) == [("done", 1.0, "complete")]
    assert [t.label for t in event.trace.tracks] == ["wolf", "ball"]
    assert event.trace.answers is trace.answers
    assert event.trace.edits == (Edit("label", track=first, label="wolf"),)
    assert bench.context.tracks is bench.trace.tracks


def test_a_new_ascent_is_that_of_the_tracks_left(bench, trace):
    base = bench.context.base
    former = bench.context
    first, second = (t.id for t in trace.tracks)
    bench.trace = replace(trace, controls="controls")
    events = list(bench.change(Edit("drop", track=first)))
    out = events[-1].trace
    assert [t.id for t in out.tracks] == [second]
    context = context_of(trace, ByteLM(5), trace.tracks[1:])
    steps = list(ascend(context.lm, context.masks(OPTIONS.mask), OPTIONS.ascent))
    assert len(out.steps) == len(steps) == 2
    for one, other in zip(out.steps, steps, strict=True):
        np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-9)
        assert one.loss == pytest.approx(other.loss, abs=1e-9)
    ended = finalize_ascent(steps[-1], OPTIONS.ascent)
    np.testing.assert_allclose(out.counterfactual.margin, ended.margin, atol=1e-9)
    assert out.counterfactual.level.tolist() == ended.level.tolist()
    assert told(events) == [
        ("ascent", 0.5, f"step 1, loss {steps[0].loss:.3f}"),
        ("ascent", 1.0, f"step 2, loss {steps[1].loss:.3f}"),
        ("views", 1.0, "Both views read"), *decode_messages(out), ("done", 1.0, "complete"),
    ]  # fmt: skip
    assert [len(e.trace.steps) for e in events] == [1, 2, *[2] * (len(events) - 2)]
    for event, step in zip(events[:2], steps, strict=True):
        margin = finalize_ascent(step, OPTIONS.ascent).margin
        np.testing.assert_allclose(event.trace.counterfactual.margin, margin, atol=1e-9)
        assert event.trace.tracks == trace.tracks[1:]
    assert tokens(out) == answer_of(context, out.counterfactual)
    assert (out.controls, out.status) == (None, "complete")
    assert bench.context is not former
    assert bench.context.tracks == trace.tracks[1:]
    assert bench.context.base is base  # the video was not read again
    assert bench._redecoder.context is bench.context


def test_levels_by_hand_stay_after_a_new_ascent(bench, trace):
    first, second = (t.id for t in trace.tracks)
    changed(bench, "level", track=second, level=0.25)
    changed(bench, "frames", track=0, level=0.125)
    out = changed(bench, "drop", track=first)
    assert out.counterfactual.level.tolist() == [0.25]
    assert out.counterfactual.frame_level[0] == 0.125
    ended = finalize_ascent(out.steps[-1], OPTIONS.ascent)
    assert out.counterfactual.frame_level[1] == ended.frame_level[1]
    assert ended.level.tolist() != [0.25]
    added = changed(bench, "add", label="drawn", box=(0.2, 0.6, 0.5, 0.9))
    ended = finalize_ascent(added.steps[-1], OPTIONS.ascent)
    assert added.counterfactual.level.tolist() == [0.25, ended.level[1]]
    assert added.counterfactual.frame_level.tolist() == [0.125, ended.frame_level[1]]
    assert added.answers["macd"].second_views[0].view.level == (0.25, ended.level[1])
    assert tokens(added) == answer_of(
        context_of(trace, ByteLM(5), added.tracks), added.counterfactual
    )


def test_without_a_gradient_levels_are_measured(blind_trace):
    first = blind_trace.tracks[0].id
    assert list(blind_trace.answers) == ["baseline", "macd-measured"]
    bench = Workbench(blind_trace, Blind(5))
    changed(bench, "frames", track=0, level=0.5)
    events = list(bench.change(Edit("drop", track=first)))
    out = events[-1].trace
    expected = measured_counterfactual(context_of(blind_trace, Blind(5), blind_trace.tracks[1:]))
    assert out.counterfactual.level.tolist() == expected.level.tolist()
    assert out.counterfactual.frame_level.tolist() == [0.5, 0.0]
    assert out.steps == ()
    assert list(out.answers) == ["baseline", "macd-measured"]
    assert out.answers["macd-measured"].method == "macd-measured"
    assert told(events[:2]) == [
        ("views", 0.5, "Reading the counterfactual"), ("views", 1.0, "Both views read"),
    ]  # fmt: skip


def test_a_change_that_fails_is_taken_back(bench, trace, monkeypatch):
    changed(bench, "label", track=trace.tracks[0].id, label="wolf")
    before, context = bench.trace, bench.context

    def fails(*_, **__):
        raise ValueError("no ascent")

    monkeypatch.setattr("macd_studio.core.views.context.ascend", fails)
    with pytest.raises(ValueError, match="no ascent"):
        changed(bench, "drop", track=trace.tracks[0].id)
    assert bench.trace is before
    assert bench.context is context
    monkeypatch.setattr(workbench, "macd_events", fails)
    with pytest.raises(ValueError, match="no ascent"):
        changed(bench, "level", track=trace.tracks[0].id, level=0.3)
    assert bench.trace is before
    assert bench.context is context
    assert bench.context.tracks is before.tracks
    assert bench._redecoder.context is context
    assert bench._redecoder._views == {}


def test_the_number_of_changes_is_bounded(bench, trace, monkeypatch):
    monkeypatch.setattr(workbench, "MAX_EDITS", 2)
    first = trace.tracks[0].id
    for label in ("a", "b"):
        changed(bench, "label", track=first, label=label)
    with pytest.raises(OptionError, match="2 changes were made by hand"):
        changed(bench, "label", track=first, label="c")
    assert bench.trace.tracks[0].label == "b"


def test_changes_take_as_long_as_since_they_were_asked_for(bench, trace, monkeypatch):
    now = iter(np.arange(100, 200, 0.25))
    monkeypatch.setattr(workbench, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    out = changed(bench, "level", track=trace.tracks[0].id, level=0.3)
    updates = len(out.answers["macd"].tokens) + 1  # with each token, and at the end
    assert out.answers["macd"].ms == out.answers["macd"].total_ms == 250.0 * updates
    now = iter([7.00014])
    timed = workbench._timed(out.answers["macd"], 5.0)
    assert (timed.ms, timed.total_ms) == (2000.1, 2000.1)


# ---- an object under a point


class Squares:
    """Finds a square that moves right; its library reports something twice."""

    def __init__(self, notes=None, found=True):
        self.found = found
        if notes is not None:
            self.notes = notes

    def segment(self, frames, at, points):
        assert tuple(points) == POINT.points
        for i in [at, *(j for j in range(len(frames)) if j != at)]:
            mask = np.zeros(frames.shape[1:3], bool)
            mask[2:8, 1 + i : 7 + i] = self.found
            logging.getLogger("transformers").warning("a strange mask")
            yield Sighting(i, mask, 0.5)


POINT = Edit("point", frame=1, points=((0.3, 0.3),), label="thing", segmenter="squares")


def test_what_lies_under_a_point_is_followed_and_masked(trace):
    asked = []

    def load(name, frames):
        asked.append((name, frames))
        return Squares(notes=("edges are rough", "old news"))

    cut = replace(trace, warnings=("old news",), clip=replace(trace.clip, cuts=(1.6,)))
    bench = Workbench(cut, ByteLM(5), load)
    events = list(bench.change(POINT))
    out = events[-1].trace
    assert asked == [("squares", 4)]
    assert told(events[:5]) == [
        ("detect", 0.0, "Loading squares"), ("track", 0.0, "Looking at the point"),
        *(("track", round(n / 3, 6), f"Following thing: frame {n} of 3") for n in (1, 2, 3)),
    ]  # fmt: skip
    assert all(e.trace is cut for e in events[:5])
    alone = segment(
        stored_frames(cut), cut.times, 1, POINT.points, Squares(), "thing", (1.6,)
    )  # fmt: skip
    new = out.tracks[-1]
    np.testing.assert_array_equal(new.boxes, alone.boxes)
    assert (new.label, new.id) == ("thing", 1 + max(t.id for t in trace.tracks))
    assert out.warnings[:2] == ("old news", "edges are rough")
    assert all("a strange mask" in one for one in out.warnings[2:])
    assert len(out.warnings) >= 3
    assert out.edits == (POINT,)
    assert len(out.counterfactual.level) == 3


def test_a_segmenter_without_notes_and_a_point_on_nothing(trace):
    bench = Workbench(trace, ByteLM(5), lambda *_: Squares(found=False))
    with pytest.raises(OptionError):
        list(bench.change(POINT))
    assert bench.trace is trace


def test_segmenters_are_loaded_onto_the_model_s_kind_of_device(bench, monkeypatch):
    asked = []

    def load(name, device, frames):
        asked.append((name, device, frames))
        return "a segmenter"

    monkeypatch.setattr(workbench, "load_segmenter", load)
    bench.lm.info = replace(bench.lm.info, device="cuda:1")
    assert bench._segmenter("colours", 7) == "a segmenter"
    bench.lm.info = replace(bench.lm.info, device="cpu")
    bench._segmenter("colours", 1)
    assert asked == [("colours", "cuda", 7), ("colours", "cpu", 1)]


# ---- what is measured on the trace


def test_alpha_and_beta_are_those_of_the_answer_that_is_named(bench, trace, monkeypatch):
    asked = []

    def redecode(trace, name, alpha, beta):
        asked.append((trace, name, alpha, beta))
        return replace(trace, truth=name)

    monkeypatch.setattr(bench._redecoder, "redecode", redecode)
    out = bench.redecode(2.0, 0.3)
    assert out is bench.trace
    assert out.truth == "macd"
    assert bench.redecode(1.0, 0.2, "vcd").truth == "vcd"
    assert [one[1:] for one in asked] == [("macd", 2.0, 0.3), ("vcd", 1.0, 0.2)]
    assert asked[0][0] is trace


def test_decoding_on_goes_on_from_the_changed_answer(bench, trace):
    """From the caches that the change left, against a bench that reads both views anew."""
    changed(bench, "level", track=trace.tracks[0].id, level=0.3)
    kept = bench._redecoder._views
    assert list(kept) == ["macd"]
    anew = Workbench(bench.trace, ByteLM(5))
    mine, theirs = (b.redecode(9.0, 0.0).answers["macd"] for b in (bench, anew))
    assert [t.token for t in mine.tokens] == [t.token for t in theirs.tokens]
    assert bench.options.contrast.alpha == 9.0
    assert bench.options is bench.trace.options


def test_controls_are_measured_on_the_present_trace(bench, trace, monkeypatch):
    asked = []
    monkeypatch.setattr(workbench, "measure_controls", lambda *a: asked.append(a) or "report")
    out = bench.measure_controls(7)
    assert out is bench.trace
    assert out.controls == "report"
    bench.measure_controls()
    assert [one[-1] for one in asked] == [7, workbench.RANDOM_MASKS]
    context, steps, found, baseline, macd, _ = asked[0]
    assert context is bench.context
    assert steps is trace.steps
    assert found is trace.counterfactual
    assert (baseline, macd) == (trace.answers["baseline"], trace.answers["macd"])


def test_the_choice_map_comes_in_batches(bench, trace):
    events = list(bench.choice_events())
    *reading, done = events
    reads = [e.message.split() for e in reading]
    assert all(words[1::2] == ["of", "subsets"] for words in (m[:4] for m in reads))
    for event, words in zip(reading, reads, strict=True):
        assert event.stage == "views"
        assert event.fraction == int(words[0]) / int(words[2])
        assert event.message == f"{words[0]} of {words[2]} subsets read"
        assert event.trace is trace
    assert reading[-1].fraction == 1.0
    assert told([done]) == [("done", 1.0, "complete")]
    assert done.trace is bench.trace
    assert len(done.trace.choice_map.subsets) == 8
    fresh = Workbench(trace, ByteLM(5))
    with pytest.raises(Cancelled):
        list(fresh.choice_events(lambda: True))
    assert fresh.trace is trace


@pytest.mark.parametrize("steps", [True, False])
def test_the_occlusion_report_is_that_of_the_present_levels(trace, steps):
    trace = trace if steps else replace(trace, steps=())
    bench = Workbench(trace, ByteLM(5))
    out = bench.measure_occlusion()
    assert out is bench.trace
    context = context_of(trace, ByteLM(5))
    gradient = trace.steps[0].gradient if steps else np.zeros(2)
    expected = measure(
        context.lm, context.masks(OPTIONS.mask), context.base, tokens(trace, "baseline"),
        gradient, trace.counterfactual.level,
    )  # fmt: skip
    for name in ("loss_change", "token_change", "gradient"):
        np.testing.assert_allclose(getattr(out.occlusion, name), getattr(expected, name))
    assert out.occlusion.verdict == expected.verdict


# ---- what a bench starts from


def test_a_bench_reads_the_trace_s_frames_and_question(trace):
    asked = []

    class Asked(ByteLM):
        def reading(self, picture):
            asked.append(picture)
            return self

        def with_thought(self, encoded, tokens):
            asked.append(tuple(tokens))
            return encoded

    bench = Workbench(trace, Asked(5))
    assert asked == [False]
    assert isinstance(bench.lm, Asked)
    assert (bench.context.lm, bench.context.encoded) == (bench.lm, bench.encoded)
    assert bench.encoded.frames is trace.model_frames
    assert bench.encoded.question == QUESTION
    assert bench.options is trace.options
    Workbench(replace(trace, thought=Thought("hm", (1, 2))), Asked(5))
    assert asked == [False, False, (1, 2)]


def test_another_reader_may_stand_in_for_a_picture(trace):
    other = ByteLM(5)

    class Both(ByteLM):
        def reading(self, picture):
            return other

    assert Workbench(trace, Both(1)).lm is other


def test_what_cannot_be_changed_is_told(trace):
    with pytest.raises(OptionError, match="not finished"):
        Workbench(replace(trace, answers={}), ByteLM(5))
    another = replace(trace, backbone=replace(trace.backbone, prompt="Something else"))
    with pytest.raises(OptionError, match="bytes reads this question in another prompt"):
        Workbench(another, ByteLM(5))


def moved(trace, by, at=slice(None)):
    """The trace as other weights would have made it: logits of its first token moved by so much."""
    baseline = trace.answers["baseline"]
    first = baseline.tokens[0]
    base = first.base.copy()
    base[at] += by
    baseline = replace(baseline, tokens=(replace(first, base=base), *baseline.tokens[1:]))
    return replace(trace, answers=trace.answers | {"baseline": baseline})


def test_other_weights_are_found_out_at_the_first_read(trace):
    bench = Workbench(moved(trace, 2.0), ByteLM(5))
    for _ in range(2):
        with pytest.raises(OptionError, match=r"bytes has other weights .* differ by 2\.0 on"):
            bench.check_weights()
    Workbench(moved(trace, -0.7), ByteLM(5)).check_weights()
    with pytest.raises(OptionError, match=r"differ by 0\.8"):
        Workbench(moved(trace, -0.8), ByteLM(5)).check_weights()
    none = replace(trace.answers["baseline"], tokens=())
    Workbench(replace(trace, answers=trace.answers | {"baseline": none}), ByteLM(5)).check_weights()


def test_only_the_best_candidates_are_compared_and_once(trace):
    asked = []

    class Asked(ByteLM):
        def next_logits(self, views, tokens=(), ids=()):
            asked.append(list(ids))
            return super().next_logits(views, tokens, ids)

    first = trace.answers["baseline"].tokens[0]
    assert len(first.candidates) > 10
    context = TraceContext(moved(trace, 100.0, slice(10, None)), lm := Asked(5),
                           lm.encode_frames(trace.model_frames, QUESTION))  # fmt: skip
    assert context.tracks == trace.tracks
    assert context.options is trace.options
    assert context.base_prefill is context.base_prefill
    assert asked == [first.candidates[:10].tolist()]


def test_the_mean_difference_may_be_three_quarters(trace):
    """Of the best ten, whatever their order in the row; more, or no number, is another model."""
    first = trace.answers["baseline"].tokens[0]
    ids, logits = first.candidates[:10], first.base[:10].astype(np.float64)

    def row(by):
        order = np.argsort(ids)
        return NextTokenLogits((logits + by)[order], ids[order], -np.inf, 0.0)

    check_same_weights(trace, row(0.75))
    check_same_weights(trace, row(-0.75))
    check_same_weights(trace, row(np.array([7.5] + [0.0] * 9)))
    for by in (0.76, -0.76, np.array([7.6] + [0.0] * 9), np.nan):
        with pytest.raises(OptionError, match="has other weights here"):
            check_same_weights(trace, row(by))


def test_a_brushed_mask_is_the_one_that_is_read(bench, trace):
    first = trace.tracks[0]
    edit = Edit("brush", track=first.id, frame=0, points=((0.25, 0.25),), radius=0.1, erase=True)
    out = changed(bench, "brush", **{n: getattr(edit, n) for n in ("track", "frame", "points",
                                                                  "radius", "erase")})  # fmt: skip
    assert isinstance(out.tracks[0].brush[0], Stroke)
    own = draw_masks(out.tracks, 4, (16, 16), OPTIONS.mask).objects
    held = bench.context.masks(OPTIONS.mask).objects
    np.testing.assert_allclose(held.numpy(), own, atol=1e-6)
    assert not np.allclose(own, draw_masks(trace.tracks, 4, (16, 16), OPTIONS.mask).objects)
    assert not np.array_equal(out.steps[0].gradient, trace.steps[0].gradient)
    (stroke,) = unpack(pack(out)).tracks[0].brush
    assert (stroke.radius, stroke.erase) == (pytest.approx(0.1), True)
    np.testing.assert_allclose(stroke.points, out.tracks[0].brush[0].points, atol=1e-5)


def test_where_nothing_is_left_to_mask_there_is_no_step():
    off = made(ByteLM(5), replace(OPTIONS, mask=MaskOptions(frame_mask="off")))
    bench = Workbench(replace(off, status="stopped: decode"), ByteLM(5))
    for track in off.tracks:
        out = changed(bench, "drop", track=track.id)
    assert (out.tracks, out.steps, out.status) == ((), (), "complete")
    assert out.counterfactual.level.shape == (0,)
    assert tokens(out) == tokens(out, "baseline")
    assert as_json(out)["strengths"] == []
    assert as_text(out)
    assert unpack(pack(out)).tracks == ()


# ---- changes as they come from outside


def test_the_head_stays_when_decoding_on(trace):
    raw = replace(trace.options, contrast=ContrastOptions(1.0, 0.5, "raw"))
    bench = Workbench(replace(trace, options=raw), ByteLM(5))
    assert bench.redecode(2.0, 0.5).answers["macd"].head == "raw"


def test_edits_that_follow_one_another_are_checked_in_that_order(trace):
    first, second = (t.id for t in trace.tracks)
    drop = {"kind": "drop", "track": first}
    add = {"kind": "add", "label": "drawn", "box": [0.1, 0.1, 0.4, 0.4]}
    level = {"kind": "level", "track": second + 1, "level": 1}
    assert [e.kind for e in read_edits([drop, add, level], trace)] == ["drop", "add", "level"]
    with pytest.raises(OptionError, match=f"Choose one of {second} "):
        read_edits([drop, {"kind": "level", "track": first, "level": 1}], trace)
    with pytest.raises(OptionError, match=r"no frame group 4.*from 0 to 1"):
        read_edits([{"kind": "frames", "track": 4, "level": 1}], trace)


def test_merged_tracks_cover_both(trace):
    a, b = trace.tracks
    (one,) = edited_tracks(trace, Edit("merge", track=a.id, other=b.id))
    for t in range(len(trace.times)):
        both = [x.boxes[t] for x in (a, b) if x.state[t] != LOST]
        np.testing.assert_allclose(one.boxes[t, :2], np.min(both, 0)[:2])
        np.testing.assert_allclose(one.boxes[t, 2:], np.max(both, 0)[2:])


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


def test_a_backbone_that_cannot_read_the_frames_is_told(trace):
    with pytest.raises(OptionError, match="cannot read frames of 16×16"):
        Workbench(trace, tiny("internvl"))


def test_other_weights_of_the_same_name_are_refused(trace, toyworld):
    bench = Workbench(moved(trace, 2.0), ByteLM(5))
    other = Workbench(moved(load(EXAMPLE), 2.0), toyworld)  # of which evidence can be measured
    track = trace.tracks[0].id
    for change in (
        lambda: changed(bench, "level", track=track, level=0.5),
        lambda: changed(bench, "drop", track=track),
        bench.measure_controls,
        bench.measure_occlusion,
        lambda: list(evidence_events(other, EvidenceOptions(kinds=("gradient",)))),
    ):
        with pytest.raises(OptionError, match=r"differ by 2\.0 .*"):
            change()
    assert bench.trace.edits == ()
    assert changed(bench, "label", track=track, label="wolf").tracks[0].label == "wolf"


def test_an_id_is_never_used_twice(bench, trace):
    last = trace.tracks[-1].id
    changed(bench, "level", track=last, level=0.4)
    changed(bench, "drop", track=last)
    out = changed(bench, "add", label="drawn", box=(0.1, 0.1, 0.4, 0.4))
    new = out.tracks[-1]
    assert new.id > last
    margin = out.counterfactual.margin[-1]
    assert out.counterfactual.level[-1] == (1.0 if margin > 0 else 0.0)
