"""Answers that failed: counted, in headline and exit code, and with a remedy that exists."""

import argparse
import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.errors import VideoTooLarge, VideoTooLong
from macd_studio.core.objects.edits import FORMS
from macd_studio.core.options import VideoOptions
from macd_studio.evals.__main__ import _parser, main
from macd_studio.evals.benchmarks import FILES, SHIPPED, file_benchmark, find_benchmark
from macd_studio.evals.benchmarks.files import Sampling
from macd_studio.evals.paper.ours import Ours, Source, compute
from macd_studio.evals.paper.tables import read_table
from macd_studio.evals.running.output import count_failures, failures_line
from macd_studio.evals.running.rows import Row
from macd_studio.toyworld.clips import TITLE, write_frames
from tests.evals.layouts import MAKERS
from tests.fakes import ByteLM

ROOT = Path(__file__).parents[2]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OF_A_RUN = {"--tracks-fps", "--first-frame", "--track-source", "--columns", "--verbose",
            "--device"}  # fmt: skip
"""Of `core trace`: of --tracks, which names a single file, and of what went wrong in a model."""
OF_PIP = {"--upgrade"}
TRANSLATED = {"--start", "--end", "--offload", "--gradient", *OF_A_RUN, *OF_PIP}
"""Of core's own commands; evaluations give another remedy for a range, see the tests below."""


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr("macd_studio.evals.scoring.report.plots", lambda report: {})
    monkeypatch.setattr("macd_studio.evals.running.engine._backbone", lambda name, *held: ByteLM())


@pytest.fixture
def data(tmp_path):
    """Two questions about clips of 1 s and one about a clip of 3 s."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, frames in (("a", 12), ("b", 36)):
        pixels = np.full((frames, 64, 64, 3), 90, np.uint8)
        write_frames(pixels, folder / f"{name}.mp4", 12, {"title": TITLE})
    (folder / "questions.csv").write_text(
        "video,question,answer\na.mp4,is it?,yes\na.mp4,is it not?,no\nb.mp4,is it?,yes\n"
    )
    return folder


def run(data, out, *words):
    command = ["run", "questions", "--data", str(data), "--out", str(out), "--methods", "baseline"]
    return main([*command, "--frames", "4", *words])


def test_a_video_beyond_the_limit_fails_aloud_and_the_remedy_works(model, data, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(data, out, "--max-seconds", "2") == 1
    told = capsys.readouterr()
    line = (
        "1 of 3 answers failed and count as wrong: the video lasts 3 seconds, more than 2 seconds."
    )
    assert line in told.err
    assert told.out.splitlines()[2].startswith(f"**{line} Give a larger --max-seconds (1).**")
    assert "--start" not in told.err + told.out
    report = json.loads((out / "report.json").read_text())
    assert (report["failures"]["failed"], report["failures"]["asked"]) == (1, 3)
    assert (out / "report.html").read_text().count("1 of 3 answers failed") == 1
    assert run(data, out) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["failures"]["failed"] == 0
    assert "failed" not in (out / "report.md").read_text()


def test_remedies_of_the_limits_are_flags_of_evaluations(data):
    def clip(**limits):
        benchmark = find_benchmark("questions", data, Sampling(VideoOptions(frames=4, **limits)))
        return benchmark.clip("b.mp4")

    with pytest.raises(VideoTooLong, match=r"more than 1 seconds\. Give a larger --max-seconds"):
        clip(max_seconds=1)
    with pytest.raises(VideoTooLarge, match=r"more than 0\.001 MB\. Give a larger --max-megabytes"):
        clip(max_megabytes=0.001)
    with pytest.raises(VideoTooLong, match="--max-seconds"):
        find_benchmark(
            "questions", data, Sampling(VideoOptions(max_seconds=1), fps=2.0)
        ).clip("b.mp4")  # fmt: skip


def test_benchmarks_of_long_videos_read_them(monkeypatch, tmp_path):
    """Video-MME holds videos of an hour and files of more than 100 MB."""
    given = {}
    monkeypatch.setattr(
        "macd_studio.evals.running.run.complete", lambda *a, **k: (_ for _ in ()).throw(KeyError)
    )
    for name in FILES.keys() - SHIPPED:
        from macd_studio.evals.commands import files

        args = _parser().parse_args(["run", name, "--data", str(MAKERS[name](tmp_path / name))])
        given[name] = files.setting_of(args).options.video
    assert given["video-mme"].max_seconds >= 3600
    assert given["video-mme"].max_megabytes >= 1000
    assert given["questions"].max_seconds >= 3600
    assert given["eventhallusion"].max_seconds == VideoOptions().max_seconds
    command = ["run", "video-mme", "--data", str(tmp_path / "video-mme")]
    for words, most in (
        (["--max-seconds", "900"], 900),
        (["--options", '{"video": {"max_seconds": 700}}'], 700),
        (["--max-seconds", "900", "--options", '{"video": {"max_seconds": 700}}'], 900),
    ):
        video = files.setting_of(_parser().parse_args([*command, *words])).options.video
        assert video.max_seconds == most
    assert file_benchmark("video-mme").limits["max_seconds"] >= 3600


def test_a_drawn_benchmark_with_failures_is_no_success(monkeypatch, tmp_path, capsys):
    def complete(wants, setting, folder, *rest, **more):
        folder.mkdir(parents=True, exist_ok=True)
        made = [Row(w.key, w.item.id, w.method, "yes", first="yes", scores={"yes": 1.0, "no": 0.0},
                    margin=1.0, probability=0.5) for w in wants]  # fmt: skip
        made[-1] = Row(wants[-1].key, wants[-1].item.id, wants[-1].method, error="broken. Mend it.")
        return {r.key: r for r in made}

    monkeypatch.setattr("macd_studio.evals.running.run.complete", complete)
    monkeypatch.setattr("macd_studio.evals.printing.report.pictures", lambda report: {})
    command = ["run", "toyworld", "--n", "2", "--split", "1", "--methods", "baseline"]
    assert main([*command, "--out", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "failed and count as wrong: broken. Mend it (2)." in told.err
    assert told.out.splitlines()[2].startswith("**2 of ")


def test_a_table_with_failures_is_no_success(monkeypatch, tmp_path, capsys):
    def compute(table, row, *rest):
        failed = "2 of 3 answers failed and count as wrong: broken (2)."
        figures = dict.fromkeys(table.metrics, 50.0)
        return Ours(figures, n=3, failures=failed if row.method == "macd" else "")

    monkeypatch.setattr("macd_studio.evals.paper.ours.compute", compute)
    data = MAKERS["eventhallusion"](tmp_path / "data")
    command = ["paper", "levels", "--data", str(data), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    told = capsys.readouterr()
    assert "2 of 3 answers failed and count as wrong: broken (2)" in told.err
    assert "2 of 3 answers failed" in (tmp_path / "out" / "levels.md").read_text()
    monkeypatch.setattr("macd_studio.evals.paper.ours.compute", lambda table, *_: Ours({}, n=3))
    assert main(command) == 0


def test_an_answer_that_failed_is_told_in_a_table(monkeypatch, tmp_path):
    def complete(wants, *rest, **more):
        rows = [Row(w.key, w.item.id, w.method, "no") for w in wants]
        rows[0] = Row(rows[0].key, rows[0].item, rows[0].method, error="broken. Mend it.")
        return {r.key: r for r in rows}

    monkeypatch.setattr("macd_studio.evals.paper.ours.complete", complete)
    table = read_table("levels")
    data = {name: MAKERS[name](tmp_path / name) for name in table.benchmarks}
    ours = compute(table, table.rows[0], Source("b", "d", data, tmp_path, 9), lambda *_: None)
    assert ours.failures.endswith("failed and count as wrong: broken. Mend it (1).")
    assert ours.why == ""


def test_the_report_of_another_run_is_not_replaced_in_silence(data, tmp_path, capsys):
    out, note = (
        tmp_path / "out",
        "holds the report of a run with other values of the questions or frames, the options",
    )
    for words, told in (((), False), ((), False), (("--frames", "3"), True)):
        assert run(data, out, *words) == 0
        assert (note in capsys.readouterr().err) == told, words


@pytest.mark.parametrize(("start", "count"), [(0, 6), (1, 4), (2.5, 1)])
def test_frames_by_time_are_of_the_range_alone(data, start, count):
    """At two frames a second, of a clip of 3 s."""
    row = f"video,question,answer,start\nb.mp4,is it?,yes,{start}\n"
    (data / "questions.csv").write_text(row)
    benchmark = find_benchmark("questions", data, Sampling(VideoOptions(), fps=2.0))
    (item,) = benchmark.everything
    clip = benchmark.clip(item.clip)
    assert len(clip.times) == count
    assert clip.times[0] >= start


def test_counts_by_hand():
    rows = [Row("k", "i", "m", error=e) for e in ("", "a.", "b.", "a.", "c.", "d.", "a.")]
    failures = count_failures(rows)
    assert (failures["failed"], failures["asked"]) == (6, 7)
    assert failures["reasons"] == {"a.": 3, "b.": 1, "c.": 1}
    assert failures_line(failures).startswith("6 of 7 answers failed and count as wrong: a (3);")
    assert failures_line(count_failures(rows[:1])) == failures_line(None) == ""


def commands():
    """Command → its flags."""
    (subparsers,) = (
        a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction)
    )  # fmt: skip
    return {
        name: {f for a in parser._actions for f in a.option_strings}
        for name, parser in subparsers.choices.items()
    }


def texts_of(path):
    """What the file says to people: its strings, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documents
        ):
            yield node.lineno, node.value


VLLM = {
    "--chat-template", "--enable-scale-out", "--limit-mm-per-prompt", "--max-logprobs",
    "--media-io-kwargs", "--mm-processor-kwargs", "--no-mm-device-do-normalize", "--tokenizer",
    "--trust-request-mm-kwargs",
}  # fmt: skip
"""Flags of another program: with what a server is to be started."""
SHARED = ("media", "objects", "masking", "views", "methods", "backbones", "decoding", "rules")


def test_every_flag_that_a_message_names_exists():
    known = commands()
    every = {*FORMS, "--counterpart"}.union(*known.values())
    named = 0
    # a module with a parser of its own is a program by itself
    paths = [p for p in (ROOT / "evals").rglob("*.py")
             if p.name == "__main__.py"
             or not re.search(r"(ArgumentParser|command_line)\(", p.read_text())]  # fmt: skip
    paths += [p for part in SHARED for p in (ROOT / "core" / part).rglob("*.py")]
    paths += [ROOT / "core" / f"{n}.py" for n in ("options", "validation", "text/question")]
    for path in paths:
        own = every
        if path.parent.name == "commands" and path.stem in known:
            own = known[path.stem]
        for line, text in texts_of(path):
            for flag in FLAG.findall(text):
                if "<style>" in text or "var(--" in text:  # a property of CSS
                    continue
                named += 1
                assert flag in own | TRANSLATED | VLLM, f"{path.name}:{line} names {flag}"
    assert named > 60


def test_a_missing_folder_is_told_with_the_commands_own_words(tmp_path, capsys):
    missing = str(tmp_path / "x")
    for name, flags in commands().items():
        if name == "label":
            assert main([name, missing]) == 2
        elif name == "run":
            assert main([name, "video-pope", "--data", missing]) == 2
        elif name == "score":
            assert main([name, "video-pope", "--data", missing, "--predictions", missing]) == 2
        else:
            continue
        for flag in FLAG.findall(capsys.readouterr().err):
            assert flag in flags, (name, flag)
