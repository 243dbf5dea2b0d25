"""Benchmarks of pairs as published: what is read, asked and counted, and what is refused."""

import json

import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import open_files
from macd_studio.evals.scoring.score import score
from tests.evals.layouts import MAKERS, PAIRS


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Name → a folder with the layout's files, of empty videos."""
    return {name: MAKERS[name](tmp_path_factory.mktemp(name)) for name in PAIRS}


def truths(benchmark):
    """An answer to each question that every rule calls right.

    VidHalluc's own rule reads no letters in "AC", though its prompt asks for that.
    """
    several = {i.id for i in benchmark.everything if i.kind == "choices"}
    return {i.id: ", ".join(i.truth) if i.id in several else i.truth for i in benchmark.everything}


def test_vidhalluc_s_rule_reads_no_letters_that_stand_together(exported):
    benchmark = open_files("vidhalluc", exported["vidhalluc"])
    (item, *_) = (i for i in benchmark.everything if len(i.truth) > 1 and i.kind == "choices")
    whole = score(benchmark, {item.id: item.truth})
    assert {n: f["right"] for n, f in whole["rules"].items() if n in ("official", "letters")} == {
        "official": 0, "letters": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_right_answers_are_right_by_every_figure(exported, name):
    benchmark = open_files(name, exported[name])
    whole = score(benchmark, truths(benchmark))
    assert whole["accuracy"] == whole["groups"]["accuracy"] == 100
    assert [o["accuracy"] for o in whole["official"]] == [100] * len(whole["official"])
    assert all(f["accuracy"] == 100 for f in whole["rules"].values())
    assert benchmark.files
    assert all(len(digest) == 64 for _, digest, _ in benchmark.files)


def official(benchmark, said):
    return {o["name"]: (o["accuracy"], o["n"]) for o in score(benchmark, said)["official"]}


def test_a_pair_of_videohallucer_is_right_where_both_answers_are(exported):
    benchmark = open_files("videohallucer", exported["videohallucer"])
    item = benchmark.everything[0]
    assert (item.question, item.after) == (
        item.question, "\nAnswer the question using 'yes' or 'no'."
    )  # fmt: skip
    said = truths(benchmark) | {"object_relation/0/basic": "no", "object_relation/1/basic": "no",
                                "object_relation/1/hallucination": "yes"}  # fmt: skip
    found = official(benchmark, said)
    assert found["object_relation, basic"] == (50, 4)
    assert found["object_relation, hallucination"] == (75, 4)
    assert found["object_relation, pairs"] == (50, 4)
    assert "overall, mean of five tasks' pairs" not in found
    two = [i for i in benchmark.everything if i.regime == "semantic_detail"]
    assert two[0].question == two[1].question
    assert two[0].clip != two[1].clip


def test_a_binary_question_of_vidhalluc_is_right_where_every_clip_is(exported):
    benchmark = open_files("vidhalluc", exported["vidhalluc"])
    said = truths(benchmark)
    wrong = next(i for i in benchmark.everything if i.regime == "binary")
    found = official(benchmark, said | {wrong.id: "maybe"})
    assert found["binary, every clip right"] == (100 * 7 / 8, 8)
    several = next(i for i in benchmark.everything if i.regime == "choice" and len(i.truth) > 1)
    found = official(benchmark, said | {several.id: several.truth[0]})
    assert found["choices, the same letters"] == (100 * 7 / 8, 8)
    assert "Choices:\nA. " in several.after
    orders = {i.id: i.truth for i in benchmark.everything if i.regime == "order"}
    assert set(orders.values()) == {"AB", "BA"}
    turned = {k: "Action A before action B" for k in orders}
    assert official(benchmark, said | turned)["order of actions"] == (50, 4)


def test_answers_without_yes_or_no_leave_pairs_of_vidpair_halluc_smaller(exported):
    benchmark = open_files("vidpair-halluc", exported["vidpair-halluc"])
    assert benchmark.partners.keys() == {
        f"{z}_{i:04d}" for i, z in enumerate(("object", "action") * 2)
    }
    said = truths(benchmark)
    found = official(benchmark, said | {"object_0000-b00": "perhaps", "object_0000-b10": "yes"})
    # of the first question one clip is left, which is wrong; of the first clip one question is left
    assert found["binary, same question, both clips"] == (100 * 7 / 8, 8)
    assert found["binary, same clip, both questions"][1] == 7
    assert found["binary, both, weighted"][1] == 15
    labels = {v for i in benchmark.everything for d, v in i.labels if d == "aspect"}
    assert labels == {"object", "action"}


def test_a_pair_of_vidpair_halluc_with_one_answer_is_left_out_whole(exported):
    """Of its four questions; the authors' program skips an entry with fewer than two answers."""
    benchmark = open_files("vidpair-halluc", exported["vidpair-halluc"])
    own = [i.id for i in benchmark.everything if i.regime == "binary" and "object_0000" in i.id]
    assert len(own) == 4
    said = truths(benchmark) | dict.fromkeys(own, "perhaps")
    for n_read, n in ((1, (6, 6)), (2, (8, 7))):
        answered = {own[k]: truths(benchmark)[own[k]] for k in range(n_read)}
        found = official(benchmark, said | answered)
        names = ("binary, same question, both clips", "binary, same clip, both questions")
        assert tuple(found[name][1] for name in names) == n


def test_what_a_judge_has_to_score_is_left_out_and_named(exported, tmp_path, capsys):
    for name, file in (("vidhalluc", "sth.json"), ("vidpair-halluc", "qa/hf/open_ended.jsonl")):
        path = exported[name] / file
        path.write_text("{}")
        try:
            benchmark = open_files(name, exported[name])
            assert any(file in note and "left out" in note for note in benchmark.check_sizes())
        finally:
            path.unlink()


def test_predictions_are_scored_by_the_command(exported, tmp_path, capsys):
    benchmark = open_files("videohallucer", exported["videohallucer"])
    path = tmp_path / "p.json"
    path.write_text(json.dumps(truths(benchmark) | {"not/there": "yes"}))
    assert main(["score", "videohallucer", "--data", str(exported["videohallucer"]),
                 "--predictions", str(path)]) == 0  # fmt: skip
    out = capsys.readouterr().out
    assert "| object_relation, pairs | 100.00 | 4 |" in out
    assert "1 of 17 predictions answer questions that the benchmark does not have" in out
    assert "official-stop" in out


def changed(folder, name, edit, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    value = json.loads((folder / name).read_text())
    edit(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(("name", "file", "edit", "named"), [
    ("videohallucer", "object_relation/object_relation.json",
     lambda v: v[0].pop("basic"), "instead of an object"),
    ("videohallucer", "object_relation/object_relation.json",
     lambda v: v[0]["basic"].update(answer="maybe"), "instead of yes or no"),
    ("vidhalluc", "ach_binaryqa.json", lambda v: v.update({"0": {}}), "holds no list"),
    ("vidhalluc", "ach_mcq.json",
     lambda v: v["0"]["pair0_clip_1"].update({"Correct Answer": "E"}), "names no choice"),
    ("vidhalluc", "ach_mcq.json",
     lambda v: v["0"]["pair0_clip_1"].update(Choices={"1": "a", "2": "b"}), "are not lettered"),
    ("vidhalluc", "tsh.json", lambda v: v["0"].pop("video"), "'video' is missing"),
])  # fmt: skip
def test_damaged_annotations_are_refused_with_their_place(
    exported, tmp_path, name, file, edit, named
):
    changed(exported[name], file, edit, tmp_path)
    with pytest.raises(BenchmarkError, match=named):
        open_files(name, tmp_path, videos=False)


@pytest.mark.parametrize(("record", "named"), [
    ({}, "'repo_video_path' or 'video_path' is missing"),
    ({"answer": "perhaps"}, "instead of yes or no"), ({"choices_json": "["}, "not valid JSON"),
    ({"choices_json": "[1, 2]"}, "not text"), ({"choices_json": "{}"}, "no list of choices"),
    ({"choices_json": '{"X": "a", "Y": "b"}'}, "not lettered"),
    ({"choices_json": '["a", "b"]', "answer": "Q"}, "none of the choices"),
])  # fmt: skip
def test_damaged_rows_of_vidpair_halluc_are_refused(tmp_path, record, named):
    split = "multiple_choice" if "choices_json" in record else "binary"
    row = {"repo_video_path": "VidPair-Halluc/a/b.mp4", "question": "?", "answer": "a"} | record
    if not record:
        row.pop("repo_video_path")
    path = tmp_path / "qa" / "hf" / f"{split}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(BenchmarkError, match=named):
        open_files("vidpair-halluc", tmp_path, videos=False)


@pytest.mark.parametrize("name", PAIRS)
def test_an_empty_folder_is_refused_with_what_belongs_there(name, tmp_path):
    with pytest.raises(BenchmarkError, match="holds no"):
        open_files(name, tmp_path)
