"""Drawn objects whose boxes are known, files of them as other programs write them, and the oracle.

The writers here share nothing with `core.objects.formats`.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.placing import place_tracks
from macd_studio.core.options import TrackOptions
from macd_studio.core.types import LOST

LABELS = ("cup", "dog", "car")
PLACE, COUNT = tempfile.TemporaryDirectory(prefix="macd-fuzz-"), itertools.count()


@dataclass(frozen=True)
class Truth:
    """Objects that move evenly, each in a lane of its own. boxes: (K, N, 4) pixels x0 y0 x1 y1."""

    size: tuple[int, int]
    labels: tuple[str, ...]
    boxes: np.ndarray

    @property
    def count(self):
        return self.boxes.shape[1]


def draw(seed, frames=None, size=None, distinct=False):
    """Whole pixels, an even number of them wide and high, so that every format can state them.

    distinct: no two objects have one label, so that a file without numbers of objects is enough.
    """
    rng = random.Random(seed)
    frames = frames or rng.randint(4, 14)
    size = size or rng.choice([(64, 48), (96, 64), (48, 96)])
    w, h = size
    kinds = rng.randint(1, 3)
    lane = h // kinds // 2 * 2
    boxes = np.zeros((kinds, frames, 4))
    for k in range(kinds):
        bw, bh = rng.randrange(8, 17, 2), rng.randrange(6, max(7, lane - 4), 2)
        x0, x1 = rng.randrange(0, w - bw, 2), rng.randrange(0, w - bw, 2)
        y = k * lane + rng.randrange(0, max(1, lane - bh), 2)
        x = np.round(np.linspace(x0, x1, frames) / 2) * 2
        boxes[k] = np.stack([x, np.full(frames, y), x + bw, np.full(frames, y + bh)], axis=1)
    labels = rng.sample(LABELS, kinds) if distinct else [rng.choice(LABELS) for _ in range(kinds)]
    return Truth(size, tuple(labels), boxes)


def facts(truth, name="clip.mp4", every=1, count=True, fps=25.0):
    """The clip of the drawn objects, of which each `every`-th frame is sampled."""
    numbers = np.arange(0, truth.count, every)
    return ClipFacts(
        name, numbers / fps, numbers, truth.size, truth.size, truth.count if count else None, fps
    )


def outcome(path, truth, clip=None, tolerance=0.02, may_relabel=False, **options):
    """ "right", or what the refusal says; AssertionError where what is placed is not the truth."""
    clip = clip or facts(truth)
    chosen = TrackOptions(**options)
    try:
        found = place_tracks(read_track_file(path, clip, chosen), clip, chosen)
    except TracksError as error:
        return str(error)
    assert found.notes
    scale = np.array([*truth.size, *truth.size])
    left = list(range(len(truth.labels)))
    for track in found.tracks:
        same = [k for k in left if fits(track, truth.boxes[k] / scale, clip.numbers, tolerance)]
        assert same, f"{track.label} is where nothing is: {track.boxes.tolist()}"
        assert may_relabel or any(track.label == truth.labels[k] for k in same), track.label
        left.remove(same[0])
    assert not left, f"objects are missing: {[truth.labels[k] for k in left]}"
    return "right"


def fits(track, boxes, numbers, tolerance):
    seen = track.state != LOST
    return seen.all() and bool(np.abs(track.boxes - boxes[numbers]).max() <= tolerance)


def fresh():
    """A folder for the files of one case."""
    folder = Path(PLACE.name) / str(next(COUNT))
    folder.mkdir()
    return folder


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(folder, members, name="tracks.zip"):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for inner, content in members.items():
            opened.writestr(inner, content)
    return write(folder, name, packed.getvalue())


def coco(truth, names, first_id=1, **image):
    """COCO's instances with track ids."""
    kinds = sorted(set(truth.labels))
    notes = []
    for n in range(truth.count):
        for k, label in enumerate(truth.labels):
            x0, y0, x1, y1 = truth.boxes[k, n].tolist()
            notes.append({
                "id": len(notes) + 1, "image_id": first_id + n, "iscrowd": 0, "track_id": k + 1,
                "category_id": kinds.index(label) + 1, "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": (x1 - x0) * (y1 - y0), "segmentation": [],
            })  # fmt: skip
    return {
        "images": [
            {"id": first_id + n, "file_name": name, "width": truth.size[0],
             "height": truth.size[1]} | image
            for n, name in enumerate(names)
        ],
        "annotations": notes,
        "categories": [{"id": i + 1, "name": kind} for i, kind in enumerate(kinds)],
    }  # fmt: skip


def cocovid(videos):
    """Several truths by name, as CocoVID and MMTracking write them."""
    out = {"videos": [], "images": [], "annotations": [], "categories": []}
    out["categories"] = [{"id": i + 1, "name": kind} for i, kind in enumerate(LABELS)]
    for v, (name, truth) in enumerate(videos.items(), 1):
        out["videos"].append({"id": v, "name": name})
        for n in range(truth.count):
            image = len(out["images"]) + 1
            out["images"].append({
                "id": image, "video_id": v, "frame_id": n, "file_name": f"{name}/{n:06d}.jpg",
                "width": truth.size[0], "height": truth.size[1],
            })  # fmt: skip
            for k, label in enumerate(truth.labels):
                x0, y0, x1, y1 = truth.boxes[k, n].tolist()
                out["annotations"].append({
                    "id": len(out["annotations"]) + 1, "image_id": image, "video_id": v,
                    "instance_id": k + 1, "category_id": LABELS.index(label) + 1,
                    "bbox": [x0, y0, x1 - x0, y1 - y0], "area": 1, "iscrowd": 0,
                })  # fmt: skip
    return out


def youtube_vis(videos):
    """Several truths by name, with boxes alone or run lengths."""
    out = {"videos": [], "annotations": []}
    out["categories"] = [{"id": i + 1, "name": kind} for i, kind in enumerate(LABELS)]
    for v, (name, truth) in enumerate(videos.items(), 1):
        w, h = truth.size
        out["videos"].append({
            "id": v, "width": w, "height": h, "length": truth.count,
            "file_names": [f"{name}/{n:05d}.jpg" for n in range(truth.count)],
        })  # fmt: skip
        for k, label in enumerate(truth.labels):
            runs = []
            for x0, y0, x1, y1 in truth.boxes[k].astype(int).tolist():
                counts = [x0 * h + y0]
                for _ in range(x1 - x0):
                    counts += [y1 - y0, h - (y1 - y0)]
                counts[-1] += (w - x1) * h - y0
                runs.append({"size": [h, w], "counts": counts})
            out["annotations"].append({
                "id": len(out["annotations"]) + 1, "video_id": v, "iscrowd": 0,
                "category_id": LABELS.index(label) + 1, "segmentations": runs,
                "bboxes": [[a, b, c - a, d - b] for a, b, c, d in truth.boxes[k].tolist()],
            })  # fmt: skip
    return out


def label_studio(tasks):
    """(video, annotator, truth, cancelled) of each annotation; key frames at every frame."""
    by_video = {}
    for video, person, truth, cancelled in tasks:
        w, h = truth.size
        rows = []
        for k, label in enumerate(truth.labels):
            sequence = [
                {"frame": n + 1, "enabled": True, "rotation": 0, "time": (n + 1) / 25,
                 "x": 100 * x0 / w, "y": 100 * y0 / h, "width": 100 * (x1 - x0) / w,
                 "height": 100 * (y1 - y0) / h}
                for n, (x0, y0, x1, y1) in enumerate(truth.boxes[k].tolist())
            ]  # fmt: skip
            rows.append({
                "id": f"r{k}", "type": "videorectangle", "from_name": "box", "to_name": "video",
                "value": {"framesCount": truth.count, "duration": truth.count / 25,
                          "sequence": sequence, "labels": [label]},
            })  # fmt: skip
        task = by_video.setdefault(video, {"data": {"video": video}, "annotations": []})
        task["annotations"].append(
            {"completed_by": person, "result": rows, "was_cancelled": cancelled}
        )
    return list(by_video.values())


def cvat_project(videos):
    """Tasks of a project, each with its own video."""
    meta, tracks = [], []
    for t, (name, truth) in enumerate(videos.items(), 11):
        meta.append(
            f"<task><id>{t}</id><name>{name}</name><size>{truth.count}</size><source>{name}.mp4"
            f"</source><original_size><width>{truth.size[0]}</width><height>{truth.size[1]}"
            "</height></original_size></task>"
        )
        for k, label in enumerate(truth.labels):
            shapes = "".join(
                f'<box frame="{n}" keyframe="1" outside="0" occluded="0" xtl="{x0}" ytl="{y0}"'
                f' xbr="{x1}" ybr="{y1}" z_order="0"/>'
                for n, (x0, y0, x1, y1) in enumerate(truth.boxes[k].tolist())
            )
            tracks.append(f'<track id="{k}" label="{label}" task_id="{t}">{shapes}</track>')
    return (
        '<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version><meta><project>'
        f"<id>1</id><name>p</name><tasks>{''.join(meta)}</tasks></project></meta>"
        f"{''.join(tracks)}</annotations>"
    )


def shares(truth, k, n):
    """x y w h of a box as YOLO has it."""
    x0, y0, x1, y1 = truth.boxes[k, n]
    w, h = truth.size
    return (x0 + x1) / 2 / w, (y0 + y1) / 2 / h, (x1 - x0) / w, (y1 - y0) / h


def corners(truth, k, n):
    """A box as a ring of its corners, in shares."""
    x0, y0, x1, y1 = truth.boxes[k, n]
    w, h = truth.size
    return [x0 / w, y0 / h, x1 / w, y0 / h, x1 / w, y1 / h, x0 / w, y1 / h]


def filled(truth, n, values):
    """(h, w) of a frame, with a value for each object."""
    picture = np.zeros((truth.size[1], truth.size[0]), np.uint16)
    for k, value in enumerate(values):
        x0, y0, x1, y1 = truth.boxes[k, n].astype(int)
        picture[y0:y1, x0:x1] = value
    return picture


def png(pixels, palette=None):
    """A PNG of an array; palette: 768 numbers."""
    picture = Image.fromarray(pixels)
    if palette is not None:
        picture = picture.convert("L")
        picture.putpalette(palette)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def as_json(value):
    return json.dumps(value)
