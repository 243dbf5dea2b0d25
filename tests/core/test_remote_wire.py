"""An array of log-probabilities that a server wrote: read, or refused in a sentence."""

import base64
import io

import numpy as np
import pytest

from macd_studio.core.backbones.remote.wire import read_scored
from macd_studio.core.errors import RemoteError


def told(array, save=np.save):
    file = io.BytesIO()
    save(file, array)
    return base64.b64encode(file.getvalue()).decode()


GOOD = told(np.array([[-1.0], [-2.5]], np.float32))
HUGE = base64.b64decode(GOOD).replace(b"(2, 1)", b"(2, 10000000000)")


def test_an_array_is_read():
    assert read_scored({"prompt_token_id_logprobs": GOOD}, 2).tolist() == [-1.0, -2.5]


@pytest.mark.parametrize(
    "held",
    [
        told(np.ones((2, 1))), told(-np.ones((3, 1))), told(-np.ones(2)),
        told(np.array([[-1], [-2]])), told(np.array([["a"], ["b"]])),
        told(-np.ones((2, 1)), np.savez), base64.b64encode(HUGE).decode(), GOOD[:40], "!!", 3,
    ],
)  # fmt: skip
def test_anything_else_is_refused_before_it_takes_memory(held):
    with pytest.raises(RemoteError, match="cannot be used"):
        read_scored({"prompt_token_id_logprobs": held}, 2)
