"""The embedded backbone and its family, on the shipped weights."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl

from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.prompt import query_positions
from macd_studio.core.decoding.answers import decode
from macd_studio.core.errors import BackboneCorrupt, OptionError, QuestionError, UnsupportedBackbone
from macd_studio.core.macd import query_loss
from macd_studio.core.masking.ascent import ascend
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import AscentOptions, ContrastOptions, DecodeOptions, MaskOptions
from macd_studio.core.rules import Linear, Plain
from macd_studio.core.types import SEEN, Clip, Track
from macd_studio.toyworld.model import use_fused_norms
from tests.families import outer

QUESTION = "Is there a dog in the video?"


@pytest.fixture(scope="module")
def clip(toy_mp4):
    return read_clip(toy_mp4)


@pytest.fixture(scope="module")
def encoded(toyworld, clip):
    return toyworld.encode(clip, QUESTION)


@pytest.fixture(scope="module")
def found(toy_spec, clip):
    """True tracks of the two objects."""
    at = clip.times / clip.duration
    return [
        Track(i, o.label, 0.9, o.boxes(at).astype(np.float32), np.full(8, SEEN, np.int8), 40)
        for i, o in enumerate(toy_spec.objects, 1)
    ]


def view_of(encoded, found, dtype=torch.float32, **options):
    chosen = MaskOptions(**options)
    masks = draw_masks(found, 8, encoded.frames.size, chosen)
    return mask_compositor(encoded, masks, found, chosen, dtype)


def test_pixels_equal_the_processors(toyworld, clip, encoded):
    own = toyworld.processor(
        text=[encoded.prompt], videos=[np.array(clip.frames)], do_sample_frames=False,
        return_tensors="pt",
    )["pixel_values_videos"]  # fmt: skip
    torch.testing.assert_close(encoded.layout(encoded.video), own, rtol=0, atol=1e-7)
    assert encoded.frames.pixels.shape == (8, 96, 96, 3)
    assert encoded.groups == ((0, 1), (2, 3), (4, 5), (6, 7))
    grey = encoded.frames.pixels.astype(float) / 127.5 - 1
    np.testing.assert_allclose(grey, encoded.video.permute(0, 2, 3, 1), atol=0.005)


def test_a_blended_tensor_is_the_blended_video_preprocessed(toyworld, clip, encoded, found):
    view = view_of(encoded, found)
    mask = view.mask(torch.tensor([1.0, 0.3]), torch.tensor([0.0, 0.5, 0.0, 1.0]))[..., None]
    picture = torch.from_numpy(encoded.frames.pixels).float() / 255
    blended = picture * (1 - mask) + 0.5 * mask
    own = toyworld.processor.video_processor(
        [blended.permute(0, 3, 1, 2)], do_resize=False, do_rescale=False, do_sample_frames=False,
        return_tensors="pt",
    )["pixel_values_videos"]  # fmt: skip
    ours = encoded.layout(view.video(torch.tensor([1.0, 0.3]), torch.tensor([0.0, 0.5, 0.0, 1.0])))
    torch.testing.assert_close(ours, own, rtol=0, atol=0.006)  # frames are rounded to 8 bits


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        "Which way does the dog move?",
        "user assistant user",
        "dog dog dog",
        "is there a dog in the video? is there a dog in the video?",
        "狗 🐕 dog",
        "two\nlines",
    ],
)
def test_the_query_span_holds_the_question_and_nothing_else(toyworld, clip, question):
    encoded = toyworld.encode(clip, question)
    ids = encoded.input_ids[0]
    expected = toyworld.tokenizer(question, add_special_tokens=False)["input_ids"]
    assert ids[encoded.query].tolist() == expected
    before = toyworld.tokenizer.convert_ids_to_tokens(int(ids[encoded.query[0] - 1]))
    after = toyworld.tokenizer.convert_ids_to_tokens(int(ids[encoded.query[-1] + 1]))
    assert (before, after) == ("<|vision_end|>", "<|im_end|>")


def test_a_suffix_is_asked_but_not_part_of_the_query(toyworld, clip, encoded):
    longer = toyworld.encode(clip, QUESTION, suffix=" yes or no")
    assert longer.input_ids.shape[1] == encoded.input_ids.shape[1] + 3
    assert len(longer.query) == len(encoded.query)


def test_a_template_with_the_question_first_is_refused(toyworld):
    with pytest.raises(UnsupportedBackbone, match="before the video"):
        query_positions(toyworld.tokenizer, "dog<|vision_end|>", [1], "dog", "<|vision_end|>")


def test_special_tokens_and_unknown_words(toyworld, clip):
    with pytest.raises(QuestionError, match="video_pad"):
        toyworld.encode(clip, "<|video_pad|> what?")
    assert toyworld.encode(clip, "Is there a zebra or a zebu?").notes == (
        "the backbone does not know these words: zebra, zebu",
    )


def rotate_in_double(q, k, cos, sin):
    cos, sin = cos.double()[:, None], sin.double()[:, None]
    half = modeling_qwen2_5_vl.rotate_half
    return q * cos + half(q) * sin, k * cos + half(k) * sin


@pytest.mark.parametrize("frame_mask", ["outside", "off"])
def test_the_gradient_of_r_against_central_differences(
    toyworld, clip, found, frame_mask, monkeypatch
):
    # transformers rotates and normalises in float32 inside; that noise would drown the differences
    monkeypatch.setattr(modeling_qwen2_5_vl, "apply_rotary_pos_emb_vision", rotate_in_double)
    lm = copy.copy(toyworld)
    lm.model = copy.deepcopy(toyworld.model).double()
    lm.dtype = torch.float64
    use_fused_norms(lm.model)
    encoded = lm.encode(clip, QUESTION)
    apart = draw_masks(found, 8, (96, 96))
    # objects that do not overlap and no frame mask: M is smooth in r, so the slope is one number
    view = mask_compositor(encoded, apart, found, MaskOptions(frame_mask=frame_mask), torch.float64)
    (step,) = ascend(lm, view, AscentOptions(r0=0.6 if frame_mask == "off" else 0.75))
    at = np.concatenate([step.strength, step.frame_strength])
    if frame_mask == "outside":  # away from the tie of all strengths, where max() has a kink
        at = at - np.array([0.0, 0.02, 0.05, 0.07, 0.09, 0.11])
    r = torch.tensor(at, requires_grad=True)

    def loss(z):
        return query_loss(lm, encoded, view.video(z[:2], z[2:]))

    (slope,) = torch.autograd.grad(loss(r), r)
    for i in range(len(at)):
        h = torch.zeros(len(at), dtype=torch.float64)
        h[i] = 1e-5
        with torch.no_grad():
            central = (loss(r + h) - loss(r - h)) / 2e-5
        assert float(slope[i]) == pytest.approx(float(central), rel=1e-5, abs=1e-9)
    if frame_mask == "off":
        np.testing.assert_allclose(step.gradient, slope.numpy(), rtol=1e-9)


def test_a_whole_frame_mask_leaves_the_objects_their_gradients(toyworld, encoded, found):
    chosen = MaskOptions(frame_mask="whole", fusion="or")
    masks = draw_masks(found, 8, (96, 96), chosen)
    (step,) = ascend(toyworld, mask_compositor(encoded, masks, found, chosen), AscentOptions())
    assert (np.abs(step.gradient) > 1e-7).all()
    assert (np.abs(step.frame_gradient) > 1e-7).all()


def test_the_loss_is_the_models_own(toyworld, encoded):
    full = outer(toyworld, encoded, encoded.video, seconds=1.0)
    ids = encoded.input_ids[0]
    by_hand = -full.log_softmax(-1)[encoded.query - 1, ids[encoded.query]].mean()
    assert float(query_loss(toyworld, encoded, encoded.video)) == pytest.approx(
        float(by_hand), abs=1e-5
    )


def test_stepwise_logits_equal_a_full_forward(toyworld, encoded):
    state = toyworld.prefill(encoded, encoded.video)
    forced = toyworld.tokenizer("a dog and a cup", add_special_tokens=False)["input_ids"]
    stepped = [state.logits[0]]
    for token in forced:
        state = toyworld.step(state, [token])
        stepped.append(state.logits[0])
    full = outer(toyworld, encoded, encoded.video, forced, seconds=1.0)[-len(stepped) :]
    torch.testing.assert_close(torch.stack(stepped), full, rtol=1e-4, atol=1e-4)


def test_two_videos_in_one_process_do_not_disturb_each_other(toyworld, clip, encoded):
    options = Plain(), DecodeOptions(max_tokens=12)
    alone = [
        s.token for s in decode(toyworld, toyworld.prefill(encoded, encoded.video), [], *options)
    ]
    short = read_clip_like(clip, 3)
    other = toyworld.encode(short, "Where is it?")
    state = toyworld.prefill(encoded, encoded.video)
    mixed = []
    for step in decode(toyworld, state, [], *options):
        mixed.append(step.token)
        toyworld.prefill(other, other.video)
    assert mixed == alone


def read_clip_like(clip, frames):
    return replace(clip, frames=clip.frames[:frames], times=clip.times[:frames])


@pytest.mark.parametrize("frames", [1, 3, 5])
def test_odd_frame_counts(toyworld, clip, frames):
    encoded = toyworld.encode(read_clip_like(clip, frames), QUESTION)
    assert sum(map(len, encoded.groups)) == frames
    assert encoded.frames.pixels.shape == (frames, 96, 96, 3)
    assert torch.isfinite(toyworld.prefill(encoded, encoded.video).logits).all()


def test_timestamps_reach_the_model(toyworld, clip, encoded):
    slow = toyworld.encode(replace(clip, times=clip.times * 3), QUESTION)
    at = encoded.inputs["position_ids"][0, 0, 3:39].unique()
    later = slow.inputs["position_ids"][0, 0, 3:39].unique()
    assert at.diff().tolist() == [2, 2, 2]
    assert later.diff().tolist() == [6, 6, 6]


@pytest.mark.parametrize("slower", [1, 5])
def test_alpha_zero_equals_generate_token_for_token(toyworld, clip, slower):
    clip = replace(clip, times=clip.times * slower, duration=clip.duration * slower)
    for question in (QUESTION, "What is in the video?", "Which way does the dog move?"):
        encoded = toyworld.encode(clip, question)
        base = toyworld.prefill(encoded, encoded.video)
        counter = toyworld.prefill(encoded, torch.zeros_like(encoded.video))
        steps = decode(
            toyworld, base, [counter], Linear(ContrastOptions(alpha=0.0)), DecodeOptions()
        )
        kinds = torch.where(encoded.input_ids == toyworld.vision_token, 2, 0).int()
        with torch.no_grad():
            own = toyworld.model.generate(
                input_ids=encoded.input_ids,
                pixel_values_videos=encoded.layout(encoded.video),
                second_per_grid_ts=torch.tensor([float(slower)]),
                max_new_tokens=64,
                do_sample=False,
                video_grid_thw=encoded.inputs["video_grid_thw"],
                mm_token_type_ids=kinds,
            )[0, encoded.input_ids.shape[1] :].tolist()
        assert [s.token for s in steps] == own


def test_the_embedded_model_sees_what_is_there(toyworld, encoded, found, clip):
    def says(question):
        e = toyworld.encode(clip, question)
        base = toyworld.prefill(e, e.video)
        steps = decode(toyworld, base, [], Plain(), DecodeOptions())
        return toyworld.text([s.token for s in steps])

    assert says(QUESTION) == "yes"
    assert says("Is there a horse in the video?") == "no"
    assert says("Which animal is in the video?") == "dog"
    assert says("Which way does the dog move?") == "right"
    (step,) = ascend(toyworld, view_of(encoded, found, frame_mask="off"), AscentOptions())
    assert step.gradient[0] > 0
    assert abs(step.gradient[0]) > abs(step.gradient[1])


def test_folders_that_are_no_model_say_so(tmp_path):
    with pytest.raises(BackboneCorrupt, match=r"holds no config\.json"):
        load_backbone(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UnsupportedBackbone, match="bert"):
        load_backbone(str(tmp_path))


def test_changed_weights_are_not_loaded(tmp_path, monkeypatch):
    import shutil

    from macd_studio.core.system import shipped

    copied = tmp_path / "toyworld"
    shutil.copytree(shipped.TOYWORLD, copied)
    monkeypatch.setattr(shipped, "TOYWORLD", copied)
    shipped.shipped.cache_clear()
    try:
        with (copied / "backbone" / "config.json").open("a") as file:
            file.write(" ")
        with pytest.raises(BackboneCorrupt, match="changed or damaged"):
            load_backbone("toyworld")
    finally:
        shipped.shipped.cache_clear()


VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
TEXT = "{{ messages[0].content[-1].text }}"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ 1 / 0 }}", "cannot be used"),
        ("{% for", "cannot be used"),
        ("{{ raise_exception('no') }}", "cannot be used"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "cannot be used"),
        ("{{ messages[9].content }}", "cannot be used"),
        (VIDEO + TEXT + "{{ 'x' * 200000 }}", "more than 100,000 characters"),
        (VIDEO, "leaves the question out"),
        ("", "leaves the question out"),
        (TEXT, "cannot be used|question before the video"),
        (TEXT + VIDEO, "question before the video"),
        (VIDEO + VIDEO + TEXT, "cannot be used"),
    ],
)
def test_a_chat_template_that_is_none_is_told(toyworld, clip, monkeypatch, template, why):
    monkeypatch.setattr(toyworld.processor, "chat_template", template)
    with pytest.raises(UnsupportedBackbone, match=why) as error:
        toyworld.encode(clip, "Is there a dog?")
    assert error.value.remedy
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("size", [(5, 1280), (1280, 5)])
def test_a_clip_of_a_shape_that_no_processor_takes_is_told(toyworld, size):
    frames = np.zeros((8, *size, 3), np.uint8)
    times = np.arange(8.0)
    long = Clip(frames, times, frames[:0], times[:0], "", "", 8.0, size[::-1])
    for fit in ("pad", "native"):
        with pytest.raises(OptionError, match=f"cannot read frames of {size[1]}×{size[0]} pixels"):
            toyworld.preprocess(long, fit)
