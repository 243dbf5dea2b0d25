"""Real runs of the embedded model that differ in one thing each, compared and run again."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from macd_studio.core.system.shipped import shipped
from macd_studio.evals.__main__ import main
from macd_studio.evals.protocol import jobs
from macd_studio.evals.protocol.bounds import NAME_OF_FILE, read_protocol
from macd_studio.evals.protocol.inputs import Asked, read_pair
from macd_studio.evals.protocol.rerun import Places, chosen, rerun
from macd_studio.evals.protocol.split import split
from macd_studio.toyworld.export import export

pytestmark = pytest.mark.long
N = 4
SEARCH = json.dumps({"decode": {"search": "sample", "temperature": 3.0}})
SEEDED = json.dumps({"decode": {"search": "sample", "temperature": 3.0, "seed": 5}})
HOW = {
    "frames": ["--frames", "2"], "size": ["--frame-size", "56"], "template": ["--prompts", "bare"],
    "dtype": ["--dtype", "bfloat16"], "α and β": ["--alpha", "6"], "search": ["--options", SEARCH],
    "parser": ["--rule", "strict"], "denominator": ["--over", "answered"],
}  # fmt: skip
"""Cause → the words that make a run differ by it."""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    export("eventhallusion", folder / "data", N)
    return folder


@pytest.fixture(scope="module")
def run(root):
    """Words → the folder of a run by MACD; each is made once."""
    done = {}

    def make(*words, data=None):
        key = (*words, str(data))
        if key not in done:
            done[key] = root / f"run{len(done)}"
            alpha = [] if "--alpha" in words else ["--alpha", "1"]
            frames = [] if "--frames" in words else ["--frames", "4"]
            code = main(["run", "eventhallusion", "--data", str(data or root / "data"), "--out",
                         str(done[key]), "--methods", "macd", "--beta", "0.01", *alpha, *frames,
                         *words])  # fmt: skip
            assert code == 0
        return done[key]

    return make


def accuracy(folder):
    return json.loads((folder / "report.json").read_text())["scores"]["macd"]["accuracy"]


def compared(first, second):
    return split(*read_pair(Asked(str(first)), Asked(str(second))))


def check(first, second, cause):
    found = compared(first, second)
    assert found.named == (cause,)
    moved = accuracy(second) - accuracy(first)
    assert found.shares[0].alone[0] == pytest.approx(moved, abs=1e-3)
    assert found.shares[0].in_order[0] == pytest.approx(moved, abs=1e-3)
    return moved


@pytest.mark.parametrize("cause", HOW)
def test_real_runs_differ_by_the_cause_that_they_were_given(run, cause):
    check(run(), run(*HOW[cause]), cause)


def other_processor(root):
    """The embedded model's folder with a processor that gives smaller pictures."""
    folder = root / "other-model"
    if not folder.exists():
        shutil.copytree(shipped("backbone"), folder)
        path = folder / "processor_config.json"
        settings = json.loads(path.read_text())
        size = settings["video_processor"]["size"]
        size["longest_edge"] = size["shortest_edge"] = size["longest_edge"] // 4
        path.write_text(json.dumps(settings))
    return folder


def test_a_revision_of_the_processor_is_a_cause(run, root):
    plain = root / "same-model"
    shutil.copytree(shipped("backbone"), plain)
    first = run("--backbone", str(plain))
    second = run("--backbone", str(other_processor(root)))
    check(first, second, "processor")
    read = [read_protocol(f / NAME_OF_FILE).clips[0] for f in (first, second)]
    assert read[0].source == read[1].source
    assert read[0].read[:2] != read[1].read[:2]


def test_another_annotation_is_a_cause(run, root):
    folder = root / "other-data"
    shutil.copytree(root / "data", folder)
    path = folder / "questions" / "entire_questions.json"
    path.write_text(path.read_text().replace('"No."', '"Yes."'))
    assert check(run(), run(data=folder), "annotation") != 0


def test_two_causes_are_told_apart_by_running_again(run, root, capsys):
    first, second = run(), run("--frames", "2", "--prompts", "bare")
    assert [set(s.causes) for s in compared(first, second).shares] == [{"frames", "template"}]
    out = root / "diff"
    assert main(["diff", str(first), str(second), "--rerun", "99", "--out", str(out)]) == 0
    found = json.loads((out / "diff.json").read_text())["rerun"]
    n = json.loads((first / "report.json").read_text())["n"]
    assert (found["n"], found["order"]) == (n, ["frames", "template"])
    assert found["repeated"] == n
    by_name = {c["cause"]: c for c in found["causes"]}
    frames = accuracy(run("--frames", "2")) - accuracy(first)
    template = accuracy(run("--prompts", "bare")) - accuracy(first)
    both = accuracy(second) - accuracy(first)
    assert by_name["frames"]["alone"][0] == pytest.approx(frames, abs=1e-3)
    assert by_name["template"]["alone"][0] == pytest.approx(template, abs=1e-3)
    assert by_name["frames"]["in_order"][0] == pytest.approx(frames, abs=1e-3)
    assert by_name["template"]["in_order"][0] == pytest.approx(both - frames, abs=1e-3)
    assert found["interaction"] == pytest.approx(both - frames - template, abs=1e-3)
    assert found["rest"][0] == 0
    assert "Run again" in (out / "diff.md").read_text()


def test_a_part_of_a_model_is_exchanged_alone(run, root):
    """The processor of another folder with the weights of the first."""
    first = run("--backbone", "toyworld")
    second = run("--backbone", str(other_processor(root)), "--dtype", "bfloat16")
    pair = read_pair(Asked(str(first)), Asked(str(second)))
    found = rerun(*pair, 6, root / "parts", Places(), lambda line: None)
    assert found["order"] == ["processor", "dtype"]
    assert found["rest"][0] == pytest.approx(0)
    (model,) = (root / "parts" / "rerun" / "models").iterdir()
    assert (model / "processor_config.json").resolve().parent == other_processor(root)
    assert (model / "model.safetensors").resolve().parent == shipped("backbone").resolve()


def test_questions_and_videos_of_another_folder_are_exchanged_one_by_one(run, root):
    folder = root / "other-files"
    shutil.copytree(root / "data", folder)
    path = folder / "questions" / "entire_questions.json"
    path.write_text(path.read_text().replace('"No."', '"Yes."').replace("Is there", "Is that"))
    videos = sorted(folder.rglob("*.mp4"))
    whole = [v.read_bytes() for v in videos]
    for video, other in zip(videos, [*whole[1:], whole[0]], strict=True):
        video.write_bytes(other)
    pair = read_pair(Asked(str(run())), Asked(str(run(data=folder))))
    found = rerun(*pair, 99, root / "exchanged", Places(), lambda line: None)
    assert found["order"] == ["annotation", "clip file"]
    assert (found["left"], found["rest"][0]) == ([], 0)
    assert found["repeated"] == found["n"]
    by_name = {c["cause"]: c["alone"][0] for c in found["causes"]}
    assert all(by_name.values()), "each of them moves the figure"


def test_search_seed_and_length_are_exchanged_one_by_one(run, root):
    decode = {"search": "sample", "temperature": 3.0, "seed": 5, "max_tokens": 2}
    second = run("--options", json.dumps({"decode": decode}), "--alpha", "3")
    pair = read_pair(Asked(str(run())), Asked(str(second)))
    found = rerun(*pair, 6, root / "decoding", Places(), lambda line: None)
    assert found["order"] == ["generation", "search", "seed", "α and β"]
    assert (found["left"], found["rest"][0]) == ([], 0)


def test_a_printed_row_is_run_as_it_says(run, root):
    first = run()
    pair = read_pair(Asked(str(first)), Asked("paper:50,n=12,frames=2,alpha=6"))
    found = rerun(*pair, 4, root / "row", Places(), lambda line: None)
    assert found["order"] == ["frames", "α and β"]
    assert found["rest"][1] is None


def other_python(folder):
    """This Python with one more package: its version is the same, its packages are not."""
    info = folder / "site" / "decoder-2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: decoder\nVersion: 2\n")
    script = folder / "python"
    path = f'"{folder / "site"}:$PYTHONPATH"'
    script.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


def test_another_python_of_the_same_version_answers_for_itself(run, root):
    pair = read_pair(Asked(str(run())), Asked(str(run())))
    places = Places(python=other_python(root / "other-python"))
    rerun(*pair, 2, root / "own-rows", places, lambda line: None)
    rows = list((root / "own-rows" / "rerun").glob("python-*/rows/rows-*.jsonl"))
    assert [len(p.read_text().splitlines()) for p in rows] == [2, 2]


def test_another_python_answers_the_same(run, root):
    first, _ = pair = read_pair(Asked(str(run())), Asked(str(run())))
    found = rerun(*pair, 3, root / "python", Places(python=Path(sys.executable)), lambda line: None)
    assert found["order"] == ["versions"]
    assert found["causes"][0]["alone"][0] == 0
    said = json.loads((root / "python" / "rerun" / "job.out.json").read_text())
    assert said == {i: first.texts[i] for i in chosen(*pair, 3)}
    with pytest.raises(Exception, match="versions cannot be run again"):
        rerun(*pair, 3, root / "none", Places(python=root / "data"), lambda line: None)


def test_roles_cover_what_a_folder_holds():
    named = {jobs.role_of(p.name) for p in shipped("backbone").iterdir()}
    assert {"processor", "tokenizer", "template", "generation", "weights"} >= named
