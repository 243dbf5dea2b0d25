import pickle

import pytest

from macd_studio.core import errors

NAMES = sorted(
    n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)
)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_cause_and_remedy_and_survives_a_process_border(name):
    error = getattr(errors, name)("it broke", "Mend it")
    assert str(error) == "it broke. Mend it."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.cause, again.remedy) == (type(error), "it broke", "Mend it")
