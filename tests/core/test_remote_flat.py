"""Pixels of exactly 0, as behind full masks: what the probe measures of them."""

import base64
from dataclasses import replace

import msgpack
import numpy as np
import pytest

from bench.vllm_models import UNBIASED, write_model
from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.remote.probe import (
    HEAD,
    LARGE,
    MIN_ERROR,
    MIN_ROUNDED,
    TIMES_FLAT,
    TIMES_NOISE,
    change,
    drawn_clip,
)
from macd_studio.core.backbones.remote.ways import NORMALISING
from macd_studio.core.backbones.remote.wire import Said
from macd_studio.core.description import build
from macd_studio.core.errors import RemoteError
from macd_studio.core.records import BackboneRecord
from tests.vllm_server import FakeVLLM, opened


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A tiny Qwen2.5-VL with biases and one without: its folder and the model in this process."""
    found = {}
    for name in ("qwen2_5_vl", UNBIASED):
        folder = write_model(name, tmp_path_factory.mktemp(name))
        found[name] = folder, load_backbone(str(folder), "cpu")
    return found


@pytest.fixture(scope="module")
def unbiased(models):
    """A server of the one without biases, in the exact way, and its reader."""
    folder, lm = models[UNBIASED]
    server = FakeVLLM(lm, root=folder)
    return server, opened(server, concurrency=1)  # views in their order


def served(models, name, **how):
    """What the probe finds of a server of that model."""
    folder, lm = models[name]
    return opened(FakeVLLM(lm, root=folder, **how))


def views_of(server):
    """The normalised pixels of each view that the probe had read, (T, 3, h, w)."""
    found = []
    for path, body in server.requests:
        if path == "/inference/v1/generate":
            ids = tuple(body["token_ids"])
            encoded = next(e for p, e in server.encoded.items() if p[: len(ids)] == ids)
            item = msgpack.unpackb(base64.b64decode(body["features"]["kwargs_data"]["video"][0]))
            found.append(server.video(encoded, item["pixel_values_videos"]["data"]))
    return found


def test_flat_frames_reach_the_server_as_0_and_their_copies_as_moved(unbiased):
    """Neither is a copy's pixel taken for a 0, nor is one of another frame moved."""
    server, reader = unbiased
    views = views_of(server)
    mean, std = (z[:, None, None] for z in (reader._lm.mean, reader._lm.std))
    padding = ((255 * mean).round() / 255 - mean) / std
    assert 0 < padding.abs().max() < 0.01
    for view, *copies in (views[-16:-12], views[-12:-8]):
        at = ((view - padding).abs() < 1e-6).all(-1).all(-1).all(-1)
        assert at.float().mean() == (1.0 if view is views[-16] else 0.5)
        for copy in copies:
            np.testing.assert_allclose((copy - view)[at].abs(), NORMALISING, rtol=0.6)
            np.testing.assert_array_equal(copy[~at], view[~at])
    whole = views[-8:-4]  # flat, then three copies of it
    assert (whole[0] == 0).all()
    for copy in whole[1:]:
        assert (copy.abs() == NORMALISING).all()
    down, colour, drawn = ((copy > 0).float().mean((0, 2, 3)).tolist() for copy in whole[1:])
    assert down == [0, 0, 0]
    assert colour == [1, 0, 1]
    assert drawn == pytest.approx([0.5] * 3, abs=0.05)
    half = views[-4:]
    at = (half[0] == 0).all(-1).all(-1).all(-1)
    assert at.float().mean() == 0.5
    for copy in half[1:]:
        assert (copy[at].abs() == NORMALISING).all()
        np.testing.assert_array_equal(copy[~at], half[0][~at])


def test_what_norms_without_biases_make_of_a_full_mask_widens_the_error(unbiased, models):
    """An error that full masks bring, and no other view does, is part of what is certified."""
    _, reader = unbiased
    far = reader.server
    assert far.alone < 1e-5
    assert far.flat > LARGE / TIMES_NOISE
    assert far.error == TIMES_NOISE * far.flat
    assert far.padding < far.flat / 10
    assert far.video_error == max(MIN_ERROR, TIMES_NOISE * far.padding)
    told = "\n".join(far.lines())
    assert f"by {far.flat:.1e} when pixels of 0 are off" in told
    assert "amplifies what the server makes of a pixel of exactly 0" in told
    assert "--no-mm-device-do-normalize" in told
    assert far.amplified in reader.notes
    assert served(models, "qwen2_5_vl").server.flat < far.flat / 10


def test_a_server_that_takes_normalised_pixels_moves_none(models):
    reader = served(models, UNBIASED, normalises=False)
    assert reader.server.exact
    assert reader.server.flat == 0
    assert reader.server.padding == 0
    assert reader.server.error == reader.server.video_error == reader.server.noise == MIN_ERROR
    assert not reader.server.amplified
    assert "pixels of 0" not in "\n".join([*reader.server.lines(), *reader.notes])


@pytest.mark.long
def test_frames_in_8_bits_move_them_by_a_step_of_these(models):
    reader = served(models, UNBIASED, exact=False)
    far = reader.server
    assert not far.exact
    assert far.error == TIMES_FLAT * far.flat > TIMES_NOISE * far.rounding
    assert far.video_error == MIN_ROUNDED
    assert replace(far, resizes=True).video_error == TIMES_NOISE * far.rounding > MIN_ROUNDED
    assert replace(far, padding=1.0).video_error == TIMES_NOISE
    assert replace(far, among=5.0).video_error == TIMES_NOISE * 5
    assert far.flat > LARGE
    assert "few tokens are certified" in far.amplified
    assert "--no-mm-device-do-normalize" not in far.amplified


def test_another_model_under_the_same_address_is_noticed_beside_a_large_error(models):
    """The clip that a server was tried on holds no zeros: it is read again as it was."""
    folder, lm = models[UNBIASED]
    server = FakeVLLM(lm, root=folder)
    reader = opened(server)
    read = server.read
    server.read = lambda view, tokens: read(view, tokens) - 0.9 * reader.server.error
    encoded = reader.encode(drawn_clip(seed=5), "Is there a dog in the video?")
    reader._way.client.counted.broken += 1
    with pytest.raises(RemoteError, match="another model"):
        reader.next_logits(reader.prefill(encoded, encoded.video))


def test_an_error_is_a_number_that_a_trace_holds_whatever_a_server_tells(unbiased):
    """Copies of which quite other tokens are the likeliest, and log-probabilities of -10⁵."""
    assert change(Said(1, {1: -0.1, 2: -3.0}), Said(3, {3: -0.1, 4: -3.0})) == HEAD
    far = replace(unbiased[1].server, flat=1e5)
    far = replace(far, padding=1e5)
    given = {"log_p_error": far.error, "video_log_p_error": far.video_error}
    assert BackboneRecord.from_dict(given).as_dict() == given
    assert build(BackboneRecord, given, "backbone").video_log_p_error == far.video_error
