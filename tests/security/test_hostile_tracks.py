"""Files of tracks that are too large, damaged or hostile: one sentence each, and bounded memory."""

import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.formats import bounds, gather, read_track_file
from macd_studio.core.objects.placing import place_tracks
from tests.core.test_track_files import clip_of, coco, cvat, cvat_box, key, label_studio
from tests.patience import PATIENCE_S

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE z [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><annotations>&c;</annotations>'
)
OUTSIDE = '<!DOCTYPE z [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotations>&a;</annotations>'
ONE = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}
HUGE_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (200_000).to_bytes(4, "big") * 2 + b"\x08\0\0\0\0"


def text(content, name="tracks.json"):
    def write(folder):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def annotated(**change):
    return lambda folder: coco(folder, [ONE | change])


def archive(members, **how):
    def write(folder):
        path = folder / "tracks.zip"
        with zipfile.ZipFile(path, "w", **how) as opened:
            for name, content in members.items():
                opened.writestr(name, content)
        return path

    return write


def masks(*sizes):
    members = {}
    for i, size in enumerate(sizes):
        picture = io.BytesIO()
        Image.fromarray(np.full(size, 1, np.uint8)).save(picture, "PNG")
        members[f"m_{i}.png"] = picture.getvalue()
    return archive(members)


def sparse(folder):
    path = folder / "large.json"
    with path.open("wb") as opened:
        opened.truncate(2 * 2**30)
    return path


def own(**change):
    tracks = [{"label": "a", "boxes": [[0, 0, 1, 1]], "outlines": [None]}]
    data = {"format": "macd-tracks", "size": [4, 4], "times": [0], "tracks": tracks} | change
    return text(json.dumps(data))


CASES = {
    "a 2 GB file": (sparse, "has 2147 MB"),
    "nothing there": (lambda folder: folder / "no", "there is no file"),
    "an empty file": (text(b""), "none of the formats"),
    "a program": (text(b"\x7fELF" + bytes(100)), "none of the formats"),
    "cut JSON": (text('{"images": [1,'), "is not whole JSON"),
    "bytes": (text(b'{"images": "\xff"}'), "is not whole JSON"),
    "nested JSON": (text("[" * 100_000), "nested too deeply|not whole JSON"),
    "a long number": (text('{"images": ' + "9" * 10_000 + "}"), "not whole JSON"),
    "millions of values": (text("[" + "0," * 5_000_000 + "0]"), "more than 4000000 values"),
    "another JSON": (text('{"a": 1}'), "it is JSON with 'a'. COCO has images, annotations"),
    "a million polygons": (
        text('{"images":[],"categories":[],"annotations":[' + "{}," * 999_999 + "{}]}"),
        "annotation 1 on an image None",
    ),
    "images alone": (text('{"images": {}, "annotations": []}'), "images is .*not a list"),
    "an unknown category": (annotated(category_id=9), "of a category 9 that it does not list"),
    "an unknown image": (annotated(image_id=9), "on an image 9 that it does not list"),
    "a negative box": (annotated(bbox=[9, 9, -4, 4]), "-4 wide and 4 high"),
    "half a box": (annotated(bbox=[9, 9, 4]), "has 3 numbers"),
    "a box of text": (annotated(bbox=[0, 0, "x", 4]), "is 'x', not a number"),
    "an endless box": (annotated(bbox=[0, 0, 1e999, 4]), "not a number"),
    "no shape": (annotated(bbox=[]), "neither a box nor a mask"),
    "half a point": (annotated(segmentation=[[0, 0, 4, 4, 2, 2, 1]]), "7 coordinates"),
    "runs of another size": (
        annotated(segmentation={"size": [9, 9], "counts": [81]}), "has the size"),
    "runs that do not fill": (
        annotated(segmentation={"size": [48, 64], "counts": [5]}), "do not fill"),
    "negative runs": (
        annotated(segmentation={"size": [48, 64], "counts": [-5]}), "is -5, not a number"),
    "packed runs of nonsense": (
        annotated(segmentation={"size": [48, 64], "counts": "zz~\x00"}), "damaged"),
    "packed runs without end": (
        annotated(segmentation={"size": [48, 64], "counts": "o" * 50}), "damaged"),
    "a wide image": (
        lambda folder: coco(folder, [ONE], size=(10**9, 10**9)), "not a number from 1 to 4096"),
    "an image without number": (
        lambda folder: coco(folder, [], images=[
            {"id": 1, "width": 4, "height": 4, "file_name": "a.png"}]), "without the number"),
    "an XML bomb": (text(BOMB, "a.xml"), "declares a document type"),
    "another file's text": (text(OUTSIDE, "a.xml"), "declares a document type"),
    "XML with a type": (text("<!DOCTYPE html><annotations/>", "a.xml"), "declares a document type"),
    "cut XML": (text("<annotations><track>", "a.xml"), "not whole XML"),
    "deep XML": (text("<a>" * 100, "a.xml"), "more elements than"),
    "another XML": (text("<svg/>", "a.xml"), "without a track"),
    "XML without a size": (
        text(f'<annotations><track label="a">{cvat_box(0, 0)}</track></annotations>'),
        "original_size"),
    "a mask outside": (
        lambda folder: cvat(folder, '<track label="a"><mask frame="0" rle="1" left="64" top="0"'
                            ' width="1" height="1"/></track>'), "reaches beyond 64×48"),
    "a mask of few runs": (
        lambda folder: cvat(folder, '<track label="a"><mask frame="0" rle="1" left="0" top="0"'
                            ' width="9" height="9"/></track>'), "do not fill"),
    "a frame of text": (
        lambda folder: cvat(folder, '<track label="a"><box frame="one"/></track>'), "is 'one'"),
    "a frame before the first": (lambda f: label_studio(f, [key(0, 0)]), "not a number from 1"),
    "a key frame of text": (lambda f: label_studio(f, ["a"]), "not an object"),
    "a zip bomb": (
        archive({"a.txt": bytes(80 * 2**20)}, compression=zipfile.ZIP_DEFLATED),
        "unpacks to more than 67 MB"),
    "a zip of another kind": (
        archive({"a.txt": b"0 1 1 1 1"}, compression=zipfile.ZIP_BZIP2), "packed in a way"),
    "half a zip": (text(b"PK\3\4" + bytes(50), "a.zip"), "damaged"),
    "a zip of nothing": (archive({"a.doc": b""}), "holds no tracks or masks"),
    "masks of two sizes": (masks((4, 4), (4, 8)), "4×4 and 8×4"),
    "a wide mask": (archive({"m_1.png": HUGE_PNG}), "200000×200000"),
    "a text named png": (archive({"m_1.png": b"hello"}), "not a PNG picture"),
    "a mask without number": (archive({"mask.png": HUGE_PNG}), "without the number"),
    "YOLO's class of text": (archive({"1.txt": "dog 1 1 1 1"}), "the class in .* is 'dog'"),
    "YOLO's class beyond its names": (
        archive({"1.txt": "3 1 1 1 1", "classes.txt": "dog"}), "names do not list"),
    "YOLO's negative box": (archive({"1.txt": "0 .5 .5 -.1 .1"}), "-0.1 wide"),
    "YOLO in pixels": (archive({"1.txt": "0 100 90 80 70"}), "not in shares of the frame"),
    "our own without times": (own(times=[]), "times that do not rise"),
    "our own with fewer boxes": (own(times=[0, 1]), "1 boxes of track 1 for 2 times"),
    "our own with a long outline": (
        own(tracks=[{"boxes": [[0, 0, 1, 1]], "outlines": [[[[0, 0]] * 500]]}]), "too long"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_read_is_told_in_one_sentence(case, tmp_path):
    write, says = CASES[case]
    with pytest.raises(TracksError, match=says) as caught:
        read_track_file(write(tmp_path))
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "write", "says"),
    [
        ("MAX_SHAPES", annotated(), "more than 0 shapes"),
        ("MAX_SHAPES", lambda f: cvat(f, f'<track label="a">{cvat_box(0, 0)}</track>'), "0 shapes"),
        ("MAX_SHAPES", lambda f: label_studio(f, [key(1, 0)]), "more than 0 shapes"),
        ("MAX_OBJECTS", annotated(), "1 objects, more than 0"),
        ("MAX_IN_FRAME", annotated(), "1 objects on one frame"),
        ("MAX_MEMBERS", archive({"a.txt": b""}), "more than 0 files"),
    ],
)
def test_what_a_file_holds_is_counted(limit, write, says, tmp_path, monkeypatch):
    monkeypatch.setattr(gather if hasattr(gather, limit) else bounds, limit, 0)
    with pytest.raises(TracksError, match=says):
        read_track_file(write(tmp_path))


def test_a_folder_of_too_many_bytes_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_BYTES", 10)
    (tmp_path / "1.txt").write_bytes(b"0 .5 .5 .1 .1\n")
    with pytest.raises(TracksError, match="holds more than 0 MB"):
        read_track_file(tmp_path)


def test_links_out_of_a_folder_are_not_followed(tmp_path):
    folder = tmp_path / "labels"
    folder.mkdir()
    (tmp_path / "secret_1.txt").write_text("0 .5 .5 .1 .1")
    (folder / "f_1.txt").symlink_to(tmp_path / "secret_1.txt")
    with pytest.raises(TracksError, match="holds no tracks or masks"):
        read_track_file(folder)


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda f: coco(f, [ONE], size=(64, 64)), "another shape"),
        (lambda f: coco(f, [ONE], (900,)), "frames 900 to 900, and the clip's are frames 0 to 12"),
        (lambda f: coco(f, [ONE | {"bbox": [200, 200, 4, 4]}]), "no object .* is in sight"),
        (lambda f: coco(f, []), "no object .* is in sight"),
        (lambda f: cvat(f, '<track label="a"></track>'), "describes no object"),
        (masks((48, 64), (48, 64)), None),
    ],
)
def test_what_does_not_fit_the_clip_is_told(write, says, tmp_path):
    file = read_track_file(write(tmp_path))
    if says is None:
        assert place_tracks(file, clip_of()).tracks
        return
    with pytest.raises(TracksError, match=says):
        place_tracks(file, clip_of())


def test_a_box_that_reaches_out_of_the_frame_is_cut(tmp_path):
    file = coco(tmp_path, [ONE | {"bbox": [-10, -10, 30, 500]}])
    (one,) = place_tracks(read_track_file(file), clip_of()).tracks
    np.testing.assert_allclose(one.boxes[0], [0, 0, 20 / 64, 1], atol=1e-6)


def test_a_damaged_mask_is_told_when_it_is_needed(tmp_path):
    path = masks((48, 64))(tmp_path)
    with zipfile.ZipFile(path) as opened:
        content = opened.read("m_0.png")
    path = archive({"m_0.png": content[:40]})(tmp_path)
    with pytest.raises(TracksError, match="is damaged"):
        place_tracks(read_track_file(path), clip_of())


def test_labels_are_cleaned(tmp_path):
    hostile = "<img src=x onerror=alert(1)>\x1b[2J\u202e\ud800" + "a" * 10**6
    kinds = [{"id": 1, "name": hostile}]
    file = coco(tmp_path, [ONE], categories=kinds)
    (one,) = place_tracks(read_track_file(file), clip_of()).tracks
    assert one.label.startswith("<img src=x onerror=alert(1)>\\x1b[2J\\u202e")
    assert len(one.label) <= 200
    assert "\x1b" not in one.label


def test_memory_is_bounded(tmp_path):
    """A file as large as may be read, of as many values: read and refused within 600 MB."""
    path = tmp_path / "a.json"
    values = bounds.MAX_VALUES - 100
    path.write_bytes(b'{"images":[' + b"[]," * (values // 2) + b'0],"annotations":[]}')
    code = (
        "import sys; from macd_studio.core.errors import TracksError\n"
        "from macd_studio.core.objects.formats import read_track_file\n"
        "try: read_track_file(sys.argv[1])\n"
        "except TracksError as error: print(error)\n"
        "peak = [z for z in open('/proc/self/status') if z.startswith('VmHWM')]\n"
        "print(int(peak[0].split()[1]) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True,
        timeout=PATIENCE_S, cwd=Path(__file__).parents[2], env=os.environ | {"PYTHONPATH": "."},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2),
    )  # fmt: skip
    said, megabytes = done.stdout.splitlines()
    assert "an image is a list" in said
    assert int(megabytes) < 600
