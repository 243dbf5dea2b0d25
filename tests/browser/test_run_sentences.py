# ruff: noqa: E501
"""What stands above the panels follows α, β and the answers; long, cut and missing answers are told."""

import json
from dataclasses import replace

import pytest

from macd_studio.core.measurements import ChoiceMap, ControlOutcome, ControlReport, Subset
from macd_studio.viewer import JS, bundle
from tests.browser.states import show
from tests.browser.test_answers import END, answered, visible_tokens


def move_alpha_to_0(page):
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")


def test_the_headline_and_what_was_measured_follow_alpha(bare):
    report = ControlReport(0, "dog", "yes", (ControlOutcome("random", "x", True, 0),), 1.25, 3.0)
    page = show(bare, replace(answered([0, END], [2, END], other=0), controls=report))
    outcome, controls = page.locator(".mv-outcome"), page.locator(".mv-controls")
    assert outcome.inner_text() == "Baseline: yes ✓ → MACD: dog ✗"
    assert not controls.locator(".mv-stale-note").is_visible()
    page.evaluate(
        """() => { const { viewer } = window, { trace } = viewer.state;
        const [first] = trace.answers.macd.tokens;
        first.base[first.candidates.indexOf(0)] = 4; // the video's own choice, which MACD turned
        first.others[0][first.candidates.indexOf(0)] = 6;
        viewer.load(trace); }"""
    )
    assert outcome.inner_text() == "Baseline: yes ✓ → MACD: dog ✗"
    move_alpha_to_0(page)
    assert outcome.inner_text() == (
        "Baseline: yes ✓ → MACD with α 0 and β 0.1 chooses “yes” as token 1; the rest is not decoded"
    )
    note = "Measured with α 1 and β 0.1, not with the values in hand."
    assert controls.locator(".mv-stale-note").inner_text() == note
    assert "mv-stale" in controls.get_attribute("class")
    page.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    chosen = page.locator(".mv-candidates tr:has(.mv-chosen)")
    assert chosen.count() == 1
    assert chosen.locator(".mv-piece").inner_text().startswith("yes")  # not what the answer took
    assert "mv-top" in chosen.get_attribute("class")
    page.locator(".mv-live input").first.press("End")  # far from the video's own choice again
    assert "chooses" not in outcome.inner_text()
    assert "MACD with α " in outcome.inner_text()


def test_each_place_that_tells_of_other_choices_says_with_which_alpha_they_were_measured(bare):
    choices = ChoiceMap(
        0, (), (), (Subset((), False, False, None, "x"),), Subset((), False, False, None, "x"), 1.0
    )
    page = show(bare, replace(answered([0, END], [2, END], other=0), choice_map=choices))
    box, deeper = (
        page.locator(f"{place} .mv-stale-note")
        for place in ("[data-part=choices]", ".mv-choices-each")
    )
    assert not box.is_visible()
    move_alpha_to_0(page)
    note = "Measured with α 1 and β 0.1, not with the values in hand."
    assert box.inner_text() == deeper.text_content() == note


def test_a_cut_answer_keeps_the_headline_and_is_marked(bare):
    page = show(bare, answered([0, 3], [2, 3]))
    assert page.locator(".mv-mechanism").is_visible()
    said = page.locator(".mv-outcome").inner_text()
    assert said == "Baseline: yes and (cut at 2 tokens) → MACD: dog and (cut at 2 tokens)"
    assert page.locator(".mv-strip .mv-cut").all_inner_texts() == ["(cut at 2 tokens)"] * 2
    page = show(bare, answered([0, END], [2, 3]))
    assert (
        page.locator(".mv-outcome").inner_text().startswith("Baseline: yes ✓ → MACD: dog and (cut")
    )


def test_a_method_that_did_not_run_stands_in_the_table_with_the_reason(bare):
    trace = replace(answered([0, END], [2, END]), skipped={"tcd": "one frame has no order"})
    row = show(bare, trace).locator(".mv-methods tr[data-method=tcd]")
    assert row.locator("td").inner_text() == "Not run: one frame has no order."
    assert row.locator("th").inner_text() == "TCD"
    only = {n: trace.answers[n] for n in ("baseline", "macd")}
    page = show(bare, replace(trace, answers=only))
    assert page.locator(".mv-methods tr[data-method=tcd]").is_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_a_long_answer_reads_as_text(bare, width):
    """Words as text with the places that differ underlined; boxes on demand."""
    page = show(bare, answered([0, *[3] * 14, END], [0, *[3] * 6, 2, *[3] * 7, END]), width)
    strip = page.locator(".mv-strip[data-method=macd]")
    assert visible_tokens(page, "macd")[:2] == ["yes", " and"]
    assert strip.locator(".mv-prose").is_visible()
    assert strip.locator(".mv-differing").all_inner_texts() == ["dog"]
    assert page.locator(".mv-strip[data-method=baseline] .mv-differing").count() == 1
    assert strip.get_by_role("button", name="Copy").is_visible()
    assert strip.locator(".mv-changes-bar span").count() == 16
    strip.locator(".mv-token", has_text="dog").click()
    assert page.evaluate("window.viewer.state.token") == 7
    boxes = page.get_by_role("button", name="Single tokens")
    assert boxes.get_attribute("aria-pressed") == "false"
    boxes.click()
    assert visible_tokens(page, "macd")[:2] == ["yes", "␣and"]
    assert page.locator(".mv-prose").count() == 0
    boxes.click()
    assert visible_tokens(page, "macd")[:2] == ["yes", " and"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_how_many_tokens_are_open_is_told_for_beta_in_hand(bare):
    script = bundle(JS / "statements.js")
    step = {"base": [5.0, 4.0], "others": [[1.0, 1.0]], "weights": None, "candidates": [1, 2]}
    contrast = {"locks": True, "beta": 0.1, "head": "probability", "title": "MACD", "end": None,
                "tokens": [step, step | {"base": [5.0, 2.0]}]}  # fmt: skip

    def told(rule):
        shown = json.dumps({"contrast": contrast, "rule": rule})
        return bare.evaluate(f"({script}).openOf({shown}, null)")

    assert told(None) == {"open": 1, "tokens": 2, "title": "MACD", "beta": None}
    assert told({"alpha": 1, "beta": 0.5}) == {"open": 0, "tokens": 2, "title": "MACD", "beta": 0.5}
    assert told({"alpha": 1, "beta": 0.01})["open"] == 2


def test_a_number_that_rounds_to_zero_has_no_sign(bare):
    script = bundle(JS / "text.js")
    said = bare.evaluate(f"[-0.004, -0.006, 0.004, -0].map((x) => ({script}).fixed(x))")
    assert said == ["0.00", "−0.01", "0.00", "0.00"]
