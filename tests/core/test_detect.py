import numpy as np
import pytest

from core.detect import load_detector
from core.errors import DetectorError
from core.options import DetectOptions
from core.video import read_clip
from toyworld.priors import priors


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
