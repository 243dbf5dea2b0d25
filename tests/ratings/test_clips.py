"""A study from a folder of clips: questions, objects from files, masks without answers."""

import json
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from macd_studio.core.errors import OptionError, TracksError
from macd_studio.core.media.webp import encode_picture
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.ratings import clips
from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.clips import Job, Motion, jobs_of, read_motion, trace_clips
from macd_studio.ratings.create import StudyPlan, create_study
from macd_studio.ratings.store import Study
from tests.ratings.packed import decode_clip
from tests.ratings.studies import make_study, rater_in, source

EXAMPLES = assets() / "examples"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "clips"
    place.mkdir()
    return place


def touch(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"")


def test_what_a_folder_asks_for(folder):
    touch(folder, "a.mp4", "b.MOV", "c.webm", "notes.pdf", "b.zip")
    (folder / "c").mkdir()
    (folder / "questions.json").write_text(json.dumps({"a.mp4": ["Is it?", "Why?"]}))
    (folder / "b.txt").write_text("Is there a dog?\n\nIs there a cat?\n")
    jobs = jobs_of(folder, "What is it?")
    assert jobs == [
        Job(folder / "a.mp4", "Is it?"),
        Job(folder / "a.mp4", "Why?"),
        Job(folder / "b.MOV", "Is there a dog?", folder / "b.zip"),
        Job(folder / "b.MOV", "Is there a cat?", folder / "b.zip"),
        Job(folder / "c.webm", "What is it?", folder / "c"),
    ]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "holds 0 clips"),
        ({"a.mp4": ""}, "'a.mp4' has no question"),
        ({"a.mp4": "", "questions.json": "{"}, "cannot be read"),
        ({"a.mp4": "", "questions.json": "[]"}, "does not name clips"),
        ({"a.mp4": "", "questions.json": '{"a.mp4": [1]}'}, "does not name clips"),
        ({"a.mp4": "", "questions.json": '{"b.mp4": "x"}'}, "names 'b.mp4'"),
        ({"a.mp4": "", "a.txt": "a\x00b"}, "invisible control character"),
    ],
)
def test_a_folder_that_cannot_be_a_study_says_why(folder, files, says):
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(Exception, match=says):
        jobs_of(folder)
    with pytest.raises(OptionError, match="there is no folder"):
        jobs_of(folder / "none")


def test_clips_become_a_study(folder, tmp_path, capsys, monkeypatch):
    """With saved masks; tests/browser/test_rating.py computes them."""

    asked = []

    def trace(clip, question, tracks, **how):
        asked.append(how)
        if tracks is not None:
            raise TracksError("bad.xml is XML without a track", "Export it again")
        return load((EXAMPLES / clip.name).with_suffix(".macd"))

    monkeypatch.setattr("macd_studio.trace", trace)
    for name in ("repaired", "harmed"):
        shutil.copy(EXAMPLES / f"{name}.mp4", folder)
    shutil.copy(EXAMPLES / "harmed.mp4", folder / "bad.mp4")
    (folder / "bad.xml").write_text("<a/>")
    words = (
        "--detector toyworld --device cpu --seed 1 --frames 24 --end 9.5 --confidence 0.4".split()
    )
    words += ["--clips", str(folder), "--question", "Which animal is in the video?"]
    assert main(["create", str(tmp_path / "s.db"), *words]) == 0
    said = capsys.readouterr()
    assert "2 items of 3 stay" in said.out
    assert "bad.mp4: left out, bad.xml is XML without a track" in said.err
    assert "1 item left out, no masks: bad.xml is XML without a track: bad.mp4" in said.out
    assert asked[0]["video"] == {"frames": 24, "end": 9.5}
    assert asked[0]["detect"] == {"confidence": 0.4}
    with Study(tmp_path / "s.db") as study:
        assert study.left_out == [
            {"clip": "bad.mp4", "reason": "no masks: bad.xml is XML without a track"}
        ]
        arms = {r["arm"]: r["hidden"] for r in study.rows("SELECT arm, hidden FROM sides LIMIT 2")}
        assert set(arms) == {"macd", "random-place"}
        assert arms["macd"] == pytest.approx(arms["random-place"], rel=0.01)


def test_a_flag_out_of_its_range_is_told_before_a_clip_is_read(folder, tmp_path, capsys):
    touch(folder, "a.mp4")
    create = ["create", str(tmp_path / "s.db"), "--clips", str(folder), "--question", "Is it?"]
    assert main([*create, "--frames", "0"]) == 2
    assert "frames" in capsys.readouterr().err
    assert not (tmp_path / "s.db").exists()


def test_nothing_is_answered(folder, monkeypatch):
    asked = {}

    def trace(clip, question, **how):
        asked.update(how)
        raise TracksError("no", "Give another")

    monkeypatch.setattr("macd_studio.trace", trace)
    shutil.copy(EXAMPLES / "repaired.mp4", folder / "a.mp4")
    ((job, error, _),) = trace_clips(
        [Job(folder / "a.mp4", "why?", folder / "a.xml")], device="cpu"
    )
    assert asked == {"tracks": folder / "a.xml", "masks_only": True, "device": "cpu", "video": {}}
    assert isinstance(error, TracksError)
    assert job.question == "why?"


@pytest.mark.parametrize(("length", "given", "frames"), [(10.0, {}, None), (10.1, {}, 24),
                                                         (35.0, {"frames": 12}, 12)])  # fmt: skip
def test_long_clips_are_read_with_more_frames(folder, monkeypatch, length, given, frames):
    asked = []

    def trace(clip, question, **how):
        asked.append(how["video"])
        return "masks"

    monkeypatch.setattr("macd_studio.trace", trace)
    monkeypatch.setattr(clips, "read_motion", lambda clip, video: Motion((), (), length))
    list(trace_clips([Job(folder / "a.mp4", "why?")], given))
    assert [video.get("frames") for video in asked] == [frames]


def test_the_motion_of_a_clip_is_its_own_pictures_within_the_range(folder):
    motion = read_motion(EXAMPLES / "repaired.mp4", {"start": 1.0, "end": 2.5})
    assert motion.length == pytest.approx(1.5)
    assert 1.0 - 0.2 <= motion.times[0] < motion.times[-1] <= 2.5
    gaps = [b - a for a, b in pairwise(motion.times)]
    assert max(gaps) < 0.3
    assert len(set(motion.pictures)) > 4


def test_the_clip_moves_between_its_masked_frames(tmp_path):
    """The pictures of both kinds are each of one size; the clip's have times of their own."""
    pictures = tuple(encode_picture(np.full((8, 8, 3), 20 * i, np.uint8)) for i in range(9))
    moving = source(1, motion=pictures, motion_times=tuple(i / 4 for i in range(9)))
    create_study(tmp_path / "s.db", [moving, source(2)], StudyPlan(seed=1, repeat=0.0))
    with Study(tmp_path / "s.db") as study:
        _, rater = rater_in(study)
        shown = {study.describe(rater, t["id"])["question"]: t["id"] for t in study.tasks(rater)}
        tasks = [t["id"] for t in study.tasks(rater)]
        described = [study.describe(rater, t) for t in tasks]
        clip_sizes = {len(study.media(rater, t, "clip")) for t in tasks}
        masked_sizes = {len(study.media(rater, t, w)) for t in tasks for w in "01"}
        contents = [decode_clip(study.media(rater, t, "clip")) for t in tasks]
        masked = [decode_clip(study.media(rater, t, "0")) for t in tasks]
    assert len(clip_sizes) == len(masked_sizes) == len(shown) == 1
    assert clip_sizes != masked_sizes  # masks are not padded to the size of a clip that moves
    (at,) = (i for i, d in enumerate(described) if d["motion"] != d["times"])
    assert described[at]["motion"] == [i / 4 for i in range(9)]
    assert contents[at] == list(pictures)
    assert [len(m) for m in masked] == [4, 4]
    assert described[1 - at]["motion"] == described[1 - at]["times"]


def test_a_study_of_the_former_version_has_no_motion_and_stays_readable(tmp_path):
    path = make_study(tmp_path, 2)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE clips DROP COLUMN motion")
        db.execute("PRAGMA user_version = 2")
    with Study(path, write=False) as study:  # in a copy: the file is only read
        assert {r["motion"] for r in study.rows("SELECT motion FROM clips")} == {None}
    with Study(path) as study:
        _, rater = rater_in(study)
        task = study.tasks(rater)[0]["id"]
        assert study.describe(rater, task)["motion"] == study.describe(rater, task)["times"]
    check_study(path)
