import dataclasses
import math

import pytest

from macd_studio.core import options as o
from macd_studio.core.errors import OptionError


@pytest.mark.parametrize(
    "bad",
    [
        lambda: o.ContrastOptions(alpha=-0.1),
        lambda: o.ContrastOptions(alpha=math.nan),
        lambda: o.ContrastOptions(beta=math.inf),
        lambda: o.ContrastOptions(alpha="1"),
        lambda: o.AscentOptions(steps=0),
        lambda: o.AscentOptions(eta=0),
        lambda: o.AscentOptions(levels="two"),
        lambda: o.VideoOptions(frames=0),
        lambda: o.VideoOptions(start=4, end=3),
        lambda: o.MaskOptions(fill="red"),
        lambda: o.DetectOptions(confidence=1.5),
    ],
)
def test_values_out_of_range_name_themselves(bad):
    with pytest.raises(OptionError, match=r"is .*\. Choose|ends at"):
        bad()


def test_options_are_frozen_hashable_and_plain():
    run = o.RunOptions()
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.seed = 1
    assert hash(run) == hash(o.RunOptions())
    assert run.as_dict()["ascent"]["r0"] == 0.75


def test_presets_are_the_papers():
    assert o.PRESETS["eventhallusion"] == o.ContrastOptions(2.6, 0.0036)
    assert o.PRESETS["perception-test"] == o.ContrastOptions(1.5, 0.5)
