"""What is kept is kept under all that it depends on: each field of an option changes the key."""

from dataclasses import fields, is_dataclass, replace
from itertools import product
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest

from macd_studio.core.macd import empty_counterfactual
from macd_studio.core.objects.find import tracks_key
from macd_studio.core.options import RunOptions
from macd_studio.core.run.pipeline import _read
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.measured import measured_changes
from tests.core.test_macd_events import tracks
from tests.fakes import ByteLM, clip

PARTS = {f.name: getattr(RunOptions(), f.name) for f in fields(RunOptions)}
NO_STAGE = {
    "contrast": "weighs logits that are there", "vcd": "a view of its own, which is not kept",
    "sid": "likewise", "tcd": "likewise", "ssacd": "likewise", "season": "likewise",
    "rules": "weigh logits that are there",
    "seed": "noise and places are drawn anew", "lazy": "changes when, not what",
    "masks_only": "likewise", "decode": "the own answer alone, see below",
}  # fmt: skip
"""Options that nothing in a stage's cache depends on, and why."""


def another(value, hint):
    """A value that differs from this one and is of its kind."""
    if names := [name for name in get_args(hint) if isinstance(name, str) and name != value]:
        return names[0]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 or 0.25
    if isinstance(value, tuple):
        return (*value, "another")
    return 1 if value is None else f"{value} another"


def changed(options, part, name):
    """The options with one field changed, without asking whether a run takes them."""
    old = getattr(options, part)
    made = object.__new__(type(old))
    for one in fields(old):
        value = getattr(old, one.name)
        if one.name == name:
            value = another(value, get_type_hints(type(old))[name])
        object.__setattr__(made, one.name, value)
    whole = object.__new__(RunOptions)
    for one in fields(options):
        value = getattr(options, one.name)
        object.__setattr__(whole, one.name, made if one.name == part else value)
    return whole


def each_field(*parts):
    return [(part, one.name) for part in parts for one in fields(PARTS[part])]


class Keys:
    """A cache that notes under what it was asked and computes nothing."""

    def __init__(self):
        self.asked = []

    def memoize(self, name, key, make):
        self.asked.append((name, key))
        return np.zeros(0)

    def stream(self, name, key, make, needs=()):
        self.asked.append((name, key, tuple(needs)))
        return iter(())


def asked(call, options):
    lm = ByteLM()
    context = MethodContext(lm, lm.encode(clip(), "is it?"), tracks(1), options)
    context.cache = Keys()
    call(context)
    return context.cache.asked


@pytest.mark.parametrize(("part", "name"), each_field("video", "detect", "track"))
def test_tracks_depend_on_every_option_of_looking(part, name):
    detector, one = SimpleNamespace(name="d", weights_hash="h"), RunOptions()
    other = changed(one, part, name)
    keys = [tracks_key(clip(), o, o.detect, detector) for o in (one, other)]
    assert keys[0] != keys[1]
    assert keys[0] == tracks_key(clip(), RunOptions(), RunOptions().detect, detector)


def test_tracks_depend_on_clip_detector_and_its_weights():
    options = RunOptions()
    known = {
        tracks_key(clip(seed=s), options, options.detect, SimpleNamespace(name=n, weights_hash=w))
        for s, n, w in product((0, 1), ("a", "b"), ("", "x"))
    }
    assert len(known) == 8


@pytest.mark.parametrize("name", [one.name for one in fields(PARTS["video"])])
def test_a_clip_depends_on_every_option_of_reading(name, monkeypatch, tmp_path):
    file = tmp_path / "clip.mp4"
    file.write_bytes(b"0")
    keys = []
    monkeypatch.setattr("macd_studio.core.run.pipeline.read_clip", lambda *_: clip())
    cache = SimpleNamespace(get=lambda key: keys.append(key), put=lambda *_: None)
    for options in (RunOptions(), changed(RunOptions(), "video", name)):
        _read(file, options.video, cache)
    file.write_bytes(b"01")
    _read(file, RunOptions().video, cache)
    assert len(set(keys)) == 3


@pytest.mark.parametrize(("part", "name"), each_field("mask", "ascent"))
def test_masks_and_ascent_depend_on_every_option_of_theirs(part, name):
    def ascend(context):
        list(context.ascent_steps(context.options.mask))

    one, other = (asked(ascend, o) for o in (RunOptions(), changed(RunOptions(), part, name)))
    assert one != other
    if part == "mask":

        def masks(context):
            context.masks(context.options.mask)

        assert asked(masks, RunOptions()) != asked(masks, changed(RunOptions(), part, name))
    else:

        def base(context):
            _ = context.base_prefill

        assert asked(base, RunOptions()) != asked(base, changed(RunOptions(), part, name))


@pytest.mark.parametrize("name", [one.name for one in fields(PARTS["decode"])])
def test_the_own_answer_depends_on_how_it_is_decoded(name):
    def own(context):
        context.own_answer()

    assert asked(own, RunOptions()) != asked(own, changed(RunOptions(), "decode", name))


def test_measured_effects_depend_on_masks_and_offered_answers():
    one = asked(measured_changes, RunOptions())
    assert one != asked(measured_changes, RunOptions(choices=("dog", "cat")))
    for _, name in each_field("mask"):
        if name == "frame_mask":
            continue  # is left off here, whatever the run's is
        assert one != asked(measured_changes, changed(RunOptions(), "mask", name)), name


def test_every_option_is_in_a_key_or_says_why_not():
    keyed = {"video", "detect", "track", "mask", "ascent", "choices"}
    assert set(PARTS) == keyed | set(NO_STAGE)
    for name, part in PARTS.items():
        if is_dataclass(part):  # equality is over every field, so that a whole part is a whole key
            assert all(one.compare for one in fields(part)), name
            assert type(part).__dataclass_params__.frozen
            assert hash(part) == hash(replace(part))
    assert empty_counterfactual().level.shape == (0,)
