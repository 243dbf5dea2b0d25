"""Labels of a folder of clips from a detector's tracks."""

import json

import numpy as np
import pytest

from core.types import Detections
from evals.__main__ import main
from evals.benchmarks import find_benchmark
from toyworld.clips import TITLE, write_frames


class Sees:
    """The same box on every frame; the label is told by how bright the clip is."""

    name, open_vocabulary = "sees", False

    def detect(self, frames, options):
        for frame in frames:
            label = "dog" if frame.mean() > 100 else "cat"
            box = np.array([[0.2, 0.2, 0.6, 0.6]], np.float32)
            yield Detections(box, np.array([0.9], np.float32), (label,))


@pytest.fixture
def clips(tmp_path):
    for name, grey in (("a", 200), ("b", 40)):
        frames = np.full((24, 64, 64, 3), grey, np.uint8)
        write_frames(frames, tmp_path / f"{name}.mp4", 12, {"title": TITLE})
    return tmp_path


def test_labels_are_written_and_asked_about(clips, monkeypatch, capsys):
    monkeypatch.setattr("core.objects.detect.load_detector", lambda name, device: Sees())
    assert main(["label", str(clips)]) == 0
    lines = [json.loads(z) for z in (clips / "labels.jsonl").read_text().splitlines()]
    assert lines == [{"video": "a.mp4", "objects": ["dog"]}, {"video": "b.mp4", "objects": ["cat"]}]
    asked = {(a.question, a.truth) for a in find_benchmark("video-pope", clips).asked}
    assert ("Is there a dog in the video?", "yes") in asked
    assert ("Is there a dog in the video?", "no") in asked
    assert main(["label", str(clips)]) == 2
    assert "Give --force" in capsys.readouterr().err


def test_a_folder_without_clips_is_one_line(tmp_path, capsys):
    assert main(["label", str(tmp_path)]) == 2
    assert main(["label", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 2
