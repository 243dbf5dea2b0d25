"""The model that runs is the model the user has: its prompt and its answers at every frame size."""

import pytest
import torch

from macd_studio.core.backbones import processor as processor_module
from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.contract import adapt_model, check_model, pixels_of
from macd_studio.core.errors import UnsupportedBackbone
from tests.layouts import QUESTION, SIZES, adapter, built, drawn, names, our_answer, own_answer
from tests.universal_models import parts

SAMPLED = {"qwen2_5_omni_thinker", "cosmos3_edge", "muse_glimmer", "lfm2_vl", "pan and scan"}
pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.mark.parametrize(
    "name", [n if n in SAMPLED else pytest.param(n, marks=pytest.mark.long) for n in names()]
)
def test_ids_and_tokens_are_those_of_the_model_s_own_way(name):
    for size in SIZES[:2] if name in SAMPLED else SIZES:  # a small one, one cut into tiles
        assert our_answer(name, size) == own_answer(name, size)


PICTURE_SIZES = ((480, 270), (270, 480), (112, 112), (1280, 720), (1000, 200))


@pytest.mark.parametrize(
    "size", [SIZES[1], *(pytest.param(z, marks=pytest.mark.long) for z in PICTURE_SIZES)]
)
def test_a_model_that_chooses_tiles_reads_the_picture_as_it_is(size):
    lm = adapter("minicpmv4_6")
    encoded = lm.encode(drawn(size, 1), QUESTION)
    own = lm.own_inputs(encoded.frames, QUESTION)
    picture = torch.from_numpy(drawn(size, 1).frames[0].copy()).permute(2, 0, 1)
    again = lm.processor.apply_chat_template(
        [{"role": "user", "content": [
            {"type": "image", "image": picture},
            {"type": "text", "text": QUESTION},
        ]}], tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True,
    )  # fmt: skip
    assert encoded.input_ids.tolist() == again["input_ids"].tolist() == own["input_ids"].tolist()
    given = lm.pixel_inputs(encoded, encoded.video)["pixel_values"]
    assert torch.allclose(given, again["pixel_values"], atol=1e-5)


def test_masks_are_drawn_at_the_clip_s_own_size_where_another_would_change_the_tiles():
    lm = adapter("lfm2_vl")
    wide = lm.encode(drawn((480, 270), 1), QUESTION)
    assert wide.frames.size == (270, 480)
    assert wide.inputs["rest"]
    video = wide.video.clone().requires_grad_()
    (slope,) = torch.autograd.grad(pixels_of(lm, wide, video).square().sum(), video)
    assert (slope.abs().amax((0, 1)) > 0).float().mean() > 0.9
    hidden = torch.zeros_like(wide.video)
    left = wide.inputs["rest"]["pixel_values"].abs().max()
    off = (pixels_of(lm, wide, hidden) - 0).abs()
    assert float(off.min()) <= float(left) <= 0.05  # what is left of a hidden frame: rounding


def test_frames_that_would_change_the_tiles_are_refused_at_load(monkeypatch):
    """As frames were resized before the untouched clip was looked at."""
    monkeypatch.setattr(processor_module, "alike", lambda *_: True)
    model, processor = built("lfm2_vl")
    with pytest.raises(UnsupportedBackbone, match="where its own processor makes") as error:
        adapt_model(model, processor, BackboneInfo("mine", "lfm2_vl", 0, "cpu", "float32"))
    assert "fails the check 'layout'" in error.value.cause


def test_a_family_whose_own_forward_fails_says_where():
    model, processor = parts("nemotron_h_omni")
    with pytest.raises(UnsupportedBackbone) as error:
        adapt_model(model, processor, BackboneInfo("mine", "nemotron_h_omni", 0, "cpu", "float32"))
    assert "TypeError" in error.value.cause
    assert "transformers/models/nemotron_h_omni/modeling_nemotron_h_omni.py:" in error.value.cause


def test_a_prompt_without_a_token_of_pixels_says_so(monkeypatch):
    lm = adapter("ovis2")
    monkeypatch.setattr(lm.model.config, "image_token_id", 3)
    lm.__dict__.pop("vision_ids", None)
    with pytest.raises(
        UnsupportedBackbone, match="holds no token that stands for pixels: neither 3"
    ):
        check_model(lm)
