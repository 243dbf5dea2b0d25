"""A detector of somebody's own: what it gives is checked before anything follows it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import macd_studio as macd
from macd_studio.core.errors import DetectorError, TraceError
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Detections
from tests.fakes import ByteLM, clip

BOX = [[0.1, 0.1, 0.4, 0.5]]


class Own:
    """Gives the same for every frame; answers: for how many frames, where not for all."""

    name, open_vocabulary = "mine", False

    def __init__(self, found, answers=None, size=None, name="mine"):
        self.found, self.answers, self.size, self.name = found, answers, size, name

    def input_size(self, frames, options):
        return self.size

    def detect(self, frames, options):
        for _ in range(len(frames) if self.answers is None else self.answers):
            yield self.found()


def seen(boxes=BOX, scores=(0.9,), labels=("cup",), outlines=()):
    return lambda: Detections(np.asarray(boxes), np.asarray(scores), labels, outlines)


def traced(detector):
    options = {"video": {"frames": 2}, "ascent": {"steps": 1}}
    return macd.trace(clip(), "Is there a cup?", backbone=ByteLM(), detector=detector, **options)


@pytest.mark.parametrize(("detector", "cause"), [
    (Own(seen(), answers=1), "answered for 1"),
    (Own(seen(), answers=999), "answered for more"),
    (Own(seen([[10, 10, 200, 150]])), "frame 0: a box has the corner 10"),
    (Own(seen([[0.4, 0.1, 0.1, 0.5]])), "corners swapped"),
    (Own(seen(scores=(90.0,))), "a score is 90"),
    (Own(seen(scores=(-0.1,))), "a score is -0.1"),
    (Own(seen([[np.nan, 0, 1, 1]])), "boxes hold a value that is not finite"),
    (Own(seen([[*BOX[0], 1]])), r"boxes have the shape \(1, 5\)"),
    (Own(seen(scores=(0.9, 0.8))), "lengths of boxes, scores and labels differ: 1, 2, 1"),
    (Own(seen(labels=(3,))), "a label is 3, not a text"),
    (Own(seen(labels=("a" * 450,))), "a label has 450 characters"),
    (Own(seen(outlines=((np.zeros((3, 3)),),))), "ring of an outline"),
    (Own(dict), "a dict came in place of Detections"),
    (Own(seen(), size=(640, 640)), "size a list"),
    (Own(seen(), size=0), "size 0"),
    (Own(seen(), name=None), "name of an object of Own is None"),
    (Own, "class Own is not a detector yet"),
    (Own(seen([[-1.5, 0.1, 1.95, 0.5]])), "the corner -1.5"),
    (Own(seen(outlines=(np.zeros((3, 2)),))), "ring of an outline"),
    (5, "it has no detect and no input_size"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_with_its_cause(detector, cause):
    with pytest.raises(DetectorError, match=cause):
        traced(detector)


@pytest.mark.parametrize(("found", "count"), [
    (seen(scores=(1.00001,)), 1), (seen([[0.500001, 0.1, 0.5, 0.9]]), 0),
    (seen(), 1), (seen([[-0.2, 0.1, 0.4, 1.1]]), 1), (seen(tuple(BOX)), 1),
    (seen(np.zeros((0, 4)), (), ()), 0), (seen([], (), ()), 0),
])  # fmt: skip
def test_what_can_be_followed_is(found, count, tmp_path):
    trace = traced(Own(found, size=np.int64(320)))
    assert len(trace.tracks) == count
    for track in trace.tracks:
        assert (track.boxes == track.boxes.clip(0, 1)).all()
    assert trace.detector.image_size == 320
    macd.save(trace, tmp_path / "own.macd")
    assert len(load(tmp_path / "own.macd").tracks) == count


def test_who_forgets_to_yield_and_who_gives_tensors_are_told():
    class Nothing(Own):
        def detect(self, frames, options):
            return None

    with pytest.raises(DetectorError, match="detect of mine gave a NoneType"):
        traced(Nothing(seen()))
    boxes = torch.tensor(BOX, requires_grad=True)
    found = Own(lambda: Detections(boxes, np.array([0.9]), ("cup",)))
    with pytest.raises(DetectorError, match="requires grad"):
        traced(found)


def test_what_could_not_be_loaded_again_is_not_saved_over_what_could(tmp_path):
    file, trace = tmp_path / "kept.macd", traced(Own(seen()))
    macd.save(trace, file)
    before = file.read_bytes()
    wrong = replace(trace, tracks=(replace(trace.tracks[0], confidence=90.0),))
    with pytest.raises(TraceError, match=r"cannot be a file: .*confidence is 90"):
        macd.save(wrong, file)
    assert file.read_bytes() == before
