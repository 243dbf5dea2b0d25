"""Ratings by keys: the mask that is seen to have the keyboard is rated, and no other."""

import numpy as np
import pytest

from macd_studio.ratings.create import StudyPlan, create_study
from macd_studio.ratings.store import Study
from macd_studio.viewer import JS, bundle
from tests.browser.test_rating import begin, saved, wait_for_item
from tests.ratings.killable import Server
from tests.ratings.studies import FRAMES, make_study, source

SESSION = JS.parents[1] / "ratings" / "page" / "session.js"
FOCUS = """() => {
  const e = document.activeElement;
  const group = e.closest('[role=radiogroup], .reasons');
  return group ? `${group.className} ${group.ariaLabel.slice(0, 6)}` : e.id;
}"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = make_study(tmp_path_factory.mktemp("study"), 4)
    server = Server(path)
    server.start()
    yield path, server.url
    server.end()


@pytest.fixture
def item(place, new_tab):
    """A page on its first item; what is stored of it."""
    path, url = place
    with Study(path) as study:
        (code,) = study.invite(1)
    page = new_tab(f"{url}/rate#{code}")
    task = begin(page)

    def stored(task=task):
        saved(page)
        with Study(path, write=False) as study:
            rows = study.rows(
                "SELECT side, old, new FROM events WHERE task = ? AND kind = 'rate' ORDER BY id",
                task,
            )
        return [tuple(row) for row in rows]

    return page, task, stored


def test_a_held_key_acts_once_and_none_acts_in_a_text_field(bare):
    bare.set_content('<input><div id="item"></div><div id="resting" hidden></div>')
    bare.evaluate(
        f"""() => {{
          const {{ RatingPage }} = {bundle(SESSION)}, page = Object.create(RatingPage.prototype);
          window.acted = [];
          const next = () => window.acted.push("next"), undo = () => window.acted.push("undo");
          Object.assign(page, {{ views: {{}}, actions: () => ({{ next, undo }}) }});
          document.addEventListener("keydown", (event) => page.onKey(event));
        }}"""
    )
    bare.keyboard.down("Enter")
    bare.keyboard.press("Enter")  # as a key that is held
    bare.keyboard.press("u")
    bare.focus("input")
    bare.keyboard.press("Enter")
    bare.keyboard.type("u")
    assert bare.evaluate("window.acted") == ["next", "undo"]


def test_tab_goes_from_mask_to_mask_whatever_was_rated(item):
    page, task, stored = item
    for first, second in ((2, 4), (1, 1), (3, 2), (5, 5)):
        for key in (first, "Tab", second, "Enter"):
            page.keyboard.press(str(key))
        after = wait_for_item(page, task)
        assert stored(task) == [(0, None, first), (1, None, second)]
        task = after
    assert task is None


def test_a_break_ends_by_its_key_and_by_enter(item):
    page, task, stored = item
    for key in ("p", "Enter", "Space"):
        page.keyboard.press("p")
        page.wait_for_selector("#resting:not([hidden])")
        assert " P " in page.inner_text("#resting")
        page.keyboard.press("3")  # means nothing here
        page.keyboard.press(key)
        page.wait_for_selector("#item:not([hidden])")
        assert page.evaluate("document.body.dataset.item") == task
    assert stored() == []
    page.keyboard.press("2")
    assert stored() == [(0, None, 2)]


def test_the_reasons_come_after_both_masks(item):
    page, _, stored = item
    page.keyboard.press("1")
    page.keyboard.press("Tab")
    page.keyboard.press("2")
    at = [page.evaluate(FOCUS)]
    for _ in range(8):
        page.keyboard.press("Tab")
        at.append(page.evaluate(FOCUS))
    assert at == ["scale Mask B", *["reasons Mask A"] * 4, *["reasons Mask B"] * 4]
    page.keyboard.press("Space")  # the reason that has the keyboard
    assert page.locator(".reasons [aria-pressed=true]").all_inner_texts() == ["wrong object"]
    page.keyboard.press("t")
    pressed = page.locator(".reasons[aria-label^='Mask B'] [aria-pressed=true]")
    assert pressed.all_inner_texts() == ["misses it at times", "wrong object"]
    assert stored() == [(0, None, 1), (1, None, 2)]


def test_a_digit_rates_no_mask_without_the_keyboard(item):
    page, _, stored = item
    page.keyboard.press("2")
    for focus in ("document.querySelector('.reasons button')", "document.getElementById('play')"):
        page.evaluate(f"{focus}.focus()")
        page.keyboard.press("5")
        assert page.evaluate(FOCUS) == "scale Mask A"
        assert "Not rated" in page.inner_text("#banner")
    assert stored() == [(0, None, 2)]
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("4")
    page.keyboard.press("4")  # now it is seen which one is meant
    assert stored() == [(0, None, 2), (0, 2, 4)]
    assert page.is_hidden("#banner")


def test_clicks_keep_the_keyboard_on_a_scale(item):
    page, _, stored = item
    page.keyboard.press("Tab")
    for control in ("#play", "#slow", "#zoom"):
        page.click(control)
        assert page.evaluate(FOCUS) == "scale Mask B"
    page.locator("#views .original canvas").click()
    assert page.evaluate(FOCUS) == "scale Mask B"
    page.keyboard.press("3")
    page.locator("#views .view:not(.original) canvas").first.click()
    page.keyboard.press("4")
    page.locator(".scale").nth(1).get_by_text("5").click()
    page.keyboard.press("2")
    assert stored() == [(1, None, 3), (0, None, 4), (1, 3, 5), (1, 5, 2)]
    framed = "e => getComputedStyle(e).borderTopColor"
    colours = page.locator("#views .view:not(.original)").evaluate_all(f"l => l.map({framed})")
    assert colours[0] != colours[1]  # the frame shows where the keyboard is


@pytest.mark.long
@pytest.mark.parametrize("design", ["pair", "single"])
@pytest.mark.parametrize("shape", [(640, 360), (640, 640), (360, 640)])
def test_the_buttons_are_in_view_whatever_the_shape_of_a_clip(tmp_path, new_tab, shape, design):
    width, height = shape
    frames = np.random.default_rng(0).integers(0, 255, (FRAMES, height, width, 3), np.uint8)
    path = tmp_path / "s.db"
    plan = StudyPlan(seed=1, repeat=0.0, design=design, arms=("macd", "random-elsewhere"))
    create_study(path, [source(1, frames=frames)], plan)
    server = Server(path)
    server.start()
    try:
        with Study(path) as study:
            (code,) = study.invite(1)
        page = new_tab(f"{server.url}/rate#{code}", viewport={"width": 1280, "height": 800})
        begin(page)
        wide = page.locator("#views canvas").first.bounding_box()["width"]
        for key in ("1", "Tab", "2")[: 1 if design == "single" else 3]:
            page.keyboard.press(key)  # so that the reasons are shown too
        saved(page)
        page.locator(".reasons button").last.wait_for()
        assert page.locator("#views canvas").first.bounding_box()["width"] == wide
        box = page.locator("#next").bounding_box()
        assert box["y"] + box["height"] <= 800
        for canvas in page.locator("#views canvas").all():
            seen = canvas.bounding_box()
            assert seen["width"] / seen["height"] == pytest.approx(width / height, rel=0.02)
            assert seen["height"] >= 200
        page.set_viewport_size({"width": 390, "height": 844})  # a phone's as before: all its width
        views = page.locator("#views .view:not(.original)").first
        inside = views.evaluate(
            "e => e.clientWidth - 2 * parseFloat(getComputedStyle(e).paddingLeft)"
        )
        assert views.locator("canvas").bounding_box()["width"] == pytest.approx(inside, abs=1)
    finally:
        server.end()
