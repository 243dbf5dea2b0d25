"""Files of tracks: round trips, what lies between frames, and files that other programs wrote."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import macd_studio as macd
from macd_studio.core.cli.main import main
from macd_studio.core.errors import OptionError, TracksError
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.formats import WRITERS, read_track_file
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.outlines import filled, outline_of, placed, read_packed_runs, runs_of
from macd_studio.core.objects.placing import place_tracks
from macd_studio.core.options import RunOptions, TrackOptions, VideoOptions
from macd_studio.core.report.export import export_tracks, sheet_of
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import INTERPOLATED, LOST, SEEN, Clip, Stroke, Track
from tests.fakes import BoxDetector, ByteLM
from tests.small_trace import small_trace

DATA = Path(__file__).parent / "data" / "tracks"
H, W = 48, 64
NUMBERS = (0, 4, 8, 12)


def drawn(n):
    """Masks as tests/core/data/tracks has them: a dog that moves, with a hole; a ball that goes."""
    dog, ball = np.zeros((H, W), bool), np.zeros((H, W), bool)
    dog[10:26, 4 + n : 22 + n] = True
    dog[10:14, 4 + n : 8 + n] = False
    dog[16:20, 10 + n : 14 + n] = False
    y, x = np.mgrid[:H, :W]
    if n < 12:
        ball[(y - 36) ** 2 + (x - 50) ** 2 <= 49] = True
    return {"dog": dog, "ball": ball}


def clip_of(numbers=NUMBERS, fps=25.0, size=(W, H), **how):
    n, (w, h) = np.array(numbers), size
    frames = np.zeros((len(n), h, w, 3), np.uint8)
    none = np.zeros((0, h, w, 3), np.uint8)
    known = {"numbers": n, "fps": fps} | how
    return Clip(frames, n / fps, none, np.zeros(0), "c", "0" * 64, 2.0, size, **known)


def seen_masks(track, size=(H, W)):
    """A track's masks, of its boxes where it has no outline."""
    out = []
    for i, box in enumerate(track.boxes):
        if track.state[i] == LOST:
            out.append(np.zeros(size, bool))
            continue
        outline = track.outline(i)
        x0, y0, x1, y1 = box
        ring = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) * (size[1], size[0])
        out.append(filled([ring] if outline is None else placed(outline, box, size), size))
    return np.stack(out)


def as_track(label, masks, id=1, confidence=0.9):
    rows = [outline_of(m) for m in masks]
    boxes = np.array([np.full(4, np.nan) if r is None else r[0] for r in rows], np.float32)
    state = np.array([LOST if r is None else SEEN for r in rows], np.int8)
    outlines = tuple(None if r is None else r[1] for r in rows)
    return Track(id, label, confidence, boxes, state, len(masks), outlines=outlines)


@pytest.fixture(scope="module")
def trace():
    """Two outlined objects that overlap, one that is a box and is lost once, one with a brush."""
    old = small_trace()
    masks = [drawn(n) for n in NUMBERS]
    boxes = np.tile(np.array([0.25, 0.25, 0.75, 0.625], np.float32), (4, 1))
    boxes[1] = np.nan
    state = np.array([2, 0, 1, 2], np.int8)
    stroke = Stroke(points=np.array([[0.5, 0.5]], np.float32), radius=0.2, erase=True)
    tracks = (
        as_track("dog", [m["dog"] for m in masks]),
        as_track("ball, <red>", [m["ball"] for m in masks], 2, 0.8),
        Track(3, "cup", 0.7, boxes, state, 3),
        Track(4, "cup", 0.6, np.nan_to_num(boxes, nan=0.5), np.full(4, 2, np.int8), 3, (stroke,)),
    )
    tracks = (*tracks[:3], replace(tracks[3], boxes=boxes[[0, 0, 0, 0]]))
    final = replace(
        old.counterfactual,
        level=np.array([1.0, 0.75, 0.0, 0.0]),
        strength=np.array([1.0, 0.75, 0.0, 0.0]),
        margin=np.zeros(4),
        frame_level=np.zeros(0),
        frame_strength=np.zeros(0),
        frame_margin=np.zeros(0),
    )
    record = replace(old.clip, width=W, height=H, numbers=NUMBERS, fps=25.0)
    return replace(
        old,
        frames=np.zeros((4, H, W, 3), np.uint8),
        times=np.array(NUMBERS) / 25.0,
        groups=((0, 1), (2, 3)),
        clip=record,
        tracks=tracks,
        counterfactual=final,
    )


@pytest.mark.parametrize("what", ["tracks", "levels"])
@pytest.mark.parametrize("format", [f for f in WRITERS if f != "label-studio"])
def test_every_pixel_comes_back(trace, tmp_path, format, what):
    file = read_track_file(export_tracks(trace, tmp_path / "out", format, what))
    again = place_tracks(file, clip_of()).tracks
    wanted = sheet_of(trace, what).objects
    assert len(again) == len(wanted)
    back = {t.label: [] for t in again}
    for t in again:
        back[t.label].append(seen_masks(t))
    for one in wanted:
        label = one.label.replace("<", "-").replace(">", "-").replace(",", "-")
        masks = np.stack([np.zeros((H, W), bool) if d is None else d.raster for d in one.frames])
        assert masks.any()
        there = back[one.label] if format != "png" else back[label]
        assert any(np.array_equal(masks, m) for m in there), one.label


def test_a_frame_mask_is_written_without_objects():
    trace = load(assets() / "examples" / "repaired.macd")
    none = np.zeros(0, np.float32)
    level = np.ones_like(trace.counterfactual.frame_level)
    levels = replace(
        trace.counterfactual, level=none, strength=none, margin=none, frame_level=level
    )
    bare = replace(trace, tracks=(), counterfactual=levels)
    (masked,) = sheet_of(bare, "levels").objects
    assert masked.label == "masked"
    with pytest.raises(OptionError, match="no objects"):
        sheet_of(bare, "tracks")


def test_label_studio_keeps_boxes_to_the_pixel(trace, tmp_path):
    file = read_track_file(export_tracks(trace, tmp_path / "out.json", "label-studio"))
    again = {t.label: t for t in place_tracks(file, clip_of()).tracks if t.label != "cup"}
    for one in trace.tracks[:2]:
        np.testing.assert_allclose(again[one.label].boxes, one.boxes, atol=1e-5)
        assert again[one.label].state.tolist() == one.state.tolist()


def test_label_studio_gives_times_where_the_rate_varies(trace, tmp_path):
    """It counts frames of an even rate; a clip's numbers at its median rate are other times."""
    uneven = np.array([0.0, 1.4, 1.93, 4.51])
    shifted = replace(trace, times=uneven)
    path = export_tracks(shifted, tmp_path / "out.json", "label-studio")
    [task] = json.loads(path.read_text())
    for row in task["annotations"][0]["result"]:
        value = row["value"]
        rate = value["framesCount"] / value["duration"]
        for key in value["sequence"]:
            assert key["time"] in uneven.tolist()
            assert abs((key["frame"] - 1) / rate - key["time"]) <= 0.5 / rate + 1e-9
    clip = replace(clip_of(), times=uneven)
    again = {t.label: t for t in place_tracks(read_track_file(path), clip).tracks}
    for one in trace.tracks[:2]:
        assert (again[one.label].state > 0).tolist() == (one.state > 0).tolist()
        np.testing.assert_allclose(again[one.label].boxes, one.boxes, atol=0.01)


def test_a_mask_of_more_parts_than_an_outline_has_is_told(tmp_path, trace):
    mask = np.zeros((H, W), bool)
    mask[1:40:4, 1:60:4] = True
    mask[2:40:4, 1:60:4] = True
    _, outline, exact = outline_of(mask)
    assert not exact
    assert len(outline) == 8
    runs = {"size": [H, W], "counts": runs_of(mask)}
    told = "the smallest parts were left out"
    whole = {"image_id": 1, "category_id": 1, "segmentation": [[1, 1, 60, 1, 60, 40, 1, 40]]}
    parts = {"image_id": 2, "category_id": 1, "segmentation": runs}
    file = coco(tmp_path, [parts])
    assert told in place_tracks(read_track_file(file), clip_of()).notes[-1]
    file = read_track_file(coco(tmp_path, [whole, parts]))
    assert told in place_tracks(file, clip_of((3,))).notes[-1]  # between the two
    assert told not in place_tracks(file, clip_of((0,))).notes[-1]


def test_parts_that_touch_at_a_corner_stay_apart_and_holes_too():
    mask = np.zeros((12, 12), bool)
    mask[1:4, 1:4] = mask[4:8, 4:8] = True
    mask[5, 5] = mask[6, 6] = False
    box, outline, exact = outline_of(mask)
    assert (len(outline), exact) == (3, True)  # the holes touch at a corner, and are one
    np.testing.assert_array_equal(filled(placed(outline, box, (12, 12)), (12, 12)), mask)


def test_the_areas_of_levels_are_those_of_the_mask(trace):
    masks = draw_masks(trace.tracks, 4, (H, W), trace.mask)
    confidence = [t.confidence for t in trace.tracks]
    final = trace.counterfactual
    hidden = combine_masks(masks, final.level, [], trace.groups, confidence, trace.mask)
    masked, partly = sheet_of(trace, "levels").objects
    assert ((0.75 < hidden) & (hidden < 0.875)).any()
    for one, wanted in ((masked, hidden >= 0.875), (partly, (hidden >= 0.375) & (hidden < 0.875))):
        ours = [np.zeros((H, W), bool) if d is None else d.raster for d in one.frames]
        np.testing.assert_array_equal(np.stack(ours), wanted)


def coco(folder, notes, numbers=NUMBERS, size=(W, H), **more):
    rows = [{"id": i + 1, **note} for i, note in enumerate(notes)]
    images = [
        {"id": i + 1, "width": size[0], "height": size[1], "file_name": f"f_{n:05d}.png"}
        for i, n in enumerate(numbers)
    ]
    data = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "dog"}]}
    path = folder / "coco.json"
    path.write_text(json.dumps(data | more))
    return path


@pytest.mark.parametrize(
    ("name", "boxes"),
    [
        ("datumaro_coco.json", False),
        ("pycocotools.json", False),
        ("datumaro_voc.zip", False),
        ("datumaro_cvat.xml", True),
        ("datumaro_yolo.zip", True),
    ],
)
def test_files_of_other_programs_are_read_as_they_wrote_them(name, boxes):
    """By datumaro 1.13 and pycocotools 2.0, of `drawn`; boxes where they write only those."""
    found = place_tracks(read_track_file(DATA / name), clip_of()).tracks
    assert [t.label for t in found] == ["dog", "ball"]
    for track in found:
        masks = np.stack([drawn(n)[track.label] for n in NUMBERS])
        if boxes:
            masks = np.stack([box_around(m) for m in masks])
        np.testing.assert_array_equal(seen_masks(track), masks)


def box_around(mask):
    out = np.zeros_like(mask)
    if mask.any():
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        out[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    return out


def cvat(folder, body, name="cvat.xml"):
    path = folder / name
    path.write_text(
        "<annotations><meta><task><original_size><width>64</width><height>48</height>"
        f"</original_size></task></meta>{body}</annotations>"
    )
    return path


def cvat_box(frame, x, outside=0):
    return (
        f'<box frame="{frame}" outside="{outside}" xtl="{x}" ytl="8" xbr="{x + 16}" ybr="24"'
        ' keyframe="1"/>'
    )


def test_cvat_moves_evenly_between_key_frames_until_it_is_outside(tmp_path):
    shapes = cvat_box(0, 0) + cvat_box(8, 16) + cvat_box(12, 16, 1) + cvat_box(20, 32)
    file = cvat(tmp_path, f'<track id="0" label="car">{shapes}</track>')
    clip = clip_of((0, 4, 8, 11, 12, 16, 20, 30))
    (car,) = place_tracks(read_track_file(file), clip).tracks
    assert car.state.tolist() == [2, 1, 2, 1, 0, 0, 2, 1]
    np.testing.assert_allclose(car.boxes[[0, 1, 2, 3, 6, 7], 0] * W, [0, 8, 16, 16, 32, 32])


def test_a_polygon_of_cvat_moves_point_by_point_and_a_mask_stays(tmp_path):
    def polygon(frame, x):
        return f'<polygon frame="{frame}" outside="0" points="{x},8;{x + 8},8;{x},16"/>'

    mask = '<mask frame="{}" outside="0" rle="0,4" left="{}" top="2" width="2" height="2"/>'
    body = f'<track label="a">{polygon(0, 0)}{polygon(8, 16)}</track>'
    body += f'<track label="b">{mask.format(0, 4)}{mask.format(8, 40)}</track>'
    file = cvat(tmp_path, body)
    one, two = place_tracks(read_track_file(file), clip_of((0, 4, 8))).tracks
    assert len(one.outlines[1][0]) == 3
    np.testing.assert_allclose(one.boxes[:, 0] * W, [0, 8, 16])
    np.testing.assert_allclose(two.boxes[:, 0] * W, [4, 4, 40])


def test_a_turned_box_of_cvat_is_turned_clockwise(tmp_path):
    file = cvat(tmp_path, '<track label="a"><box frame="0" outside="0" xtl="20" ytl="20" xbr="40"'
                ' ybr="24" rotation="90"/></track>')  # fmt: skip
    (one,) = place_tracks(read_track_file(file), clip_of((0,))).tracks
    np.testing.assert_allclose(one.boxes[0] * (W, H, W, H), [28, 12, 32, 32], atol=1e-4)


def label_studio(folder, sequence, **value):
    region = {"type": "videorectangle", "value": {"sequence": sequence, "labels": ["car"]} | value}
    path = folder / "studio.json"
    path.write_text(json.dumps([{"annotations": [{"result": [region]}]}]))
    return path


def key(frame, x, enabled=True, **more):
    return {"frame": frame, "x": x, "y": 25, "width": 25, "height": 50, "enabled": enabled} | more


def test_label_studio_counts_from_one_and_ends_where_it_is_not_enabled(tmp_path):
    file = label_studio(tmp_path, [key(1, 0), key(9, 50, False), key(17, 0)])
    (car,) = place_tracks(read_track_file(file), clip_of((0, 4, 8, 9, 16, 20))).tracks
    assert car.state.tolist() == [2, 1, 2, 0, 2, 1]
    np.testing.assert_allclose(car.boxes[[0, 1, 2, 4, 5], 0], [0, 0.25, 0.5, 0, 0])


def test_label_studio_states_its_own_rate(tmp_path):
    file = label_studio(tmp_path, [key(1, 0), key(11, 50)], framesCount=24, duration=2.0)
    (car,) = place_tracks(read_track_file(file), clip_of((0, 5, 10), fps=24.0)).tracks
    np.testing.assert_allclose(car.boxes[:, 0], [0, 0.125, 0.25], atol=1e-6)


@pytest.mark.parametrize(("number", "wanted"), [(5, [0, 2, 5, 9]), (None, [0, 0, 4, 8])])
def test_between_single_pictures_an_object_moves_where_it_is_told_from_others(
    tmp_path, number, wanted
):
    """One that is linked by overlap alone stands where it is on the closest picture."""
    box = {"category_id": 1} | ({} if number is None else {"track_id": number})
    notes = [{"image_id": i + 1, "bbox": [4 * i, 0, 8, 8], **box} for i in range(4)]
    if number is None:  # a second one: neither is alone
        notes += [{"image_id": i + 1, "bbox": [4 * i, 16, 8, 8], **box} for i in range(4)]
    clip = clip_of((0, 2, 5, 9, 20))
    found = place_tracks(read_track_file(coco(tmp_path, notes)), clip)
    dog = found.tracks[0]
    assert dog.state.tolist() == [SEEN, INTERPOLATED, INTERPOLATED, INTERPOLATED, LOST]
    np.testing.assert_allclose(dog.boxes[:4, 0] * W, wanted, atol=1e-4)
    assert "describes one frame of 4" in found.notes[-1]
    assert ("on the closest" in found.notes[-1]) == (number is None)


@pytest.mark.parametrize(
    ("options", "clip", "wanted"),
    [
        ({}, {}, [0, 4, 8, 12]),  # the clip's own count
        ({}, {"numbers": np.array([0, 1, 2, 7])}, [None, 1, 2, None]),
        ({"file_fps": 12.5}, {}, [0, 2, 4, 6]),
        ({"file_fps": 25.0, "file_start": 0.16}, {}, [None, 0, 4, 8]),
        ({"file_start": -0.16}, {}, [4, 8, 12, None]),  # at the clip's own rate
    ],
)
def test_frames_are_counted_as_one_says(tmp_path, options, clip, wanted):
    numbers = sorted({n for n in wanted if n is not None})
    notes = [
        {"image_id": i + 1, "category_id": 1, "track_id": 1, "bbox": [n, 0, 4, 4]}
        for i, n in enumerate(numbers)
    ]
    file = read_track_file(coco(tmp_path, notes, numbers))
    (dog,) = place_tracks(file, replace(clip_of(), **clip), TrackOptions(**options)).tracks
    lefts = [
        None if s == LOST else round(float(b[0]) * W)
        for b, s in zip(dog.boxes, dog.state, strict=True)
    ]
    assert lefts == wanted


@pytest.mark.parametrize("first", [0, 1])
def test_a_frame_of_which_all_is_ignored_is_described(tmp_path, first):
    """MOT counts from 0 where it describes a frame 0, whatever stands there."""
    rows = [f"{first},9,1,1,8,8,0,1,1\n"]  # a confidence of 0: not to be evaluated
    rows += [f"{first + n},3,{4 * n},9,16,16,1,1,1\n" for n in (1, 2, 3)]
    path = tmp_path / "gt.txt"
    path.write_text("".join(rows))
    clip = clip_of((0, 1, 2, 3))
    found = read_track_file(path, ClipFacts.of(clip))
    assert (found.first, found.frames.tolist()) == (first, [first + n for n in range(4)])
    assert ("count from 0" in "".join(found.notes)) == (first == 0)
    (one,) = place_tracks(found, clip).tracks
    assert one.state.tolist() == [LOST, SEEN, SEEN, SEEN]


@pytest.mark.parametrize(("said", "read"), [("-1", 1.0), ("0", 0.0), ("0.4", 0.4), ("", 1.0)])
def test_a_confidence_that_mot_does_not_give_is_a_sure_one(said, read, tmp_path):
    path = tmp_path / "det.txt"
    cells = [f"{n},3,4,9,16,16" + (f",{said},-1,-1,-1" if said else "") for n in (1, 2, 3)]
    path.write_text("\n".join(cells) + "\n")
    (one,) = read_track_file(path, ClipFacts.of(clip_of())).objects
    assert one.confidence == read


def test_of_too_many_objects_the_longest_seen_are_kept(tmp_path):
    """Of those seen as long, the most confident."""
    rows = [(1, (0,), 0.9), (2, (0, 4), 0.3), (3, (0, 4), 0.6), (4, (0, 4, 8), 0.1)]
    path = tmp_path / "det.txt"
    path.write_text("".join(
        f"{n + 1},{id},{4 * id},9,4,4,{score},-1,-1,-1\n" for id, at, score in rows for n in at
    ))  # fmt: skip
    clip = clip_of()
    found = place_tracks(
        read_track_file(path, ClipFacts.of(clip)), clip, TrackOptions(max_tracks=2)
    )
    seen = [(round(float(t.boxes[0, 0]) * W), round(t.confidence, 2)) for t in found.tracks]
    assert seen == [(15, 0.1), (11, 0.6)]
    assert "the 2 longest seen were kept" in "".join(found.notes)


def test_a_clip_of_unknown_rate_needs_the_files(tmp_path):
    file = read_track_file(
        coco(tmp_path, [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}])
    )
    clip = replace(clip_of(), numbers=None, fps=None)
    with pytest.raises(TracksError, match="is not known"):
        place_tracks(file, clip)
    assert place_tracks(file, clip, TrackOptions(file_fps=25.0)).tracks


def test_frames_have_the_number_that_they_have_in_the_file(make_video):
    even = read_clip(make_video(frames=24, fps=12), VideoOptions(frames=4))
    np.testing.assert_array_equal(even.numbers, np.round(even.times * 12))
    assert even.fps == pytest.approx(12)
    pts = [0, 40, 80, 120, 700, 740, 1500, 1540]
    uneven = read_clip(make_video("u.mp4", frames=8, pts=pts), VideoOptions(frames=4))
    assert [pts[n] / 1000 for n in uneven.numbers] == pytest.approx(uneven.times)


def finish(video, tracks, **how):
    options = RunOptions(video=VideoOptions(frames=4), track=TrackOptions(**how))
    detector, lm = BoxDetector(), ByteLM()
    *_, last = run(
        video, "is there a dog?", lambda: lm, lambda: detector, options,
        tracks=lambda clip: place_tracks(read_track_file(tracks), clip, options.track),
    )  # fmt: skip
    assert detector.calls == 0
    return last.trace


def test_the_same_masks_give_the_same_levels_from_every_tool(make_video, tmp_path):
    """The PNG masks have twice the clip's rate, and begin half a second before it."""
    video = make_video(frames=24, fps=12)
    numbers = read_clip(video, VideoOptions(frames=4)).numbers.tolist()
    masks = {n: drawn(i * 3) for i, n in enumerate(numbers)}
    notes, tracks = [], {"dog": "", "ball": ""}
    pictures = tmp_path / "masks"
    for i, n in enumerate(numbers):
        for label, mask in masks[n].items():
            folder = pictures / label
            folder.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(mask.astype(np.uint8) * 255)
            picture.save(folder / f"{2 * n + 12:04d}.png")
            runs = {"size": [H, W], "counts": runs_of(mask)}
            notes.append({"image_id": i + 1, "category_id": 1 + (label == "ball"), "iscrowd": 1,
                          "segmentation": runs, "track_id": label})  # fmt: skip
            rle = ",".join(map(str, runs_of(mask.T)))
            tracks[label] += (
                f'<mask frame="{n}" outside="0" keyframe="1" rle="{rle}" left="0" top="0"'
                f' width="{W}" height="{H}"/>'
            )
    kinds = [{"id": 1, "name": "dog"}, {"id": 2, "name": "ball"}]
    first = finish(video, coco(tmp_path, notes, numbers, categories=kinds))
    body = "".join(f'<track label="{n}">{z}</track>' for n, z in tracks.items())
    second = finish(video, cvat(tmp_path, body))
    third = finish(video, pictures, file_fps=24.0, file_start=-0.5)
    assert [t.label for t in first.tracks] == ["dog", "ball"]
    assert first.counterfactual.margin.any()
    for other in (second, third):
        order = [[t.label for t in other.tracks].index(t.label) for t in first.tracks]
        for name in ("level", "margin"):
            ours = getattr(first.counterfactual, name)
            np.testing.assert_array_equal(getattr(other.counterfactual, name)[order], ours)
        np.testing.assert_array_equal(
            other.counterfactual.frame_level, first.counterfactual.frame_level
        )
        assert other.answers["macd"].text == first.answers["macd"].text
    assert (first.detector.format, third.detector.format) == ("COCO", "PNG masks")
    assert "n / 24 s" in third.detector.counting


def test_a_trace_says_whose_objects_it_has_and_how_to_have_them_again(make_video, tmp_path):
    from macd_studio.core.cli.reproduce import command, snippet

    notes = [{"image_id": 1, "category_id": 1, "bbox": [4, 4, 30, 30]}]
    file = coco(tmp_path, notes, (3,))
    trace = finish(make_video(), file, file_fps=12.0)
    again = load(save(trace, tmp_path / "t.macd"))
    assert again.detector == trace.detector
    assert again.detector.is_file
    assert again.clip.numbers == trace.clip.numbers
    assert any("objects are those of coco.json" in w for w in again.warnings)
    assert "--tracks coco.json --frames 4 --tracks-fps 12.0" in command(again)
    assert "--detector" not in command(again)
    assert "read_tracks(detector, clip, options.track)" in snippet(again)


def test_the_command_line_writes_and_takes_tracks(tmp_path, capsys):
    saved = sorted((assets() / "examples").glob("*.macd"))[0]
    for format in WRITERS:
        out = tmp_path / f"out-{format}"
        assert main(["export", str(saved), "--format", format, "--out", str(out)]) == 0
        assert len(read_track_file(out).frames) > 1
    capsys.readouterr()
    assert main(["export", str(saved), "--what", "levels", "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
    clip = str(assets() / "examples" / "repaired.mp4")
    assert main(["trace", clip, "Is there a dog?", "--tracks", str(saved)]) == 2
    assert "it is JSON with 'format', " in capsys.readouterr().err


def test_the_door_refuses_a_file_before_the_video_is_read(tmp_path):
    with pytest.raises(TracksError, match="there is no file"):
        macd.trace("missing.mp4", "Is there a dog?", tracks=tmp_path / "none.json")


def test_what_cannot_be_exported_is_told(trace, tmp_path):
    with pytest.raises(OptionError, match="no format 'mot'"):
        export_tracks(trace, tmp_path / "x", "mot")
    with pytest.raises(OptionError, match="holds no objects"):
        export_tracks(replace(trace, tracks=()), tmp_path / "x")
    with pytest.raises(OptionError, match="no levels"):
        export_tracks(replace(trace, counterfactual=None), tmp_path / "x", "coco", "levels")
    with pytest.raises(OptionError, match="cannot be written"):
        export_tracks(trace, tmp_path / "no" / "x")
    assert not list(tmp_path.iterdir())


def test_packed_runs_are_those_of_pycocotools():
    notes = json.loads((DATA / "pycocotools.json").read_text())["annotations"]
    packed = notes[0]["segmentation"]["counts"]
    assert read_packed_runs(packed) == runs_of(drawn(0)["dog"])


def test_a_zip_holds_what_a_folder_holds(trace, tmp_path):
    packed = export_tracks(trace, tmp_path / "m.zip", "png")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "m")
    one, two = (place_tracks(read_track_file(p), clip_of()).tracks
                for p in (packed, tmp_path / "m"))  # fmt: skip
    assert [t.label for t in one] == [t.label for t in two]
    np.testing.assert_array_equal(one[0].boxes, two[0].boxes)


def turned_corners(box, degrees, pivot):
    """Corners of a box turned clockwise about a point, by complex numbers."""
    x0, y0, x1, y1 = box
    turn = np.exp(1j * np.radians(degrees))
    points = [complex(x, y) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
    middle = complex(*pivot)
    return np.array([[z.real, z.imag] for z in ((p - middle) * turn + middle for p in points)])


@pytest.mark.parametrize("stated", [True, False])
def test_boxes_turn_in_pixels_about_the_point_that_each_program_has(tmp_path, stated):
    """At 30 degrees on a frame that is not square: CVAT about the middle, Label Studio a corner."""
    box = (20.0, 10.0, 44.0, 22.0)
    x0, y0, x1, y1 = box
    inner = (
        f'<track label="a"><box frame="0" xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}"'
        ' rotation="30" outside="0"/></track>'
    )
    key_frame = {
        "frame": 1, "enabled": True, "rotation": 30, "x": 100 * x0 / W, "y": 100 * y0 / H,
        "width": 100 * (x1 - x0) / W, "height": 100 * (y1 - y0) / H,
    }  # fmt: skip
    path = label_studio(tmp_path, [key_frame])
    if stated:
        data = json.loads(path.read_text())
        data[0]["annotations"][0]["result"][0] |= {"original_width": W, "original_height": H}
        path.write_text(json.dumps(data))
    facts = ClipFacts.of(clip_of())
    for file, pivot in ((cvat(tmp_path, inner), ((x0 + x1) / 2, (y0 + y1) / 2)), (path, (x0, y0))):
        ring = turned_corners(box, 30, pivot).round().astype(np.int32)
        expected = np.zeros((H, W), np.uint8)
        cv2.fillPoly(expected, [ring], 1)
        (one,) = place_tracks(read_track_file(file, facts), facts).tracks
        mask = seen_masks(one)[0]
        both, either = (mask & (expected > 0)).sum(), (mask | (expected > 0)).sum()
        assert both / either > 0.85


@pytest.mark.parametrize("smooth", [True, False])
def test_the_soft_edge_of_one_mask_is_asked_about(smooth, tmp_path):
    """A mask of 0 and 2, made larger: its edge is 1. Drawn outlines of another width are not."""
    folder = tmp_path / "masks"
    folder.mkdir()
    for n in range(20):
        drawn = np.zeros((48, 64), np.uint8)
        drawn[10:25, 10 + n : 35 + n] = 2
        picture = Image.fromarray(drawn)
        if smooth:
            picture = picture.resize((160, 120), Image.Resampling.BILINEAR)
        else:
            drawn[5:10, 10 + n : 35 + n] = 1
            picture = Image.fromarray(drawn)
        picture.save(folder / f"{n:04d}.png")
    found = place_tracks(read_track_file(folder), clip_of())
    assert len(found.tracks) == 2
    assert any("is object 1 an object?" in note for note in found.notes) == smooth
