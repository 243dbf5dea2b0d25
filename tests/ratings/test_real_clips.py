"""A study of the shipped clips of a camera: from the files to a rater's completion code."""

import json
from fractions import Fraction

import av
import httpx
import numpy as np
import pytest

from macd_studio.core.media.video import read_clip
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.ratings.arms import hide_tracks
from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.clips import jobs_of
from macd_studio.ratings.create import SAME, StudyPlan, create_study
from macd_studio.ratings.gold import asked_tracks, read_gold
from macd_studio.ratings.planning import EFFECT, PAIRED_SD, RATER_SD, chance, outlook, parts_of
from macd_studio.ratings.report import figures
from macd_studio.ratings.source import ONE_TIME, UNORDERED, source_of
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import CODE_HEADER
from tests.patience import PATIENCE_S
from tests.ratings.killable import Server
from tests.ratings.packed import decode_clip
from tests.ratings.studies import raw, source, track

CLIPS = assets() / "everyday" / "examples"
TRACES = sorted(CLIPS.glob("*.macd"))


def create(path, *more):
    """The command on the shipped traces of real clips, whose masks take no model."""
    words = ["create", str(path), "--traces", *map(str, TRACES), "--gold", str(CLIPS / "gold.json")]
    return main([*words, "--seed", "1", *more])


def test_a_dry_session_from_the_invitation_to_the_code(tmp_path):
    """A program goes through the served study as a browser does, and gives 4 and 2 everywhere."""
    question = {"question": "On what?", "options": ["paper", "a screen"], "answer": "a screen"}
    (tmp_path / "q.json").write_text(json.dumps(question))
    path = tmp_path / "s.db"
    assert create(path, "--screening", str(tmp_path / "q.json"), "--repeat", "0.4") == 0
    with Study(path) as study:
        study.complete_with("DONE-7", "")
        invitation = study.recruit()
    server = Server(path)
    try:
        server.start()
        with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as browser:
            body = {"participant": "panel-1"}
            joined = browser.post("/rate/api/participant", headers={CODE_HEADER: invitation},
                                  json=body)  # fmt: skip
            browser.headers[CODE_HEADER] = joined.json()["code"]

            def send(*events):
                reply = browser.post("/rate/api/events", json={"events": list(events)}).json()
                assert all(o["committed"] for o in reply["outcomes"]), reply
                return reply

            first = browser.get("/rate/api/session").json()
            assert first["instructions"]
            assert first["screening"]["state"] == "asked"
            assert send(raw("consent"), raw("screening", new=2))["screening"]["state"] == "passed"
            for task in first["tasks"]:
                shown = browser.get(f"/rate/api/item/{task['id']}").json()
                assert shown["question"].endswith("?")
                for which in ("clip", "0", "1"):
                    media = browser.get(f"/rate/api/media/{task['id']}/{which}").content
                    assert len(decode_clip(media)) == len(shown["times"]) == 4
                marks = [raw("rate", task["id"], side=s, new=n) for s, n in ((0, 4), (1, 2))]
                reply = send(raw("shown", task["id"]), *marks, raw("next", task["id"]))
                assert bool(reply["feedback"]) == (task["kind"] == "training")
            assert browser.get("/rate/api/session").json()["completion"] is None
            send(raw("finish"))
            assert browser.get("/rate/api/session").json()["completion"]["code"] == "DONE-7"
    finally:
        server.end()
    assert [t["kind"] for t in first["tasks"]] == ["training"] + ["item"] * (3 + 2 + 1)
    check_study(path)
    with Study(path, write=False) as study:
        assert figures(study, 50)["study"]["ratings"] == 2 * 3


@pytest.mark.long
def test_the_shipped_study_is_of_real_clips_and_takes_no_other_file(tmp_path, capsys):
    assert (
        main(["create", str(tmp_path / "s.db"), "--examples", "--frames", "8", "--seed", "0"]) == 0
    )
    told = capsys.readouterr().out
    asked = len(jobs_of(CLIPS))
    with Study(tmp_path / "s.db", write=False) as study:
        main_items = [i for i in study.items if i["part"] == "main"]
        assert len(main_items) + len(study.left_out) == asked
        assert len(main_items) >= 6
        assert {i["clip"] for i in main_items} == {j.clip.name for j in jobs_of(CLIPS)}
        labels = {r["label"] for r in study.rows("SELECT label FROM objects")}
    assert {"car", "bottle", "person"} <= labels
    assert f"{len(main_items)} items of {asked} stay" in told
    check_study(tmp_path / "s.db")


def test_the_gold_file_of_the_real_clips_fits_their_traces():
    items = read_gold(CLIPS / "gold.json")
    asked = {(j.clip.name, j.question) for j in jobs_of(CLIPS)}
    assert [i.training for i in items] == [True, False, False]
    for item in items:  # what a high rating asks to hide is what the question names
        named = {t.id for t in asked_tracks(item.source.question, item.source.tracks)}
        (right,) = (s for s in item.sides if s.low == 4)
        (wrong,) = (s for s in item.sides if s.high == 2)
        assert set(right.hide) == named
        assert named - set(wrong.hide)
        assert (item.source.name, item.source.question) not in asked
        assert hide_tracks(item.source, right.hide).hidden > 0


def test_the_check_tells_what_raters_will_see_and_what_that_is_enough_for(tmp_path, capsys):
    assert create(tmp_path / "s.db", "--raters", "4") == 0
    told = capsys.readouterr().out
    with Study(tmp_path / "s.db") as study:
        (code,) = study.invite(1)
        screens = len(study.tasks(study.rater_of(code)))
        item = next(i for i in study.items if i["clip"] == "bottles.mp4")
    control = item["arms"]["random-place"]
    line = next(line for line in told.splitlines() if line.endswith("bottles.mp4"))
    assert line.startswith("  4 frames, 1.5 to 10.5 s; macd hides ")
    assert f"shares {control['overlap']:.0%} of that, IoU {control['iou']:.2f}" in line
    assert f"each rater sees {screens} screens; {outlook('ratings', 3, 4)}" in told
    both = [chance(EFFECT, parts_of(p, r), 4, 3) for p, r in zip(PAIRED_SD, RATER_SD, strict=True)]
    assert f"chance of {min(both):.0%} to {max(both):.0%} to find 0.7 points" in told


def test_what_is_left_decides_what_the_study_is_enough_for(tmp_path, capsys):
    """Of three arms a rater compares two on half of the items; the favourable end is told too."""
    assert create(tmp_path / "s.db", "--arms", "macd,random-place,mask-all") == 0
    told = capsys.readouterr().out
    assert "nothing is found for other raters and items with fewer than two" in told
    assert "more raters" not in outlook("pairs", 12, 5)
    assert outlook("pairs", 12, 5).startswith("5 raters and 12 items: interval ± 0.")
    assert "python -m ratings plan --scale pairs --clips 900" in outlook("pairs", 900, 900)


def flat_video(path):
    """Real pictures, all of which stand at time 0."""
    with av.open(str(CLIPS / "bottles.mp4")) as clip, av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=12)
        stream.width, stream.height, stream.pix_fmt = 480, 270, "yuv420p"
        packets = []
        for number, frame in enumerate(clip.decode(video=0)):
            frame.pts, frame.time_base = number, Fraction(1, 12)
            packets += stream.encode(frame)
        for packet in [*packets, *stream.encode(None)]:
            packet.pts = packet.dts = 0
            out.mux(packet)
    return path


@pytest.mark.long
@pytest.mark.parametrize("ending", ["mkv", "mp4"])
def test_a_clip_whose_pictures_stand_at_one_time_makes_no_study(tmp_path, capsys, ending):
    """The decoder keeps one picture for each time, so that one frame is read."""
    folder = tmp_path / "clips"
    folder.mkdir()
    clip = flat_video(folder / f"flat.{ending}")
    (folder / "flat.txt").write_text("How many bottles are in the video?")
    assert len(read_clip(clip).frames) == 1
    assert main(["create", str(tmp_path / "s.db"), "--clips", str(folder)]) == 2
    assert f"no item stays ({clip.name}: {ONE_TIME})" in capsys.readouterr().err
    assert not (tmp_path / "s.db").exists()


def test_a_clip_with_broken_times_is_left_out_and_counted(tmp_path):
    """Left out, told, sealed in the study file, and counted in what is published."""
    broken = source(1, problem=ONE_TIME)
    made = create_study(tmp_path / "s.db", [broken, source(2), source(3)], StudyPlan(seed=1))
    assert [(x.name, x.reason) for x in made.left_out] == [("clip-1.mp4", ONE_TIME)]
    with Study(tmp_path / "s.db", write=False) as study:
        assert study.left_out == [{"clip": "clip-1.mp4", "reason": ONE_TIME}]
        assert study.preregistration["left_out"] == {ONE_TIME: 1}


def test_masks_that_are_one_mask_are_left_out(tmp_path):
    """Every object hidden, where MACD hides every object: IoU 1; and one that differs stays."""
    alone = source(1, tracks=(track(1, (0.1, 0.2, 0.35, 0.6)),), level=(1.0,), steps=())
    made = create_study(
        tmp_path / "s.db", [alone, source(2)], StudyPlan(("macd", "mask-all"), seed=1)
    )
    (out,) = made.left_out
    assert (out.name, out.reason) == (
        "clip-1.mp4", f"mask-all is one mask with macd (IoU {SAME} or more)")  # fmt: skip
    (check,) = made.checks
    clip = source(2)
    own, everything = (hide_tracks(clip, ids).mask for ids in ((1,), (1, 2)))
    iou = np.minimum(own, everything).sum() / np.maximum(own, everything).sum()
    assert check.iou["mask-all"] == pytest.approx(iou, abs=1e-4)
    assert (check.frames, check.times) == (4, (0.0, 1.5))
    assert check.hidden == pytest.approx(own.mean(), abs=1e-4)
    with Study(tmp_path / "s.db", write=False) as study:
        assert study.items[0]["arms"]["mask-all"]["iou"] == pytest.approx(iou, abs=1e-4)


@pytest.mark.parametrize(("times", "problem"), [
    ((0.4, 1.28, 2.08, 2.96), ""), ((0.0,), ONE_TIME), ((0.0, 0.0, 0.0, 0.0), UNORDERED),
    ((0.0, 1.0, 0.5, 2.0), UNORDERED), ((0.0, 1.0, float("nan"), 2.0), UNORDERED)])  # fmt: skip
def test_which_times_are_broken(times, problem):
    whole = load(TRACES[-1])
    object.__setattr__(whole, "frames", whole.frames[: len(times)])
    object.__setattr__(whole, "times", np.array(times))
    assert source_of(whole).problem == problem
