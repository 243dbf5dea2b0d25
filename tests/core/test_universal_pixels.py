"""What reaches a model behind the universal adapter: its size, its scale, all of a frame."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from transformers.image_utils import SizeDict

from macd_studio.core.backbones import universal as universal_module
from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.contract import adapt_model, made, pixels_of
from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.types import ModelFrames
from tests.fakes import clip
from tests.universal_models import FAMILIES, PICTURES, parts, universal

QUESTION = "Is there a dog in the video?"
SAMPLED = {"llava_onevision", "qwen3_5", "molmo2", "idefics3"}
TILED = {"idefics3", "minicpmv4_6", "ovis2", "lfm2_vl", "llama4"}
KEPT = {"ovis2", "llama4"}
"""Their processors would lay other clips than this small one out anew: those keep their size, and
resizing averages the noise."""
pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore::UserWarning")]


def each(names):
    return [n if n in SAMPLED else pytest.param(n, marks=pytest.mark.long) for n in names]


@pytest.mark.parametrize("name", each([*FAMILIES, *PICTURES]))
def test_noise_keeps_its_scale_up_to_the_model_s_pixels(name):
    """As frames are resized before it is drawn; an overview beside tiles averages it."""
    lm = universal(name)
    side = 112 if name in KEPT else 160
    encoded = lm.encode(clip(1 if name in PICTURES else 4, side), QUESTION)
    noise = torch.randn(encoded.video.shape, generator=torch.Generator().manual_seed(0))
    with_noise, without = (pixels_of(lm, encoded, encoded.video + z) for z in (noise, 0 * noise))
    off = (with_noise - without).abs()
    unit = 255 if name == "molmo2" else 1  # its class leaves colours as they are
    scale = float(off[off > 0].square().mean().sqrt()) / unit
    assert scale == pytest.approx(1, abs=0.03 if name not in TILED else 0.2)
    assert len(off) >= noise.numel()
    assert lm.resized(encoded.frames).pixels is encoded.frames.pixels


def test_frames_of_a_trace_from_before_they_were_resized_are_read():
    lm = universal("llava_onevision")
    source = clip(3, 160)
    frames = ModelFrames(source.frames, source.times, source.duration, (0, 0, 160, 160))
    then, now = lm.encode_frames(frames, QUESTION), lm.encode(source, QUESTION)
    assert then.video.shape[-1] == 160 != now.video.shape[-1]
    assert torch.equal(then.input_ids, now.input_ids)
    both = [lm.prefill(e, e.video).logits for e in (then, now)]
    assert torch.allclose(*both, atol=0.05)  # one is resized in 8 bits


def adapted(name, **settings):
    """The adapter of a family whose processor has other settings, for video and for pictures."""
    model, processor = parts(name)
    processor = deepcopy(processor)
    for part in (processor.image_processor, getattr(processor, "video_processor", None)):
        for key, value in settings.items() if part is not None else ():
            setattr(part, key, value)
    return adapt_model(model, processor, BackboneInfo(name, name, 0, "cpu", "float32"))


@pytest.mark.parametrize(
    ("settings", "brightest"),
    [
        ({}, 1),
        ({"do_rescale": False}, 255),
        ({"rescale_factor": 1 / 127.5}, 2),
        ({"do_normalize": False}, 1),
    ],
)
def test_colours_have_the_scale_that_the_processor_gives_them(settings, brightest):
    lm = adapted("llava_onevision", **settings)
    encoded = lm.encode(clip(3, 96), QUESTION)
    ((name, mine),) = made(lm, encoded, encoded.video).items()
    assert torch.allclose(mine, encoded.inputs[name], rtol=1e-5, atol=1e-5)
    unit = 255 if "do_rescale" in settings else 1  # so that noise can be seen
    assert torch.allclose(mine.flatten(), unit * encoded.video.flatten(), rtol=1e-5, atol=1e-5)
    used = settings.get("do_normalize", True)
    own = torch.tensor(lm.processor.video_processor.image_std if used else [1.0] * 3)
    assert torch.allclose(encoded.std, unit * own / brightest)


def test_a_single_frame_that_the_model_cannot_read_as_a_picture_is_a_video():
    """Its processor cuts tiles that the model is not configured for."""
    lm = adapted("llava_onevision", image_grid_pinpoints=[[448, 448]])
    assert [c.name for c in lm.contract.failed()] == ["picture"]
    assert "images" not in lm.capabilities
    encoded = lm.encode(clip(1, 96), QUESTION)
    assert "pixel_values_videos" in encoded.inputs
    assert lm.prefill(encoded, encoded.video).logits.isfinite().all()


@pytest.mark.parametrize("name", each(n for n in FAMILIES if n != "video_llava"))
def test_a_single_frame_is_read_as_a_picture(name):
    lm = universal(name)
    encoded = lm.encode(clip(1, 96), QUESTION)
    assert "pixel_values_videos" not in encoded.inputs
    video = encoded.video.clone().requires_grad_()
    logits = lm.prefill(encoded, video, graph=True).query_logits
    (slope,) = torch.autograd.grad(logits.square().sum(), video)
    assert (slope.abs().amax((0, 1)) > 0).float().mean() > 0.9


CROPPING = {
    "do_center_crop": True,
    "size": SizeDict(shortest_edge=56),
    "crop_size": SizeDict(height=56, width=56),
}


def wide_clip(frames):
    square = clip(frames, 96)
    wide = square.frames.repeat(2, 2)
    return replace(square, frames=wide, size=(192, 96))


@pytest.mark.parametrize("name", ["video_llava", "llava"])
def test_a_processor_that_cuts_out_the_middle_reads_whole_frames(name):
    lm = adapted(name, **CROPPING)
    count = 1 if name in PICTURES else 3
    encoded = lm.encode(wide_clip(count), QUESTION)
    assert encoded.video.shape[-2:] == (56, 56)
    assert encoded.frames.content == (0, 0, 56, 56)
    assert encoded.frames.stretch == pytest.approx(0.5)
    video = encoded.video.clone().requires_grad_()
    logits = lm.prefill(encoded, video, graph=True).query_logits
    (slope,) = torch.autograd.grad(logits.square().sum(), video)
    assert (slope.abs().amax((0, 1)) > 0).all()


def test_the_caller_s_processor_is_left_as_it_is():
    model, processor = parts("video_llava")
    processor = deepcopy(processor)
    processor.video_processor.do_center_crop = True
    processor.video_processor.crop_size = SizeDict(height=56, width=56)
    adapt_model(model, processor, BackboneInfo("tiny", "video_llava", 0, "cpu", "float32"))
    assert processor.video_processor.do_center_crop


def test_a_processor_whose_crop_stays_is_refused(monkeypatch):
    monkeypatch.setattr(universal_module, "uncropped", lambda processor: processor)
    with pytest.raises(UnsupportedBackbone, match="left border of a wide frame is not read"):
        adapted("video_llava", **CROPPING)
