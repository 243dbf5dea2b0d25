"""What the figures draw is what the trace holds, with either library."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core import figures
from macd_studio.core.decoding.contrast import score
from macd_studio.core.errors import OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.run.order import run_method
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


def test_every_module_that_measures_is_a_figure():
    folder = Path(figures.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "def measure(" in path.read_text()}
    assert set(figures.FIGURES) == modules


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
