"""SSACD: noise from the largest semantic shift of a clip on."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as tf

from macd_studio.core.backbones.clip import FOLDER, _loaded, clip_features
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import METHODS, find_method
from macd_studio.core.options import DecodeOptions, RunOptions, SsacdOptions
from macd_studio.core.run.order import decoding_views, run_method
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.view_records import ShiftView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.shift import largest_shift, neighbour_cosines
from macd_studio.viewer.payload import payload
from tests.core.test_methods import a_case
from tests.families import make_clip, tiny
from tests.small_trace import small_trace

SSACD = METHODS["ssacd"]


def a_context(lm, seen, **own):
    options = RunOptions(
        ssacd=SsacdOptions(**own), decode=DecodeOptions(max_tokens=4, keep=4096), seed=7
    )
    return MethodContext(lm, lm.encode(seen, "What is in the video?"), (), options)


@pytest.fixture
def two_scenes():
    """Eight frames, of which the last three show something else."""
    seen = make_clip(8)
    frames = seen.frames.copy()
    frames[:] = frames[0]
    frames[5:] = 255 - frames[0][::-1]
    return replace(seen, frames=frames)


def told(features, threshold):
    """The reference, pair by pair: where the least alike neighbours meet, if they differ enough."""
    found, least = None, np.inf
    for i in range(1, len(features)):
        a, b = features[i - 1], features[i]
        cosine = float(a @ b) / float(np.sqrt(a @ a) * np.sqrt(b @ b))
        if cosine < least:
            found, least = i, cosine
    return found if threshold is None or least < threshold else None


def test_the_shift_is_where_the_least_alike_neighbours_meet():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        features = rng.normal(size=(rng.integers(2, 9), 3)) + 1.5
        threshold = rng.choice([None, 0.2, 0.8])
        found.append(largest_shift(neighbour_cosines(features), threshold))
        assert found[-1] == told(features, threshold)
    assert None in found
    assert max(z for z in found if z) > 3
    assert largest_shift(neighbour_cosines(np.ones((1, 3))), None) is None


@pytest.mark.parametrize("name", ["internvl", "qwen2_5_vl"])
def test_all_frames_from_the_shift_on_are_noised_in_8_bits(two_scenes, name):
    case = a_context(tiny(name), two_scenes, sigma=30.0)
    (second,) = SSACD.build(case)
    patch = len(case.encoded.groups[0])
    first = second.record.first
    assert first == {1: 5, 2: 4}[patch]  # frames 4 and 5 make one patch of two
    assert len(second.record.similarity) == len(case.encoded.groups) - 1
    pixels = case.encoded.frames.pixels
    noise = case.noise().permute(0, 2, 3, 1).numpy()
    mean, std = case.encoded.mean.numpy(), case.encoded.std.numpy()
    assert torch.equal(second.video[:first], case.encoded.video[:first])
    for t in range(first, 8):
        grey = np.clip(pixels[t] + 30.0 * noise[t].astype(np.float64), 0, 255).astype(np.uint8)
        seen = (second.video[t].permute(1, 2, 0).numpy() * std + mean) * 255
        off = np.abs(seen - grey) > 0.01
        assert off.mean() < 1e-3  # a sum beside a whole number, in single precision
    assert second.record.sigma == 30.0


def test_without_a_shift_the_second_view_is_the_video(two_scenes):
    case = a_context(tiny("internvl"), two_scenes, threshold=-1.0)
    views = decoding_views(case, SSACD)
    assert views.seconds[0].record.first is None
    assert views.others[0] is case.base
    plain = run_method(case, METHODS["baseline"])
    assert [t.token for t in run_method(case, SSACD).tokens] == [t.token for t in plain.tokens]


def test_the_tokens_are_those_of_the_published_score(toyworld, toy_mp4):
    """The authors' loop in its own words: 2·z − z′ where z ≥ max z + log 0.1."""
    case = a_context(toyworld, read_clip(toy_mp4))
    views = decoding_views(case, SSACD)
    states = [toyworld.join([s]) for s in (views.base, *views.others)]
    tokens = []
    while len(tokens) < 4 and not set(tokens) & toyworld.end_tokens:
        z, other = (s.logits[0].double() for s in states)
        score = torch.where(z < z.max() + np.log(0.1), -torch.inf, 2 * z - other)
        tokens.append(int(score.argmax()))
        states = [toyworld.step(s, [tokens[-1]]) for s in states]
    assert [t.token for t in run_method(case, SSACD).tokens] == tokens
    assert not torch.equal(views.base.logits, views.others[0].logits)


# CLIP


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    """A CLIP of random weights in the layout of transformers."""
    folder = tmp_path_factory.mktemp("clip")
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 2}  # fmt: skip
    torch.manual_seed(0)
    config = tf.CLIPConfig(
        projection_dim=16,
        vision_config=tower | {"image_size": 32, "patch_size": 8},
        text_config=tower | {"vocab_size": 100, "eos_token_id": 1, "bos_token_id": 0},
    )
    model = tf.CLIPModel(config)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    model.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    tf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(folder)
    return folder, model.eval()


def test_clips_features_are_those_of_its_image_tower(clip_folder, monkeypatch, two_scenes):
    folder, model = clip_folder
    monkeypatch.setenv(FOLDER, str(folder))
    processor = tf.CLIPImageProcessor.from_pretrained(folder)
    frames = two_scenes.frames
    with torch.no_grad():
        pixels = processor(images=list(frames), return_tensors="pt")["pixel_values"]
        pooled = model.vision_model(pixel_values=pixels).pooler_output
        expected = model.visual_projection(pooled).numpy()
    np.testing.assert_allclose(clip_features(frames), expected, rtol=1e-4, atol=1e-5)


def test_with_clip_frames_are_told_apart_one_by_one(clip_folder, monkeypatch, two_scenes):
    monkeypatch.setenv(FOLDER, str(clip_folder[0]))
    case = a_context(tiny("qwen2_5_vl"), two_scenes, features="clip", threshold=0.9999)
    record = SSACD.build(case)[0].record
    assert (record.first, record.features, len(record.similarity)) == (5, "clip", 7)
    assert min(record.similarity) == record.similarity[4] < 0.9999
    case = a_context(tiny("qwen2_5_vl"), two_scenes, features="clip")  # 0.8, and these are closer
    expected = 5 if record.similarity[4] < 0.8 else None
    assert SSACD.build(case)[0].record.first == expected


def test_clip_is_looked_for_here_alone(monkeypatch, tmp_path, two_scenes):
    _loaded.cache_clear()
    monkeypatch.setenv(FOLDER, str(tmp_path))
    case = a_context(tiny("internvl"), two_scenes, features="clip")
    with pytest.raises(NotApplicable, match=r"no CLIP lies in .*MACD_CLIP"):
        SSACD.build(case)


def test_what_has_no_features_or_no_frames_is_left_out(two_scenes):
    with pytest.raises(NotApplicable, match="vision features of bytes"):
        SSACD.build(a_case())
    case = a_context(tiny("internvl"), two_scenes)
    case.encoded = replace(case.encoded, frames=replace(case.encoded.frames, duration=0.0))
    with pytest.raises(NotApplicable, match="a picture has no semantic shift"):
        SSACD.build(case)
    for wrong in ({"sigma": -1.0}, {"threshold": 1.5}, {"features": "dino"}):
        with pytest.raises(OptionError):
            SsacdOptions(**wrong)


def test_the_trace_keeps_the_shift_and_the_page_names_it(two_scenes):
    case = a_context(tiny("internvl"), two_scenes)
    answer = run_method(case, SSACD)
    small = small_trace()
    shown = replace(answer.second_views[0], shown=255 - small.model_frames.pixels)
    trace = replace(
        small, answers=small.answers | {"ssacd": replace(answer, second_views=(shown,))}
    )
    (read,) = unpack(pack(trace)).answers["ssacd"].second_views
    assert isinstance(read.view, ShiftView)
    assert read.view == answer.second_views[0].view
    drawn = json.loads(json.dumps(payload(trace)))["trace"]["answers"]["ssacd"]
    assert '"first": 5' in json.dumps(drawn)
    assert find_method("ssacd").source.startswith("SSACD (")


def test_the_features_are_those_that_were_read_for_the_video(two_scenes, monkeypatch):
    """Mean over a patch's tokens, unit by unit; of the base nothing is read again."""
    case = a_context(tiny("qwen2_5_vl"), two_scenes)
    lm, groups = case.lm, len(case.encoded.groups)
    at = torch.stack([torch.zeros(groups, dtype=torch.long), torch.arange(groups)], 1)
    (read,) = lm.encode_patches(case.encoded, case.encoded.video[None], at)
    expected = np.stack([sum(patch).detach().numpy() / len(patch) for patch in read])
    np.testing.assert_allclose(lm.frame_features(case.encoded), expected, rtol=1e-4, atol=1e-6)
    base = case.base
    monkeypatch.setattr(lm, "encode_patches", lambda *_: pytest.fail("the tower was asked"))
    again = lm.frame_features(case.encoded, base)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-6)
