"""The embedded everyday model: its tower against other code, and as a model of its family."""

from __future__ import annotations

import json
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from safetensors import safe_open

from macd_studio.core.backbones import everyday, load_backbone
from macd_studio.core.backbones.everyday import (
    CLASSES,
    COLOURS,
    FLOOR,
    PEAKS,
    colour_shares,
    content_of,
    find_peaks,
    lab_of,
    places_in,
)
from macd_studio.core.embedded import DRAWN, EVERYDAY, NETWORK
from macd_studio.core.macd import query_loss
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.options import DetectOptions, RunOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets, shipped
from macd_studio.core.views.context import MethodContext

NAMES = list(COLOURS)


@pytest.fixture(scope="module")
def lm():
    return load_backbone(EVERYDAY, "cpu")


@pytest.fixture(scope="module")
def clip():
    """Four frames of a real clip with people and chairs."""
    options = VideoOptions(frames=4, dense_fps=2.0)
    return read_clip(assets() / "everyday" / "examples" / "classroom.mp4", options)


@pytest.fixture(scope="module")
def yolo():
    return load_detector("yolo11n")


@pytest.fixture(scope="module")
def trace(lm, clip, yolo):
    """A run on it, in which people were found."""
    options = RunOptions(detect=DetectOptions(confidence=0.3))
    question = "Is there a person in the video?"
    *_, last = run(lambda: clip, question, lambda: lm, lambda: yolo, options)
    assert last.trace.tracks
    return last.trace


def context_of(lm, trace):
    encoded = lm.encode_frames(trace.model_frames, trace.question)
    return MethodContext(lm, encoded, trace.tracks, trace.options)


def pictures_of(lm, clip):
    return lm.encode(clip, "Is there a person?").video + lm.mean[:, None, None]


def test_the_network_is_that_of_ultralytics(lm, clip, yolo):
    """Class logits and boxes of every anchor, against the detector that ships."""
    pictures = pictures_of(lm, clip)[:2]
    other = yolo._model.model.float().eval()
    with torch.no_grad():
        logits, boxes = lm.model.model.vision_tower.network(pictures)
        (expected, *_) = other(pictures)
    scores = expected[:, 4:].transpose(1, 2)
    middle, size = expected[:, :4].transpose(1, 2).split(2, -1)
    corners = torch.cat([middle - size / 2, middle + size / 2], -1)
    assert scores.shape == logits.shape == (2, 4116, len(CLASSES))
    assert float((logits.sigmoid() - scores).abs().max()) < 1e-5
    sure = scores.amax(-1) > 0.01
    assert float((boxes - corners)[sure].abs().max()) < 1e-2


def test_the_shipped_network_names_its_classes():
    with safe_open(shipped(f"backbone/{NETWORK}", EVERYDAY), "pt") as file:
        assert tuple(json.loads(file.metadata()["names"])) == CLASSES


def slow_peaks(logits, boxes):
    """The rule of peaks, one box after the other in plain Python."""
    order = sorted(range(len(logits)), key=lambda i: -max(logits[i]))[: everyday.CANDIDATES]
    kept = []
    for i in order:
        if max(logits[i]) <= FLOOR:
            continue
        label = logits[i].index(max(logits[i]))
        for j in kept:
            a, b = boxes[i], boxes[j]
            w = min(a[2], b[2]) - max(a[0], b[0])
            h = min(a[3], b[3]) - max(a[1], b[1])
            common = max(w, 0) * max(h, 0)
            areas = sum((z[2] - z[0]) * (z[3] - z[1]) for z in (a, b))
            iou = common / (areas - common)
            same = logits[j].index(max(logits[j])) == label
            if iou > everyday.ANY_CLASS or (same and iou > everyday.SAME_CLASS):
                break
        else:
            kept.append(i)
    return kept[:PEAKS]


def test_peaks_are_those_of_a_slow_rule(lm, clip):
    with torch.no_grad():
        logits, boxes = lm.model.model.vision_tower.network(pictures_of(lm, clip)[:1])
    noise = torch.randn(logits.shape, generator=torch.Generator().manual_seed(3))
    for these in (logits[0], logits[0] + 2 * noise[0]):
        index, there = find_peaks(these, boxes[0])
        expected = slow_peaks(these.tolist(), boxes[0].tolist())
        assert index[there].tolist() == expected
        assert expected


def test_a_picture_of_nothing_has_no_peaks_and_still_tokens(lm):
    tower = lm.model.model.vision_tower
    black = torch.zeros(1, 3, 448, 448) - tower.config.mean
    assert not tower.see(black).evidence.any()
    tokens = tower(black).last_hidden_state
    assert tokens.shape == (1, 196, tower.config.hidden_size)
    assert bool(tokens.isfinite().all())


@pytest.mark.parametrize("content", [(0, 98, 448, 350), (126, 0, 322, 448), (0, 0, 448, 448)])
def test_places_are_those_in_the_picture_not_in_its_padding(content):
    x0, y0, x1, y1 = content
    square = torch.full((1, 3, 448, 448), 114 / 255)
    square[..., y0:y1, x0:x1] = torch.rand(1, 3, y1 - y0, x1 - x0)
    square[..., y0 : y0 + 90, x0:x1] = 114 / 255  # a mask at one edge alone is no padding
    found = content_of(square, 114 / 255)
    assert (found[0] * 448).tolist() == pytest.approx(content, abs=1e-3)
    boxes = torch.tensor([[[x0, y0, x1, (y0 + y1) / 2]]]) / 448
    assert places_in(boxes, found)[0, 0].tolist() == pytest.approx([0, 0, 1, 0.5], abs=1e-5)
    grey = torch.full((1, 3, 448, 448), 114 / 255)
    assert content_of(grey, 114 / 255).tolist() == [[0, 0, 1, 1]]


def test_lab_is_that_of_opencv():
    rgb = np.random.default_rng(0).random((1, 200, 3)).astype(np.float32)
    expected = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
    assert np.abs(lab_of(torch.from_numpy(rgb)).numpy() - expected).max() < 0.5


@pytest.mark.parametrize(
    ("rgb", "name"),
    [((220, 30, 30), "red"), ((250, 250, 248), "white"), ((5, 5, 8), "black"),
     ((128, 128, 128), "grey"), ((30, 60, 180), "blue"), ((240, 210, 40), "yellow"),
     ((40, 140, 60), "green"), ((110, 75, 45), "brown"), ((240, 130, 30), "orange"),
     ((235, 140, 175), "pink"), ((130, 50, 150), "purple")],
)  # fmt: skip
def test_colours_have_their_names(rgb, name):
    shares = colour_shares(torch.tensor([rgb]).float() / 255)
    assert float(shares.sum()) == pytest.approx(1, abs=1e-5)
    assert NAMES[int(shares.argmax())] == name


def test_it_answers_as_transformers_generates(lm, clip):
    """Prompt, pixels and tokens, by the processor and `generate` alone."""
    frames = lm.preprocess(clip)
    for question in ("Is there a person in the video?", "What is in the video?"):
        encoded = lm.encode_frames(frames, question)
        message = [{"role": "user", "content": [
            {"type": "video", "video": torch.from_numpy(frames.pixels.copy()).permute(0, 3, 1, 2)},
            {"type": "text", "text": question},
        ]}]  # fmt: skip
        given = lm.processor.apply_chat_template(
            message, tokenize=True, return_dict=True, return_tensors="pt",
            add_generation_prompt=True, processor_kwargs={"do_sample_frames": False},
        )  # fmt: skip
        given = {k: v for k, v in given.items() if k != "video_metadata"}
        assert given["input_ids"].tolist() == encoded.input_ids.tolist()
        with torch.no_grad():
            out = lm.model.generate(**given, max_new_tokens=16, do_sample=False)
            state, tokens = lm.prefill(encoded, encoded.video), []
            while len(tokens) < 16 and int(state.logits[0].argmax()) not in lm.end_tokens:
                tokens.append(int(state.logits[0].argmax()))
                state = lm.step(state, tokens[-1:])
        expected = [t for t in out[0, given["input_ids"].shape[1] :].tolist()
                    if t not in lm.end_tokens]  # fmt: skip
        assert tokens == expected


def test_the_gradient_of_a_strength_is_its_slope(lm, trace):
    """Of the question's loss, through the tower, against central differences."""
    context = context_of(lm, trace)
    masks = context.masks(trace.options.mask)

    def loss(k, by):
        strengths = torch.full((len(trace.tracks),), 0.75)
        strengths[k] += by
        groups = torch.full((len(trace.groups),), 0.75)
        with torch.no_grad():
            view = masks.video(strengths, groups)
            return context.loss(lm.prefill(context.encoded, view))

    for k, slope in enumerate(trace.steps[0].gradient[: len(trace.tracks)][:2]):
        measured = (loss(k, 0.004) - loss(k, -0.004)) / 0.008
        assert measured == pytest.approx(float(slope), rel=0.15, abs=2e-3)


def test_frames_that_are_seen_in_pieces_have_the_same_gradient(lm, clip, monkeypatch):
    encoded = lm.encode(clip, "Is there a person in the video?")

    def slope():
        video = encoded.video.clone().requires_grad_()
        return torch.autograd.grad(query_loss(lm, encoded, video), video)[0]

    together = slope()
    monkeypatch.setattr(everyday, "CHUNK", 3)
    apart = slope()
    assert float(together.norm()) > 0
    assert float((apart - together).norm() / together.norm()) < 2e-3  # convolutions round otherwise


@pytest.mark.parametrize(("name", "kind", "told"), [
    ("everyday", "black", "no objects were found"),
    ("everyday", "picture", ""),
    ("everyday", "drawn", "toyworld knows them"),
    ("toyworld", "camera", "knows only the drawn toy world"),
])  # fmt: skip
def test_a_clip_that_a_model_was_not_made_for_gets_an_answer_and_a_sentence(
    name, kind, told, lm, clip, toyworld, yolo
):
    black, one = np.zeros_like(clip.frames), clip.frames[:1]
    shown = {
        "black": replace(clip, frames=black, dense_frames=np.zeros_like(clip.dense_frames)),
        "picture": replace(
            clip, frames=one, times=np.zeros(1), duration=0.0,
            dense_frames=one, dense_times=np.zeros(1),
        ),
        "drawn": replace(clip, title=DRAWN),
        "camera": clip,
    }[kind]  # fmt: skip
    model = {"everyday": lm, "toyworld": toyworld}[name]
    question = "Is there a person in the video?"
    *_, last = run(lambda: shown, question, lambda: model, lambda: yolo)
    assert last.trace.status == "complete"
    assert last.trace.answers["macd"].text in ("yes", "no")
    assert told in " ".join(last.trace.warnings)


def test_both_views_of_a_run_are_read_as_a_slow_reference_reads_them(lm, trace):
    """The masked view's logits, from pixels that are composed and encoded here."""
    step = trace.answers["macd"].tokens[0]
    context, found = context_of(lm, trace), trace.counterfactual
    encoded = context.encoded
    masks = context.masks(trace.options.mask)
    mask = masks.mask(torch.tensor(found.level), torch.tensor(found.frame_level)).float()
    pixels = encoded.video * (1 - mask[:, None])  # the fill is the mean colour, 0 here
    with torch.no_grad():
        rows = [
            lm.model(
                input_ids=encoded.input_ids, pixel_values_videos=video[None],
                attention_mask=torch.ones_like(encoded.input_ids), use_cache=False,
            ).logits[0, -1].log_softmax(-1)
            for video in (encoded.video, pixels)
        ]  # fmt: skip
    ids = list(step.candidates)
    base = np.asarray(step.base) - step.base_log_z
    assert np.abs(rows[0][ids].numpy() - base).max() < 2e-3
    other = np.asarray(step.others[0]) - step.others_log_z[0]
    assert np.abs(rows[1][ids].numpy() - other).max() < 2e-2


def test_one_frame_and_many_are_read(lm, clip):
    for count in (1, everyday.CHUNK + 1):
        index = np.arange(count) % 4
        other = replace(clip, frames=clip.frames[index], times=np.arange(count) / 2)
        encoded = lm.encode(other, "Is there a person?")
        assert encoded.token_grid == (count, 7, 7)
        assert bool(lm.prefill(encoded, encoded.video).logits.isfinite().all())


def test_grey_behind_a_thing_takes_it_away(lm, yolo):
    """Of a real clip: "yes" where a car is seen, "no" behind grey over it."""
    from macd_studio.evals.studies.real_clips import Masked

    options = VideoOptions(frames=4, dense_fps=2.0)
    clip = read_clip(assets() / "everyday" / "examples" / "street.mp4", options)
    encoded = lm.encode(clip, "Is there a car in the video?")
    assert (
        lm.next_logits(lm.prefill(encoded, encoded.video))[0].values.argmax() == lm.tokens("yes")[0]
    )
    behind = Masked(lm, clip, yolo)
    assert behind.answers(encoded, "car")["own"] == "no"
