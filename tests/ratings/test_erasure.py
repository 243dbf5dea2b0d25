"""A rater who is erased: what is left, in which files, and that the chain holds."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from macd_studio.ratings.branches import merge, read_rows, read_shards
from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.erasure import ERASED
from macd_studio.ratings.errors import Refused, StudyBusy, StudyError
from macd_studio.ratings.export import content_of, rows
from macd_studio.ratings.mirror import Mirror, forget_on_hub, lines_of
from macd_studio.ratings.render import markdown
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import CODE_HEADER
from tests.patience import PATIENCE_S
from tests.ratings.studies import event, make_study, rate, rater_in, raw, thawed
from tests.ratings.test_mirror import Scheduler

PLAN = {"clips": 3}
ROOT = Path(__file__).parents[2]
NOTE, PANEL = "my sister Ottilie is in this clip", "panel-id-4711"


def fill(study):
    """R01 and R03 who stay, R02 of a panel between them; gives what is known of R02 as bytes."""
    _, first = rater_in(study)
    code = study.admit_participant(study.recruit(), PANEL)
    person = study.rater_of(code)
    for task in study.tasks(first)[:2]:
        rate(study, first, task["id"], (3, 4))
    for task in study.tasks(person):
        rate(study, person, task["id"], (5, 1))
    task = study.tasks(person)[0]["id"]
    study.append(person, [event("flag", task, note=NOTE)])
    study.revoke("R02")
    study.revoke("R02", restore=True)
    _, last = rater_in(study)
    rate(study, last, study.tasks(last)[0]["id"], (2, 2))
    uuids = study.rows("SELECT uuid FROM events WHERE rater = ?", person.id)
    tasks = study.rows("SELECT id FROM tasks WHERE rater = ?", person.id)
    words = [NOTE, PANEL, person.code, *(r[0] for r in uuids), *(r[0] for r in tasks)]
    return code, [word.encode() for word in words]


def found_in(folder, words):
    """Words that any file of a folder holds."""
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return [word for word in words if any(word in content for content in contents)]


def others(study):
    found = study.rows("SELECT * FROM events WHERE rater <> 2 ORDER BY id")
    return [tuple(r) for r in found]


def test_nothing_of_the_rater_is_left_and_the_chain_holds(study):
    code, words = fill(study)
    before, kept = others(study), study.path.parent
    counts = check_study(study.path)
    assert found_in(kept, words) == words
    assert study.erase("R02") == 3 * 3 + 1
    assert found_in(kept, words) == []  # also of the log that is beside the open file
    assert others(study) == before
    assert check_study(study.path) == counts
    assert study.rater_of(code) is None
    _, late = rater_in(study)
    assert late.name == "R04"
    rate(study, late, study.tasks(late)[0]["id"], (4, 4))
    check_study(study.path)
    with pytest.raises(Refused, match="no rater 'R02'"):
        study.erase("R02")
    with pytest.raises(Refused, match="erased on request"):
        study.admit_participant(study.recruit(), PANEL)


def test_reports_and_exports_hold_only_that_somebody_was_erased(study):
    _, words = fill(study)
    study.erase("R02")
    report = figures(study, 50)
    text = markdown(report)
    assert "1 of 2 raters" not in text
    assert "2 of 2 raters have rated, 1 other was erased on request" in text
    assert "R02" not in text
    assert [r["rater"] for r in progress(study)["raters"]] == ["R01", "R03"]
    assert report["study"]["ratings"] == 2 * 2 + 2
    for kind in ("csv", "jsonl"):
        content = content_of(study, kind, participants=True)
        assert not [word for word in words if word in content]
        assert b"R02" not in content
    assert [r["event"] for r in rows(study)] == list(range(1, 3 + 3 + 3 + 1))


@pytest.mark.parametrize("change", [
    "UPDATE events SET new = 3 WHERE rater = 2",
    "UPDATE events SET note = 'x' WHERE id = (SELECT max(id) FROM events WHERE rater = 2)",
    "UPDATE events SET kind = 'rate' WHERE rater = 2",
    "UPDATE events SET kind = 'erased' WHERE rater = 1",
    "UPDATE events SET parents = chain WHERE rater = 2",
    "DELETE FROM events WHERE id = (SELECT min(id) FROM events WHERE rater = 2)",
    "DELETE FROM controls WHERE what = 'erase'",
    "UPDATE events SET new = 1 WHERE id = (SELECT max(id) FROM events WHERE rater = 3)",
])  # fmt: skip
def test_a_tombstone_hides_no_other_change(study, change):
    fill(study)
    study.erase("R02")
    study.close()
    with thawed(study.path) as db:
        db.execute(change)
    with pytest.raises(StudyError, match="was changed, or one before it is missing"):
        check_study(study.path)


def test_what_was_frozen_is_frozen_again(study):
    fill(study)
    study.erase("R02")
    with closing(sqlite3.connect(study.path)) as db, db:
        for change in ("UPDATE events SET new = 1", "DELETE FROM tasks", "DELETE FROM controls",
                       "UPDATE raters SET name = 'x'"):  # fmt: skip
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                db.execute(change)


def test_an_event_that_comes_after_the_erasure_is_refused(study):
    code, _ = fill(study)
    person = study.rater_of(code)  # looked up before
    study.erase("R02")
    with pytest.raises(Refused, match="opens no study"):
        study.append(person, [event("flag", None, note="late")])
    check_study(study.path)


def erase_and_kill(path, at):
    """Erases R02 in a process that is killed, see `tests.ratings.erase`; its end and output."""
    words = [sys.executable, "-m", "tests.ratings.erase", str(path), "R02", str(at)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert not done.stderr
    return done.returncode, done.stdout


def check_after_kill(folder, at):
    """Whether it was erased: wholly once the study is open again, or else all is as it was."""
    path = make_study(folder, 3)
    with Study(path) as study:
        _, words = fill(study)
        before = [tuple(r) for r in study.rows("SELECT * FROM events ORDER BY id")]
    assert erase_and_kill(path, at) == (-signal.SIGKILL, "")
    if at == "VACUUM":
        assert found_in(folder, words) != []  # in free space: a commit alone is not enough
    check_study(path)
    with Study(path) as study:
        now = [tuple(r) for r in study.rows("SELECT * FROM events ORDER BY id")]
        if erased := bool(study.erased()):
            kinds = study.rows("SELECT kind FROM events WHERE rater = 2")
            assert [r["kind"] for r in kinds] == 10 * [ERASED]
            assert found_in(folder, words) == []
        else:
            assert now == before
            assert study.erase("R02") == 10
    assert found_in(folder, words) == []
    check_study(path)
    return erased


@pytest.mark.parametrize(("at", "erased"), [
    ("BEGIN", False), ("UPDATE raters", False), ("COMMIT", False), ("VACUUM", True),
    ("PRAGMA wal_checkpoint", True)])  # fmt: skip
def test_a_killed_erasure_leaves_either_state(tmp_path, at, erased):
    assert check_after_kill(tmp_path, at) == erased


@pytest.mark.long
def test_an_erasure_that_is_killed_before_any_of_its_statements(tmp_path):
    path = make_study(tmp_path, 3)
    with Study(path) as study:
        fill(study)
    ended, statements = erase_and_kill(path, "none")
    assert ended == 0
    outcomes = []
    for at in range(int(statements)):
        (folder := tmp_path / str(at)).mkdir()
        outcomes.append(check_after_kill(folder, at))
    assert sorted(outcomes) == outcomes  # not before the commit, and always after it
    assert set(outcomes) == {False, True}


def test_a_full_disk_says_what_is_left_and_the_next_opening_does_it(study, monkeypatch):
    _, words = fill(study)

    class Full:
        def execute(self, sql, *values):
            if sql == "VACUUM":
                raise sqlite3.OperationalError("database or disk is full")
            return real.execute(sql, *values)

        def __getattr__(self, name):
            return getattr(real, name)

    real = study._db
    monkeypatch.setattr(study, "_db", Full())
    with pytest.raises(StudyBusy, match="was erased, but free space"):
        study.erase("R02")
    monkeypatch.setattr(study, "_db", real)
    study.close()
    with Study(study.path):
        assert found_in(study.path.parent, words) == []


def test_a_copy_that_comes_back_does_not_bring_the_rater(study, tmp_path):
    """Neither by a merge into the erased study, nor does a merge of it spare the other file."""
    _, words = fill(study)
    (tmp_path / "two").mkdir()
    other = tmp_path / "two" / "two.db"
    study.copy_to(other)
    with Study(other) as two:
        two._db.execute("PRAGMA secure_delete = OFF")  # as SQLite is built in most places
        person = two.raters()[1]
        two.append(person, [event("flag", two.tasks(person)[1]["id"], note=f"again: {NOTE}")])
        study.erase("R02")
        merge(study, read_rows(two))
        assert [w for w in words if w in study.path.read_bytes()] == []
        merge(two, read_rows(study))
        assert found_in(other.parent, words) == []
        assert {r.name: r.erased for r in two.raters()} == {"R01": False, "R02": True, "R03": False}
        here, there = (
            [
                (r["chain"], r["kind"])
                for r in s.rows("SELECT chain, kind FROM events ORDER BY stamp, writer, chain")
            ]
            for s in (study, two)
        )
        assert here == there
        assert [kind for _, kind in here].count(ERASED) == 11
    check_study(study.path)
    check_study(other)


def test_the_mirror_forgets_too(study, tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    mirror = Mirror(study, folder, Scheduler())
    _, words = fill(study)
    assert found_in(folder, words) == words
    study.erase("R02")
    assert found_in(folder, words) == []
    _, late = rater_in(study)
    rate(study, late, study.tasks(late)[0]["id"], (4, 4))
    mirror.close()
    assert mirror.scheduler.triggered == 2
    study_rows = read_rows(study)
    again = read_shards([f.read_bytes() for f in folder.glob("*.jsonl")])
    assert sorted(map(repr, again)) == sorted(map(repr, study_rows))


def test_the_hub_keeps_one_file_without_the_rater_and_no_history(study, tmp_path):
    before = read_rows(study)
    _, words = fill(study)
    everything = read_rows(study)
    place = f"ratings/{study.id}"
    files = {f"{place}/a.jsonl": lines_of(before + everything[: len(everything) // 2]),
             f"{place}/b.jsonl": lines_of(everything[len(everything) // 3 :]),
             "ratings/other/c.jsonl": b"x"}  # fmt: skip

    class Hub:
        squashed = 0

        def repo_exists(self, dataset, repo_type):
            return True

        def list_repo_files(self, dataset, repo_type):
            return list(files)

        def hf_hub_download(self, dataset, name, repo_type, cache_dir):
            path = Path(cache_dir) / "file"
            path.write_bytes(files[name])
            return path

        def create_commit(self, dataset, operations, commit_message, repo_type):
            for one in operations:
                if hasattr(one, "path_or_fileobj"):
                    files[one.path_in_repo] = one.path_or_fileobj
                else:
                    del files[one.path_in_repo]

        def super_squash_history(self, dataset, repo_type, commit_message):
            self.squashed += 1

    hub = Hub()
    forget_on_hub(hub, "somebody/ratings", place, study)
    assert (hub.squashed, len(files)) == (0, 3)  # nobody was erased
    study.erase("R02")
    for _ in range(2):
        forget_on_hub(hub, "somebody/ratings", place, study)
        assert hub.squashed == 1
        assert not [w for w in words for content in files.values() if w in content]
        assert files["ratings/other/c.jsonl"] == b"x"
    (name,) = [n for n in files if n.startswith(place)]
    kept = [r for r in read_shards([files[name]]) if r[0] == "events"]
    assert sorted(map(repr, kept)) == sorted(map(repr, [
        r for r in read_rows(study) if r[0] == "events"]))  # fmt: skip


def test_by_the_command(study, capsys):
    fill(study)
    assert main(["erase", str(study.path), "R02"]) == 0
    told = capsys.readouterr().out
    assert "R02 erased: 10 events" in told
    assert "exports and reports made before still hold it" in told
    assert main(["erase", str(study.path), "R09"]) == 2
    assert "there is no rater 'R09'" in capsys.readouterr().err
    assert main(["status", str(study.path)]) == 0
    assert "1 other was erased on request" in capsys.readouterr().out


def test_by_the_organiser_alone(study, client):
    organiser = {CODE_HEADER: make_study.last.organiser}
    code, _ = fill(study)
    assert NOTE in client.get("/organise/api/state", headers=organiser).text
    assert client.get("/rate/api/session", headers={CODE_HEADER: code}).status_code == 200
    for headers in ({}, {CODE_HEADER: code}):
        answer = client.post("/organise/api/erase", headers=headers, json={"rater": "R02"})
        assert answer.status_code == 401
    for bad, status in (({"rater": 2}, 400), ({}, 400), ({"rater": "R07"}, 404)):
        assert client.post("/organise/api/erase", headers=organiser, json=bad).status_code == status
    answer = client.post("/organise/api/erase", headers=organiser, json={"rater": "R02"})
    assert answer.json() == {"rater": "R02", "events": 10}
    assert NOTE not in client.get("/organise/api/state", headers=organiser).text
    assert client.get("/rate/api/session", headers={CODE_HEADER: code}).status_code == 401
    late = client.post("/rate/api/events", headers={CODE_HEADER: code},
                       json={"events": [raw("consent")]})  # fmt: skip
    assert late.status_code == 401
