"""Objects are looked for once a clip, and not at all where no method depends on them."""

from dataclasses import replace

import pytest
import torch

import macd_studio as macd
from macd_studio.core.methods import METHODS, find_method
from macd_studio.core.options import RunOptions
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import OF_THE_CLIP, VIEWS, find_view
from tests.fakes import BoxDetector, ByteLM, clip, tracks

PARTS = {"video": {"frames": 4}, "decode": {"max_tokens": 2}}


@pytest.fixture
def ask():
    """Runs one question through `macd.trace`; how: other options."""
    lm = ByteLM()

    def run(video, question, detector, **how):
        return macd.trace(video, question, backbone=lm, detector=detector, **(PARTS | how))

    return run


def test_another_question_about_a_file_looks_for_nothing_again(ask, make_video):
    video, detector = make_video(), BoxDetector()
    first, second = (ask(video, f"is there a {name}?", detector) for name in ("dog", "cat"))
    assert detector.calls == 1
    assert [t.label for t in first.tracks] == [t.label for t in second.tracks] == ["dog", "ball"]
    macd.compare(video, "is it?", ["blank"], backbone=ByteLM(), detector=detector, **PARTS)
    assert detector.calls == 1
    ask(video, "is it?", detector, detect={"confidence": 0.8})
    assert detector.calls == 2
    ask(video, "is it?", BoxDetector(boxes=()))
    assert [t.label for t in ask(video, "is it?", detector).tracks] == ["dog", "ball"]


def test_another_file_of_that_name_is_looked_at(ask, make_video):
    detector = BoxDetector()
    ask(make_video(), "is it?", detector)
    ask(make_video(codec="mpeg4"), "is it?", detector)
    assert detector.calls == 2


def test_a_clip_is_known_by_itself_and_not_by_what_it_says_of_itself(ask):
    detector, one = BoxDetector(), clip(seed=1)
    other = replace(clip(seed=2), sha256=one.sha256)
    for seen in (one, one, other):
        ask(seen, "is it?", detector)
    assert detector.calls == 2


def test_a_detector_without_a_hash_is_asked_each_time(ask):
    class Odd(BoxDetector):
        __hash__ = None

    detector, seen = Odd(), clip()
    for _ in range(2):
        ask(seen, "is it?", detector)
    assert detector.calls == 2


OF_A_VISION_TOWER = ("ssacd", "season-temporal")


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "video"])
def test_a_view_depends_on_the_objects_or_is_named_among_those_that_do_not(name, toyworld):
    lm = toyworld if name in OF_A_VISION_TOWER else ByteLM(seed=5)
    seen = clip()
    encoded = lm.encode(seen, "is there a dog?")

    def logits(*boxes):
        context = MethodContext(lm, encoded, tuple(tracks(*boxes)), RunOptions())
        view = find_view(name)(context)
        return (view.state or view.base).logits

    with_objects = logits((0.1, 0.1, 0.5, 0.5), (0.4, 0.4, 0.9, 0.9))
    same = torch.equal(with_objects, logits()) and torch.equal(
        with_objects, logits((0.55, 0.55, 0.95, 0.95))
    )
    assert same == (name in OF_THE_CLIP)


def test_which_methods_need_objects():
    free = {n for n, m in METHODS.items() if not m.needs_objects}
    assert free >= {"baseline", "vcd", "sid", "tcd", "blank", "olm", "yes-bias", "always-yes"}
    assert find_method("macd").needs_objects
    assert find_method("vcd/macd+mean-views").needs_objects
    assert not find_method("vcd/tcd+mean-views").needs_objects
