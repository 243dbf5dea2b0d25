"""A damaged trace file opens and is read everywhere, or raises TraceError; nothing else."""

import io
import json
import math

import numpy as np
from hypothesis import strategies as st

from core.errors import TraceError
from core.traces.bundle import pack, unpack
from tests.fuzz.cases import HOSTILE, cases, change_at, is_told_well, paths_in
from tests.small_trace import (
    members_alone,
    npy,
    put_together,
    read_everywhere,
    small_trace,
    taken_apart,
    with_manifest,
)

CONTENT = pack(small_trace())
MANIFEST, MEMBERS = taken_apart(CONTENT)
TEXT = json.dumps(MANIFEST)
REST = members_alone(MEMBERS)
PATHS = [p for p in paths_in(MANIFEST) if p[0] != "sha256"]
ARRAYS = sorted(n for n in MEMBERS if n.endswith(".npy"))
PICTURES = sorted(n for n in MEMBERS if n.endswith(".webp"))
NUMBERS = [0, 1, -1, 3, 7, 0.5, 1e-300, 1e30, 1e300, -1e300, math.nan, math.inf, -math.inf, 2**31]
TYPES = ["f8", "f4", "f2", ">f8", "i8", "i1", "u1", "u8", ">i4", "?", "U3", "c16", "g"]


def check(content):
    try:
        trace = unpack(content)
    except TraceError as error:
        if not is_told_well(error):
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
