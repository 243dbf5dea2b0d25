"""A clip's partner: both clips side by side, and nothing of the first one over the second."""

import re
from dataclasses import replace

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.types import ModelFrames
from macd_studio.toyworld.clips import write_mp4
from macd_studio.toyworld.export import without
from macd_studio.viewer import standalone
from tests.browser.test_page import open_form, run, upload
from tests.core.test_recording import FRAMES, steps, told

COLOURED = """(name) => {
  const canvas = document.querySelector(`.mv-stage canvas${name}`);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let n = 0;
  for (let i = 0; i < data.length; i += 4) {
    const rgb = [data[i], data[i + 1], data[i + 2]];
    n += Math.max(...rgb) - Math.min(...rgb) > 60;
  }
  return n;
}"""
"""How many pixels of a picture have a colour, as boxes and masks have; the clips here have none."""


def grey_pair():
    """A grey clip with two objects, whose answer is contrasted with a lighter grey one."""
    view = {"kind": "pair", "caption": "the partner clip other.mp4"}
    trace = macd.record(**told(frames=np.full_like(FRAMES, 60), answers=[
        {"name": "baseline", "steps": steps(two=False)},
        {"name": "macd", "steps": steps(), "alpha": 1.0, "beta": 0.1},
        {"name": "pair", "steps": steps(), "alpha": 1.0, "beta": 0.1,
         "second_views": [{"view": view}]},
    ]))  # fmt: skip
    answers = dict(trace.answers)
    (second,) = answers["pair"].second_views
    shown = replace(second, shown=np.full_like(FRAMES, 200))
    answers["pair"] = replace(answers["pair"], second_views=(shown,))
    read = ModelFrames(np.full_like(FRAMES, 60), trace.times, 1.0, (0, 0, 32, 24))
    return replace(trace, answers=answers, model_frames=read)


@pytest.fixture
def exported(bare, tmp_path):
    path = tmp_path / "pair.html"
    path.write_text(standalone(grey_pair()), encoding="utf-8")
    bare.goto(path.as_uri())
    bare.wait_for_function("document.querySelector('.mv-stage canvas').width > 0")
    return bare


def beside(page):
    page.set_viewport_size({"width": 1280, "height": 800})  # where both views have room
    page.locator(".mv-root label", has_text="Contrast").locator("select").select_option("pair")
    page.get_by_role("button", name="Both", exact=True).click()
    page.wait_for_function("!document.querySelector('.mv-stage canvas.mv-twin').hidden")


def test_nothing_of_the_clip_lies_over_its_partner(exported):
    """Boxes and soft masks stand on the clip; the headline speaks of the partner."""
    without = exported.locator(".mv-without")
    assert re.match(r"With the .+ hidden, ", without.inner_text())
    beside(exported)
    exported.get_by_role("button", name="Soft masks", exact=True).click()
    own, others = (exported.evaluate(COLOURED, n) for n in (":not(.mv-twin)", ".mv-twin"))
    assert own > 100
    assert others == 0
    assert without.inner_text().startswith("About the partner clip other.mp4, ")
    assert "With the partner clip in this one's place" in (
        exported.locator(".mv-mechanism").inner_text()
    )


@pytest.fixture
def partner(toy_spec, tmp_path):
    """The drawn clip without its dog."""
    path = tmp_path / "without-dog.mp4"
    write_mp4(without(toy_spec, "dog"), path)
    return path


@pytest.mark.long
def test_a_run_with_a_partner_shows_both_clips(page, toy_mp4, partner):
    upload(page, toy_mp4)
    page.wait_for_selector(".strip-frame")  # a clip that comes takes the former one's partner away
    page.click("#settings button >> nth=0")
    page.locator("#compare > button").click()
    page.set_input_files("#counterpart input[type=file]", partner)
    page.locator("#counterpart").get_by_text("without-dog").wait_for()
    page.wait_for_timeout(500)
    run(page)
    assert "MACD" in page.locator(".mv-methods").inner_text()
    assert page.locator("#differs .note").text_content() == ""
    beside(page)
    page.get_by_role("button", name="Soft masks", exact=True).click()
    own, others = (page.evaluate(COLOURED, n) for n in (":not(.mv-twin)", ".mv-twin"))
    page.get_by_role("button", name="Soft masks", exact=True).click()
    page.get_by_role("button", name="Boxes", exact=True).click()
    without_layers = [page.evaluate(COLOURED, n) for n in (":not(.mv-twin)", ".mv-twin")]
    assert own != without_layers[0], "layers are drawn over the clip"
    assert others == without_layers[1], "and none over its partner"
    assert page.evaluate("document.querySelector('.mv-twin').toDataURL()") != page.evaluate(
        "document.querySelector('.mv-stage canvas:not(.mv-twin)').toDataURL()"
    )
    assert "About the partner clip without-dog.mp4" in page.locator(".mv-without").inner_text()

    # it goes with its clip
    open_form(page)
    page.locator("#video").get_by_role("button", name="Clear").click()
    page.locator("#counterpart").get_by_text("without-dog").wait_for(state="detached")
