"""The name that a reader of the course may give: saved, and not kept for the next reader."""

import json
import re

import pytest

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.collect import NAME, read_saved
from macd_studio.macd_ui.learn.site import Site
from tests.browser.test_learn import reload

WIDTH = 390
FIELD = ".ln-name input"
KEPT = "JSON.stringify(localStorage)"
WITH_A_NAME = """() => {
  const kept = JSON.parse(localStorage.getItem('macd-learn'));
  localStorage.setItem('macd-learn', JSON.stringify({ ...kept, name: 'Zoë B' }));
}"""


@pytest.mark.long
def test_a_name_stands_in_the_saved_file_and_is_not_kept(new_tab, course):
    site = Site(folders=[SHIPPED])
    page = new_tab(f"{course}#results", offline=True, viewport={"width": WIDTH, "height": 844})
    field = page.get_by_label("Your name, if you like")
    assert field.input_value() == ""
    field.fill("Zoë B " + "x" * 100)
    assert len(field.input_value()) == NAME.longest
    field.fill("Zoë B")
    assert field.bounding_box()["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH

    def save():
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as JSON").click()
        return saved.value.path(), saved.value.suggested_filename

    path, first = save()
    content = json.loads(path.read_text())
    assert content["name"] == "Zoë B"
    assert read_saved(path, content["edition"], site.questions())["name"] == "Zoë B"
    assert re.fullmatch(r"macd-learn-zoë-b-[0-9a-f]{6}\.json", first)
    assert save()[1] != first
    for name, plain in (("Юля К.", "юля-к"), ("हिन्दी", "हिन्दी"), ("../ ", "")):
        field.fill(name)
        assert re.fullmatch(rf"macd-learn-{plain}-?[0-9a-f]{{6}}\.json", save()[1])
    field.fill("Zoë B")
    assert "Zoë" not in page.evaluate(KEPT)
    page.evaluate(WITH_A_NAME)  # as a former version kept it
    reload(page)
    assert page.get_by_label("Your name, if you like").input_value() == ""
    assert "Zoë" not in page.evaluate(KEPT)
    field.fill("Zoë B")
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("button", name="Delete my answers").click()
    page.wait_for_function("() => location.hash && location.hash !== '#results'")
    page.evaluate("() => { location.hash = '#results'; }")
    page.wait_for_function(f"() => document.querySelector({FIELD!r})?.value === ''")


@pytest.mark.long
def test_what_is_kept_back_stands_neither_on_the_page_nor_in_the_file(new_tab, course):
    """Before the last quiz of the course the outcomes of the first are not told."""
    page = new_tab(f"{course}#results", offline=True)
    locked = {"choice": 1, "confidence": 0.9, "at": "2026-01-01T00:00:00Z"}
    answers = {"before/0": {**locked, "right": False}, "01-sees": {**locked, "right": True}}
    page.evaluate(
        """(answers) => {
          const kept = JSON.parse(localStorage.getItem('macd-learn') || '{}');
          localStorage.setItem('macd-learn', JSON.stringify({ ...kept, answers }));
        }""",
        answers,
    )
    reload(page)
    page.locator(".ln-meter span").nth(1).wait_for(state="attached")
    tiles = page.locator(".ln-scores > div")
    assert tiles.nth(0).locator(".ln-guess").count() == 0
    assert "1 of 1 right" in tiles.nth(1).inner_text()
    assert "100%" in tiles.nth(1).locator(".ln-meter span").get_attribute("style")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as JSON").click()
    content = json.loads(saved.value.path().read_text())
    assert content["brier"] == pytest.approx(0.01)
    assert content["answers"]["01-sees"]["right"] is True
    assert "right" not in content["answers"]["before/0"]
