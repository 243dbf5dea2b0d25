"""The ascent step by step: levels and loss of each, by slider, keys and playing."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.macd import quantize_strengths
from macd_studio.viewer import payload
from tests.browser.states import STEPS, show, show_data, traced
from tests.samples import sampled


def level_texts(page):
    return [float(t.split()[0]) for t in page.locator(".mv-object .mv-level").all_inner_texts()]


def test_the_slider_shows_the_levels_and_the_loss_of_every_step(bare):
    trace = traced()
    page = show(bare, trace)
    slider = page.get_by_label("Ascent step", exact=True)
    assert "end, after 10 steps" in page.locator(".mv-step-name").inner_text()
    pictures, seen = set(), set()
    for i, step in enumerate(trace.steps):
        slider.fill(str(i))
        pictures.add(page.evaluate("document.querySelector('.mv-stage canvas').toDataURL()"))
        levels = quantize_strengths(step.strength, trace.options.ascent)
        assert level_texts(page) == levels.tolist()
        seen |= set(levels.tolist())
        text = page.locator(".mv-step-text").inner_text()
        assert f"query loss {step.loss:.3f} at these strengths" in text
        assert slider.get_attribute("aria-valuetext").endswith(text)
    assert seen == {0.0, 0.75, 1.0}
    assert page.get_by_role("button", name="Levels").get_attribute("aria-pressed") == "true"
    counter = page.get_by_role("button", name="Masked", exact=True)
    assert counter.is_disabled()
    assert "end of the ascent" in counter.get_attribute("title")
    assert len(pictures) > 2
    slider.fill(str(STEPS))
    assert counter.is_enabled()
    assert level_texts(page) == trace.counterfactual.level.tolist()
    assert np.isclose(trace.counterfactual.loss, float(
        page.locator(".mv-step-text").inner_text().split()[2]), atol=6e-4)  # fmt: skip


def test_levels_on_the_picture_include_the_frame_mask(bare):
    trace = traced(objects=2, steps=3)
    levels = np.array([0.0, 1.0], np.float32)
    (first, *_), second = trace.groups
    assert len(trace.groups) == 2
    trace = replace(trace, counterfactual=replace(trace.counterfactual, frame_level=levels))
    page = show(bare, trace)
    corner = """() => {  // below every box
      const c = document.querySelector('.mv-stage canvas'), y = Math.round(0.6 * c.height);
      return [...c.getContext('2d').getImageData(0, y, c.width, 40).data].join();
    }"""
    toggle = page.get_by_role("button", name="Levels")
    changed = {}
    for frame in (first, second[0]):
        page.get_by_label("Frame", exact=True).fill(str(frame))
        before = page.evaluate(corner)
        toggle.click()
        changed[frame] = page.evaluate(corner) != before
        toggle.click()
    assert changed == {first: False, second[0]: True}


def test_keys_move_along_the_ascent_and_play_it(bare):
    page = show(bare, traced())
    page.locator(".mv-root").focus()
    page.keyboard.press("[")
    assert "before step 10 of 10" in page.locator(".mv-step-name").inner_text()
    page.keyboard.press("]")
    page.keyboard.press("]")
    assert "end" in page.locator(".mv-step-name").inner_text()
    slider = page.get_by_label("Ascent step", exact=True)
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "before step 2 of 10" in page.locator(".mv-step-name").inner_text()
    assert "frame 1 of" in page.locator(".mv-caption").first.inner_text()  # frames stay
    page.evaluate("window.viewer.tick = () => {}")  # time stands still
    page.keyboard.press("p")
    page.get_by_role("button", name="Pause the ascent").wait_for()
    page.keyboard.press("p")
    assert page.get_by_role("button", name="Play the ascent").is_visible()


@pytest.mark.long
@pytest.mark.parametrize(("motion", "pause"), [("no-preference", 600), ("reduce", 1500)])
def test_playing_ends_at_the_end_and_is_slower_where_motion_is_unwanted(new_tab, motion, pause):
    page = show(new_tab(reduced_motion=motion), traced(objects=2, steps=3))
    # the timer's own clock is driven by hand
    moved = """(ms) => { const { steps, state } = window.viewer;
      steps.tick(steps.shownAt + ms); return [state.step, steps.playing]; }"""
    page.evaluate("window.viewer.tick = () => {}; window.viewer.steps.toggle()")
    assert page.evaluate("window.viewer.state.step") == 0
    assert page.evaluate(moved, pause - 1) == [0, True]
    assert page.evaluate(moved, pause) == [1, True]
    assert page.evaluate(moved, pause) == [2, True]
    assert page.evaluate(moved, pause) == [None, False]


def test_plots_say_in_words_what_they_draw(bare):
    trace = traced()
    page = show(bare, trace)
    strength, loss = (page.locator(f"[data-plot={name}]") for name in ("objects", "loss"))
    told = strength.get_attribute("aria-label")
    for track, end in zip(trace.tracks, trace.counterfactual.strength, strict=True):
        assert f"{track.id} {track.label} from 0.75 to {end:.3f}" in told
    assert f"to {trace.steps[-1].loss:.3f} nats" in loss.get_attribute("aria-label")
    # a click on the plot goes to that step
    strength.click(position={"x": 70, "y": 20})
    assert page.evaluate("window.viewer.state.step") == 0
    canvas = page.locator("[data-part=picture]").get_attribute("aria-label")
    assert canvas.startswith("Frame 1 of 4: 1 dog, ")
    assert "Shown: Boxes, Levels." in canvas


def test_levels_and_their_names_are_the_traces(bare):
    """Another trace's levels and names stand everywhere, and its steps become those levels."""
    data = payload(traced(objects=3, steps=3))
    names = ("clear", "veiled", "shut")
    one = data["trace"]
    one["r0"] = 0.4
    one["levels"] = [{"value": v, "name": n} for v, n in zip((0.1, 0.4, 0.9), names, strict=True)]
    groups = len(one["groups"])
    by_hand = [True, *[False] * (groups - 1)]
    one["final"] |= {
        "level": [0.1, 0.4, 0.9], "by_hand": [False, True, False],
        "frame_level": [0.9, *[0.1] * (groups - 1)], "frame_by_hand": by_hand,
    }  # fmt: skip
    one["steps"][0] |= {"strength": [0.0, 0.4, 1.0]}
    page = show_data(bare, data)
    levels = page.locator(".mv-object .mv-level")
    expected = ["0.1 clear", "0.4 veiled, set by hand", "0.9 shut"]
    assert levels.all_inner_texts() == expected
    by_hand = "The cup was shut; 2 ball set to 0.4 by hand; frames 1–2 set to 0.9 by hand."
    assert page.locator(".mv-mechanism").inner_text().startswith(by_hand)
    assert "set by hand: 2 ball to 0.4" in page.locator(".mv-step-text").inner_text()
    assert page.locator(".mv-line-tag[data-track='1']").text_content().endswith("→ 0.4 by hand")
    assert "by hand" not in page.locator(".mv-line-tag[data-track='0']").text_content()
    signs = page.locator(".mv-legend-list").first.locator("dt:has(.mv-key)").all_text_contents()
    assert signs == ["0.1", "r0 = 0.4", "0.9"]
    drawn = page.locator(".mv-legend-list").first.text_content()
    for name in names:
        assert f"the object is {name}." in drawn
    cells = page.locator(".mv-frame-level")
    assert cells.first.get_attribute("title") == "frame 1: masked at 0.9, set by hand"
    assert cells.last.get_attribute("title") == "frame 4: clear"
    assert "mv-full" in cells.first.get_attribute("class")
    page.locator(".mv-whatif > summary").click()
    page.locator(".mv-object").first.click()
    buttons = page.locator(".mv-edit-object .mv-segments button")
    assert buttons.all_inner_texts() == ["0.1 clear", "0.4 veiled", "0.9 shut"]
    assert [b.get_attribute("aria-pressed") for b in buttons.all()] == ["true", "false", "false"]
    page.get_by_label("Ascent step", exact=True).fill("0")
    assert levels.all_inner_texts() == ["0.1 clear", "0.4 veiled", "0.9 shut"]
    assert " · shut: 3 cup +0.600 · veiled: 2 ball +0.000 · clear: 1 dog −0.400" in (
        page.locator(".mv-step-text").inner_text()
    )


CLIPPED = """() => [...document.querySelectorAll('svg.mv-plot text')].filter((text) => {
  const own = text.getBoundingClientRect(), plot = text.ownerSVGElement.getBoundingClientRect();
  return own.width && (own.left < plot.left || own.right > plot.right);
}).map((text) => text.textContent)"""


def shrunk(trace, by):
    """The same run with strengths that move less; every object ends partly masked."""
    small = [
        replace(
            s, **{n: 0.75 + by * (getattr(s, n) - 0.75) for n in ("strength", "frame_strength")}
        )
        for s in trace.steps
    ]
    end = trace.counterfactual
    level = np.full_like(end.level, 0.75)
    strengths = {n: 0.75 + by * (getattr(end, n) - 0.75) for n in ("strength", "frame_strength")}
    return replace(trace, steps=tuple(small), counterfactual=replace(end, level=level, **strengths))


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("width", sampled([390, 1440], [390]))
def test_no_text_of_a_plot_is_cut_at_any_step(bare, steps, width):
    for objects in (3, 8, 9):
        page = show(bare, shrunk(traced(objects, steps), 1e-3), width)
        slider = page.get_by_label("Ascent step", exact=True)
        for step in range(steps + 1):
            slider.fill(str(step))
            assert page.evaluate(CLIPPED) == []
            if steps > 1 and objects == 3:
                assert (
                    page.locator("[data-plot=objects] .mv-line-tag").first.text_content()[-4:]
                    == "0.75"
                )


def test_the_query_loss_is_drawn_up_to_the_end(bare):
    trace = traced()
    page = show(bare, trace)
    ends = page.evaluate("""() => {
      const plot = document.querySelector('[data-plot=loss]');
      const last = plot.querySelector('[data-end]'), dot = plot.querySelector('.mv-loss-end');
      return [last.points[1].x, +dot.getAttribute('cx'),
        +plot.querySelector('.mv-cursor').getAttribute('x1'), +last.dataset.end];
    }""")
    assert ends[:2] == pytest.approx([ends[2]] * 2, abs=0.06)
    assert ends[3] == pytest.approx(trace.counterfactual.loss, rel=1e-5)
    data = payload(trace)
    data["trace"]["final"]["loss"] = None
    assert show_data(page, data).locator("[data-plot=loss] [data-end]").count() == 0
