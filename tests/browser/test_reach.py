"""Answers whose α or β lies beyond the usual ends of the sliders, or between their steps."""

from dataclasses import replace

from macd_studio.viewer import JS, bundle, constants
from tests.browser.states import show, traced


def shown_at(page, alpha, beta):
    trace = traced(objects=2, steps=3)
    macd = replace(trace.answers["macd"], alpha=alpha, beta=beta)
    return show(page, replace(trace, answers=trace.answers | {"macd": macd}))


def outputs(page):
    return page.locator(".mv-live output").all_inner_texts()


def press(page, slider, *keys):
    page.locator(".mv-live input").nth(slider).focus()
    for key in keys:
        page.keyboard.press(key)
    return outputs(page)[slider]


def test_a_small_beta_is_written_out_and_can_be_reached_again(bare):
    page = shown_at(bare, 2.6, 0.0036)
    assert outputs(page) == ["2.60", "0.0036"]
    assert press(page, 1, "ArrowRight") == "0.01"
    assert press(page, 1, "Home") == "0.00"
    assert press(page, 1, "ArrowRight", "ArrowRight") == "0.003"
    assert press(page, 1, "ArrowRight") == "0.0036"
    page.locator(".mv-live input").nth(1).fill("0.0035")  # as a pointer does
    assert outputs(page)[1] == "0.0036"
    assert press(page, 1, "End") == "1.00"


def test_sliders_and_map_reach_as_far_as_the_answer(bare):
    page = shown_at(bare, 8.0, 1.5)
    assert outputs(page) == ["8.00", "1.50"]
    assert [i.input_value() for i in page.locator(".mv-live input").all()] == ["8", "1.5"]
    page.locator(".mv-flips > summary").click()
    here = page.locator(".mv-flipmap .mv-here")
    assert here.get_attribute("title").startswith("α 8, β 1.5: ")
    across = page.locator(".mv-ticks-across span").all_inner_texts()
    assert across == [str(alpha) for alpha in range(11)]
    assert press(page, 0, "ArrowLeft") == "7.95"
    page.locator(".mv-flipmap > span").nth(5 * 41 + 40).click()  # β 0.1, the last α
    assert outputs(page) == ["10.00", "0.10"]
    page.locator(".mv-flipmap > span").nth(7 * 41 + 4).click()  # β 0.3, α 1
    assert outputs(page) == ["1.00", "0.30"]
    assert press(page, 0, "Home", "End") == "10.00"


def test_an_address_may_hold_every_alpha_and_beta_that_an_answer_can_have(bare):
    script = f"""(told) => {{
      const {{ readHash }} = {bundle(JS / "state.js")}, trace = {{ run: "r", times: [0], tracks: [], answers: {{}} }};
      return [[20, 2], [20.5, 1], [1, 2.5], [-1, 1]].map(
        ([alpha, beta]) => readHash(`#run=r&alpha=${{alpha}}&beta=${{beta}}`, trace, told).rule);
    }}"""  # noqa: E501
    assert bare.evaluate(script, constants.constants()) == [
        {"alpha": 20, "beta": 2}, None, None, None
    ]  # fmt: skip


def test_an_address_may_name_every_frame_and_token_and_no_other(bare):
    script = f"""(told) => {{
      const {{ readHash }} = {bundle(JS / "state.js")};
      const trace = {{ run: "r", times: [0, 1, 2], tracks: [], answers: {{ macd: {{ tokens: ["a", "b"] }} }} }};
      return [0, 1, 2, 3, 4, "1.5"].map((n) => {{
        const {{ changes }} = readHash(`#run=r&of=macd&frame=${{n}}&token=${{n}}`, trace, told);
        return [changes.frame ?? null, changes.token ?? null];
      }});
    }}"""  # noqa: E501
    assert bare.evaluate(script, constants.constants()) == [
        [None, None], [0, 0], [1, 1], [2, None], [None, None], [None, None]
    ]  # fmt: skip


def test_an_address_names_answers_alone(bare):
    """What every object has, such as `toString`, is no answer."""
    script = f"""(told) => {{
      const {{ readHash }} = {bundle(JS / "state.js")}, answer = {{ tokens: ["yes"] }};
      const trace = {{ run: "r", times: [0], tracks: [], answers: {{ macd: answer, baseline: answer }} }};
      return ["toString", "constructor", "__proto__", "macd"].map((name) => {{
        const named = `#run=r&of=${{name}}&contrast=${{name}}&reference=${{name}}&token=1`;
        return JSON.stringify(readHash(named, trace, told).changes).includes(name);
      }});
    }}"""  # noqa: E501
    assert bare.evaluate(script, constants.constants()) == [False, False, False, True]
