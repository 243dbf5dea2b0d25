"""Training clips are covered over objects and over nothing; no other clip is."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.toyworld import train_backbone
from macd_studio.toyworld.occlusions import FILLS, Patch, cover, sample_patches
from macd_studio.toyworld.train_backbone import Schedule, Trainer
from macd_studio.toyworld.world import frame_times, render, sample

TIMES = frame_times(8)


@pytest.fixture
def frames(toy_spec):
    return render(toy_spec, TIMES).astype(np.float32) / 255


@pytest.fixture
def plate(toy_spec):
    """The same clip without its objects."""
    return render(replace(toy_spec, objects=()), TIMES).astype(np.float32) / 255


def box_of(o, t):
    return (o.boxes(TIMES)[t] * 96).round().astype(int)


@pytest.mark.parametrize("fill", FILLS)
def test_a_patch_hides_its_object_and_nothing_else(toy_spec, frames, plate, fill):
    dog, before = toy_spec.objects[0], frames.copy()
    covered = cover(frames, (Patch(dog, fill, 1.0, seed=3),), TIMES, plate)
    np.testing.assert_array_equal(frames, before)
    assert covered.shape == frames.shape
    assert covered.min() >= 0
    assert covered.max() <= 1
    bare = replace(toy_spec, objects=toy_spec.objects[1:])
    without = render(bare, TIMES).astype(np.float32) / 255
    again = cover(without, (Patch(dog, fill, 1.0, seed=3),), TIMES, plate)
    for t in range(8):
        x0, y0, x1, y1 = box_of(dog, t)
        inside = np.s_[t, y0:y1, x0:x1]
        if fill != "blur":  # a blurred object shows as a stain, as behind a blurred mask
            np.testing.assert_allclose(covered[inside], again[inside], atol=0.3)
            assert np.abs(covered[inside] - again[inside]).mean() < 0.02
        assert np.abs(covered[inside] - frames[inside]).mean() > 0.02
        far = np.ones((96, 96), bool)
        far[max(0, y0 - 9) : y1 + 9, max(0, x0 - 9) : x1 + 9] = False
        np.testing.assert_allclose(covered[t][far], frames[t][far], atol=0.01)


def test_strength_and_time_of_a_patch(toy_spec, frames, plate):
    dog = toy_spec.objects[0]
    half = cover(frames, (Patch(dog, "grey", 0.5, start=0.5),), TIMES, plate)
    whole = cover(frames, (Patch(dog, "grey", 1.0, start=0.5),), TIMES, plate)
    np.testing.assert_array_equal(half[:4], frames[:4])
    np.testing.assert_allclose(half[4:], (frames[4:] + whole[4:]) / 2, atol=1e-6)
    assert np.abs(whole[4:] - frames[4:]).max() > 0.1


def test_a_swept_patch_lies_over_the_whole_path(toy_spec, frames, plate):
    dog = toy_spec.objects[0]
    assert dog.distance > 0
    covered = cover(frames, (Patch(dog, "black", 1.0, swept=True),), TIMES, plate)
    for t in range(8):
        x0, y0, x1, y1 = box_of(dog, t)
        assert covered[:, y0 + 1 : y1 - 1, x0 + 1 : x1 - 1].max() < 0.2


def test_a_patch_around_objects_leaves_them_visible(toy_spec, frames, plate):
    dog = toy_spec.objects[0]
    covered = cover(frames, (Patch(None, "black", 1.0, around=toy_spec.objects),), TIMES, plate)
    x0, y0, x1, y1 = box_of(dog, 0)
    inside = np.s_[0, y0 + 2 : y1 - 2, x0 + 2 : x1 - 2]
    np.testing.assert_allclose(covered[inside], frames[inside], atol=0.1)
    assert np.median(covered[0]) < 0.01


def test_patches_lie_as_often_over_nothing_as_over_objects():
    rng, patch_rng = np.random.default_rng(0), np.random.default_rng(1)
    over_object = over_nothing = covered = 0
    fills = set()
    for _ in range(1500):
        spec = sample(rng, fog=0.0)
        decoy = sample(patch_rng, spec.scene, fog=0.0)
        patches = sample_patches(spec, decoy, 0.4, patch_rng)
        covered += bool(patches)
        fills |= {p.fill for p in patches}
        over_object += sum(p.path in spec.objects for p in patches)
        over_nothing += sum(p.path in decoy.objects for p in patches)
    assert covered / 1500 == pytest.approx(0.4, abs=0.05)
    assert over_object / (over_object + over_nothing) == pytest.approx(0.5, abs=0.04)
    assert over_object > 500
    assert fills == set(FILLS)


def test_training_covers_its_clips_and_draws_the_same_ones(tmp_path, monkeypatch):
    schedule = Schedule(vision_steps=1, vision_batch=2, steps=1, batch=2)
    seen = []

    def drawn(name):
        trainer = Trainer(tmp_path / name, schedule)
        clips = []
        trainer.see = lambda visual, frames: clips.append(frames)
        with pytest.raises(TypeError):  # stops where the probe would read what the model saw
            trainer._vision_losses(0.5)
        return trainer, clips[0]

    monkeypatch.setattr(train_backbone, "COVERED_FLAT", 0.0)
    plain_trainer, plain = drawn("plain")
    monkeypatch.setattr(train_backbone, "COVERED_FLAT", 1.0)
    monkeypatch.setattr(
        train_backbone, "sample_patches", lambda *a: seen.append(a) or (Patch(None, "black", 1.0),)
    )
    covered_trainer, covered = drawn("covered")
    assert plain.max() > 0.5
    assert covered.max() == 0
    assert len(seen) == 2
    assert plain_trainer.rng.bit_generator.state == covered_trainer.rng.bit_generator.state


def test_evaluation_and_examples_draw_what_they_always_drew():
    spec = sample(np.random.default_rng(7), fog=0.0)
    drawn = (spec.scene, spec.labels, spec.background, spec.seed)
    assert drawn == ("snow", ("horse", "car", "umbrella", "hat"), 0, 645147212)
    benchmark = find_benchmark("toyworld")
    keys = ("test/consistent/3", "test/question prior/8", "choose/captions/5")
    assert [benchmark.spec(k).seed for k in keys] == [1958235151, 81023757, 1359419299]
