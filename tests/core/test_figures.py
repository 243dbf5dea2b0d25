"""What the figures draw is what the trace holds, with either library."""

import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core import figures
from macd_studio.core.decoding.contrast import score
from macd_studio.core.errors import OptionError
from macd_studio.core.figures import draw
from macd_studio.core.figures.evidence import measure as measure_evidence
from macd_studio.core.figures.overview import measure as measure_overview
from macd_studio.core.figures.style import choose_frames, small
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.methods import find_method
from macd_studio.core.report.evidence import extent
from macd_studio.core.run.order import run_method
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import ModelFrames
from macd_studio.macd_ui.examples import SHIPPED
from tests.core.test_methods import a_case
from tests.core.test_recording import steps, told
from tests.core.test_several_views import a_trace as trace_of_three_views
from tests.small_trace import small_trace

BACKENDS = ("plotly", "matplotlib")


@pytest.fixture(scope="module")
def recorded():
    import macd_studio as macd

    answers = [
        {"name": "plain", "steps": steps(3, two=False)},
        {"name": "first", "steps": steps(3, alpha=2.0), "alpha": 2.0, "beta": 0.1},
        {"name": "raw", "steps": steps(1), "alpha": 1.0, "beta": 0.1, "head": "raw"},
        {"name": "code", "steps": steps(1), "rule": "code"},
    ]
    return macd.record(**told(answers=answers))


def drawn(figure):
    """A figure of matplotlib as SVG, which draws every part of it."""
    out = io.BytesIO()
    figure.savefig(out, format="svg")
    return out.getvalue().decode()


# strengths


def moved(trace):
    rows = [s.strength for s in trace.steps] + [trace.counterfactual.strength]
    return np.array(rows) - trace.options.ascent.r0


def two_steps():
    trace = small_trace()
    (first,) = trace.steps
    second = replace(first, index=1, loss=0.3, strength=np.array([0.8, 0.6]))
    found = replace(trace.counterfactual, strength=np.array([0.9, 0.5]))
    return replace(trace, steps=(first, second), counterfactual=found)


def test_strengths_are_those_of_the_steps():
    trace = two_steps()
    figure = trace.figure("strengths")
    for k, line in enumerate(figure.data[:2]):
        assert line.name == f"{trace.tracks[k].id} {trace.tracks[k].label}"
        assert list(line.x) == [0, 1, 2]
        np.testing.assert_allclose(line.y, moved(trace)[:, k])
    strip, loss = figure.data[2:]
    np.testing.assert_allclose(strip.z, [[0.0, 0.0, 0.0]])
    np.testing.assert_allclose(loss.y, [0.4, 0.3])
    axes = trace.figure("strengths", backend="matplotlib").axes
    for k, line in enumerate(axes[0].lines[:2]):
        np.testing.assert_allclose(line.get_ydata(), moved(trace)[:, k])
        assert line.get_label() == f"{trace.tracks[k].id} {trace.tracks[k].label} → {[1, 0][k]}"
    np.testing.assert_allclose(axes[1].collections[0].get_array().ravel(), [0, 0, 0])
    np.testing.assert_allclose(axes[2].lines[0].get_ydata(), [0.4, 0.3])
    assert axes[2].get_ylabel() == "query loss"


def test_without_an_ascent_there_are_no_strengths(recorded):
    trace = replace(recorded, steps=())
    for backend in BACKENDS:
        with pytest.raises(OptionError, match="no ascent"):
            trace.figure("strengths", backend)


# logits


def differences(answer):
    rows = []
    for step in answer.tokens:
        at = step.candidates.tolist().index(step.token)
        rows.append([step.base[at] - other[at] for other in step.others])
    return np.array(rows).T


@pytest.mark.parametrize("several", [False, True])
def test_the_contrast_of_each_token_is_that_of_its_logits(recorded, several):
    trace, name = (trace_of_three_views()[0], "vcd/tcd+mean-views") if several else (
        recorded, "first")  # fmt: skip
    answer = trace.answers[name]
    expected = differences(answer)
    assert len(expected) == 1 + several
    figure = trace.figure("logits", answer=name)
    np.testing.assert_allclose([bars.y for bars in figure.data], expected)
    labels = figure.layout.xaxis.ticktext
    assert len(labels) == len(answer.tokens)
    axes = trace.figure("logits", "matplotlib", answer=name).axes[0]
    heights = [[bar.get_height() for bar in group] for group in axes.containers]
    np.testing.assert_allclose(heights, expected)
    hatches = {group[0].get_hatch() for group in axes.containers}
    assert len(hatches) == len(expected)  # told apart without colour


def test_a_token_that_the_video_alone_would_not_choose_says_so(recorded):
    answer = recorded.answers["first"]
    labels = recorded.figure("logits", answer="first").layout.xaxis.ticktext
    changed = [s.texts[int(s.base.argmax())] for s in answer.tokens if s.token != s.candidates[0]]
    assert changed
    assert sum("(V: " in label for label in labels) == len(changed)
    assert all(any(word.strip() in label for label in labels) for word in changed)


def test_the_overview_places_tokens_by_rank_whatever_their_names():
    """Digits are no places on a number axis, and equal shortened names no single group."""
    trace = small_trace()
    macd = trace.answers["macd"]
    long = "a name that is far longer than a label"
    texts = ("10", f"{long} left", f"{long} right", "2")[: len(macd.tokens[0].texts)]
    step = replace(macd.tokens[0], texts=texts)
    named = replace(macd, tokens=(step, *macd.tokens[1:]))
    trace = replace(trace, answers=trace.answers | {"macd": named})
    figure, axes = trace.figure("overview", token=0), []
    bars = [one for one in figure.data if one.type == "bar" and one.name.startswith("logit")]
    for one in bars:
        assert list(one.x) == list(range(len(texts)))
        axes.append(figure.layout[f"xaxis{one.xaxis[1:]}"])
    for axis in axes:
        assert list(axis.tickvals) == list(range(len(texts)))
        assert axis.ticktext[0] == "10"
        assert axis.ticktext[1] == axis.ticktext[2]


# decision


def chosen(answer, token, alpha, beta):
    step = answer.tokens[token]
    place = int(score(step.base, step.others[0], alpha, beta, answer.head).argmax())
    return step.texts[place].replace(" ", "␣")


@pytest.mark.parametrize("name", ["first", "raw"])
def test_the_plane_shows_the_choice_at_every_alpha_and_beta(recorded, name):
    answer = recorded.answers[name]
    for token in range(len(answer.tokens)):
        figure = recorded.figure("decision", answer=name, token=token)
        maps = [z for z in figure.data if z.type == "heatmap"]
        alphas, betas = np.array(maps[0].x), np.array(maps[0].y)
        assert (alphas[0], alphas[-1], betas[0], betas[-1]) == (0, 5, 0, 1)
        for i, j in ((0, 0), (0, 200), (3, 57), (10, 80), (50, 120), (99, 199), (100, 10)):
            here = [m.name for m in maps if m.z[i][j] is not None]
            assert here == [chosen(answer, token, alphas[j], betas[i])]
        own = figure.data[-1]
        assert (own.x[0], own.y[0]) == (answer.alpha, answer.beta)
        assert figure.layout.xaxis.title.text == "α"
        assert tuple(figure.layout.yaxis.range) == (0, 1)


def test_the_printed_plane_has_the_same_areas_and_real_ticks(recorded):
    answer = recorded.answers["first"]
    figure = recorded.figure("decision", "matplotlib", answer="first", token=0)
    axes = figure.axes[0]
    legend = axes.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    greys = [patch.get_facecolor() for patch in legend.get_patches()]
    assert len(set(greys)) == len(greys) >= 2
    assert all(len(set(grey[:3])) == 1 for grey in greys)  # no colour
    areas = [c for c in axes.collections if len(c.get_facecolor())]
    assert len(areas) == len(names) - 1  # the first is the ground
    for alpha, beta in ((0.02, 0.5), (0.3, 0.02), (1.0, 0.3), (4.0, 0.05), (4.9, 0.9)):
        inside = [
            i for i, area in enumerate(areas, 1)
            if any(path.contains_point((alpha, beta)) for path in area.get_paths())
        ]  # fmt: skip
        assert names[inside[0] if inside else 0] == chosen(answer, 0, alpha, beta)
    assert axes.lines[0].get_xydata().tolist() == [[2.0, 0.1]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("α", "β")
    assert axes.get_xlim() == (0, 5)
    assert "<image" not in drawn(figure)  # vector


def test_by_default_it_is_about_the_first_token_that_differs(recorded):
    first = [s["token"] for s in steps(3, alpha=2.0)]
    plain = [s["token"] for s in steps(3, two=False)]
    differs = next(i for i in range(3) if first[i] != plain[i])
    title = recorded.figure("decision").layout.title.text
    assert title == f"token {differs + 1} of first"


def test_alpha_beyond_the_axis_widens_it():
    answer = run_method(a_case(), find_method("blank"))
    trace = replace(small_trace(), answers={"blank": replace(answer, alpha=8.0, beta=1.2)})
    figure = trace.figure("decision")
    assert (figure.layout.xaxis.range[1], figure.layout.yaxis.range[1]) == (8.0, 1.2)


# names, texts, imports


def test_what_there_is_none_of_is_refused(recorded):
    one = replace(recorded, answers={"plain": recorded.answers["plain"]})
    for trace, asked, message in (
        (recorded, {"name": "pie"}, "no figure 'pie'.*decision, evidence, logits, overview"),
        (recorded, {"name": "logits", "backend": "excel"}, "no backend 'excel'"),
        (recorded, {"name": "logits", "answer": "plain"}, "no answer 'plain'.*first, raw, code"),
        (recorded, {"name": "logits", "token": 1}, "takes no 'token'"),
        (recorded, {"name": "decision", "token": 3}, "no token 3.*0 to 2"),
        (recorded, {"name": "decision", "answer": "code"}, "not the linear one"),
        (one, {"name": "logits"}, "no answer in this trace was contrasted"),
    ):
        with pytest.raises(OptionError, match=message):
            trace.figure(**asked)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_no_text_is_taken_for_markup(name):
    trace = small_trace()
    hostile = "<b>${x}$ %{y} $\\frac{"
    tracks = tuple(replace(t, label=hostile) for t in trace.tracks)
    answers = {
        n: replace(a, method=hostile, tokens=tuple(
            replace(t, texts=(hostile,) * len(t.texts), text=hostile) for t in a.tokens))
        for n, a in trace.answers.items()
    }  # fmt: skip
    spoilt = replace(trace, tracks=tracks, answers=answers)
    assert "<b>" not in str(spoilt.figure(name).to_dict())
    text = drawn(spoilt.figure(name, "matplotlib"))  # matplotlib raises where it reads bad TeX
    assert text.startswith("<?xml")


def test_only_the_library_that_draws_is_imported(tmp_path):
    from macd_studio.core.traces.bundle import save

    path = save(two_steps(), tmp_path / "t.macd")
    code = (
        "import sys\nimport macd_studio as macd\n"
        "trace = macd.load(sys.argv[1])\n"
        "assert not {'plotly', 'matplotlib', 'torch'} & set(sys.modules)\n"
        "trace.figure(sys.argv[2], sys.argv[3])\n"
        "assert {'plotly', 'matplotlib', 'torch'} & set(sys.modules) == {sys.argv[3]}\n"
    )
    for name, backend in zip(("strengths", "decision"), BACKENDS, strict=True):
        subprocess.run([sys.executable, "-c", code, str(path), name, backend], check=True)


@pytest.fixture(scope="module")
def example():
    return load(SHIPPED / "repaired.macd")


def test_the_maps_are_those_of_the_trace():
    trace = small_trace()
    one = trace.evidence[0]
    figure = trace.figure("evidence", frames=[1])
    maps = [z for z in figure.data if z.type == "heatmap"]
    expected = [one.map("gradient").values, one.map("gradient", "counterfactual").values,
                one.difference("gradient")]  # fmt: skip
    for shown, values in zip(maps, expected, strict=True):
        np.testing.assert_allclose(np.array(shown.z), values[1], rtol=1e-6)
        assert shown.zmin == -shown.zmax == maps[0].zmin
        np.testing.assert_allclose(shown.x, (np.arange(4) + 0.5) / 4)
        np.testing.assert_allclose(shown.y, (np.arange(3) + 0.5) / 3)
    assert [a.text for a in figure.layout.annotations[:3]] == ["V", "V_d", "V − V_d"]
    assert "no rather than yes" in figure.layout.title.text
    other = measure_evidence(trace, kind="occlusion-grid")
    np.testing.assert_array_equal(other.values[0], one.map("occlusion-grid").values)
    text = drawn(trace.figure("evidence", "matplotlib"))
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


def test_the_overview_shows_the_chosen_token_wherever_it_ranks():
    trace = small_trace()
    step = trace.answers["macd"].tokens[0]
    names = tuple(f"word{i}" for i in range(8))
    for rank in range(8):
        chosen = replace(
            step, token=50 + rank, candidates=np.arange(50, 58), texts=names, repeats=None,
            weights=None, base=np.arange(8.0, 0, -1, dtype=np.float32),
            others=(np.zeros(8, np.float32),),
        )  # fmt: skip
        macd = replace(trace.answers["macd"], tokens=(chosen,))
        found = measure_overview(replace(trace, answers={**trace.answers, "macd": macd}), token=0)
        last = "word3" if rank < 4 else f"word{rank}"
        assert found.tokens == ("word0", "word1", "word2", last)
        np.testing.assert_array_equal(found.logits[0], [8, 7, 6, 8 - int(last[4:])])


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
    last = len(read.pixels) - 1
    (boxes,) = measure_overview(example, frames=[last]).boxes
    np.testing.assert_array_equal(boxes, [t.boxes[last] for t in example.tracks])
    text = drawn(example.figure("overview", "matplotlib", frames=[0]))
    assert "strength − r0" in text or "strength" in text


def test_frames_are_chosen_at_equal_distances():
    trace = small_trace()
    long = replace(trace, frames=np.zeros((9, 4, 4, 3), np.uint8))
    assert choose_frames(long) == (0, 3, 5, 8)
    assert choose_frames(trace) == (0, 1)
    assert choose_frames(long, 7) == (7,)
