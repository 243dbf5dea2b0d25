"""A trace drawn over its frames: where things stand in the pictures, and the film as a file."""

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.cli.main import main
from macd_studio.core.errors import OptionError
from macd_studio.core.figures.drawing import (
    blend_heat,
    box_at,
    choose_map,
    drawn_frames,
    sampled_shots,
)
from macd_studio.core.media.film import write_film
from macd_studio.core.types import LOST
from tests.small_trace import small_trace

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "assets" / "examples" / "repaired.macd"
CLIP = EXAMPLE.with_suffix(".mp4")


@pytest.fixture(scope="module")
def trace():
    return macd.load(EXAMPLE)


def pictures_of(path):
    with av.open(str(path)) as film:
        frames = list(film.decode(video=0))
        rate = float(film.duration / av.time_base)
    return [f.to_ndarray(format="rgb24") for f in frames], [float(f.time) for f in frames], rate


def test_each_object_is_drawn_where_it_is_and_nothing_elsewhere(trace):
    first, *_ = drawn_frames(trace, sampled_shots(trace), None)
    bare, *_ = drawn_frames(replace(trace, tracks=()), sampled_shots(trace), None)
    changed = np.abs(first.astype(int) - bare).sum(2) > 60
    height, width = changed.shape
    near = np.zeros_like(changed)
    for track in trace.tracks:
        if track.state[0] == LOST:
            continue
        x0, y0, x1, y1 = track.boxes[0] * (width, height, width, height)
        left, right, top, bottom = (round(float(z)) for z in (x0, x1, y0, y1))
        for x in (left, right):
            assert changed[top:bottom, max(0, x - 3) : x + 4].any(1).mean() > 0.9
        near[max(0, top - 40) : bottom + 6, max(0, left - 6) : right + 160] = True
    assert not (changed & ~near).any()


def test_a_masked_object_is_filled_and_a_kept_one_is_not(trace):
    found = trace.counterfactual
    seen = [k for k, t in enumerate(trace.tracks) if t.state[0] != LOST]

    def inside(level):
        levels = np.full(len(trace.tracks), 0.0)
        levels[seen[0]] = level
        changed = replace(trace, counterfactual=replace(found, level=levels))
        picture, *_ = drawn_frames(changed, sampled_shots(trace), None)
        height, width = picture.shape[:2]
        x, y = (trace.tracks[seen[0]].boxes[0].reshape(2, 2).mean(0) * (width, height)).astype(int)
        return picture[y - 4 : y + 5, x - 4 : x + 5].astype(int)

    kept, partly, masked = (inside(level) for level in (0.0, 0.75, 1.0))
    assert 0 < np.abs(partly - kept).mean() < np.abs(masked - kept).mean()


def test_heat_lies_where_the_map_does_padding_left_out():
    grey = np.full((80, 160, 3), 100, np.uint8)
    values = np.zeros((6, 4), np.float32)
    values[2, 1] = -2.0  # magnitude counts
    picture = blend_heat(grey, values, 2.0, [0.0, -0.25, 1.0, 1.25])
    changed = np.abs(picture.astype(int) - 100).sum(2)
    y, x = np.unravel_index(changed.argmax(), changed.shape)
    assert 40 <= x < 80
    assert 20 - 7 <= y < 20 + 14
    assert (changed[:, 120:] == 0).all()
    assert (blend_heat(grey, values * 0, 0.0, [0, 0, 1, 1]) == grey).all()


def test_boxes_move_steadily_and_end_where_the_object_is_lost():
    boxes = np.array([[0, 0, 0.2, 0.2], [0.4, 0, 0.6, 0.2], [np.nan] * 4], np.float32)
    seen, times = np.array([True, True, False]), np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(box_at(boxes, seen, times, 0.25), [0.1, 0, 0.3, 0.2], atol=1e-6)
    np.testing.assert_allclose(box_at(boxes, seen, times, 1.0), boxes[1])
    np.testing.assert_allclose(box_at(boxes, seen, times, -1.0), boxes[0])
    assert box_at(boxes, seen, times, 1.5) is None
    assert box_at(boxes, seen, times, 9.0) is None


def test_maps_are_chosen_by_kind_view_and_token():
    trace = small_trace()
    assert choose_map(trace, "", "video", 0).kind == "gradient"
    assert choose_map(trace, "occlusion-grid", "counterfactual", 1).view == "counterfactual"
    assert choose_map(replace(trace, evidence=()), "", "video", 0) is None
    for words in (("attention", "video", 0), ("", "video", 2)):
        with pytest.raises(OptionError, match="the trace holds"):
            choose_map(trace, *words)
    with pytest.raises(OptionError, match="no map under the view 'difference'"):
        choose_map(trace, "", "difference", 0)
    with pytest.raises(OptionError, match="of 0 tokens"):
        choose_map(replace(trace, evidence=()), "gradient", "video", 0)


def test_a_film_shows_each_picture_at_its_time(tmp_path):
    pictures = [np.full((48, 64, 3), 40 * i, np.uint8) for i in range(1, 5)]
    times = np.array([1.0, 1.5, 2.5, 2.75])
    write_film(pictures, times, tmp_path / "f.mp4", last=0.5)
    read, at, seconds = pictures_of(tmp_path / "f.mp4")
    assert at[:4] == pytest.approx(times - 1, abs=0.01)
    assert [round(float(p.mean()) / 40) for p in read[:4]] == [1, 2, 3, 4]
    assert seconds == pytest.approx(2.25, abs=0.1)
    assert [p.name for p in tmp_path.iterdir()] == ["f.mp4"]


@pytest.mark.long
def test_the_command_writes_a_film_of_the_trace_and_of_its_clip(trace, tmp_path, capsys):
    out = tmp_path / "out.mp4"
    assert main(["render", str(EXAMPLE), "--out", str(out)]) == 0
    read, *_ = pictures_of(out)
    assert len(read) == len(trace.frames) + 1  # the last again, which gives it a length
    expected, *_ = drawn_frames(trace, sampled_shots(trace), None)
    assert np.abs(read[0].astype(int) - expected).mean() < 4
    assert main(["render", str(EXAMPLE), "--video", str(CLIP), "--out", str(out)]) == 0
    assert len(pictures_of(out)[0]) > 3 * len(trace.frames)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "x.avi"], "not a name for a film"),
        (["--out", "/no/such/folder/x.mp4"], "there is no folder"),
        (["--out", "x.mp4", "--kind", "gradient"], "the evidence of 0 tokens"),
        (["--out", "x.mp4", "--video", str(CLIP.with_name("small.mp4"))], "is not the clip"),
        (["--out", "x.mp4", "--video", "/no/such.mp4"], "there is no file"),
    ],
)
def test_what_cannot_be_rendered_is_refused(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["render", str(EXAMPLE), *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
