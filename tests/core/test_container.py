"""The parts of a `.macd` file: what is read, and what is refused, from files written by hand."""

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

from macd_studio.core.errors import TraceError
from macd_studio.core.traces import container
from macd_studio.core.traces.container import open_bundle
from macd_studio.core.traces.format import FORMAT, SCHEMA
from tests.zip_lies import zipped

PLAIN = {"format": FORMAT, "schema": SCHEMA}


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), **options)
    return out.getvalue()


def sums_of(parts):
    return {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}


def bundle(parts=None, text=None, **manifest):
    """A file of those parts, listed in its manifest; text: the manifest as it is written."""
    parts = parts or {}
    if text is None:
        text = json.dumps(PLAIN | {"sha256": sums_of(parts)} | manifest)
    return zipped([("manifest.json", text), *parts.items()])


def read(text):
    """A manifest of that text within the braces, without what every file has."""
    content = bundle(text=f'{{"format": "{FORMAT}", "schema": {SCHEMA}, "sha256": {{}}, {text}}}')
    manifest, _, _ = open_bundle(content)
    return {k: v for k, v in manifest.items() if k not in ("format", "schema", "sha256")}


def refused(content, why):
    with pytest.raises(TraceError, match=why) as error:
        open_bundle(content)
    assert error.value.remedy


def test_parts_are_sorted_into_arrays_and_pictures():
    arrays = {"times": np.array([0.5, 1.5]), "mask_0": np.arange(6, dtype=np.uint8).reshape(2, 3)}
    pictures = {
        "frames/0000.webp": b"a",
        "frames/0012.webp": b"b",
        "model/0001.webp": b"c",
        "shown3/0000.webp": b"d",
        "shown102/0001.webp": b"e",
    }
    parts = {f"arrays/{k}.npy": npy(v) for k, v in arrays.items()} | pictures
    manifest, found, shown = open_bundle(bundle(parts, question="is it?"))
    assert manifest == PLAIN | {"sha256": sums_of(parts), "question": "is it?"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert shown == {
        "frames": {0: b"a", 12: b"b"},
        "model": {1: b"c"},
        "shown3": {0: b"d"},
        "shown102": {1: b"e"},
    }


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3.5),
        np.zeros((0, 3), np.float64),
        np.zeros((3, 0), np.uint8),
        np.arange(24, dtype=np.int64).reshape(2, 3, 4),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array([True, False]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ],
)
def test_arrays_come_back_as_they_were(array):
    made = open_bundle(bundle({"arrays/a.npy": npy(array)}))[1]["a"]
    np.testing.assert_array_equal(made, array)
    assert (made.shape, made.dtype) == (np.shape(array), np.asanyarray(array).dtype)
    if made.size:
        assert not made.flags.writeable


def header(shape, dtype="<f4", size=None):
    """A plain header of version 1, and as many zero bytes as it claims."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    count = int(np.prod(shape)) * 4 if size is None else size
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * count


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (header((2, 3), size=23), "not as large as it claims"),
        (header((2, 3), size=25), "not as large as it claims"),
        (header((2, 3), size=6), "not as large as it claims"),
        (header((0,), size=4), "not as large as it claims"),
        (header((2**40, 2**40), size=0), "not as large as it claims"),
        (npy(np.array([None, 1], object), allow_pickle=True), "not as large as it claims"),
        (header((1,), "|O", 8), "not as large as it claims"),
        (npy(np.arange(3.0), version=(2, 0)), "unknown header"),
    ],
)
def test_arrays_that_lie_are_refused(content, why):
    refused(bundle({"arrays/a.npy": content}), why)


def test_a_long_header_is_read_by_its_own_length():
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(700) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    content += np.array([1.5, 2.5], "<f4").tobytes()
    made = open_bundle(bundle({"arrays/a.npy": content}))[1]["a"]
    assert made.tolist() == [1.5, 2.5]


def test_files_are_bounded(monkeypatch):
    parts = {
        "arrays/a.npy": npy(np.zeros(5)),
        "arrays/b.npy": npy(np.zeros(7)),
        "model/0001.webp": b"",
    }
    content = bundle(parts)
    sizes = [i.file_size for i in zipfile.ZipFile(io.BytesIO(content)).infolist()]
    bounds = {
        "MAX_MANIFEST": (sizes[0], "larger than one can be"),
        "MAX_ITEMS": (12, "hold more than a trace has"),
    }
    for name, (most, why) in bounds.items():
        with monkeypatch.context() as patch:
            patch.setattr(container, name, most)
            assert len(open_bundle(content)[1]) == 2
            patch.setattr(container, name, most - 1)
            refused(content, why)
    monkeypatch.setattr(container, "MAX_ITEMS", 6)
    refused(bundle({"arrays/b.npy": npy(np.zeros(7))}), "larger than one can be")
    assert open_bundle(bundle({"arrays/b.npy": npy(np.zeros(6))}))[1]["b"].size == 6


@pytest.mark.parametrize(
    "name",
    [
        "arrays/A.npy",
        "arrays/a.npz",
        "arrays/.npy",
        f"arrays/{'a' * 41}.npy",
        "arrays/a/b.npy",
        "frames/1.webp",
        "frames/00001.webp",
        "shown/0001.webp",
        "shown1000/0001.webp",
        "other/0001.webp",
        "../../etc/passwd",
        "arrays/a.npy ",
        " arrays/a.npy",
        "frames/0001.png",
    ],
)
def test_only_parts_of_a_trace_may_be_listed(name):
    refused(bundle({name: npy(np.zeros(1))}), "not a part of it")


def test_parts_must_be_there_and_whole():
    content = npy(np.zeros(1))
    listed = PLAIN | {"sha256": sums_of({"arrays/a.npy": content})}
    refused(zipped([("manifest.json", json.dumps(listed))]), "lacks arrays/a.npy")
    other = [("manifest.json", json.dumps(listed)), ("arrays/a.npy", npy(np.ones(1)))]
    refused(zipped(other), "changed or damaged")
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = zipped([*other, ("arrays/a.npy", content)])
    refused(twice, "two parts of one name")
    refused(zipped([("arrays/a.npy", content)]), "not a MACD trace")
    unlisted = [("manifest.json", json.dumps(PLAIN | {"sha256": {}})), ("arrays/a.npy", content)]
    refused(zipped(unlisted), "'arrays/a.npy', which it does not list")
    for sums in (None, [], "x"):
        refused(bundle(sha256=sums), "does not list its parts")
    refused(bundle(text=json.dumps(PLAIN)), "does not list its parts")


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_every_schema_so_far_is_opened(schema):
    assert open_bundle(bundle(schema=schema))[0]["schema"] == schema


@pytest.mark.parametrize(
    ("schema", "stated"),
    [
        (0, "0"),
        (-3, "-3"),
        (SCHEMA + 1, str(SCHEMA + 1)),
        (10**9 - 1, "999999999"),
        (10**9, "another kind"),
        (-(10**9), "another kind"),
        ("4", "another kind"),
        (4.0, "another kind"),
        (None, "another kind"),
        (True, "True"),
        ([4], "another kind"),
    ],
)
def test_other_schemas_are_named(schema, stated):
    refused(bundle(schema=schema), rf"a schema of {stated}, not {SCHEMA}")


def test_other_files_are_not_traces():
    for text in ('{"format": "other"}', "{}", "[]", "3", '"x"', "null"):
        refused(bundle(text=text), "not a MACD trace")
    refused(bundle(format="macd-trace", schema=5), "before the first release")
    for text in ("", "{", "{'a': 1}", '{"a": 1} x', b'{"a": "\xff"}', "[" * 100_000):
        refused(bundle(text=text), "not JSON that can be read")
    refused(bundle(text="[" + "1," * 600_001 + "1]"), "holds more than a trace has")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("99999999999999999999", 99999999999999999999),
        ("-9999999999999999999", -9999999999999999999),
        ("1.5e3", 1500.0),
        ("-1e308", -1e308),
        ("[true, null]", [True, None]),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"é"', "é"),
        ('"\\ud800"', "\ufffd"),
        ('"a\\uDfffb"', "a\ufffdb"),
        ('["\\udc00", {"\\ud801": ["\\ud802", 3]}]', ["\ufffd", {"\ufffd": ["\ufffd", 3]}]),
        ('"\\\\ud800"', "\\ud800"),
    ],
)
def test_values_are_read_as_they_are(text, value):
    found = read(f'"x": {text}')["x"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"x": NaN', "NaN"),
        ('"x": [-Infinity]', "-Infinity"),
        ('"x": Infinity', "Infinity"),
        ('"x": 1e999', "a number too large"),
        ('"x": -1e999', "a number too large"),
        ('"x": 100000000000000000000', "a number too large"),
        ('"x": -10000000000000000000', "a number too large"),
        ('"x": 1, "x": 1', "a key twice"),
        ('"x": {"a": 1, "b": 2, "a": 3}', "a key twice"),
    ],
)
def test_values_that_a_trace_cannot_hold_are_named(text, why):
    with pytest.raises(TraceError, match=f"the trace holds {why}"):
        read(text)
