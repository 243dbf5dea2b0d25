"""Every option has a flag, and the flags of a command give the options it was written from."""

import argparse
import dataclasses
import shlex
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macd_studio.core import options as o
from macd_studio.core.cli.flags import FLAGS, _kind, add_flags, options_of, words
from macd_studio.core.cli.main import _parser
from macd_studio.core.cli.measuring import EVIDENCE, SEARCH
from macd_studio.core.cli.options_table import table
from macd_studio.core.cli.reproduce import command
from macd_studio.core.errors import OptionError
from macd_studio.core.options import DecodeOptions, DetectOptions, RunOptions, VideoOptions
from macd_studio.core.records import ClipRecord
from macd_studio.core.types import Trace
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


def fields_of(kind, part=""):
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield from fields_of(hint, f"{part}.{name}".lstrip("."))
        else:
            yield part, name


def parse(line):
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return options_of(parser.parse_args(list(line)))


def test_every_option_has_one_flag():
    named = [(flag.part, flag.field) for flag in FLAGS]
    assert sorted(named) == sorted(fields_of(RunOptions))


def test_no_flag_gives_the_defaults():
    assert parse([]) == RunOptions()


def strategy(kind):
    if kind is float:
        return st.one_of(st.floats(0.01, 0.99), st.floats(-5, 1000))
    if kind is int:
        return st.one_of(st.integers(1, 40), st.integers(-(2**40), 2**40))
    if kind is bool:
        return st.booleans()
    if kind is str:
        # Python 3.11's argparse drops a value that is just --
        text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
        return text.filter(lambda t: t != "--")
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind == tuple[float, ...]:
        return st.lists(st.floats(-1, 700), max_size=4).map(lambda times: tuple(sorted(times)))
    assert kind == tuple[str, ...]
    return st.lists(strategy(str), max_size=3).map(tuple)


def with_value(options, flag, value):
    """The options with one more changed; as they are where the value is out of its range."""
    try:
        part, _, inner = flag.part.partition(".")
        if not part:
            return replace(options, **{flag.field: value})
        stage = getattr(options, part)
        if inner:
            changed = {inner: replace(getattr(stage, inner), **{flag.field: value})}
        else:
            changed = {flag.field: value}
        changed_options = replace(options, **{part: replace(stage, **changed)})
        changed_options.check_runnable()
        return changed_options
    except OptionError:
        return options


@st.composite
def any_options(draw):
    options = RunOptions()
    for flag in draw(st.lists(st.sampled_from(FLAGS), max_size=12, unique=True)):
        options = with_value(options, flag, draw(strategy(_kind(flag))))
    return options


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_options())
def test_words_give_the_options_back(options):
    assert parse(words(options)) == options


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_each_flag_reaches_its_field_alone(flag):
    tried = {float: [0.37, 7.5], int: [11, 320, -3], bool: [True], str: ["-x"]}
    values = tried.get(_kind(flag)) or get_args(_kind(flag)) or [()]
    if get_origin(_kind(flag)) is tuple:
        texts = get_args(_kind(flag))[0] is str
        values = [("dog", "a,b", "-c")] if texts else [(0.25, 1e-6, 300.5)[::-1], (1e-6, 300.5)]
    changed = [with_value(RunOptions(), flag, v) for v in values]
    (options, *_) = [c for c in changed if c != RunOptions()]
    line = list(words(options))
    assert parse(line) == options
    if flag.name == "--seed":  # the search keeps its own
        assert line == ["--search-seed", "0", "--seed", "11"]
    else:
        assert line[0].split("=")[0] == flag.name
        assert len(line) <= 2


def blank():
    return Trace(
        question="",
        frames=np.zeros((1, 4, 4, 3), np.uint8),
        times=np.zeros(1),
        groups=((0,),),
        clip=ClipRecord(name="clip.mp4"),
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_options(), st.sampled_from(["what?", "-x", "--seed", "it's $HOME", "Größe?\nzwei"]))
def test_the_command_gives_the_options_back(options, question):
    shown = replace(blank(), options=options, question=question)
    args = _parser().parse_args(shlex.split(command(shown))[3:])
    most = max(
        options.video.max_megabytes, VideoOptions().max_megabytes
    )  # a lower bound is left out
    assert options_of(args) == replace(options, video=replace(options.video, max_megabytes=most))
    assert args.question == question


def test_one_seed_is_enough():
    assert parse(["--seed", "4"]) == RunOptions(seed=4, decode=DecodeOptions(seed=4))
    own = parse(["--seed", "4", "--search-seed", "2"])
    assert (own.seed, own.decode.seed) == (4, 2)


@pytest.mark.parametrize("text", ["-x", "--seed", "-1e-05", "- a", "--prompt=y", "@x"])
def test_a_value_that_looks_like_a_flag_stays_a_value(text):
    options = RunOptions(detect=DetectOptions(prompt=text, classes=(text,)))
    options = replace(options, decode=DecodeOptions(length_penalty=-1e-05))
    assert parse(words(options)) == options


@pytest.mark.parametrize("sub", ["trace", "compare", "show", "edit"])
def test_help_says_every_flag(sub, capsys):
    with pytest.raises(SystemExit) as ended:
        _parser().parse_args([sub, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    if sub in ("trace", "compare"):
        for flag in FLAGS:
            assert f"  {flag.name}" in shown


def test_the_parser_imports_no_torch():
    code = "import sys, core.cli.main as m; m._parser(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S).returncode == 0


def test_the_docs_hold_the_table_of_options():
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert text == table(), "run python -m core.cli.options_table > docs/options.md"
    assert all(flag.help for flag in FLAGS)


def read(flags, *words):
    parser = argparse.ArgumentParser()
    flags.add(parser)
    return flags.options(parser.parse_args(words))


@pytest.mark.parametrize("flags", [EVIDENCE, SEARCH])
def test_without_a_flag_the_options_are_those_of_the_class(flags):
    assert read(flags) == flags.kind()
    assert [name for name, *_ in flags] == [one.name for one in fields(flags.kind)]
    assert all(words for *_, words in flags)


def test_lists_stand_in_one_word_and_boxes_are_given_again():
    found = read(
        EVIDENCE, "--kinds", "gradient,occlusion", "--knock-out", "2", "--knock-out", "3",
        "--knock-out-box", "0,0,0.5,1", "--layers", "1-3,8", "--no-lens", "--curves",
    )  # fmt: skip
    assert found.kinds == ("gradient", "occlusion")
    assert found.track_ids() == (2, 3)
    assert found.regions() == ((0.0, 0.0, 0.5, 1.0),)
    assert (found.lens, found.sanity, found.curves) == (False, True, True)


def test_what_the_class_refuses_is_refused():
    with pytest.raises(OptionError, match="budget"):
        read(SEARCH, "--budget", "1")
    assert read(SEARCH, "--no-search", "--keep", "2:1-4").kept() == (("2", (0, 3)),)


@pytest.mark.parametrize("more", [{"steps": 3}, {"objective": "answer"}])
def test_the_gradient_of_the_plain_video_is_of_one_step_and_of_the_question(more):
    with pytest.raises(OptionError, match="'base'"):
        o.AscentOptions(gradient="base", **more)


def test_options_are_frozen_hashable_and_plain():
    run = o.RunOptions()
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.seed = 1
    assert hash(run) == hash(o.RunOptions())
    assert run.as_dict()["ascent"]["r0"] == 0.75


def test_presets_are_the_papers():
    assert o.PRESETS["eventhallusion"] == o.ContrastOptions(2.6, 0.0036)
    assert o.PRESETS["perception-test"] == o.ContrastOptions(1.5, 0.5)
