"""Terms of the viewer, in an exported file without a server: defined on hover and on focus."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.roles import examples_by_role
from macd_studio.viewer import standalone
from macd_studio.viewer.glossary import meaning


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Address of a run as one file."""
    file = tmp_path_factory.mktemp("terms") / "run.html"
    file.write_text(standalone(examples_by_role([SHIPPED])["opening"].trace), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def page(new_tab, exported):
    """The exported file."""
    page = new_tab(exported, offline=True, viewport={"width": 1440, "height": 1000})
    page.wait_for_selector(".mv-token")
    return page


def test_a_term_is_defined_on_hover_and_focus(page):
    tip = page.locator(".mv-tip:popover-open")
    page.evaluate("addEventListener('pointermove', e => { last = [e.screenX, e.screenY]; })")
    page.locator(".mv-losses .mv-term").hover()
    assert tip.inner_text() == f"query loss {meaning('query loss')}."
    page.keyboard.press("Tab")  # from here on the reader uses the keyboard
    page.locator(".mv-live .mv-term").first.focus()
    assert tip.inner_text() == f"contrast strength {meaning('contrast strength')}."
    # another term scrolls under the pointer, which stays where it is
    page.locator(".mv-losses .mv-term").evaluate("""term => {
        const [screenX, screenY] = last, pointerType = "mouse";
        term.dispatchEvent(new PointerEvent("pointerenter", { pointerType, screenX, screenY }));
    }""")
    assert tip.inner_text() == f"contrast strength {meaning('contrast strength')}."
    page.keyboard.press("Escape")
    assert tip.count() == 0
    page.locator(".mv-candidates .mv-term", has_text="score").hover()
    assert tip.inner_text() == f"score rule {meaning('score rule')}."


def test_a_definition_does_not_cover_what_its_fold_opens(page):
    tip = page.locator(".mv-tip:popover-open")
    fold = page.locator("summary[aria-describedby]:visible").first
    fold.hover()
    tip.wait_for()
    fold.click()
    assert tip.count() == 0
    fold.click()
    assert tip.count() == 0


@pytest.mark.long
@pytest.mark.parametrize("size", [(390, 844), (1440, 1000)])
def test_every_term_of_the_viewer_shows_within_the_page(page, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.keyboard.press("Tab")
    tip, terms = page.locator(".mv-tip:popover-open"), page.locator(".mv-root .mv-term")
    assert terms.count() > 8
    shown = 0
    for term in terms.all():
        if not term.is_visible() or not term.evaluate("e => (e.focus(), e.matches(':focus'))"):
            continue  # in a fold, or in a head that a phone does not show
        box = tip.bounding_box()
        assert tip.get_attribute("id") == term.get_attribute("aria-describedby")
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= size[1]
        shown += 1
    assert shown >= 5
    found = Axe().run(page, options={"preload": False}).response["violations"]
    assert not [(v["id"], v["nodes"][0]["html"][:200]) for v in found]
