"""The exported drawn world, answered by the embedded backbone, from files to the report."""

import csv
import html
import json
import os
import re
import shlex
import shutil
import signal

import numpy as np
import pytest

from macd_studio.core.options import DecodeOptions, RunOptions, VideoOptions
from macd_studio.core.traces.bundle import load
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import FILES, SHIPPED
from macd_studio.evals.protocol.bounds import NAME_OF_FILE, read_protocol
from macd_studio.evals.running.rows import Setting, read, read_setting
from macd_studio.evals.running.run import complete, plan
from macd_studio.evals.running.tracks import Preparing, read_tracks, write_tracks
from macd_studio.evals.scoring.pages import questions_page
from macd_studio.evals.scoring.report import questions_csv
from macd_studio.toyworld.export import export

GIVEN = ("--alpha", "1", "--beta", "0.1", "--frames", "4")


def run(name, data, out, *more):
    return main(["run", name, "--data", str(data), "--out", str(out), *GIVEN, *more])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eventhallusion")
    export("eventhallusion", folder, 1)
    return folder


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """The folder of a run by two methods over three clips."""
    out = tmp_path_factory.mktemp("out")
    assert run("eventhallusion", data, out, "--methods", "macd", "--save-traces", "wrong") == 0
    return out


def test_a_report_holds_every_question_and_split(finished):
    report = json.loads((finished / "report.json").read_text())
    assert (report["n"], report["methods"]) == (3, ["baseline", "macd"])
    for scores in report["scores"].values():
        assert set(scores["splits"]) == {"entire", "misleading", "interleave"}
        assert scores["errors"] == 0
        right = sum(s["right"] for s in scores["splits"].values())
        assert scores["accuracy"] == pytest.approx(100 * right / 3, abs=1e-3)
    assert any("has one answer only" in n for n in report["notes"])
    assert set(report["compared"]) == {"macd"}
    for question in report["questions"]:
        for said in question["answers"].values():
            assert said["right"] == said["text"].lower().startswith(question["truth"])
            assert isinstance(said["margin"], float)


def test_a_run_writes_what_it_was_computed_from(finished, data, capsys):
    protocol = read_protocol(finished / NAME_OF_FILE)
    report = json.loads((finished / "report.json").read_text())
    assert [i.id for i in protocol.items] == [q["id"] for q in report["questions"]]
    assert {len(c.times) for c in protocol.clips} == {len(c.frames) for c in protocol.clips} == {4}
    assert {c.source[:2] for c in protocol.clips} == {(192, 192)}
    assert len({c.source[2] for c in protocol.clips}) == len(protocol.clips) == 3
    assert {i.cluster for i in protocol.items} == {c.key for c in protocol.clips}
    (model,) = protocol.models
    assert (model["name"], model["dtype"]) == ("everyday", "float32")
    assert all(model[role] for role in ("processor", "tokenizer", "template", "weights"))
    assert {name for name, *_ in protocol.benchmark["files"]} == {
        f"questions/{split}_questions.json" for split in ("entire", "misleading", "interleave")
    }
    assert (protocol.methods["macd"]["alpha"], protocol.methods["baseline"]["alpha"]) == (1.0, None)
    assert str(data) not in (finished / NAME_OF_FILE).read_text()
    assert main(["diff", str(finished), f"{finished}:macd"]) == 0
    assert "Difference, second less first: +0.00" in capsys.readouterr().out


def test_a_report_is_written_for_people_and_spreadsheets(finished, capsys):
    assert "| MACD | 1, 0.1 |" in (finished / "report.md").read_text()
    page = (finished / "report.html").read_text()
    assert "<script" not in page
    assert "entire" in page
    rows = list(csv.DictReader((finished / "questions.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert {r["method"] for r in rows} == {"baseline", "macd"}
    assert main(["report", str(finished)]) == 0
    assert capsys.readouterr().out == (finished / "report.md").read_text() + "\n"


def test_a_cell_leads_to_its_questions(finished):
    import polars

    page = (finished / "report.html").read_text()
    behind = (finished / "questions.html").read_text()
    report = json.loads((finished / "report.json").read_text())
    for split in ("entire", "misleading", "interleave"):
        assert f'<th><a href="questions.html#s-{split}">{split}</a></th>' in page
        assert f'<td><a href="questions.html#s-{split}-macd">{split}</a></td>' in page
        assert f'<h2 id="s-{split}">' in behind
    for question in report["questions"]:
        assert f"<td>{question['id']}</td>" in behind
    ids = set(re.findall(r'id="([^"]+)"', behind))
    targets = re.findall(r'href="questions.html#([^"]+)"', page)
    assert len(targets) > 30
    assert set(targets) <= ids
    assert set(re.findall(r'href="#([^"]+)"', behind)) <= ids
    assert "<script" not in behind
    table = polars.read_parquet(finished / "questions.parquet")
    assert table.shape == (6, 10)
    said = {(q["id"], m): a["right"] for q in report["questions"] for m, a in q["answers"].items()}
    assert {(r["id"], r["method"]): r["right"] for r in table.to_dicts()} == said


def test_foreign_text_is_shown_as_text():
    answer = {"text": "<img onerror=x>", "right": False, "margin": 0.5, "key": "k", "error": ""}
    question = {"id": "<q>'\" x", "clip": "v", "split": "a<c", "question": "<i>?", "truth": "yes",
                "options": ["<u>"], "labels": [["<d>", "<v>"]],
                "answers": {"baseline": answer}}  # fmt: skip
    report = {"benchmark": "x", "methods": ["baseline"], "questions": [question]}
    page = questions_page(report, "<f>", lambda key: [("<t>", '"><script>')])
    for tag in ("<img", "<q>", "<u>", "a<c", "<d>", "<v>", "<f>", "<t>", "<script"):
        assert tag not in page


def test_plots_stand_in_the_report_for_every_split(finished):
    page = (finished / "report.html").read_text()
    for name, label in (("accuracy", "accuracy, %"), ("reliability", "probability of the answer")):
        picture = (finished / f"{name}.svg").read_text()
        assert label in picture
        assert picture.strip() in page
        for split in ("all", "entire", "misleading", "interleave"):
            assert re.search(rf">{split}(, n = \d)?</text>", picture)


def wrong_answers(finished):
    report = json.loads((finished / "report.json").read_text())
    return [q for q in report["questions"] if not q["answers"]["macd"]["right"]]


def test_traces_of_wrong_answers_are_kept_beside_their_questions(finished):
    wrong = wrong_answers(finished)
    kept = {p.stem for p in (finished / "traces").glob("*.macd")}
    assert wrong
    assert kept == {q["answers"]["macd"]["key"] for q in wrong}
    behind = (finished / "questions.html").read_text()
    for question in wrong:
        answer = question["answers"]["macd"]
        trace = load(finished / "traces" / f"{answer['key']}.macd")
        assert trace.answers["macd"].text == answer["text"]
        assert (trace.question, trace.truth) == (question["question"], question["truth"])
        assert "published prompt" in trace.warnings[-1]
        assert "Please answer yes or no" in trace.backbone.prompt
        assert f'<a href="traces/{answer["key"]}.macd">trace</a>' in behind


def test_a_trace_is_computed_again_by_the_command_of_the_report(finished, data, tmp_path, capsys):
    question = wrong_answers(finished)[0]
    behind = (finished / "questions.html").read_text()
    commands = map(html.unescape, re.findall(r"<code>(python.*?)</code>", behind))
    words = next(shlex.split(c) for c in commands if question["id"] in c)
    words = [str(tmp_path / w) if w.endswith(".macd") else w for w in words]
    assert main(words[3:]) == 0
    again, kept = load(tmp_path / "answer.macd"), load(
        finished / "traces" / f"{question['answers']['macd']['key']}.macd"
    )  # fmt: skip
    for one, other in zip(again.answers["macd"].tokens, kept.answers["macd"].tokens, strict=True):
        np.testing.assert_allclose(one.others, other.others, atol=1e-4)
    assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nothing"], "no question 'nothing'"),
        (["entire_001/0", "--method", "vcd"], "answer of 'vcd'"),
        (["entire_001/0", "--data", "OTHER"], "others than those of the report"),
    ],
)
def test_a_trace_of_something_else_is_refused(
    words, named, finished, data, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("macd_studio.evals.running.engine.Worker", None)
    other = tmp_path / "data"
    shutil.copytree(data, other)
    for video in other.rglob("*.mp4"):  # another time is taken for another content
        os.utime(video, (1, 1))
    words = [str(other) if w == "OTHER" else w for w in words]
    assert main(["trace", str(finished), *words, "--out", str(tmp_path / "a.macd")]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "a.macd").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "drawn"}', '{"kind": "files"}'])
def test_a_trace_of_a_damaged_report_is_refused(content, tmp_path, capsys):
    (tmp_path / "report.json").write_text(content)
    assert main(["trace", str(tmp_path), "1", "--out", str(tmp_path / "a.macd")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_finished_run_computes_nothing_again(finished, data, monkeypatch):
    monkeypatch.setattr("macd_studio.evals.running.engine.Worker", None)
    before = sorted(r.key for r in read(finished / "rows"))
    assert run("eventhallusion", data, finished, "--methods", "macd") == 0
    assert sorted(r.key for r in read(finished / "rows")) == before


def test_tracks_are_kept_and_taken_from_there(finished, data):
    kept = list((finished / "tracks").glob("*.json"))
    assert len(kept) == 3
    setting = Setting("eventhallusion", RunOptions(), data=str(data))
    benchmark = setting.open()
    key = benchmark.everything[0].clip

    class Detector:
        name, open_vocabulary = "none", False

        def detect(self, frames, options):
            raise AssertionError("looked again")

    preparing = Preparing(benchmark, Detector(), setting.options, "x", finished / "tracks")
    with pytest.raises(AssertionError, match="looked again"):
        preparing.prepare(key)
    tracks = read_tracks(kept[0])
    clip = benchmark.clip(key)
    path = finished / "tracks" / f"{preparing._key(clip, Detector(), setting.options.detect)}.json"
    write_tracks(path, tracks)
    found = preparing.prepare(key).tracks
    assert [t.label for t in found] == [t.label for t in tracks]
    for a, b in zip(found, tracks, strict=True):
        assert a.confidence == b.confidence
        assert np.array_equal(a.boxes, b.boxes, equal_nan=True)
    path.unlink()
    path.write_text('[{"id": 1')
    assert read_tracks(path) is None


def test_what_is_missing_is_told_before_a_model_is_loaded(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("macd_studio.evals.running.engine.Worker", None)
    assert run("mvbench", data, tmp_path) == 2
    assert "none of MVBench's 20 question files" in capsys.readouterr().err
    assert main(["run", "eventhallusion", "--out", str(tmp_path)]) == 2
    assert "Give the folder by --data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--sample-fps", "1"], "exclude each other"),
        (["--frame-size", "3"], "--frame-size is 3"),
        (["--options", "{"], "not JSON"),
        (["--options", '{"ascent": {"step": 1}}'], "Did you mean steps"),
        (["--boxes", "truth"], "no true boxes"),
        (["--rule", "mine"], "no rule 'mine'"),
        (["--methods", "nothing"], "no method 'nothing'"),
    ],
)
def test_wrong_flags_are_one_line(flags, named, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("macd_studio.evals.running.engine.Worker", None)
    assert run("eventhallusion", data, tmp_path, *flags) == 2
    err = capsys.readouterr().err
    assert named in err
    assert err.strip().count("\n") == 0 or "note:" in err


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in FILES if n not in SHIPPED])
def test_every_format_runs_from_end_to_end(name, tmp_path):
    export(name, tmp_path / "data", 3 if name == "video-pope" else 1)
    assert run(name, tmp_path / "data", tmp_path / "out", "--methods", "macd") == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["n"] == len(report["questions"]) > 0
    assert all(s["errors"] == 0 for s in report["scores"].values())


@pytest.mark.long
def test_bare_questions_are_answered_by_the_options_words(tmp_path):
    export("mvbench", tmp_path / "data", 3)
    bare = ("--methods", "vcd", "--prompts", "bare", "--rule", "strict", "--backbone", "toyworld")
    assert run("mvbench", tmp_path / "data", tmp_path, *bare) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    direction = report["scores"]["baseline"]["splits"]["moving_direction"]
    assert direction["bias"]["unmatched"] == 0


@pytest.mark.long
def test_alpha_and_beta_are_chosen_on_clips_that_are_not_scored(tmp_path):
    export("questions", tmp_path / "data", 8)
    data, out = str(tmp_path / "data"), str(tmp_path)
    command = ["run", "questions", "--data", data, "--methods", "vcd,yes-bias", "--out", out]
    assert main([*command, "--frames", "4"]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["split"] == "test"
    assert 0 < report["n"] < 24
    assert set(report["contrasts"]) == {"vcd"}
    assert report["scores"]["yes-bias"]["n"] == report["n"]
    assert report["compared"]["yes-bias"]["all"]["change"] is not None


def test_the_content_of_a_report_is_that_of_its_setting(finished, data):
    report = json.loads((finished / "report.json").read_text())
    setting = _setting("eventhallusion", data)
    assert setting.content(setting.open()) == report["content"]
    assert read_setting(report["setting"]) == setting


def _setting(name, data):
    video = VideoOptions(frames=4, fit="native")
    options = RunOptions(video=video, decode=DecodeOptions(max_tokens=32))
    return Setting(name, options, "everyday", "yolo11n", data=str(data))


@pytest.mark.long
@pytest.mark.parametrize("name", ["eventhallusion", "mvbench", "video-pope"])
def test_two_workers_and_a_killed_one_give_the_same_rows(name, tmp_path):
    pytest.importorskip("ray")
    from macd_studio.evals.running.ray_engine import ray_engine

    export(name, tmp_path / "data", 3 if name == "video-pope" else 1)
    setting = _setting(name, tmp_path / "data")
    contrasts = {"baseline": (1.0, 0.0), "macd": (1.0, 0.1)}
    wanted = plan(setting.open(), setting, "all", 10**9, list(contrasts), contrasts)
    alone = complete(wanted, setting, tmp_path / "alone" / "rows")
    for kill in (False, True):
        pids = []

        def progress(done, total, kill=kill, pids=pids):
            if kill and done == 2:
                os.kill(pids[0], signal.SIGKILL)

        folder = tmp_path / f"killed-{kill}" / "rows"
        found = complete(wanted, setting, folder, ray_engine(2, started=pids.append), progress)
        # of few groups the killed worker may have had the last one: then no other is started
        assert len(pids) in ({2} if not kill else {3} if name == "video-pope" else {2, 3})
        lines = [r.key for r in read(folder)]
        assert len(lines) == len(set(lines)) == len(wanted)
        for key, row in alone.items():
            assert not row.error
            assert found[key].text == row.text, found[key].error
            assert found[key].margin == pytest.approx(row.margin, abs=1e-4)
            assert found[key].letters == pytest.approx(row.letters, abs=1e-4)


def test_cells_that_a_spreadsheet_would_compute_are_text():
    answer = {"text": "=HYPERLINK(1)", "right": False, "margin": None, "key": "k", "error": ""}
    question = {"id": "1", "clip": "v", "split": "s", "question": "+1?", "truth": "yes",
                "answers": {"baseline": answer}}  # fmt: skip
    (row,) = csv.DictReader(questions_csv({"questions": [question]}).splitlines())
    assert (row["answer"], row["question"]) == ("'=HYPERLINK(1)", "'+1?")
