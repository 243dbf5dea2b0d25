"""Files of tracks that can be read in more than one way: the drawn truth, or a refusal.

Nothing else: objects of another clip, on other frames or of other columns are an error here.
"""

import io
import random
from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.formats.columns import NAMES, PLAIN, Row, choose_layout
from tests.fuzz import cases as fuzz
from tests.fuzz import drawn_tracks as drawn

cases = partial(fuzz.cases, share=0.2)
"""Each case writes and reads a file."""
seeds = st.integers(0, 2**31)
HEX = "0123456789abcdef"


def truths(rng, n):
    sizes = [rng.choice([(64, 48), (96, 64)]) for _ in range(n)]
    return [drawn.draw(rng.random(), rng.randint(4, 9), size) for size in sizes]


@cases(
    seeds, st.sampled_from(["cocovid", "youtube-vis", "label-studio", "cvat", "splits", "davis"])
)
def test_of_several_videos_the_clips_own_is_taken_or_all_are_named(seed, kind):
    rng = random.Random(seed)
    names = rng.sample(["kitchen", "street", "beach", "clip"], rng.randint(2, 3))
    videos = dict(zip(names, truths(rng, len(names)), strict=True))
    mine = rng.choice(names)
    folder = drawn.fresh()
    if kind == "cocovid":
        path = drawn.write(folder, "a.json", drawn.as_json(drawn.cocovid(videos)))
    elif kind == "youtube-vis":
        path = drawn.write(folder, "a.json", drawn.as_json(drawn.youtube_vis(videos)))
    elif kind == "label-studio":
        tasks = [(f"/data/upload/1/{rng.randrange(16**8):08x}-{n}.mp4", 1, t, False)
                 for n, t in videos.items()]  # fmt: skip
        path = drawn.write(folder, "a.json", drawn.as_json(drawn.label_studio(tasks)))
    elif kind == "cvat":
        path = drawn.write(folder, "a.xml", drawn.cvat_project(videos))
    elif kind == "splits":
        path = drawn.zipped(folder, {
            f"{n}/_annotations.coco.json": drawn.as_json(
                drawn.coco(t, [f"frame_{i:04d}.jpg" for i in range(t.count)]))
            for n, t in videos.items()
        })  # fmt: skip
    else:
        path = drawn.zipped(folder, {
            f"DAVIS/Annotations/480p/{n}/{i:05d}.png": drawn.png(
                drawn.filled(t, i, range(1, 1 + len(t.labels))).astype(np.uint8))
            for n, t in videos.items() for i in range(t.count)
        })  # fmt: skip
    truth, relabel = videos[mine], kind == "davis"
    named = drawn.facts(truth, f"{mine}.mp4")
    assert drawn.outcome(path, truth, named, may_relabel=relabel) == "right"
    other = drawn.facts(truth, "other.mp4")
    found = drawn.outcome(path, truth, other, may_relabel=relabel)
    assert found == "right" or all(n in found for n in names)
    assert drawn.outcome(path, truth, other, may_relabel=relabel, file_source=mine) == "right"


def frame_names(rng, count, first):
    """Names as tools give them, and what must be true of them."""
    digits = rng.choice([1, 4, 6])
    stem = rng.choice(["frame_{n}", "clip_mp4-{n}_jpg", "GX010023_{n}", "cam2-take3-{n}", "{n}",
                       "2007_{n}", "v1.2_{n}_of_90", "img{n}"])  # fmt: skip
    decorate = rng.choice(["", "roboflow", "upload", "uuid"])
    names = []
    for i in range(count):
        name = stem.format(n=str(i + first).zfill(digits))
        if decorate == "roboflow":
            name += ".rf." + "".join(rng.choice(HEX) for _ in range(32))
        elif decorate == "upload":
            name = "".join(rng.choice(HEX) for _ in range(8)) + "-" + name
        elif decorate == "uuid":
            parts = ["".join(rng.choice(HEX) for _ in range(k)) for k in (8, 4, 4, 4, 12)]
            name += "_" + "-".join(parts)
        names.append(name)
    return names


@cases(seeds, st.sampled_from(["coco", "yolo", "png"]), st.sampled_from([0, 1]), st.booleans())
def test_the_number_that_counts_frames_is_found_in_names(seed, kind, first, stated):
    rng = random.Random(seed)
    truth = drawn.draw(seed, distinct=True)
    names = frame_names(rng, truth.count, first)
    folder = drawn.fresh()
    if kind == "coco":
        data = drawn.coco(truth, [f"{n}.jpg" for n in names])
        path = drawn.write(folder, "a.json", drawn.as_json(data))
    elif kind == "yolo":
        members = {f"labels/{n}.txt": yolo_rows(truth, i, "box") for i, n in enumerate(names)}
        path = drawn.zipped(folder, members | {"classes.txt": "\n".join(drawn.LABELS)})
    else:
        values = range(1, 1 + len(truth.labels))
        path = drawn.zipped(folder, {
            f"{n}.png": drawn.png(drawn.filled(truth, i, values).astype(np.uint8))
            for i, n in enumerate(names)
        })  # fmt: skip
    options = {"file_first": str(first)} if stated else {}
    found = drawn.outcome(path, truth, may_relabel=kind == "png", **options)
    assert found == "right" or "which of" in found, found


def yolo_rows(truth, n, layout, rng=None, fixed=False, ids=None, score=None):
    """Lines of one frame. ids: of the objects; score: of each row."""
    rng = rng or random.Random(0)
    lines = []
    for k, label in enumerate(truth.labels):
        shape = (
            drawn.corners(truth, k, n) if "polygon" in layout else list(drawn.shares(truth, k, n))
        )
        if layout.startswith("pose"):
            x, y, w, h = drawn.shares(truth, k, n)
            for _ in range(4):
                shape += [x + w * rng.uniform(-0.45, 0.45), y + h * rng.uniform(-0.45, 0.45)]
                shape.append(rng.choice([1, 2, 2]))
        conf = 1.0 if score is None else score(rng)
        cells = {"conf": conf, "track": (ids or range(1, 9))[k]}
        before = [cells["track"]] if layout.startswith("track") else []
        behind = [cells[part] for part in layout.split("-")[1:] if part in cells]
        form = (lambda v: f"{v:.6f}") if fixed else (lambda v: f"{v:g}")
        words = [str(drawn.LABELS.index(label)), *(str(v) for v in before)]
        words += [str(v) if isinstance(v, int) else form(v) for v in shape]
        words += [str(v) if isinstance(v, int) else form(v) for v in behind]
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


@cases(
    seeds, st.sampled_from([n for n in NAMES if n != "box-track-conf"]), st.booleans(),
    st.sampled_from(["ones", "some"]), st.sampled_from([(1, 2, 3), (0, 1, 2), (7, 8, 900)]),
    st.booleans(),
)  # fmt: skip
def test_columns_without_names_are_read_as_they_were_written(seed, layout, fixed, how, ids, stated):
    rng = random.Random(seed)
    truth = drawn.draw(seed, distinct="track" not in layout)
    score = (lambda _: 1.0) if how == "ones" else (lambda r: round(r.uniform(0.3, 1), 3))
    members = {
        f"labels/clip_{n}.txt": yolo_rows(truth, n, layout, rng, fixed, ids, score)
        for n in range(truth.count)
    }
    data = "names: {0: cup, '1': dog, 2: \"car\"}\n"
    if layout.startswith("pose") and stated:
        data += "kpt_shape: [4, 3]\n"
    known = {"data.yaml": data} if stated else {"classes.txt": "\n".join(drawn.LABELS)}
    if layout.startswith("pose") and not stated:
        known = {"classes.txt": "\n".join(drawn.LABELS)}
    path = drawn.zipped(drawn.fresh(), members | known)
    found = drawn.outcome(path, truth)
    assert found == "right" or "can be read as" in found or "fit no columns" in found, found
    assert drawn.outcome(path, truth, file_columns=layout) == "right"


@pytest.mark.parametrize(("count", "height", "columns"), [
    (9, 0.25, "box-conf-track"),
    (5, 0.25, "box-conf-track"),
    (4, 0.25, "can be read as box-conf-track or polygon"),  # triangles that reach an edge?
    (9, 1, "can be read as box-conf-track or polygon"),  # the edge may have cut them off
])  # fmt: skip
def test_one_object_with_its_confidence_and_track(count, height, columns):
    """As `yolo track save_txt=True save_conf=True` writes it, where every track is 1."""
    rows = [
        Row(float(n), 0, np.array([0.5, 0.5, 0.25, height, 0.6 + n / 100, 1]), f"line {n}")
        for n in range(count)
    ]
    if "can be read" in columns:
        with pytest.raises(TracksError, match=columns):
            choose_layout("labels", rows)
    else:
        assert choose_layout("labels", rows).columns == columns


def test_every_name_of_columns_is_a_layout():
    assert {one.columns for one in PLAIN} == {n for n in NAMES if not n.startswith("pose")}


@cases(seeds, st.sampled_from(["index", "grey", "rgb", "rgba", "cut-out", "soft", "photo"]))
def test_pictures_are_masks_or_are_refused(seed, kind):
    from PIL import Image

    rng = random.Random(seed)
    truth = drawn.draw(seed)
    # of soft edges around 2 alone there is one level between, which nothing tells from an object
    values = rng.sample(range(2 if kind == "soft" else 1, 120), len(truth.labels))
    palette = [rng.randrange(256) for _ in range(768)]
    members = {}
    for n in range(truth.count):
        index = drawn.filled(truth, n, values).astype(np.uint8)
        noise = np.random.default_rng(rng.randrange(2**31)).integers(0, 256, (*index.shape, 3))
        colours = np.random.default_rng(seed).integers(60, 256, (256, 3)).astype(np.uint8)
        rgb = np.where(index[..., None] > 0, colours[index], 0).astype(np.uint8)
        alpha = ((index > 0) * 255).astype(np.uint8)
        name = f"m_{n:03d}.png"
        if kind == "index":
            members[name] = drawn.png(index, palette)
        elif kind == "grey":
            members[name] = drawn.png(index)
        elif kind == "rgb":
            members[name] = drawn.png(rgb)
        elif kind == "rgba":
            members[name] = drawn.png(np.dstack([rgb, alpha]))
        elif kind == "cut-out":
            cut = np.dstack([noise.astype(np.uint8), alpha])
            members[f"001_{truth.labels[0]}/{name}"] = drawn.png(cut)
        elif kind == "soft":
            large = Image.fromarray(index * 2).resize(
                (index.shape[1] * 5 // 2, index.shape[0] * 5 // 2), Image.Resampling.BILINEAR
            )
            members[name] = drawn.png(np.asarray(large))
        else:
            members[name] = drawn.png(noise.astype(np.uint8))
    path = drawn.zipped(drawn.fresh(), members)
    if kind == "cut-out":
        union = drawn.Truth(
            truth.size,
            truth.labels[:1],
            np.concatenate(
                [truth.boxes[:, :, :2].min(axis=0), truth.boxes[:, :, 2:].max(axis=0)], axis=1
            )[None],
        )
        found = drawn.outcome(path, union)
        assert found == "right"
        return
    found = drawn.outcome(path, truth, may_relabel=True)
    if kind in ("index", "grey", "rgb", "rgba"):
        assert found == "right", found
    else:
        assert "no picture of masks" in found, found


def test_masks_that_were_stored_as_jpeg_are_refused():
    """At a size that real ones have: few levels of a tiny drawn picture can pass as masks."""
    from PIL import Image

    from macd_studio.core.errors import TracksError
    from macd_studio.core.objects.formats.pixels import read_values

    y, x = np.mgrid[:360, :640]
    mask = np.zeros((360, 640), np.uint8)
    mask[(x - 200) ** 2 + (y - 150) ** 2 < 90**2] = 1
    mask[(x - 450) ** 2 + 2 * (y - 220) ** 2 < 110**2] = 2
    for scale, quality in ((1, 60), (60, 75), (120, 95)):
        stored = io.BytesIO()
        Image.fromarray(mask * scale * (60 if scale == 1 else 1)).save(
            stored, "JPEG", quality=quality
        )
        again = np.asarray(Image.open(io.BytesIO(stored.getvalue())))
        with pytest.raises(TracksError, match="no picture of masks"):
            read_values(drawn.png(again), "a mask")


@cases(seeds, st.sampled_from(["crowd", "no track", "voc", "mots", "mots labels", "mot ignored"]))
def test_regions_to_ignore_are_no_objects(seed, kind):
    rng = random.Random(seed)
    truth = drawn.draw(seed, distinct=kind == "no track")
    w, h = truth.size
    folder, relabel = drawn.fresh(), False
    if kind in ("crowd", "no track"):
        data = drawn.coco(truth, [f"f_{i:04d}.jpg" for i in range(truth.count)])
        if kind == "no track":
            for note in data["annotations"]:
                note["track_id"] = -1
        else:
            data["annotations"] += [
                {"id": 900 + n, "image_id": 1 + n, "category_id": 1, "iscrowd": 1, "area": 9,
                 "bbox": [0, 0, w, h],
                 "segmentation": {"size": [h, w], "counts": [0, w * h]}}
                for n in range(0, truth.count, rng.randint(1, 3))
            ]  # fmt: skip
        path = drawn.write(folder, "a.json", drawn.as_json(data))
    elif kind == "mot ignored":
        rows = [f"{n + 1},{k + 1},{x0 + 1},{y0 + 1},{x1 - x0},{y1 - y0},1,3,1"
            for k in range(len(truth.labels))
            for n, (x0, y0, x1, y1) in enumerate(truth.boxes[k].tolist())]  # fmt: skip
        rows += [f"{n + 1},77,1,1,{w},{h},0,8,1" for n in range(truth.count)]
        rng.shuffle(rows)
        path = drawn.write(folder, "MOT17-02/gt/gt.txt", "\n".join(rows)).parents[1]
        relabel = True
    else:
        members = {}
        classes = [drawn.LABELS.index(label) + 1 for label in truth.labels]
        for n in range(truth.count):
            if kind == "voc":
                index = drawn.filled(truth, n, range(1, 1 + len(classes))).astype(np.uint8)
                index[0, :3] = 255
                members[f"SegmentationObject/2007_{n:06d}.png"] = drawn.png(index)
                relabel = True
            else:
                picture = drawn.filled(truth, n, [1000 * c + k for k, c in enumerate(classes)])
                picture[0, :4] = np.where(picture[0, :4] == 0, 10_000, picture[0, :4])
                members[f"instances/{n:06d}.png"] = drawn.png(picture)
        if kind == "mots labels":
            members["instances/labels.txt"] = "\n".join(drawn.LABELS)
        relabel |= kind == "mots"
        path = drawn.zipped(folder, members)
    found = drawn.outcome(path, truth, may_relabel=relabel)
    assert found == "right" or "twice" in found, found


@cases(seeds, st.booleans(), st.booleans())
def test_annotators_are_never_taken_for_each_other(seed, cancelled, same_video):
    rng = random.Random(seed)
    first, second = truths(rng, 2)
    video = "clip.mp4" if same_video else "other.mp4"
    tasks = [("clip.mp4", "ann", first, cancelled), (video, "bob", second, False)]
    path = drawn.write(drawn.fresh(), "a.json", drawn.as_json(drawn.label_studio(tasks)))
    clip = drawn.facts(first)
    if cancelled and same_video:
        assert drawn.outcome(path, second, drawn.facts(second)) == "right"
    elif cancelled:
        return  # the only work left is of another video, whose name nothing contradicts
    elif same_video:
        found = drawn.outcome(path, first, clip)
        assert found == "right" or ("ann" in found and "bob" in found)
        chosen = drawn.outcome(
            path, second, drawn.facts(second), file_source="clip.mp4 by annotator bob"
        )
        assert chosen == "right"
    else:
        assert drawn.outcome(path, first, clip) == "right"
