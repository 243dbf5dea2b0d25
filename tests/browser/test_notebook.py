"""A trace at the end of a notebook's cell: the viewer in a frame of its own."""

from pathlib import Path

import pytest

import macd_studio as macd

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"


@pytest.mark.long
def test_the_frame_shows_the_trace_and_reaches_nothing_else(new_tab):
    page = new_tab(strict="file:", offline=True)
    trace = macd.load(EXAMPLES / "repaired.macd")
    page.set_content(f"<!doctype html><body>{trace._repr_html_()}</body>")
    frame = page.frame_locator("iframe")
    frame.locator(".mv-outcome").wait_for()
    frame.locator(".mv-fold-why > summary").click()
    frame.locator(".mv-token").first.wait_for()
    assert frame.locator(".mv-question").inner_text() == trace.question
    frame.locator(".mv-root").focus()
    shown = []
    for key in ("ArrowRight", "ArrowLeft"):  # the first ends what plays by itself
        page.keyboard.press(key)
        caption = frame.locator(".mv-stage .mv-caption").inner_text()
        shown.append(int(caption.partition("frame ")[2].partition(" of")[0]))
    assert shown[0] > 1
    assert shown[1] == shown[0] - 1
    reached = frame.locator("body").evaluate(
        "() => { try { return parent.document.title } catch { return null } }"
    )
    assert reached is None
