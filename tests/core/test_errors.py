import pickle
import re

import pytest

from macd_studio.core import errors

TREE = [
    "BackboneCorrupt BackboneError BackboneNotFound BenchmarkError BlindGradient Cancelled",
    "CorruptVideo",
    "DecodeLimit DetectorError MacdError NoVideoStream NotAVideo NotApplicable NumericalError",
    "OptionError OutOfMemory QuestionError TraceError UnsupportedBackbone VideoError VideoNotFound",
    "VideoTooLarge VideoTooLong VideoTooSmall",
]


def public() -> list[str]:
    return sorted(
        n for n, v in vars(errors).items() if isinstance(v, type) and "Error" in str(v.mro())
    )


def test_the_tree_is_pinned_and_drawn_in_the_docstring():
    assert public() == " ".join(TREE).split()
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__)
    assert sorted([*drawn, "MacdError"]) == public()


@pytest.mark.parametrize("name", " ".join(TREE).split())
def test_each_says_cause_and_remedy_and_survives_a_process_border(name):
    error = getattr(errors, name)("it broke", "Mend it")
    assert str(error) == "it broke. Mend it."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.cause, again.remedy) == (type(error), "it broke", "Mend it")
