"""What is kept between runs, held to small models of it: the newest values, reads, files."""

import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from macd_studio.core.run.cache import StageCache, run_in_thread, tracks_cache
from macd_studio.core.system.recent import Recent
from macd_studio.core.types import Clip
from tests.patience import PATIENCE_S
from tests.small_trace import small_trace

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "get", "make", "forget"]), st.integers(0, 5), st.integers(1, 4)
    )
)  # fmt: skip


@given(OPERATIONS)
def test_recent_values_are_those_of_a_list_in_order(operations):
    """Against a list of pairs, the one used last at its end."""
    kept, model, made = Recent(6, lambda value: value % 10), [], 0
    for what, key, value in operations:
        value += 10 * (made := made + 1)  # no two values are equal; the size is the last digit
        found = dict(model).get(key)
        if what == "get":
            assert kept.get(key) == found
        elif what == "make":
            assert kept.get_or_make(key, lambda value=value: value) == (found or value)
        if what == "forget":
            kept.forget(lambda old, key=key: old % 3 == key % 3)
            model = [(k, v) for k, v in model if v % 3 != key % 3]
        elif what == "put" or (what == "make" and found is None):
            kept.put(key, value)
            model = [(k, v) for k, v in model if k != key] + [(key, value)]
            while sum(v % 10 for _, v in model) > 6:
                model.pop(0)
        elif found is not None:
            model = [(k, v) for k, v in model if k != key] + [(key, found)]
        assert list(kept.values()) == [v for _, v in model]
        assert [key in kept for key in range(6)] == [key in dict(model) for key in range(6)]


def test_a_value_is_made_once_and_kept_under_its_key():
    kept, made = Recent(2), []
    for _ in range(2):
        assert kept.get_or_make("a", lambda: made.append(1) or "first") == "first"
    assert made == [1]
    assert kept.get("a") == "first"
    assert "b" not in kept


def clip(seed=0):
    frames = np.full((2, 4, 4, 3), seed, np.uint8)
    return Clip(frames=frames, times=np.array([0.0, 1.0]), dense_frames=frames,
                dense_times=np.array([0.0, 1.0]), name="clip", sha256=f"{seed:064d}", duration=2.0,
                size=(4, 4))  # fmt: skip


def encoded(ids=(1, 2, 3, 9), at=None, pixel=0):
    """A prompt of four tokens of which the last one is the question."""
    pixels = np.full((2, 4, 4, 3), pixel, np.uint8)
    inputs = {} if at is None else {"position_ids": torch.tensor([at])}
    return SimpleNamespace(query=np.array([3]), input_ids=torch.tensor([ids]), inputs=inputs,
                           frames=SimpleNamespace(pixels=pixels))  # fmt: skip


def test_a_stage_cache_keeps_four_results_and_no_read_unless_asked():
    cache = StageCache()
    assert cache.keep_prefill is False
    assert StageCache(keep_prefill=True).keep_prefill is True
    for i in range(5):
        cache.put(i, str(i))
    assert [cache.get(i) for i in range(5)] == [None, "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("change", "serves"),
    [
        ({}, True), ({"ids": (1, 2, 3, 8)}, True), ({"ids": (1, 2, 4, 9)}, False),
        ({"pixel": 1}, False), ({"at": (0, 1, 2, 7)}, True), ({"at": (0, 1, 3, 3)}, False),
        ({"at": None}, False),
    ],
)  # fmt: skip
def test_a_read_serves_another_question_after_the_same_prompt(change, serves):
    cache, lm, state = StageCache(keep_prefill=True), object(), object()
    assert cache.prefill_for(lm, encoded()) is None
    cache.put_prefill(lm, encoded(at=(0, 1, 2, 3)), state)
    asked = encoded(**{"at": (0, 1, 2, 3)} | change)
    assert cache.prefill_for(lm, asked) is (state if serves else None)
    assert cache.prefill_for(object(), asked) is None
    cache.put_prefill(lm, encoded(), state)  # a model without positions
    assert cache.prefill_for(lm, encoded()) is state
    assert cache.prefill_for(lm, encoded(at=(0, 1, 2, 3))) is None


def test_frames_are_forgotten_and_objects_stay():
    cache, state = StageCache(keep_prefill=True), object()
    first, trace = clip(1), small_trace()
    cache.put("clip", first)
    cache.put("tracks", trace.tracks)
    read = encoded()
    cache.put_prefill("lm", read, state)
    assert [id(part) for part in cache.frames()] == [id(first), id(read), id(state)]
    cache.forget_frames()
    assert cache.frames() == []
    assert cache.get("clip") is None
    assert cache.get("tracks") is trace.tracks
    assert cache.prefill_for("lm", read) is None
    assert cache.keep_prefill is True
    cache.put_prefill("lm", read, state)
    cache.forget_prefill()
    assert cache.keep_prefill is False
    assert cache.frames() == []


def test_tracks_are_kept_by_detector_device_and_the_files_behind_it(tmp_path):
    folder, weights = tmp_path / "detector", tmp_path / "yolo.pt"
    (folder / "deep").mkdir(parents=True)
    inner = folder / "deep" / "model.bin"
    inner.write_bytes(b"one")
    weights.write_bytes(b"one")
    names = [str(folder), str(weights), str(tmp_path / "yolo")]
    caches = [tracks_cache("clip.mp4", name, "cpu") for name in names]
    assert len({id(cache) for cache in caches}) == 3
    assert [tracks_cache("other.mp4", name, "cpu") for name in names] == caches
    assert tracks_cache("clip.mp4", names[0], "cuda") is not caches[0]
    for path in (inner, weights):  # another file of the same length
        path.write_bytes(b"two")
        os.utime(path, ns=(1, 1))
    assert all(
        tracks_cache("clip.mp4", n, "cpu") is not c for n, c in zip(names, caches, strict=True)
    )


def test_files_of_one_time_and_size_are_told_apart_by_their_names(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.bin").write_bytes(b"same")
        os.utime(tmp_path / name / "w.bin", ns=(5, 5))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    first = tracks_cache("clip.mp4", str(tmp_path / "link"), "cpu")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert tracks_cache("clip.mp4", str(tmp_path / "link"), "cpu") is not first


def test_a_call_in_a_thread_gives_its_value_or_its_error_and_holds_nothing_up():
    seen = []

    def call():
        thread = threading.current_thread()
        seen.append((thread.name, thread.daemon))
        return 7

    assert run_in_thread(call).result(timeout=PATIENCE_S) == 7
    assert seen == [("load", True)]
    error = ValueError("no weights")

    def fail():
        raise error

    assert run_in_thread(fail).exception(timeout=PATIENCE_S) is error
