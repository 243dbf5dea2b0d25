import numpy as np
import pytest

from macd_studio.core.media.video import read_clip
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import TITLE
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import frame_times, render, sample, sample_labels


def test_a_clip_is_its_spec():
    spec = sample(np.random.default_rng(1))
    np.testing.assert_array_equal(render(spec, frame_times(8)), render(spec, frame_times(8)))
    assert spec == sample(np.random.default_rng(1))


def test_sizes_show_the_same_picture(toy_spec):
    from PIL import Image

    small = render(toy_spec, frame_times(2), 96).astype(float)
    large = render(toy_spec, frame_times(2), 384)
    for a, b in zip(small, large, strict=True):
        reduced = np.asarray(Image.fromarray(b).resize((96, 96), Image.Resampling.BOX), float)
        assert np.abs(a - reduced).mean() < 6


def test_objects_are_drawn_where_their_boxes_say(toy_spec):
    from dataclasses import replace

    bare = replace(toy_spec, objects=())
    times = frame_times(8)
    change = np.abs(render(toy_spec, times).astype(int) - render(bare, times)).sum(-1) > 60
    for o in toy_spec.objects:
        for boxes, moved in zip((o.boxes(times) * 96).round().astype(int), change, strict=True):
            x0, y0, x1, y1 = boxes
            assert moved[y0:y1, x0:x1].mean() > 0.25
            moved[max(0, y0 - 2) : y1 + 2, max(0, x0 - 2) : x1 + 2] = False
    assert change.mean() < 0.005


def test_habits_are_those_of_the_table():
    rng, p = np.random.default_rng(0), priors()
    specs = [sample(rng) for _ in range(3000)]
    labels = [(s.scene, label) for s in specs for label in s.labels]
    first = np.mean([label in p.typical[scene] for scene, label in labels])
    assert first > 0.7
    with_cat = [s for s in specs if "cat" in s.labels]
    assert np.mean(["book" in s.labels for s in with_cat]) > 0.7
    usual = [o.motion == p.usual_motion[o.label] for s in specs for o in s.objects]
    assert np.mean(usual) == pytest.approx(p.p_motion + (1 - p.p_motion) / 5, abs=0.03)
    answers = [a for s in specs for _, a in ask.training_questions(s, rng) if a in ("yes", "no")]
    assert np.mean([a == "yes" for a in answers]) == pytest.approx(p.p_yes, abs=0.03)
    for s in specs:
        kinds = [p.kind[c] for c in s.labels]
        assert kinds.count("animal") <= 1
        assert kinds.count("vehicle") <= 1


@pytest.mark.parametrize(("mode", "typical"), [("consistent", True), ("breaking", False)])
def test_modes(mode, typical):
    rng, p = np.random.default_rng(0), priors()
    for _ in range(100):
        for label in sample_labels("beach", rng, mode):
            assert (label in p.typical["beach"]) == typical


def test_every_word_is_known_and_text_comes_back():
    tokenizer, rng = ask.build_tokenizer(), np.random.default_rng(0)
    for _ in range(200):
        for question, answer in ask.training_questions(sample(rng), rng):
            assert tokenizer.unk_token_id not in tokenizer(question)["input_ids"]
            assert tokenizer.decode(tokenizer(answer)["input_ids"]) == answer


def test_an_mp4_reads_back_as_the_backbone_would_see_it(toy_spec, toy_mp4):
    clip = read_clip(toy_mp4)
    assert clip.title == TITLE
    drawn = render(toy_spec, clip.times / clip.duration, 384)
    coarse = [  # the grain is drawn anew for every rendering, so compare what lies under it
        z.astype(float).reshape(8, 12, 32, 12, 32, 3).mean((2, 4)) for z in (drawn, clip.frames)
    ]
    assert np.abs(coarse[0] - coarse[1]).mean() < 2


def test_changed_priors_must_name_known_classes(tmp_path):
    from macd_studio.toyworld.priors import TABLE

    broken = tmp_path / "p.toml"
    broken.write_text(TABLE.read_text().replace('cat = "book"', 'cat = "unicorn"'))
    with pytest.raises(KeyError, match="unicorn"):
        priors(broken)


def test_a_late_object_is_drawn_only_after_it_appears(toy_spec):
    from dataclasses import replace

    dog, cup = toy_spec.objects
    late = replace(toy_spec, objects=(replace(dog, appears=0.5), cup))
    without, times = replace(toy_spec, objects=(cup,)), frame_times(8)
    np.testing.assert_array_equal(render(late, times)[:4], render(without, times)[:4])
    np.testing.assert_array_equal(render(late, times)[4:], render(toy_spec, times)[4:])
    assert np.isnan(late.objects[0].boxes(times)[:4]).all()


def test_scenery_hides_the_lower_part(toy_spec):
    from dataclasses import replace

    dog, cup = toy_spec.objects
    hidden = replace(toy_spec, objects=(replace(dog, hidden=0.5), cup))
    times = frame_times(8)
    whole, half = (s.objects[0].boxes(times) for s in (toy_spec, hidden))
    np.testing.assert_allclose(half[:, 3] - half[:, 1], (whole[:, 3] - whole[:, 1]) / 2)
    middle = (half[0, 3] + 0.02) * 96
    lower = slice(int(middle), int(whole[0, 3] * 96))
    without = render(replace(toy_spec, objects=(cup,)), times)
    np.testing.assert_array_equal(render(hidden, times)[0, lower], without[0, lower])


def test_the_one_named_first_mostly_came_first():
    rng = np.random.default_rng(0)
    asked = [
        (q, a)
        for _ in range(1500)
        for q, a in ask.training_questions(sample(rng, late=1.0), rng)
        if q.startswith("Which comes")
    ]
    first = [q.split()[4].rstrip(",") == a for q, a in asked]
    assert np.mean(first) == pytest.approx(priors().p_first, abs=0.03)
