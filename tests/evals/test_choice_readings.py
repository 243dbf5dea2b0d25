"""The registered places in *faint*: how many clips, what is said, and what is published."""

import json
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from macd_studio.core.options import RunOptions
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.statistics.stats import choice_test, holm
from macd_studio.evals.studies import choice_readings
from macd_studio.evals.studies.choice_draws import READINGS, read_choices
from macd_studio.evals.studies.choice_readings import (
    PLACES,
    clips_needed,
    markdown,
    report_of,
    stored_files,
    verdict,
)
from macd_studio.evals.studies.control_draws import stored
from macd_studio.evals.studies.first_token import contrast_scores
from macd_studio.evals.studies.registered import REGISTERED_PAIR
from macd_studio.evals.studies.shared import FOLDER, truths
from macd_studio.parts import ROOT
from tests.evals.test_choice_test import planted

PAGE = (ROOT / "docs" / "registration.md").read_text(encoding="utf-8")


def lead(scores, right):
    return scores[..., right] - np.delete(scores, right, axis=-1).max(-1)


def test_the_registered_number_of_clips_follows_from_the_committed_rows():
    rows = [r for r in stored(FOLDER / "choice-faint-macd.json.xz").values() if r.item[0] == "t"]
    places = []
    for row, right in zip(rows, truths(rows), strict=True):
        if len(row.objects) < 2:
            continue
        views = np.array([row.macd] + [d.logits for d in row.objects if d.level != row.level])
        leads = lead(contrast_scores(np.array(row.video)[None], views, *REGISTERED_PAIR), right)
        beaten = (leads[0] > leads[1:]).sum() + (leads[0] == leads[1:]).sum() / 2
        places.append(beaten / (len(leads) - 1))
    sd = np.std(places, ddof=1)
    needed = clips_needed(sd), clips_needed(sd, 0.025)
    told = re.search(
        r"standard deviation of ([\d.]+) points in the (\d+) clips with a choice of the (\d+)"
        r".*?in (\d+) clips\s+with a choice, at \.025, .*?, in (\d+):", PAGE, re.S,
    )  # fmt: skip
    assert told.groups() == (
        f"{100 * sd:.1f}", str(len(places)), str(len(rows)), *map(str, needed)
    )  # fmt: skip
    assert needed[1] * len(rows) / len(places) < 1152


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
        name: read_choices(toyworld, clip, tracks, item, options, both=False)
        for name, (_, options) in READINGS.items()
    }
    both = read_choices(toyworld, clip, tracks, item, RunOptions())
    row = rows["default"]
    assert both.framed
    assert (row.bare, row.level) == ([], both.level)
    np.testing.assert_allclose(row.framed, both.framed, atol=2e-3)
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
    assert json.loads(json.dumps(report_of(stored_files(PLACES)))) == told()
