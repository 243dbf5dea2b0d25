"""Where the disk does not last: ratings come back from the hub, and it may fail."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from macd_studio.ratings.answers import forks_of, read_answers
from macd_studio.ratings.branches import merge, read_shards
from macd_studio.ratings.check import check_study
from macd_studio.ratings.errors import StudyBusy, StudyError
from macd_studio.ratings.mirror import Mirror, download_shards, mirror_to_hub
from macd_studio.ratings.roster import PAUSED
from macd_studio.ratings.store import Study
from tests.ratings.studies import event, make_study, rate


class Failing:
    def __enter__(self):
        raise OSError("no space left")

    def __exit__(self, *_):
        return None


class Scheduler:
    """What a CommitScheduler does, without a hub."""

    def __init__(self, failing=False, **asked):
        self.lock, self.failing, self.triggered = threading.Lock(), failing, 0
        self.asked = asked

    def trigger(self):
        self.triggered += 1
        return self

    def result(self, timeout):
        assert timeout < 30
        if self.failing:
            raise ConnectionError("the hub is away")


@pytest.fixture
def frozen(tmp_path):
    """A study as it was created, which a Space starts from each time."""
    return make_study(tmp_path, 3, name="frozen.db")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shards").mkdir()
    return tmp_path / "shards"


def start(frozen, folder, name, scheduler=None):
    """A process on a fresh disk: restores what the folder holds, and goes on."""
    path = frozen.with_name(name)
    shutil.copy(frozen, path)
    study = Study(path)
    rows = read_shards([f.read_bytes() for f in sorted(folder.glob("*.jsonl"))])
    merge(study, rows)
    return study, Mirror(study, folder, scheduler or Scheduler(), rows)


def answers(study):
    return [(a.task, a.side, a.rating) for a in read_answers(study)]


def answers_of(path):
    with Study(path, write=False) as study:
        return answers(study)


def uuids(study):
    return [r["uuid"] for r in study.rows("SELECT uuid FROM history")]


def rate_all(study, code, rating):
    rater = study.rater_of(code)
    for task in study.tasks(rater):
        rate(study, rater, task["id"], (rating, rating))


def rate_next(study, ratings):
    rater = study.raters()[0]
    task = next(t["id"] for t in study.tasks(rater) if not t["done"])
    rate(study, rater, task, ratings)


def test_three_lives_of_a_space(frozen, folder):
    one, mirror = start(frozen, folder, "one.db")
    codes = one.invite(2)
    rate_next(one, (2, 4))
    one.control(PAUSED)
    mirror.close()
    assert mirror.scheduler.triggered == 1
    two, _ = start(frozen, folder, "two.db")
    assert answers(two) == answers(one)
    assert two.state == PAUSED
    assert two.rater_of(codes[1]).name == "R02"
    rate_next(two, (5, 1))
    three, _ = start(frozen, folder, "three.db")
    assert answers(three) == answers(two) != answers(one)
    assert len(list(folder.glob("*.jsonl"))) == 2  # the third had nothing new
    for study in (one, two, three):
        study.close()
    assert check_study(three.path)["events"] == 6
    lines = sum(len(f.read_text().splitlines()) for f in folder.glob("*.jsonl"))
    everything = 2 + 2 * 3 + 3 + 6  # raters, their screens, controls, events: each once
    assert lines == everything


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x1e", "\n"])
def test_a_note_with_any_end_of_line_comes_back(mark, frozen, folder):
    one, mirror = start(frozen, folder, "one.db")
    one.invite(1)
    rater = one.raters()[0]
    task = one.tasks(rater)[0]["id"]
    one.append(rater, [event("flag", task, note=f"two{mark}lines")])
    mirror.close()
    two, _ = start(frozen, folder, "two.db")
    assert [r["note"] for r in two.rows("SELECT note FROM events")] == [f"two{mark}lines"]
    one.close()
    two.close()
    assert check_study(two.path)["events"] == 1


def test_a_line_that_ends_within_a_character_loses_itself_alone():
    control = {"time": 1.0, "what": "open", "value": None, "writer": "a", "stamp": 1}
    whole = json.dumps(["controls", control]).encode() + b"\n"
    torn = json.dumps(["controls", control | {"what": "ü"}], ensure_ascii=False).encode()
    cut = torn[: torn.index("ü".encode()) + 1]
    assert read_shards([whole + cut]) == [("controls", control)]


@pytest.mark.parametrize("row", [{"time": 1.0}, {"id": 1, "time": 1.0, "what": "open"}])
def test_rows_of_a_later_version_are_refused(row):
    with pytest.raises(StudyError, match="later version"):
        read_shards([json.dumps(["controls", row]).encode()])


def test_a_failing_hub_holds_up_no_rating(frozen, folder):
    study, mirror = start(frozen, folder, "one.db", Scheduler(failing=True))
    study.invite(1)
    working, mirror.scheduler.lock = mirror.scheduler.lock, Failing()
    rate_next(study, (2, 4))  # acknowledged: it is on this disk
    assert len(study.rows("SELECT * FROM events")) == 3
    mirror.scheduler.lock = working
    rate_next(study, (3, 3))
    mirror.close()  # the upload fails, the server ends all the same
    again, _ = start(frozen, folder, "two.db")
    assert answers(again) == answers(study)
    again.close()
    study.close()


def test_a_line_that_was_cut_off_costs_only_itself(frozen, folder):
    study, _ = start(frozen, folder, "one.db")
    study.invite(1)
    rate_next(study, (2, 4))
    study.close()
    (shard,) = folder.glob("*.jsonl")
    shard.write_bytes(shard.read_bytes()[:-30])
    again, _ = start(frozen, folder, "two.db")
    assert len(again.rows("SELECT * FROM events")) == 2
    again.close()
    check_study(again.path)


def test_a_server_that_went_on_after_the_next_one_had_started(frozen, folder):
    """Both took ratings and raters; whoever starts next has all of it, and says so."""
    one, first = start(frozen, folder, "one.db")
    codes = one.invite(2)
    rate_next(one, (2, 4))
    two, second = start(frozen, folder, "two.db")
    late = [one.invite(1)[0], two.invite(1)[0]]
    for study, code in zip((one, two), late, strict=True):
        rate_all(study, code, 4)
    shared = event("consent")
    for study in (one, two):  # sent to both: the first answer was lost
        assert study.append(study.rater_of(codes[1]), [shared])[0].committed
    task = one.tasks(one.rater_of(codes[1]))[0]["id"]
    one.append(one.rater_of(codes[1]), [event("rate", task, side=0, new=1)])
    two.append(two.rater_of(codes[1]), [event("rate", task, side=0, new=5)])
    two.control(PAUSED)
    first.close()
    second.close()
    three, _ = start(frozen, folder, "three.db")
    acknowledged = {uuid for study in (one, two) for uuid in uuids(study)}
    assert set(uuids(three)) == acknowledged
    assert sorted(uuids(three)) == sorted(acknowledged)  # each once
    assert {c: three.rater_of(c).name for c in (*codes, *late)} == {
        codes[0]: "R01", codes[1]: "R02", late[0]: "R03", late[1]: "R04"}  # fmt: skip
    assert dict(((t, s), r) for t, s, r in answers(three))[task, 0] == 5  # the later one
    assert three.state == PAUSED
    (fork,) = forks_of(three)
    assert (fork.twice, fork.masks) == (1, 1)
    assert [b.raters for b in fork.branches] == [2, 2]
    rate_next(three, (3, 3))
    for study in (one, two, three):
        study.close()
    check_study(three.path)
    four, _ = start(frozen, folder, "four.db")  # what the third added continues both
    assert answers(four) == answers_of(three.path)
    assert forks_of(four) == [fork]
    four.close()
    check_study(four.path)


def test_the_log_tells_of_a_fork(frozen, folder, hub, tmp_path, caplog):
    one, _ = start(frozen, folder, "one.db")
    two, _ = start(frozen, folder, "two.db")
    for study in (one, two):
        rate_all(study, study.invite(1)[0], 2)
        study.close()
    hub.files = {f"ratings/{one.id}/{f.name}": str(f) for f in folder.glob("*.jsonl")}
    with Study(frozen) as fresh:
        mirror_to_hub(fresh, "somebody/ratings", tmp_path)
    assert "the study was forked before any event: server" in caplog.text
    assert "another server's R01 is R02 here" in caplog.text


@pytest.fixture
def hub(monkeypatch):
    """A hub with the files of `hub.files`, or one that is away."""
    import huggingface_hub

    class Hub:
        def __init__(self):
            self.files, self.away, self.made = {}, False, []

        def repo_exists(self, dataset, repo_type):
            if self.away:
                raise ConnectionError("away")
            return bool(self.files)

        def list_repo_files(self, dataset, repo_type):
            return list(self.files)

        def hf_hub_download(self, dataset, name, repo_type, cache_dir):
            return self.files[name]

    found = Hub()

    def scheduler(**asked):
        found.made.append(asked)
        return Scheduler(**asked)

    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: found)
    monkeypatch.setattr(huggingface_hub, "CommitScheduler", scheduler)
    return found


def test_it_is_restored_from_a_dataset(frozen, folder, hub, tmp_path):
    one, _ = start(frozen, folder, "one.db")
    one.invite(1)
    rate_next(one, (2, 4))
    hub.files = {f"ratings/{one.id}/{f.name}": str(f) for f in folder.glob("*.jsonl")}
    hub.files |= {"ratings/other/x.jsonl": "/nowhere", "README.md": "/nowhere"}
    (tmp_path / "new").mkdir()
    with Study(frozen) as fresh:
        mirror_to_hub(fresh, "somebody/ratings", tmp_path / "new")
        assert answers(fresh) == answers(one)
        (asked,) = hub.made
        assert (asked["repo_type"], asked["private"]) == ("dataset", True)
        assert asked["path_in_repo"] == f"ratings/{one.id}"
    assert not list((tmp_path / "new").iterdir())
    one.close()


def test_a_dataset_that_is_not_there_yet_is_empty(hub):
    assert download_shards(hub, "somebody/ratings", "ratings/x") == []


def test_a_hub_that_is_away_at_the_start(frozen, hub, tmp_path):
    """An empty study is not served beside ratings that may be there; one that has its own is."""
    hub.away = True
    with Study(frozen) as study:
        with pytest.raises(StudyBusy, match="cannot be read"):
            mirror_to_hub(study, "somebody/ratings", tmp_path)
        study.invite(1)
        rater = study.raters()[0]
        study.append(rater, [event("consent")])
        mirror_to_hub(study, "somebody/ratings", tmp_path)
        rate_next(study, (2, 4))
    (shard,) = tmp_path.glob("*.jsonl")
    tables = [json.loads(line)[0] for line in Path(shard).read_text().splitlines()]
    assert tables.count("events") == 4


def test_a_write_that_was_interrupted_damages_no_row(frozen, folder, monkeypatch):
    """A disk that is full in the middle of a line: the next rows do not follow half of one."""
    study, _mirror = start(frozen, folder, "first.db")
    (code,) = study.invite(1)
    real = Path.open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def truncate(self, size):
            return self.file.truncate(size)

        def write(self, content):
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            raise OSError(28, "No space left on device")

    def full(path, mode="r", *more):
        file = real(path, mode, *more)
        return Full(file) if mode == "ab" else file

    monkeypatch.setattr(Path, "open", full)
    rate_all(study, code, 4)
    monkeypatch.setattr(Path, "open", real)
    rate_next_of = study.rater_of(code)
    study.append(rate_next_of, [event("flag", study.tasks(rate_next_of)[0]["id"], note="x")])
    expected = uuids(study)
    study.close()
    for shard in folder.glob("*.jsonl"):
        for line in shard.read_bytes().splitlines():
            json.loads(line)
    second, _ = start(frozen, folder, "second.db")
    assert sorted(uuids(second)) == sorted(expected)
    assert answers(second) == answers_of(frozen.with_name("first.db"))
    second.close()
