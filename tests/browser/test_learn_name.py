"""The name that a reader of the course may give: kept, saved, and deleted with the answers."""

import json

import pytest

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.collect import NAME, read_saved
from macd_studio.macd_ui.learn.site import Site, write_site
from tests.patience import PATIENCE_MS

pytestmark = pytest.mark.browser
WIDTH = 390


@pytest.mark.long
def test_a_name_stands_in_the_saved_file_and_nowhere_else(browser, tmp_path):
    site = Site(folders=[SHIPPED])
    write_site(site, tmp_path / "out")
    context = browser.new_context(offline=True, viewport={"width": WIDTH, "height": 844})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto((tmp_path / "out" / "index.html").as_uri() + "#results")
    field = page.get_by_label("Your name, if you like")
    assert field.input_value() == ""
    field.fill("Zoë B " + "x" * 100)
    assert len(field.input_value()) == NAME.longest
    field.fill("Zoë B")
    assert field.bounding_box()["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as JSON").click()
    content = json.loads(saved.value.path().read_text())
    assert (content["name"], saved.value.suggested_filename) == ("Zoë B", "macd-learn-zoe-b.json")
    assert read_saved(saved.value.path(), content["edition"], site.questions())["name"] == "Zoë B"
    page.reload()
    assert page.get_by_label("Your name, if you like").input_value() == "Zoë B"
    again = page.get_by_role("button", name="Start again")
    again.click()
    page.get_by_role("button", name="Delete my answers").click()
    page.wait_for_function("() => JSON.parse(localStorage.getItem('macd-learn')).name === ''")
    context.close()
