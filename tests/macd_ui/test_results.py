"""The results page: what of a report folder it shows, what it refuses, and to whom."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from macd_studio.core.traces.bundle import save
from macd_studio.evals.scoring import report as scoring_report
from macd_studio.evals.scoring.report import plots
from macd_studio.evals.statistics.metrics import calibration, yes_no_ledger
from macd_studio.macd_ui import results
from macd_studio.macd_ui.gallery.runs import read_run
from macd_studio.macd_ui.results import open_report
from macd_studio.macd_ui.settings import ServerSettings, read_settings
from tests.small_trace import small_trace

KEYS = {m: f"{i:020x}" for i, m in enumerate(("baseline", "macd"), 1)}
DRAWN = Path(__file__).parents[2] / "docs" / "toyworld-results"


def scores():
    ledger = yes_no_ledger(["yes", "no"], ["yes", "yes"])
    part = {"n": 2, "clusters": 2, "right": 1, "accuracy": 50.0, "interval": [0.0, 100.0],
            "bias": ledger, "calibration": calibration([0.9, 0.6], [True, False])}  # fmt: skip
    rules = {"official": {"source": "s", "n": 2, "left_out": 0, "right": 1, "accuracy": 50.0}}
    labels = {"area": {"physics": {"n": 1, "accuracy": 100.0}}}
    return {**part, "errors": 0, "left_out": 0, "splits": {"one|$split": part}, "labels": labels,
            "rules": rules, "flips": 0, "flipped": []}  # fmt: skip


def a_report(text="yes", **changes):
    answers = {m: {"text": text, "right": True, "margin": 1.0, "key": key, "error": "",
                   "left_out": ""} for m, key in KEYS.items()}  # fmt: skip
    change = {"change": 0.0, "interval": [-1.0, 1.0], "p": 1.0, "p_holm": 1.0, "repaired": 0,
              "spoiled": 0, "like_constant": None}  # fmt: skip
    question = {"id": "q/1", "clip": "a.mp4", "split": "one|$split", "question": "Is it?",
                "truth": "yes", "options": [], "labels": [["area", "physics"]],
                "answers": answers}  # fmt: skip
    return {
        "kind": "files", "benchmark": "questions", "methods": ["baseline", "macd"],
        "rule": "official", "source": "s", "n": 2, "resamples": 4000, "notes": [],
        "scores": {m: scores() for m in KEYS}, "questions": [question],
        "compared": {"macd": {"all": change, "one|$split": change}},
        "contrasts": {"macd": [1.0, 0.1]}, "how_chosen": "given", "backbone": "toyworld",
        "prompts": "published", "sampling": {"frames": 8, "fps": None, "size": None},
        "setting": {"data": "/home/somebody/private/videos"},
    } | changes  # fmt: skip


def written(folder, report=None):
    (folder / "report.json").write_text(json.dumps(report or a_report()))
    (folder / "traces").mkdir(exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def pictures(monkeypatch):
    """Drawing takes longer than all else; one test below does it."""
    monkeypatch.setattr(scoring_report, "plots", lambda report: {"accuracy": "<svg></svg>"})


@pytest.fixture
def folder(tmp_path):
    """A report with the trace of one of its two answers, and things that nobody may see."""
    place = tmp_path / "run"
    place.mkdir()
    written(place)
    save(small_trace(), place / "traces" / f"{KEYS['macd']}.macd")
    save(small_trace(), place / "traces" / f"{9:020x}.macd")  # of no answer of the report
    (place / "rows").mkdir()
    (place / "rows" / "rows-1.jsonl").write_text("private")
    (place / "report.html").write_text("<script>alert(1)</script>")
    (tmp_path / "secret.macd").write_bytes((place / "traces" / f"{9:020x}.macd").read_bytes())
    return place


def app_of(folder, **more):
    settings = ServerSettings(results=str(folder), **more)
    return TestClient(Starlette(routes=results.routes(settings)))


def test_every_cell_of_the_report_leads_to_questions_and_traces(folder):
    client = app_of(folder)
    index = client.get("/results")
    assert index.url.path == "/results/"
    questions = client.get("/results/questions.html").text
    targets = set(re.findall(r'href="questions.html#([^"]+)"', index.text))
    assert len(targets) >= 6
    assert targets <= set(re.findall(r'id="([^"]+)"', questions))
    links = re.findall(r'href="(t/[^"]+|traces/[^"]+)"', questions)
    assert links == [f"t/{KEYS['macd']}.html", f"traces/{KEYS['macd']}.macd"]
    page = client.get(f"/results/t/{KEYS['macd']}")
    assert page.url.path == f"/results/{links[0]}"
    assert "The report</a>" in page.text
    assert small_trace().question in page.text
    assert client.get(f"/results/{links[1]}").content.startswith(b"PK")
    for name, kind in (("viewer.js", "javascript"), ("viewer.css", "css"), ("report.json", "json"),
                       ("questions.csv", "csv")):  # fmt: skip
        assert kind in client.get(f"/results/{name}").headers["content-type"]


def test_nothing_of_the_folder_but_its_data_is_served(folder):
    client = app_of(folder)
    for name in ("", "report.html", "questions.html"):
        answer = client.get(f"/results/{name}")
        assert "<script" not in answer.text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
    given = client.get("/results/report.json")
    assert "/home/somebody" not in given.text
    assert given.json()["questions"] == a_report()["questions"]  # an object, for programs
    assert str(folder.parent) not in client.get("/results/questions.html").text
    trace = client.get(f"/results/t/{KEYS['macd']}.html")
    assert "unsafe-eval" not in trace.headers["content-security-policy"]


@pytest.mark.parametrize("path", [
    "rows/rows-1.jsonl", "../secret.macd", "%2e%2e/secret.macd", "traces/../../secret.macd",
    "traces/%2e%2e%2f%2e%2e%2fsecret.macd", f"t/{9:020x}.html", f"traces/{9:020x}.macd",
    f"t/{KEYS['baseline']}.html", f"traces/{KEYS['macd']}.html", f"traces/{KEYS['macd']}.macd/..",
    "//etc/passwd", "traces/", "t/.html", "setting.json", "report.json.part",
])  # fmt: skip
def test_nothing_else_is_given(path, folder):
    answer = app_of(folder).get(f"/results/{path}")
    assert answer.status_code == 404
    assert b"PK" not in answer.content


def test_foreign_text_is_text(folder):
    hostile = '<img src=x onerror=alert(1)> $x | "'
    report = a_report(hostile, benchmark=hostile, backbone=hostile, notes=[hostile])
    report["questions"][0] |= {"id": hostile, "question": hostile, "clip": hostile}
    written(folder, report)
    client = app_of(folder)
    for name in ("", "questions.html"):
        text = client.get(f"/results/{name}").text
        assert "onerror" in text
        assert "<img" not in text


DAMAGED = [
    "{", "[]", "3", '{"kind": "files"}', json.dumps(a_report(methods=["nothing"])),
    json.dumps(a_report(questions=[{"id": 1}])), json.dumps(a_report(scores={})),
    json.dumps(a_report(scores={m: scores() | {"interval": "x"} for m in KEYS})),
    json.dumps(a_report(compared=[])), "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_report_shows_nothing(content, folder):
    (folder / "report.json").write_text(content)
    answer = app_of(folder).get("/results/")
    assert answer.status_code == 404
    assert "python -m evals run" in answer.text
    assert str(folder.parent) not in answer.text


def test_a_damaged_trace_is_not_shown(folder):
    path = folder / "traces" / f"{KEYS['macd']}.macd"
    path.write_bytes(path.read_bytes()[:200])
    for name in (f"t/{path.stem}.html", f"traces/{path.name}"):
        answer = app_of(folder).get(f"/results/{name}")
        assert answer.status_code == 404
        assert not answer.content.startswith(b"PK")


def test_a_trace_is_judged_once_until_its_file_changes(folder, monkeypatch):
    path = folder / "traces" / f"{KEYS['macd']}.macd"
    sound, reads = path.read_bytes(), []
    monkeypatch.setattr(results, "read_run", lambda p: (reads.append(p), read_run(p))[1])
    client = app_of(folder)

    def ask():
        names = [f"traces/{path.name}"] * 2 + [f"t/{path.stem}.html"] * 2
        return [client.get(f"/results/{name}").status_code for name in names]

    path.write_bytes(sound[:200])
    assert ask() == ask() == [404] * 4
    assert len(reads) == 1
    path.write_bytes(sound)
    assert ask() == ask() == [200] * 4
    assert len(reads) == 3  # for its file, and for its page


def test_a_report_that_changes_is_read_again(folder):
    client = app_of(folder)
    assert "questions: 2 questions" in client.get("/results/").text
    written(folder, a_report(n=3, benchmark="mvbench"))
    assert "mvbench: 3 questions" in client.get("/results/").text
    (folder / "report.json").unlink()
    assert client.get("/results/").status_code == 404


@pytest.mark.long
def test_a_report_over_drawn_clips_is_shown_too():
    report = json.loads((DRAWN / "report.json").read_text())
    opened = open_report(report, DRAWN)
    assert set(opened.files) == {"index.html"}
    assert b"<svg" in opened.files["index.html"].content
    assert not opened.keys


def test_the_folder_is_that_of_the_server_s_settings(tmp_path):
    without = TestClient(Starlette(routes=results.routes(ServerSettings())))
    for path, up in (("/results", "../"), ("/results/", "../"), ("/results/t/x", "../../")):
        page = without.get(path)
        assert page.status_code == 404
        assert "python -m evals run" in page.text
        assert all(f'href="{up}{where}"' in page.text for where in ("", "learn/", "docs/"))
        assert "script-src" not in page.headers["content-security-policy"]
    assert read_settings([], {}).results is None
    assert read_settings([], {"MACD_RESULTS": str(tmp_path)}).results == str(tmp_path)
    assert read_settings(["--results", str(tmp_path)], {}).results == str(tmp_path)
    with pytest.raises(SystemExit):
        read_settings(["--results", str(tmp_path / "none")], {})


def test_calibration_and_intervals_are_plotted_as_they_are(folder, monkeypatch):
    monkeypatch.setattr(scoring_report, "plots", plots)
    index = app_of(folder).get("/results/").text
    assert index.count("<svg") == 2
    assert "one|$split" in index.replace("\\$", "$")
    assert np.isclose(scores()["calibration"]["ece"], 0.35)
