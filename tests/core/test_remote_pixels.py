"""Pixels as a server normalises them itself."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import normalise, to_pixels
from macd_studio.core.backbones.remote.ways import NORMALISING, with_neutral

SCALES = pytest.mark.parametrize(
    ("mean", "std"),
    [
        ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
        ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ],
)


@SCALES
def test_8_bits_hold_the_plain_video_as_it_is(mean, std):
    """So that its log-probabilities are not off by rounding, where those of other views are."""
    pixels = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 16, 16, 3)
    mean, std = torch.tensor(mean), torch.tensor(std)
    video = normalise(pixels, mean, std)
    np.testing.assert_array_equal(to_pixels(video, mean, std), pixels)
    assert (to_pixels(0.5 * video, mean, std) != pixels).any()


@SCALES
def test_the_mean_colour_is_exactly_zero_once_the_server_has_normalised_it(mean, std):
    """Else norms of a vision tower make its rounding a thousand times larger in each layer."""
    encoded = SimpleNamespace(mean=torch.tensor(mean), std=torch.tensor(std))
    means, stds = (z[:, None, None] for z in (encoded.mean, encoded.std))
    video = torch.zeros(2, 3, 4, 4)
    video[1] = torch.linspace(-1, 1, 48).reshape(3, 4, 4)
    rgb = 255 * (video * stds + means)
    sent = with_neutral(encoded, rgb)
    normalised = sent * ((1 / 255) / stds) + (-means / stds)  # as vLLM 0.32 has it
    assert (normalised[video == 0] == 0).all()
    assert (sent - rgb).abs().max() < 2e-4
    np.testing.assert_allclose(normalised, video, atol=1e-6)
    for moved in (NORMALISING, -NORMALISING):  # what is nearly 0 is not taken for 0
        sent = with_neutral(encoded, 255 * (moved * stds + means))
        normalised = sent * ((1 / 255) / stds) + (-means / stds)
        assert (normalised == moved).all()
