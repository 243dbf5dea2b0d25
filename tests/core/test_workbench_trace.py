"""What a workbench starts from, and what it measures on its trace, on a small model."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.options import MaskOptions
from macd_studio.core.records import Thought
from macd_studio.core.rows import Row
from macd_studio.core.types import Stroke
from macd_studio.core.whatif import workbench
from macd_studio.core.whatif.occlusion import measure
from macd_studio.core.whatif.workbench import Edit, TraceContext, Workbench, check_same_weights
from tests.core.test_workbench import OPTIONS, QUESTION, changed, context_of, made, tokens, told
from tests.fakes import ByteLM


@pytest.fixture(scope="module")
def trace():
    return made(ByteLM(5))


@pytest.fixture
def bench(trace):
    return Workbench(trace, ByteLM(5))


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
        def next_rows(self, views, tokens=(), ids=()):
            asked.append(list(ids))
            return super().next_rows(views, tokens, ids)

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
        return Row((logits + by)[order], ids[order], -np.inf, 0.0)

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


def test_where_nothing_is_left_to_mask_there_is_no_step():
    off = made(ByteLM(5), replace(OPTIONS, mask=MaskOptions(frame_mask="off")))
    bench = Workbench(replace(off, status="stopped: decode"), ByteLM(5))
    for track in off.tracks:
        out = changed(bench, "drop", track=track.id)
    assert (out.tracks, out.steps, out.status) == ((), (), "complete")
    assert out.counterfactual.level.shape == (0,)
    assert tokens(out) == tokens(out, "baseline")
