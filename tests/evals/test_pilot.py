"""The pilot for a regime that can judge a choice: its clips, its figures and its committed rows."""

import json
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.evals.commands.render import REPORT
from macd_studio.evals.studies import pilot
from macd_studio.evals.studies.pilot import (
    VARIANTS,
    PilotRow,
    item_of,
    main,
    pack,
    read_row,
    report_of,
    room,
    stored,
)


def planted(n, asked, others):
    """Rows whose habit misleads; a mask leaves these shares of it in the view."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        habit, truth = rng.normal(0, 2, 4), i % 4
        alone = [(share * habit).tolist() for share in (others, asked, others)]
        video = (habit + 1.5 * np.eye(4)[truth]).tolist()
        rows.append(PilotRow("options, 3 companions", 1, i, truth, 1, video, alone, video))
    return rows


def test_room_is_what_the_asked_object_gains_over_any_one():
    found = room(planted(200, 1.0, 0.0))
    assert found["over"][1] > 0.05
    assert found["oracle"][0] > found["null"][0]
    assert room(planted(200, 0.7, 0.7))["over"][0] == 0


def test_committed_rows_are_those_that_are_read_again(toyworld):
    rows = stored()
    for name in ("options, 3 companions", "motion, 3 that move otherwise"):
        row = next(r for r in rows if r.variant == name)
        again = read_row(toyworld, row.variant, row.seed, row.index)
        assert (again.truth, again.asked) == (row.truth, row.asked)
        for part in ("video", "alone", "all"):
            one, other = (np.array(getattr(r, part)) for r in (again, row))
            assert one == pytest.approx(other, abs=2e-3)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_draws_what_its_name_says(name):
    for index in range(5):
        world, item = item_of(name, 1, index)
        spec = world.spec(item.clip)
        companions = [o for o in spec.objects if o.label != item.about]
        assert len(companions) == (4 if " 4 " in name else 3)
        low, high = VARIANTS[name].opacity
        assert low <= spec.find(item.about).contrast <= high
        assert all(o.contrast == 1 for o in companions)
        if "otherwise" in name:
            assert item.truth not in {o.motion for o in companions}
        assert item.question.split()[1] == ("way" if name.startswith("motion") else "animal")


def test_the_command_tells_reads_and_refuses(tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.gz"
    assert main(["--rows", str(path)]) == 2
    assert "no rows" in capsys.readouterr().err
    assert main(["--read", "cats", "--rows", str(path)]) == 2
    assert "no variant 'cats'" in capsys.readouterr().err
    rows = planted(40, 1.0, 0.0)
    pack(rows, path)
    assert stored(path) == rows
    monkeypatch.setattr("macd_studio.core.backbones.load_backbone", lambda name: None)
    monkeypatch.setattr(
        pilot, "read_row", lambda lm, v, seed, i: replace(rows[0], seed=seed, index=i)
    )
    wanted = ["--read", "options, 3 companions", "--seed", "1", "--n", "42", "--rows", str(path)]
    assert main(wanted) == 0
    assert [r.index for r in stored(path)] == [*range(40), 40, 41]
    assert "| 42 | 1 |" in capsys.readouterr().out


def test_the_published_figures_follow_from_the_rows():
    told = json.loads((REPORT / "pilot.json").read_text())
    assert json.loads(json.dumps(report_of(stored()))) == told
