"""No finding of axe-core that is moderate or worse, whatever the viewer is busy with."""

import json
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe

from macd_studio.evals.printing.figures import page as report_page
from macd_studio.macd_ui.documents import DOCS
from macd_studio.macd_ui.documents import _page as document_page
from macd_studio.ratings.render import html_page as study_page
from macd_studio.viewer import payload, standalone, status
from tests.browser.states import show, traced, unfold_all
from tests.small_trace import small_trace

STATES = (
    "plain", "dimmed", "whatif", "compare", "tour", "legend", "errors", "steps", "moved", "wait",
)  # fmt: skip
SAMPLE = (("whatif", "dark"),)


def trace_of(state):
    return small_trace() if state == "legend" else traced(objects=3, steps=3)


def bring_about(page, state):
    """Does to the viewer what makes the state."""
    trace = trace_of(state)
    match state:
        case "dimmed":  # one object chosen, another lost from the frame, masks and levels drawn
            page.locator(".mv-object").first.click()
            page.evaluate(
                "window.viewer.state.trace.tracks[1].boxes[0] = null; window.viewer.draw()"
            )
            for layer in ("Soft masks", "Levels"):
                page.get_by_role("button", name=layer).click()
        case "whatif":
            page.locator(".mv-whatif > summary").click()
            page.evaluate(
                "(data) => window.viewer.update(data)", payload(trace, previous=trace, redo=True)
            )
            page.locator(".mv-object").first.click()
            page.get_by_role("button", name="Draw mask").click()
            page.evaluate("window.viewer.panels.whatif.name([0.1, 0.1, 0.5, 0.5])")
        case "compare":
            page.locator(".mv-methods tr[data-method=tcd] button").click()
        case "tour":
            page.get_by_role("button", name="Tour", exact=True).click()
        case "legend":  # everything that folds, with all that a trace can hold
            unfold_all(page)
        case "errors":
            for where in ("whatif", "tokens", "form"):
                page.evaluate(
                    "(data) => window.viewer.update(data)",
                    payload(trace, status(error="It failed. Try again.", where=where)),
                )
        case "steps":
            page.get_by_label("Ascent step", exact=True).fill("1")
        case "moved":
            page.locator(".mv-live input").first.focus()
            page.keyboard.press("End")
        case "wait":
            page.evaluate(
                "(data) => window.viewer.update(data)",
                payload(trace, status("decode", 0.5, "Decode", done=("video",), running=True)),
            )


def findings(page):
    """Rule, impact and elements of everything moderate or worse."""
    page.wait_for_timeout(50)
    violations = Axe().run(page).response["violations"]
    return [
        (v["id"], v["impact"], [n["html"][:140] for n in v["nodes"][:4]])
        for v in violations
        if v["impact"] != "minor"
    ]


@pytest.mark.parametrize(
    ("state", "scheme"),
    [
        pair if pair in SAMPLE else pytest.param(*pair, marks=pytest.mark.long)
        for pair in product(STATES, ("light", "dark"))
    ],
)
def test_every_state_is_accessible(bare, state, scheme):
    page = show(bare, trace_of(state), 1440, scheme)
    bring_about(page, state)
    assert findings(page) == []


for_long = [
    pytest.param(width, scheme, marks=pytest.mark.long)
    for width in (390, 820, 2560)
    for scheme in ("light", "dark")
]


@pytest.mark.parametrize(("width", "scheme"), for_long)
def test_other_widths_are_accessible(bare, width, scheme):
    page = show(bare, traced(), width, scheme)
    page.locator(".mv-object").first.click()
    assert findings(page) == []


READ = {  # a report of an evaluation, one of a rating study, a guide
    "results": lambda: report_page("Report", TABLE, ["<svg role='img' aria-label='Plot'></svg>"]),
    "study": lambda: study_page(EXAMPLE_STUDY),
    "guide": lambda: document_page("results.md", 0),
}
TABLE = "# Report\n\n" + "\n".join(["| a long head |" * 9, "|---" * 9 + "|", "| a long cell |" * 9])
EXAMPLE_STUDY = json.loads((DOCS / "rating-example.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.long)])
def test_pages_to_read_are_accessible(bare, name, width):
    bare.set_viewport_size({"width": width, "height": 844})
    bare.set_content(READ[name]())
    for scheme in ("light", "dark"):
        bare.emulate_media(color_scheme=scheme)
        assert findings(bare) == []
        assert bare.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    bare.emulate_media(color_scheme="null")
    assert bare.evaluate("getComputedStyle(document.body).fontSize") == "15px"  # of the one look


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_exported_page_is_accessible(new_tab, tmp_path, scheme):
    page = new_tab(offline=True, color_scheme=scheme)
    path = tmp_path / "trace.html"
    path.write_text(standalone(traced(objects=3, steps=3)), encoding="utf-8")
    page.goto(path.as_uri())
    page.locator(".mv-object").first.click()
    unfold_all(page)
    assert findings(page) == []
