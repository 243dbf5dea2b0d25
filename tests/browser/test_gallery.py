"""The gallery of the shipped examples, opened from disk with the network off."""

import pytest

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.gallery.runs import SPOILED
from macd_studio.macd_ui.gallery.site import MAX_KB, Site, write_site
from macd_studio.viewer import JS, bundle

SCRIPT = JS.parents[1] / "macd_ui" / "js" / "gallery.js"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """The folder as the command writes it, and its runs."""
    folder = tmp_path_factory.mktemp("gallery") / "out"
    site = Site([SHIPPED])
    assert write_site(site, folder) == []
    return folder, site.runs


@pytest.fixture
def offline(new_tab):
    """A page without a network."""
    return new_tab(strict="file:", offline=True, viewport={"width": 1280, "height": 900})


def shown(page):
    return page.locator("#runs > li:visible").count()


@pytest.mark.long
def test_it_opens_from_disk_and_filters(offline, gallery):
    folder, runs = gallery
    page = offline
    page.goto((folder / "index.html").as_uri())
    page.wait_for_selector("#filters:visible")
    assert shown(page) == len(runs) > 9
    page.select_option("select[name=outcome]", "MACD repairs it")
    repaired = [run for run in runs if run.outcome == "MACD repairs it"]
    assert shown(page) == len(repaired) < len(runs)
    assert f"{len(repaired)} of {len(runs)} runs" in page.locator("#count").inner_text()
    page.select_option("select[name=method]", "macd-object")
    assert shown(page) == sum("macd-object" in run.answers for run in repaired) == 1
    address = page.url
    page.click("#filters button")
    page.get_by_text(f"{len(runs)} runs", exact=True).wait_for()
    page.goto(address)  # what was chosen is part of the address
    page.get_by_text(f"1 of {len(runs)} runs", exact=True).wait_for()
    page.select_option("select[name=outcome]", "")
    page.select_option("select[name=method]", "")
    page.select_option("select[name=example]", runs[0].title)
    assert shown(page) == 1
    pictures = page.locator("#runs > li:visible img")
    page.wait_for_function("[...document.images].some((i) => i.complete && i.naturalWidth)")
    assert pictures.count() == 1


def test_a_filter_takes_a_method_by_its_whole_name(bare):
    bare.set_content(
        "<form id=filters><select name=example></select><select name=outcome></select>"
        "<select name=method><option value=''><option value=macd-object></select></form>"
        "<p id=count></p><ul id=runs><li data-method='macd\nmacd-object'>1"
        "<li data-method='macd\nmacd-object-subsampled'>2</ul>"
    )
    bare.evaluate(f"({bundle(SCRIPT)}).start()")
    bare.select_option("select[name=method]", "macd-object")
    assert bare.locator("#runs > li:visible").all_inner_texts() == ["1"]


@pytest.mark.long
def test_each_run_opens_in_the_full_viewer(offline, gallery):
    folder, runs = gallery
    page = offline
    page.goto((folder / "index.html").as_uri())
    run = next(r for r in runs if r.file.stem == "frames")
    page.click(f"a[href='t/{run.name}.html']")
    page.wait_for_selector(".mv-token")
    assert page.locator(".mv-question").inner_text() == run.question
    assert run.sha256 in page.locator("body").inner_text()
    page.locator(".mv-root").focus()
    page.keyboard.press("ArrowRight")
    assert "frame 2 of 8" in page.locator(".mv-stage .mv-caption").inner_text()
    page.keyboard.press("c")  # the counterfactual: pictures that were compressed are drawn
    page.wait_for_function(
        """() => { const c = document.querySelector('.mv-canvas');
          const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
          return new Set(d).size > 50; }"""
    )
    # a second view that was compressed is a picture still
    assert page.locator(".mv-compare").is_visible()
    page.click("text=All runs")
    page.wait_for_selector("#runs")


@pytest.mark.long
def test_every_run_is_small(gallery):
    folder, runs = gallery
    for run in runs:
        size = sum((folder / "t" / f"{run.name}{end}").stat().st_size for end in (".html", ".webp"))
        assert size <= 1000 * MAX_KB, run.file


@pytest.mark.long
def test_a_phone_shows_no_page_wider_than_itself(offline, gallery):
    folder, runs = gallery
    page = offline
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("index.html", *(f"t/{run.name}.html" for run in runs[:3])):
        page.goto((folder / path).as_uri())
        page.wait_for_selector(".mv-token, #filters:visible")
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path


@pytest.mark.long
def test_it_is_filtered_and_opened_by_keys(offline, gallery):
    folder, runs = gallery
    page = offline
    page.goto((folder / "index.html").as_uri())
    page.wait_for_selector("#filters:visible")

    def focused():
        return page.evaluate("document.activeElement.name || document.activeElement.textContent")

    page.keyboard.press("Tab")
    assert focused() == "example"
    page.keyboard.press("Tab")
    assert focused() == "outcome"
    page.keyboard.type("MACD rep")
    repaired = [run for run in runs if run.outcome == "MACD repairs it"]
    page.get_by_text(f"{len(repaired)} of {len(runs)} runs", exact=True).wait_for()
    page.keyboard.press("Tab")
    assert focused() == "method"
    page.keyboard.type("MACD, no")
    page.get_by_text(f"1 of {len(runs)} runs", exact=True).wait_for()
    page.keyboard.press("Tab")
    assert focused() == "Show all"
    page.keyboard.press("Enter")
    page.get_by_text(f"{len(runs)} runs", exact=True).wait_for()
    page.keyboard.press("Tab")  # hidden runs are passed over, shown ones in their order
    first = next(run for run in runs if run.outcome == SPOILED)  # these are listed first
    assert focused() == first.title
    page.keyboard.press("Enter")
    page.wait_for_selector(".mv-token")
    assert page.locator(".mv-question").inner_text() == first.question
    page.keyboard.press("Tab")
    assert focused() == "All runs"
    page.keyboard.press("Enter")
    page.wait_for_selector("#filters:visible")
