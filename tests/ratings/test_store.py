"""The store: what is acknowledged is on the disk, once, in order, and nothing else is."""

import dataclasses
import shutil
import sqlite3
import threading

import pytest

from macd_studio.ratings import store
from macd_studio.ratings.answers import read_answers
from macd_studio.ratings.check import check_study
from macd_studio.ratings.errors import Refused, StudyBusy, StudyError
from macd_studio.ratings.roster import CLOSED, OPEN, PAUSED
from macd_studio.ratings.store import Study
from macd_studio.ratings.study_file import connect, on_network
from tests.ratings.studies import copy_study, event, known, make_study, rate, rater_in, thawed

PLAN = {"clips": 4, "gold": (known(1), known(2, training=True))}


@pytest.fixture
def rater(study):
    return rater_in(study)[1]


def ratings(study):
    return {(a.task, a.side): a.rating for a in read_answers(study) if a.rating is not None}


class ReadOnly:
    """A study in a folder of somebody else's, as SQLite opens it."""

    row_factory = None
    close = staticmethod(lambda: None)

    def execute(self, words):
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        raise error


@pytest.mark.parametrize("write", [True, False])
def test_a_study_that_cannot_be_written_says_what_it_needs(tmp_path, monkeypatch, write):
    path = copy_study(tmp_path, 1)
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **more: ReadOnly())
    with pytest.raises(StudyBusy, match="Copy it to a folder that you may write to"):
        connect(path, write=write)


def test_every_commit_waits_for_the_disk(tmp_path):
    path = copy_study(tmp_path, 1)
    db = connect(path, write=True, network=False)
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    db.close()
    db = connect(path, write=True, network=True)
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert db.execute("PRAGMA locking_mode").fetchone()[0] == "exclusive"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 3  # EXTRA
    db.close()


MOUNTS = """/dev/vda / ext4 rw 0 0
nas:/data /mnt/nas nfs4 rw 0 0
hub /data fuse.hf-mount rw 0 0
tmpfs /data/local tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "network"),
    [("/home/s.db", False), ("/mnt/nas/a/s.db", True), ("/mnt/nash/s.db", False),
     ("/data/s.db", True), ("/data/local/s.db", False)],
)  # fmt: skip
def test_network_mounts_are_known(path, network):
    from pathlib import Path

    assert on_network(Path(path), MOUNTS) is network


def test_a_rating_is_an_event_and_the_answer_its_view(study, rater):
    task = study.tasks(rater)[0]["id"]
    study.append(rater, [event("rate", task, side=0, new=2)])
    study.append(rater, [event("rate", task, 1, side=0, old=2, new=4)])
    study.append(rater, [event("undo", task, 2, side=0, old=4, new=2)])
    rows = study.rows("SELECT old, new, kind FROM events ORDER BY id")
    assert [tuple(r) for r in rows] == [(None, 2, "rate"), (2, 4, "rate"), (4, 2, "undo")]
    assert ratings(study) == {(task, 0): 2}
    assert study.tasks(rater)[0]["ratings"] == [2, None]
    assert study.tasks(rater)[0]["done"] is False
    study.append(rater, [event("next", task)])
    assert study.tasks(rater)[0]["done"] is True


def test_the_same_event_counts_once(study, rater):
    task = study.tasks(rater)[0]["id"]
    first = event("rate", task, side=0, new=2)
    second = event("rate", task, side=0, old=2, new=5)
    for _ in range(3):
        assert all(o.committed for o in study.append(rater, [first, second]))
    study.append(rater, [first])  # a late repetition does not bring the old rating back
    assert len(study.rows("SELECT * FROM events")) == 2
    assert ratings(study) == {(task, 0): 5}


def test_a_uuid_means_one_event(study, rater):
    """Another value under the uuid of a rating is no repetition, and is refused."""
    tasks = [t["id"] for t in study.tasks(rater)]
    first = event("rate", tasks[0], side=0, new=2)
    assert study.append(rater, [first])[0].committed
    for changed in ({"new": 5}, {"side": 1}, {"task": tasks[1]}, {"kind": "undo"}):
        (outcome,) = study.append(rater, [dataclasses.replace(first, **changed)])
        assert not outcome.committed, changed
        assert "another event" in outcome.reason
    again = dataclasses.replace(first, count=9, client_time=5.0, old=1)  # sent by another tab
    assert study.append(rater, [again])[0].committed
    assert ratings(study) == {(tasks[0], 0): 2}


def test_one_rater_cannot_fill_the_disk(study, rater, monkeypatch):
    monkeypatch.setattr(store, "MAX_OF_RATER", 5)
    monkeypatch.setattr(store, "MAX_NOTES", 2)
    _, other = rater_in(study)
    task = study.tasks(rater)[0]["id"]
    flags = [event("flag", task, note="x" * 900) for _ in range(3)]
    outcomes = study.append(rater, flags)
    assert [o.committed for o in outcomes] == [True, True, False]
    assert "more than a study keeps" in outcomes[-1].reason
    shown = [event("shown", task) for _ in range(9)]
    assert sum(o.committed for o in study.append(rater, shown[:4])) <= 3
    assert not any(o.committed for o in study.append(rater, shown[4:]))
    assert study.append(rater, flags[:1])[0].committed  # what is there already stays acknowledged
    assert study.append(other, [event("shown", study.tasks(other)[0]["id"])])[0].committed


def test_an_event_of_somebody_else_is_not_acknowledged(study, rater):
    _, other = rater_in(study)
    task = study.tasks(rater)[0]["id"]
    first = event("rate", task, side=0, new=2)
    assert study.append(rater, [first])[0].committed
    assert not study.append(other, [first])[0].committed
    stolen = study.append(other, [event("rate", task, side=0, new=1)])
    assert not stolen[0].committed
    assert "no such item" in stolen[0].reason
    assert ratings(study) == {(task, 0): 2}


def test_one_bad_event_does_not_hold_up_the_others(study, rater):
    task = study.tasks(rater)[0]["id"]
    outcomes = study.append(
        rater, [event("rate", "0" * 32, side=0, new=2), event("rate", task, side=1, new=3)]
    )
    assert [o.committed for o in outcomes] == [False, True]


def test_two_tabs_of_one_rater_are_seen_as_a_conflict(study, rater):
    task = study.tasks(rater)[0]["id"]
    study.append(rater, [event("rate", task, side=0, new=2)])
    late = dataclasses.replace(event("rate", task, side=0, old=None, new=5), tab="other")
    study.append(rater, [late])
    row = study.rows("SELECT old, new, conflict FROM events ORDER BY id")[-1]
    assert tuple(row) == (2, 5, 1)  # what was there, and that the tab did not know of it
    assert ratings(study) == {(task, 0): 5}


def test_the_order_of_arrival_decides_not_the_clock(tmp_path):
    now = iter([1e9, 5.0, 2e9, 1.0, 3.0, 2.0, 1.0, 0.0])
    with Study(copy_study(tmp_path, 1), clock=lambda: next(now)) as study:
        _, rater = rater_in(study)
        task = study.tasks(rater)[0]["id"]
        for new, client in ((1, 9e12), (4, -5.0), (2, 3.0)):
            e = dataclasses.replace(event("rate", task, side=0, new=new), client_time=client)
            study.append(rater, [e])
        assert ratings(study) == {(task, 0): 2}
        times = [r["server_time"] for r in study.rows("SELECT * FROM events ORDER BY id")]
        assert times == [5.0, 2e9, 1.0]
    check_study(tmp_path / "study.db")


def test_a_full_disk_acknowledges_nothing(study, rater):
    tasks = study.tasks(rater)
    study.append(rater, [event("rate", tasks[0]["id"], side=0, new=2)])
    (pages,) = study.rows("PRAGMA page_count")[0]
    study.rows(f"PRAGMA max_page_count = {pages}")
    refused = None
    for n in range(200):  # until the last page is full
        kept = event("flag", tasks[1]["id"], note="x" * 1000)
        before = len(study.rows("SELECT * FROM events"))
        try:
            study.append(rater, [kept, event("rate", tasks[1]["id"], side=0, new=1 + n % 5)])
        except StudyBusy as error:
            refused = str(error)
            break
    assert "full" in refused
    assert len(study.rows("SELECT * FROM events")) == before  # not half of the two
    study.rows("PRAGMA max_page_count = 1000000")
    assert study.append(rater, [kept])[0].committed
    check_study(study.path)


def test_a_closed_study_takes_nothing_and_a_paused_one_what_was_rated(study, rater):
    task = study.tasks(rater)[0]["id"]
    assert study.state == OPEN
    study.control(PAUSED)
    assert study.append(rater, [event("rate", task, side=0, new=2)])[0].committed
    study.control(CLOSED)
    with pytest.raises(Refused, match="closed"):
        study.append(rater, [event("rate", task, side=0, new=3)])
    with pytest.raises(Refused, match="closed"):
        study.invite(1)
    study.control(OPEN)
    assert study.append(rater, [event("rate", task, side=0, new=3)])[0].committed


def test_codes_open_only_their_own_and_can_be_revoked(study):
    codes = study.invite(3)
    assert [study.rater_of(c).name for c in codes] == ["R01", "R02", "R03"]
    assert study.rater_of("A" * 24) is None
    assert study.rater_of("") is None
    study.revoke("R02")
    assert study.rater_of(codes[1]).revoked
    study.revoke("R02", restore=True)
    assert not study.rater_of(codes[1]).revoked
    with pytest.raises(Refused, match="no rater"):
        study.revoke("R99")
    everything = "\n".join(study._db.iterdump())
    assert not any(c in everything for c in codes)


def test_the_organiser_s_code_is_renewed(study):
    first = make_study.last.organiser
    assert study.is_organiser(first)
    second = study.renew_organiser()
    assert study.is_organiser(second)
    assert not study.is_organiser(first)
    assert not study.is_organiser(study.invite(1)[0])


def test_a_copy_made_while_it_is_served_holds_every_rating(study, rater, tmp_path):
    """A plain copy of the file alone, and one by the command; both then go their own way."""
    for task in study.tasks(rater):
        rate(study, rater, task["id"], [2, 4])
        shutil.copy(study.path, tmp_path / "plain.db")
        with Study(tmp_path / "plain.db", write=False) as copy:
            assert ratings(copy) == ratings(study)
        assert check_study(tmp_path / "plain.db")["events"] == len(
            study.rows("SELECT * FROM events")
        )
    study.copy_to(tmp_path / "asked.db")
    late = event("rate", study.tasks(rater)[0]["id"], side=0, old=2, new=5)
    with Study(tmp_path / "asked.db") as copy:
        assert copy.append(copy.raters()[0], [late])[0].committed
        assert ratings(copy) != ratings(study)
    check_study(tmp_path / "asked.db")
    # the browser sends what only the copy has seen to the study itself, once
    assert study.append(rater, [late, late])[0].committed
    with Study(tmp_path / "asked.db", write=False) as copy:
        assert ratings(copy) == ratings(study)


def test_a_study_on_a_network_mount_is_served_by_one_server_only(tmp_path):
    path = copy_study(tmp_path, 1)
    with Study(path, network=True) as one:
        rater_in(one)
        assert "locked" in read_at_once(path)
    with Study(path, network=True) as again:
        assert len(again.raters()) == 1


def read_at_once(path):
    """Reads without waiting for a lock."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("SELECT * FROM meta").fetchall()
    except sqlite3.OperationalError as error:
        return str(error)
    finally:
        db.close()
    return "read"


def test_sixteen_raters_at_once(study):
    raters = [study.rater_of(c) for c in study.invite(16)]
    acknowledged, failures = [], []

    def work(rater):
        try:
            for task in study.tasks(rater):
                for side in (0, 1):
                    e = event("rate", task["id"], side=side, new=1 + (rater.id + side) % 5)
                    if study.append(rater, [e])[0].committed:
                        acknowledged.append((e.uuid, task["id"], side, e.new))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(r,)) for r in raters]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(acknowledged) == 16 * 2 * len(study.tasks(raters[0]))
    stored = {r["uuid"]: (r["task"], r["side"], r["new"])
              for r in study.rows("SELECT * FROM events")}  # fmt: skip
    assert stored == {u: (t, s, n) for u, t, s, n in acknowledged}
    assert check_study(study.path)["events"] == len(acknowledged)


CHANGES = {
    "an event changed": ["UPDATE events SET new = 5 WHERE id = 1"],
    "an event deleted": ["DELETE FROM events WHERE id = 1"],
    "the last events reordered": ["UPDATE events SET id = 1000 WHERE id = 1"],
    "an arm exchanged": [
        f"UPDATE sides SET arm = '{new}' WHERE clip = 1 AND arm = '{old}'"
        for old, new in (("macd", "x"), ("random-elsewhere", "macd"), ("x", "random-elsewhere"))
    ],
    "a picture changed": ["UPDATE sides SET media = zeroblob(10) WHERE id = 1"],
    "a clip added": [
        "INSERT INTO clips SELECT id + 1000, part, name, sha256, question, width, height, times,"
        " media, motion FROM clips WHERE id = 1"
    ],
    "a question changed": ["UPDATE clips SET question = 'Is there a cat?' WHERE id = 1"],
    "the plan changed": [
        "UPDATE meta SET value = replace(value, '\"raters\": 3', '\"raters\": 4')"
        " WHERE name = 'preregistration'"
    ],
}


@pytest.mark.parametrize("what", CHANGES)
def test_check_finds_what_was_changed_behind_its_back(study, rater, what):
    for task in study.tasks(rater)[:2]:
        rate(study, rater, task["id"], [2, 4])
    study.close()
    check_study(study.path)
    with thawed(study.path) as db:
        for change in CHANGES[what]:
            db.execute(change)
    with pytest.raises(StudyError):
        check_study(study.path)


@pytest.mark.parametrize("trigger", ["events_update", "clips_insert"])
def test_check_finds_what_is_not_frozen(study, trigger):
    study._db.execute(f"DROP TRIGGER {trigger}")
    with pytest.raises(StudyError, match="not frozen"):
        check_study(study.path)


def test_check_finds_damaged_bytes(study, rater):
    study.close()
    content = bytearray(study.path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    study.path.write_bytes(content)
    with pytest.raises((StudyError, sqlite3.DatabaseError)):
        check_study(study.path)
