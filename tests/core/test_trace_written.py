"""What is written into a trace's file, at the edge of each bound."""

import io
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.decoding.contrast import score
from macd_studio.core.repeats import Repeats
from macd_studio.core.traces import write
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.traces.write import stored_frames
from macd_studio.core.types import TokenStep
from tests.core.test_bundle import same
from tests.core.test_trace_bounds import refused
from tests.core.test_trace_whole import whole_trace
from tests.small_trace import small_trace, taken_apart, token


@pytest.fixture(scope="module")
def trace():
    return whole_trace()


def test_numbers_and_manifest_may_be_as_many_as_the_bounds(monkeypatch, trace):
    manifest, members = taken_apart(pack(trace))
    arrays = [m for n, m in members.items() if n.startswith("arrays/")]
    numbers = sum(np.lib.format.read_array(io.BytesIO(a)).size for a in arrays)
    monkeypatch.setattr(write, "MAX_ITEMS", numbers)
    content = pack(trace)
    monkeypatch.setattr(write, "MAX_ITEMS", 10)
    refused(lambda: pack(trace), "more numbers than a trace can hold")
    monkeypatch.undo()
    monkeypatch.setattr(write, "MAX_MANIFEST", len(write._text(manifest)))
    assert pack(trace) == content
    monkeypatch.setattr(write, "MAX_MANIFEST", len(write._text(manifest)) - 1)
    thin, _ = taken_apart(pack(trace))
    assert [t["outlines"] for t in thin["tracks"]] == [[], []]


def test_of_a_run_of_too_many_numbers_fewer_candidates_are_saved(monkeypatch):
    """What is chosen at every α and β is the same, and a note says so."""
    rng = np.random.default_rng(0)
    base, other = rng.normal(0, 2, (2, 600)).astype(np.float32)
    log_z, other_log_z = (float(np.logaddexp.reduce(z.astype(float))) for z in (base, other))
    step = TokenStep(
        index=0, token=int(base.argmax()), text="t", candidates=np.arange(600),
        texts=tuple(map(str, range(600))), base=base, base_log_z=log_z, others=(other,),
        others_log_z=(other_log_z,),
    )  # fmt: skip
    small = small_trace()
    alone = replace(step, others=(), others_log_z=())
    plain = replace(small.answers["baseline"], tokens=(alone,))
    answer = replace(small.answers["macd"], tokens=(step,))
    large = replace(small, answers={"baseline": plain, "macd": answer}, evidence=())
    whole = unpack(pack(large))
    assert len(whole.answers["macd"].tokens[0].candidates) == 600
    monkeypatch.setattr(write, "MAX_ITEMS", 1800)
    saved = unpack(pack(large))
    (kept,) = saved.answers["macd"].tokens
    assert len(kept.candidates) < 400
    assert "more numbers than a file can hold" in saved.warnings[-1]
    for alpha in (0.5, 2.0, 9.0):
        best = score(base, other, alpha, 0.1, "probability").argmax()
        found = score(kept.base, kept.others[0], alpha, 0.1, "probability").argmax()
        assert kept.candidates[found] == best


def test_a_trace_without_model_frames_may_be_too_large_for_its_manifest(monkeypatch, trace):
    plain = replace(trace, model_frames=None)
    monkeypatch.setattr(write, "MAX_BYTES", write.ROOM)
    assert unpack(pack(plain)).model_frames is None


def test_the_file_is_packed(trace):
    from zipfile import ZIP_DEFLATED, ZipFile

    infos = ZipFile(io.BytesIO(pack(trace))).infolist()
    assert {i.compress_type for i in infos} == {ZIP_DEFLATED}
    assert infos[0].filename == "manifest.json"
    assert {i.date_time for i in infos} == {(1980, 1, 1, 0, 0, 0)}


def test_only_what_the_answer_does_not_tell_is_written(trace):
    members = taken_apart(pack(trace))[1]

    def names(end):
        return [n.split("_")[0].removeprefix("arrays/") for n in members if n.endswith(end)]

    assert names("_weights.npy") == names("_bias.npy") == ["answer3"]
    assert names("_hidden.npy") == names("_vision_tokens.npy") == ["answer2", "answer5"]
    assert names("_repeated.npy") == ["answer4"]
    rows = np.lib.format.read_array(io.BytesIO(members["arrays/answer3_weights.npy"]))
    assert rows.tolist() == [[1.5, -0.5, -np.inf], [2.5, 0.0, 0.5], [3.5, -0.75, 1.0]]


def test_hidden_tokens_are_kept_where_each_token_has_them(trace):
    answer = trace.answers["hidden"]
    first, second = answer.tokens
    some = replace(answer, tokens=(first, replace(second, hidden=None)))
    again = unpack(pack(replace(trace, answers=trace.answers | {"hidden": some})))
    assert [t.hidden for t in again.answers["hidden"].tokens] == [None, None]


def test_a_penalty_of_one_token_and_of_some(trace):
    answer = trace.answers["lowered"]
    one = replace(answer, tokens=answer.tokens[:1])
    again = unpack(pack(replace(trace, answers=trace.answers | {"lowered": one})))
    same(again.answers["lowered"].tokens, one.tokens)
    some = replace(answer, tokens=(answer.tokens[0], replace(answer.tokens[1], repeats=None)))
    again = unpack(pack(replace(trace, answers=trace.answers | {"lowered": some})))
    assert [t.repeats for t in again.answers["lowered"].tokens] == [None, None]
    at = Repeats(1.5, np.array([False, True, False]))
    tokens = (replace(token(0, True), repeats=at),)
    again = unpack(
        pack(replace(trace, answers=trace.answers | {"lowered": replace(answer, tokens=tokens)}))
    )
    assert again.answers["lowered"].tokens[0].repeats.at.tolist() == [False, True, False]


def test_frames_that_fit_are_not_drawn_again(monkeypatch):
    frames = np.random.default_rng(0).integers(0, 255, (2, 30, 40, 3), np.uint8)
    for picture in (1200, 2700):  # as large as may be, and with room
        monkeypatch.setattr(write, "PICTURE_PIXELS", picture)
        for most in (2 * 1200, 2 * 2700):
            assert all(np.shares_memory(f, frames) for f in write._within(frames, most))
    monkeypatch.setattr(write, "PICTURE_PIXELS", 1199)
    assert {f.shape for f in write._within(frames, 10**9)} == {(29, 39, 3)}


def test_second_views_are_stored_with_a_loss():
    """They are for looking at; frames that the model reads are exact."""
    import cv2

    noise = np.random.default_rng(5).normal(128, 500, (2, 64, 64, 3))
    frames = np.stack([cv2.GaussianBlur(f, (0, 0), 4) for f in noise]).clip(0, 255).astype(np.uint8)
    made = write._differing("shown1_0", frames, np.zeros_like(frames))
    assert {name: exact for name, (_, exact) in made.items()} == {
        "shown1_0/0000.webp": False, "shown1_0/0001.webp": False,
    }  # fmt: skip
    one = write._differing("shown2_1", frames, np.stack([frames[0], 0 * frames[1]]))
    assert list(one) == ["shown2_1/0001.webp"]
    assert one["shown2_1/0001.webp"][0] is not None
    trace = small_trace()
    assert stored_frames(trace).shape == trace.frames.shape
