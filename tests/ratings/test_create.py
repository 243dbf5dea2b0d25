"""What a study is made from: items, arms of equal area, media that tell nothing, the plan."""

import gc
import json
import sqlite3
import tracemalloc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.controls import ELSEWHERE, MAX_OVERLAP, ControlMask
from macd_studio.core.system.shipped import assets
from macd_studio.ratings import arms, create
from macd_studio.ratings.arms import ARMS, LEAST, TOLERANCE, coverage, draw
from macd_studio.ratings.create import StudyPlan, create_study, preregistration_path
from macd_studio.ratings.errors import StudyError
from macd_studio.ratings.gold import read_gold
from macd_studio.ratings.media import Pictures, composite, encode_clip
from macd_studio.ratings.preregistration import sha256
from macd_studio.ratings.source import SIDE, read_source
from macd_studio.ratings.store import Study
from macd_studio.ratings.study_file import FROZEN, SEALED
from tests.ratings.packed import decode_clip
from tests.ratings.studies import HEIGHT, WIDTH, known, make_study, source, track

WIDE = (-0.3, -0.3, 1.3, 1.3)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", sorted(p.stem for p in (assets() / "examples").glob("*.macd"))[:3])
def test_random_masks_of_shipped_traces_hide_the_same_area(name):
    clip = read_source(assets() / "examples" / f"{name}.macd")
    assert max(clip.size) <= SIDE
    wanted = arms.macd(clip, RNG).hidden
    made = ARMS[ELSEWHERE](clip, np.random.default_rng(3))
    assert abs(made.hidden / wanted - 1) <= TOLERANCE
    assert not np.array_equal(made.mask, arms.macd(clip, RNG).mask)


def test_the_area_is_measured_after_clipping_and_overlap():
    crowded = source(tracks=(track(1, (0.0, 0.0, 0.5, 0.6)), track(2, (0.4, 0.5, 0.9, 1.0))),
                     level=(1.0, 1.0))  # fmt: skip
    wanted = draw(crowded, crowded.tracks, np.ones(2), np.zeros(0)).sum()
    made = ARMS["random-place"](crowded, np.random.default_rng(1))
    assert abs(made.mask.sum() / wanted - 1) <= TOLERANCE
    assert made.details["area_ratio"] == pytest.approx(made.mask.sum() / wanted, abs=1e-4)


def test_an_item_whose_area_cannot_be_matched_is_left_out(monkeypatch, tmp_path):
    def shrunk(name, hidden, seed):
        drawn = draw(name, hidden, seed)
        smaller = [replace(t, boxes=t.boxes * np.float32(0.9)) for t in drawn.tracks]
        return replace(drawn, tracks=tuple(smaller))

    draw = arms.draw_control
    monkeypatch.setattr(arms, "draw_control", shrunk)
    with pytest.raises(OptionError, match="area not matched"):
        make_study(tmp_path, 1)
    monkeypatch.setattr(arms, "draw_control", lambda *_: None)
    with pytest.raises(OptionError, match="no place beside MACD's mask"):
        make_study(tmp_path, 1)


def test_an_elsewhere_is_measured_on_what_raters_see(monkeypatch):
    def on_macd(name, hidden, seed):
        return ControlMask(name, hidden.tracks, hidden.level, hidden.frame_level, 1.0, 0.0)

    monkeypatch.setattr(arms, "draw_control", on_macd)
    with pytest.raises(arms.NoMask, match="no place beside MACD's mask"):
        ARMS[ELSEWHERE](source(0), np.random.default_rng(0))
    made = ARMS["random-place"](source(0), np.random.default_rng(0))
    assert made.details["overlap"] == pytest.approx(1)


def test_an_elsewhere_hides_little_of_what_macd_hides():
    clip = source(0)
    own = arms.macd(clip, RNG).mask
    for seed in range(4):
        made = ARMS[ELSEWHERE](clip, np.random.default_rng(seed))
        shared = np.minimum(own, made.mask).sum() / own.sum()
        assert made.details["overlap"] == pytest.approx(shared, abs=1e-4)
        assert shared <= MAX_OVERLAP


def test_why_items_fall_out(tmp_path):
    sources = [
        source(0),
        source(1, level=(0.0, 0.0)),
        source(2, tracks=(track(1, WIDE),), level=(1.0,)),
        source(3, problem="no detection"),
        source(0),
        known(0).source,
    ]
    made = create_study(tmp_path / "s.db", sources, StudyPlan(gold=(known(0),), seed=1))
    assert made.items == 1
    assert {x.name: x.reason for x in made.left_out} == {
        "clip-1.mp4": "nothing masked",
        "clip-2.mp4": "everything masked",
        "clip-3.mp4": "no detection",
        "clip-0.mp4": "given twice",
        "clip-1000.mp4": "used for training or gold",
    }


def test_a_trace_without_a_finished_run_is_left_out():
    trace = read_source(assets() / "examples" / "repaired.macd")
    assert trace.problem == ""
    assert coverage(trace, np.ones((8, *trace.size), np.float32)) == pytest.approx(
        dict.fromkeys((t.id for t in trace.tracks), 1.0)
    )


@pytest.mark.parametrize("name", sorted(ARMS))
def test_every_arm_draws_a_mask_of_the_frames(name):
    made = ARMS[name](source(0, frames=source(0).frames), np.random.default_rng(5))
    assert made.mask.shape == (4, HEIGHT, WIDTH)
    assert 0 <= made.mask.min() <= made.mask.max() <= 1
    hidden = {"mask-all": {1: 1.0, 2: 1.0}, "reversed": {1: 0.0, 2: 1.0}}.get(name)
    if hidden:
        shares = {k: round(v) for k, v in coverage(source(0), made.mask).items()}
        assert shares == hidden


def test_a_mask_drawn_by_hand_is_an_arm(tmp_path):
    drawn = source(0, level=(0.0, 1.0))
    plan = StudyPlan(arms=("macd", "by-hand"), by_hand=(drawn,), seed=1)
    made = create_study(tmp_path / "s.db", [source(0), source(1)], plan)
    assert made.items == 1
    assert {x.name: x.reason for x in made.left_out} == {"clip-1.mp4": "no mask drawn by hand"}
    with Study(tmp_path / "s.db") as study:
        row = study.row("SELECT id FROM sides WHERE arm = 'by-hand'")
        shares = study.rows("SELECT share FROM coverage WHERE side = ? ORDER BY track", row["id"])
        # rows of 0 are kept too: this arm hides the cup, not the dog
        assert [round(r["share"]) for r in shares] == [0, 1]


def test_media_have_one_size_and_hold_the_pictures(tmp_path):
    with Study(make_study(tmp_path, 3, gold=(known(1),))) as study:
        sides = [r["media"] for r in study.rows("SELECT media FROM sides")]
        clips = [r["media"] for r in study.rows("SELECT media FROM clips")]
    assert len({len(m) for m in sides + clips}) == 1
    assert all(len(decode_clip(m)) == 4 for m in sides + clips)
    assert len({encode_clip(source(i).frames)[:200] for i in range(3)}) == 3


@pytest.mark.parametrize(("fill", "grey"), [
    ("mean", 128), ("black", 0), ("additive", 255), ("blur", None), ("noise", None),
    ("plate", None)])  # fmt: skip
def test_masked_pixels_become_the_fill_of_the_run_and_no_others(fill, grey):
    clip = source(0, mask=replace(source(0).mask, fill=fill))
    mask = np.zeros((4, HEIGHT, WIDTH), np.float32)
    mask[:, :10] = 1
    shown = composite(clip, mask, RNG)
    assert np.abs(shown[:, :10].astype(int) - clip.frames[:, :10]).mean() > 5
    assert grey is None or (shown[:, :10] == grey).all()
    assert np.array_equal(shown[:, 10:], clip.frames[:, 10:])


def test_the_preregistration_is_kept_and_hashed(tmp_path):
    path = make_study(tmp_path, 2, raters=5, repeat=0.2)
    text = preregistration_path(path).read_text()
    assert sha256(text) == make_study.last.sha256
    plan = json.loads(text)
    assert (plan["raters"], plan["repeat"], plan["design"]) == (5, 0.2, "pair")
    assert plan["arms"] == ["macd", "random-elsewhere"]
    assert "bootstrap" in plan["analysis"]["primary"]
    with Study(path) as study:
        assert study.preregistration == plan
        assert study.preregistration_sha256 == make_study.last.sha256
        # what sides are drawn from stands in no preregistration
        key = study.row("SELECT value FROM meta WHERE name = 'key'")["value"]
    assert key not in text
    assert plan["assignment_key_sha256"] == sha256(key)


def test_nothing_that_was_fixed_can_be_changed(tmp_path):
    path = make_study(tmp_path, 2)
    with Study(path) as study:
        study.invite(1)
    db = sqlite3.connect(path)
    for table in FROZEN:
        if db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                db.execute(f"DELETE FROM {table}")
            column = db.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchone()[0]
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                db.execute(f"UPDATE {table} SET {column} = {column}")
    for table in SEALED:
        first = db.execute(f"SELECT * FROM {table}").fetchone()
        marks = ", ".join("?" * len(first))
        with pytest.raises(sqlite3.IntegrityError, match="frozen"):
            db.execute(f"INSERT INTO {table} VALUES ({marks})", first)
    db.close()


def test_a_study_is_never_overwritten_and_never_left_half_made(tmp_path, monkeypatch):
    path = make_study(tmp_path, 1)
    with pytest.raises(OptionError, match="exists"):
        make_study(tmp_path, 1)
    monkeypatch.setattr(create, "seal", lambda db: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make_study(tmp_path, 1, name="other.db")
    assert {p.name for p in tmp_path.iterdir()} == {path.name, preregistration_path(path).name}


@pytest.mark.parametrize(
    ("names", "words"),
    [(("macd",), "two different"), (("macd", "macd"), "two different"), (("macd", "x"), "no arm"),
     (("macd", "by-hand"), "needs masks")],
)  # fmt: skip
def test_arms_are_checked_before_anything_is_drawn(tmp_path, names, words):
    with pytest.raises(OptionError, match=words):
        make_study(tmp_path, 1, arms=names)


def test_what_is_no_study_is_refused(tmp_path):
    for name, content in (("a.db", b"x" * 5000), ("b.db", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StudyError):
            Study(tmp_path / name)
    with pytest.raises(StudyError, match="no study"):
        Study(tmp_path / "missing.db")
    assert LEAST < 0.01
    assert Path(tmp_path / "a.db").read_bytes() == b"x" * 5000


def counted(clips, alive):
    """Sources that are made when they are asked for; how many still live is noted each time."""
    made = []
    for i in range(clips):
        one = source(i, frames=np.full((4, 240, 320, 3), i, np.uint8))
        made.append(weakref.ref(one))
        yield one
        del one
        gc.collect()
        alive.append(sum(ref() is not None for ref in made))


def peak(folder, clips):
    """The most memory that making a study takes at a time, bytes."""
    folder.mkdir()
    alive = []
    tracemalloc.start()
    try:
        plan = StudyPlan(seed=1, proposed=3, repeat=0.0)
        made = create_study(folder / "s.db", counted(clips, alive), plan)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (made.items, made.proposed) == (clips, 3)
    assert max(alive) <= 1  # the one that was asked for last
    assert {p.name for p in folder.iterdir()} == {"s.db", "s.preregistration.json"}
    return most


def test_one_clip_is_held_at_a_time_however_many_there_are(tmp_path):
    """A clip of this size takes 0.9 MB of frames and 2.5 MB of masks."""
    few, many = peak(tmp_path / "few", 4), peak(tmp_path / "many", 20)
    assert many < few + 2_000_000


def test_a_study_that_fails_leaves_no_file(tmp_path):
    def broken():
        yield source(0)
        raise OptionError("no trace", "Give another")

    with pytest.raises(OptionError, match="no trace"):
        create_study(tmp_path / "s.db", broken(), StudyPlan(seed=1))
    with pytest.raises(OptionError, match="no item stays"):
        create_study(tmp_path / "s.db", [source(1, level=(0.0, 0.0))], StudyPlan(seed=1))
    assert list(tmp_path.iterdir()) == []


def test_pictures_lie_in_a_private_file_until_the_study_is_written(tmp_path):
    with Pictures(tmp_path / "x.pictures") as pictures:
        first, second = pictures.add(b"abc"), pictures.add(b"defgh")
        assert (tmp_path / "x.pictures").stat().st_mode & 0o777 == 0o600
        assert pictures.padded(second, 5) == b"defgh"
        padded = [pictures.padded(first, 9) for _ in range(2)]
        assert {len(p) for p in padded} == {9}
        assert {p[:3] for p in padded} == {b"abc"}
        assert padded[0] != padded[1]  # the padding is random
    assert not (tmp_path / "x.pictures").exists()
    with pytest.raises(OptionError, match="cannot be written"), Pictures(tmp_path / "no" / "x"):
        pass


def test_a_full_disk_is_told_as_one_and_leaves_nothing(tmp_path, monkeypatch):
    def small(db):
        made(db)
        db.execute("PRAGMA max_page_count = 40")

    made = create.create_tables
    monkeypatch.setattr(create, "create_tables", small)
    with pytest.raises(
        OptionError, match=r"cannot be written \(database or disk is full\)"
    ) as told:
        create_study(tmp_path / "s.db", [source(1)], StudyPlan(seed=1))
    assert "Free space" in told.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_preregistration_that_cannot_be_written_leaves_no_study(tmp_path, monkeypatch):
    def full(path, *args, **how):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OptionError, match="No space left"):
        create_study(tmp_path / "s.db", [source(1)], StudyPlan(seed=1))
    assert list(tmp_path.iterdir()) == []


def test_a_known_item_is_read_again_when_its_pictures_are_made(tmp_path):
    (item, *_) = read_gold(assets() / "examples" / "gold.json")
    assert not item.source.frames.any()
    whole = item.read()
    assert whole.frames.any()
    assert (whole.frames.shape, whole.question) == (item.source.frames.shape, item.source.question)
    assert item.source.frames.strides == (0, 0, 0, 0)  # one byte for all
