"""Each rule of a trace's file at its edge: what just passes, and what is refused beside it."""

import io
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import TraceError
from macd_studio.core.measurements import ChoiceMap, Subset
from macd_studio.core.objects.edits import MAX_EDITS
from macd_studio.core.repeats import Repeats
from macd_studio.core.traces import read
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import StepWeights
from tests.core.test_bundle import same
from tests.core.test_trace_whole import change, refused, whole_trace
from tests.small_trace import npy, put_together, small_trace, taken_apart, token


@pytest.fixture(scope="module")
def trace():
    return whole_trace()


@pytest.fixture(scope="module")
def apart(trace):
    return taken_apart(pack(trace))


@pytest.fixture
def opened(apart):
    """Opens the trace with other places of its manifest and other arrays; None leaves one out."""

    def build(*changes, **arrays):
        manifest, members = deepcopy(apart[0]), dict(apart[1])
        for path, value in changes:
            change(manifest, path, value)
        for name, array in arrays.items():
            members.pop(f"arrays/{name}.npy", None)
            if array is not None:
                members[f"arrays/{name}.npy"] = npy(np.asarray(array))
        return unpack(put_together(manifest, members))

    return build


@pytest.fixture
def array(apart):
    """An array of the trace, to be changed, with one of its values set."""

    def get(name, at=None, value=None):
        held = np.lib.format.read_array(io.BytesIO(apart[1][f"arrays/{name}.npy"])).copy()
        if at is not None:
            held[at] = value
        return held

    return get


# ---- the parts fit each other


@pytest.mark.parametrize("part", ["tracks", "groups"])
def test_each_list_has_as_many_as_are_counted(opened, part):
    for count in (0, 3):
        refused(lambda n=count: opened((("counts", part), n)), "parts do not fit together")


def test_groups_are_of_the_frames_in_order(opened):
    assert opened((("groups",), [[1]])).groups == ((1,),)
    for groups in ([[0, 2]], [[1, 0]], [[0, 0]]):
        refused(lambda g=groups: opened((("groups",), g)), "groups are not those of its frames")


def test_changes_are_to_frames_and_groups_that_are_there(opened):
    brush = {"kind": "brush", "track": 2, "points": [[0.1, 0.2]], "radius": 0.1}
    group = {"kind": "frames", "level": 1.0}
    assert opened((("options", "edits"), [brush | {"frame": 1}])).edits[0].frame == 1
    assert opened((("options", "edits"), [group | {"track": 0}])).edits[0].track == 0
    for edit in (brush | {"frame": 2}, group | {"track": 1}):
        refused(lambda e=edit: opened((("options", "edits"), [e])), "a frame that is not there")
    label = {"kind": "label", "track": 5, "label": "dog"}  # of a track that may be gone
    assert opened((("options", "edits"), [label])).edits[0].track == 5


def test_times_may_be_equal_and_not_fall(opened):
    assert opened(times=[0.5, 0.5]).times.tolist() == [0.5, 0.5]
    refused(lambda: opened(times=[0.5, 0.4]), "go backwards")


def test_ids_of_tracks_differ(opened):
    refused(lambda: opened((("tracks", 1, "id"), 1)), "two tracks in the trace have one id")


@pytest.mark.parametrize("name", ["loss", "base_loss"])
def test_both_query_losses_are_there_or_none(opened, name):
    refused(lambda: opened((("counterfactual", name), None)), "only one of two query losses")
    both = [(("counterfactual", one), None) for one in ("loss", "base_loss")]
    assert opened(*both).counterfactual.loss is None


def test_what_was_measured_is_of_the_trace_s_objects(opened):
    for part in ("objects", "groups"):
        path = ("evidence", 0, "maps", 3, part)
        refused(lambda p=path: opened((p, [0.1] * 3)), "shares are not those of the trace's")
    path = ("evidence", 0, "curves", "curves", 1, "deletion")
    refused(lambda: opened((path, [0.5] * 4)), "a curve of a map in the trace has other steps")
    path = ("enough", 0, "pieces", 0, "track")
    refused(lambda: opened((path, 9)), "not one of the trace's objects and frames")
    assert opened((("evidence", 0, "curves"), None)).evidence[0].curves is None


def test_boxes_lie_in_the_frame(opened, array):
    for box in ([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5]):
        assert opened(boxes=array("boxes", (1, 0), box)).tracks[1].boxes[0].tolist() == box
    for box in ([0, 0, 1.01, 1], [-0.01, 0, 1, 1], [0.6, 0, 0.5, 1], [0, 0.6, 1, 0.5]):
        refused(lambda b=box: opened(boxes=array("boxes", (1, 0), b)), "boxes outside the frame")
    refused(lambda: opened(boxes=array("boxes", (1, 0, 2), np.nan)), "seen where it has no box")


def test_where_a_track_is_lost_it_has_no_box(opened, array):
    boxes = opened(boxes=array("boxes", (0, 1), 0.25)).tracks[0].boxes
    assert np.isnan(boxes[1]).all()
    assert boxes.dtype == np.float32
    np.testing.assert_array_equal(boxes[0], np.float32([0.1, 0.1, 0.5, 0.5]))


def test_outlines_are_of_every_frame_or_of_none(opened, apart):
    ring = apart[0]["tracks"][0]["outlines"][0]
    assert len(opened((("tracks", 0, "outlines"), [None, ring])).tracks[0].outlines) == 2
    for outlines in ([ring], [ring, None, None]):
        refused(lambda o=outlines: opened((("tracks", 0, "outlines"), o)), "of other frames")


# ---- pictures


def test_every_frame_is_there(apart):
    manifest, members = apart
    for folder in ("frames", "model"):
        for name in (f"{folder}/0000.webp", f"{folder}/0001.webp"):
            fewer = {n: m for n, m in members.items() if n != name}
            refused(lambda m=fewer: unpack(put_together(manifest, m)), "lacks some of its frames")
        moved = {n.replace(f"{folder}/0001", f"{folder}/0002"): m for n, m in members.items()}
        refused(lambda m=moved: unpack(put_together(manifest, m)), "lacks some of its frames")
        more = members | {f"{folder}/0002.webp": members["model/0000.webp"]}
        refused(lambda m=more: unpack(put_together(manifest, m)), "lacks some of its frames")
    none = deepcopy(manifest)
    none["counts"]["frames"] = 0
    refused(lambda: unpack(put_together(none, members)), "lacks some of its frames")


@pytest.mark.parametrize("name", ["SOURCE_PIXELS", "MODEL_PIXELS"])
def test_pixels_of_all_frames_are_bounded_before_they_are_decoded(monkeypatch, trace, name):
    content = pack(trace)
    monkeypatch.setattr(read, name, 2 * 16 * 16)
    unpack(content)
    monkeypatch.setattr(read, name, 2 * 16 * 16 - 1)
    monkeypatch.setattr(read, "decode_pictures", None)
    refused(lambda: unpack(content), "frames have more than 0 megapixels")
    monkeypatch.setattr(read, name, 0)
    refused(lambda: unpack(content), "frames have more than 0 megapixels")


def test_megapixels_are_those_of_the_bound(monkeypatch, trace):
    content = pack(trace)
    monkeypatch.setattr(read, "picture_size", lambda _: (4000, 4000))
    refused(lambda: unpack(content), "more than 15 megapixels")


def test_frames_of_a_second_view_are_the_model_s(apart):
    manifest, members = apart
    other = small_trace()
    wide = np.zeros((2, 8, 8, 3), np.uint8)
    small = taken_apart(pack(replace(other, frames=wide)))[1]["frames/0000.webp"]
    for more in ({"shown1_0/0001.webp": small}, {"shown1_0/0002.webp": members["model/0000.webp"]}):
        bad = members | more
        refused(lambda m=bad: unpack(put_together(manifest, m)), "frames of another size")


def shown_views(count):
    """The small trace whose last answer has so many second views with pictures."""
    trace = small_trace()
    macd = trace.answers["macd"]
    rng = np.random.default_rng(3)
    views = tuple(
        replace(macd.second_views[0], shown=rng.integers(0, 255, (2, 16, 16, 3), np.uint8))
        for _ in range(count)
    )
    steps = tuple(
        replace(t, others=t.others * count, others_log_z=t.others_log_z * count,
                weights=StepWeights(2.0, (-0.5,) * count))
        for t in macd.tokens
    )  # fmt: skip
    macd = replace(macd, second_views=views, tokens=steps, rule="mean-views")
    answers = {"baseline": trace.answers["baseline"], "macd": macd}
    return replace(trace, answers=answers, evidence=())


@pytest.mark.parametrize(("room", "there"), [(4, 2), (3.99, 1), (3, 1), (2.99, 0)])
def test_second_views_are_decoded_as_long_as_there_is_room(monkeypatch, room, there):
    content = pack(shown_views(2))
    monkeypatch.setattr(read, "ALL_PIXELS", int(room * 2 * 16 * 16))
    views = unpack(content).answers["macd"].second_views
    assert [v.shown is not None for v in views] == [n < there for n in range(2)]


def test_pixels_of_second_views_come_back_where_they_differ():
    trace = shown_views(2)
    read_as = trace.model_frames.pixels
    macd = trace.answers["macd"]
    half = np.stack([read_as[0], np.full_like(read_as[1], 200)])
    views = [replace(macd.second_views[0], shown=z) for z in (read_as.copy(), half)]
    trace = replace(trace, answers={**trace.answers, "macd": replace(macd, second_views=views)})
    content = pack(trace)
    names = [n for n in taken_apart(content)[1] if n.startswith("shown")]
    assert names == ["shown1_1/0001.webp"]
    again = [v.shown for v in unpack(content).answers["macd"].second_views]
    np.testing.assert_array_equal(again[0], read_as)
    np.testing.assert_array_equal(again[1][0], read_as[0])
    assert np.abs(again[1][1].astype(int) - 200).max() < 8


def test_whether_a_view_has_pictures_is_true_or_false(opened):
    path = ("answers", 1, "second_views", 0, "shown")
    assert opened((path, False)).answers["macd"].second_views[0].shown is None
    refused(lambda: opened((path, 3)), r"answers\[1\]\.second_views\[0\]\.shown")


# ---- options


def test_options_are_an_object_with_a_bounded_list_of_changes(opened, apart):
    refused(lambda: opened((("options",), [])), "options in the trace are not an object")
    label = {"kind": "label", "track": 1, "label": "dog"}
    assert len(opened((("options", "edits"), [label] * MAX_EDITS)).edits) == MAX_EDITS
    for edits in ([label] * (MAX_EDITS + 1), {"kind": "label"}, "label"):
        refused(lambda e=edits: opened((("options", "edits"), e)), "is not a list of changes")
    rest = {n: v for n, v in apart[0]["options"].items() if n != "edits"}
    again = opened((("options",), rest))
    assert again.edits == ()
    assert again.unknown_options == {}


def test_options_out_of_range_and_of_other_versions_are_named(opened):
    refused(lambda: opened((("options", "ascent", "steps"), -1)), r"options\.ascent\.steps")
    refused(lambda: opened((("options", "seed"), "x")), r"does not know .*options\.seed")
    refused(lambda: opened((("options", "ascent"), 3)), r"options\.ascent")
    long = "n" * 41
    deep = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
    refused(lambda: opened((("options", long), deep)), rf"options\.{'n' * 40}\b[^n]")
    refused(lambda: opened((("options", "ascent", "newer"), deep)), r"options\.ascent\b")
    newer = opened((("options", "ascent", "newer"), 3), (("options", "whole"), "x"))
    assert newer.unknown_options == {"ascent": {"newer": 3}, "whole": "x"}
    assert newer.options == opened().options


# ---- tokens


def test_counts_of_candidates_are_at_least_one(opened, array):
    refused(lambda: opened(answer0_count=array("answer0_count", 0, 0)), "has no candidates")


def test_candidates_are_different_and_hold_the_token(opened, array):
    twice = array("answer0_candidates", 0, 9)
    refused(lambda: opened(answer0_candidates=twice), "is not among its candidates")
    other = array("answer0_token", 1, 11)
    refused(lambda: opened(answer0_token=other), "is not among its candidates")
    unknown = array("answer0_candidates", 0, 11)
    refused(lambda: opened(answer0_candidates=unknown), "has no text")
    refused(lambda: opened(answer0_floor=None), "lacks the floor")


def test_no_logit_is_above_its_partition(opened, array):
    """By more than one, which is the room that rounding has."""
    for name, log_z in (("answer0_base", "answer0_base_log_z"),
                        ("answer1_other0", "answer1_other0_log_z")):  # fmt: skip
        opened(**{log_z: array(log_z, 1, 1.0)})  # the largest logit is 2
        bad = {log_z: array(log_z, 1, 0.99)}
        refused(lambda b=bad: opened(**b), "a logit above their partition")
        bad = {name: array(name, 4, 4.5)}
        refused(lambda b=bad: opened(**b), "a logit above their partition")


def test_logits_of_second_views_are_bounded(opened, array):
    low = array("answer1_other0", 0, -1e6)
    assert opened(answer1_other0=low).answers["macd"].tokens[0].others[0][0] == -1e6
    for name in ("answer1_other0", "answer1_other0_log_z"):
        bad = {name: array(name, 0, -1e6 - 1 if name.endswith("log_z") else -1.1e6)}
        refused(lambda b=bad: opened(**b), "not finite, or out of range")


def test_second_views_are_read_at_some_token_and_together(opened, array):
    nowhere = np.full(2, np.nan)
    none = np.zeros(0, np.float32)
    refused(
        lambda: opened(answer1_other0=none, answer1_other0_log_z=nowhere), "was read at no token"
    )
    for value in (np.inf, -np.inf):
        bad = array("answer1_other0_log_z", 0, value)
        refused(lambda b=bad: opened(answer1_other0_log_z=b), "was read at no token")
    manifest, members = taken_apart(pack(shown_views(2)))
    name = "arrays/answer1_other1_log_z.npy"
    parted = members | {name: npy(np.array([np.nan, 3.0]))}
    refused(lambda: unpack(put_together(manifest, parted)), "was read at no token")


def test_weights_are_numbers_but_for_their_floor(opened, array):
    for at, value in (((0, 0), np.inf), ((1, 1), np.nan), ((0, 2), np.nan)):
        bad = array("answer3_weights", at, value)
        refused(lambda b=bad: opened(answer3_weights=b), "a weight that is not a number")
    inf = opened(answer3_weights=array("answer3_weights", (1, 2), np.inf))
    assert inf.answers["ruled"].tokens[1].weights.floor == np.inf


def test_several_second_views_are_weighed():
    trace = shown_views(2)
    manifest, members = taken_apart(pack(trace))
    same(unpack(put_together(manifest, members)).answers["macd"].tokens,
         trace.answers["macd"].tokens)  # fmt: skip
    left = {n: m for n, m in members.items() if not n.endswith("answer1_weights.npy")}
    linear = deepcopy(manifest)
    linear["answers"][1]["rule"] = "linear"
    for m, parts in ((manifest, left), (linear, members)):
        refused(lambda m=m, p=parts: unpack(put_together(m, p)), "views that nothing weighs")


def test_biases_are_of_the_first_and_the_last_token(opened):
    again = opened(answer3_bias=[[0.0, 5.0, 0.5], [2.0, 9.0, 1.5]]).answers["ruled"].tokens
    assert [t.weights.bias for t in again] == [((5, 0.5),), (), ((9, 1.5),)]
    assert [type(part) for part in again[0].weights.bias[0]] == [int, float]


def test_hidden_tokens_are_packed_and_bounded(opened, monkeypatch, trace):
    content = pack(trace)
    monkeypatch.setattr(read, "MAX_HIDDEN", 10 * 2)
    unpack(content)
    monkeypatch.setattr(read, "MAX_HIDDEN", 10 * 2 - 1)
    refused(lambda: unpack(content), "hides vision tokens that it cannot have")
    monkeypatch.undo()
    for bits in (8, 17):
        bad = {"answer5_vision_tokens": [bits]}
        refused(lambda b=bad: opened(**b), "hides vision tokens")
    again = opened(answer5_vision_tokens=[9]).answers["hidden"].tokens[0]
    assert again.hidden.tolist() == [True] * 5 + [True] * 4
    wrong = {"answer5_hidden": np.zeros((2, 2), np.int64)}
    refused(lambda: opened(**wrong), "hides vision tokens")


def test_a_penalty_is_in_its_range(opened):
    path = ("answers", 4, "repetition_penalty")
    assert opened((path, 1.5)).answers["lowered"].tokens[0].repeats.penalty == 1.5
    refused(lambda: opened((path, 101.0)), "repetition_penalty")
    refused(lambda: opened((path, None)), "penalty of no tokens, or tokens of none")
    refused(lambda: opened((("answers", 1, "repetition_penalty"), 1.5)), "penalty of no tokens")


def test_tokens_and_pieces_are_counted(opened):
    refused(lambda: opened((("answers", 0, "tokens"), -1)), r"answers\[0\].*tokens|answer0_tokens")
    refused(lambda: opened((("pieces", "5"), 3)), "pieces")
    refused(lambda: opened((("counts", "frames"), 4097)), "frames")
    empty = {n: None for n in ("token", "candidates", "base", "base_log_z", "floor", "count")}
    none = opened((("answers", 0, "tokens"), 0), **{f"answer0_{n}": None for n in empty})
    assert none.answers["baseline"].tokens == ()


def test_errors_that_no_rule_foresees_are_told(apart, monkeypatch):
    content = put_together(*apart)
    unforeseen = r"not a sound trace \(ZeroDivisionError\)"
    for error, why in ((MemoryError(), "claims more memory"), (ZeroDivisionError(), unforeseen)):

        def fails(*_, error=error):
            raise error

        monkeypatch.setattr(read, "_restore", fails)
        refused(lambda: unpack(content), why)


# ---- files with one of a thing, or with an odd one


def test_a_picture_comes_back():
    """One frame, nothing found, nothing said."""
    whole = small_trace()
    read_as = replace(whole.model_frames, pixels=whole.frames[:1], times=whole.times[:1])
    one = replace(
        whole, frames=whole.frames[:1], times=whole.times[:1], groups=((0,),), model_frames=read_as,
        tracks=(), steps=(), counterfactual=None, occlusion=None, controls=None, answers={},
        evidence=(), enough=(), edits=(),
    )  # fmt: skip
    again = unpack(pack(one))
    same(again.model_frames, read_as)
    assert again.frames.shape == (1, 16, 16, 3)


def test_a_token_of_one_candidate_comes_back(trace):
    only = replace(token(0), candidates=np.array([7]), texts=("no",), base=np.float32([1.5]))
    answer = replace(trace.answers["baseline"], tokens=(only,))
    again = unpack(pack(replace(trace, answers=trace.answers | {"baseline": answer})))
    same(again.answers["baseline"].tokens, (only,))


def test_a_choice_map_is_of_the_trace_s_objects(trace):
    none = Subset((), False, False, -1.0, "no")
    fits = ChoiceMap(0, (1, 2), (), (none, replace(none, objects=(2,))), none, 1.0, (1,))
    same(unpack(pack(replace(trace, choice_map=fits))).choice_map, fits)
    other = replace(trace, choice_map=replace(fits, measured=(3,)))
    refused(lambda: unpack(pack(other)), "a subset in the trace holds an object that is not there")


def test_places_are_named_from_the_top_of_the_file(opened):
    refused(lambda: opened((("question",), 3)), r"out of range \(question is")
    refused(lambda: opened((("pieces",), 3)), r"out of range \(pieces ")
    path = ("answers", 4, "repetition_penalty")
    refused(lambda: opened((path, 101.0)), r"out of range \(repetition_penalty is")
    assert opened((("options", "seed"), 5)).options.seed == 5


def test_pictures_of_a_kind_are_all_missing_or_of_another_size(apart):
    manifest, members = apart
    for folder in ("frames", "model"):
        left = {n: m for n, m in members.items() if not n.startswith(folder)}
        refused(lambda m=left: unpack(put_together(manifest, m)), "lacks some of its frames")
        none = deepcopy(manifest)
        none["counts"]["frames"] = 0
        refused(lambda m=left, n=none: unpack(put_together(n, m)), "lacks some of its frames")
    small = replace(small_trace(), frames=np.zeros((2, 8, 8, 3), np.uint8))
    odd = members | {"model/0001.webp": taken_apart(pack(small))[1]["frames/0001.webp"]}
    with pytest.raises(TraceError) as error:
        unpack(put_together(manifest, odd))
    assert "second view" not in str(error.value)


def test_floors_are_numbers_or_none(opened):
    tokens = opened(answer0_floor=[np.nan, -np.inf]).answers["baseline"].tokens
    assert [t.floor for t in tokens] == [np.inf, -np.inf]


def test_kinds_of_numbers_are_those_of_the_types(opened, array, trace):
    again = opened().answers
    assert again["macd"].tokens[0].others[0].dtype == np.float32
    assert again["lowered"].tokens[0].repeats.at.dtype == bool
    wide = array("answer1_other0").astype(np.float64)
    assert opened(answer1_other0=wide).answers["macd"].tokens[0].others[0].dtype == np.float32
    whole = {"answer5_vision_tokens": [10.0], "answer4_repeated": np.zeros(6)}
    for name, value in whole.items():
        refused(lambda n=name, v=value: opened(**{n: v}), f"{name} in the trace is float64")


def test_at_least_one_vision_token_is_hidden_or_not(opened):
    one = opened(answer2_vision_tokens=[1], answer2_hidden=np.uint8([[128]]))
    assert one.answers["sid"].tokens[0].hidden.tolist() == [True]
    none = {"answer5_vision_tokens": [0], "answer5_hidden": np.zeros((2, 0), np.uint8)}
    refused(lambda: opened(**none), "hides vision tokens that it cannot have")


def test_tokens_without_a_second_view_hide_nothing(trace):
    """Three of them, of which the middle one was decided by the video."""
    at = [np.array([i == k for i in range(10)]) for k in range(3)]
    first, third = (replace(token(k, True, at[k]), index=k) for k in (0, 2))
    middle = replace(token(1), weights=None)
    answer = replace(trace.answers["hidden"], tokens=(first, middle, third))
    again = unpack(pack(replace(trace, answers=trace.answers | {"hidden": answer})))
    found = again.answers["hidden"].tokens
    assert found[1].hidden is None
    for k in (0, 2):
        assert found[k].hidden.tolist() == at[k].tolist()


def test_penalties_of_three_tokens_are_kept_apart(trace):
    at = [np.array([k == j for j in range(3)]) for k in range(3)]
    tokens = tuple(replace(token(k, True), repeats=Repeats(1.25, at[k])) for k in range(3))
    answer = replace(trace.answers["lowered"], tokens=tokens)
    again = unpack(pack(replace(trace, answers=trace.answers | {"lowered": answer})))
    found = [t.repeats.at.tolist() for t in again.answers["lowered"].tokens]
    assert found == [z.tolist() for z in at]
