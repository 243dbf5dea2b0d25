"""Whatever is told as options gives RunOptions or an OptionError; sound ones come back."""

import json

from hypothesis import strategies as st

from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions, options_from
from tests.fuzz.cases import HOSTILE, cases, change_at, is_clear_error, paths_in, plain

USUAL = json.dumps(RunOptions().as_dict())
PATHS = list(paths_in(json.loads(USUAL)))
VALUES = [2, 3.0, 0.3, 0.6, 1.0, 400, "or", "off", "box", "raw", "noise", "beam", "half", ["dog"]]


def check(told):
    try:
        found = options_from(told)
    except OptionError as error:
        if not is_clear_error(error):
            raise
        return
    assert isinstance(found, RunOptions)
    written = json.dumps(found.as_dict(), allow_nan=False)
    again = options_from(json.loads(written))
    assert again == found
    assert json.dumps(again.as_dict()) == written
    hash(found)
    written.encode()


@cases(plain)
def test_any_json(told):
    check(told)


@cases(
    st.lists(
        st.tuples(
            st.sampled_from(PATHS),
            st.sampled_from(["set", "set", "set", "drop", "twice", "swap"]),
            st.sampled_from(HOSTILE + VALUES * 3) | st.integers() | st.floats(),
        ),
        max_size=5,
    )
)
def test_options_of_other_values(drawn):
    told = json.loads(USUAL)
    for path, how, new in drawn:
        change_at(told, path, how, new)
    check(told)
