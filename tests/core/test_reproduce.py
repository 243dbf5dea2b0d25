"""What the page says would run the same again does run the same again."""

import shlex
from dataclasses import replace

import pytest

from core.__main__ import _parser
from core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    MaskOptions,
    RunOptions,
    VcdOptions,
)
from core.pipeline import run
from core.reproduce import FLAGS, command, snippet
from core.whatif import Edit, Workbench

OPTIONS = RunOptions(
    mask=MaskOptions(swept=True, fill="black"),
    ascent=AscentOptions(steps=2, eta=0.5),
    contrast=ContrastOptions(2.0, 0.05),
    decode=DecodeOptions(max_tokens=9, seed=3),
    vcd=VcdOptions(900),
    seed=3,
)


@pytest.fixture(scope="module")
def trace(toy_mp4, toyworld, toy_detector):
    *_, last = run(
        toy_mp4, "What is in the video?", lambda: toyworld, lambda: toy_detector, OPTIONS,
        methods=("vcd",),
    )  # fmt: skip
    return last.trace


def test_the_snippet_computes_the_trace_again(trace, toy_mp4, toyworld, capsys):
    bench = Workbench(trace, toyworld)
    *_, last = bench.change(Edit("level", track=trace.tracks[0].id, level=0.0))
    shown = replace(last.trace, clip=trace.clip | {"name": str(toy_mp4)})
    names: dict = {}
    exec(snippet(shown), names)
    assert capsys.readouterr().out.strip() == shown.answers["macd"].text
    again = names["trace"]
    assert again.options == last.trace.options
    assert again.counterfactual.loss == pytest.approx(last.trace.counterfactual.loss, abs=1e-6)


def test_the_command_says_what_differs(trace):
    words = shlex.split(command(trace), comments=True)
    args = _parser().parse_args(words[3:])
    assert args.command == "compare"
    assert (args.steps, args.eta, args.alpha, args.beta) == (2, 0.5, 2.0, 0.05)
    assert (args.fill, args.swept, args.max_tokens, args.seed) == ("black", True, 9, 3)
    assert args.methods == ["vcd"]
    assert "without: options without a flag" in command(trace)  # VCD's own step


def test_a_plain_run_is_a_plain_command(trace):
    plain = replace(trace, options=RunOptions().as_dict(), answers={})
    assert command(plain) == "python -m core trace toy.mp4 'What is in the video?'"
    edited = replace(plain, options=RunOptions().as_dict() | {"edits": [{"kind": "drop"}]})
    assert command(edited).endswith("# without: changes by hand")


def test_every_flag_is_one_of_the_command_line(trace):
    run_parser = next(
        a for a in _parser()._subparsers._group_actions[0].choices.values()
    )  # fmt: skip
    known = {o for action in run_parser._actions for o in action.option_strings}
    assert set(FLAGS) <= known


@pytest.mark.parametrize("hostile", ["'; rm -rf /", "$(reboot)", "`id`", 'a"b\\', "</script>"])
def test_hostile_words_stay_words(trace, hostile):
    shown = replace(trace, question=hostile, clip=trace.clip | {"name": hostile})
    words = shlex.split(command(shown), comments=True)
    assert words[4:6] == [hostile, hostile]
    compile(snippet(shown), "snippet", "exec")
