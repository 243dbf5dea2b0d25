"""An array of log-probabilities that a server wrote: read, or refused in a sentence."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench.recorded import DRAW, QUESTION, Player, ask, recorded
from macd_studio.core.backbones.base import normalise, to_pixels
from macd_studio.core.backbones.remote.probe import drawn_clip
from macd_studio.core.backbones.remote.ways import NORMALISING, with_neutral
from macd_studio.core.backbones.remote.wire import read_prompt_log_p, read_scored
from macd_studio.core.errors import RemoteError
from tests.vllm_server import NAME


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


@pytest.fixture(scope="module")
def kept():
    return recorded()


@pytest.fixture(scope="module")
def local(toyworld):
    """The same of the model in this process: the question's log p, then four rows."""
    encoded = toyworld.encode(drawn_clip(seed=DRAW), QUESTION)
    videos = encoded.video[None].repeat(2, 1, 1, 1, 1)
    videos[1, :4] *= 0.5
    views = toyworld.prefill(encoded, videos)
    rows = toyworld.next_logits(views)
    rows += toyworld.next_logits(views, [rows[0].best()])
    log_p = [row.values - row.log_partition for row in rows]
    return [toyworld.question_log_p(encoded, views), *log_p]


@pytest.mark.parametrize(("way", "off"), [("exact", 2e-5), ("common", 2e-2)])
def test_a_real_server_says_what_the_model_says(way, off, kept, local):
    player = Player(kept[way])
    reader, found = ask(NAME, player, way == "exact")
    assert player.at == len(kept[way])
    for one, other in zip(found, local, strict=True):
        np.testing.assert_allclose(one, other, atol=off)
    assert reader.server.exact == (way == "exact")
    assert reader.server.version == "0.32.0"
    assert reader.server.most == -1
    assert reader.server.chosen
    assert reader.server.question == "prompt"


def test_a_prompt_that_is_told_of_in_part_is_refused():
    rows = [None, {"5": {"logprob": -1.0}}]
    with pytest.raises(RemoteError, match="tells of 2 of the prompt's 3 tokens"):
        read_prompt_log_p({"prompt_logprobs": rows}, [4, 5, 6], [1, 2])
    whole = {"prompt_logprobs": [*rows, {"6": {"logprob": -2.0}}]}
    assert read_prompt_log_p(whole, [4, 5, 6], [1, 2]).tolist() == [-1.0, -2.0]
