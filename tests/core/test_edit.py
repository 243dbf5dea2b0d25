"""`python -m core edit`: a saved trace changed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.cli.main import main
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import INTERPOLATED, LOST, SEEN
from macd_studio.core.whatif.edits import edited_tracks, read_edit
from tests.opening import EXAMPLE, choices


@pytest.fixture
def no_model(monkeypatch):
    """Whoever loads a model fails."""

    def load_backbone(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("macd_studio.core.backbones.load.load_backbone", load_backbone)


def test_the_order_of_different_flags_counts(no_model, capsys):
    assert main(["edit", str(EXAMPLE), "--drop", "1", "--level", "1=0"]) == 2
    assert f"there is no object 1. Choose one of {choices(without=1)}" in capsys.readouterr().err


def test_no_edit_at_all_is_said_and_saves_the_same(tmp_path, capsys):
    level = float(load(EXAMPLE).counterfactual.level[0])
    out = tmp_path / "same.macd"
    assert main(["edit", str(EXAMPLE), "--level", f"1={level}", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert f"object 1 is at level {level:g} already" in told.err
    assert "Edited" not in told.out
    assert load(out).options == load(EXAMPLE).options


def test_a_merged_object_is_seen_where_either_was():
    trace = load(EXAMPLE)
    first, second = trace.tracks[:2]
    gone = np.full_like(first.boxes, np.nan)
    states = np.array([[SEEN, INTERPOLATED, LOST, LOST], [LOST, SEEN, INTERPOLATED, LOST]], np.int8)
    halves = [
        replace(
            track,
            state=np.resize(state, len(track.state)),
            boxes=np.where(np.resize(state, len(track.state))[:, None] == LOST, gone, track.boxes),
        )
        for track, state in zip((first, second), states, strict=True)
    ]
    edit = read_edit({"kind": "merge", "track": first.id, "other": second.id}, trace)
    merged = edited_tracks(replace(trace, tracks=(*halves, *trace.tracks[2:])), edit)[0]
    assert merged.state[:4].tolist() == [SEEN, SEEN, INTERPOLATED, LOST]
    assert np.isfinite(merged.boxes[:4, 0]).tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--level", "9=1"], f"there is no object 9. Choose one of {choices()}"),
        (["--level", "1=2"], "level is 2.0. Choose a number from 0 to 1"),
        (["--level", "1"], "'1' is not of the form ID=LEVEL"),
        (["--level", "1=nan"], "level is nan"),
        (["--frames", "4=1"], "there is no frame group 4. Choose from 0 to 3"),
        (["--frames", "-1=1"], "no frame group -1"),
        (["--drop", "dog"], "'dog' is not of the form ID"),
        (["--edit", "{"], "is not of the form JSON"),
        (["--edit", '{"kind": "explode"}'], "Choose one of level, frames"),
        (["--edit", '{"kind": "level", "track": 1.5, "level": 1}'], "there is no object 1.5"),
        (["--alpha", "-1"], "alpha is -1.0"),
        (["--beta", "nan"], "beta is nan"),
        (["--out", "/no/such/folder/x.macd"], "there is no folder"),
        (["--out", "/"], "is a folder"),
        (["--backbone", "org/other"], "by the embedded backbone toyworld, not by 'org/other'"),
    ],
)
def test_what_cannot_be_done_is_told_before_a_model_is_loaded(no_model, flags, said, capsys):
    flags = [f"{flags[0]}={flags[1]}"] if flags[1].startswith("-") else flags
    assert main(["edit", str(EXAMPLE), *flags]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out


def test_a_folder_that_takes_no_file_is_told(no_model, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("os.access", lambda *_: False)
    assert main(["edit", str(EXAMPLE), "--out", str(tmp_path / "x.macd")]) == 2
    assert "nothing can be written beside" in capsys.readouterr().err


def test_a_file_loads_no_backbone_by_itself(no_model, tmp_path, capsys):
    trace = load(EXAMPLE)
    other = replace(trace, backbone=replace(trace.backbone, name="org/model; rm"))
    path = save(other, tmp_path / "other.macd")
    assert main(["edit", str(path), "--drop", "1"]) == 2
    assert "--backbone 'org/model; rm'" in capsys.readouterr().err
    with pytest.raises(AssertionError, match="a model was loaded"):
        main(["edit", str(path), "--drop", "1", "--backbone", "org/model"])
