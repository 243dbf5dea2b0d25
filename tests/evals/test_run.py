"""A real run on the embedded models: killed and resumed, and the table it makes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.options import DecodeOptions, RunOptions
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.toyworld import DrawnBenchmark
from macd_studio.evals.printing.report import (
    change,
    honest_table,
    load,
    markdown,
    sections,
)
from macd_studio.evals.running.answer import GRID, PendingAnswer, count_reads, with_contrast
from macd_studio.evals.running.rows import (
    NOT_LOOKED,
    PACKED,
    Row,
    Setting,
    append,
    code_fingerprint,
    pack,
    read,
    row_key,
    seeded,
    unpack,
)
from macd_studio.evals.running.run import choose, complete, plan
from macd_studio.evals.statistics.metrics import open_shares
from macd_studio.evals.statistics.objects import gradient_auc
from macd_studio.evals.statistics.table import right, summarise_again, tabulate
from tests.core.test_methods import a_case
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
RUN = (
    "run toyworld --n 2 --split 2 --methods macd,mask-all,olm --alpha 1 --beta 0.1".split()
)  # fmt: skip

ROWS = 73
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


def test_a_lazy_run_gives_the_same_answers_for_less(benchmark, tmp_path, monkeypatch):
    looked = []

    def look(self, key, of=DrawnBenchmark.true_tracks):
        looked.append(key)
        return of(self, key)

    monkeypatch.setattr(DrawnBenchmark, "true_tracks", look)
    rows, items = [], benchmark.items("test", 1)
    contrasts = {"macd": (1.0, 0.0005)}
    for lazy in (True, False):
        options = RunOptions(decode=DecodeOptions(max_tokens=12), lazy=lazy)
        setting = Setting("toyworld", options, boxes="truth")
        planned = plan(benchmark, setting, "test", 1, ["baseline", *contrasts], contrasts)
        found = complete(planned, setting, tmp_path / str(lazy))
        rows.append({(r.item, r.method): r for r in found.values()})
        looked.append("")
    lazily, (lazy, whole) = looked[: looked.index("")], rows
    assert 0 < len(lazily) < len(items)
    for key, row in whole.items():
        own = lazy[key]
        assert (own.text, own.first, own.tokens, own.open) == (
            row.text, row.first, row.tokens, row.open
        )  # fmt: skip
        assert own.probability == pytest.approx(row.probability, abs=1e-3)
        if key[1] == "baseline":
            assert (own.margin, own.reads) == (pytest.approx(row.margin, abs=1e-3), row.reads)
            continue
        assert (own.margin, own.gradient, own.letters) == (None, [], [])
        assert own.reads == (row.reads if row.open else 1.0)
        assert (own.objects == NOT_LOOKED) == (row.open == 0)
    shares = [open_shares([r for k, r in z.items() if k[1] == "macd"])["open"] for z in rows]
    assert shares[0]["lazy_reads"] == shares[1]["lazy_reads"] == shares[0]["reads"]
    assert 1 < shares[0]["reads"] < shares[1]["reads"] == 4
    assert shares[0]["questions"] == len(lazily) / len(items)


def test_a_lazy_run_does_not_choose_by_logits_it_leaves_out(tmp_path, capsys):
    assert main(["run", "toyworld", "--methods", "macd", "--lazy", "--out", str(tmp_path)]) == 2
    assert "cannot choose α and β of macd" in capsys.readouterr().err


@pytest.fixture
def unplotted(finished, tmp_path, monkeypatch):
    """A copy of that folder, whose report is written without its plots."""
    monkeypatch.setattr("macd_studio.evals.printing.report.pictures", lambda report: {})
    return shutil.copytree(finished, tmp_path / "copy")


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


def test_a_finished_run_computes_nothing_again(unplotted, capsys):
    files = {p: p.stat().st_mtime_ns for p in (unplotted / "rows").iterdir()}
    assert main([*RUN, "--workers", "1", "--out", str(unplotted)]) == 0
    assert {p: p.stat().st_mtime_ns for p in (unplotted / "rows").iterdir()} == files
    assert len(list(read(unplotted / "rows"))) == ROWS
    assert main(["report", str(unplotted)]) == 0
    assert "# toyworld" in capsys.readouterr().out


def test_the_report_is_whole_and_safe(finished):
    report = load(finished)
    page = (finished / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert set(report["regimes"]) == set(find_benchmark("toyworld").regimes)
    for part in report["regimes"].values():
        for method, figures in part["methods"].items():
            assert figures["errors"] == 0
            applies = figures["left_out"] < part["n"]
            assert ("delta" in figures) == (method != "baseline" and applies)
    assert report["methods"] == ["baseline", "yes-bias", "macd", "mask-all", "olm"]
    assert report["regimes"]["captions"]["methods"]["yes-bias"]["n"] == 0
    motion = report["regimes"]["motion"]["methods"]
    assert motion["olm"]["left_out"] == report["regimes"]["motion"]["n"]
    assert {"auroc", "paired", "breakdown", "constant_free"} <= set(report)
    assert set(report["made_by"]) == {"version", "code"}
    assert any("captions: CHAIR" in str(block) for block in sections(report))
    assert "Left out, because the method does not apply" in markdown(report)
    assert len(honest_table(report).splitlines()) == 2 + 5 + 1


def test_what_a_server_certifies_is_reported(finished):
    report = load(finished)
    assert "Certified tokens" not in markdown(report)
    part = next(iter(report["regimes"].values()))
    part["methods"]["macd"]["certified"] = {"tokens": 4, "certified": 3}
    assert "| MACD | 4 | 75.0 |" in markdown(report)


def test_the_packed_rows_give_the_same_report(unplotted):
    report = load(unplotted)
    again = json.loads(json.dumps(summarise_again(report, unplotted)))
    assert json.dumps(again, sort_keys=True) == json.dumps(report, sort_keys=True)
    assert main(["report", str(unplotted), "--again"]) == 0
    assert json.dumps(load(unplotted), sort_keys=True) == json.dumps(report, sort_keys=True)


def test_what_a_method_takes_stands_in_its_row(finished):
    rows = {(r.item, r.method): r for r in unpack(finished / PACKED)}
    for (item, method), row in rows.items():
        if row.error or row.left_out:
            continue
        base = rows[item, "baseline"]
        assert base.reads == 1
        if method == "mask-all":
            assert row.reads == 2
        if method == "macd":
            assert row.reads == 4
        assert 0 < row.probability <= 1


@pytest.mark.long
def test_an_alpha_that_was_given_is_told(tmp_path):
    command = "run toyworld --n 1 --split 1 --methods macd --alpha 1 --beta 0".split()
    assert main([*command, "--workers", "1", "--out", str(tmp_path)]) == 0
    assert load(tmp_path)["contrasts"] == {"macd": [1.0, 0.0]}


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


def test_a_change_is_bold_only_where_it_is_asked_for():
    assert change([0.046, 0.021, 0.075], strong=True) == "**+4.6** [2.1, 7.5]"
    assert change([-0.01, -0.02, 0.01]) == "−1.0 [−2.0, 1.0]"
    assert json.dumps(change([float("nan")] * 3)) == json.dumps("–")


def test_packed_rows_are_equal_bytes_and_come_back(tmp_path):
    rows = [
        Row("k", "b", "macd", "yes", 1 / 3, gradient=[("dog", 2 / 3)], reads=4.0),
        Row("j", "a", "baseline", "no", scores={"yes": -1.0, "no": 1.0}, left_out=""),
        Row("i", "a", "olm", left_out="applies to yes-no questions only"),
        # a value of zero says something else than none
        Row("", "c", "macd", "yes", margin=0.0, tokens=2, open=0, objects=0, clamped=0.0),
    ]
    pack(tmp_path / "one", rows)
    pack(tmp_path / "two", rows[::-1])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    first, second, third, zeros = unpack(tmp_path / "one")
    assert zeros == rows[3]
    assert (first, second.left_out) == (replace(rows[1], key=""), rows[2].left_out)
    assert third.margin == pytest.approx(1 / 3, rel=1e-5)
    assert third.gradient == [("dog", pytest.approx(2 / 3, rel=1e-5))]


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"no gzip", lambda b: b""])
def test_damaged_rows_are_refused(tmp_path, damage):
    pack(tmp_path / "rows", [Row("", "a", "macd")])
    (tmp_path / "rows").write_bytes(damage((tmp_path / "rows").read_bytes()))
    with pytest.raises(OptionError, match="Run it again"):
        unpack(tmp_path / "rows")


def test_the_code_has_one_name_in_every_folder(tmp_path):
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "*.pt", "js")
    shutil.copytree(ROOT / "core", clone / "core", ignore=ignored)
    shutil.copytree(ROOT / "evals", clone / "evals", ignore=ignored)
    assert code_fingerprint(clone / "core") == code_fingerprint()
    os.utime(clone / "core" / "text" / "question.py", (0, 0))
    (clone / "core" / "masking" / "__pycache__").mkdir()
    (clone / "core" / "masking" / "__pycache__" / "masks.cpython-311.pyc").write_bytes(b"x")
    code_fingerprint.cache_clear()
    assert code_fingerprint(clone / "core") == code_fingerprint()
    with (clone / "core" / "text" / "question.py").open("a") as file:
        file.write("# changed")
    code_fingerprint.cache_clear()
    assert code_fingerprint(clone / "core") != code_fingerprint()


def test_a_model_is_known_by_its_contents_alone(benchmark, tmp_path):
    def content(folder):
        return Setting("toyworld", RunOptions(), backbone=str(folder)).content(benchmark)

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_bytes(b"abc")
    os.utime(tmp_path / "two" / "weights", (0, 0))
    assert content(tmp_path / "one") == content(tmp_path / "two")
    (tmp_path / "two" / "weights").write_bytes(b"abd")
    assert content(tmp_path / "one") != content(tmp_path / "two")


def test_another_seed_draws_other_clips_of_the_same_kind():
    one, two = (seeded(find_benchmark("toyworld"), seed) for seed in (0, 3))
    assert one.seeds != two.seeds
    asked = [[(i.id, i.question) for i in b.items("test", 4)] for b in (one, two)]
    assert asked[0] != asked[1]
    assert asked[0][0][0] == asked[1][0][0]


def test_plans_name_every_answer_once(benchmark):
    setting = Setting("toyworld", RunOptions())
    wanted = plan(benchmark, setting, "test", 3, ["baseline", "macd"], {"macd": (1.0, 0.1)})
    assert len({w.key for w in wanted}) == len(wanted)
    assert {w.contrast for w in wanted if w.method == "baseline"} == {(1.0, 0.0)}
    derived = plan(benchmark, setting, "test", 3, ["baseline", "yes-bias"], None)
    assert {w.method for w in derived} == {"baseline"}
    choosing = plan(benchmark, setting, "choose", 3, ["baseline"], None)
    assert "caption" not in {w.item.kind for w in choosing}
    assert "caption" in {w.item.kind for w in wanted}


def test_every_second_view_is_counted():
    context = a_case()
    names = ("baseline", "no-video+m3id", "vcd/tcd+mean-views")
    assert [count_reads(context, find_method(name)) for name in names] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "torn", ['{"key": "b", "item": "i', "[1, 2]", '{"another": 1}', "7", "\ufffd"]
)
def test_a_line_that_is_no_row_is_left_out(tmp_path, torn):
    path = tmp_path / "rows-0.jsonl"
    first = Row("a", "i", "baseline", "yes", gradient=[("dog", 0.5)])
    append(path, first)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{torn}\n")
    append(path, Row("c", "j", "macd", "no"))
    assert [row.key for row in read(tmp_path)] == ["a", "c"]
    assert next(iter(read(tmp_path))) == first
