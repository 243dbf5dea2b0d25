"""Who hands out clips: deaths, stragglers and failures, with a Ray that needs no processes."""

import sys
from dataclasses import replace

import pytest

from macd_studio.core.errors import BackboneNotFound, OptionError
from macd_studio.core.options import RunOptions
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running import ray_engine
from macd_studio.evals.running.answer import PendingAnswer
from macd_studio.evals.running.rows import Row, Setting, read_setting
from macd_studio.evals.running.run import complete
from tests.evals.fake_ray import FakeRay

SETTING = Setting("toyworld", RunOptions())


def wanted(clips):
    items = [Item(f"{c}/{i}", c, "r", "", "word", "What?", "dog") for c in clips for i in (0, 1)]
    return [PendingAnswer(i, "baseline", (1.0, 0.0), f"key-{i.id}") for i in items]


def answer(group):
    return [Row(w.key, w.item.id, w.method, w.item.clip) for w in group]


@pytest.fixture
def on(monkeypatch, tmp_path):
    """Runs clips on a fake Ray; returns it and the rows by key."""

    def start(clips, workers=2, answer=answer, deaths=None, slow=(), **how):
        ray = FakeRay(answer, deaths or {}, slow)
        monkeypatch.setattr(ray_engine, "import_ray", lambda: ray)
        engine = ray_engine.ray_engine(workers, **how)
        found = complete(wanted(clips), SETTING, tmp_path / "rows", engine)
        return ray, found

    return start


def lines(folder):
    return [z for p in (folder / "rows").glob("*.jsonl") for z in p.read_text().splitlines()]


def test_every_clip_is_answered_once(on, tmp_path):
    ray, found = on("abcde")
    assert sorted(found) == sorted(w.key for w in wanted("abcde"))
    assert len(lines(tmp_path)) == 10
    assert sorted(c for _, c in ray.calls)[:5] == list("abcde")
    assert (ray.started, ray.open) == (2, False)


def test_an_actor_reads_the_clip_that_it_gets_next(on):
    ray, _ = on("abcdef")
    for number in (1, 2):
        clips = [c for n, c in ray.calls if n == number]
        ahead = [c for n, c in ray.read_ahead if n == number]
        assert any(ahead)
        for hint, following in zip(ahead, clips[1:], strict=False):
            assert hint in (following, None)


def test_what_was_reserved_for_a_dead_actor_is_done_by_others(on, tmp_path):
    _, found = on("abcdef", deaths={"a": 2, "c": 1})
    assert {r.text for r in found.values()} == set("abcdef")
    assert not any(r.error for r in found.values())
    assert len(lines(tmp_path)) == 12


def test_an_actor_takes_what_it_has_read_ahead(monkeypatch):
    prepared, used = [], []

    class Preparing:
        def prepare(self, key, questions, objects):
            prepared.append(key)
            return f"prepared {key}"

    class Worker:
        def __init__(self, setting, tracks, objects):
            self.preparing = Preparing()

        def answer(self, group, ready=None):
            used.append(ready)
            return iter(())

    monkeypatch.setattr(ray_engine, "Worker", Worker)
    actor = ray_engine.Actor(SETTING, None, 1)
    groups = {c: wanted(c) for c in "abc"}
    actor.answer(groups["a"], ray_engine.clip_of(groups["b"]))
    actor.answer(groups["b"], ray_engine.clip_of(groups["c"]))
    actor.answer(groups["a"])  # another than was read ahead
    actor._pool.shutdown()
    assert prepared == ["b", "c"]
    assert used == [None, "prepared b", None]


def test_no_more_actors_than_clips(on):
    assert on("a", workers=4)[0].started == 1


def test_a_dead_actor_is_replaced_and_its_clip_done_again(on, tmp_path):
    ray, found = on("abc", deaths={"b": 1})
    assert {r.text for r in found.values()} == set("abc")
    assert ray.started == 3
    assert len(lines(tmp_path)) == 6


def test_a_clip_that_kills_every_actor_is_given_up_and_told(on):
    ray, found = on("abc", deaths={"b": 99})
    assert {r.text for r in found.values() if not r.error} == {"a", "c"}
    errors = [r.error for r in found.values() if r.error]
    assert len(errors) == 2
    assert all("3 times while it answered b" in e for e in errors)
    assert ray.started == 2 + ray_engine.ATTEMPTS


def test_a_run_in_which_all_actors_die_ends(on):
    with pytest.raises(OptionError, match="every worker ended"):
        on("abcdefgh", deaths=dict.fromkeys("abcdefgh", 99))


def test_an_idle_actor_takes_over_a_straggler_and_the_first_result_counts(on, tmp_path):
    ray, found = on("abcd", slow=("a",))
    assert [c for _, c in ray.calls].count("a") == 2
    assert len({n for n, c in ray.calls if c == "a"}) == 2
    assert len(found) == len(lines(tmp_path)) == 8


def test_an_error_that_is_ours_is_shown_as_such(on):
    def fail(group):
        raise BackboneNotFound("there is no backbone 'x'", "Choose another")

    with pytest.raises(BackboneNotFound, match="no backbone"):
        on("ab", answer=fail)


def test_what_is_there_is_not_asked_for_again(on, tmp_path):
    on("ab")
    ray, found = on("abc")
    assert {c for _, c in ray.calls} == {"c"}
    assert len(found) == 6
    assert len(lines(tmp_path)) == 6


def test_actors_get_their_share_of_the_machine(on):
    ray, _ = on("abc", workers=3, gpus_per_worker=0.5, threads=2)
    assert ray.resources == {"num_cpus": 2, "num_gpus": 0.5}
    assert ray.how["num_cpus"] == 6
    ray, _ = on("def", workers=2, address="ray://head:10001")
    assert ray.how["address"] == "ray://head:10001"
    assert "num_cpus" not in ray.how


@pytest.mark.parametrize("flags", [["--engine", "ray"], ["--workers", "2"]])
def test_without_ray_the_line_that_installs_it_is_printed(flags, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["run", "toyworld", *flags, "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "pip install 'macd-studio[ray]'" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--engine", "process", "--workers", "2"], "--workers needs Ray"),
        (["--engine", "process", "--address", "auto"], "--address needs Ray"),
        (["--gpus-per-worker", "-1"], "gpus-per-worker is -1"),
        (["--data", "x"], "--data is for benchmarks of video files"),
        (["--sample-fps", "1"], "--sample-fps is for benchmarks of video files"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags, named, capsys, tmp_path):
    assert main(["run", "toyworld", *flags, "--out", str(tmp_path)]) == 2
    assert named in capsys.readouterr().err


def test_how_weights_are_held_reaches_the_model(monkeypatch):
    from macd_studio.core import backbones
    from macd_studio.evals.running import engine

    asked = []
    monkeypatch.setattr(backbones, "load_backbone", lambda name, **how: asked.append((name, how)))
    engine._backbone.cache_clear()
    setting = replace(SETTING, backbone="a/b", offload=True)
    engine._backbone(setting.backbone, setting.held, setting.offload, "bfloat16")
    assert asked == [("a/b", {"weights": "as-is", "offload": True, "dtype": "bfloat16"})]
    engine._backbone.cache_clear()
    # no answer depends on it, so rows of either are those of the other
    assert read_setting(setting.as_dict()) == setting
    older = {k: v for k, v in SETTING.as_dict().items() if k not in ("held", "offload")}
    assert read_setting(older) == SETTING


def test_what_excludes_each_other_is_refused_before_anything_is_read(capsys):
    words = ["run", "toyworld", "--weights", "nf4", "--offload", "--backbone", "no/where"]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "offload" in err
