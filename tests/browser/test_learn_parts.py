"""Parts of the course by themselves: what they say and draw, and what the address says."""

import pytest

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.site import Site, write_site
from tests.patience import PATIENCE_MS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the course opened from disk, where no model runs."""
    folder = tmp_path_factory.mktemp("parts") / "out"
    write_site(Site(folders=[SHIPPED]), folder)
    return (folder / "index.html").as_uri()


@pytest.fixture
def page(browser, address):
    context = browser.new_context(offline=True, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    problems = []
    page.on("pageerror", lambda e: problems.append(str(e)))
    yield page
    context.close()
    assert not problems


def lock(page, address, chapter):
    """Opens a chapter and locks in its prediction."""
    page.goto(f"{address}#{chapter}")
    page.locator(".ln-options input").first.check()
    page.locator(".ln-sure input").first.check()
    page.locator(".ln-main-button").click()


def test_what_needs_a_model_is_left_out_with_its_text(page, address):
    lock(page, address, "05-contrast")
    step = page.locator(".ln-step").filter(has=page.locator(".mv-root")).nth(1)
    step.get_by_text("No model runs here").wait_for()
    assert step.locator(".ln-task").count() == 0
    assert step.locator(".ln-prose").inner_text().startswith("In this part the masks")
    assert "change the masks yourself" not in page.inner_text("main")
