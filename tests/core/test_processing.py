"""What of the processors is recorded, made explicit, or told exactly: filters, caps, times."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode
from transformers.video_utils import VideoMetadata

from macd_studio.core.backbones.frames import LlavaNextVideo
from macd_studio.core.backbones.sizes import cap_pixels, resampling_of
from macd_studio.core.types import Clip
from tests.families import NAMES, tiny

pytestmark = pytest.mark.matrix


def a_clip(times):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (len(times), 60, 80, 3), dtype=np.uint8)
    return Clip(pictures, times, pictures[:0], np.zeros(0), "x.mp4", "0", 99.0, (80, 60))


@pytest.mark.parametrize("fps", [25, 29.97, 30, 60])
@pytest.mark.parametrize("stride", [1, 2, 3, 7, 29])
def test_times_are_written_as_the_processor_writes_them(fps, stride):
    lm = tiny("qwen3_vl")
    index = (np.arange(24) * stride + stride // 2).tolist()
    clip = a_clip(np.array(index) / fps)
    encoded = lm.encode(clip, "Is there a dog?")
    own = lm.processor(
        text=[encoded.prompt],
        videos=[clip.frames.copy()],
        video_metadata=[VideoMetadata(index[-1] + 1, fps=fps, frames_indices=list(index))],
        do_sample_frames=False,
        return_tensors="pt",
    )
    assert lm.tokenizer.decode(encoded.input_ids[0]) == lm.tokenizer.decode(own["input_ids"][0])


def test_a_time_just_below_a_rounding_is_not_rounded_twice():
    lm = tiny("qwen3_vl")
    encoded = lm.encode(a_clip(np.array([0.4496, 0.4497, 1.0, 1.1])), "Is there a dog?")
    assert "<0.4 seconds>" in lm.tokenizer.decode(encoded.input_ids[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_filter_in_the_trace_is_the_one_frames_are_resized_with(name):
    video = tiny(name).processor.video_processor
    told = tiny(name).info.resample
    assert told == resampling_of(video)
    picture = torch.randint(0, 255, (1, 3, 40, 48), dtype=torch.uint8)
    size = tf.image_utils.SizeDict(height=10, width=12)
    base = tf.video_processing_utils.BaseVideoProcessor
    resized = base.resize(video, picture, size, video.resample)
    by_name = base.resize(video, picture, size, InterpolationMode(told))
    assert torch.equal(resized, by_name)


def test_whole_frames_reach_a_model_whose_processor_would_crop_them():
    bars = np.zeros((2, 60, 120, 3), np.uint8)
    bars[:, :, :12], bars[:, :, -12:] = 255, 255
    clip = Clip(bars, np.array([0.0, 1.0]), bars[:0], np.zeros(0), "x.mp4", "0", 2.0, (120, 60))
    given = copy.copy(tiny("llava_next_video").processor)
    given.video_processor = tf.LlavaNextVideoVideoProcessor()
    lm = LlavaNextVideo(tiny("llava_next_video").model, given, tiny("llava_next_video").info)
    read = lm.native_frames(clip)
    assert read.shape == (2, 56, 56, 3)
    assert read[:, :, 0].min() > 200
    assert read[:, :, -1].min() > 200
    assert given.video_processor.do_center_crop  # the caller's own is left as it was


def test_the_filter_is_found_by_trying():
    video = copy.copy(tiny("internvl").processor.video_processor)
    for asked, told in ((Image.Resampling.BILINEAR, "bilinear"),
                        (Image.Resampling.NEAREST, "nearest-exact")):  # fmt: skip
        video.resample = asked
        assert resampling_of(video) == told
    smol = tiny("smolvlm").processor.video_processor
    assert smol.resample == Image.Resampling.LANCZOS
    import torchvision

    lacks = tuple(map(int, torchvision.__version__.split(".")[:2])) < (0, 27)
    assert resampling_of(smol) == ("bicubic" if lacks else "lanczos")


@pytest.mark.parametrize(("name", "kind"), [("qwen2_5_vl", tf.Qwen2VLVideoProcessor),
                                           ("qwen3_vl", tf.Qwen3VLVideoProcessor)])  # fmt: skip
def test_the_cap_on_pixels_is_said_where_a_processor_leaves_it_open(name, kind):
    if not hasattr(kind, "cap_pixels_per_frame"):
        assert cap_pixels(kind()) is None
        return
    lm = tiny(name)
    assert lm.info.cap_pixels_per_frame is False  # its processor says so itself
    assert tiny("internvl").info.cap_pixels_per_frame is None
    processor = copy.copy(lm.processor)
    frames = torch.zeros(4, 3, 640, 960, dtype=torch.uint8)
    grids = {}
    for cap in (None, True, False):
        size = {"shortest_edge": 4096, "longest_edge": 32 * 32 * 900}
        processor.video_processor = kind(
            size=size, do_sample_frames=False, cap_pixels_per_frame=cap, max_video_tokens=100
        )
        again = type(lm)(lm.model, processor, lm.info)
        assert again.info.cap_pixels_per_frame is (cap is not False)
        assert processor.video_processor.cap_pixels_per_frame is cap  # the caller's stays as it is
        grids[cap] = again.processor.video_processor([frames])["video_grid_thw"][0].tolist()
    assert grids[None] == grids[True]
    assert np.prod(grids[False]) > np.prod(grids[True])
