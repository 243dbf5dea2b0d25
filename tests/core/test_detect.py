import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from macd_studio.core.errors import DetectorError
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import POINTS, Yolo, load_detector, only, simplified
from macd_studio.core.options import DetectOptions
from macd_studio.toyworld.priors import priors
from tests.conftest import ROOT
from tests.patience import PATIENCE_S


def iou(a, b):
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = np.prod((high - low).clip(0))
    return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


def test_the_embedded_detector_finds_what_was_drawn(toy_detector, toy_mp4, toy_spec):
    assert toy_detector.labels == priors().classes
    clip = read_clip(toy_mp4)
    seen = list(toy_detector.detect(clip.dense_frames, DetectOptions()))
    assert len(seen) == len(clip.dense_frames)
    at = clip.dense_times / clip.duration
    for o in toy_spec.objects:
        truth = o.boxes(at)
        hits = [
            any(
                label == o.label and score > 0.5 and iou(box, truth[i]) > 0.6
                for box, score, label in zip(d.boxes, d.scores, d.labels, strict=True)
            )
            for i, d in enumerate(seen)
        ]
        assert np.mean(hits) > 0.8, o.label


@pytest.mark.parametrize("name", ["no/such.pt", "no/such.onnx", "yolo99", "../../etc/passwd"])
def test_unknown_detectors_say_what_there_is(name):
    with pytest.raises(DetectorError) as error:
        load_detector(name)
    assert "yolo11n" in error.value.remedy


@pytest.mark.parametrize("content", [b"", b"not weights", b"\x80\x04cos\nsystem\n"])
def test_files_that_are_no_weights(tmp_path, content):
    path = tmp_path / "w.pt"
    path.write_bytes(content)
    with pytest.raises(DetectorError, match="cannot be loaded"):
        load_detector(str(path))


@pytest.mark.parametrize("path", ["own.pt", "yolo11z.pt", "weights/yolo11n.pt", "own.onnx"])
def test_a_missing_file_is_refused_without_a_network(path, monkeypatch, tmp_path):
    """ultralytics itself looks for it on its servers, by the file's name."""
    monkeypatch.chdir(tmp_path)
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, lambda *_: pytest.fail("the network was asked"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was asked for"))
    with pytest.raises(DetectorError, match=rf"there is no detector file '{path}'\. Give a .pt or"):
        Yolo("own", Path(path))


class Written:
    """What a pickle may be: a call of any function, here one that leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_weights_run_no_code(tmp_path):
    canary, path = tmp_path / "canary", tmp_path / "w.pt"
    torch.save({"model": Written(canary), "ema": None}, path)
    torch.load(path, weights_only=False)
    assert canary.exists()  # it would
    canary.unlink()
    with pytest.raises(DetectorError, match="cannot be loaded"):
        load_detector(str(path))
    assert not canary.exists()


@pytest.mark.real
@pytest.mark.parametrize("file", ["yolo11n_fused.pt", "yolo11n.onnx"])
def test_real_weights_find_the_people(real, file):
    detector = load_detector(str(real / "detector" / file))
    clip = read_clip(real / "clips" / "classroom.mp4")
    for found in detector.detect(clip.dense_frames[:2], DetectOptions()):
        people = [s for s, n in zip(found.scores, found.labels, strict=True) if n == "person"]
        assert sum(s > 0.5 for s in people) >= 3
        assert (found.boxes >= 0).all()
        assert (found.boxes <= 1).all()


@pytest.mark.real
def test_classes_of_an_export_without_names_are_named_by_hand(real, tmp_path):
    whole = (real / "detector" / "yolo11n.onnx").read_bytes()
    path = tmp_path / "plain.onnx"
    path.write_bytes(whole.replace(b"\x0a\x05names", b"\x0a\x05other"))
    detector = load_detector(str(path))
    assert detector.unnamed
    frames = read_clip(real / "clips" / "classroom.mp4").dense_frames[:1]
    (found,) = detector.detect(frames, DetectOptions())
    assert found.labels[0] == "class0"
    names = ("pupil", *(f"thing {i}" for i in range(1, 80)))
    (found,) = detector.detect(frames, DetectOptions(names=names))
    assert found.labels[0] == "pupil"
    with pytest.raises(DetectorError, match="but 1 names were given"):
        list(detector.detect(frames, DetectOptions(names=("pupil",), low=0.01, confidence=0.01)))
    named = load_detector(str(real / "detector" / "yolo11n.onnx"))
    assert not named.unnamed
    with pytest.raises(DetectorError, match="names its classes itself"):
        list(named.detect(frames, DetectOptions(names=names)))


@pytest.fixture(scope="module")
def segmenting(tmp_path_factory):
    """A YOLO11n-seg of random weights whose fourth class is seen about everywhere."""
    import torch
    from ultralytics import YOLO

    torch.manual_seed(0)
    model = YOLO("yolo11n-seg.yaml")
    with torch.no_grad():
        for branch in model.model.model[-1].cv3:
            branch[-1].bias[:] = -20
            branch[-1].bias[3] = 0
    path = tmp_path_factory.mktemp("seg") / "yolo11n-seg.pt"
    model.save(path)
    return load_detector(str(path))


def test_a_model_that_segments_gives_outlines(segmenting):
    frames = np.random.default_rng(0).integers(0, 255, (2, 96, 128, 3), dtype=np.uint8)
    options = DetectOptions(image_size=160, low=0.05, max_per_frame=20)
    for found in segmenting.detect(frames, options):
        assert set(found.labels) == {segmenting.labels[3]}
        assert len(found.outlines) == len(found.labels)
        given = [o for o in found.outlines if o is not None]
        assert given
        for outline in given:
            assert sum(map(len, outline)) <= POINTS
            for ring in outline:
                assert len(ring) >= 3
                assert ((ring >= 0) & (ring <= 1)).all()
        assert only(found, ("no such",)).outlines == ()
        assert len(only(found, (segmenting.labels[3],)).outlines) == len(found.labels)


def test_outlines_are_made_simple_and_empty_ones_left_out():
    turn = np.linspace(0, 2 * np.pi, 1000)[:-1]
    round_one = 0.5 + 0.3 * np.stack([np.cos(turn), np.sin(turn)], 1)
    (few,) = simplified([round_one.astype(np.float32)])
    assert len(few) <= POINTS
    assert cv2.contourArea(few) == pytest.approx(np.pi * 0.09, rel=0.02)
    rng = np.random.default_rng(0)
    ragged = round_one * rng.uniform(0.7, 1.0, (len(turn), 1))
    assert len(simplified([ragged.astype(np.float32)])[0]) <= POINTS
    two = simplified([0.4 * round_one.astype(np.float32), 0.5 + 0.5 * round_one, 0.01 * round_one])
    assert len(two) == 2
    assert sum(map(len, two)) <= POINTS
    assert simplified([]) is None
    assert simplified([np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]], np.float32)]) is None


def tiny_rt_detr(folder):
    import transformers as tf

    backbone = tf.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = tf.RTDetrConfig(
        backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16],
        d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=20,
        decoder_in_channels=[16, 16, 16], decoder_layers=1, decoder_attention_heads=2,
        encoder_attention_heads=2, num_denoising=0, id2label={0: "dog", 1: "cat", 2: "bus"},
    )  # fmt: skip
    tf.RTDetrForObjectDetection(config).save_pretrained(folder)
    tf.RTDetrImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)


def test_detectors_on_the_hub_that_cannot_be_had_say_so():
    with pytest.raises(DetectorError, match="not on this disk"):
        load_detector("rt-detr")


def test_the_input_is_as_large_as_the_clip_needs(toy_detector):
    """A multiple of the stride, never above the size of the training unless asked for."""

    def size(side, **options):
        return toy_detector.input_size(np.zeros((2, side // 2, side, 3), np.uint8),
                                       DetectOptions(**options))  # fmt: skip

    assert [size(side) for side in (40, 100, 128, 400)] == [64, 128, 128, 192]
    assert size(100, image_size=320) == 320


def test_boxes_come_frame_by_frame_and_batches_grow(toy_detector, monkeypatch):
    """The first boxes wait for one frame alone; later frames go through the network together."""
    frames, batches = np.zeros((20, 96, 96, 3), np.uint8), []
    predict = toy_detector._predict
    monkeypatch.setattr(
        toy_detector, "_predict", lambda f, *a: batches.append(len(f)) or predict(f, *a)
    )
    found = toy_detector.detect(frames, DetectOptions())
    next(found)
    assert batches == [1]
    assert len(list(found)) == 19
    assert sum(batches) == 20
    assert max(batches) <= 8


def test_threads_take_turns_at_a_network(monkeypatch):
    """One that begins while another prepares the network would find it without weights."""
    detector, frames = load_detector("toyworld"), np.zeros((3, 96, 96, 3), np.uint8)
    predict, inside, most = detector._model.predict, [], []

    def watched(*given, **how):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        try:
            return predict(*given, **how)
        finally:
            inside.pop()

    monkeypatch.setattr(detector._model, "predict", watched)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: list(detector.detect(frames, DetectOptions())), range(4)))
    assert [len(one) for one in found] == [3] * 4
    assert max(most) == 1


def test_ultralytics_leaves_nothing_in_the_home_of_a_user(tmp_path):
    ask = "from macd_studio.core.objects.detect import _import_yolo; print(_import_yolo().__name__)"
    away = {"YOLO_CONFIG_DIR", "XDG_CONFIG_HOME"}
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    env = {k: v for k, v in os.environ.items() if k not in away}
    env |= {"HOME": str(home), "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, env=env, capture_output=True,
                          text=True, timeout=PATIENCE_S)  # fmt: skip
    assert done.stdout.split() == ["YOLO"], done.stderr
    assert not [p for p in home.rglob("*") if "ltralytics" in p.name]
    assert not list(temporary.iterdir())
