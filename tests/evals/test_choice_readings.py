"""A choice against all of as many objects: the exact test, what is read, said and published."""

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import torch

from macd_studio.core.errors import OptionError
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.statistics.stats import choice_test, holm
from macd_studio.evals.studies import choice_draws, choice_readings
from macd_studio.evals.studies.choice_draws import READINGS, ChoiceDraws, read_choices
from macd_studio.evals.studies.choice_readings import (
    PLACES,
    Known,
    clip_of,
    judged,
    known_of,
    markdown,
    report_of,
    stored_files,
    verdict,
)
from macd_studio.evals.studies.first_token import contrast_scores
from macd_studio.evals.studies.registered import REGISTERED_PAIR
from macd_studio.evals.studies.shared import FOLDER, context_of, option_logits, plain, truths
from tests.evals.test_experiments import close

PAIR = (5.0, 0.01)


def planted(n, better=0.0, seed=0):
    """Rows of three objects; hiding the first one helps the right option by so many logits."""
    rng = np.random.default_rng(seed)
    rows, known = [], []
    for i in range(n):
        right = int(rng.integers(4))
        video = rng.normal(0, 1, 4) + 0.8 * np.eye(4)[right]
        views = [
            (video + rng.normal(0, 0.3, 4) - better * (s & 1) * np.eye(4)[right]).tolist()
            for s in range(8)
        ]
        level = [float(k == i % 3) for k in range(3)]
        rows.append(ChoiceDraws(f"test/options/{i}/0", ["a", "b", "c"], level, video.tolist(),
                                views[1], views, []))  # fmt: skip
        known.append(Known(right, 0))
    return rows, known


def test_a_class_holds_all_of_as_many_objects_and_places_are_twice_the_middle_rank():
    rows, known = planted(3)
    clip = clip_of(rows[1], known[1], PAIR)
    assert clip.chosen == 0b010
    sets = {sum(1 << k for k in two) for two in combinations(range(3), 2)}
    assert set(clip.alike(0b011)) == sets
    tied = replace(clip, height=np.array([0.0, 5, 5, 1, 2, 3, 3, 9]))
    assert [tied.places[n] for n in (0b001, 0b010, 0b100)] == [3, 3, 0]
    assert tied.places[0] == tied.places[0b111] == 0
    assert tied.alike(0b111) == (0b111,)


def test_a_chooser_that_sees_is_found_and_one_at_random_is_not():
    rows, known = planted(80, 1.5)
    clips = [clip_of(r, k, PAIR) for r, k in zip(rows, known, strict=True)]
    found = judged(clips, [c.asked for c in clips])
    assert found["p"] < 1e-3
    assert found["place"][1] > 0.5
    rows, known = planted(80)
    clips = [clip_of(r, k, PAIR) for r, k in zip(rows, known, strict=True)]
    assert judged(clips, [c.asked for c in clips])["place_p"] > 0.01
    nothing = [replace(c, chosen=None) for c in clips]
    with pytest.raises(OptionError, match="leaves anything"):
        judged(nothing, [c.chosen for c in nothing])


def lead(scores, right):
    return scores[..., right] - np.delete(scores, right, axis=-1).max(-1)


@pytest.mark.parametrize(
    ("place", "ninety", "adjusted", "said"),
    [
        ((0.53, 0.51, 0.55), (0.53, 0.513, 0.547), 0.01, "better than chance"),
        ((0.47, 0.45, 0.49), (0.47, 0.453, 0.487), 0.01, "worse than chance"),
        ((0.52, 0.50, 0.54), (0.52, 0.503, 0.534), 0.06, "within 3.5 of chance"),
        ((0.52, 0.50, 0.54), (0.52, 0.503, 0.536), 0.06, "not decided"),
        ((0.48, 0.46, 0.50), (0.48, 0.464, 0.496), 0.06, "not decided"),
    ],
)
def test_what_is_said_follows_the_rule(place, ninety, adjusted, said):
    assert verdict(place, ninety, adjusted) == said


@pytest.fixture
def files(monkeypatch):
    """MACD finds what helps with the second training and under one other reading."""
    seeing, blind = planted(90, 2.0), planted(90)
    seen = [replace(r, level=[1.0, 0.0, 0.0]) for r in seeing[0]]
    monkeypatch.setattr(choice_readings, "known_of", lambda rows: blind[1][: len(rows)])
    # the right options of both are those of one generator
    assert seeing[1] == blind[1]
    return {
        ("shipped", "default"): blind[0], ("second", "default"): seen,
        ("shipped", "additive"): seen[:40], ("shipped", "twice"): blind[0][:40],
    }  # fmt: skip


def test_each_row_is_the_exact_test_of_its_own_clips(files):
    report = report_of(files)
    first, second = report["rows"]
    assert (first["verdict"], second["verdict"]) == ("not decided", "better than chance")
    assert second["place"][1] > 0.5 > first["place"][1]
    assert [r["holm"] for r in report["rows"]] == holm([r["place_p"] for r in report["rows"]])
    rows = report["secondary"]
    kinds = [(r["training"], r["what"], r.get("reading")) for r in rows]
    assert kinds == [
        ("shipped", "right", None), ("second", "right", None), *[("shipped", "place", None)] * 2,
        *[("second", "place", None)] * 2, ("both", "place", None), ("shipped", "place", "additive"),
        ("shipped", "place", "twice"),
    ]  # fmt: skip
    tested = [r["p" if r["what"] == "right" else "place_p"] for r in rows]
    assert [r["holm"] for r in rows] == holm(tested)
    assert not any("verdict" in r for r in rows)
    assert rows[6]["clips"] == 180
    assert (rows[7]["clips"], rows[7]["place_p"] < 1e-6) == (40, True)
    (beside,) = report["beside"]
    assert beside["clips"] == 40  # the same clips as the other readings have
    assert beside["place"] == rows[8]["place"]
    assert markdown(report).count("\n") == 1 + 2 + 9 + 1 + 2


def test_a_row_holds_what_each_subset_read_alone_holds(toyworld, tmp_path, monkeypatch):
    benchmark = find_benchmark("toyworld-crossed")
    item = next(i for i in benchmark.items("choose", 80) if i.regime == "options")
    clip, tracks = benchmark.clip(item.clip), benchmark.true_tracks(item.clip)
    row = read_choices(toyworld, clip, tracks, item, RunOptions())
    assert row.labels == [t.label for t in tracks]
    assert (len(row.framed), row.bare) == (16, [])
    assert row.chosen is not None
    assert row.own == pytest.approx(row.subsets[row.chosen], abs=2e-3)
    context = context_of(toyworld, clip, tracks, item, RunOptions())
    levels, mask = np.array([1.0, 1, 0, 0]), context.options.mask
    alone = context.composite(context.masks(mask), levels, context.counterfactual(mask).frame_level)
    state = toyworld.prefill(context.encoded, torch.stack([alone]), reuse=context.base)
    (logits,) = option_logits(toyworld, state, item.options, choice_draws.DIGITS)
    assert row.subsets[0b0011] == pytest.approx(logits, abs=2e-3)
    assert row.subsets[0b1100] != pytest.approx(logits, abs=2e-3)
    assert item.options[known_of([replace(row, item=item.id)])[0].right] == item.truth
    without = RunOptions(mask=MaskOptions(frame_mask="off"))
    bare = read_choices(toyworld, clip, tracks, item, without)
    assert (len(bare.bare), bare.framed) == (16, [])
    assert bare.bare[0] == pytest.approx(bare.video, abs=2e-3)
    with pytest.raises(OptionError, match="at most 6"):
        read_choices(toyworld, clip, tracks * 2, item, RunOptions())
    models = toyworld, lambda item: (clip, tracks)
    monkeypatch.setattr("macd_studio.evals.studies.shared.open_models", lambda *_: models)
    monkeypatch.setattr(type(benchmark), "items", lambda *_: [item])
    args = ["--regime", "options", "--n", "1", "--out", str(tmp_path / "shipped")]
    assert choice_draws.main(args) == 0
    assert stored_files(tmp_path) == {("shipped", "default"): [replace(row, seed=731)]}
    assert choice_draws.main(["--n", "0"]) == 2


def test_other_readings_differ_in_one_choice_and_are_read_behind_their_own_masks(toyworld):
    default = READINGS["default"][1]
    assert default == RunOptions()
    changed = {
        name: {
            field: value
            for part in ("mask", "ascent")
            for field, value in vars(getattr(options, part)).items()
            if value != getattr(getattr(default, part), field)
        }
        for name, (_, options) in READINGS.items()
    }
    assert changed == {
        "default": {}, "additive": {"fill": "additive"}, "twice": {"strength_twice": True},
        "whole": {"frame_mask": "whole", "fusion": "or"}, "uncapped": {"frame_fraction": 1.0},
    }  # fmt: skip
    benchmark = find_benchmark("toyworld-crossed")
    item = next(i for i in benchmark.items("choose", 200) if i.regime == "faint")
    clip, tracks = benchmark.clip(item.clip), benchmark.true_tracks(item.clip)
    rows = {
        name: read_choices(toyworld, clip, tracks, item, options)
        for name, (_, options) in READINGS.items()
    }
    for one, other in product(("additive", "whole", "uncapped"), ("default",)):
        assert not np.allclose(rows[one].subsets[15], rows[other].subsets[15], atol=0.05), one


def told():
    return json.loads((FOLDER / "places.json").read_text())


def test_the_published_rows_are_those_that_were_registered():
    report, files = told(), stored_files(PLACES)
    assert report["seeds"] == {"shipped": [731], "second": [732]}
    counts = {key: len(rows) for key, rows in files.items()}
    assert counts == {(t, "default"): 1152 for t in choice_readings.TRAININGS} | {
        ("shipped", name): 192 for name in READINGS if name != "default"
    }
    shipped = [r.item for r in files["shipped", "default"][:192]]
    assert all([r.item for r in files["shipped", n]] == shipped for n in READINGS if n != "default")
    assert len(report["secondary"]) == 11
    # by other code: the first row's exact p, of places counted one by one
    places, classes = [], []
    right = truths(files["shipped", "default"])
    for row, i in zip(files["shipped", "default"], right, strict=True):
        alike = [s for s in range(16) if row.chosen and s.bit_count() == row.chosen.bit_count()]
        if len(alike) < 2:
            continue
        scores = contrast_scores(np.array(row.video)[None], np.array(row.subsets), *REGISTERED_PAIR)
        with np.errstate(invalid="ignore"):
            leads = lead(scores, i)
        of = [sum(30 * (leads[a] > leads[b]) + 15 * (leads[a] == leads[b]) for b in alike if b != a)
              // (len(alike) - 1) for a in alike]  # fmt: skip
        classes.append([int(z) for z in of])
        places.append(int(of[alike.index(row.chosen)]))
    first = report["rows"][0]
    assert first["n"] == len(places)
    assert first["place"][0] == pytest.approx(np.mean(places) / 30)
    assert first["place_p"] == pytest.approx(choice_test(places, classes))


@pytest.mark.long
def test_the_published_figures_follow_from_the_reads():
    close(plain(report_of(stored_files(PLACES))), told())
