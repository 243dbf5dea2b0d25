"""The viewer in windows of four widths: what is seen first, what is beside what, nothing cut."""

from dataclasses import replace

import pytest

from macd_studio.viewer import payload
from tests.browser.states import HEIGHT, LONG_NAME, WIDTHS, show, traced

SAMPLE = (390, 1440)
EACH_WIDTH = pytest.mark.parametrize(
    "width", [w if w in SAMPLE else pytest.param(w, marks=pytest.mark.long) for w in WIDTHS]
)
CUT = """() => [...document.querySelectorAll('.mv-root *')].filter((e) => {
  const style = getComputedStyle(e);
  return e.offsetParent && e.scrollWidth > e.clientWidth + 1 && style.overflowX !== 'visible'
    && style.overflowX !== 'auto' && e.textContent.trim() && e.clientWidth > 1;
}).map((e) => `${e.className}: ${e.textContent.slice(0, 60)}`)"""
"""Elements whose text is wider than they are, and which neither show nor scroll the rest."""


HIDDEN_BELOW = """(part) => {
  const boxes = [];
  for (let e = part.parentElement; e !== document.body; e = e.parentElement) boxes.push(e);
  return boxes.filter((e) => getComputedStyle(e).overflowY !== 'visible')
    .filter((e) => e.scrollHeight > e.clientHeight + 1).map((e) => e.className);
}"""
"""What around a part shows it only after scrolling inside the page."""


def box(page, selector):
    return page.locator(selector).first.bounding_box()


@EACH_WIDTH
def test_every_width_shows_the_picture_first_and_cuts_nothing(bare, width):
    page = show(bare, traced(), width)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert page.evaluate(CUT) == []
    picture = box(page, ".mv-stage .mv-canvas")
    assert picture["y"] + picture["height"] / 2 < HEIGHT
    bars, tokens = box(page, "[data-part=answers]"), box(page, ".mv-tokens")
    lines = box(page, "[data-part=trajectory]")
    if width < 800:  # the picture, the strengths, the bars, and then everything else
        assert picture["y"] < lines["y"] < bars["y"] < tokens["y"]
    else:
        assert bars["x"] > picture["x"] + picture["width"] - 1
        assert tokens["y"] > lines["y"] + lines["height"]
    names = page.locator(".mv-lane-name").all_inner_texts()
    assert sum(LONG_NAME in name for name in names) == 2


@EACH_WIDTH
def test_the_ascent_is_never_inside_a_box_that_scrolls(bare, width):
    page = show(bare, traced(), width)
    for part in (".mv-step-plots", ".mv-lanes", ".mv-rail-list", ".mv-bars"):
        assert page.locator(part).evaluate(HIDDEN_BELOW) == []


@EACH_WIDTH
@pytest.mark.parametrize("view", ["Video", "Both"])
def test_tools_stand_beside_the_picture_or_are_seen_below_it(bare, width, view):
    """A picture beside its tools keeps its size; one above them leaves them room."""
    page = show(bare, traced(objects=6, steps=1), width)
    page.evaluate("(view) => window.viewer.stage.show(view)", view.lower())
    before = box(page, ".mv-stage .mv-canvas")
    page.locator(".mv-whatif > summary").click()
    page.evaluate("window.viewer.state.set({ track: 1 })")
    page.wait_for_selector(".mv-edit-object .mv-edit-name, .mv-edit-object button")
    picture, tools = box(page, ".mv-stage .mv-canvas"), box(page, ".mv-whatif")
    if page.evaluate("document.querySelector('.mv-root').classList.contains('mv-spare')"):
        assert (picture["width"], picture["height"]) == (before["width"], before["height"])
        assert tools["x"] >= picture["x"] + picture["width"] - 1
        assert abs(tools["y"] - picture["y"]) < 60
        assert width >= 1440
    else:
        assert picture["height"] <= before["height"]
        assert 0 <= tools["y"] - (picture["y"] + picture["height"]) < 200
        assert tools["y"] < HEIGHT


@pytest.mark.long
def test_a_pointer_that_rests_does_not_break_the_next_run(bare):
    page = show(bare, traced(), 1440)
    page.locator(".mv-object").nth(9).hover()
    assert page.evaluate("window.viewer.state.hover") == 9
    fewer = payload(traced(objects=2))["trace"] | {"run": "another"}
    page.evaluate("(trace) => window.viewer.load(trace)", fewer)
    assert page.locator(".mv-object").count() == 2
    assert page.evaluate("window.viewer.state.hover") is None


def test_a_phone_stacks_candidates_and_keeps_their_roles(bare):
    page = show(bare, traced(), 390)
    rows = page.locator(".mv-candidates tbody tr")
    first = rows.first.bounding_box()
    head = rows.first.locator("th").bounding_box()
    cell = rows.first.locator("td").first
    assert head["width"] > 0.9 * first["width"]
    assert cell.bounding_box()["y"] >= head["y"] + head["height"] - 1
    shown = cell.evaluate("(e) => getComputedStyle(e, '::before').content")
    assert shown == '"logit V"'
    roles = page.locator(".mv-candidates [role]").evaluate_all(
        "(all) => [...new Set(all.map((e) => e.getAttribute('role')))].sort()"
    )
    assert roles == ["cell", "columnheader", "row", "rowgroup", "rowheader"]


def test_fourteen_objects_are_told_apart_by_number_and_colour(bare):
    page = show(bare, traced(), 1440)
    swatches = page.locator(".mv-swatch")
    assert swatches.all_inner_texts() == [str(k) for k in range(1, 15)]
    colours = swatches.evaluate_all("(all) => all.map((e) => getComputedStyle(e).backgroundColor)")
    assert len(set(colours)) == 14
    tags = page.locator("[data-plot=objects] .mv-line-tag").all_text_contents()
    assert {tag.split()[0] for tag in tags} == {str(k) for k in range(1, 15)}
    ink = """() => window.viewer.state.trace.tracks.map((t) => t.colour)"""
    assert len(set(page.evaluate(ink))) == 14
    # the list scrolls: its last object can be reached and is then in sight
    last = page.locator(".mv-object").last
    last.scroll_into_view_if_needed()
    place = last.bounding_box()
    assert 0 <= place["y"] <= HEIGHT - place["height"]


def test_without_objects_no_effect_of_one_is_offered(bare):
    page = show(bare, traced(objects=0), 1440)
    assert page.locator(".mv-tokens").is_visible()
    assert not page.locator(".mv-occlusion").is_visible()


def test_the_lanes_show_hard_cuts(bare):
    trace = traced(2)
    cut = replace(trace, clip=replace(trace.clip, cuts=(float(trace.times[1:3].mean()),)))
    cells = show(bare, cut).locator(".mv-lanes .mv-cut")
    assert cells.count() == 3  # two objects and the frame mask
    assert cells.first.get_attribute("data-frame") == "2"
    assert cells.first.get_attribute("title").endswith("the first frame after a hard cut")
    assert show(bare, trace).locator(".mv-lanes .mv-cut").count() == 0
