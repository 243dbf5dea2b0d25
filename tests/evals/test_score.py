"""Scores of predictions made elsewhere, the published ones of EventHallusion among them."""

import json
from types import SimpleNamespace

import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import open_files
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.paper.ours import Ours, p_of
from macd_studio.evals.running.rows import Row
from macd_studio.evals.scoring.predictions import read_predictions
from macd_studio.evals.scoring.report import compare
from macd_studio.evals.scoring.score import figures as figures_of
from tests.evals.layouts import MAKERS, write


def run(capsys, name, data, predictions, *more):
    code = main(["score", name, "--data", str(data), "--predictions", str(predictions), *more])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.real
@pytest.mark.parametrize(
    ("model", "accuracy", "splits"),
    [
        ("gemini", 80.20, (70.18, 96.08, 77.72)),
        ("gpt4o", 84.11, (65.79, 92.16, 90.67)),
        ("video_llava", 50.61, (30.70, 41.18, 67.36)),
    ],
)
def test_published_predictions_get_their_published_accuracy(model, accuracy, splits, real, capsys):
    folder = real / "benchmarks" / "eventhallusion"
    predictions = folder / f"{model}_predictions.json"
    code, out, _ = run(capsys, "eventhallusion", folder, predictions, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["n"] == 409
    assert round(found["accuracy"], 2) == accuracy
    assert tuple(round(f["accuracy"], 2) for f in found["splits"].values()) == splits


@pytest.fixture
def published(tmp_path):
    """Predictions in EventHallusion's layout: one right, one unmatched, one null a split."""
    root = MAKERS["eventhallusion"](tmp_path / "data")
    texts = {"entire": ["No.", " no", "nope", None], "misleading": ["Yes.", "NO"],
             "interleave": ["yes, it is", "It is not."]}  # fmt: skip
    value = {}
    for split, said in texts.items():
        entries = json.loads((root / f"questions/{split}_questions.json").read_text())
        answers = iter(said)
        value[split] = {
            e["id"]: e | {"qa": [q | {"prediction": next(answers)} for q in e["questions"]]}
            for e in entries
        }
    return root, write(tmp_path / "predictions.json", value)


def test_a_score_is_over_all_questions_with_its_bias(published, capsys):
    code, out, _ = run(capsys, "eventhallusion", *published, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["accuracy"] == 50.0  # No., nope, NO, yes: 4 of 8
    assert {s: f["accuracy"] for s, f in found["splits"].items()} == {
        "entire": 50.0, "misleading": 50.0, "interleave": 50.0,
    }  # fmt: skip
    assert found["splits"]["entire"]["bias"]["unmatched"] == 2
    assert found["splits"]["entire"]["bias"]["constants"] == {"yes": 0.0, "no": 100.0}
    for figures in found["splits"].values():
        assert figures["bias"]["f1"] is figures["bias"]["d_prime"] is None
    assert found["bias"]["f1"] is not None
    assert {r: f["right"] for r, f in found["rules"].items()} == {
        "official": 4, "strict": 4,
    }  # fmt: skip
    assert any("shift towards yes raises interleave and lowers entire and misleading" in n
               for n in found["notes"])  # fmt: skip


def test_the_rules_difference_lists_each_question_that_flips(published, capsys):
    _, out, _ = run(capsys, "eventhallusion", *published, "--json")
    flips = {f["prediction"]: f["right"] for f in json.loads(out)["flips"]}
    assert flips == {
        " no": {"official": False, "strict": True},
        "nope": {"official": True, "strict": False},
    }
    _, text, _ = run(capsys, "eventhallusion", *published)
    assert "2 questions are judged differently" in text


def test_another_rule_can_decide(published, capsys):
    write(published[1], {"entire_001/0": " no", "entire_001/1": "nope"})
    for rule, right in ((None, "nope"), ("strict", " no")):
        more = ("--rule", rule) if rule else ()
        _, out, _ = run(capsys, "eventhallusion", *published, "--json", *more)
        found = json.loads(out)
        assert found["accuracy"] == 12.5
        assert [f["right"][rule or "official"] for f in found["flips"]] == [
            f["prediction"] == right for f in found["flips"]
        ]
    code, _, err = run(capsys, "eventhallusion", *published, "--rule", "mine")
    assert code == 2
    assert err.startswith("error: eventhallusion has no rule 'mine'")


def test_empty_answers_stay_in_the_denominator(tmp_path, capsys):
    root = MAKERS["mvbench"](tmp_path)
    path = write(tmp_path / "p.json", {"moving_direction/0": "", "action_sequence/0": "(A) run"})
    _, out, _ = run(capsys, "mvbench", root, path, "--json", "--rule", "strict")
    found = json.loads(out)
    assert (found["n"], found["accuracy"]) == (2, 50.0)
    rules = {r: (f["right"], f["n"], f["left_out"]) for r, f in found["rules"].items()}
    assert rules == {"letter": (1, 2, 0), "official": (2, 2, 0), "lmms-eval": (1, 1, 1),
                     "vlmevalkit": (2, 2, 0)}  # fmt: skip


def test_answers_that_are_right_by_luck_are_told(tmp_path, capsys):
    root = MAKERS["mvbench"](tmp_path)
    path = write(tmp_path / "p.json", {"moving_direction/0": "(b)", "action_sequence/0": ""})
    _, out, _ = run(capsys, "mvbench", root, path)
    assert "mvbench: 100.00 % of 2 questions" in out
    assert "1 of 2 answers are right by the rule official though it reads no option" in out
    assert "| lmms-eval 0.7.3 | 100.00 | 1 | 1 |" in out


def test_thoughts_are_told_and_not_scored(tmp_path, capsys):
    root = MAKERS["video-mme"](tmp_path)
    path = write(tmp_path / "p.json", {"001-1": "<think>A? No.</think>B", "001-2": "<think>C is"})
    _, out, _ = run(capsys, "video-mme", root, path)
    assert "video-mme: 50.00 % of 2 questions" in out
    assert "1 of 2 answers hold a model's thinking and nothing else" in out


def test_a_question_without_an_answer_is_wrong_and_told(tmp_path, capsys):
    root = MAKERS["questions"](tmp_path)
    path = write(tmp_path / "p.csv", "id,prediction\nq1,Yes\n")
    _, out, _ = run(capsys, "questions", root, path, "--json")
    found = json.loads(out)
    assert round(found["accuracy"], 2) == 33.33
    assert "2 of 3 questions have no answer" in found["notes"][-1]


def test_predictions_are_read_in_every_layout(tmp_path):
    root = MAKERS["video-mme"](tmp_path)
    items = open_files("video-mme", root).everything
    wanted = {"001-1": "B", "001-2": None}
    questions = [{"question_id": k, "response": v} for k, v in wanted.items()]
    values = {
        "map.json": wanted,
        "list.json": [{"id": k, "prediction": v} for k, v in wanted.items()],
        "nested.json": [{"video_id": "001", "questions": questions}],
        "null.json": [{"id": k, "prediction": None, "response": v} for k, v in wanted.items()],
        "case.json": [{"ID": k, "Prediction": v} for k, v in wanted.items()],
        "lines.jsonl": '{"id": "001-1", "text": "B"}\n\n{"id": "001-2", "text": null}\n',
    }
    for name, value in values.items():
        assert read_predictions(write(tmp_path / name, value), items).texts == wanted, name


def test_predictions_for_other_questions_under_the_same_ids_are_not_scored(tmp_path):
    items = open_files("eventhallusion", MAKERS["eventhallusion"](tmp_path)).everything
    assert len(items) > 2

    def read(*questions):
        pairs = zip(items, (*questions, *[""] * len(items)), strict=False)
        rows = [{"id": i.id, "Question": q, "prediction": "A"} for i, q in pairs]
        return read_predictions(write(tmp_path / "list.json", rows), items)

    first, second, third = (f"Answer. {i.question.upper()}  (A) x" for i in items[:3])
    assert not read(first, second, third).other  # as a prompt holds it
    found = read("Who sings?", second, third)
    assert found.other == (items[0].id,)
    assert items[0].id not in found.texts
    assert items[0].id in found.missing
    assert found.note == (
        f"1 of {len(items)} predictions name another question under the same id, such as"
        f" '{items[0].id}'; they are left out"
    )
    with pytest.raises(BenchmarkError, match="'Who sings\\?' instead of"):
        read("Who sings?", "Who dances?", third)


def sample(number, answer, asked, **metrics):
    """A line as lmms-eval 0.7.3 writes it."""
    return {"doc_id": number, "target": "x", "filtered_resps": answer, "token_counts": [None],
            "doc_hash": "0", "input": f"Question: {asked}", **metrics}  # fmt: skip


def lines_of(path, samples):
    return write(path, "\n".join(map(json.dumps, samples)) + "\n")


def test_samples_of_lmms_eval_are_read(tmp_path):
    items = open_files("video-mme", MAKERS["video-mme"](tmp_path / "mme")).everything
    metrics = [{"videomme_perception_score": {"question_id": k}} for k in ("001-2", "001-1")]
    rows = [sample(i, z, "?", **m) for i, (z, m) in enumerate(zip("CB", metrics, strict=True))]
    rows[0]["filtered_resps"] = ["C"]
    path = lines_of(tmp_path / "a.jsonl", rows)
    assert read_predictions(path, items).texts == {"001-2": "C", "001-1": "B"}

    items = open_files("perception-test", MAKERS["perception-test"](tmp_path / "pt")).everything
    asked = [i for i in items if i.clip.startswith("videos/video_2")]
    figures = {"accuracy": {"video_name": "video_2", "question": asked[0].question}}
    path = lines_of(tmp_path / "b.jsonl", [sample(7, "B", "?", **figures)])
    assert read_predictions(path, items).texts == {asked[0].id: "B"}

    items = open_files("mvbench", MAKERS["mvbench"](tmp_path / "mv")).everything
    for item in items:  # a file a task, numbered anew in each
        path = lines_of(tmp_path / "c.jsonl", [sample(0, "A", item.question, score={"score": 1})])
        assert read_predictions(path, items).texts == {item.id: "A"}
    both = " ".join(i.question for i in items)
    path = lines_of(tmp_path / "d.jsonl", [sample(0, "A", both)])
    with pytest.raises(BenchmarkError, match="fit several splits"):
        read_predictions(path, items)


def test_samples_in_another_order_are_refused(tmp_path):
    root = MAKERS["eventhallusion"](tmp_path)
    items = open_files("eventhallusion", root).everything
    rows = [sample(i, "No.", z.question) for i, z in enumerate(items)]
    texts = read_predictions(lines_of(tmp_path / "a.jsonl", rows), items).texts
    assert texts == {i.id: "No." for i in items}
    part = read_predictions(lines_of(tmp_path / "a.jsonl", rows[3:5]), items)
    assert set(part.texts) == {i.id for i in items[3:5]}
    assert len(part.missing) == len(items) - 2
    for wrong in (rows[1:2] + rows[:1], rows[:-1]):
        changed = [r | {"doc_id": i + (len(wrong) == len(rows) - 1)} for i, r in enumerate(wrong)]
        with pytest.raises(BenchmarkError, match="order is not that of the benchmark"):
            read_predictions(lines_of(tmp_path / "b.jsonl", changed), items)
    for number in (-1, 0.5, 99, None):
        with pytest.raises(BenchmarkError, match="order is not"):
            read_predictions(lines_of(tmp_path / "c.jsonl", [rows[0] | {"doc_id": number}]), items)
    path = lines_of(tmp_path / "d.jsonl", [rows[0] | {"filtered_resps": ["Yes", "No"]}])
    with pytest.raises(BenchmarkError, match="there are 2 answers to one question"):
        read_predictions(path, items)


def test_a_further_column_is_left_alone(tmp_path, capsys):
    items = open_files("video-mme", MAKERS["video-mme"](tmp_path / "mme")).everything
    path = write(tmp_path / "p.csv", "id,prediction,seconds\n001-1,B,3.5\n001-2,C,\n")
    assert read_predictions(path, items).texts == {"001-1": "B", "001-2": "C"}
    root = MAKERS["questions"](tmp_path / "own")
    lines = (root / "questions.csv").read_text().splitlines()
    extra = [f"{line},{'notes' if i == 0 else 'seen'}" for i, line in enumerate(lines)]
    write(root / "questions.csv", "\n".join(extra))
    benchmark = open_files("questions", root)
    assert len(benchmark.everything) == 3
    assert benchmark.check_sizes()[-1] == "not used: 1 column, 'notes'"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"001-9": "B"}, "answers 1 questions, none of which the benchmark has"),
        ([{"id": "001-1", "prediction": "B"}] * 2, "twice"),
        ([{"id": "001-1"}], "is missing"),
        ({"001-1": 3}, "is 3 instead of text"),
        ("[{", "not valid JSON"),
        ([], "holds no prediction"),
        ("3", "holds 3"),
    ],
)
def test_wrong_predictions_are_one_line(value, named, tmp_path):
    items = open_files("video-mme", MAKERS["video-mme"](tmp_path)).everything
    with pytest.raises(BenchmarkError) as caught:
        read_predictions(write(tmp_path / "p.json", value), items)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_answers_to_other_questions_are_refused(published):
    root, path = published
    path.write_text(path.read_text().replace("Is it entire 1 0?", "Is it another?"))
    with pytest.raises(BenchmarkError, match="another question"):
        read_predictions(path, open_files("eventhallusion", root).everything)


def judged(clips, texts, splits=("one",), methods=("baseline", "macd")):
    """Figures and comparison of four yes-no questions a clip whose answers are all "no"."""
    items = [Item(f"{c}/{q}", f"{c}", splits[c % len(splits)], "", "yes-no", "?", "no")
             for c in range(clips) for q in range(4)]  # fmt: skip
    benchmark = SimpleNamespace(
        name="eventhallusion", cluster=lambda item: item.clip, group=lambda item: "",
        official=lambda items, right: (),
    )  # fmt: skip
    by_split = {s: [i for i in items if i.regime == s] for s in splits}
    said = {m: {i.id: texts[m] for i in items} for m in methods}
    rows = {(i.id, m): Row("", i.id, m, said[m][i.id]) for i in items for m in methods}
    return (figures_of(benchmark, items, said["macd"]),
            compare(benchmark, by_split, said, rows, methods, None))  # fmt: skip


def test_questions_of_one_clip_are_one_draw():
    texts = {"baseline": "Yes.", "macd": "No."}
    scores, compared = judged(12, texts)
    assert scores["interval"] == pytest.approx([100 * 0.025 ** (1 / 12), 100], abs=1e-3)
    every = compared["macd"]["all"]
    assert every["change"] == 100
    assert (
        every["p"] == every["p_holm"] == pytest.approx(2 / 2**12)
    )  # the only split is no test more
    assert compared["macd"]["one"] == every
    few = judged(5, texts)[1]["macd"]["all"]  # 20 questions, and no p of 5 clips could be small
    assert few["p"] is few["p_holm"] is None


def test_each_split_of_several_is_a_test():
    texts = {"baseline": "Yes.", "macd": "No."}
    compared = judged(18, texts, ("one", "two"))[1]["macd"]
    assert compared["all"]["p_holm"] == pytest.approx(3 * 2 / 2**18)
    assert compared["one"]["p_holm"] == compared["two"]["p_holm"] == pytest.approx(2 * 2 / 2**9)
    same = judged(18, {"baseline": "Yes.", "macd": "Yes."}, ("one", "two"))[1]["macd"]
    assert same["all"]["p_holm"] is None


def test_rows_of_the_paper_s_tables_are_compared_by_clip():
    items = [
        Item(f"{c}/{q}", f"{c}", "", "", "yes-no", "?", "no") for c in range(7) for q in range(3)
    ]
    clips = tuple(i.clip for i in items)
    a = Ours({}, n=21, items=items, right=(False,) * 21, clusters=clips)
    b = Ours({}, n=21, items=items, right=(True,) * 21, clusters=clips)
    assert p_of(a, b) == pytest.approx(2 / 2**7)
    assert p_of(a, a) is None
    assert p_of(a, Ours({})) is None
