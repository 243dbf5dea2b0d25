"""What works on the picture: drawing, naming, clicking an outline, zoom; and what is then sent."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.viewer import JS, bundle, payload, status
from tests.browser.states import show, traced

CANVAS = "[data-part=picture]"


def open_tools(page, trace=None, **more):
    show(page, trace or traced(objects=2, steps=3), **more)
    page.locator(".mv-whatif > summary").click()
    return page


def sent(page):
    """The actions that the viewer would send, which then waits for an answer."""
    return page.evaluate("window.sent.splice(0)")


def at(page, x, y):
    page.locator(CANVAS).evaluate("(canvas) => canvas.scrollIntoView({ block: 'nearest' })")
    box = page.locator(CANVAS).bounding_box()
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def drag(page, start, end):
    page.mouse.move(*at(page, *start))
    page.mouse.down()
    page.mouse.move(*at(page, *end), steps=6)
    page.mouse.up()


def pixel(page, x, y):
    """Red, green and blue of a place of the canvas."""
    return page.evaluate(
        """([x, y]) => { const c = document.querySelector("[data-part=picture]");
        return [...c.getContext("2d").getImageData(x * c.width, y * c.height, 1, 1).data]
          .slice(0, 3); }""",
        [x, y],
    )


def outlined():
    """Two objects; the first one's outline is the left half of its box."""
    trace = traced(objects=2, steps=3)
    half = np.array([[0, 0], [0.5, 0], [0.5, 1], [0, 1]], np.float32)
    first = replace(trace.tracks[0], outlines=((half,),) * len(trace.frames))
    return replace(trace, tracks=(first, *trace.tracks[1:]))


def test_masks_appear_as_soon_as_drawing_is_chosen(bare):
    page = open_tools(bare)
    inside = (0.07, 0.2)  # of the first object, off every line
    before = pixel(page, *inside)
    assert page.get_by_role("button", name="Draw mask").is_hidden()
    page.locator(".mv-object").first.click()
    page.get_by_role("button", name="Draw mask").click()
    soft = page.get_by_role("button", name="Soft masks")
    assert soft.get_attribute("aria-pressed") == "true"
    assert pixel(page, *inside) != before
    drag(page, (0.05, 0.1), (0.1, 0.3))
    (action,) = sent(page)
    edit = action["edit"]
    assert (edit["kind"], edit["track"], edit["erase"]) == ("brush", 1, False)
    assert len(edit["points"]) >= 2
    page.locator(".mv-root").focus()
    page.keyboard.press("Escape")
    assert soft.get_attribute("aria-pressed") == "false"


@pytest.mark.long
def test_a_new_object_is_asked_for_its_name(bare):
    page = open_tools(bare)
    naming = page.get_by_label("Name of the new object")
    page.get_by_role("button", name="Add object").click()
    drag(page, (0.5, 0.5), (0.8, 0.9))
    assert naming.evaluate("(e) => e === document.activeElement")
    assert sent(page) == []
    page.keyboard.press("Escape")
    assert naming.is_hidden()
    page.get_by_role("button", name="Add object").click()
    drag(page, (0.5, 0.5), (0.8, 0.9))
    naming.fill("  ")
    page.keyboard.press("Enter")
    assert sent(page) == []  # a name of blanks is none
    naming.fill("lamp")
    page.keyboard.press("Enter")
    (action,) = sent(page)
    assert action["do"] == "edit"
    assert action["edit"]["label"] == "lamp"
    np.testing.assert_allclose(action["edit"]["box"], [0.5, 0.5, 0.8, 0.9], atol=0.02)
    assert naming.is_hidden()


def test_a_click_masks_what_the_outline_holds(bare):
    trace = outlined()
    level = trace.counterfactual.level[0]
    page = open_tools(bare, trace)
    page.get_by_role("button", name="Click to mask").click()
    x0, y0, x1, y1 = map(float, trace.tracks[0].boxes[0])
    page.mouse.click(*at(page, x0 + 0.75 * (x1 - x0), (y0 + y1) / 2))  # in the box alone
    assert sent(page) == []
    page.mouse.click(*at(page, x0 + 0.25 * (x1 - x0), (y0 + y1) / 2))
    (action,) = sent(page)
    assert action["edit"] == {"kind": "level", "track": 1, "level": 0 if level == 1 else 1}


@pytest.mark.long
def test_redo_stands_beside_undo(bare):
    trace = traced(objects=2, steps=3)
    page = open_tools(bare, trace)
    undo, redo = (page.get_by_role("button", name=n, exact=True) for n in ("Undo", "Redo"))
    assert undo.is_disabled()
    assert redo.is_disabled()
    page.keyboard.press("r")
    assert sent(page) == []
    open_tools(bare, trace, previous=trace, redo=True)
    assert undo.is_enabled()
    redo.click()
    assert [a["do"] for a in sent(page)] == ["redo"]
    assert redo.is_disabled()  # until the server has answered
    page.evaluate("(data) => window.viewer.update(data)", payload(trace, redo=True))
    page.locator(".mv-root").focus()
    page.keyboard.press("r")
    assert [a["do"] for a in sent(page)] == ["redo"]


@pytest.mark.long
def test_an_error_unfolds_the_tools_it_belongs_to(bare):
    trace = traced(objects=2, steps=3)
    page = show(bare, trace)
    for where in ("whatif", "tokens", "occlusion", "controls"):
        failed = payload(trace, status(error=f"{where} failed", where=where))
        page.evaluate("(data) => window.viewer.update(data)", failed)
        error = page.locator(".mv-error:visible")
        assert error.all_inner_texts() == [f"{where} failed"]
        kind = {"whatif": ".mv-whatif", "tokens": ".mv-bars", "occlusion": ".mv-occlusion"}
        inside = page.locator(f"{kind.get(where, '.mv-controls')} .mv-error")
        assert inside.is_visible()


def zoomed(page):
    return page.evaluate("[window.viewer.stage.zoom.scale, ...window.viewer.stage.zoom.centre]")


def test_the_picture_moves_with_the_pointer_and_against_the_arrows(bare):
    """Dragging keeps what is under the pointer there; an arrow shows more of its side."""
    page = show(bare, outlined())
    pans = """() => { const { zoom } = window.viewer.stage;
      const key = (key) => zoom.key({ key, shiftKey: true });
      zoom.set(4, [0.5, 0.5]);
      const seen = { ArrowRight: null, ArrowLeft: null, ArrowDown: null, ArrowUp: null };
      for (const name of Object.keys(seen)) {
        zoom.set(4, [0.5, 0.5]);
        seen[name] = key(name) && zoom.centre.map((c) => Math.sign(c - 0.5));
      }
      zoom.set(4, [0.5, 0.5]);
      return seen; }"""
    assert page.evaluate(pans) == {
        "ArrowRight": [1, 0], "ArrowLeft": [-1, 0], "ArrowDown": [0, 1], "ArrowUp": [0, -1]
    }  # fmt: skip
    under = "([x, y]) => window.viewer.stage.toSource({ clientX: x, clientY: y })"
    start, end = (0.3, 0.6), (0.7, 0.3)
    before = page.evaluate(under, at(page, *start))
    drag(page, start, end)
    assert page.evaluate(under, at(page, *end)) == pytest.approx(before, abs=0.01)


ZOOM = """([scale, centre, drawing]) => {
  const { Zoom } = %s;
  const canvas = document.createElement("canvas");
  document.body.replaceChildren(canvas);
  document.body.style.margin = 0;
  canvas.style.cssText = "display: block; width: 400px; height: 200px";
  canvas.setPointerCapture = () => {};  // made-up pointers cannot be captured
  const zoom = new Zoom(canvas, () => {}, () => drawing);
  if (scale) zoom.set(scale, centre);
  const send = (type, id, x, y, more = {}) => {
    const Event = type === "wheel" ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new Event(type, { pointerId: id, clientX: x, clientY: y, ...more }));
  };
  window.test = { zoom, send, at: () => [zoom.scale, ...zoom.centre].map((v) => +v.toFixed(4)) };
}"""


def zoomer(page, scale=None, centre=(0.5, 0.5), drawing=False):
    page.set_content("<!doctype html>")
    page.evaluate(ZOOM % bundle(JS / "zoom.js"), [scale, list(centre), drawing])

    def at(*calls):
        """Where the picture is after these calls."""
        for call in calls:
            page.evaluate(f"test.{call}")
        return page.evaluate("test.at()")

    return at


def test_zooming_keeps_what_is_under_the_pointer_and_the_picture_on_the_canvas(bare):
    at = zoomer(bare)
    # a quarter of the width from the left: that place of the picture stays there
    assert at("zoom.by(2, [0.25, 0.5])") == [2, 0.375, 0.5]
    place = bare.evaluate("test.zoom.place(400, 200)")
    assert place == {"x": -100, "y": -100, "w": 800, "h": 400}
    assert at("zoom.by(0.5, [0.25, 0.5])") == [1, 0.5, 0.5]
    # never smaller than the canvas, never larger than eight times, never off its edge
    assert at("zoom.by(0.1)")[0] == 1
    assert at("zoom.by(100)") == [8, 0.5, 0.5]
    assert at("zoom.by(2, [0.9, 0.5])") == [8, 0.5, 0.5]  # it cannot grow, so nothing moves
    assert at("zoom.set(4, [0, 2])") == [4, 0.125, 0.875]
    assert at("zoom.pan(5, 0)") == [4, 0.125, 0.875]
    assert at("zoom.pan(-1, 0.5)") == [4, 0.375, 0.75]
    keys = [("+", 6), ("=", 8), ("-", 8 / 1.5), ("0", 1)]
    for key, scale in keys:
        assert bare.evaluate(f"test.zoom.key({{ key: '{key}' }})") is True
        assert at()[0] == pytest.approx(scale, abs=1e-3)
    arrow = "test.zoom.key({ key: 'ArrowLeft', shiftKey: true })"
    assert bare.evaluate(arrow) is False  # there is nothing to move


def test_the_wheel_zooms_with_ctrl_alone_and_in_the_way_it_is_turned(bare):
    at = zoomer(bare)
    assert at("send('wheel', 1, 100, 100, { deltaY: -300 })") == [1, 0.5, 0.5]
    assert at("send('wheel', 1, 100, 100, { deltaY: -300, ctrlKey: true })") == [2.7183, 0.342, 0.5]
    assert at("send('wheel', 1, 100, 100, { deltaY: 600, metaKey: true })")[0] == 1


def test_a_drag_moves_the_zoomed_picture_and_a_click_does_not(bare):
    at = zoomer(bare, 2)
    down, up = "send('pointerdown', 1, 200, 100)", "send('pointerup', 1, 0, 0)"
    assert at(down, "send('pointermove', 1, 203, 100)", up) == [2, 0.5, 0.5]
    assert bare.evaluate("test.zoom.dragged") is False
    assert at(down, "send('pointermove', 1, 240, 80)") == [2, 0.45, 0.55]
    assert bare.evaluate("test.zoom.dragged") is True
    assert at(up, "send('pointermove', 1, 300, 80)") == [2, 0.45, 0.55]  # no finger is down
    assert at(down) == [2, 0.45, 0.55]
    assert bare.evaluate("test.zoom.dragged") is False
    # the whole picture cannot be moved, and a brush draws instead
    assert zoomer(bare)(down, "send('pointermove', 1, 260, 80)") == [1, 0.5, 0.5]
    drawing = zoomer(bare, 2, drawing=True)
    assert drawing(down, "send('pointermove', 1, 260, 80)") == [2, 0.5, 0.5]


def test_two_fingers_zoom_by_their_distance(bare):
    at = zoomer(bare, drawing=True)
    both = ("send('pointerdown', 1, 150, 100)", "send('pointerdown', 2, 250, 100)")
    assert at(*both, "send('pointermove', 2, 350, 100)")[0] == 2
    assert bare.evaluate("test.zoom.dragged") is True
    assert at("send('pointermove', 2, 250, 100)")[0] == 1
    assert at("send('pointercancel', 2, 250, 100)", "send('pointermove', 1, 50, 100)")[0] == 1
    # together they move the picture
    at = zoomer(bare, 4)
    moved = at(*both, "send('pointermove', 1, 190, 100)", "send('pointermove', 2, 290, 100)")
    assert moved == pytest.approx([4, 0.475, 0.5], abs=0.003)  # what was under them still is


@pytest.mark.long
def test_the_picture_is_zoomed_and_moved_by_buttons_keys_and_mouse(bare):
    page = show(bare, outlined())
    whole = page.locator(CANVAS).evaluate("(c) => c.toDataURL()")
    assert not page.get_by_role("button", name="Zoom in").is_visible()
    page.locator(CANVAS).hover()
    page.get_by_role("button", name="Zoom in").click()
    assert zoomed(page) == [1.5, 0.5, 0.5]
    assert page.locator(CANVAS).evaluate("(c) => c.toDataURL()") != whole
    page.locator(".mv-root").focus()
    page.keyboard.press("+")
    assert zoomed(page)[0] == 2.25
    page.keyboard.press("Shift+ArrowRight")
    assert zoomed(page)[1] > 0.5
    assert "frame 1" in page.locator(".mv-caption").first.inner_text()
    page.keyboard.press("-")
    page.get_by_role("button", name="Whole picture").click()
    assert zoomed(page) == [1, 0.5, 0.5]
    # dragging moves it and is no click
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Zoom in").click()
    drag(page, (0.2, 0.2), (0.5, 0.5))
    assert zoomed(page)[1] == pytest.approx(0.5 - 0.3 / 2.25, abs=0.02)
    assert page.locator(".mv-object[aria-pressed=true]").count() == 0
    # a click on the zoomed picture picks what is seen there
    page.evaluate("window.viewer.stage.zoom.set(4, [0.075, 0.2])")
    page.mouse.click(*at(page, 0.45, 0.5))
    assert page.locator(".mv-object").first.get_attribute("aria-pressed") == "true"


@pytest.mark.long
def test_two_fingers_zoom_and_draw_nothing(new_tab):
    page = open_tools(new_tab(has_touch=True))
    page.locator(".mv-object").first.click()
    page.get_by_role("button", name="Draw mask").click()
    page.locator(CANVAS).scroll_into_view_if_needed()
    (x, y), (x2, y2) = at(page, 0.4, 0.5), at(page, 0.6, 0.5)
    touch = page.context.new_cdp_session(page)

    def fingers(kind, *places):
        points = [{"x": a, "y": b, "id": i} for i, (a, b) in enumerate(places)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", (x, y))
    fingers("touchStart", (x, y), (x2, y2))
    for step in (20, 40, 60):
        fingers("touchMove", (x - step, y), (x2 + step, y2))
    fingers("touchEnd")
    page.wait_for_function("window.viewer.stage.zoom.scale > 1.2")
    assert sent(page) == []
