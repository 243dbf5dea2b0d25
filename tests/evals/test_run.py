"""A real run on the embedded models: killed and resumed, and the table it makes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from core.options import DecodeOptions, RunOptions
from evals.__main__ import main
from evals.answer import GRID, PendingAnswer, with_contrast
from evals.benchmarks import find_benchmark
from evals.report import change, honest_table, load, markdown
from evals.rows import Row, Setting, append, read, row_key
from evals.run import choose, plan
from evals.table import gradient_auc, right, tabulate
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
RUN = ("run", "toyworld", "--n", "2", "--methods", "macd,mask-all", "--alpha", "1", "--beta", "0.1")

ROWS = 45
"""What such a run answers."""


@pytest.fixture(scope="module")
def benchmark():
    return find_benchmark("toyworld")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of one small run, done in one piece in this process."""
    out = tmp_path_factory.mktemp("whole")
    assert main([*RUN, "--workers", "1", "--out", str(out)]) == 0
    return out


@pytest.mark.long
def test_a_killed_run_goes_on_to_the_same_table(finished, tmp_path):
    command = [sys.executable, "-m", "evals", *RUN, "--out", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE)
    rows = tmp_path / "rows"
    deadline = time.monotonic() + PATIENCE_S
    while not (rows.is_dir() and len(list(read(rows))) >= 6):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "report.json").exists()
    torn = next(iter(rows.glob("rows-*.jsonl")))
    torn.write_text(torn.read_text() + '{"key": "half a li')
    before = {r.key for r in read(rows)}
    assert 0 < len(before) < ROWS
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert load(tmp_path) == load(finished)
    assert "written to" in again.stderr
    made = [r.key for r in read(rows)]
    assert before < set(made)
    assert len(made) == len(set(made))


def test_a_finished_run_computes_nothing_again(finished, capsys):
    files = {p: p.stat().st_mtime_ns for p in (finished / "rows").iterdir()}
    assert main([*RUN, "--workers", "1", "--out", str(finished)]) == 0
    assert {p: p.stat().st_mtime_ns for p in (finished / "rows").iterdir()} == files
    assert len(list(read(finished / "rows"))) == ROWS
    assert main(["report", str(finished)]) == 0
    assert "# toyworld" in capsys.readouterr().out


def test_the_report_is_whole_and_safe(finished):
    report = load(finished)
    page = (finished / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert set(report["regimes"]) == set(find_benchmark("toyworld").regimes)
    for part in report["regimes"].values():
        for method, figures in part["methods"].items():
            assert figures["errors"] == 0
            assert ("delta" in figures) == (method != "baseline")
    assert "CHAIR" in markdown(report)
    assert len(honest_table(report)) == 2 + 3 + 1


@pytest.mark.long
def test_an_alpha_that_was_given_is_told(tmp_path):
    command = ["run", "toyworld", "--n", "1", "--methods", "macd", "--alpha", "1", "--beta", "0"]
    assert main([*command, "--workers", "1", "--out", str(tmp_path)]) == 0
    assert load(tmp_path)["contrasts"] == {"macd": [1.0, 0.0]}


def test_only_one_of_alpha_and_beta_is_refused(tmp_path, capsys):
    assert main(["run", "toyworld", "--alpha", "1", "--out", str(tmp_path)]) == 2
    assert "Give both" in capsys.readouterr().err


def test_a_key_changes_with_everything_an_answer_depends_on(benchmark):
    item = benchmark.items("test", 1)[0]
    setting = Setting("toyworld", RunOptions())
    keys = {
        row_key(s.content(benchmark), i, m, c)
        for s in (
            setting,
            replace(setting, boxes="truth"),
            replace(setting, options=RunOptions(decode=DecodeOptions(max_tokens=5))),
        )
        for i in (item, replace(item, question="Where is it?"))
        for m in ("macd", "vcd")
        for c in ((1.0, 0.1), (2.0, 0.1), None)
    }
    assert len(keys) == 3 * 2 * 2 * 3


@pytest.mark.parametrize(("method", "part"), [("vcd", "vcd"), ("tcd", "tcd"), ("sid", "sid")])
def test_rivals_get_their_own_contrast(method, part):
    options = with_contrast(RunOptions(), method, (2.5, 0.25))
    own = getattr(options, part).contrast
    assert (own.alpha, own.beta) == (2.5, 0.25)
    assert own.head == getattr(RunOptions(), part).contrast.head
    assert options.contrast == RunOptions().contrast


def test_alpha_and_beta_are_the_best_on_the_split(benchmark):
    items = [i for i in benchmark.items("choose", 2) if i.regime == "motion"]
    wanted = [PendingAnswer(i, "macd", None, i.id) for i in items]
    best = GRID.index((1.5, 0.3))
    rows = {
        i.id: Row(
            i.id, i.id, "macd", grid=["no"] * best + [i.truth] + ["no"] * (len(GRID) - best - 1)
        )
        for i in items
    }
    assert choose(items, rows, wanted)["macd"] == (1.5, 0.3)


def test_rows_survive_a_round_trip(tmp_path):
    row = Row("k", "i", "macd", 'a "dog"\n', 0.5, ["yes"], [("dog", 0.25)])
    append(tmp_path / "rows-0.jsonl", row)
    assert list(read(tmp_path)) == [row]


def test_the_table_counts_repairs_and_spoils(benchmark):
    items = [i for i in benchmark.items("test", 6) if i.regime == "motion"]
    answers = {}
    for k, item in enumerate(items):
        answers[item.id, "baseline"] = Row("", item.id, "baseline", item.truth if k % 2 else "none")
        answers[item.id, "macd"] = Row("", item.id, "macd", item.truth)
    part = tabulate(benchmark, items, answers, ["baseline", "macd"])["regimes"]["motion"]
    wrong = len(items[::2])
    assert part["methods"]["macd"]["repaired"] == wrong
    assert part["methods"]["macd"]["spoiled"] == 0
    assert part["methods"]["macd"]["delta"][0] == pytest.approx(wrong / len(items))
    assert part["methods"]["baseline"]["right"][0] == pytest.approx(1 - wrong / len(items))


def test_gradient_auc_by_hand(benchmark):
    items = [i for i in benchmark.items("test", 12) if i.regime == "background" and i.about]
    items = [i for i in items if i.level == "clear"][:2]
    rows = {
        (items[0].id, "macd"): Row("", "", "macd", gradient=[(items[0].about, 2.0), ("x", 1.0)]),
        (items[1].id, "macd"): Row("", "", "macd", gradient=[(items[1].about, 1.0), ("x", 3.0)]),
    }
    found = gradient_auc(benchmark, items, rows)["clear"]
    assert found["pairs"] == 2
    assert found["auc"][0] == 0.5


def test_captions_are_right_without_an_invention(benchmark):
    item = next(i for i in benchmark.items("test", 2) if i.kind == "caption")
    assert right(item, item.truth, benchmark)
    absent = next(c for c in benchmark.nouns if c not in benchmark.present(item.clip))
    assert not right(item, f"{item.truth} and a {absent}", benchmark)
    assert not right(item, "", benchmark)


def test_a_change_is_bold_only_where_zero_is_outside():
    assert change([0.046, 0.021, 0.075]) == "**+4.6** [2.1, 7.5]"
    assert change([-0.01, -0.02, 0.01]) == "−1.0 [−2.0, 1.0]"
    assert json.dumps(change([float("nan")] * 3)) == json.dumps("–")


def test_plans_name_every_answer_once(benchmark):
    setting = Setting("toyworld", RunOptions())
    wanted = plan(benchmark, setting, "test", 3, ["baseline", "macd"], {"macd": (1.0, 0.1)})
    assert len({w.key for w in wanted}) == len(wanted)
    assert {w.contrast for w in wanted if w.method == "baseline"} == {(1.0, 0.0)}
