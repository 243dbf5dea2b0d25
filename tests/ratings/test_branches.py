"""Branches of one study: merged in either direction they are the same, and nothing is lost."""

import json
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest

from macd_studio.ratings.answers import forks_of, read_answers
from macd_studio.ratings.branches import merge, read_rows, read_shards
from macd_studio.ratings.chain import link
from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.errors import StudyError
from macd_studio.ratings.export import rows
from macd_studio.ratings.store import Study
from tests.ratings.studies import copy_study, event, known, make_study, rate, rater_in, thawed

DATA = Path(__file__).parent / "data" / "version1.zip"


def answers(study):
    """By rater's code, as numbers are of one file alone."""
    codes = {r.id: r.code for r in study.raters()}
    return {(codes[a.rater], a.task, a.side): a.rating for a in read_answers(study)
            if a.rating is not None}  # fmt: skip


def merged(one, two):
    """The first study with the rows of the second."""
    with Study(one) as study, Study(two, write=False) as other:
        return merge(study, read_rows(other))


@pytest.fixture
def old(tmp_path):
    """Files written by version 1: a study as created, one served twice side by side, the mirror of
    both, and what they held."""
    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path / "old")
    folder = tmp_path / "old"
    return folder, json.loads((folder / "expected.json").read_text())


def test_a_study_of_version_1_is_read_as_it_is(old):
    folder, expected = old
    before = (folder / "study.db").read_bytes()
    assert check_study(folder / "study.db") == {"items": 4, "raters": 3, "events": 21}
    with Study(folder / "study.db", write=False) as study:
        assert [[a.task, a.side, a.rating] for a in read_answers(study)
                if a.rating is not None] == expected["answers_a"]  # fmt: skip
        assert [r["uuid"] for r in rows(study)] == expected["events_a"]
        assert {r.name: r.revoked for r in study.raters()} == dict.fromkeys(
            ("R01", "R02", "R03"), False)  # fmt: skip
    assert (folder / "study.db").read_bytes() == before
    assert main(["report", str(folder / "study.db"), "--out", str(folder / "report.md")]) == 0


def test_a_study_of_version_1_is_served(old):
    folder, expected = old
    with Study(folder / "fork.db") as study:
        assert study.is_organiser(expected["organiser"])
        assert study.rater_of(expected["b"]).revoked
        rater = study.rater_of(expected["codes"][1])
        same = study.rows("SELECT * FROM events WHERE uuid = ?", expected["both"])
        assert len(same) == 1
        task = study.tasks(rater)[0]["id"]
        assert study.append(rater, [event("rate", task, side=0, old=2, new=4)])[0].committed
        study.admit("somebody")
    assert check_study(folder / "fork.db")["events"] == 19
    db = sqlite3.connect(folder / "fork.db")
    for table in ("events", "controls"):  # as frozen as before
        for change in (f"UPDATE {table} SET stamp = 1", f"DELETE FROM {table}"):
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                db.execute(change)
    db.close()


@pytest.mark.parametrize(
    "change", ["UPDATE events SET new = 5 WHERE id = 1", "UPDATE events SET server_time = 1.0",
               "DELETE FROM events WHERE id = 3", "UPDATE events SET rater = 2 WHERE id = 2"],
)  # fmt: skip
def test_check_finds_what_was_changed_in_version_1(old, change):
    path = old[0] / "study.db"
    with thawed(path) as db:
        db.execute(change)
    with pytest.raises(StudyError):
        check_study(path)


def test_a_study_that_is_damaged_is_not_migrated(old):
    path = old[0] / "study.db"
    db = sqlite3.connect(path)
    db.execute("DROP INDEX events_of_task")  # which the migration expects
    db.close()
    before = path.read_bytes()
    with pytest.raises(StudyError):
        Study(path)
    assert path.read_bytes()[100:] == before[100:]  # but for the header's count of changes


def test_branches_of_version_1_are_merged(old, capsys):
    """What version 1 could not start from any more."""
    folder, expected = old
    other = folder / "other.db"
    shutil.copy(folder / "fork.db", other)
    found = merged(other, folder / "study.db")
    assert merged(folder / "study.db", folder / "fork.db").events == 8
    results = []
    for path in (folder / "study.db", other):
        counts = check_study(path)
        with Study(path) as study:
            assert sorted(r["uuid"] for r in rows(study)) == sorted(
                {*expected["events_a"], *expected["events_b"]})  # fmt: skip
            assert study.rater_of(expected["b"]).revoked
            assert not study.rater_of(expected["a"]).revoked
            assert {r.name for r in study.raters()} == {"R01", "R02", "R03", "R04"}
            results.append((answers(study), [r["uuid"] for r in rows(study)], forks_of(study)))
            assert counts["events"] == len(expected["events_a"]) + 8
    assert results[0] == results[1]
    by_mask = {(task, side): rating for (_, task, side), rating in results[0][0].items()}
    assert by_mask[expected["task"], 0] == 5  # the later one
    (fork,) = found.forks
    assert (fork.twice, fork.masks) == (1, 2)
    assert found.renamed == (("R03", "R04"),)


def test_the_mirror_of_version_1_is_restored_with_both_branches(old):
    folder, expected = old
    shards = read_shards([f.read_bytes() for f in sorted((folder / "shards").glob("*.jsonl"))])
    with Study(folder / "frozen.db") as study:
        merge(study, shards)
        assert sorted(r["uuid"] for r in rows(study)) == sorted(
            {*expected["events_a"], *expected["events_b"]})  # fmt: skip
        restored = answers(study), [r["uuid"] for r in rows(study)]
        assert [study.rater_of(expected[n]).revoked for n in ("a", "b")] == [False, True]
    check_study(folder / "frozen.db")
    merged(folder / "study.db", folder / "fork.db")
    with Study(folder / "study.db", write=False) as study:
        assert (answers(study), [r["uuid"] for r in rows(study)]) == restored
    assert merged(folder / "frozen.db", folder / "study.db").events == 0  # they are the same ones


@pytest.fixture
def pair(tmp_path):
    """Two files of one study with ratings that they have in common."""
    one = copy_study(tmp_path, 3, gold=(known(1),), arms=("macd", "random-elsewhere", "mask-all"))
    with Study(one) as study:
        code, rater = rater_in(study)
        rate(study, rater, study.tasks(rater)[0]["id"], [2, 4])
    two = tmp_path / "two.db"
    shutil.copy(one, two)
    return one, two, code


def test_the_order_is_that_of_both_clocks_and_of_what_each_server_knew(pair):
    """One clock is an hour slow: its events come first, but after what it had seen."""
    one, two, code = pair
    for path, offset, new in ((one, -3600.0, 1), (two, 0.0, 5)):
        with Study(path, clock=lambda offset=offset: 2e9 + offset) as study:
            rater = study.rater_of(code)
            task = study.tasks(rater)[1]["id"]
            for value in (3, new):
                study.append(rater, [event("rate", task, side=0, new=value)])
    with Study(one, clock=lambda: 5.0) as study, Study(two, write=False) as other:
        merge(study, read_rows(other))
        by_mask = {(a.task, a.side): a.rating for a in read_answers(study)}
        assert by_mask[task, 0] == 5
        late = event("rate", task, side=0, old=5, new=2)
        study.append(study.rater_of(code), [late])  # by a clock of 1970, and yet the last
        assert {(a.task, a.side): a.rating for a in read_answers(study)}[task, 0] == 2
        exported = {r["uuid"]: r for r in rows(study)}
        assert exported[late.uuid]["stands"]
        assert sum(r["conflict"] for r in exported.values()) == 3  # 3 → 1 → 3 → 5, unaware
    check_study(one)


def test_what_was_merged_is_held_by_the_chain(pair):
    """The end of each branch is continued by the next event: neither can be taken out."""
    one, two, code = pair
    for path in (one, two):
        with Study(path) as study:
            rater = study.rater_of(code)
            study.append(rater, [event("consent")])
            ends = study.row("SELECT id, chain FROM events ORDER BY id DESC LIMIT 1")
    merged(one, two)
    with Study(one) as study:
        study.append(study.rater_of(code), [event("consent")])
        last = study.row("SELECT * FROM events ORDER BY id DESC LIMIT 1")
        assert len(last["parents"].split()) == 2
        assert ends["chain"] in last["parents"]
    check_study(one)
    with thawed(one) as db:
        db.execute("DELETE FROM events WHERE chain = ?", (ends["chain"],))
        db.execute("UPDATE events SET id = ? WHERE id = ?", (last["id"] - 1, last["id"]))
    with pytest.raises(StudyError, match="missing"):
        check_study(one)


def test_merging_again_adds_nothing(pair, capsys):
    one, two, code = pair
    for path in (one, two):
        with Study(path) as study:
            rater_in(study)
            study.append(study.rater_of(code), [event("consent")])
    words = ["merge", str(one), str(two)]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "1 event and 1 rater added" in told
    assert "another server's R02 is R03 here" in told
    assert "the study was forked after the event of 20" in told
    assert "All are kept" in told
    size = Path(one).stat().st_size
    assert main(words) == 0
    assert capsys.readouterr().out == "0 events and 0 raters added\n"
    assert Path(one).stat().st_size == size
    with Study(one) as study:  # the next invitation finds a free name
        study.invite(2)
        assert [r.name for r in study.raters()] == ["R01", "R02", "R03", "R04", "R05"]
    assert main(["status", str(one)]) == 0
    assert "the study was forked" in capsys.readouterr().out
    assert main(["report", str(one)]) == 0
    assert "was forked" in capsys.readouterr().out


def test_what_is_no_branch_is_refused(pair, tmp_path, capsys):
    one, _, _ = pair
    other = make_study(tmp_path, 3, name="other.db")
    (tmp_path / "x.jsonl").write_text('["events", {"later": 1}]\n')
    for branch, words in ((other, "another study"), (tmp_path / "x.jsonl", "later version"),
                          (tmp_path / "none.jsonl", "cannot be read"),
                          (tmp_path / "none.db", "no study")):  # fmt: skip
        assert main(["merge", str(one), str(branch)]) == 2
        assert words in capsys.readouterr().err


def test_a_branch_that_does_not_fit_changes_nothing(pair):
    one, two, code = pair
    with Study(two) as study:
        rater_in(study)
        study.append(study.rater_of(code), [event("consent")])
        found = read_rows(study)
    with Study(one) as study:
        before = [dict(r) for r in study.rows("SELECT * FROM raters")]
        broken = [(t, r | {"clip": 99} if t == "tasks" else r) for t, r in found]
        with pytest.raises(StudyError, match="does not fit"):
            merge(study, broken)
        assert [dict(r) for r in study.rows("SELECT * FROM raters")] == before
        altered = [(t, r | {"note": "x"} if t == "events" else r) for t, r in found]
        assert merge(study, altered).changed == 1
    with pytest.raises(StudyError, match="was changed"):
        check_study(one)


def test_signing_in_at_two_servers_gives_the_same_screens(pair):
    one, two, _ = pair
    plans = []
    for path, before in ((one, 1), (two, 2)):
        with Study(path) as study:
            study.invite(before)
            own = study.admit("4711")
            rater = study.rater_of(own)
            plans.append([dict(r) | {"rater": 0} for r in study.rows(
                "SELECT * FROM tasks WHERE rater = ? ORDER BY position", rater.id)])  # fmt: skip
            rate(study, rater, plans[-1][before]["id"], [before, before])
    assert plans[0] == plans[1]
    merged(one, two)
    with Study(one) as study:
        rater = study.rater_of(own)
        tasks = study.tasks(rater)
        assert len(tasks) == len(plans[0])
        assert [t["ratings"] for t in tasks[1:3]] == [[1, 1], [2, 2]]
    check_study(one)


def test_two_plans_of_one_rater_lose_no_rating(pair):
    """Version 1 drew the screens of somebody who signed in at each server anew."""
    one, two, _ = pair
    for path in (one, two):
        with Study(path) as study:
            own = study.admit("4711")
            rater = study.rater_of(own)
            tasks = study.tasks(rater)
            rate(study, rater, tasks[1]["id"], [2, 4])
            found = read_rows(study)
    other = {task["id"]: f"{i:032x}" for i, task in enumerate(tasks)}
    changed = []
    for table, row in found:
        if table == "tasks" and row["id"] in other:
            row = row | {"id": other[row["id"]]}
        if table == "events" and row["task"] in other:
            row = row | {"task": other[row["task"]]}
        changed.append((table, row))
    with Study(one) as study:
        assert merge(study, changed).events == 3
        rater = study.rater_of(own)
        assert [t["done"] for t in study.tasks(rater)] == [False, True, *[False] * 2, True]
        assert len(study.tasks(rater)) == len(tasks) + 1  # the one with a rating, and no other


def test_a_part_of_a_branch_takes_no_name_twice(pair):
    one, two, _ = pair
    with Study(two) as study:
        study.invite(2)
        late = [row for row in read_rows(study) if row[1].get("name") != "R02"]
        missing = {r["code_sha256"] for t, r in read_rows(study) if r.get("name") == "R02"}
    with Study(one) as study:
        merge(study, [row for row in late if row[1].get("rater") not in missing])
        assert [r.name for r in study.raters()] == ["R01", "R03"]
        study.invite(2)
        assert [r.name for r in study.raters()] == ["R01", "R03", "R04", "R05"]
        with pytest.raises(StudyError, match="does not fit"):
            merge(study, [row for row in late if row[0] == "tasks"])


@pytest.mark.parametrize("version", [1, 2])
def test_check_finds_events_given_to_another_rater(old, pair, version):
    """Who sent an event is signed; of version 1 its screen tells."""
    path = old[0] / "study.db" if version == 1 else pair[0]
    with Study(path) as study:
        if version == 2:
            study.append(study.raters()[0], [event("consent")])
            study.invite(1)
    check_study(path)
    kind = "rate" if version == 1 else "consent"
    with thawed(path) as db:
        db.execute("UPDATE events SET rater = 3 - rater WHERE kind = ? AND rater < 3", (kind,))
    with pytest.raises(StudyError, match="was changed"):
        check_study(path)


def test_an_event_is_known_by_all_that_it_says():
    first = {name: None for name in ("uuid", "signer", "task", "side", "kind", "old", "new", "note",
             "tab", "count", "client_time", "elapsed_ms", "server_time", "conflict")}  # fmt: skip
    first |= {"writer": "a", "stamp": 1, "parents": "p"}
    digests = {link(first | {name: 1.5}) for name in first} | {link(first)}
    assert len(digests) == len(first) + 1
