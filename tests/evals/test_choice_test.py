"""A choice against all of as many objects: the exact test, what is read, and what is published."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.studies import choice_draws
from macd_studio.evals.studies.choice_draws import ChoiceDraws, read_choices
from macd_studio.evals.studies.choice_test import (
    Known,
    by_macd,
    by_oracle,
    clip_of,
    judged,
    known_of,
    power_table,
    report_of,
)
from macd_studio.evals.studies.shared import FOLDER, stored

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
    clip = clip_of(rows[1], known[1], PAIR, True)
    assert clip.chosen == 0b010
    sets = {sum(1 << k for k in two) for two in combinations(range(3), 2)}
    assert set(clip.alike(0b011)) == sets
    tied = replace(clip, height=np.array([0.0, 5, 5, 1, 2, 3, 3, 9]))
    assert [tied.places[n] for n in (0b001, 0b010, 0b100)] == [3, 3, 0]
    assert tied.places[0] == tied.places[0b111] == 0
    assert tied.alike(0b111) == (0b111,)


def test_a_chooser_that_sees_is_found_and_one_at_random_is_not():
    rows, known = planted(80, 1.5)
    clips = [clip_of(r, k, PAIR, True) for r, k in zip(rows, known, strict=True)]
    rng = np.random.default_rng(0)
    found = judged(clips, [by_oracle(c, rng) for c in clips])
    assert found["p"] < 1e-3
    assert found["place"][1] > 0.5
    rows, known = planted(80)
    clips = [clip_of(r, k, PAIR, True) for r, k in zip(rows, known, strict=True)]
    assert judged(clips, [by_oracle(c, rng) for c in clips])["place_p"] > 0.01
    nothing = [replace(c, chosen=None) for c in clips]
    with pytest.raises(OptionError, match="leaves anything"):
        judged(nothing, [by_macd(c, rng) for c in nothing])


def test_a_row_holds_what_each_subset_read_alone_holds(toyworld, tmp_path, monkeypatch):
    benchmark = find_benchmark("toyworld-crossed")
    item = next(i for i in benchmark.items("choose", 80) if i.regime == "options")
    clip, tracks = benchmark.clip(item.clip), benchmark.true_tracks(item.clip)
    row = read_choices(toyworld, clip, tracks, item, RunOptions())
    assert row.labels == [t.label for t in tracks]
    assert len(row.bare) == 16
    assert row.bare[0] == pytest.approx(row.video, abs=2e-3)
    assert row.chosen is not None
    assert row.own == pytest.approx(row.subsets[row.chosen], abs=2e-3)
    assert item.options[known_of([replace(row, item=item.id)])[0].right] == item.truth
    with pytest.raises(OptionError, match="at most 6"):
        read_choices(toyworld, clip, tracks * 2, item, RunOptions())
    models = toyworld, lambda item: (clip, tracks)
    monkeypatch.setattr("macd_studio.evals.studies.shared.open_models", lambda *_: models)
    monkeypatch.setattr(type(benchmark), "items", lambda *_: [item])
    assert choice_draws.main(["--n", "1", "--out", str(tmp_path)]) == 0
    assert read_stored(tmp_path / "choices.json.xz") == {item.id: replace(row, seed=3)}
    assert choice_draws.main(["--n", "0"]) == 2


def read_stored(path):
    return stored(path, lambda row: ChoiceDraws(**row))


def told():
    return json.loads((FOLDER / "choices.json").read_text())


def test_the_published_test_holds_its_level_and_finds_the_oracle():
    report = told()
    assert report["n"] == len(read_stored(FOLDER / "choices.json.xz"))
    for one in report["settings"]:
        for who in ("macd", "oracle"):
            assert one[who]["size"] <= 0.05
            assert one[who]["place_size"] <= 0.05
    cells = {(z["chooser"], z["clips"]): z for z in report["cells"]}
    assert report["simulated"] >= 1000
    for (chooser, clips), cell in cells.items():
        if chooser == "random":  # as often as at its exact size, as far as a simulation tells
            assert cell["p"][1] <= 0.05
            assert cell["place_p"][1] <= 0.05
        if chooser == "oracle" and clips >= 192:
            assert cell["p"][0] >= 0.8
            assert cell["place_p"][0] >= 0.99
    assert power_table(report).count("\n") == len(cells) + 1


@pytest.mark.long
def test_the_published_figures_follow_from_the_reads():
    rows = list(read_stored(FOLDER / "choices.json.xz").values())
    again = json.loads(json.dumps(report_of(rows, known_of(rows), simulated=0)))
    published = told()
    for name in set(again) - {"cells", "simulated"}:
        assert again[name] == published[name], name
