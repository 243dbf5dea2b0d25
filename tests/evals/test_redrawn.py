"""A mask over a companion against the clip drawn again without it."""

import json

import numpy as np
import pytest

from macd_studio.evals.commands.render import REPORT
from macd_studio.evals.studies import redrawn
from macd_studio.evals.studies.shared import unpack_rows
from macd_studio.toyworld.priors import priors


def test_the_absent_one_of_a_pair_is_asked_for():
    clips = list(redrawn.draw_clips(30))
    for spec, head, absent in clips:
        assert priors().partner[head] == absent
        assert absent not in spec.labels
        assert len(spec.objects) == 2
        assert spec.find(head).contrast < 1
    again = list(redrawn.draw_clips(3))
    assert again == clips[:3]  # a clip does not depend on how many are drawn
    assert clips[0] != next(redrawn.draw_clips(1, seed=redrawn.SEED + 1))


def test_every_view_of_a_clip_is_read(toyworld):
    spec, head, absent = next(redrawn.draw_clips(1))
    found = redrawn.margins(toyworld, spec, head, absent)
    fills = set(redrawn.FILLS)
    assert set(found) == {"as it is", "redrawn", *fills, *(f"{f} over nothing" for f in fills)}
    assert len({round(z, 3) for z in found.values()}) == len(found)  # no view is read twice


@pytest.mark.parametrize(("shift", "neutral"), [(0.1, True), (-0.1, True), (0.44, False)])
def test_a_mask_is_neutral_where_its_whole_interval_is(shift, neutral):
    """A fill whose margin lies about `shift` above that of the redrawn clip."""
    rng = np.random.default_rng(0)
    views = {"redrawn": 1.0, **dict.fromkeys(redrawn.FILLS, 1.0)}
    figures = redrawn.figures_of(
        [views | {"blur": 1.0 + shift + rng.normal(0, 0.3)} for _ in range(60)]
    )
    assert figures["masks_are_neutral"] is neutral
    value, low, high = figures["views"]["blur"]["over_redrawn"]
    assert low < value < high
    assert abs(value) < redrawn.WITHIN  # the estimate alone does not decide
    assert abs(value - shift) < 0.15
    assert figures["views"]["redrawn"]["false_yes"][0] == 1.0


def test_plates_are_told_apart_by_whether_the_object_moves():
    views = {"redrawn": 1.0, **dict.fromkeys(redrawn.FILLS, 1.0)}
    still = [spec.find(head).motion == "still" for spec, head, _ in redrawn.draw_clips(60)]
    rows = [views | {"plate": 3.0 if z else 1.0} for z in still]
    found = redrawn.figures_of(rows)["plate_by_motion"]
    assert found["still"]["n"] + found["moving"]["n"] == 60
    assert [found[z]["over_redrawn"][0] for z in ("still", "moving")] == [2.0, 0.0]


def test_the_command_writes_figures_and_rows(tmp_path, monkeypatch, capsys):
    views = {"redrawn": 1.0, **dict.fromkeys(redrawn.FILLS, 0.123456)}
    monkeypatch.setattr(redrawn, "load_backbone", lambda name: f"the {name}")
    asked = []
    monkeypatch.setattr(redrawn, "margins", lambda *of: asked.append(of) or views)
    out, rows = tmp_path / "new" / "figures.json", tmp_path / "rows" / "rows.json.xz"
    assert redrawn.main(["--n", "3", "--out", str(out), "--rows", str(rows)]) == 0
    assert unpack_rows(rows) == [views | dict.fromkeys(redrawn.FILLS, 0.1235)] * 3
    assert asked == [("the toyworld", *clip) for clip in redrawn.draw_clips(3)]
    assert json.loads(out.read_text()) == json.loads(capsys.readouterr().out)
    assert json.loads(out.read_text())["clips"] == 3
    asked.clear()
    for bad in (["--n", "1"], ["--seed", "-1"], ["--out", str(out / "x")],
                ["--rows", str(out / "x")]):  # fmt: skip
        assert redrawn.main(bad) == 2
        assert "error: " in capsys.readouterr().err
    assert not asked


def test_the_published_figures_follow_from_the_rows():
    rows = unpack_rows(REPORT / "redrawn-rows.json.xz")
    written = (REPORT / "redrawn.json").read_text()
    figures = redrawn.figures_of(rows, json.loads(written)["seed"])

    def read(text):  # the last digits differ by how many threads add up
        return json.loads(text, parse_float=lambda digits: round(float(digits), 12))

    told = read(written)
    assert read(json.dumps(figures)) == told
    assert told["clips"] == 600
