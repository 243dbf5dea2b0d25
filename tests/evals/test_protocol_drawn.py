"""Runs over drawn clips are compared as those over files: answers of the packed rows."""

import json

import pytest

from macd_studio.core.options import RunOptions
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.protocol import record
from macd_studio.evals.protocol.bounds import NAME_OF_FILE
from macd_studio.evals.protocol.figure import rule_parser
from macd_studio.evals.protocol.inputs import Asked, read_pair
from macd_studio.evals.protocol.split import split
from macd_studio.evals.running.rows import PACKED, Row, Setting, pack, read_setting, seeded
from macd_studio.evals.statistics.table import right
from tests.evals.protocols import MODEL, chance

N = 9
"""Questions a regime."""


def wrong_of(item):
    return {"yes": "no", "no": "yes", "caption": "a zebra"}.get(item.truth, "a zebra")


def drawn_run(folder, spoiled=0.2, alpha=1.0, dtype="float32", seed=0, name="toyworld"):
    """Writes report, protocol and packed rows of a run; returns its accuracy by MACD in percent."""
    folder.mkdir()
    benchmark = seeded(find_benchmark(name), seed)
    items = benchmark.items("test", N)
    given = {"clip": "c", "frames": [0], "times": [0.0], "source": [9, 9, "s"], "tokens": 9,
             "read": [9, 9, "r"], "prompt": "p", "by": MODEL | {"dtype": dtype}}  # fmt: skip
    answers = {}
    for item in items:
        for method in ("baseline", "macd"):
            share = 0.4 if method == "baseline" else spoiled
            text = wrong_of(item) if chance(item.id, method) < share else item.truth
            scores = {"yes": 1.0, "no": 0.5} if item.kind == "yes-no" else {}
            own = given if method == "baseline" else {}
            answers[item.id, method] = Row("", item.id, method, text, given=own, scores=scores,
                                           first=text.split()[0])  # fmt: skip
    report = {"benchmark": name, "methods": ["baseline", "yes-bias", "macd"],
              "contrasts": {"macd": [alpha, 0.1]}, "constants": {"yes": -2.0}}  # fmt: skip
    setting = Setting(name, RunOptions(), seed=seed)
    made = record.make_protocol(benchmark, setting, items, answers, report)
    folder.joinpath("report.json").write_text(json.dumps(report | {"setting": setting.as_dict()}))
    folder.joinpath(NAME_OF_FILE).write_text(json.dumps(made))
    of_choosing = Row("", "choose/consistent/0/0", "baseline", "no, none", first="no")
    pack(folder / PACKED, [*answers.values(), of_choosing])
    hits = [right(i, answers[i.id, "macd"].text, benchmark) for i in items]
    return 100 * sum(hits) / len(hits)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("drawn")
    made = {
        "plain": drawn_run(root / "plain"),
        "alpha": drawn_run(root / "alpha", 0.35, alpha=3.0),
        "dtype": drawn_run(root / "dtype", 0.3, dtype="bfloat16"),
        "seed": drawn_run(root / "seed", seed=3),
        "crossed": drawn_run(root / "crossed", name="toyworld-crossed"),
    }
    return root, made


@pytest.mark.parametrize(("name", "cause"), [("alpha", "α and β"), ("dtype", "dtype")])
def test_the_cause_is_named_with_the_difference_of_the_runs(runs, name, cause):
    root, made = runs
    found = split(*read_pair(Asked(str(root / "plain")), Asked(str(root / name))))
    moved = made[name] - made["plain"]
    assert found.named == (cause,)
    assert (found.first, found.second) == pytest.approx((made["plain"], made[name]))
    assert moved != 0
    assert found.shares[0].alone[0] == found.shares[0].in_order[0] == pytest.approx(moved)


def test_one_regime_alone_can_be_compared(runs, capsys):
    root, _ = runs
    a, b = (str(root / n) for n in ("plain", "alpha"))
    assert main(["diff", a, b, "--split", "motion"]) == 0
    out = capsys.readouterr().out
    assert "plain:macd, motion" in out
    assert "Regimes of drawn clips are taken together" not in out
    assert main(["diff", a, b]) == 0
    assert capsys.readouterr().out.count("Regimes of drawn clips are taken together") == 1
    parts = read_pair(Asked(a), Asked(b), split="motion")
    assert {i.regime for f in parts for i in f.items.values()} == {"motion"}


def test_the_tuned_constant_is_told_from_the_baselines_rows(runs):
    root, _ = runs
    (figure, _) = read_pair(Asked(f"{root / 'plain'}:yes-bias"), Asked(str(root / "plain")))
    yes_no = {n: t for n, t in figure.texts.items() if figure.items[n].kind == "yes-no"}
    plain, _ = read_pair(Asked(f"{root / 'plain'}:baseline"), Asked(str(root / "plain")))
    turned = {n for n in yes_no if plain.texts[n] == "yes"}
    assert turned
    assert {yes_no[n] for n in turned} == {"no, none"}, "2 are taken from yes, which led by a half"
    assert {yes_no[n] for n in set(yes_no) - turned} == {"no"}
    others = {figure.texts[n] for n, i in figure.items.items() if i.kind == "caption"}
    assert others == {None}, "a caption takes no constant"


@pytest.mark.parametrize("name", ["toyworld", "toyworld-balanced", "toyworld-crossed"])
def test_answers_are_judged_as_in_the_report(name):
    """Captions too, of which the protocol knows the true one and not the clip."""
    benchmark = find_benchmark(name)
    items = benchmark.items("test", 12)
    judge = rule_parser(name, items[0], None).judge
    texts = dict.fromkeys([*(i.truth for i in items), "", "Yes.", "no, a dog", "a zebra", "a cat"])
    verdicts = {(judge(t, i)[0], right(i, t, benchmark)) for i in items for t in texts}
    assert verdicts == {(True, True), (False, False)}


@pytest.mark.parametrize(("second", "more", "named"), [
    ("seed", [], "were asked about other clips: their --seed is 0 and 3"),
    ("crossed", [], "answers toyworld, crossed:macd toyworld-crossed"),
    ("alpha", ["--rule", "official"], "toyworld has no rule 'official'"),
    ("alpha", ["--split", "sums"], "no questions of a split 'sums'. Choose consistent"),
])  # fmt: skip
def test_drawn_runs_that_cannot_be_compared_are_told(runs, second, more, named, capsys):
    root, _ = runs
    assert main(["diff", str(root / "plain"), str(root / second), *more]) == 2
    assert named in capsys.readouterr().err


def test_predictions_are_held_against_a_drawn_run(runs, tmp_path):
    root, made = runs
    figure, _ = read_pair(Asked(str(root / "alpha")), Asked(str(root / "alpha")))
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(dict(figure.texts)))
    found = split(*read_pair(Asked(str(root / "plain")), Asked(str(file))))
    assert found.second == pytest.approx(made["alpha"])
    assert found.named == ("cannot be told",)


@pytest.mark.long
def test_a_drawn_run_is_answered_again_with_the_others_contrast(tmp_path):
    for name, alpha in (("a", "1"), ("b", "6")):
        words = ["run", "toyworld", "--n", "1", "--split", "1", "--methods", "macd"]
        assert main([*words, "--alpha", alpha, "--beta", "0.1", "--out", str(tmp_path / name)]) == 0
    a, b = (tmp_path / n for n in ("a", "b"))
    report = json.loads((a / "report.json").read_text())
    assert read_setting(report["setting"]).benchmark == "toyworld"
    out = tmp_path / "diff"
    assert main(["diff", str(a), str(b), "--rerun", "6", "--out", str(out)]) == 0
    rerun = json.loads((out / "diff.json").read_text())["rerun"]
    assert (rerun["order"], rerun["n"], rerun["repeated"]) == (["α and β"], 6, 6)
    assert rerun["rest"][0] == 0
