"""The figures with pictures hold what the trace holds, with either library."""

import io
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.figures import draw
from macd_studio.core.figures.evidence import measure as measure_evidence
from macd_studio.core.figures.overview import measure as measure_overview
from macd_studio.core.figures.style import choose_frames, small
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.report.evidence import extent
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import ModelFrames
from macd_studio.macd_ui.examples import SHIPPED
from tests.small_trace import small_trace


@pytest.fixture(scope="module")
def example():
    return load(SHIPPED / "repaired.macd")


def svg(figure):
    out = io.BytesIO()
    figure.savefig(out, format="svg")
    return out.getvalue().decode()


def test_the_maps_are_those_of_the_trace():
    trace = small_trace()
    one = trace.evidence[0]
    figure = trace.figure("evidence", frames=[1])
    maps = [z for z in figure.data if z.type == "heatmap"]
    expected = [one.map("gradient").values, one.map("gradient", "counterfactual").values,
                one.difference("gradient")]  # fmt: skip
    for drawn, values in zip(maps, expected, strict=True):
        np.testing.assert_allclose(np.array(drawn.z), values[1], rtol=1e-6)
        assert drawn.zmin == -drawn.zmax == maps[0].zmin
        np.testing.assert_allclose(drawn.x, (np.arange(4) + 0.5) / 4)
        np.testing.assert_allclose(drawn.y, (np.arange(3) + 0.5) / 3)
    assert [a.text for a in figure.layout.annotations[:3]] == ["V", "V_d", "V − V_d"]
    assert "no rather than yes" in figure.layout.title.text
    other = measure_evidence(trace, kind="occlusion-grid")
    np.testing.assert_array_equal(other.values[0], one.map("occlusion-grid").values)
    text = svg(trace.figure("evidence", "matplotlib"))
    assert "V_d" in text
    assert "<image" in text  # the frames; lines and words stay vector


def test_a_map_of_padded_frames_reaches_beyond_the_picture():
    trace = small_trace()
    read = ModelFrames(trace.model_frames.pixels, trace.times, 2.0, (0, 4, 16, 12))
    padded = replace(trace, model_frames=read)
    found = measure_evidence(padded)
    assert list(found.corners) == extent(padded)
    across, down = found.centres()
    np.testing.assert_allclose(across, [0.125, 0.375, 0.625, 0.875])
    np.testing.assert_allclose(down, [-0.5 + 2 / 6, 0.5, 1.5 - 2 / 6])


@pytest.mark.parametrize(
    ("name", "which", "words"),
    [
        ("evidence", {"kind": "colour"}, "no map 'colour'"),
        ("evidence", {"index": 5}, "evidence of 1 tokens"),
        ("evidence", {"index": True}, "evidence of"),
        ("evidence", {"frames": [9]}, "no frame 9"),
        ("overview", {"frames": -1}, "no frame -1"),
        ("overview", {"frames": ()}, "no frame was named"),
        ("overview", {"token": 9}, "no token 9"),
    ],
)
def test_what_is_not_there_is_refused(name, which, words):
    with pytest.raises(OptionError, match=words):
        draw(small_trace(), name, **which)


def test_without_evidence_or_an_answer_there_is_no_figure():
    with pytest.raises(OptionError, match="evidence of 0 tokens"):
        draw(replace(small_trace(), evidence=()), "evidence")
    for missing in ({"counterfactual": None}, {"answers": {}}, {"model_frames": None}):
        with pytest.raises(OptionError, match="no finished answer"):
            draw(replace(small_trace(), **missing), "overview")


def test_the_overview_shows_the_run(example):
    found = measure_overview(example)
    at = list(choose_frames(example))
    read, levels = example.model_frames, example.counterfactual
    masks = draw_masks(example.tracks, len(read.pixels), read.size, example.mask, read.content)
    confidence = [t.confidence for t in example.tracks]
    mask = combine_masks(
        masks, levels.level, levels.frame_level, example.groups, confidence, example.mask
    )
    for n, i in enumerate(at):
        np.testing.assert_array_equal(found.pictures[0][n], small(example.frames[i]))
        np.testing.assert_allclose(found.pictures[1][n][..., 0], 255 * mask[i], atol=0.5)
        np.testing.assert_array_equal(
            found.pictures[2][n], example.answers["macd"].second_views[0].shown[i]
        )
    step = example.answers["macd"].tokens[found.index]
    assert example.answers["baseline"].tokens[found.index].token != step.token
    for k, text in enumerate(found.tokens):
        place = [t.replace(" ", "␣") for t in step.texts].index(text)
        np.testing.assert_allclose(found.logits[:2, k], [step.base[place], step.others[0][place]])
    assert step.text.replace(" ", "␣") in found.tokens
    figure = example.figure("overview")
    margins = next(z for z in figure.data if z.type == "bar")
    np.testing.assert_allclose(margins.x, levels.margin)
    assert sum(z.type == "image" for z in figure.data) == 3 * len(at)
    assert len(figure.layout.shapes) == np.isfinite(found.boxes[..., 0]).sum()
    text = svg(example.figure("overview", "matplotlib", frames=[0]))
    assert "strength − r0" in text or "strength" in text


def test_frames_are_chosen_at_equal_distances():
    trace = small_trace()
    long = replace(trace, frames=np.zeros((9, 4, 4, 3), np.uint8))
    assert choose_frames(long) == (0, 3, 5, 8)
    assert choose_frames(trace) == (0, 1)
    assert choose_frames(long, 7) == (7,)
