"""Two files of answers are compared where equal ids mean equal questions, and nowhere else."""

import csv
import json

import pytest

from macd_studio.evals.__main__ import main

ASKED = [f"Is there a dog {i} in the image?" for i in range(20)]


@pytest.fixture
def answers(tmp_path):
    """Writes a file of answers to questions, as other programs number them: from 1."""

    def write(name, questions, clip=None):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(
                ["index", "question", "answer", "prediction", *(["video"] if clip else [])]
            )
            for i, question in enumerate(questions):
                said = [i + 1, question, "yes" if i % 2 else "no", "yes" if i % 3 else "no"]
                rows.writerow([*said, *([clip.format(i // 4)] if clip else [])])
        return tmp_path / name

    return write


@pytest.fixture
def audited(capsys):
    def run(*files):
        code = main(["audit", *map(str, files), "--json"])
        out, err = capsys.readouterr()
        if code:
            return None, err
        (part,) = json.loads(out)["parts"]
        return part, " ".join(json.loads(out)["notes"] + part["notes"])

    return run


@pytest.mark.parametrize(
    ("questions", "clip"),
    [(["Is there a cat in the image?"] * 20, "v_{}.mp4"), (ASKED[:9] + ["Another?"] * 11, None)],
)
def test_other_questions_of_the_same_ids_are_refused(answers, audited, questions, clip):
    part, told = audited(answers("a.csv", ASKED, "v_{}.mp4"), answers("b.csv", questions, clip))
    assert part is None
    assert "a.csv and b.csv ask different questions under the same ids" in told
    assert "Compare answers to the same questions" in told


def test_a_prompt_that_holds_the_question_asks_the_same(answers, audited):
    prompts = [f"<video>\n{q} Please answer yes or no." for q in ASKED]
    part, told = audited(
        answers("a.csv", ASKED, "v_{}.mp4"), answers("b.csv", prompts, "videos/V_{}.webm")
    )
    assert (part["n"], part["clips"], told) == (20, 5, "")


@pytest.mark.parametrize("case", ["text", "clip"])
def test_some_other_questions_are_left_out_and_told(answers, audited, case):
    other = answers("b.csv", [*ASKED[:16], *["Is it raining?"] * 4], "v_{}.mp4")
    if case == "clip":
        rows = answers("b.csv", ASKED, "v_{}.mp4").read_text(encoding="utf-8")
        other.write_text(rows.replace("v_4", "w_4"), encoding="utf-8")
    for files in ((answers("a.csv", ASKED, "v_{}.mp4"), other), (other, other.with_name("a.csv"))):
        part, told = audited(*files)
        assert (part["n"], part["clips"]) == (16, 4)
        assert "4 questions in common are left out: under one id, such as '17'" in told


def test_clips_of_other_names_are_told(answers, audited):
    part, told = audited(
        answers("a.csv", ASKED, "v_{}.mp4"), answers("b.csv", ASKED, "COCO_{}.jpg")
    )
    assert part["n"] == 20
    assert "such as 'v_0' and 'coco_0' of question '1'" in told


def test_clips_come_from_either_file(answers, audited):
    """Without any, each question stands for itself, which is told."""
    named, plain = answers("a.csv", ASKED, "v_{}.mp4"), answers("b.csv", ASKED)
    assert [audited(*z)[0]["clips"] for z in ((named, plain), (plain, named))] == [5, 5]
    assert audited(named, plain)[1] == ""
    part, told = audited(plain, answers("c.csv", ASKED))
    assert part["clips"] == 20
    assert "No file says which questions share a clip" in told


def test_records_are_compared_with_a_run_likewise(answers, audited, tmp_path, monkeypatch):
    """The questions of a run count, and a file's own words for them are read too."""
    from macd_studio.evals.protocol import inputs

    run = inputs._answered(inputs.Asked(str(answers("run.csv", ASKED, "v_{}.mp4"))), False)
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(inputs, "_folder", lambda asked: run)
    part, _ = audited(answers("a.csv", ASKED), tmp_path / "run")
    assert (part["n"], part["clips"]) == (20, 5)
    part, told = audited(answers("a.csv", ["Is it a cat?"] * 20), tmp_path / "run")
    assert part is None
    assert "different questions under the same ids" in told
