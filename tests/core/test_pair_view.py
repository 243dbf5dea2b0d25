"""Another clip of the same scene as the second view."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core import api as door
from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.errors import BackboneNotFound, NotApplicable, OptionError, VideoError
from macd_studio.core.methods import METHODS, find_method, find_methods
from macd_studio.core.options import MaskOptions, RunOptions, VideoOptions
from macd_studio.core.run.order import decoding_views
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.views.context import MethodContext, Partner
from macd_studio.core.views.table import find_view
from macd_studio.toyworld.clips import drawn_clip, write_mp4
from macd_studio.toyworld.export import without

QUESTION = "Is there a dog in the video?"


@pytest.fixture(scope="module")
def clip(toy_spec):
    return drawn_clip(toy_spec, "toy.mp4", "0" * 64)


@pytest.fixture(scope="module")
def other(toy_spec):
    """The same clip without its first object."""
    return drawn_clip(without(toy_spec, toy_spec.labels[0]), "other.mp4", "1" * 64)


def context(lm, clip, partner, fit="pad"):
    made = MethodContext(lm, lm.encode(clip, QUESTION), (), RunOptions())
    if partner is not None:
        made.partner = Partner(partner.name, partner.sha256, lm.preprocess(partner, fit))
    return made


def logits(lm, made):
    views = decoding_views(made, find_method("pair"))
    return [lm.next_logits(state)[0].values for state in (views.base, *views.others)]


def test_the_second_view_is_what_the_model_reads_of_the_partner(toyworld, clip, other):
    base, counter = logits(toyworld, context(toyworld, clip, other))
    encoded = toyworld.encode(other, QUESTION)
    alone = toyworld.next_logits(toyworld.prefill(encoded, encoded.video))[0].values
    np.testing.assert_allclose(counter, alone, atol=1e-4)
    assert np.abs(np.asarray(base) - np.asarray(counter)).max() > 0.1


def test_a_clip_that_is_its_own_partner_changes_nothing(toyworld, clip):
    base, counter = logits(toyworld, context(toyworld, clip, clip))
    np.testing.assert_allclose(base, counter, atol=1e-4)


def test_without_a_partner_the_method_does_not_apply(toyworld, clip):
    with pytest.raises(NotApplicable, match="Give one by --counterpart"):
        find_view("pair")(context(toyworld, clip, None))


def test_a_partner_of_another_length_does_not_apply(toyworld, clip, other):
    made = context(toyworld, clip, other)
    frames = made.partner.frames
    short = replace(frames, pixels=frames.pixels[:4], times=frames.times[:4])
    made.partner = replace(made.partner, frames=short)
    with pytest.raises(NotApplicable, match="8 frames of 96×96 of this clip and 4 frames"):
        find_view("pair")(made)


def test_a_partner_seen_at_other_times_does_not_apply(toyworld, clip, other):
    made = context(toyworld, clip, other)
    own = made.encoded.frames.times
    for factor, applies in ((1.0, True), (1.05, True), (1.1, False), (6.0, False)):
        made.partner = replace(
            made.partner, frames=replace(made.partner.frames, times=factor * own)
        )
        if applies:
            made.partner_video()
            continue
        with pytest.raises(
            NotApplicable, match=r"frame 8 of this clip .* a range that lies in both"
        ):
            made.partner_video()


def test_a_longer_counterpart_is_refused_before_a_model_is_loaded(make_video):
    own, longer, slower = (
        make_video(f"{n}.mp4", frames=n, fps=fps) for n, fps in ((24, 12), (144, 12), (12, 6))
    )
    ask = {"backbone": "no/where", "detector": "grid"}
    with pytest.raises(OptionError, match=r"frame 8 .* 1\.833 s, that of its partner at 11"):
        door.run_video(own, QUESTION, RunOptions(), counterpart=longer, **ask)
    for options, other in (({"end": 2.0}, longer), ({}, slower)):
        video = VideoOptions(**options)
        with pytest.raises(BackboneNotFound):  # it was accepted
            door.run_video(own, QUESTION, RunOptions(video=video), counterpart=other, **ask)


def test_it_is_named_pair_and_no_part_of_all():
    assert find_method("pair").title == "Partner clip"
    assert not find_method("pair").needs_objects
    assert find_method("pair+code").view == "pair"
    assert "pair" not in METHODS
    assert all(m.name != "pair" for m in find_methods(["all"]))


def test_a_run_with_a_counterpart_holds_both_clips(toy_spec, toy_mp4, other, toyworld, toy_detector,
                                                   tmp_path):  # fmt: skip
    partner = tmp_path / "other.mp4"
    write_mp4(without(toy_spec, toy_spec.labels[0]), partner)
    options = RunOptions(video=VideoOptions(frames=4), mask=MaskOptions(frame_mask="off"))
    trace = door.run_video(toy_mp4, QUESTION, options, backbone=toyworld, detector=toy_detector,
                           counterpart=partner)  # fmt: skip
    assert {"baseline", "macd", "pair", "random-place"} <= set(trace.answers)
    path = tmp_path / "t.macd"
    save(trace, path)
    (second,) = load(path).answers["pair"].second_views
    assert second.view.as_dict()["file"] == "other.mp4"
    assert second.view.caption == "the partner clip other.mp4"
    alone = toyworld.preprocess(door.read_clip(partner, options.video)).pixels
    assert np.abs(second.shown.astype(int) - alone).max() <= 1
    assert "--counterpart other.mp4" in command(load(path))
    assert "counterpart=lambda: read_clip('other.mp4', options.video)" in snippet(load(path))


def test_a_counterpart_that_is_no_video_is_refused_before_a_model_is_loaded(toy_mp4, tmp_path):
    text = tmp_path / "no.mp4"
    text.write_text("nothing")
    with pytest.raises(VideoError):
        door.run_video(toy_mp4, QUESTION, RunOptions(), backbone="no/where", counterpart=text)
