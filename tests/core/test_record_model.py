"""A recorded answer compared with a read of the model that is said to have given it."""

import numpy as np
import pytest
import torch

import macd_studio as macd
from macd_studio.core.backbones.host import to_host
from macd_studio.core.errors import OptionError
from macd_studio.core.system.shipped import assets
from macd_studio.core.types import ModelFrames

QUESTION = "Is there a cup in the video?"
SECONDS = np.arange(8) * 6.0  # so long that text after the video lies elsewhere in transformers
FRAMES = macd.load(assets() / "examples" / "repaired.macd").model_frames.pixels
HEIGHT, WIDTH = FRAMES.shape[1:3]


def rows(lm, positions=None):
    """(V,) logits after the prompt, by our own read or by transformers' own forward."""
    encoded = lm.encode_frames(ModelFrames(FRAMES, SECONDS, 42.0, (0, 0, WIDTH, HEIGHT)), QUESTION)
    if positions is None:
        return to_host(lm.prefill(encoded, encoded.video).logits[0])
    inputs = {k: v for k, v in encoded.inputs.items() if k != "position_ids"}
    if positions == "ours":
        inputs["position_ids"] = encoded.inputs["position_ids"]
    kinds = torch.where(encoded.input_ids == lm.vision_token, 2, 0).int()
    step = torch.tensor([6.0 * lm.temporal])
    with torch.no_grad():
        out = lm.model(
            input_ids=encoded.input_ids, pixel_values_videos=encoded.layout(encoded.video),
            mm_token_type_ids=kinds, second_per_grid_ts=step, **inputs,
        )  # fmt: skip
    return out.logits[0, -1].numpy()


def recorded(row, lm):
    answer = {"name": "baseline", "tokens": [int(row.argmax())], "base": [row]}
    return macd.record(
        FRAMES, SECONDS, QUESTION, answers=[answer], token_text=str, model=lm
    ).warnings


def test_numbers_of_the_same_model_are_no_warning(toyworld):
    assert recorded(rows(toyworld), toyworld) == ()
    assert recorded(rows(toyworld, "ours"), toyworld) == ()
    row = torch.tensor(rows(toyworld)).log_softmax(-1).numpy()  # log-probabilities, as some give
    assert recorded(row, toyworld) == ()


def test_other_positions_are_a_warning_with_both_numbers(toyworld):
    theirs = rows(toyworld, "transformers")
    assert np.abs(theirs - rows(toyworld)).max() > 0.1
    (warning,) = recorded(theirs, toyworld)
    assert "position_ids" in warning
    assert f"recorded {np.logaddexp.reduce(theirs.astype(float)):.3f}" in warning
    (warning,) = recorded(torch.tensor(theirs).log_softmax(-1).numpy(), toyworld)
    assert "log-probability" in warning


def test_another_model_is_a_warning_and_no_model_an_error(toyworld):
    (warning,) = recorded(np.arange(1000.0), toyworld)
    assert "another one" in warning or "differs" in warning
    with pytest.raises(OptionError, match="model is str"):
        recorded(np.arange(10.0), "toyworld")
