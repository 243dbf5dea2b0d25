"""Any answer of two views decoded on under another α and β, against decoding with those."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.cli.main import main
from macd_studio.core.errors import OptionError
from macd_studio.core.measurements import ControlReport, Evidence, Target
from macd_studio.core.methods import contrast_of, find_method, with_contrast
from macd_studio.core.options import OWN_CONTRAST, ContrastOptions, DecodeOptions, RunOptions
from macd_studio.core.records import RECORDED
from macd_studio.core.run.order import run_method
from macd_studio.core.traces.bundle import load, pack, save, unpack
from macd_studio.core.types import ShownView, StepWeights
from macd_studio.core.view_records import BlankView
from macd_studio.core.whatif.edits import why_not_redecode
from macd_studio.core.whatif.workbench import Workbench

EXAMPLE = Path(__file__).parents[2] / "assets" / "examples" / "small.macd"
LINEAR = ["macd", "mask-all", "vcd"]
SLOW = ["blank", "random-place", "no-video+linear", "sid", "tcd"]
OTHERS = ["vcd+crg", "head-only", "always-yes"]
FORMER, LATER = ContrastOptions(0.0, 0.1), ContrastOptions(20.0, 0.0)


def options_with(contrast):
    options = RunOptions(decode=DecodeOptions(max_tokens=4))
    for view in ("macd", *OWN_CONTRAST):
        head = contrast_of(view, options).head
        options = with_contrast(view, options, replace(contrast, head=head))
    return options


def answered(lm, names):
    """An example's trace with the answers of methods under α 0, and under a large one."""
    example = load(EXAMPLE)
    made = []
    for contrast in (FORMER, LATER):
        trace = replace(example, options=options_with(contrast), edits=()).without_measurements()
        context = Workbench(trace, lm).context
        made.append(replace(trace, answers={n: run_method(context, find_method(n)) for n in names}))
    return made


@pytest.fixture(scope="module")
def traces(toyworld):
    return answered(toyworld, ["baseline", *LINEAR, *OTHERS])


@pytest.fixture
def bench(traces, toyworld):
    return Workbench(unpack(pack(traces[0])), toyworld)


def tokens(trace, name):
    return [t.token for t in trace.answers[name].tokens]


def check_decoding_on(bench, later, name):
    former = bench.trace
    changed = bench.redecode(LATER.alpha, LATER.beta, name)
    assert tokens(changed, name) == tokens(later, name)
    answer, wanted = changed.answers[name], later.answers[name]
    assert (answer.alpha, answer.beta, answer.head) == (wanted.alpha, wanted.beta, wanted.head)
    assert answer.second_views[0].view == wanted.second_views[0].view
    for mine, theirs in zip(answer.tokens, wanted.tokens, strict=True):
        assert mine.others_log_z == pytest.approx(theirs.others_log_z, abs=1e-3)
        assert (mine.hidden is None) == (theirs.hidden is None)
        if mine.hidden is not None:
            np.testing.assert_array_equal(mine.hidden, theirs.hidden)
    back = bench.redecode(FORMER.alpha, FORMER.beta, name)  # over the caches of the first time
    assert tokens(back, name) == tokens(former, name)


@pytest.mark.parametrize("name", LINEAR)
def test_decoding_on_gives_the_answer_of_that_alpha(bench, traces, name):
    former, later = traces
    assert tokens(former, name) != tokens(later, name)  # else there is nothing to see
    check_decoding_on(bench, later, name)


@pytest.mark.long
def test_decoding_on_gives_the_answer_of_that_alpha_under_every_view(toyworld):
    former, later = answered(toyworld, ["baseline", "macd", *SLOW])
    assert any(tokens(former, name) != tokens(later, name) for name in SLOW)
    for name in SLOW:
        check_decoding_on(Workbench(unpack(pack(former)), toyworld), later, name)


def test_a_shared_alpha_changes_macd_too_and_drops_what_else_it_changes(bench, traces):
    former, later = traces
    changed = bench.redecode(LATER.alpha, LATER.beta, "mask-all")
    assert changed.options.contrast == LATER
    assert tokens(changed, "macd") == tokens(later, "macd")
    assert changed.answers["macd"].alpha == LATER.alpha
    # the cut of the same β is gone; what has an α of its own, or none, stands
    kept = {"baseline", *LINEAR, "vcd+crg", "always-yes"}
    assert set(changed.answers) == kept
    assert changed.answers["vcd"].alpha == FORMER.alpha
    assert [*changed.answers] == [name for name in former.answers if name in kept]


def test_an_alpha_of_its_own_leaves_every_other_answer(bench, traces):
    former = traces[0]
    measured = ControlReport(None, "a", "a", (), 0.0, 1.0)
    bench.trace = replace(bench.trace, controls=measured)
    target = Target("vcd", 0, tokens(former, "vcd")[0], "")
    about = [Evidence(replace(target, answer=n), (0.0, 0.0), (), ()) for n in ("vcd", "macd")]
    bench.trace = replace(bench.trace, evidence=tuple(about))
    changed = bench.redecode(LATER.alpha, LATER.beta, "vcd")
    assert changed.options.vcd.contrast == LATER
    assert changed.options.contrast == FORMER
    assert set(changed.answers) == set(former.answers)
    assert tokens(changed, "macd") == tokens(former, "macd")
    assert changed.controls == measured  # of MACD's answer, which is as it was
    assert [e.target.answer for e in changed.evidence] == ["macd"]


def test_what_cannot_be_decoded_on_says_why(traces, bench):
    trace = traces[0]
    wrong = {
        "bus": "no answer of 'bus'",
        "baseline": "no second view",
        "head-only": "no second view",
        "vcd+crg": "of the rule linear are decoded on",
        "always-yes": "no tokens",
    }
    for name, reason in wrong.items():
        assert reason in why_not_redecode(trace, name), name
        with pytest.raises(OptionError, match=reason):
            bench.redecode(1.0, 0.1, name)
    assert [n for n in trace.answers if not why_not_redecode(trace, n)] == LINEAR

    beam = replace(trace, options=replace(trace.options, decode=DecodeOptions(search="beam")))
    assert "greedy" in why_not_redecode(beam, "vcd")
    theirs = replace(trace, backbone=replace(trace.backbone, family=RECORDED))
    assert "another program" in why_not_redecode(theirs, "macd")
    assert "pixels" in why_not_redecode(replace(trace, model_frames=None), "macd")
    named = replace(trace, answers=trace.answers | {"mine": trace.answers["vcd"]})
    assert "no method here is called 'mine'" in why_not_redecode(named, "mine")
    swapped = replace(trace, answers=trace.answers | {"vcd+crg": trace.answers["vcd"]})
    assert "not the one that gave" in why_not_redecode(swapped, "vcd+crg")
    first, *rest = trace.answers["vcd"].tokens
    weighed = replace(trace.answers["vcd"], tokens=(replace(first, weights=StepWeights()), *rest))
    assert "one by one" in why_not_redecode(
        replace(trace, answers=trace.answers | {"vcd": weighed}), "vcd"
    )


def test_a_view_that_is_not_that_of_the_trace_is_refused_and_nothing_is_changed(traces, toyworld):
    trace = traces[0]
    vcd = replace(trace.answers["vcd"], second_views=(ShownView(BlankView()),))
    bench = Workbench(replace(trace, answers=trace.answers | {"vcd": vcd}), toyworld)
    before = bench.trace
    with pytest.raises(OptionError, match="cannot be built again"):
        bench.redecode(LATER.alpha, LATER.beta, "vcd")
    assert bench.trace is before
    assert bench.context.options == trace.options
    with pytest.raises(OptionError, match="alpha"):
        bench.redecode(21.0, 0.1, "vcd")
    assert bench.context.options == trace.options


def test_the_command_line_decodes_any_answer_on(traces, tmp_path, capsys):
    saved = save(traces[0], tmp_path / "v.macd")
    out = tmp_path / "new.macd"
    words = ["edit", str(saved), "--method", "vcd", "--alpha", "20", "--beta", "0"]
    assert main([*words, "--out", str(out)]) == 0
    changed = load(out)
    assert tokens(changed, "vcd") == tokens(traces[1], "vcd")
    assert (changed.options.vcd.contrast.alpha, changed.options.contrast.alpha) == (20.0, 0.0)
    capsys.readouterr()
    track = changed.tracks[0].id
    wrong = {
        "no answer of 'bus'": ["--method", "bus", "--alpha", "1"],
        "of the rule linear": ["--method", "vcd+crg", "--alpha", "1"],
        "--method was given without": ["--method", "vcd"],
        "drop the answer of vcd": ["--method", "vcd", "--alpha", "1", "--level", f"{track}=0"],
    }
    for message, flags in wrong.items():
        assert main(["edit", str(saved), *flags]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "load" not in error  # refused before a model is loaded
