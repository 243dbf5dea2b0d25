"""The command line: what it prints, how it ends, and that it needs neither torch nor Gradio."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from macd_studio.core.system.shipped import assets
from macd_studio.ratings.cli import main
from macd_studio.ratings.secret import CODE
from macd_studio.ratings.store import Study
from tests.patience import PATIENCE_S
from tests.ratings.studies import copy_study

ROOT = Path(__file__).parents[2]
EXAMPLES = assets() / "examples"
TRACE = str(EXAMPLES / "repaired.macd")


@pytest.fixture
def path(tmp_path):
    return str(copy_study(tmp_path, 2))


def test_a_study_is_made_of_traces(tmp_path, capsys):
    target = str(tmp_path / "s.db")
    gold = tmp_path / "gold.json"
    sides = [{"hide": [3], "low": 4}, {"hide": [2], "high": 2}]
    item = {"trace": TRACE, "question": "Which way does the bird move?", "sides": sides}
    gold.write_text(json.dumps([item, item | {"training": True}]))
    words = ["create", target, "--traces", TRACE, TRACE, "--gold", str(gold), "--seed", "4",
             "--raters", "5", "--url", "https://example.org/"]  # fmt: skip
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "1 item of 2 stay" in out
    assert "1 item left out, given twice: repaired.mp4" in out
    assert "organiser: https://example.org/organise#" in out
    with Study(target) as study:
        assert f"sha256: {study.preregistration_sha256}" in out
        assert study.sealed["seed"] == 4
        assert [i["part"] for i in study.items] == ["main", "gold", "training"]
        assert "How well does it hide" in study.instructions
    assert main(words) == 2
    assert "exists" in capsys.readouterr().err


def test_the_shipped_gold_file_fits_the_shipped_traces():
    from macd_studio.ratings.gold import read_gold

    items = read_gold(EXAMPLES / "gold.json")
    assert [i.training for i in items] == [True, True, False, False]
    for item in items:  # what a high rating asks to hide is what the question names
        labels = {t.id: t.label for t in item.source.tracks}
        named = {i for i, label in labels.items() if f" {label} " in item.source.question}
        assert len(named) == 1
        (right,) = (s for s in item.sides if s.low == 4)
        (wrong,) = (s for s in item.sides if s.high == 2)
        assert set(right.hide) == named
        assert not named & set(wrong.hide)


BAD_GOLD = {
    "no list": {},
    "no object": [1],
    "unknown key": [{"trace": TRACE, "sides": [{"hide": [1]}], "x": 1}],
    "no trace": [{"sides": [{"hide": [1]}]}],
    "no sides": [{"trace": TRACE}],
    "no such track": [{"trace": TRACE, "sides": [{"hide": [9]}]}],
    "rating 6": [{"trace": TRACE, "sides": [{"hide": [1], "low": 6}]}],
    "low above high": [{"trace": TRACE, "sides": [{"hide": [1], "low": 4, "high": 2}]}],
    "nothing hidden": [{"trace": TRACE, "sides": [{"hide": []}]}],
    "blank question": [{"trace": TRACE, "question": " ", "sides": [{"hide": [1]}]}],
}


@pytest.mark.parametrize("what", BAD_GOLD)
def test_a_bad_gold_file_is_refused(tmp_path, what, capsys):
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps(BAD_GOLD[what]))
    words = ["create", str(tmp_path / "s.db"), "--traces", TRACE, "--gold", str(gold)]
    assert main(words) == 2
    assert "error: " in capsys.readouterr().err
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    "words",
    [["--arms", "macd"], ["--arms", "macd,x"], ["--repeat", "2"], ["--raters", "0"],
     ["--seed", "-1"], ["--instructions", "/nowhere"], ["--gold", "/nowhere"]],
)  # fmt: skip
def test_bad_options_are_refused_before_anything_is_written(tmp_path, words, capsys):
    assert main(["create", str(tmp_path / "s.db"), "--traces", TRACE, *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not list(tmp_path.iterdir())


def test_invite_prints_nothing_but_links(path, capsys):
    assert main(["invite", path, "--n", "3", "--url", "https://x.org"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(set(lines)) == 3
    for line in lines:
        assert line.startswith("https://x.org/rate#")
        assert CODE.fullmatch(line.split("#")[1])
    assert main(["invite", path, "--organiser"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    with Study(path) as study:
        assert study.is_organiser(line.split("#")[1])
    assert main(["invite", path, "--n", "0"]) == 2


def test_status_report_and_export_work_before_and_after_ratings(path, tmp_path, capsys):
    for rated in (False, True):
        if rated:
            assert main(["simulate", path, "--seed", "1"]) == 0
            capsys.readouterr()
        assert main(["status", path]) == 0
        told = capsys.readouterr().out
        assert ("0 of 0 raters have rated" in told) is not rated
        assert ("6 of 6 raters have rated" in told) is rated
        assert main(["status", path, "--json"]) == 0
        assert "differences" not in json.loads(capsys.readouterr().out)
        for kind in ("md", "html", "json"):
            out = tmp_path / f"{rated}.{kind}"
            assert main(["report", path, "--format", kind, "--out", str(out)]) == 0
            assert out.stat().st_size > 500
        assert main(["report", path]) == 0
        assert "# Rating study" in capsys.readouterr().out
        assert main(["export", path, "--out", str(tmp_path / "e.csv")]) == 0
        assert capsys.readouterr().out.startswith("0 events") is not rated


def test_reading_does_not_change_the_study(path, tmp_path, capsys):
    before = Path(path).read_bytes()
    for words in (["status"], ["report"], ["check"], ["export"]):
        more = ["--out", str(tmp_path / "e")] if words == ["export"] else []
        assert main([*words, path, *more]) == 0
    assert Path(path).read_bytes() == before


def test_check_ends_with_1_and_the_reason(path, capsys):
    assert main(["check", path]) == 0
    assert capsys.readouterr().out == "sound: items: 2, raters: 0, events: 0\n"
    content = bytearray(Path(path).read_bytes())
    content[-5000:-4000] = b"\x00" * 1000
    Path(path).write_bytes(content)
    assert main(["check", path]) == 1
    assert capsys.readouterr().err.startswith("damaged: ")
    assert main(["check", path + "x"]) == 1


def test_copy_makes_a_whole_copy(path, tmp_path, capsys):
    target = str(tmp_path / "copy.db")
    assert main(["copy", path, target]) == 0
    assert main(["check", target]) == 0
    assert main(["copy", path, target]) == 2
    assert main(["copy", path, "/nowhere/x.db"]) == 2


WITHOUT = """
import sys
import macd_studio.ratings.web
from macd_studio.ratings.cli import main
assert main(["create", "s.db", "--traces", sys.argv[1], "--seed", "1"]) == 0
assert main(["report", "s.db"]) == 0
for heavy in ("torch", "transformers", "gradio", "ultralytics", "toyworld", "macd_ui", "viewer"):
    assert heavy not in sys.modules, heavy
"""


def test_it_needs_neither_torch_nor_gradio(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, TRACE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
