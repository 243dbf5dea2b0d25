"""A damaged trace file opens and is read everywhere, or raises TraceError; nothing else.

Each case has a limit of memory, see `tests.fuzz.cases`.
"""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import strategies as st

from macd_studio.core.errors import TraceError
from macd_studio.core.traces.bundle import pack, unpack
from tests.fuzz.cases import HOSTILE, MEMORY_MB, cases, change_at, is_clear_error, paths_in
from tests.small_trace import (
    npy,
    put_together,
    read_everywhere,
    small_trace,
    taken_apart,
    with_manifest,
)
from tests.zip_lies import by_hand, end_places, headers, lie, places, zeros, zipped

CONTENT = pack(small_trace())
MANIFEST, MEMBERS = taken_apart(CONTENT)
TEXT = json.dumps(MANIFEST)
REST = zipped(MEMBERS)
PATHS = [p for p in paths_in(MANIFEST) if p[0] != "sha256"]
ARRAYS = sorted(n for n in MEMBERS if n.endswith(".npy"))
PICTURES = sorted(n for n in MEMBERS if n.endswith(".webp"))
NUMBERS = [0, 1, -1, 3, 7, 0.5, 1e-300, 1e30, 1e300, -1e300, math.nan, math.inf, -math.inf, 2**31]
BOMB = zeros(512)
END, PARTS = end_places(CONTENT), [places(CONTENT, i) for i in range(len(headers(CONTENT)))]
BOMB_PLACES = places(file := by_hand(b"manifest.json", BOMB, 0, 0), 0) | end_places(file)
FIELDS = sorted({*PARTS[0], *END})
SIZES = [0, 1, 2, 8, 12, 14, 45, 99, 255, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
TYPES = ["f8", "f4", "f2", ">f8", "i8", "i1", "u1", "u8", ">i4", "?", "U3", "c16", "g"]


def check(content):
    try:
        trace = unpack(content)
    except TraceError as error:
        if not is_clear_error(error) or isinstance(error.__context__, MemoryError):
            raise
        return
    read_everywhere(trace)


changes = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from(["set", "set", "set", "drop", "twice", "swap"]),
        st.sampled_from(HOSTILE) | st.integers(-3, 20) | st.floats() | st.text(max_size=5),
    ),
    min_size=1,
    max_size=3,
)


@cases(changes)
def test_a_manifest_of_other_values(drawn):
    manifest = json.loads(TEXT)
    for path, how, new in drawn:
        change_at(manifest, path, how, new)
    check(with_manifest(REST, json.dumps(manifest)))


@cases(
    st.sampled_from(ARRAYS),
    st.sampled_from(["value", "type", "shape", "turn", "cut", "gone", "other"]),
    st.integers(0, 50),
    st.sampled_from(NUMBERS),
)
def test_arrays_of_other_values(name, how, at, number):
    members = dict(MEMBERS)
    array = np.lib.format.read_array(io.BytesIO(members[name]))
    if how == "gone":
        del members[name]
    elif how == "other":
        members[name] = members[ARRAYS[at % len(ARRAYS)]]
    elif how == "cut":
        members[name] = members[name][:-at] + bytes([at])
    else:
        with np.errstate(all="ignore"):
            members[name] = npy(spoiled(array, how, at, number))
    check(put_together(json.loads(TEXT), members))


def spoiled(array, how, at, number):
    if how == "turn":
        return array[::-1] if at % 2 else array.T
    if how == "type":
        return array.astype(TYPES[at % len(TYPES)])
    if how == "shape":
        return array[: at % 3] if at % 2 else np.concatenate([array] * (1 + at % 3))
    wide = array.astype(np.float64 if isinstance(number, float) else np.int64)
    wide.flat[at % max(wide.size, 1) : at % max(wide.size, 1) + 1] = number
    return wide if at % 2 else wide.astype(array.dtype)


@cases(st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), max_size=8),
       st.integers(0, len(CONTENT)), st.booleans())  # fmt: skip
def test_bytes_of_the_file(flips, end, cut):
    content = bytearray(CONTENT)
    for at, byte in flips:
        content[at] = byte
    check(bytes(content[:end] if cut else content))


@cases(st.sampled_from(ARRAYS + PICTURES), st.integers(0, 400), st.integers(0, 255))
def test_bytes_of_a_member_whose_sum_fits(name, at, byte):
    data = bytearray(MEMBERS[name])
    data[at % len(data)] = byte
    check(put_together(json.loads(TEXT), {**MEMBERS, name: bytes(data)}))


@cases(st.binary(max_size=60), st.integers(0, len(TEXT)), st.integers(0, 40))
def test_bytes_of_the_manifest(new, at, length):
    text = TEXT.encode()
    check(with_manifest(REST, text[:at] + new + text[at + length :]))


@cases(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(FIELDS), st.sampled_from("oel"),
                          st.sampled_from(SIZES) | st.integers(-40, 40)), min_size=1, max_size=4),
       st.sampled_from([b"", b"", b"", b"PK\3\4"]),
       st.sampled_from([b"", b"", b"", bytes(22)]))  # fmt: skip
def test_headers_that_lie(lies, before, after):
    """Counts, sizes, methods and places; in the directory, the local header or alike in both."""
    content = CONTENT
    for member, field, where, value in lies:
        own = PARTS[member % len(PARTS)].get(field, [])
        fields = {"o": own, "e": own[:1], "l": own[-1:]}[where] or END[field]
        at, size = fields[0]
        was = int.from_bytes(content[at : at + size], "little")
        content = lie(content, fields, value if value in SIZES else was + value)
    check(before + content + after)


@cases(st.lists(st.tuples(st.sampled_from(FIELDS), st.integers(0, 2**32 - 1)), max_size=3),
       st.sampled_from([0, 1, 100, 2**20, 2**24, 2**31, 2**32 - 1]),
       st.sampled_from([0, 8, 12, 14]), st.booleans())  # fmt: skip
def test_random_headers_before_a_bomb(random, size, method, alike):
    """Of one member that unpacks to 512 MB; some fields hold any number."""
    content = by_hand(b"manifest.json", BOMB, size, 0, method)
    for field, value in random:
        where = BOMB_PLACES[field]
        content = lie(content, where if alike else where[:1], value)
    check(content)


@pytest.mark.long
def test_a_case_that_takes_too_much_memory_fails():
    @cases(st.just(0))
    def target(_):
        assert len(bytearray(2 * MEMORY_MB * 2**20))

    with pytest.raises(MemoryError):
        target()
    assert len(bytearray(2 * MEMORY_MB * 2**20))
