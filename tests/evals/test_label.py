"""Labels of a folder of clips from a detector's tracks."""

import json
from functools import cache

import numpy as np
import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.media.video import read_clip
from macd_studio.core.types import Detections
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.toyworld.clips import TITLE, write_frames


class Sees:
    """A dog in bright clips and a cat in dark ones; there a ball on one frame."""

    name, open_vocabulary = "sees", False

    def __init__(self, ball=0.4):
        self.ball = ball

    def detect(self, frames, options):
        for i, frame in enumerate(frames):
            mean = frame.mean()
            seen = {"dog" if mean > 100 else "cat": 0.9, "sun": 0.25, "sky": 0.1}
            if mean > 230:
                seen["ball"] = 0.9
            elif mean < 100 and i == 3:
                seen["ball"] = self.ball
            seen = {name: score for name, score in seen.items() if score >= options.floor}
            boxes = [[0.2 * k, 0.2, 0.2 + 0.2 * k, 0.6] for k in range(len(seen))]
            scores = np.array(list(seen.values()), np.float32)
            yield Detections(np.array(boxes, np.float32), scores, tuple(seen))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("clips")
    for name, grey in (("a", 200), ("b", 40), ("c", 250)):
        frames = np.full((24, 64, 64, 3), grey, np.uint8)
        write_frames(frames, root / f"{name}.mp4", 12, {"title": TITLE})
    return root


decoded = cache(read_clip)


@pytest.fixture
def clips(written, monkeypatch):
    """A folder without labels, of clips that are decoded once for all tests."""
    monkeypatch.setattr("macd_studio.core.media.video.read_clip", decoded)
    (written / "labels.jsonl").unlink(missing_ok=True)
    return written


def use(monkeypatch, detector):
    monkeypatch.setattr(
        "macd_studio.core.objects.detect.load_detector", lambda name, device: detector
    )


def labels(clips):
    lines = [json.loads(z) for z in (clips / "labels.jsonl").read_text().splitlines()]
    return {z["video"]: (z["objects"], z["unsure"]) for z in lines}


def questions(clips, name, truth):
    asked = find_benchmark("video-pope", clips).asked
    return {a.video.stem for a in asked if a.truth == truth and dict(a.labels)["object"] == name}


def test_labels_are_written_and_asked_about(clips, monkeypatch, capsys):
    use(monkeypatch, Sees())
    assert main(["label", str(clips)]) == 0
    assert "4 objects in 3 clips; 1 more detected from 0.3 but" in capsys.readouterr().out
    assert labels(clips) == {
        "a.mp4": (["dog"], []),
        "b.mp4": (["cat"], ["ball"]),
        "c.mp4": (["ball", "dog"], []),
    }
    assert "a" in questions(clips, "dog", "yes")
    assert questions(clips, "dog", "no") == {"b"}
    assert main(["label", str(clips)]) == 2
    assert "Give --force" in capsys.readouterr().err


def test_what_is_detected_between_the_thresholds_is_not_asked_about(clips, monkeypatch):
    use(monkeypatch, Sees(ball=0.4))
    assert main(["label", str(clips)]) == 0
    assert "b" not in questions(clips, "ball", "no")
    (note,) = find_benchmark("video-pope", clips).check_sizes()
    assert "1 pair of a clip and an object" in note
    assert main(["label", str(clips), "--force", "--absent-below", "0.45"]) == 0
    assert labels(clips)["b.mp4"] == (["cat"], [])
    assert find_benchmark("video-pope", clips).check_sizes() == []
    assert "b" in questions(clips, "ball", "no") | questions(clips, "dog", "no")


def test_a_sure_but_short_sighting_makes_an_object_unsure(clips, monkeypatch):
    use(monkeypatch, Sees(ball=0.9))
    assert main(["label", str(clips)]) == 0
    assert labels(clips)["b.mp4"] == (["cat"], ["ball"])


def test_the_lower_threshold_may_lie_below_the_trackers_own(clips, monkeypatch):
    use(monkeypatch, Sees())
    assert main(["label", str(clips), "--absent-below", "0.05"]) == 0
    assert labels(clips)["a.mp4"] == (["dog"], ["sky", "sun"])


def test_thresholds_that_cannot_disagree_are_refused(clips, monkeypatch, capsys):
    use(monkeypatch, Sees())
    for low in ("0.5", "0.7", "nan", "0"):
        assert main(["label", str(clips), "--absent-below", low]) == 2
    assert "lower --absent-below" in capsys.readouterr().err
    detector = Sees()
    detector.open_vocabulary = True
    use(monkeypatch, detector)
    assert main(["label", str(clips)]) == 2
    assert "--detector of fixed classes" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_unsure_objects_of_a_file_are_read(tmp_path, name):
    for video in ("a.mp4", "b.mp4", "c.mp4"):
        (tmp_path / video).touch()
    if name == "labels.csv":
        text = "video,objects,unsure\na.mp4,dog,ball\nb.mp4,ball,\nc.mp4,dog|ball,\n"
    else:
        text = (
            '{"video": "a.mp4", "objects": ["dog"], "unsure": ["ball"]}\n'
            '{"video": "b.mp4", "objects": ["ball"]}\n{"video": "c.mp4", "objects": ["dog"]}\n'
        )
    (tmp_path / name).write_text(text)
    assert "a" not in questions(tmp_path, "ball", "no")
    assert questions(tmp_path, "dog", "no") == {"b"}
    (tmp_path / name).write_text(text.replace("ball\n", "dog\n").replace('["ball"]}', '["dog"]}')
                                 .replace('unsure": ["ball"', 'unsure": ["dog"')
                                 .replace("dog,ball", "dog,dog"))  # fmt: skip
    with pytest.raises(BenchmarkError, match="is among 'objects' and 'unsure'"):
        find_benchmark("video-pope", tmp_path)


def test_a_folder_without_clips_is_one_line(tmp_path, capsys):
    assert main(["label", str(tmp_path)]) == 2
    assert main(["label", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 2
