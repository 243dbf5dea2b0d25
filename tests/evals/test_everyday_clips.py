"""The benchmark everyday: what ships, what is fetched, and how its answers are scored."""

import hashlib
import json
import subprocess
from collections import Counter
from dataclasses import replace

import av
import cv2
import httpx
import numpy as np
import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import find_benchmark, open_files
from macd_studio.evals.benchmarks.everyday import CLIPS, Source, questions, sources
from macd_studio.evals.commands import fetch
from macd_studio.evals.scoring.rules import rules_for
from macd_studio.evals.studies.real_clips import is_correct, stored
from macd_studio.macd_ui.gallery.record import read_list
from macd_studio.parts import ROOT
from macd_studio.toyworld.clips import write_frames


def test_what_ships_is_what_may_be_passed_on():
    free = {s.name: s for s in sources() if s.footage}
    assert {p.stem for p in CLIPS.glob("*.mp4")} == set(free)
    assert {s.footage for s in free.values()} <= {"CC BY 4.0", "CC0 1.0"}
    assert sum(p.stat().st_size for p in CLIPS.iterdir()) < 8e6
    notices = (ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    row = next(z for z in notices.splitlines() if "`assets/everyday-clips`" in z)
    for source in free.values():
        assert source.name in row
        assert source.repository in row
        assert fetch.shape_of(CLIPS / f"{source.name}.mp4") == (source.frames, *source.size)


def test_every_question_has_its_clip_and_every_clip_its_source():
    names = [s.name for s in sources()]
    assert len(names) == len(set(names))
    assert {q["clip"] for q in questions().values()} == set(names)
    for source in sources():
        assert (len(source.sha256), len(source.commit)) == (64, 40)
        assert source.size[0] % 2 == source.size[1] % 2 == 0
        assert source.frames > 1


def test_the_shipped_clips_are_asked_about_and_the_others_counted():
    benchmark = find_benchmark("everyday")
    free = {s.name for s in sources() if s.footage}
    assert {i.id.partition("/")[0] for i in benchmark.everything} == free
    absent = len(questions()) - len(benchmark.everything)
    (note,) = benchmark.check_sizes()
    assert note.startswith(f"{absent} of {len(questions())} questions")
    two = [i for i in benchmark.everything if i.id.startswith(("carwhite-b/", "twocars-b/"))]
    assert len({benchmark.cluster(i) for i in two}) == 1  # one file, two cuts


def test_a_folder_without_its_clips_is_told_the_command(tmp_path):
    with pytest.raises(BenchmarkError, match="evals fetch"):
        find_benchmark("everyday", tmp_path)


def test_answers_of_another_program_are_scored_without_clips(tmp_path, capsys):
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({k: f"{q['answer'].title()}." for k, q in questions().items()}))
    assert main(["score", "everyday", "--predictions", str(file), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    kinds = Counter(q["kind"] for q in questions().values())
    assert {k: scores["splits"][k]["n"] for k in kinds} == kinds
    assert {scores["splits"][k]["accuracy"] for k in kinds} == {100.0}


def test_the_rules_judge_as_the_table_of_the_document_does():
    items = {i.id: i for i in open_files("everyday", None, videos=False).everything}
    rows = stored(ROOT / "docs" / "everyday-results" / "rows.jsonl")
    assert any(row.get("also") and is_correct(row, row["said"]) for row in rows)
    for row in rows:
        item = items[row["item"]]
        assert rules_for("everyday", item)[0].right(row["said"], item) == is_correct(
            row, row["said"]
        ), row


# fetching


def film(path, frames=12):
    rng = np.random.default_rng(0)
    pictures = np.repeat(rng.integers(0, 255, (frames, 6, 8, 3), np.uint8), 8, 1).repeat(8, 2)
    for i, picture in enumerate(pictures):
        picture[:, :32] = 20 * i  # tells which frame it is
    write_frames(pictures, path, 10)
    return pictures


@pytest.fixture
def mirror(tmp_path):
    """A git repository with a film and a row of pictures, and its sources."""
    root = tmp_path / "mirror" / "someone" / "films"
    (root / "row").mkdir(parents=True)
    film(root / "a film.mp4")
    for i in range(3, 8):
        cv2.imwrite(str(root / f"row/{i:04d}.jpg"), np.full((48, 64, 3), 20 * i, np.uint8))

    def git(*args):
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(["git", *own, *args], cwd=root, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "films")
    commit = git("rev-parse", "HEAD")
    pictures = b"".join((root / f"row/{i:04d}.jpg").read_bytes() for i in range(3, 8))
    film_hash = hashlib.sha256((root / "a film.mp4").read_bytes()).hexdigest()
    row_hash = hashlib.sha256(pictures).hexdigest()
    of = {"repository": "someone/films", "commit": commit, "licence": "none"}
    first = Source("film", path="a film.mp4", sha256=film_hash, first=4, frames=5, fps=10.0,
                   size=(32, 48), crop_left=32, **of)  # fmt: skip
    second = Source("row", path="row/{:04d}.jpg", sha256=row_hash, first=3, frames=5, fps=24.0,
                    size=(32, 24), **of)  # fmt: skip
    return tmp_path / "mirror", first, second


def brightness(path):
    with av.open(str(path)) as opened:
        return [f.to_ndarray(format="gray").mean() for f in opened.decode(video=0)]


def test_clips_are_cut_from_a_mirror(mirror, tmp_path, monkeypatch, capsys):
    folder, first, second = mirror
    whole = replace(first, name="whole", crop_left=0, size=(64, 48))
    monkeypatch.setattr(fetch, "sources", lambda: [first, second, whole])
    out = tmp_path / "out"
    assert main(["fetch", "--to", str(out), "--mirror", str(folder)]) == 0
    assert "3 clips of 3" in capsys.readouterr().out
    assert fetch.shape_of(out / "film.mp4") == (5, 32, 48)
    assert fetch.shape_of(out / "row.mp4") == (5, 32, 24)
    assert brightness(out / "row.mp4") == pytest.approx([60, 80, 100, 120, 140], abs=4)
    with av.open(str(out / "whole.mp4")) as opened:
        left = [f.to_ndarray(format="gray")[:, :24].mean() for f in opened.decode(video=0)]
    assert left == pytest.approx([80, 100, 120, 140, 160], abs=6)  # from frame 4 on
    assert np.ptp(brightness(out / "film.mp4")) < 40  # without the columns that tell the frame
    with av.open(str(out / "row.mp4")) as opened:  # each source picture is a key frame of its own
        assert sum(p.is_keyframe for p in opened.demux(video=0) if p.size) == 1
    before = (out / "row.mp4").stat().st_mtime_ns
    (out / "film.mp4").write_bytes(b"torn")
    assert main(["fetch", "--to", str(out), "--mirror", str(folder)]) == 0
    assert (out / "row.mp4").stat().st_mtime_ns == before  # what is whole stays
    assert fetch.shape_of(out / "film.mp4") == (5, 32, 48)


def test_what_cannot_be_had_is_named_and_the_rest_is_fetched(mirror, tmp_path, monkeypatch, capsys):
    folder, first, second = mirror
    wrong = [
        replace(first, name="gone", path="another.mp4"),
        replace(first, name="nobody", repository="no/body"),
        replace(first, name="other", sha256="0" * 64),
        replace(first, name="short", frames=20),
    ]
    monkeypatch.setattr(fetch, "sources", lambda: [*wrong, second])
    out = tmp_path / "out"
    assert main(["fetch", "--to", str(out), "--mirror", str(folder)]) == 1
    told = capsys.readouterr()
    assert "1 clip of 5" in told.out
    for source in wrong:
        assert f"{source.name}: " in told.err
    assert sorted(p.name for p in out.glob("*.mp4")) == ["row.mp4"]
    assert {"questions.jsonl", "list.json"} <= {p.name for p in out.iterdir()}


def test_the_clips_that_may_be_passed_on_make_a_gallery(tmp_path):
    (tmp_path / fetch.LIST).write_text(fetch.gallery_list(sources()))
    free = {s.name for s in sources() if s.footage}
    for name in free:
        (tmp_path / f"{name}.mp4").touch()
    entries = read_list(tmp_path / fetch.LIST)
    assert {e.video.stem for e in entries} == free
    assert {e.texts["answer"] for e in entries} >= {"yes", "no"}


def served(answer):
    return fetch.from_network(httpx.Client(transport=httpx.MockTransport(answer)))


def test_sources_come_from_their_public_address():
    asked = []

    def answer(request):
        asked.append(str(request.url))
        return httpx.Response(200, content=b"film")

    assert served(answer)("a/b", "c" * 40, "with blanks/é.mp4") == b"film"
    assert asked == [f"https://raw.githubusercontent.com/a/b/{'c' * 40}/with%20blanks/%C3%A9.mp4"]


def test_a_refused_or_endless_source_is_an_error(monkeypatch):
    monkeypatch.setattr(fetch, "LARGEST", 1000)
    for answer, said in (
        (lambda request: httpx.Response(404), "404"),
        (lambda request: httpx.Response(200, content=b"0" * 2000), "too large"),
    ):
        with pytest.raises(BenchmarkError, match=said):
            served(answer)("a/b", "c" * 40, "d.mp4")
