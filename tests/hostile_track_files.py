"""Small files of tracks and masks that would take much memory or time if nothing bounded them."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from functools import partial

import numpy as np
from PIL import Image

from tests import zip_lies

W, H = 640, 360


def png(pixels, **how):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", **how)
    return out.getvalue()


def raw_png(width, height, bits, kind, line):
    """A PNG whose lines are all alike, which packs to next to nothing."""

    def chunk(name, content):
        return (
            struct.pack(">I", len(content)) + name + content
            + struct.pack(">I", zlib.crc32(name + content))
        )  # fmt: skip

    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b"\0" + line) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    )


zipped = partial(zip_lies.zipped, method=zipfile.ZIP_DEFLATED)


def colours(count, size=(W, H)):
    """A picture of so many colours, in runs."""
    flat = np.arange(size[0] * size[1]) % count
    rgb = np.stack([flat >> 16, flat >> 8 & 255, flat & 255], axis=-1).astype(np.uint8)
    return rgb.reshape(size[1], size[0], 3)


def comb(teeth, height=H, width=W):
    """A polygon that goes up and down so many times."""
    x = np.linspace(0, width, 2 * teeth)
    y = np.where(np.arange(2 * teeth) % 2, 0.5, height - 0.5)
    return np.stack([x, y], axis=1).round(2).ravel().tolist()


def coco(*segmentations, frames=(0,), size=(W, H), **more):
    images = [
        {"id": i, "width": size[0], "height": size[1], "file_name": f"f_{n:06d}.png"}
        for i, n in enumerate(frames)
    ]
    notes = [
        {"id": i, "image_id": i % max(1, len(images)), "category_id": 1, "iscrowd": 0,
         "track_id": i, "segmentation": s}
        for i, s in enumerate(segmentations)
    ]  # fmt: skip
    kinds = [{"id": 1, "name": "a"}]
    data = {"images": images, "annotations": notes, "categories": kinds} | more
    return json.dumps(data, separators=(",", ":")).encode()


def stripes(size=(W, H)):
    return {"size": [size[1], size[0]], "counts": [0] + [1] * (size[0] * size[1])}


def cvat(inside, size=(W, H)):
    return (
        f"<annotations><meta><task><original_size><width>{size[0]}</width><height>{size[1]}"
        f"</height></original_size></task></meta>{inside}</annotations>"
    ).encode()


def yaml_bomb(levels=9):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, levels):
        lines.append(f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]")
    return "\n".join([*lines, f"names: *a{levels - 1}"])


LABEL = "0 .5 .5 .1 .1\n"
ONE_BOX = '<box frame="{}" outside="0" xtl="1" ytl="1" xbr="9" ybr="9"/>'


def spiral(width, height):
    """One part whose edge goes along every second row: a comb of pixels."""
    mask = np.zeros((height, width), np.uint8)
    mask[::2] = 1
    mask[:, 0] = 1
    return mask


def checkers(width, height):
    y, x = np.mgrid[:height, :width]
    return ((x + y) % 2).astype(np.uint8)


def label_studio(keys, tasks=1):
    row = {"id": "a", "type": "videorectangle", "value": {"sequence": keys, "labels": ["a"]}}
    return json.dumps([{"annotations": [{"result": [row]}]} for _ in range(tasks)]).encode()


def many_frames(count):
    return coco([0, 0, 9, 0, 9, 9], frames=range(count))


def dump(data):
    return json.dumps(data, separators=(",", ":")).encode()


def labelme(shapes):
    return dump({"shapes": shapes, "imagePath": "6.jpg", "imageWidth": W, "imageHeight": H})


def via(regions):
    return dump({"6.jpg1": {"filename": "6.jpg", "size": 1, "regions": regions}})


def datumaro(annotations, items=1):
    rows = [
        {"id": f"f_{i:06d}", "image": {"size": [H, W]}, "annotations": annotations}
        for i in range(items)
    ]
    return dump({"categories": {"label": {"labels": [{"name": "a"}]}}, "items": rows})


def voc(inside):
    return (
        f"<annotation><filename>6.jpg</filename><size><width>{W}</width><height>{H}</height></size>"
        f"{inside}</annotation>"
    ).encode()


def panoptic(segments, pixels):
    notes = [{"image_id": 6, "file_name": "6.png", "segments_info": [
        {"id": i, "category_id": 1, "bbox": [1, 1, 9, 9]}
        for i in range(1, segments + 1)]}]  # fmt: skip
    images = [{"id": 6, "width": W, "height": H, "file_name": "6.jpg"}]
    kinds = [{"id": 1, "name": "a", "isthing": 1}]
    told = dump({"images": images, "annotations": notes, "categories": kinds})
    return zipped({"panoptic.json": told, "panoptic/6.png": png(pixels)})


BOX = {"type": "bbox", "bbox": [1, 1, 9, 9], "label_id": 0}
RECTANGLE = {"label": "a", "points": [[1, 1], [9, 9]], "shape_type": "rectangle"}
REGION = {"shape_attributes": {"name": "rect", "x": 1, "y": 1, "width": 9, "height": 9},
          "region_attributes": {"name": "a"}}  # fmt: skip
ROW = {"x_min": 1, "y_min": 1, "x_max": 9, "y_max": 9, "class_name": "a", "tracker_id": 1}


FILES = {
    "921,600 colours": ("m_6.png", lambda: png(colours(921_600, (1280, 720)))),
    "257 colours": ("m_6.png", lambda: png(colours(257))),
    "9 million pixels of 2 values": ("m_6.png", lambda: raw_png(4096, 2304, 1, 0, b"\xaa" * 512)),
    "9 million pixels of 16 bits": ("m_6.png", lambda: raw_png(4096, 2304, 16, 0, b"\0\1" * 4096)),
    "9 million pixels in colour": (
        "m_6.png", lambda: raw_png(4096, 2304, 8, 2, bytes(range(96)) * 128)),
    "a picture of 200,000 pixels a side": (
        "m_6.png", lambda: raw_png(200_000, 1, 1, 0, b"\0" * 25_000)),
    "a picture that says less than it holds": (
        "m_6.png", lambda: raw_png(64, 64, 8, 0, bytes(40_000))),
    "100 pictures of 9 million pixels": (
        "m.zip", lambda: zipped({
            f"m_{i}.png": raw_png(4096, 2304, 1, 0, b"\xaa" * 512) for i in range(100)})),
    "checkers": ("m_6.png", lambda: png(checkers(1280, 720))),
    "a comb of pixels": ("m_6.png", lambda: png(spiral(4096, 2304))),
    "a comb of pixels in 255 values": (
        "m_6.png", lambda: png((np.arange(1280 * 720) % 255).astype(np.uint8).reshape(720, 1280))),
    "256 stripes": (
        "m_6.png", lambda: png(np.repeat(np.arange(256, dtype=np.uint8), 3600).reshape(720, 1280))),
    "20,000 pictures": (
        "m.zip", lambda: zipped({f"m_{i}.png": raw_png(64, 36, 1, 0, bytes(8))
                                 for i in range(20_000)})),
    "20,001 members": ("m.zip", lambda: zipped({f"{i}.txt": "" for i in range(20_001)})),
    "a zip bomb": ("m.zip", lambda: zipped({"1.txt": bytes(200 * 2**20)})),
    "a zip bomb of unread files": ("m.zip", lambda: zipped({"a.jpg": bytes(200 * 2**20)})),
    "a zip in a zip": ("m.zip", lambda: zipped({"a.zip": zipped({"1.txt": bytes(2**24)})})),
    "a name of 60,000 letters": ("m.zip", lambda: zipped({"a" * 60_000 + "1.txt": LABEL})),
    "a number of 5,000 digits in a name": (
        "m.zip", lambda: zipped({"1" * 5_000 + ".txt": LABEL, "2" * 5_000 + ".txt": LABEL})),
    "YAML of aliases": ("m.zip", lambda: zipped({"data.yaml": yaml_bomb(), "1.txt": LABEL})),
    "YAML 10,000 deep": (
        "m.zip", lambda: zipped({"data.yaml": "names: " + "[" * 10_000, "1.txt": LABEL})),
    "YAML of a million values": (
        "m.zip", lambda: zipped({"data.yaml": "names: [" + "a," * 499_000 + "]", "1.txt": LABEL})),
    "YAML of a long number": (
        "m.zip", lambda: zipped({"data.yaml": "nc: " + "9" * 900_000, "1.txt": LABEL})),
    "200,000 rows of YOLO": ("m.zip", lambda: zipped({"1.txt": LABEL * 200_000})),
    "a million rows of YOLO": ("m.zip", lambda: zipped({"1.txt": LABEL * 1_000_000})),
    "200 rows on each of 1,000 frames": (
        "m.zip", lambda: zipped({f"{i}.txt": LABEL * 200 for i in range(1000)})),
    "a polygon of 39,000 numbers": (
        "m.zip", lambda: zipped({"1.txt": "0 " + ".1 .2 " * 19_500})),
    "a polygon of a million numbers": (
        "m.zip", lambda: zipped({"1.txt": "0 " + ".1 .2 " * 500_000})),
    "a comb of 10,000 teeth": ("a.json", lambda: coco([comb(9_900)])),
    "a comb of 10,000 teeth, 4,096 high": (
        "a.json", lambda: coco([comb(9_900, 2304, 4096)], size=(4096, 2304))),
    "400 combs in one object": (
        "a.json", lambda: coco([comb(400)] * 400)),
    "40 objects that are combs": (
        "a.json", lambda: coco(*[[comb(2_000)] for _ in range(40)])),
    "a polygon of 100,000 points": ("a.json", lambda: coco([comb(50_000)])),
    "a polygon with NaN": ("a.json", lambda: coco([0, 0, 9, 0, 9, 9]).replace(b"9,9]", b"9,NaN]")),
    "run lengths of 1": ("a.json", lambda: coco(stripes((640, 360)))),
    "run lengths of 1, 4,096 wide": (
        "a.json", lambda: coco(stripes((1920, 1080)), size=(1920, 1080))),
    "packed run lengths without end": (
        "a.json", lambda: coco({"size": [H, W], "counts": "o" * 1_000_000})),
    "190,000 frames": ("a.json", lambda: many_frames(190_000)),
    "4 million values": (
        "a.json", lambda: b'{"images":[' + b"[]," * 1_990_000 + b'0],"annotations":[]}'),
    "JSON 100,000 deep": ("a.json", lambda: b"[" * 100_000),
    "a number of 4,000 digits": (
        "a.json", lambda: coco([0, 0, 9, 0, 9, 9]).replace(b'"id":0', b'"id":' + b"9" * 4000, 1)),
    "a number of 400 digits in text": (
        "a.xml", lambda: cvat('<track label="a">' + ONE_BOX.format("9" * 400) + "</track>")),
    "a label of 16 million letters": (
        "a.json", lambda: coco([0, 0, 9, 0, 9, 9]).replace(b'"a"', b'"' + b"a" * 2**24 + b'"')),
    "10,001 tasks": ("a.json", lambda: label_studio([{"frame": 1}], 10_001)),
    "200,000 key frames": (
        "a.json", lambda: label_studio([
            {"frame": i + 1, "x": 1, "y": 1, "width": 9, "height": 9, "enabled": True}
            for i in range(200_000)])),
    "a million elements of XML": ("a.xml", lambda: cvat("<b/>" * 999_000)),
    "a track of 200,000 boxes": (
        "a.xml", lambda: cvat('<track label="a">' + "".join(
            ONE_BOX.format(i) for i in range(200_000)) + "</track>")),
    "XML of entities": (
        "a.xml", lambda: b'<!DOCTYPE z [<!ENTITY a "&b;&b;"><!ENTITY b "ha">]><z>&a;</z>'),
    "a mask of CVAT of two million runs": (
        "a.xml", lambda: cvat('<track label="a"><mask frame="0" outside="0" left="0" top="0"'
                              ' width="1920" height="1080" rle="' + "1," * 2_073_599
                              + '1"/></track>', (1920, 1080))),
    "a million rows of MOT": (
        "gt.txt", lambda: b"".join(b"%d,1,1,1,9,9,1,1,1\n" % (i + 1) for i in range(200_000))),
    "4,000 objects on each frame of MOT": (
        "gt.txt", lambda: b"".join(b"1,%d,1,1,9,9,1,1,1\n" % i for i in range(4_001))),
    "a table with a header of 200,000 rows": (
        "a.csv", lambda: b"frame,id,x,y,w,h,label\n" + b"".join(
            b"%d,1,1,1,9,9,a\n" % i for i in range(200_000))),
    "labelme of 100,000 boxes": ("6.json", lambda: labelme([RECTANGLE] * 100_000)),
    "labelme with a polygon of 400,000 points": (
        "6.json", lambda: labelme([{"label": "a", "points": [[1, 2]] * 400_000}])),
    "VIA of 60,000 regions": ("a.json", lambda: via([REGION] * 60_000)),
    "BDD100K of 50,000 pictures": (
        "a.json", lambda: dump([
            {"name": f"f-{i:06d}.jpg", "frameIndex": i, "labels": [
                {"id": 1, "category": "a", "box2d": {"x1": 1, "y1": 1, "x2": 9, "y2": 9}}]}
            for i in range(50_000)])),
    "Datumaro of 60,000 boxes": (
        "a.json", lambda: datumaro([BOX] * 60_000)),
    "Datumaro of 60,000 pictures": (
        "a.json", lambda: datumaro([BOX], 60_000)),
    "OpenLABEL of 50,000 frames": (
        "a.json", lambda: dump({"openlabel": {"objects": {"0": {"type": "a"}}, "frames": {
            str(i): {"objects": {"0": {"object_data": {"bbox": [{"val": [5, 5, 9, 9]}]}}}}
            for i in range(50_000)}}})),
    "SA-V of packed run lengths without end": (
        "a.json", lambda: dump({"video_id": "a", "video_width": W, "video_height": H,
            "masklet_id": [0], "masklet": [[{"size": [H, W], "counts": "o" * 1_000_000}]]})),
    "supervision of 80,000 rows": (
        "a.json", lambda: dump([ROW | {"frame_number": i} for i in range(80_000)])),
    "Pascal VOC of a million elements": ("6.xml", lambda: voc("<b/>" * 999_000)),
    "Pascal VOC of 60,000 boxes": (
        "6.xml", lambda: voc(
            "<object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
            "</bndbox></object>" * 60_000)),
    "COCO panoptic of 100,000 segments": (
        "m.zip", lambda: panoptic(100_000, colours(100_000))),
    "two boxes of one object a billion frames apart": (
        "gt.txt", lambda: b"1,1,1,1,9,9,1,1,1\n1000000000,1,1,1,9,9,1,1,1\n"),
    "no known format, of 80,000 keys": (
        "a.json", lambda: dump({f"key{i}": i for i in range(80_000)})),
    "a MOT frame of 400 digits": ("gt.txt", lambda: b"9" * 400 + b",1,1,1,9,9,1,1,1\n"),
}  # fmt: skip
"""What it is → the file's name, and its content."""
SAMPLE = ("921,600 colours", "YAML of aliases", "run lengths of 1", "a number of 4,000 digits")
"""Those that the short suite takes."""
