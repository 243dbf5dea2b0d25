"""The name that a reader of the course may give: saved, and not kept for the next reader."""

import json
import re

import pytest

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.collect import NAME, read_saved
from macd_studio.macd_ui.learn.site import Site

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
    page.reload()
    assert page.get_by_label("Your name, if you like").input_value() == ""
    assert "Zoë" not in page.evaluate(KEPT)
    field.fill("Zoë B")
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("button", name="Delete my answers").click()
    page.wait_for_function("() => location.hash && location.hash !== '#results'")
    page.evaluate("() => { location.hash = '#results'; }")
    page.wait_for_function(f"() => document.querySelector({FIELD!r})?.value === ''")
