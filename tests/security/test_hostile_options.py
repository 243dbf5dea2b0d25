"""Options from outside: one reader, every value checked, the path of the key in the message."""

import math
from dataclasses import fields, is_dataclass, replace

import pytest

from macd_studio.core import options as o
from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.errors import OptionError
from macd_studio.core.options import MaskOptions, RunOptions, options_from, read_options
from macd_studio.core.run.pipeline import run
from macd_studio.core.validation import rule_of
from macd_studio.core.whatif.edits import check_changeable
from tests.small_trace import small_trace

LARGE = 10**400
HOSTILE = [
    ({"ascent": {"steps": 1.5}}, "ascent.steps is 1.5. Choose a whole number from 1 to 200"),
    ({"ascent": {"steps": True}}, "ascent.steps is True"),
    ({"ascent": {"steps": "3"}}, "ascent.steps is '3'"),
    ({"ascent": {"steps": None}}, "ascent.steps is None"),
    ({"ascent": {"eta": math.nan}}, "ascent.eta is nan"),
    ({"ascent": {"eta": math.inf}}, "ascent.eta is inf"),
    ({"ascent": []}, "ascent is a list"),
    ({"ascent": None}, "ascent is None"),
    ({"ascent": {"stepz": 3}}, "no option 'ascent.stepz'. Did you mean steps?"),
    ({"contrast": {"alpha": LARGE}}, "contrast.alpha is a number of about 400 digits"),
    ({"contrast": {"alpha": -LARGE}}, "contrast.alpha is a number of about 400 digits"),
    ({"contrast": {"alpha": 1e30}}, "contrast.alpha is 1e+30. Choose a number from 0 to 20"),
    ({"contrast": {"head": ["raw"]}}, "contrast.head is a list"),
    ({"contrast": {"head": {}}}, "contrast.head is an object"),
    ({"alpha": 3}, "no option 'alpha'"),
    ({"contrst": {}}, "no option 'contrst'. Did you mean contrast?"),
    ({"edits": []}, "no option 'edits'"),
    ({"": {}}, "no option ''"),
    ({"\ud800": 1}, "no option '\\ud800'"),
    ({"detect": {"classes": [[1]]}}, "detect.classes[0] is a list"),
    ({"detect": {"classes": "dog"}}, "detect.classes is 'dog'"),
    ({"detect": {"classes": {"dog": 1}}}, "detect.classes is an object"),
    ({"detect": {"classes": ["dog"] * 201}}, "detect.classes holds 201 values"),
    ({"detect": {"classes": ["x" * 101]}}, "detect.classes[0] has 101 characters"),
    ({"detect": {"prompt": "x" * 2001}}, "detect.prompt has 2001 characters"),
    ({"detect": {"prompt": "a\ud800"}}, "detect.prompt holds a character that is not text"),
    ({"detect": {"prompt": "a\0"}}, "detect.prompt holds a character that is not text"),
    ({"detect": {"image_size": 320.5}}, "detect.image_size is 320.5"),
    ({"mask": {"swept": "no"}}, "mask.swept is 'no'. Choose true or false"),
    ({"mask": {"swept": 1}}, "mask.swept is 1"),
    ({"mask": {"fill_seed": -1}}, "mask.fill_seed is -1"),
    ({"mask": {"frame_mask": "whole"}}, "the fusion 'or'"),
    ({"video": {"frames": True}}, "video.frames is True"),
    ({"video": {"frames": 1e30}}, "video.frames is 1e+30"),
    ({"video": {"end": -1}}, "video.end is -1"),
    ({"video": {"start": 4, "end": 3}}, "ends at 3 s"),
    ({"decode": {"seed": {}}}, "decode.seed is an object"),
    ({"decode": {"seed": 2**32}}, "decode.seed is 4294967296"),
    ({"seed": -1}, "seed is -1. Choose a whole number from 0 to 4294967295"),
    ({"seed": 1e30}, "seed is 1e+30"),
    ({"seed": LARGE}, "seed is a number of about 400 digits"),
    ({"vcd": {"contrast": {"alpha": "1"}}}, "vcd.contrast.alpha is '1'"),
    ({"vcd": {"contrast": {"gamma": 1}}}, "no option 'vcd.contrast.gamma'"),
    ({"vcd": {"contrast": 3}}, "vcd.contrast is 3"),
    ([], "options are not an object"),
    ("{}", "options are not an object"),
    (None, "options are not an object"),
    (7, "options are not an object"),
]


@pytest.mark.parametrize(("told", "said"), HOSTILE, ids=lambda v: v if isinstance(v, str) else "")
def test_each_bad_option_is_named_by_its_path(told, said):
    with pytest.raises(OptionError) as error:
        options_from(told)
    assert said in str(error.value)
    assert error.value.remedy
    assert len(str(error.value)) < 400
    str(error.value).encode()


def test_a_whole_number_may_be_written_with_a_point_and_is_kept_as_a_whole_one():
    kept = options_from({"ascent": {"steps": 3.0}, "contrast": {"alpha": 2}})
    assert type(kept.ascent.steps) is int
    assert type(kept.contrast.alpha) is float
    assert kept == options_from({"ascent": {"steps": 3}, "contrast": {"alpha": 2.0}})


def test_what_a_part_does_not_tell_keeps_the_default_of_that_part():
    found = options_from({"tcd": {"contrast": {"alpha": 1}}, "vcd": {"contrast": {"alpha": 2}}})
    assert found.tcd.contrast == o.ContrastOptions(1.0, 0.5, "raw")
    assert found.vcd.contrast == o.ContrastOptions(2.0, 0.2)


def every_field(kind, path=""):
    for one in fields(kind):
        if is_dataclass(one.default):
            yield from every_field(type(one.default), f"{path}{one.name}.")
        yield kind, one, f"{path}{one.name}"


@pytest.mark.parametrize(
    ("kind", "one", "path"), [pytest.param(*row, id=row[2]) for row in every_field(RunOptions)]
)
def test_every_field_refuses_what_is_of_no_kind_both_ways(kind, one, path):
    """A field without a rule would take these, constructed or read."""
    for wrong in (object(), {"x": {}}, [[1]], -LARGE, math.nan, b"x"):
        with pytest.raises(OptionError):
            kind(**{one.name: wrong})
        told = wrong
        for name in reversed(path.split(".")):
            told = {name: told}
        with pytest.raises(OptionError):
            options_from(told)


@pytest.mark.parametrize(
    ("kind", "one", "path"), [pytest.param(*row, id=row[2]) for row in every_field(RunOptions)]
)
def test_every_default_obeys_its_own_rule(kind, one, path):
    assert rule_of(one).read(one.default, path) == one.default


def test_options_that_no_run_takes_can_be_held_but_not_run():
    """A trace of an older version may hold them."""
    held = RunOptions(mask=MaskOptions(frame_mask="whole"))
    for refuse in (
        held.check_runnable,
        lambda: read_options(held, {}),
        lambda: options_from(held.as_dict()),
        lambda: next(run("a.mp4", "Is it?", fail, fail, held)),
        lambda: command(replace(small_trace(), options=held)),
        lambda: snippet(replace(small_trace(), options=held)),
        lambda: check_changeable(replace(small_trace(), options=held)),
    ):
        with pytest.raises(OptionError, match="the frame mask 'whole'"):
            refuse()


def fail():
    raise AssertionError("a model was asked for")
