"""The exported page, opened from disk without a network."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.measurements import OcclusionReport
from macd_studio.core.records import Edit
from macd_studio.core.traces.bundle import save
from macd_studio.core.types import ShownView
from macd_studio.core.view_records import OtherView
from macd_studio.viewer import standalone
from tests.browser.states import unfold_all
from tests.core.test_bundle import make_trace

HOSTILE = "<img src=x onerror=alert(1)> ${7*7} {{7*7}} `x` \\ </script> DATA SCRIPT STYLE"
SHORT = "<img src=x onerror=alert(1)>"
"""For the label of a change, which is bounded."""


def hostile_trace(folder):
    """Every string a file, a label, a token, a question or a trace can bring, made hostile."""
    trace = make_trace(folder)

    def spoilt(answer):
        tokens = tuple(
            replace(t, text=HOSTILE, texts=(HOSTILE,) * len(t.texts)) for t in answer.tokens
        )
        views = tuple(ShownView(OtherView(HOSTILE)) for _ in answer.second_views)
        return replace(answer, text=HOSTILE, tokens=tokens, second_views=views)

    k = len(trace.tracks)
    edits = (
        Edit("label", track=1, label=SHORT),
        Edit("add", label=SHORT, box=(0.1, 0.1, 0.5, 0.5)),
    )
    answers = {n: spoilt(a) for n, a in trace.answers.items()}
    return replace(
        trace,
        question=HOSTILE,
        clip=replace(trace.clip, name=HOSTILE, title=HOSTILE),
        backbone=replace(trace.backbone, name=HOSTILE),
        detector=replace(trace.detector, name=HOSTILE),
        edits=edits,
        tracks=tuple(replace(t, label=HOSTILE) for t in trace.tracks),
        warnings=(HOSTILE,),
        shared={HOSTILE: 1},
        answers=answers | {HOSTILE: replace(answers["macd"], method=HOSTILE)},
        occlusion=OcclusionReport(*[np.zeros(k)] * 3, np.zeros((k, 2)), None, HOSTILE),
    )


def shown_as_text(page):
    """Every place that shows a string, in the page or in the exported file."""
    unfold_all(page)
    assert page.locator(".mv-question").inner_text() == HOSTILE
    for place in (".mv-notes", ".mv-rail", ".mv-lanes", ".mv-compare", ".mv-flips",
                  ".mv-tokens .mv-table", ".mv-occlusion", ".mv-reproduce"):  # fmt: skip
        assert "onerror=alert(1)" in page.locator(place).first.inner_text(), place
    strip = page.locator(".mv-strip[data-method=macd] .mv-token").first
    assert strip.inner_text() == HOSTILE.replace(" ", "␣")
    assert page.locator(".mv-root img, .mv-root script").count() == 0


def test_it_opens_from_disk_and_shows_hostile_strings_as_text(new_tab, tmp_path):
    trace = hostile_trace(tmp_path)
    path = tmp_path / "trace.html"
    path.write_text(standalone(trace), encoding="utf-8")
    page = new_tab(strict="file:", offline=True)
    page.on("dialog", lambda d: pytest.fail("a script ran"))
    page.goto(path.as_uri())
    shown_as_text(page)
    # what needs a model is not offered without one
    assert not page.locator(".mv-whatif").is_visible()
    page.locator(".mv-root").focus()
    page.keyboard.press("ArrowRight")
    assert "frame 2 of 4" in page.locator(".mv-stage .mv-caption").inner_text()


@pytest.mark.long
def test_the_page_shows_a_hostile_trace_as_text(page, tmp_path):
    page.on("dialog", lambda d: pytest.fail("a script ran"))
    page.wait_for_selector(".mv-token")
    path = save(hostile_trace(tmp_path), tmp_path / "hostile.macd")
    page.locator("#open").locator("xpath=..").locator("input[type=file]").set_input_files(path)
    page.wait_for_function("document.querySelector('.mv-question').textContent.includes('onerror')")
    shown_as_text(page)
    # a file may not choose a model to be loaded
    page.locator(".mv-object").first.click()
    page.locator(".mv-whatif .mv-segments button").first.click()
    page.wait_for_selector(".mv-error:visible")
    assert "Choose that backbone" in page.locator(".mv-error:visible").inner_text()
