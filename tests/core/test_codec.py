"""Objects to rows and arrays and back, by classes made for it, and arrays at the edge of a rule."""

from dataclasses import dataclass

import numpy as np
import pytest

from macd_studio.core.description import TEXT, Array, Line, Row, Rows, Stored, stored
from macd_studio.core.errors import OptionError, TraceError
from macd_studio.core.traces.codec import Reader, Writer, required, shaped


@dataclass(frozen=True, eq=False)
class Inner(Stored):
    name: str = stored(TEXT)
    size: float = stored(Array())
    kinds: object = stored(Array("3", whole=True, most=5, kept="i8"))
    maybe: object = stored(Array("T", lost=True), default=None)


@dataclass(frozen=True, eq=False)
class Outer(Stored):
    title: str = stored(TEXT)
    ring: object = stored(Line(2), default=None)
    optional: object = stored(Array("T"), default=None)
    levels: object = stored(Array("G?", 0.0, 1.0), default=None)
    again: object = stored(Array("G?", 0.0, 1.0), default=None)
    one: object = stored(Row(Inner, "one_"), default=None)
    each: tuple = stored(Rows(Inner, 3, "each{}_"), default=())
    stacked: tuple = stored(Rows(Inner, 3, "stacked_"), default=())
    last: object = stored(Array("*", longest=4), default=None)


def inner(n, **more):
    kinds = np.array([n, n + 1, 5])
    return Inner(f"n{n}", float(n), kinds, maybe=np.array([n, np.nan]), **more)


def written(value):
    writer = Writer({})
    return writer.row(value), writer.arrays


def read(row, arrays, **sizes):
    return Reader(arrays, {"T": 2, "G": 3} | sizes).row(Outer, row, "")


WHOLE = Outer("whole", np.float32([[0.123456789, 1 / 3], [0, 1]]), np.array([0.25, 0.5]),
              np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 1.0]), inner(1),
              (inner(2), inner(3)), (inner(0), inner(4)), np.arange(4.0))  # fmt: skip


def test_where_each_part_is_written():
    row, arrays = written(WHOLE)
    assert set(arrays) == {
        "optional", "levels", "again", "last",
        *(f"{p}_{n}" for p in ("one", "each0", "each1", "stacked")
          for n in ("size", "kinds", "maybe")),
    }  # fmt: skip
    assert arrays["stacked_size"].tolist() == [0.0, 4.0]
    assert arrays["stacked_kinds"].tolist() == [[0, 1, 5], [4, 5, 5]]
    assert arrays["each1_size"].tolist() == 3.0
    assert row["each"] == [{"name": "n2"}, {"name": "n3"}]
    assert row["one"] == {"name": "n1"}
    assert row["ring"] == [[0.12, 0.33], [0.0, 1.0]]


def test_all_of_it_comes_back():
    again = read(*written(WHOLE))
    assert again.title == "whole"
    for name in ("optional", "levels", "again", "last"):
        np.testing.assert_array_equal(getattr(again, name), getattr(WHOLE, name))
    pairs = [(again.one, WHOLE.one), *zip(again.each, WHOLE.each, strict=True),
             *zip(again.stacked, WHOLE.stacked, strict=True)]  # fmt: skip
    for one, other in pairs:
        assert (one.name, one.size) == (other.name, other.size)
        np.testing.assert_array_equal(one.kinds, other.kinds)
        np.testing.assert_array_equal(one.maybe, other.maybe)
        assert one.kinds.dtype == np.int64
    assert [type(one.size) for one in again.stacked] == [float, float]


def test_what_a_class_does_not_need_may_be_missing():
    row, arrays = written(WHOLE)
    for name in ("optional", "each0_maybe", "stacked_maybe", "one_maybe"):
        left = {n: a for n, a in arrays.items() if n != name}
        again = read(row, left)
        assert again.last.tolist() == [0, 1, 2, 3]  # and what comes after it is read
        assert [z.size for z in again.stacked] == [0.0, 4.0]
    assert read(row, {n: a for n, a in arrays.items() if n != "optional"}).optional is None
    for name in ("one_size", "each1_kinds", "stacked_size"):
        left = {n: a for n, a in arrays.items() if n != name}
        with pytest.raises(TraceError, match=f"the trace lacks {name}"):
            read(row, left)
    with pytest.raises(TraceError, match="the trace lacks nothing"):
        required({}, "nothing")


def test_places_are_named_from_the_object_on():
    row, arrays = written(WHOLE)
    for change, place in (
        ({"title": 3}, "title is"), ({"each": 3}, "each is"), ({"one": 3}, "one is"),
        ({"each": [{"name": 3}, {"name": "b"}]}, "each[0].name is"),
        ({"one": {"name": 3}}, "one.name is"),
        ({"stacked": [{"name": "a"}, {"name": 3}]}, "stacked[1].name is"),
    ):  # fmt: skip
        with pytest.raises(OptionError) as error:
            read(row | change, arrays)
        assert error.value.cause.startswith(place)
    with pytest.raises(OptionError, match=r"below\.one\.name"):
        Reader(arrays, {"T": 2, "G": 3}).row(Outer, row | {"one": {"name": 3}}, "below")


def test_what_was_made_already_is_not_read():
    row, arrays = written(WHOLE)
    reader = Reader(arrays, {"T": 2, "G": 3})
    made = reader.row(Outer, row, "", optional="made", title="mine")
    assert (made.optional, made.title) == ("made", "mine")
    assert made.levels.tolist() == [0.0, 0.5, 1.0]
    assert made.last.tolist() == [0, 1, 2, 3]


def test_frame_groups_are_all_there_or_none_is():
    row, arrays = written(WHOLE)
    none = arrays | {"levels": np.zeros(0), "again": np.zeros(0)}
    assert read(row, none).levels.shape == (0,)
    for name in ("levels", "again"):
        for wrong in (np.zeros(0), np.zeros(2), np.zeros(4), np.zeros((3, 1)), np.float64(1)):
            with pytest.raises(TraceError):
                read(row, arrays | {name: wrong})
    with pytest.raises(TraceError):
        read(row, none | {"levels": np.zeros(1)})


def test_an_axis_of_any_length_has_one_at_least_and_a_most():
    row, arrays = written(WHOLE)
    for count in (1, 4):
        assert read(row, arrays | {"last": np.zeros(count)}).last.shape == (count,)
    for wrong in (np.zeros(0), np.zeros(5), np.float64(3), np.zeros((2, 2))):
        with pytest.raises(TraceError, match="last in the trace is float64"):
            read(row, arrays | {"last": wrong})


def test_ranges_hold_at_both_ends():
    row, arrays = written(WHOLE)
    for low, high in ((0.0, 1.0), (1e-9, 1 - 1e-9)):
        read(row, arrays | {"levels": np.array([low, 0.5, high])})
    for value in (-1e-9, 1 + 1e-9, np.nan, np.inf):
        with pytest.raises(TraceError, match="levels in the trace"):
            read(row, arrays | {"levels": np.array([0.5, value, 0.5])})
    assert read(row, arrays | {"one_kinds": np.array([0, 1, 5])}).one.kinds.tolist() == [0, 1, 5]
    for kinds in (np.array([0, 1, 6]), np.array([0, 1, -1]), np.array([0.0, 1.0, 5.0])):
        with pytest.raises(TraceError, match="one_kinds in the trace"):
            read(row, arrays | {"one_kinds": kinds})
    lost = np.array([np.inf, np.nan])
    np.testing.assert_array_equal(read(row, arrays | {"one_maybe": lost}).one.maybe, lost)


def test_stacked_arrays_are_of_as_many_as_are_listed():
    row, arrays = written(WHOLE)
    for wrong in (np.zeros((2, 2)), np.zeros(3), np.zeros(1)):
        with pytest.raises(TraceError, match="stacked_size"):
            read(row, arrays | {"stacked_size": wrong})
    wide = np.zeros((2, 2, 2))
    with pytest.raises(TraceError, match="stacked_maybe"):
        read(row, arrays | {"stacked_maybe": wide})


def test_numbers_of_an_array_are_sound():
    arrays = {"a": np.array([0, 2**31 - 1]), "f": np.array([0.5, -0.5], np.float32)}
    whole = shaped(arrays, "a", (2,), whole=True)
    assert (whole.dtype, whole.tolist()) == (np.int64, [0, 2**31 - 1])
    small = shaped({"a": np.array([3], np.uint8)}, "a", (1,), whole=True)
    assert small.dtype == np.int64
    assert shaped(arrays, "f", (2,)).dtype == np.float64
    assert shaped(arrays, "a", (2,)).dtype == np.float64
    for bad in (np.array([0, 2**31]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([0])):
        with pytest.raises(TraceError, match="a in the trace is"):
            shaped({"a": bad}, "a", (2,), whole=True)
    edge = shaped({"a": np.array([-3.0, 3.0])}, "a", (2,), most=3.0)
    assert edge.tolist() == [-3.0, 3.0]
    for bad in ([3.1, 0], [0, -3.1], [np.nan, 0], [np.inf, 0]):
        with pytest.raises(TraceError, match="not finite, or out of range"):
            shaped({"a": np.array(bad)}, "a", (2,), most=3.0)
    kept = shaped({"a": np.array([np.nan, -np.inf])}, "a", (2,), lost=True, most=3.0)
    assert np.isnan(kept[0])
    for bad in (np.array(["a", "b"]), np.array([True, False]), np.array([1j, 2])):
        with pytest.raises(TraceError, match="a in the trace is"):
            shaped({"a": bad}, "a", (2,))
