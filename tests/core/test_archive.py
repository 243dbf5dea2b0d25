"""Zip archives that lie, hide something, or use more of the format than a trace does."""

import io
import struct
import warnings
import zipfile
import zlib

import pytest

from macd_studio.core.errors import TraceError
from macd_studio.core.traces import archive
from macd_studio.core.traces.archive import read_directory, read_member
from tests.zip_lies import by_hand, end_places, headers, lie, places, zipped

PARTS = {"manifest.json": b"{}" * 300, "arrays/a.npy": b"", "frames/0000.webp": b"picture"}


SOUND = zipped(PARTS, zipfile.ZIP_DEFLATED)
DIRECTORY = headers(SOUND)[0][0]


def unpacked(content):
    return {name: read_member(content, m) for name, m in read_directory(content).items()}


def refused(content, why):
    with pytest.raises(TraceError, match=why) as error:
        unpacked(content)
    assert error.value.remedy


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_come_back_in_their_order(method):
    content = zipped(PARTS, method)
    assert list(unpacked(content).items()) == list(PARTS.items())
    assert unpacked(zipped({})) == {}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(method):
    refused(zipped(PARTS, method), "packed in a way that traces are not")


@pytest.mark.parametrize("way", ["before", "after", "between", "after the members"])
def test_no_byte_lies_outside_the_members(way):
    gap = b"PK\3\4 hidden"
    local = headers(SOUND)[1][1]
    moved = {
        "before": gap + SOUND,
        "after": SOUND + gap,
        "between": SOUND[:local] + gap + SOUND[local:],
        "after the members": SOUND[:DIRECTORY] + gap + SOUND[DIRECTORY:],
    }[way]
    refused(moved, "is not")
    if way == "after":
        return
    # as an archiver would write it: every position fits again
    at = {"before": 0, "between": local, "after the members": DIRECTORY}[way]
    for member in range(len(PARTS)):
        entry, old = headers(SOUND)[member]
        moved = lie(moved, [(entry + len(gap) + 42, 4)], old + len(gap) * (old >= at))
    moved = lie(moved, end_places(moved)["directory start"], DIRECTORY + len(gap))
    assert zipfile.ZipFile(io.BytesIO(moved)).testzip() is None
    refused(moved, "next to it|outside its parts")


def test_nothing_follows_the_last_entry_of_the_directory():
    end = len(SOUND) - 22
    longer = SOUND[:end] + b"hidden" + SOUND[end:]
    refused(lie(longer, end_places(longer)["directory bytes"], end - DIRECTORY + 6), "outside its")


def test_a_stored_member_has_one_size():
    stored = zipped(PARTS, zipfile.ZIP_STORED)
    for size in (0, 599, 601):
        refused(lie(stored, places(stored, 0)["size"], size), "states two sizes")


def test_a_comment_is_refused():
    out = io.BytesIO(SOUND)
    with zipfile.ZipFile(out, "a") as file:
        file.comment = b"hidden"
    refused(out.getvalue(), "not a whole zip archive")
    # one that looks as an end record does
    refused(lie(SOUND, end_places(SOUND)["comment"], 4), "directory is not where")


def test_members_do_not_share_bytes():
    """Else an archive unpacks to far more than it holds."""
    (first, _), (second, _), *_ = headers(SOUND)
    shared = SOUND[:second] + SOUND[first : first + 46] + SOUND[second + 46 :]
    refused(shared, "in two ways|overlaps")
    pair = zipped({"a": b"x" * 50, "b": b"x" * 50}, zipfile.ZIP_STORED)
    refused(lie(pair, places(pair, 1)["local"], 0), "in two ways")
    # the first member's data holds the second's header and data
    fields = places(pair, 0)["packed"] + places(pair, 0)["size"]
    refused(lie(pair, fields, 131), "overlaps")


@pytest.mark.parametrize("field", [name for name, fields in places(SOUND, 0).items()
                                   if len(fields) == 2])  # fmt: skip
def test_local_header_and_directory_agree(field):
    for where in places(SOUND, 0)[field]:
        was = int.from_bytes(SOUND[where[0] : sum(where)], "little")
        refused(lie(SOUND, [where], was + 1), ".")


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("flags", 1, "encrypted"),
        ("flags", 8, "encrypted, or packed"),
        ("flags", 0x40, "encrypted"),
        ("flags", 0x2000, "encrypted"),
        ("method", 9, "packed in a way"),
        ("method", 12, "packed in a way"),
        ("crc", 7, "changed or damaged"),
        ("size", 599, "not as large as it claims"),
        ("size", 601, "not as large as it claims"),
        ("size", 0, "not as large as it claims"),
        ("size", 2**32 - 1, "unpacks to more"),
        ("packed", 2**32 - 1, "overlaps"),
        ("packed", 1, "next to it"),
        ("name length", 0, "cannot be read"),
        ("name length", 65535, "cannot be read"),
        ("extra length", 4, "packed in a way"),
        ("comment", 4, "packed in a way"),
        ("disk", 1, "packed in a way"),
        ("local", 2**32 - 1, "in two ways"),
    ],
)
def test_fields_that_lie_alike_in_both_headers(field, value, why):
    refused(lie(SOUND, places(SOUND, 0)[field], value), why)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("disk", 1, "not where it should be"),
        ("first disk", 1, "not where it should be"),
        ("entries here", 2, "not where it should be"),
        ("entries", 2, "not where it should be"),
        ("entries", 65535, "more parts"),
        ("directory bytes", 2**32 - 1, "more parts"),
        ("directory bytes", 10, "not where it should be"),
        ("directory start", 0, "not where it should be"),
        ("directory start", 2**32 - 1, "not where it should be"),
    ],
)
def test_an_end_record_that_lies(field, value, why):
    refused(lie(SOUND, end_places(SOUND)[field], value), why)


def test_counts_that_fit_each_other_and_not_the_directory():
    for count, why in ((2, "outside its parts"), (4, "cut|cannot be read")):
        fields = end_places(SOUND)
        refused(lie(SOUND, fields["entries"] + fields["entries here"], count), why)


def test_a_stream_that_ends_early_or_late_is_refused():
    packed = zlib.compressobj(wbits=-15)
    stream = packed.compress(b"x" * 600) + packed.flush()
    for data, why in (
        (stream[:-1], "not as large"),
        (stream + b"\0", "not as large"),
        (b"\xff" * len(stream), "cannot be unpacked"),
    ):
        refused(by_hand(b"manifest.json", data, 600, zlib.crc32(b"x" * 600)), why)
    content = by_hand(b"manifest.json", stream, 600, zlib.crc32(b"x" * 600))
    assert unpacked(content) == {"manifest.json": b"x" * 600}


@pytest.mark.parametrize("name", ["x" * 65, "é", "\u202e"])
def test_names_are_short_and_plain(name):
    refused(zipped({name: b""}), "cannot be read")


def test_one_name_stands_once():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            file.writestr("a", b"1")
            file.writestr("a", b"2")
    refused(out.getvalue(), "two parts of one name, a")


def test_what_is_no_archive_is_refused():
    for content in (b"", b"PK\5\6", b"PK\3\4" + b"x" * 100, SOUND[:-1], SOUND[: len(SOUND) // 2]):
        refused(content, "not a whole zip archive")


def test_bounds_hold_exactly(monkeypatch):
    stored, total = zipped(PARTS, zipfile.ZIP_STORED), sum(map(len, PARTS.values()))
    assert len(SOUND) < total < len(stored)
    for name, content, most, why in (
        ("MAX_MEMBERS", SOUND, 3, "more parts"),
        ("MAX_BYTES", SOUND, total, "unpacks to more"),
        ("MAX_BYTES", stored, len(stored), "is larger than"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(archive, name, most)
            assert unpacked(content) == PARTS
            patch.setattr(archive, name, most - 1)
            refused(content, why)


def test_a_directory_that_is_too_large_is_not_read(monkeypatch):
    """800,000 entries state so in the end record, where there is room for 65,535."""
    entries = b"PK\1\2" + bytes(42)
    content = entries * 9000 + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 4096, 4096, 9000 * 46, 0, 0)
    monkeypatch.setattr(archive, "_read_entry", None)
    refused(content[:-22] + lie(content, end_places(content)["entries"], 9000)[-22:], "more parts")
    content = entries * 12000 + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 7, 7, 12000 * 46, 0, 0)
    refused(content, "more parts")


def test_every_header_begins_with_its_mark():
    for member in range(len(PARTS)):
        entry, local = headers(SOUND)[member]
        for at in range(4):
            refused(lie(SOUND, [(entry + at, 1)], SOUND[entry + at] + 1), "cannot be read")
            refused(lie(SOUND, [(local + at, 1)], SOUND[local + at] + 1), "in two ways")
    end = len(SOUND) - 22
    for at in range(4):
        refused(lie(SOUND, [(end + at, 1)], SOUND[end + at] + 1), "not a whole zip archive")


def test_names_in_both_headers_are_the_same():
    _, local = headers(SOUND)[1]
    for at in (0, len("arrays/a.npy") - 1):
        refused(lie(SOUND, [(local + 30 + at, 1)], ord("z")), "in two ways")


def test_names_of_one_and_of_64_characters_are_read():
    parts = {"a": b"1", "x" * 64: b"2"}
    assert unpacked(zipped(parts)) == parts


@pytest.mark.parametrize("flags", [2, 4, 6, 0x800, 0x806])
def test_hints_of_a_compressor_and_names_in_utf_8_are_harmless(flags):
    assert unpacked(lie(SOUND, places(SOUND, 0)["flags"], flags)) == PARTS


def test_as_many_bytes_of_directory_as_the_longest_names_take(monkeypatch):
    name = "n" * archive.MAX_NAME
    content = zipped({name: b"1"})
    with monkeypatch.context() as patch:
        patch.setattr(archive, "MAX_MEMBERS", 1)
        assert unpacked(content) == {name: b"1"}
        patch.setattr(archive, "MAX_NAME", archive.MAX_NAME - 1)
        refused(content, "more parts")


def test_no_more_is_unpacked_than_one_byte_above_what_is_declared(monkeypatch):
    """So that a small member of many zeros takes no memory before it is found out."""
    asked, make = [], zlib.decompressobj

    class Asked:
        def __init__(self, bits):
            self._inner = make(bits)

        def decompress(self, packed, most):
            asked.append((len(packed), most))
            return self._inner.decompress(packed, most)

        def __getattr__(self, name):
            return getattr(self._inner, name)

    monkeypatch.setattr(archive.zlib, "decompressobj", Asked)
    packer = zlib.compressobj(wbits=-15)
    stream = packer.compress(bytes(10**5)) + packer.flush()
    refused(by_hand(b"a", stream, 40, zlib.crc32(bytes(10**5))), "not as large")
    assert asked == [(len(stream), 41)]


def test_a_member_has_a_name_and_ends_before_the_directory():
    refused(by_hand(b"", b"x", 1, zlib.crc32(b"x"), method=0), "cannot be read")
    last = len(PARTS) - 1
    where = places(SOUND, last)["packed"]
    packed = int.from_bytes(SOUND[where[0][0] : sum(where[0])], "little")
    refused(lie(SOUND, where, packed + 1), "overlaps")
