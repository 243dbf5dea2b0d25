"""A trace in which every field holds something comes back whole; damage is named by its place."""

import io
import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from macd_studio.core.decoding.contrast import score
from macd_studio.core.errors import TraceError
from macd_studio.core.repeats import Repeats
from macd_studio.core.traces import write
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.traces.write import stored_frames
from macd_studio.core.types import Answer, ModelFrames, ShownView, StepWeights, TokenStep
from macd_studio.core.view_records import PrunedTokensView
from tests.core.test_bundle import same
from tests.small_trace import npy, put_together, small_trace, taken_apart, token


def weighed(index, others, floor, bias=(), two=True):
    weights = StepWeights(1.5 + index, others, floor, bias)
    return replace(token(index, two), weights=weights)


def whole_trace():
    """The small trace with weights, biases, penalties and hidden tokens."""
    trace = small_trace()
    second = ShownView(PrunedTokensView(2, 0.2, (1, 1, 3)))
    ruled = Answer(
        "ruled", "no", (
            weighed(0, (-0.5,), -np.inf, ((5, 0.25), (9, -1.0))),
            replace(weighed(1, (), 0.5, two=False), others=(), others_log_z=()),
            weighed(2, (-0.75,), 1.0, ((7, 2.0),)),
        ), True, rule="delta", second_views=(second,),
    )  # fmt: skip
    at = [np.array([True, False, True]), np.array([False, False, True])]
    lowered = Answer(
        "lowered", "no", tuple(
            replace(token(i, True), repeats=Repeats(1.25, at[i])) for i in range(2)
        ), False, 1.0, 0.1, second_views=(second,),
    )  # fmt: skip
    hidden = Answer(
        "hidden", "no", tuple(
            token(i, True, np.array([i == 0] * 5 + [True] * 5)) for i in range(2)
        ), True, 0.5, 0.1, second_views=(second,),
    )  # fmt: skip
    more = {a.method: a for a in (ruled, lowered, hidden)}
    return replace(trace, answers=trace.answers | more)


def refused(call, why):
    with pytest.raises(TraceError, match=why) as error:
        call()
    assert error.value.remedy


@pytest.fixture(scope="module")
def trace():
    return whole_trace()


def test_every_field_comes_back(trace):
    again = unpack(pack(trace))
    same(replace(trace, frames=again.frames, answers={}), replace(again, answers={}))
    for name, answer in trace.answers.items():
        found = again.answers[name]
        same(replace(answer, second_views=()), replace(found, second_views=()))
        for one, other in zip(answer.second_views, found.second_views, strict=True):
            same(one.view, other.view)
            assert (one.shown is None) == (other.shown is None)
    assert np.abs(again.frames.astype(int) - trace.frames).mean() < 40  # source frames are lossy
    same(again.model_frames, trace.model_frames)  # and what the model read is not


@pytest.fixture(scope="module")
def smooth():
    """The small trace with frames that are smaller with a loss."""
    noise = np.random.default_rng(5).normal(128, 500, (2, 320, 320, 3))
    frames = np.stack([cv2.GaussianBlur(f, (0, 0), 4) for f in noise]).clip(0, 255).astype(np.uint8)
    trace = small_trace()
    read = ModelFrames(frames, trace.times, 2.0, (0, 0, 320, 320))
    answers = {n: replace(a, second_views=()) for n, a in trace.answers.items() if n == "baseline"}
    return replace(trace, frames=frames, model_frames=read, answers=answers, evidence=(), enough=())


def test_stored_frames_are_those_of_the_file(smooth):
    again = unpack(pack(smooth))
    np.testing.assert_array_equal(stored_frames(smooth), again.frames)
    assert not np.array_equal(again.frames, smooth.frames)
    np.testing.assert_array_equal(again.model_frames.pixels, smooth.model_frames.pixels)
    members = taken_apart(pack(smooth))[1]
    assert len(members["frames/0000.webp"]) < len(members["model/0000.webp"])


def test_a_text_that_a_model_wrote_beyond_ascii_stays_and_the_manifest_is_ascii(trace):
    odd = replace(trace, question="¿Un perro? 狗", truth="")
    manifest, _ = taken_apart(pack(odd))
    assert manifest["question"] == "¿Un perro? 狗"
    assert write._text({"q": "狗"}).isascii()
    with pytest.raises(ValueError, match="JSON"):
        write._text({"q": float("nan")})
    with pytest.raises(ValueError, match="Object arrays"):
        write._npy(np.array([{}], object))


@pytest.mark.parametrize(
    ("shape", "most", "picture", "expected"),
    [
        ((2, 30, 40), 2 * 1200, 10**6, (30, 40)),  # exactly the most there may be
        ((2, 30, 40), 2 * 300, 10**6, (15, 20)),
        ((2, 30, 40), 2 * 299, 10**6, (14, 19)),
        ((2, 30, 40), 10**6, 300, (15, 20)),
        ((1, 2, 4000), 800, 10**6, (1, 1264)),
        ((4, 100, 1), 4, 10**6, (10, 1)),
    ],
)  # fmt: skip
def test_frames_are_made_smaller_to_fit(monkeypatch, shape, most, picture, expected):
    monkeypatch.setattr(write, "PICTURE_PIXELS", picture)
    frames = np.random.default_rng(0).integers(0, 255, (*shape, 3), np.uint8)
    found = write._within(frames, most)
    assert {f.shape for f in found} == {(*expected, 3)}
    assert len(found) == len(frames)
    if expected == shape[1:]:
        assert all(a is b or np.array_equal(a, b) for a, b in zip(found, frames, strict=True))
    else:
        assert abs(float(np.mean(found)) - float(frames.mean())) < 12


@pytest.mark.parametrize(
    ("pixels", "picture", "kept"),
    [(512, 256, True), (511, 256, False), (512, 255, False), (10**6, 10**6, True)],
)
def test_what_the_model_read_is_left_out_above_a_bound(monkeypatch, trace, pixels, picture, kept):
    monkeypatch.setattr(write, "MODEL_PIXELS", pixels)
    monkeypatch.setattr(write, "PICTURE_PIXELS", picture)
    assert write._keeps_model_frames(trace) is kept
    if picture > 255:
        assert (unpack(pack(trace)).model_frames is not None) is kept
    assert write._keeps_model_frames(replace(trace, model_frames=None)) is False


def test_a_run_of_many_numbers_or_bytes_is_refused_or_thinned(monkeypatch, trace):
    monkeypatch.setattr(write, "MAX_ITEMS", 10)
    with pytest.raises(TraceError, match="more numbers than a trace can hold"):
        pack(trace)
    monkeypatch.undo()
    whole = sum(len(m) for m in taken_apart(pack(trace))[1].values())
    monkeypatch.setattr(write, "MAX_BYTES", whole + write.ROOM)
    assert unpack(pack(trace)).model_frames is not None
    monkeypatch.setattr(write, "MAX_BYTES", whole + write.ROOM - 1)
    assert unpack(pack(trace)).model_frames is None
    monkeypatch.undo()
    monkeypatch.setattr(write, "MAX_MANIFEST", len(json.dumps(taken_apart(pack(trace))[0])) - 600)
    thin = unpack(pack(trace))
    assert all(not t.outlines for t in thin.tracks)
    assert thin.warnings == (
        *trace.warnings,
        "outlines were too many to be saved; boxes are shown instead",
    )


# ---- damaged parts


def change(row, path, value):
    """Sets what a path such as ("tracks", 0, "label") leads to."""
    *way, last = path
    for part in way:
        row = row[part]
    row[last] = value


PLACES = [
    (("tracks", 1, "confidence"), "high", "tracks[1].confidence"),
    (("question",), 3, "question"),
    (("clip", "width"), "wide", "clip.width"),
    (("answers", 1, "votes"), 3, "answers[1].votes"),
    (("evidence", 0, "target", "token"), "x", "evidence[0].target.token"),
    (("evidence", 0, "knock_outs", 1, "tokens"), "x", "evidence[0].knock_outs[1].tokens"),
    (("enough", 0, "pieces", 2), 7, "enough[0].pieces[2]"),
]


@pytest.mark.parametrize(("path", "value", "place"), PLACES, ids=lambda x: str(x)[:30])
def test_a_damaged_value_is_named_by_its_place(trace, path, value, place):
    manifest, members = taken_apart(pack(trace))
    change(manifest, path, value)
    with pytest.raises(TraceError) as error:
        unpack(put_together(manifest, members))
    assert place in str(error.value)


def arrays_of(trace):
    manifest, members = taken_apart(pack(trace))
    return manifest, members, [n for n in members if n.startswith("arrays/")]


def test_every_array_that_is_missing_or_of_another_shape_is_told(trace):
    """None is taken for another, and none is left out in silence."""
    manifest, members, names = arrays_of(trace)
    optional = {"hidden", "vision_tokens", "bias"}
    for name in names:
        short = name.removeprefix("arrays/").removesuffix(".npy")
        array = np.lib.format.read_array(io.BytesIO(members[name]))
        others = [
            array[None],
            array.astype(complex),
            *([array[:-1]] if array.ndim and len(array) else []),
        ]
        for other in others if not short.endswith("bias") else others[:2]:  # of any length
            with pytest.raises(TraceError):
                unpack(put_together(manifest, members | {name: npy(other)}))
        left = {n: m for n, m in members.items() if n != name}
        if any(short.endswith(part) for part in optional):
            continue
        try:
            again = unpack(put_together(manifest, left))
        except TraceError:
            continue
        with pytest.raises(AssertionError):  # what is not needed is then not there
            same(again.answers, unpack(pack(trace)).answers)


def test_a_penalty_and_its_tokens_belong_together(trace):
    manifest, members, names = arrays_of(trace)
    (name,) = [n for n in names if n.endswith("repeated.npy")]
    with pytest.raises(TraceError, match="penalty of no tokens, or tokens of none"):
        unpack(put_together(manifest, {n: m for n, m in members.items() if n != name}))
    twos = npy(np.full(6, 2, np.uint8))
    with pytest.raises(TraceError, match="neither 0 nor 1"):
        unpack(put_together(manifest, members | {name: twos}))


def test_a_bias_belongs_to_a_token(trace):
    manifest, members, names = arrays_of(trace)
    (name,) = [n for n in names if n.endswith("bias.npy")]
    for row in ([3, 5, 0.1], [-1, 5, 0.1], [0.5, 5, 0.1], [0, 5.5, 0.1]):
        with pytest.raises(TraceError, match="a bias in the trace belongs to no token"):
            unpack(put_together(manifest, members | {name: npy(np.array([row], float))}))
    again = unpack(put_together(manifest, members | {name: npy(np.zeros((0, 3)))}))
    assert all(t.weights.bias == () for t in again.answers["ruled"].tokens)


def test_a_picture_fills_a_model_frame_of_its_own_size():
    """A trace whose source frames are larger than the model's."""
    trace = small_trace()
    large = np.random.default_rng(2).integers(0, 255, (2, 24, 32, 3), np.uint8)
    read = ModelFrames(trace.model_frames.pixels, trace.times, 2.0, (0, 0, 16, 16))
    again = unpack(pack(replace(trace, frames=large, model_frames=read)))
    assert again.frames.shape == large.shape
    same(again.model_frames, read)


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
