"""Points on an object → its track: by colour, by trackers with random weights, as a change."""

import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from macd_studio.core.cli.main import main
from macd_studio.core.errors import DetectorError, OptionError
from macd_studio.core.objects import detect_hf, segment_hf
from macd_studio.core.objects.outlines import filled, placed
from macd_studio.core.objects.registry import check_segmenter, listed, named
from macd_studio.core.objects.segment import ColourRegion, load_segmenter
from macd_studio.core.report.export import export_tracks
from macd_studio.core.traces.bundle import load, pack, unpack
from macd_studio.core.types import LOST, SEEN
from macd_studio.core.whatif.workbench import Edit, Workbench, read_edit
from tests.detectors import built, sam2
from tests.fakes import segment
from tests.opening import EXAMPLE

SIZE = 72, 128
RED = (200, 30, 40)


def shapes():
    """A red shape of a body and a head that goes right over noise, hidden on frame 4."""
    rng = np.random.default_rng(0)
    frames = rng.integers(90, 130, (7, *SIZE, 3), dtype=np.uint8)
    masks = np.zeros((7, *SIZE), np.uint8)
    for i in range(7):
        cv2.rectangle(masks[i], (20 + 8 * i, 24), (40 + 8 * i, 60), 1, -1)
        cv2.circle(masks[i], (30 + 8 * i, 20), 8, 1, -1)
        masks[i] *= i != 4
        frames[i][masks[i] > 0] = RED
    return frames, masks > 0


def iou(track, frame, mask):
    drawn = filled(placed(track.outlines[frame], track.boxes[frame], SIZE), SIZE)
    return (drawn & mask).sum() / (drawn | mask).sum()


TIMES = np.arange(7) / 2.0


def test_a_region_is_found_to_its_edge_and_followed_both_ways():
    frames, masks = shapes()
    track = segment(frames, TIMES, 2, [(46 / 128, 0.6)], ColourRegion(), "kite")
    assert track.label == "kite"
    assert track.state.tolist() == [SEEN] * 4 + [LOST] + [SEEN] * 2
    assert np.isnan(track.boxes[4]).all()
    assert track.outlines[4] is None
    assert track.frames_seen == 6
    for i in np.flatnonzero(track.state):
        assert iou(track, i, masks[i]) > 0.9, i
    rows, columns = np.nonzero(masks[0])
    edges = columns.min() / 128, rows.min() / 72, (columns.max() + 1) / 128, (rows.max() + 1) / 72
    np.testing.assert_allclose(track.boxes[0], edges, atol=0.02)


@pytest.mark.parametrize("other", ["another colour", "a crumb of it"])
def test_what_looks_otherwise_is_not_the_object(other):
    frames, masks = shapes()
    frames[3][masks[3]] = (40, 60, 200) if other == "another colour" else (110, 110, 110)
    if other == "a crumb of it":
        frames[3][40:50, 50:60] = RED
    track = segment(frames[:4], TIMES[:4], 0, [(30 / 128, 0.6)], ColourRegion())
    assert track.state.tolist() == [SEEN, SEEN, SEEN, LOST]


def test_nothing_is_followed_across_a_cut():
    frames, _ = shapes()
    track = segment(frames, TIMES, 2, [(46 / 128, 0.6)], ColourRegion(), cuts=[0.25, 1.25])
    assert track.state.tolist() == [LOST, SEEN, SEEN] + [LOST] * 4


def test_where_nothing_stands_out_nothing_is_found():
    flat = np.full((3, *SIZE, 3), 120, np.uint8)
    with pytest.raises(OptionError, match=r"no object stands out at this point\. Click inside"):
        segment(flat, TIMES[:3], 1, [(0.5, 0.5)], ColourRegion())


@pytest.mark.parametrize("title", ["SAM 2", "EdgeTAM"])
def test_a_tracker_is_given_the_point_on_its_frame(title):
    """Random weights: where the point is changes the mask, and every frame is looked at once."""
    frames, _ = shapes()
    tracker = built(title)
    seen = list(tracker.segment(frames[:4], 2, [(0.1, 0.2)]))
    assert [s.frame for s in seen] == [2, 3, 1, 0]
    assert all(s.mask.shape == SIZE and s.mask.dtype == bool for s in seen)
    assert all(0.9 < s.score <= 1 for s in seen)
    (again, *_), (other, *_) = (
        tracker.segment(frames[:4], 2, points) for points in ([(0.1, 0.2)], [(0.9, 0.9)])
    )
    assert np.array_equal(again.mask, seen[0].mask)
    assert not np.array_equal(other.mask, seen[0].mask)


def test_memory_is_planned_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(detect_hf, "fetch", lambda *_, **__: pytest.fail("fetched"))
    monkeypatch.setattr(segment_hf, "free_gb", lambda device: 2.0)
    with pytest.raises(DetectorError, match=r"tiny takes about 2\.0 GB .* and 2\.0 GB are free"):
        load_segmenter("sam2-tiny", frames=54)
    assert segment_hf.planned_mb(38.9, 54) == pytest.approx(155.6 + 1000 + 16 * 54)


def test_what_cannot_be_had_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(detect_hf, "reachable", lambda: False)
    with pytest.raises(DetectorError, match="'sam2-tiny' is not on this disk, and the hub cannot"):
        load_segmenter("sam2-tiny")
    with pytest.raises(DetectorError, match=f"'yolo11n' is not a known segmenter.*{listed(True)}"):
        check_segmenter("yolo11n")
    model, processor = sam2()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(DetectorError, match="of the kind 'bert', which follows no points"):
        load_segmenter(str(tmp_path))
    model.config.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "sam2_video"}))
    with pytest.raises(DetectorError, match="cannot be loaded"):
        load_segmenter(str(tmp_path))


def test_segmenters_are_no_detectors_of_a_run(capsys):
    assert main(["trace", "clip.mp4", "What is it?", "--detector", "grabcut"]) == 2
    assert "grabcut finds no objects by itself: it follows a point" in capsys.readouterr().err
    assert not set(named("points")) & set(listed().split(", "))


CLICK = {"kind": "point", "frame": 1, "points": [[0.5, 0.5]], "label": "kite"}


class Middle:
    """Sees the middle of every frame but the last."""

    name = "middle"

    def segment(self, frames, at, points):
        from macd_studio.core.objects.segment import Sighting

        height, width = frames.shape[1:3]
        for i in [at, *(i for i in range(len(frames)) if i != at)]:
            mask = np.zeros((height, width), bool)
            if i < len(frames) - 1:
                mask[height // 4 : height // 2, width // 4 : width // 2] = True
            yield Sighting(i, mask, 0.8)


@pytest.fixture(scope="module")
def trace():
    return load(EXAMPLE)


def test_an_object_at_a_point_is_one_like_any_other(trace, toyworld, tmp_path):
    asked = []

    def loaded(name, frames):
        asked.append((name, frames))
        return Middle()

    bench = Workbench(trace, toyworld, loaded)
    events = list(bench.change(read_edit(CLICK, trace)))
    assert asked == [("grabcut", len(trace.frames))]
    assert [e.stage for e in events[:2]] == ["detect", "track"]
    assert "Following kite: frame 2 of 8" in [e.message for e in events]
    changed = bench.trace
    assert changed.tracks[:-1] == trace.tracks
    new = changed.tracks[-1]
    assert (new.id, new.label) == (1 + max(t.id for t in trace.tracks), "kite")
    assert new.confidence == pytest.approx(0.8)
    assert new.state.tolist() == [SEEN] * 7 + [LOST]
    np.testing.assert_allclose(new.boxes[0], [0.25, 0.25, 0.5, 0.5], atol=0.01)
    assert changed.edits == (
        Edit("point", label="kite", frame=1, points=((0.5, 0.5),), segmenter="grabcut"),
    )
    assert len(changed.counterfactual.level) == len(trace.tracks) + 1
    before = [t.token for t in trace.answers["baseline"].tokens]
    assert [t.token for t in changed.answers["baseline"].tokens] == before

    *_, last = bench.change(Edit("level", track=new.id, level=1.0))
    assert last.trace.counterfactual.level[-1] == 1
    *_, last = bench.change(Edit("label", track=new.id, label="dragon"))
    again = unpack(pack(last.trace))
    assert again.tracks[-1].label == "dragon"
    assert again.edits == last.trace.edits
    np.testing.assert_array_equal(again.tracks[-1].state, new.state)
    path = export_tracks(again, tmp_path / "x.json")
    assert "dragon" in path.read_text()
    *_, last = bench.change(read_edit(CLICK, bench.trace))
    assert last.trace.tracks[-1].id == new.id + 1


class Light(Middle):
    """Its confidence and its mask hang on every pixel that it is shown."""

    def segment(self, frames, at, points):
        for sighting in super().segment(frames, at, points):
            seen = frames[sighting.frame]
            mask = sighting.mask & (seen[..., 0] > np.median(seen[..., 0]))
            yield replace(sighting, mask=mask, score=float(seen.mean() / 255))


def test_a_point_finds_the_same_in_a_run_and_in_its_saved_trace(trace, toyworld):
    """Large frames are not saved without loss; what is segmented is what a file gives back."""
    noise = np.random.default_rng(0).integers(0, 255, (len(trace.frames), 240, 320, 3), np.uint8)
    live = replace(trace, frames=noise)
    reopened = unpack(pack(live))
    assert not np.array_equal(reopened.frames, noise)
    found = []
    for one in (live, reopened):
        bench = Workbench(one, toyworld, lambda name, frames: Light())
        list(bench.change(read_edit(CLICK, one)))
        found.append(bench.trace)
    first, second = (one.tracks[-1] for one in found)
    assert first.confidence == second.confidence
    np.testing.assert_array_equal(first.boxes, second.boxes)
    logits = [[t.base for t in one.answers["macd"].tokens] for one in found]
    np.testing.assert_array_equal(np.concatenate(logits[0]), np.concatenate(logits[1]))


def test_frames_of_a_saved_trace_keep_their_bytes(trace):
    """Opened and saved six times, they are what was saved first."""
    import zipfile
    from io import BytesIO

    def frames_in(content):
        with zipfile.ZipFile(BytesIO(content)) as file:
            return {n: file.read(n) for n in file.namelist() if n.startswith("frames/")}

    noise = np.random.default_rng(1).integers(0, 255, (len(trace.frames), 240, 320, 3), np.uint8)
    first = content = pack(replace(trace, frames=noise))
    for _ in range(6):
        content = pack(unpack(content))
    assert frames_in(content) == frames_in(first)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--point", "2,1.5,0.5"], "the point lies outside of the picture"),
        (["--point", "2,nan,0.5"], "the point lies outside of the picture"),
        (["--point", "8,0.5,0.5"], "frame is 8"),
        (["--point", "2,0.5"], "is not of the form FRAME,X,Y[,NAME]"),
        (["--point", "2,0.5,0.5", "--segmenter", "rt-detr"], "is not a known segmenter"),
        (["--edit", '{"kind": "point", "frame": 0, "points": []}'], "there is no point, or too"),
        (["--edit", '{"kind": "point", "frame": 0, "points": [[0, 0]], "segmenter": 3}'],
         "not the name of a segmenter"),
    ],
)  # fmt: skip
def test_points_that_cannot_be_are_told_before_a_model_is_loaded(words, said, capsys, monkeypatch):
    monkeypatch.setattr(
        "macd_studio.core.backbones.load.load_backbone", lambda *_, **__: pytest.fail("loaded")
    )
    assert main(["edit", str(EXAMPLE), *words]) == 2
    assert said in capsys.readouterr().err
