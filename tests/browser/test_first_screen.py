"""What was masked, what came of it and whether the choice mattered, told on the first screen."""

import re

import pytest

from macd_studio.viewer.glossary import terms
from tests.opening import AFTER, BEFORE

pytestmark = pytest.mark.browser


def test_the_first_screen_answers(page):
    page.wait_for_selector(".mv-token")
    headline = page.locator(".mv-headline")
    text = headline.locator(".mv-mechanism").inner_text()
    assert re.match(r"The [a-z, ]+ (was|were) masked", text)
    change = r"(loses|gains) \d+\.\d logits"
    assert re.search(rf"“{AFTER}” {change} and “{BEFORE}” {change}", text)
    outcome = headline.locator(".mv-outcome")
    assert re.sub(r"\s+", " ", outcome.inner_text()) == f"Baseline: {BEFORE} ✗ → MACD: {AFTER} ✓"
    wrong = outcome.locator(".mv-wrong").get_attribute("title")
    assert wrong == f"wrong: the true answer is {AFTER}"

    strip = page.locator(".mv-controls")
    if not strip.locator(".mv-draw").count():
        strip.get_by_role("button", name="Compare with random masks").click()
    strip.locator(".mv-draw").first.wait_for()
    said = strip.locator(".mv-controls-text").inner_text()
    pattern = rf"(\d+|None) of the 20 random masks of the same area chooses? “{AFTER}”"
    same = int(re.match(pattern, said)[1].replace("None", "0"))
    assert "adding +" in said
    draws = strip.locator(".mv-draw")
    assert draws.count() == 23
    titles = [draw.get_attribute("title") for draw in draws.all()]
    assert sum(title == f"random mask: {AFTER}" for title in titles) == same
    names = ("masking every object", "the reversed gradient", "a blank video")
    assert [title.split(":")[0] for title in titles[20:]] == list(names)


@pytest.mark.long
def test_the_tour_and_the_legend_explain(page):
    page.wait_for_selector(".mv-token")
    counter = page.get_by_role("button", name="Counterfactual")
    assert counter.get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="Tour", exact=True).press("Enter")
    tour = page.get_by_role("dialog", name="Tour")
    titles = []
    for _ in range(5):
        titles.append(tour.locator(".mv-tour-title").inner_text())
        assert page.locator(".mv-spot").count() == 1
        if len(titles) == 3:
            assert counter.get_attribute("aria-pressed") == "true"
        if len(titles) < 5:
            tour.get_by_role("button", name="Next").press("Enter")
    names = ("Objects", "Gradient", "Mask", "Two views", "Answer")
    assert titles == [f"{i} of 5 · {name}" for i, name in enumerate(names, 1)]
    page.keyboard.press("Escape")
    assert not tour.is_visible()
    assert page.locator(".mv-spot").count() == 0
    assert counter.get_attribute("aria-pressed") == "false"  # as it was before

    page.locator(".mv-legend > summary").click()
    meanings = page.locator(".mv-legend dd").all_inner_texts()
    assert any("so the ascent masks it" in meaning for meaning in meanings)
    assert not [meaning for meaning in meanings if "undefined" in meaning]
    page.locator(".mv-terms > summary").click()
    listed = page.locator(".mv-terms dt").all_inner_texts()
    assert listed == [term.name for term in terms()]
    head = page.locator(".mv-table th", has_text="score").first
    page.keyboard.press("Shift")  # from here on the reader uses the keyboard
    head.locator("button").focus()
    tip = page.locator(".mv-tip:popover-open")
    assert tip.inner_text() == "score rule how the logits of the views become one score."
    fold = page.locator("summary", has_text="Decision boundary").first
    fold.hover()
    tip.filter(has_text="flip point the α at which another candidate wins.").wait_for()
