"""The embedded backbone and its family, on the shipped weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones import load_backbone
from macd_studio.core.decoding.answers import decode
from macd_studio.core.errors import BackboneCorrupt, OptionError, QuestionError, UnsupportedBackbone
from macd_studio.core.masking.ascent import ascend
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import AscentOptions, ContrastOptions, DecodeOptions, MaskOptions
from macd_studio.core.rules import Linear, Plain
from macd_studio.core.types import SEEN, Clip, Track

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


def test_a_suffix_is_asked_but_not_part_of_the_query(toyworld, clip, encoded):
    longer = toyworld.encode(clip, QUESTION, suffix=" yes or no")
    assert longer.input_ids.shape[1] == encoded.input_ids.shape[1] + 3
    assert len(longer.query) == len(encoded.query)


def test_special_tokens_and_unknown_words(toyworld, clip):
    with pytest.raises(QuestionError, match="video_pad"):
        toyworld.encode(clip, "<|video_pad|> what?")
    assert toyworld.encode(clip, "Is there a zebra or a zebu?").notes == (
        "the backbone does not know these words: zebra, zebu",
    )


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


@pytest.mark.parametrize("change", ["replaced", "truncated", "missing"])
def test_a_changed_network_of_the_shipped_detector_is_not_loaded(change, tmp_path, monkeypatch):
    """YOLO11n finds the objects of clips of a camera, and is the tower of *everyday*."""
    import shutil

    from macd_studio.core.embedded import EVERYDAY, NETWORK
    from macd_studio.core.objects.detect import load_detector
    from macd_studio.core.system import shipped

    copied = shutil.copytree(shipped.TOYWORLD.parent / EVERYDAY, tmp_path / EVERYDAY)
    monkeypatch.setattr(shipped, "TOYWORLD", tmp_path / "toyworld")
    shipped.shipped.cache_clear()
    network = copied / "backbone" / NETWORK
    content = network.read_bytes()
    if change == "missing":
        network.unlink()
    else:
        changed = content[:-1000] if change == "truncated" else content[::-1]
        network.write_bytes(changed)
    try:
        for load in (lambda: load_detector("yolo11n"), lambda: load_backbone(EVERYDAY)):
            with pytest.raises(BackboneCorrupt, match=r"missing|changed or damaged"):
                load()
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
