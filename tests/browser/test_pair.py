"""Answers of any name in the token panel, chosen by the keyboard alone."""

from dataclasses import replace

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.decoding.contrast import score
from macd_studio.core.rules import find_rule
from macd_studio.core.types import ModelFrames
from macd_studio.viewer import standalone
from tests.core.test_recording import FRAMES, WORDS, logits, steps, told


def by_code():
    """Tokens of the rule CODE, which α and β do not score again."""
    rule, made = find_rule("code")(0.2), []
    for j in range(2):
        base, counter = logits(j), logits(200 + j)
        weights = rule.weigh(base, [counter], j)
        scores = weights.base * base + weights.others[0] * counter
        scores[base < weights.floor] = -np.inf
        made.append({"token": int(scores.argmax()), "base": base, "others": [counter]})
    return made


def recorded():
    """Two answers of one view and three of two, none under a name of this project's."""
    trace = macd.record(
        **told(
            answers=[
                {"name": "ours", "steps": steps(two=False)},
                {"name": "ours longer", "steps": steps(3, two=False)},
                {"name": "first", "steps": steps(alpha=0.5), "alpha": 0.5, "beta": 0.1},
                {"name": "second", "steps": steps(alpha=2.0), "alpha": 2.0, "beta": 0.1,
                 "second_views": [{"view": {"kind": "blank"}}]},
                {"name": "by code", "steps": by_code(), "rule": "code",
                 "second_views": [{"view": {"kind": "blank"}}]},
            ]
        )
    )  # fmt: skip
    assert not trace.warnings
    pictures = {"first": np.full_like(FRAMES, 40), "second": np.full_like(FRAMES, 200)}
    shown = dict(trace.answers)
    for name, pixels in pictures.items():
        second = replace(shown[name].second_views[0], shown=pixels)
        shown[name] = replace(shown[name], second_views=(second,))
    read = ModelFrames(FRAMES, trace.times, 1.0, (0, 0, 32, 24))
    return replace(trace, answers=shown, model_frames=read)


@pytest.fixture
def opened(new_tab, tmp_path):
    """Opens a trace as an exported page."""
    page = new_tab(strict="file:", offline=True)

    def open_(trace):
        path = tmp_path / "trace.html"
        path.write_text(standalone(trace), encoding="utf-8")
        page.goto(path.as_uri())
        return page

    return open_


def tab_to(page, what):
    """Moves the focus by the tab key to the control of that name."""
    name = """() => { const e = document.activeElement;
      return e.getAttribute("aria-label") || (e.labels && e.labels[0]
        ? e.labels[0].firstChild.textContent : e.textContent).trim(); }"""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(name) == what:
            return
    raise AssertionError(f"the tab key does not lead to {what!r}")


def tokens(page, name):
    strips = page.locator(".mv-strip").all()
    found = [s for s in strips if s.get_attribute("data-method") == name]
    return [t.inner_text() for t in found[0].locator(".mv-token").all()] if found else None


def words(ids):
    return [WORDS[i].replace(" ", "␣") for i in ids]


@pytest.mark.long
def test_answers_of_any_name_are_chosen_by_the_keyboard(opened):
    trace = recorded()
    page = opened(trace)
    said = {n: words(t.token for t in a.tokens) for n, a in trace.answers.items()}
    assert said["first"] != said["second"]
    assert tokens(page, "ours") == said["ours"]
    assert tokens(page, "first") == said["first"]
    assert tokens(page, "second") is None

    # the table and the sliders are those of the answer
    assert "α 0.5, β 0.1" in page.locator(".mv-table .mv-note").inner_text()
    tab_to(page, "Contrast")
    page.keyboard.press("ArrowDown")
    assert tokens(page, "second") == said["second"]
    assert tokens(page, "first") is None
    assert "α 2, β 0.1" in page.locator(".mv-table .mv-note").inner_text()
    assert page.locator(".mv-table th", has_text="logit V′").count() == 1

    # moving α scores its own logits anew
    page.locator(".mv-root").focus()
    tab_to(page, "α")  # the term, and next its slider
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    step = trace.answers["second"].tokens[0]
    plain = step.texts[int(step.base.argmax())].replace(" ", "␣")
    assert step.text.replace(" ", "␣") != plain
    assert tokens(page, "second")[0].endswith(f"→ {plain}")
    page.keyboard.press("End")
    far = score(step.base, step.others[0], 5.0, 0.1)
    top = page.locator(".mv-table tr.mv-top th").inner_text()
    assert top.split(" ")[0] == step.texts[int(far.argmax())].replace(" ", "␣")
    tab_to(page, "Decision boundary for this token")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mv-flipmap > span")
    assert "with β 0.1" in page.locator(".mv-flips .mv-note").inner_text()

    # a rule without α and β says so, and shows the weights it used
    page.locator(".mv-root").focus()
    tab_to(page, "Contrast")
    page.keyboard.press("ArrowDown")
    assert tokens(page, "by code") == said["by code"]
    assert not page.locator(".mv-live").is_visible()
    assert "not scored again by α and β" in page.locator(".mv-bars").inner_text()
    assert "Only the linear rule has a boundary" in page.locator(".mv-flips .mv-note").inner_text()
    weight = trace.answers["by code"].tokens[0].weights.base
    assert f"{weight:.3f}·logit(V)" in page.locator(".mv-table .mv-note").inner_text()

    # and another reference
    page.locator(".mv-root").focus()
    tab_to(page, "Reference")
    page.keyboard.press("ArrowDown")
    assert tokens(page, "ours longer") == said["ours longer"]
    assert "against ours longer" in page.locator(".mv-methods thead").inner_text()


@pytest.mark.long
def test_each_contrast_shows_its_own_second_view(opened):
    page = opened(recorded())
    page.wait_for_function("document.querySelector('.mv-stage canvas').width > 0")
    tab_to(page, "Boxes")
    page.keyboard.press("Space")
    tab_to(page, "Second view")
    page.keyboard.press("Space")
    page.wait_for_function(
        """() => { const c = document.querySelector(".mv-stage canvas");
        return c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[0] < 50; }"""
    )
    assert page.get_by_role("button", name="Levels").is_enabled()
    tab_to(page, "Contrast")
    page.keyboard.press("ArrowDown")
    page.wait_for_function(
        """() => { const c = document.querySelector(".mv-stage canvas");
        return c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[0] > 190; }"""
    )
    # the levels are those of the first one's masks
    levels = page.get_by_role("button", name="Levels")
    assert levels.is_disabled()
    assert "second" in levels.get_attribute("title")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("button", name="Second view").is_disabled()


def test_no_choice_is_offered_where_there_is_none(opened):
    page = opened(macd.record(**told()))
    assert tokens(page, "macd") is not None
    assert not page.locator(".mv-tokens .mv-pair").is_visible()
    trace = recorded()
    kept = {n: trace.answers[n] for n in ("ours", "second")}
    page = opened(replace(trace, answers=kept))
    assert tokens(page, "second") is not None
    assert not page.locator(".mv-tokens .mv-pair").is_visible()
