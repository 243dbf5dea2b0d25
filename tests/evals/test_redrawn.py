"""A mask over a companion against the clip drawn again without it."""

import functools
import gzip
import json

import numpy as np
import pytest

from macd_studio.evals.commands.render import REPORT
from macd_studio.evals.studies import redrawn
from macd_studio.evals.studies.drawn_clips import measure_drawn_clips
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


@pytest.mark.parametrize(("shift", "neutral"), [(0.1, True), (-0.1, True), (0.49, False)])
def test_a_mask_is_neutral_where_its_whole_interval_is(monkeypatch, shift, neutral):
    """A fill whose margin lies about `shift` above that of the redrawn clip."""
    rng = np.random.default_rng(0)

    def margins(lm, spec, head, absent):
        views = {"redrawn": 1.0, **dict.fromkeys(redrawn.FILLS, 1.0)}
        return views | {"blur": 1.0 + shift + rng.normal(0, 0.3)}

    monkeypatch.setattr(redrawn, "margins", margins)
    figures = redrawn.measure(None, 60)
    assert figures["masks_are_neutral"] is neutral
    value, low, high = figures["views"]["blur"]["over_redrawn"]
    assert low < value < high
    assert abs(value - shift) < 0.15
    assert figures["views"]["redrawn"]["false_yes"][0] == 1.0


def test_plates_are_told_apart_by_whether_the_object_moves(monkeypatch):
    def margins(lm, spec, head, absent):
        up = spec.find(head).motion == "still"
        return {"redrawn": 1.0, **dict.fromkeys(redrawn.FILLS, 1.0), "plate": 3.0 if up else 1.0}

    monkeypatch.setattr(redrawn, "margins", margins)
    found = redrawn.measure(None, 60)["plate_by_motion"]
    assert found["still"]["n"] + found["moving"]["n"] == 60
    assert [found[z]["over_redrawn"][0] for z in ("still", "moving")] == [2.0, 0.0]


def test_the_command_line_writes_the_figures(tmp_path, monkeypatch, capsys):
    asked = {}

    def measure(lm, n, seed):
        asked.update(lm=lm, n=n, seed=seed)
        return {"clips": n, "rows": [{"mean": 0.5}, {"mean": 1.0}]}

    monkeypatch.setattr("macd_studio.core.backbones.load_backbone", lambda name: f"the {name}")
    run = functools.partial(
        measure_drawn_clips, "evals.studies.redrawn", "", measure, n=600, seed=9, least=2
    )
    out, kept = tmp_path / "new" / "figures.json", tmp_path / "rows" / "rows.jsonl.gz"
    assert run(argv=["--n", "3", "--out", str(out), "--rows", str(kept)]) == 0
    lines = gzip.decompress(kept.read_bytes()).splitlines()
    assert [json.loads(line)["mean"] for line in lines] == [0.5, 1.0]
    assert asked == {"lm": "the toyworld", "n": 3, "seed": 9}
    assert json.loads(out.read_text()) == json.loads(capsys.readouterr().out) == {"clips": 3}
    asked.clear()
    for bad in (
        ["--n", "1"],
        ["--seed", "-1"],
        ["--out", str(out / "x.json")],
        ["--rows", str(out / "x.gz")],
    ):
        assert run(argv=bad) == 2
        assert "error: " in capsys.readouterr().err
    assert not asked


def test_figures_follow_from_the_rows_alone(monkeypatch):
    rng = np.random.default_rng(1)

    def margins(lm, spec, head, absent):
        return {"redrawn": 1.0, **dict.fromkeys(redrawn.FILLS, 1.0), "blur": rng.normal()}

    monkeypatch.setattr(redrawn, "margins", margins)
    found = redrawn.measure(None, 30)
    rows = found.pop("rows")
    assert len(rows) == 30
    assert redrawn.figures_of(rows) == found


def test_the_published_figures_follow_from_the_rows():
    lines = gzip.decompress((REPORT / "redrawn-rows.jsonl.gz").read_bytes()).splitlines()
    written = (REPORT / "redrawn.json").read_text()
    figures = redrawn.figures_of([json.loads(line) for line in lines], json.loads(written)["seed"])

    def read(text):  # the last digits differ by how many threads add up
        return json.loads(text, parse_float=lambda digits: round(float(digits), 12))

    told = read(written)
    assert read(json.dumps(figures)) == told
    assert told["clips"] == 600
