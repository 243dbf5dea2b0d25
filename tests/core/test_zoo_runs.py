"""Whole runs on clips of every shape, and changes by hand to what they left in a file."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.options import DetectOptions, RunOptions, TrackOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import LOST, SEEN
from macd_studio.core.whatif.workbench import Workbench, read_edit
from tests.zoo import ZOO, drawn_boxes, make_zoo, read_index, write_clip

ROOT = Path(__file__).parents[2]
QUESTION = "Is there a dog in the video?"
SAMPLE = ("rotated.mp4",)
"""Run by default; the others are marked `long`."""
NAMES = [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in ZOO]
BOX = [0.55, 0.5, 0.95, 0.9]
ALPHA = 2.0
EDIT_FILES = """
import contextlib, io, json, sys
from macd_studio.core.cli.main import main
told = []
for words in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(words) == 0
    told.append(json.loads(out.getvalue()))
json.dump(told, sys.stdout)
"""
"""Several commands in one process that made none of the files: importing torch is slow."""


@pytest.fixture(scope="module")
def trace_of(tmp_path_factory, toyworld, toy_detector):
    """The trace of a clip by its name, as it was computed, and the file it was saved to."""
    folder = tmp_path_factory.mktemp("zoo")
    found = {}

    def trace(name, **video):
        key = name, *video.items()
        if key not in found:
            clip = ZOO[name]
            if not (folder / name).exists():
                make_zoo(folder, [name])
            options = RunOptions(
                video=VideoOptions(**video),
                detect=DetectOptions(image_size=clip.detector_side),
                track=TrackOptions(max_tracks=40),
            )
            *_, last = run(folder / name, QUESTION, lambda: toyworld, lambda: toy_detector, options)
            path = folder / f"{name}.{len(found)}.macd"
            found[key] = last.trace, save(last.trace, path)
        return found[key]

    return trace


def iou(a, b):
    sides = (np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).clip(0)
    return sides.prod() / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - sides.prod())


def outside_of(model):
    """(h, w) bool, the padding around the source frame."""
    x0, y0, x1, y1 = model.content
    padding = np.ones(model.size, bool)
    padding[y0:y1, x0:x1] = False
    return padding


def edits_for(trace):
    """Changes that the trace can take; no ascent ends at the levels they set."""
    edits = [{"kind": "frames", "track": len(trace.groups) - 1, "level": 0.6}]
    new = len(trace.tracks) + 1
    if trace.tracks:
        first = trace.tracks[0]
        frame = int(np.flatnonzero(first.state != LOST)[0])
        x0, y0, x1, y1 = (float(z) for z in first.boxes[frame])
        stroke = [[x0, y0], [(x0 + x1) / 2, (y0 + y1) / 2]]
        edits += [
            {"kind": "level", "track": first.id, "level": 0.4},
            {"kind": "brush", "track": first.id, "frame": frame, "points": stroke, "radius": 0.1},
        ]
    edits.append({"kind": "add", "label": "drawn", "box": BOX})
    if trace.tracks:
        edits.append({"kind": "drop", "track": trace.tracks[-1].id})
    return [*edits, {"kind": "level", "track": new, "level": 0.9}]


def edit_by_hand(trace, lm):
    """The same changes, α and measurement as `words_for` asks for; the traces after each change."""
    bench = Workbench(trace, lm)
    for raw in edits_for(trace):
        *_, last = bench.change(read_edit(raw, bench.trace))
        assert last.message == "complete", raw
        yield raw, last.trace
    bench.redecode(ALPHA, bench.options.contrast.beta)
    yield {"kind": "measure"}, bench.measure_occlusion()


def words_for(trace, path, out):
    flags = [word for e in edits_for(trace) for word in ("--edit", json.dumps(e))]
    words = ["edit", str(path), *flags, "--alpha", str(ALPHA), "--measure"]
    return [*words, "--out", str(out), "--json"]


def same_logits(mine, theirs):
    assert mine.answers.keys() == theirs.answers.keys()
    for name in mine.answers:
        a, b = (t.answers[name].tokens for t in (mine, theirs))
        assert [s.token for s in a] == [s.token for s in b]
        for s, t in zip(a, b, strict=True):
            orders = np.argsort(s.candidates), np.argsort(t.candidates)
            np.testing.assert_array_equal(s.candidates[orders[0]], t.candidates[orders[1]])
            for x, y in zip((s.base, *s.others), (t.base, *t.others), strict=True):
                np.testing.assert_allclose(x[orders[0]], y[orders[1]], atol=1e-4)
    np.testing.assert_allclose(mine.counterfactual.level, theirs.counterfactual.level)
    assert mine.counterfactual.loss == pytest.approx(theirs.counterfactual.loss, abs=1e-4)


def check_as_told(wanted, told, out):
    """A command's JSON and file say what the workbench of this process says."""
    same_logits(wanted, load(out))
    assert told["options"]["edits"] == [edit.as_dict() for edit in wanted.edits]
    assert [o["track"] for o in told["occlusion"]["objects"]] == [t.id for t in wanted.tracks]
    changes = [o["loss_change"] for o in told["occlusion"]["objects"]]
    np.testing.assert_allclose(changes, wanted.occlusion.loss_change, atol=1e-4)
    assert told["answers"]["macd"]["alpha"] == ALPHA


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_holds_the_true_shape_and_what_the_model_read(trace_of, toyworld, name):
    clip = ZOO[name]
    trace, path = trace_of(name)
    height, width = trace.frames.shape[1:3]
    assert width / height == pytest.approx(clip.aspect, rel=0.01)
    assert trace.status == "complete"

    model = trace.model_frames
    x0, y0, x1, y1 = model.content
    assert 0.95 < model.stretch < 1.05
    assert (x1 - x0) / (y1 - y0) == pytest.approx(model.stretch * clip.aspect, rel=0.01)
    assert 0 <= x0 < x1 <= model.size[1]
    assert 0 <= y0 < y1 <= model.size[0]
    assert x1 - x0 == model.size[1] or y1 - y0 == model.size[0]  # as large as it fits
    for source, read in zip(trace.frames, model.pixels, strict=True):
        small = cv2.resize(source, (x1 - x0, y1 - y0), interpolation=cv2.INTER_AREA)
        assert np.abs(small.astype(int) - read[y0:y1, x0:x1]).mean() < 6
    padding = outside_of(model)
    grey = np.array(trace.backbone.pixel_mean) * 255
    assert (np.abs(model.pixels[:, padding].astype(float) - grey) <= 1).all()
    masks = draw_masks(trace.tracks, len(trace.frames), model.size, trace.mask, model.content)
    assert not masks.objects[..., padding].any()
    assert not masks.outside[..., padding].any()

    again = load(path)
    np.testing.assert_array_equal(again.model_frames.pixels, model.pixels)
    assert again.model_frames.content == model.content
    mine, theirs = (Workbench(t, toyworld).encoded.video for t in (trace, again))
    assert mine.equal(theirs)
    assert again.frames.shape == trace.frames.shape


@pytest.mark.parametrize("name", NAMES)
def test_tracks_lie_where_the_objects_are_drawn(trace_of, name):
    clip = ZOO[name]
    trace, _ = trace_of(name)
    shown = [read_index(f) for f in trace.frames]
    assert len(trace.tracks) == clip.objects
    overlap = []
    for t in trace.tracks:
        seen = np.flatnonzero(t.state == SEEN)
        assert len(seen)
        for i in seen:
            drawn = [b for label, b in drawn_boxes(clip, shown[i]) if label == t.label]
            overlap.append(max(iou(t.boxes[i], b) for b in drawn))
    if clip.objects:
        assert min(overlap) > 0.6
        assert np.mean(overlap) > 0.8
    if not clip.cuts:  # every object is on every frame
        assert all((t.state == SEEN).all() for t in trace.tracks)


@pytest.mark.parametrize("name", NAMES)
def test_every_change_works_on_the_reopened_file(trace_of, toyworld, name):
    _, path = trace_of(name)
    opened = load(path)
    padding = outside_of(opened.model_frames)
    before = opened
    for raw, after in edit_by_hand(opened, toyworld):
        shown, read = after.answers["macd"].second_views[0].shown, opened.model_frames.pixels
        np.testing.assert_array_equal(shown[:, padding], read[:, padding])
        if raw["kind"] == "frames":
            assert not np.array_equal(shown, before.answers["macd"].second_views[0].shown)
        if raw["kind"] == "add":
            assert [t.label for t in after.tracks] == [*(t.label for t in before.tracks), "drawn"]
        before = after
    assert len(after.occlusion.loss_change) == len(after.tracks) == max(1, ZOO[name].objects)
    assert after.answers["macd"].alpha == ALPHA
    assert after.counterfactual.level[-1] == pytest.approx(0.9)
    # the drawn box is hidden in the view, where it lies on the model's frames and alone
    model, level = opened.model_frames, after.counterfactual.level[-1]
    *others, drawn = draw_masks(
        after.tracks, len(after.frames), model.size, after.mask, model.content
    ).objects
    alone = (drawn > 0.999) & (np.max(others, 0, initial=0) < 0.001)
    assert alone.any() or ZOO[name].objects > 20  # so many leave no pixel to it alone
    grey = np.array(opened.backbone.pixel_mean) * 255
    left, was = (
        np.abs(z[alone] - grey) for z in (after.answers["macd"].second_views[0].shown, model.pixels)
    )
    assert (left <= (1 - level) * was + 2).all()


def edit_in_one_process(toyworld, files, folder):
    opened = [load(path) for path in files]
    outs = [folder / f"{i}.macd" for i in range(len(files))]
    words = [words_for(*z) for z in zip(opened, files, outs, strict=True)]
    done = subprocess.run(
        [sys.executable, "-c", EDIT_FILES], cwd=ROOT, input=json.dumps(words),
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for trace, told, out in zip(opened, json.loads(done.stdout), outs, strict=True):
        *_, (_, wanted) = edit_by_hand(trace, toyworld)
        check_as_told(wanted, told, out)


@pytest.mark.long
def test_a_fresh_process_gives_the_same_logits(trace_of, toyworld, tmp_path):
    edit_in_one_process(toyworld, [trace_of(n)[1] for n in ZOO], tmp_path)


@pytest.mark.parametrize(
    "name", ["rotated.mp4", pytest.param("2.35x1.mkv", marks=pytest.mark.long)]
)
def test_native_frames_are_those_of_the_processor(trace_of, toyworld, name):
    trace, path = trace_of(name, fit="native")
    model = trace.model_frames
    assert not model.padded
    height, width = model.size
    assert model.stretch == pytest.approx(width / height / ZOO[name].aspect, rel=0.02)
    assert abs(model.stretch - 1) > 0.05
    assert any("stretches frames by" in w for w in trace.warnings)
    assert trace.frames.shape[2] / trace.frames.shape[1] == pytest.approx(
        ZOO[name].aspect, rel=0.01
    )
    *_, (_, last) = edit_by_hand(load(path), toyworld)
    assert len(last.occlusion.loss_change) == ZOO[name].objects


def test_one_frame_has_one_frame_to_change(trace_of):
    _, path = trace_of("1-frame.mp4")
    opened = load(path)
    assert len(opened.frames) == len(opened.model_frames.pixels) == 1
    assert opened.groups == ((0,),)
    with pytest.raises(OptionError, match=r"no frame group 1.*from 0 to 0"):
        read_edit({"kind": "frames", "track": 1, "level": 1}, opened)
    stroke = {"kind": "brush", "track": 1, "frame": 1, "points": [[0.5, 0.5]], "radius": 0.1}
    with pytest.raises(OptionError, match=r"frame is 1\. Choose a whole number from 0 to 0"):
        read_edit(stroke, opened)


@pytest.mark.long
def test_sixteen_frames_of_720p_stay_small(tmp_path, toyworld, toy_detector):
    large = replace(ZOO["16x9.mp4"], name="1080p.mp4", width=1920, height=1080, frames=20)
    path = write_clip(large, tmp_path / large.name)
    options = RunOptions(video=VideoOptions(frames=16))
    *_, last = run(path, QUESTION, lambda: toyworld, lambda: toy_detector, options)
    assert last.trace.frames.shape == (16, 720, 1280, 3)
    file = save(last.trace, tmp_path / "1080p.macd")
    assert file.stat().st_size <= 5e6
    assert load(file).frames.shape == last.trace.frames.shape


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "aspect", "label"),
    [
        ("bottle.mp4", 640 / 360, "bottle"),
        ("classroom.mp4", 480 / 270, "person"),
        ("person_bicycle_car.mp4", 480 / 270, "car"),
    ],
)
def test_a_real_clip_can_be_taken_apart(real, tmp_path, toyworld, name, aspect, label):
    detector = load_detector(str(real / "detector" / "yolo11n_fused.pt"))
    options = RunOptions(video=VideoOptions(frames=16))
    clip = real / "clips" / name
    *_, last = run(clip, "What is in the video?", lambda: toyworld, lambda: detector, options)
    trace = last.trace
    assert trace.frames.shape[2] / trace.frames.shape[1] == pytest.approx(aspect, rel=0.01)
    assert trace.model_frames.padded
    assert 0.95 < trace.model_frames.stretch < 1.05
    assert label in {t.label for t in trace.tracks}
    path = save(trace, tmp_path / "real.macd")
    assert path.stat().st_size < 5e6
    np.testing.assert_array_equal(load(path).model_frames.pixels, trace.model_frames.pixels)
    edit_in_one_process(toyworld, [path], tmp_path)
