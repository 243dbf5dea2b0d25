"""What a trace records about its clip, backbone and detector, and how it stands in a file."""

from dataclasses import fields

import pytest

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.cli.reproduce import command
from macd_studio.core.errors import OptionError
from macd_studio.core.options import DetectOptions
from macd_studio.core.records import NO_CLIP, BackboneRecord, ClipRecord, DetectorRecord, RecordOf
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.whatif.edits import check_changeable
from macd_studio.viewer.payload import payload
from tests.small_trace import put_together, small_trace, taken_apart

CLIP, BACKBONE = RecordOf(ClipRecord), RecordOf(BackboneRecord)
DETECTOR = RecordOf(DetectorRecord)


def test_what_was_not_recorded_is_not_written():
    record = BACKBONE.read({"name": "theirs", "family": "recorded"}, "backbone")
    assert (record.name, record.prompt, record.cap_pixels_per_frame) == ("theirs", "", None)
    assert record.as_dict() == {"name": "theirs", "family": "recorded"}
    assert NO_CLIP.as_dict() == {}


def test_a_null_that_was_recorded_is_written():
    assert DETECTOR.read({"fps": None}, "detector").as_dict() == {"fps": None}


def test_keys_of_a_newer_version_are_kept_and_written_back():
    manifest, members = taken_apart(pack(small_trace()))
    newer = {"name": "x.mp4", "codec": {"profiles": [1, None]}, "extra": "a", "absent": ["name"]}
    trace = unpack(put_together(manifest | {"clip": newer}, members))
    assert trace.clip.name == "x.mp4"
    assert trace.clip.extra == {k: v for k, v in newer.items() if k != "name"}
    assert trace.to_dict()["clip"] == newer
    again, _ = taken_apart(pack(trace))
    assert again["clip"] == newer


@pytest.mark.parametrize(
    ("rule", "values", "path"),
    [
        (CLIP, {"width": 0}, "clip.width"),
        (CLIP, {"duration": "2"}, "clip.duration"),
        (BACKBONE, {"pixel_mean": ["a"]}, r"clip.pixel_mean\[0\]"),
        (DETECTOR, {"confidence": 2.0}, "clip.confidence"),
        (CLIP, {"newer": {"a": "x" * 200_000}}, "clip.newer"),
    ],
)
def test_a_value_out_of_range_is_refused(rule, values, path):
    with pytest.raises(OptionError, match=path):
        rule.read(values, "clip")


def test_the_records_hold_all_that_a_backbone_and_a_detector_have():
    def names(kind):
        return {one.name for one in fields(kind)}

    assert names(BackboneInfo) <= names(BackboneRecord)
    assert names(DetectOptions) <= names(DetectorRecord)


def test_a_new_record_is_written_whole():
    record = ClipRecord(name="a", sha256="b", duration=1.0, width=2, height=3)
    assert CLIP.read(record.as_dict(), "clip") == record
    assert record.as_dict()["title"] == ""


def places(manifest):
    """Every object of a manifest that may hold more than this version knows."""
    yield manifest
    yield manifest["model_frames"]
    yield manifest["counterfactual"]
    yield manifest["occlusion"]
    yield manifest["controls"]
    yield from manifest["controls"]["outcomes"]
    for track in manifest["tracks"]:
        yield track
        yield from track["brush"]
    for answer in manifest["answers"]:
        yield answer
        for second in answer["second_views"]:
            yield second
            yield second["view"]
    for found in manifest["evidence"]:
        yield found
        yield found["target"]
        yield found["lens"]
        for part in ("maps", "agreement", "knock_outs"):
            yield from found[part]


def test_what_a_newer_version_adds_anywhere_is_kept_and_written_back():
    manifest, members = taken_apart(pack(small_trace()))
    held = list(places(manifest))
    for i, row in enumerate(held):
        row["newer"] = {"at": [i, None]}
    again, _ = taken_apart(pack(unpack(put_together(manifest, members))))
    assert [row.get("newer") for row in places(again)] == [row["newer"] for row in held]


def test_an_option_of_a_newer_version_is_kept_and_nothing_is_run_with_it():
    manifest, members = taken_apart(pack(small_trace()))
    manifest["options"]["ascent"]["momentum"] = 0.9
    manifest["options"]["warp"] = {"speed": 9}
    trace = unpack(put_together(manifest, members))
    assert trace.options == small_trace().options
    assert trace.to_dict()["options"]["ascent"]["momentum"] == 0.9
    again, _ = taken_apart(pack(trace))
    assert again["options"] == manifest["options"]
    for refused in (check_changeable, command):
        with pytest.raises(OptionError, match=r"ascent\.momentum"):
            refused(trace)
    assert payload(trace)["trace"]["again"] == {}
