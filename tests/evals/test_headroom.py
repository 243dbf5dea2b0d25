"""What separates a regime that can judge a choice of objects from one that cannot."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.options import RunOptions
from macd_studio.core.text.question import word_tokens
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import RANDOM_PLACES, find_view
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import PendingAnswer, answer_clip, item_seed
from macd_studio.evals.statistics.constant import accurate_constants, likely_constants
from macd_studio.evals.studies import first_token
from macd_studio.evals.studies.first_token import (
    ORACLE,
    REMOVED,
    OptionLogits,
    contrasted,
    oracle_view,
    read_options,
    stack,
)
from macd_studio.evals.studies.headroom import (
    CEILING,
    CONSTANTS,
    Answers,
    adjust,
    compare,
    main,
    tune_constants,
)

ROOT = Path(__file__).parents[2]
WORDS = ("dog", "cat", "bird", "horse")
RUN = ("toyworld-balanced", "--regimes", "against motion", "--methods", "mask-all", "--n", "3",
       "--split", "3")  # fmt: skip


@pytest.fixture(scope="module")
def benchmark():
    return find_benchmark("toyworld-balanced")


@pytest.fixture(scope="module")
def item(benchmark):
    return next(benchmark._of("against motion", "test", 1))


def planted(n, seed, gains):
    """Items whose habit misleads two thirds of the time; each view takes away a share of it.

    gains: view → share of the habit that its logits hold, which contrast then removes.
    """
    rng = np.random.default_rng(seed)
    items, rows = [], []
    for i in range(n):
        truth, habit = WORDS[i % 4], rng.normal(0, 2, 4)
        evidence = rng.normal(0, 0.3, 4)
        evidence[i % 4] += 1.5
        views = {"baseline": habit + evidence} | {v: g * habit for v, g in gains.items()}
        items.append(Item(f"{seed}/{i}", f"{seed}/{i}", "r", "", "choice", "?", truth,
                          options=WORDS))  # fmt: skip
        rows.append(OptionLogits(items[-1].id, {v: z.tolist() for v, z in views.items()}))
    return Answers.of(items, rows)


def figures(**gains):
    return compare(planted(200, 1, gains), planted(400, 2, gains), list(gains))


def test_gains_are_told_of_the_oracle_and_of_constants():
    methods = figures(**{"mask-all": 0.4, ORACLE: 1.0})["methods"]
    assert methods[ORACLE]["delta"][0] > 0.2
    assert methods["constant"]["delta"][0] < 0.01
    assert max(methods[z]["right"][0] for z in CONSTANTS) == methods[CEILING]["right"][0]


def test_holm_counts_what_could_differ_and_nothing_that_knows_the_truth():
    part = figures(**{"macd": 1.0, "mask-all": 0.0, ORACLE: 1.0})
    methods = part["methods"]
    assert adjust({"r": part}) == {"gains": 1, "choices": 1}  # hiding nothing changes nothing
    assert "p" not in methods["mask-all"]
    assert methods["macd"]["holm"] == methods["macd"]["p"] < 0.001
    assert methods["macd"]["over"]["mask-all"]["holm"] < 0.001
    assert "holm" not in methods[ORACLE]
    twice = {"a": part, "b": figures(**{"macd": 0.3, "mask-all": 0.0})}
    assert adjust(twice)["gains"] == 2
    assert methods["macd"]["holm"] == pytest.approx(2 * methods["macd"]["p"])


@pytest.mark.parametrize("how", [likely_constants, accurate_constants])
def test_constants_find_a_lean_and_only_a_lean(how):
    answers = planted(400, 3, {})
    for row in answers.rows:
        row.views["baseline"][0] += 6.0  # everything looks like a dog
    leaning = Answers.of(answers.items, answers.rows)
    constants = tune_constants(leaning, how)
    assert constants["dog"] <= min(constants.values())
    gained = leaning.hits_with(constants).mean() - leaning.hits_with({}).mean()
    assert gained > 0.1


@pytest.mark.parametrize("how", [likely_constants, accurate_constants])
def test_constants_belong_to_places_where_words_keep_changing(how):
    items = [Item(f"{i}", f"{i}", "r", "", "choice", "?", f"a{i}", options=(f"a{i}", f"b{i}"))
             for i in range(20)]  # fmt: skip
    rows = [OptionLogits(i.id, {"baseline": [0.0, 1.0]}) for i in items]
    answers = Answers.of(items, rows)
    assert answers.names == ["0", "1"]
    assert answers.hits_with(tune_constants(answers, how)).all()


def test_contrasted_answers():
    base, counter = np.array([[2.0, 1.5, -9.0]]), np.array([[2.0, 0.5, -90.0]])
    assert contrasted(base, counter, 0.0, 0.1) == [0]
    assert contrasted(base, counter, 1.0, 0.1) == [1]  # the third is cut
    assert contrasted(base, counter, 1.0, 0.0) == [2]
    assert contrasted(base, counter, 1.0, 1.0) == [0]
    rows = [OptionLogits("a", {"baseline": [1.0, 2.0]}),
            OptionLogits("b", {"baseline": [1.0, 2.0, 3.0]})]  # fmt: skip
    table = stack(rows, "baseline")
    assert table.tolist() == [[1, 2, -np.inf], [1, 2, 3]]
    assert contrasted(table, np.zeros((2, 3)), 1.0, 0.0).tolist() == [1, 2]


def test_the_oracle_hides_the_asked_object_alone(benchmark, toyworld, item):
    clip, tracks = benchmark.clip(item.clip), benchmark.true_tracks(item.clip)
    context = MethodContext(toyworld, toyworld.encode(clip, item.question), tracks, RunOptions())
    view = oracle_view(context, item.about)
    assert view.record.level == (1.0,)
    assert view.record.frame_level == ()
    away = np.ones(view.video.shape[2:], bool)
    asked = next(t for t in tracks if t.label == item.about)
    for shown, plain, box in zip(view.video, context.encoded.video, asked.boxes, strict=True):
        x0, y0, x1, y1 = (box * 96).round().astype(int)
        inside = np.s_[:, y0:y1, x0:x1]
        assert shown[inside].abs().mean() < 0.2 * plain[inside].abs().mean()  # the fill is 0
        away[:] = True
        away[max(0, y0 - 9) : y1 + 9, max(0, x0 - 9) : x1 + 9] = False
        assert (shown - plain).abs()[:, away].max() < 0.02
    nothing = oracle_view(context, "")
    assert nothing.state is context.base


def test_option_logits_are_those_of_the_views(benchmark, toyworld, item):
    clip, tracks = benchmark.clip(item.clip), benchmark.true_tracks(item.clip)
    without = benchmark.without(item.clip, item.about)
    methods = ["mask-all", "random-average-2", ORACLE, REMOVED]
    row = read_options(toyworld, clip, tracks, item, methods, RunOptions(), without)
    found = row.views
    assert row.item == item.id
    assert row.reads == {"baseline": 1, "mask-all": 2, "random-average-2": 5, ORACLE: 2, REMOVED: 2}
    context = MethodContext(toyworld, toyworld.encode(clip, item.question), tracks, RunOptions())
    ids = [word_tokens(toyworld.tokens, o)[0] for o in item.options]
    plain = toyworld.prefill(context.encoded, context.encoded.video).logits[0, ids]
    np.testing.assert_allclose(found["baseline"], plain.tolist(), atol=1e-3)
    hidden = oracle_view(context, item.about).state.logits[0, ids]
    np.testing.assert_allclose(found[ORACLE], hidden.tolist(), atol=1e-3)
    assert found["mask-all"] != found[ORACLE]
    redrawn = toyworld.encode(without, item.question)
    removed = toyworld.prefill(redrawn, redrawn.video).logits[0, ids]
    np.testing.assert_allclose(found[REMOVED], removed.tolist(), atol=1e-3)
    options = replace(RunOptions(), seed=item_seed(item.id))
    context = MethodContext(toyworld, context.encoded, tracks, options)
    views = [find_view(name)(context).state.logits[0, ids] for name in RANDOM_PLACES[:2]]
    np.testing.assert_allclose(found["random-average-2"], (sum(views) / 2).tolist(), atol=1e-3)


def test_the_clip_without_the_asked_object_differs_there_alone(benchmark, item):
    clip, without = benchmark.clip(item.clip), benchmark.without(item.clip, item.about)
    asked = next(t for t in benchmark.true_tracks(item.clip) if t.label == item.about)
    changed = (clip.frames != without.frames).any(3)
    assert changed.any()
    for where, box in zip(changed, asked.boxes, strict=True):
        x0, y0, x1, y1 = (box * where.shape[0]).round().astype(int)
        where[max(0, y0 - 2) : y1 + 2, max(0, x0 - 2) : x1 + 2] = False
    assert not changed.any()


def test_a_choice_is_answered_by_one_of_its_options(benchmark, toyworld, item):
    asked = {"plain": item, "forced": Item(**vars(item) | {"options": ("bus", "boat")})}
    for name, one in asked.items():
        want = PendingAnswer(one, "mask-all", (1.0, 0.1), name)
        clip, tracks = benchmark.clip(one.clip), benchmark.true_tracks(one.clip)
        (row,) = answer_clip([want], toyworld, clip, tracks, RunOptions())
        assert row.text in one.options


def test_the_tool_resumes_and_reports(tmp_path, capsys, monkeypatch):
    out = ("--out", str(tmp_path))
    assert main([*RUN, *out]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    part = report["regimes"]["against motion"]
    assert part["n"] == 3
    assert part["balance"] == "balanced"
    assert set(part["methods"]) == {"baseline", *CONSTANTS, "mask-all", ORACLE, REMOVED}
    assert "against motion (balanced)" in capsys.readouterr().out
    assert "Oracle" in (tmp_path / "gains.svg").read_text()
    size = (tmp_path / "logits.jsonl").stat().st_size
    with (tmp_path / "logits.jsonl").open("a") as file:
        file.write('{"torn')
    stored = report | {"regimes": {"elsewhere": part}}
    (tmp_path / "report.json").write_text(json.dumps(stored))
    monkeypatch.setattr(first_token, "read_options", None)  # nothing is computed again
    assert main([*RUN, *out]) == 0
    assert (tmp_path / "logits.jsonl").stat().st_size == size + len('{"torn')
    merged = json.loads((tmp_path / "report.json").read_text())
    assert list(merged["regimes"]) == ["elsewhere", "against motion"]
    assert merged["regimes"]["against motion"] == part
    stored["content"] = "other weights"
    (tmp_path / "report.json").write_text(json.dumps(stored))
    assert main([*RUN, *out]) == 0
    assert json.loads((tmp_path / "report.json").read_text()) == report


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (("--regimes", "nowhere"), "no regime 'nowhere'"),
        (("--n", "0"), "n is 0"),
        (("--fill", "pink"), "pink"),
        (("--methods", "vcdd"), "no method 'vcdd'"),
        (("--methods", "yes-bias"), "yes-bias contrasts no second view"),
    ],
)
def test_wrong_input_is_named(tmp_path, capsys, wrong, says):
    assert main(["toyworld-balanced", *wrong, "--out", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
