"""The first screen: the picture, both answers and what they mean; what is one click away."""

import json
import re

import pytest

from macd_studio.core.system.shipped import assets
from macd_studio.macd_ui.examples import SHIPPED, examples
from macd_studio.viewer import JS, bundle, payload, status
from macd_studio.viewer.glossary import terms
from tests.browser.conftest import FOLDS
from tests.browser.states import show, show_data, traced
from tests.opening import AFTER, BEFORE

WIDE = ("picture", "controls", "open-form")
CONTROLS = {(1440, 900): 20, (1280, 720): 20, (390, 844): 8}
"""Window → how many controls it may show before anything was opened."""
MOST_WORDS = 260
IN_WINDOW = """() => [...document.querySelectorAll(
    "button, a[href], input, select, textarea, summary, [role=button], [role=slider], [role=tab]")]
  .filter((control) => {
    const { top, bottom, left, right, width, height } = control.getBoundingClientRect();
    return width > 1 && height > 1 && top < innerHeight && bottom > 0
      && left < innerWidth && right > 0
      && control.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  }).map((control) => control.getAttribute("aria-label") ?? control.textContent)"""
PARTS_IN_SIGHT = """(names) => names.map((name) => {
  const box = document.querySelector(name).getBoundingClientRect();
  const seen = box.width > 20 && box.height > 10 && box.left >= 0 && box.top >= 0
    && box.right <= innerWidth + 1 && box.bottom <= innerHeight + 1;
  return seen ? null : [name, box.left, box.top, box.right, box.bottom];
}).filter((place) => place)"""


@pytest.fixture
def opened(new_tab, server):
    """The real page in a window of a size, as its visitor finds it."""

    def open_(width, height, folds=""):
        page = new_tab(server, viewport={"width": width, "height": height}, folds=folds)
        page.wait_for_selector("[data-part=answers] [data-token]", state="attached")
        return page

    return open_


def test_the_first_view_is_light(opened):
    """Every byte that comes over the network, the bodies as they are sent."""
    page = opened(1440, 900)
    page.wait_for_load_state()
    weight = page.evaluate(
        """() => performance.getEntriesByType("resource")
          .concat(performance.getEntriesByType("navigation"))
          .reduce((sum, entry) => sum + entry.transferSize, 0)"""
    )
    assert 300_000 < weight < 900_000


def test_the_opening_example_tells_how_it_was_chosen(opened):
    page = opened(1280, 720)
    counts = json.loads((SHIPPED / "search.json").read_text())
    told = page.locator(".mv-how-chosen")
    assert told.inner_text().startswith("This drawn clip was chosen by a search")
    assert not told.get_by_role("button", name="A typical clip").is_visible()
    told.locator("summary").click()
    assert f"1 of {counts['clips']:,} drawn clips" in told.inner_text()
    assert told.get_by_role("button", name="A typical clip").is_visible()
    headline, picture = (page.locator(f"[data-part={name}], .mv-{name}").first.bounding_box()
                         for name in ("headline", "picture"))  # fmt: skip
    assert headline["y"] < told.bounding_box()["y"] < picture["y"]
    hidden = page.evaluate(
        f"""() => {{
          const chosen = new ({bundle(JS / "chosen.js")}).Chosen(null);
          return [[], [{{ kind: "level" }}]].map((edits) => {{
            chosen.load({{ chosen: {{ text: "1 of 9", more: "" }}, edits }});
            return chosen.root.hidden;
          }});
        }}"""
    )
    assert hidden == [False, True]  # the answers of a run changed by hand were not chosen


@pytest.mark.long
def test_a_typical_clip_is_drawn_and_run(opened):
    page = opened(1280, 720)
    told = page.locator(".mv-how-chosen")
    told.locator("summary").click()
    told.get_by_role("button").click()
    page.wait_for_function(
        "() => document.querySelector('.mv-how-chosen').textContent.includes('at random')"
        " && !document.querySelector('.mv-stop')?.checkVisibility()"
    )
    counts = json.loads((SHIPPED / "search.json").read_text())
    number = re.search(r"Clip ([\d,]+) of the search", told.text_content())
    number = int(number[1].replace(",", ""))
    assert number in counts["numbers"]
    page.locator(".mv-outcome .mv-right").wait_for()  # the answer of MACD
    assert page.locator(".mv-outcome .mv-wrong").count() == 1
    assert (
        page.locator("#tally .tally-draw").count() == 0
        or page.locator("#tally *").first.is_hidden()
    )


@pytest.mark.parametrize("size", CONTROLS)
def test_the_first_window_holds_few_controls(opened, size):
    page = opened(*size)
    page.wait_for_function("() => !document.body.innerText.includes('Loading...')")  # Gradio's
    shown = page.evaluate(IN_WINDOW)
    assert 6 <= len(shown) <= CONTROLS[size], shown
    assert len(page.locator("body").inner_text().split()) <= MOST_WORDS


def test_every_question_on_the_page_is_answered(opened):
    page = opened(1440, 900, FOLDS)
    pairs = page.locator("h3").evaluate_all(
        """(all) => all.filter((h3) => h3.checkVisibility() && h3.textContent.trim().endsWith("?"))
          .map((h3) => [h3.textContent, [...h3.parentElement.querySelectorAll(".mv-reply")]
            .find((reply) => reply.checkVisibility())?.textContent ?? ""])"""
    )
    assert len(pairs) >= 2
    for question, reply in pairs:
        assert re.match(r"(Yes|No|In part|It cannot be said( yet)?)\. [A-Z\d]", reply), (
            question,
            reply,
        )


def test_both_answers_and_what_they_mean_are_in_sight(opened):
    page = opened(1280, 720)
    wanted = [f"[data-part={name}]" for name in WIDE]
    wanted += [".mv-outcome", ".mv-without", ".mv-meaning", ".mv-question"]
    for size in ((1280, 720), (1440, 900)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        assert page.evaluate(PARTS_IN_SIGHT, wanted) == []
    assert AFTER in page.locator(".mv-outcome").inner_text()
    without = page.locator(".mv-without").inner_text()
    assert re.match(r"With the \w+.* hidden, the model's answer begins: \S+", without)
    assert (
        page.locator(".mv-meaning")
        .inner_text()
        .startswith("MACD corrects the answer, and which objects it masks matters: ")
    )
    assert "random masks" in page.locator("[data-part=controls] .mv-reply").inner_text()
    assert page.locator(".mv-purpose").inner_text().startswith("MACD (model-aware")
    # why is one click away
    trajectory = page.locator("[data-part=trajectory]")
    assert not trajectory.is_visible()
    page.locator(".mv-fold-why > summary").click()
    assert "Strength trajectory" in trajectory.inner_text()
    assert re.search(r"(was|were) masked", page.locator(".mv-mechanism").inner_text())
    page.reload()  # it stays open
    trajectory.wait_for()
    page.locator(".mv-fold-layers > summary").click()
    middle = page.locator("[data-part=levels] .mv-term")
    assert middle.inner_text() == "0.75 partly masked"
    tip = f"#{middle.get_attribute('aria-describedby')}"
    assert "r0, the strength at which every mask begins" in page.locator(tip).text_content()
    assert re.search(r"\d %$", page.locator(".mv-object-name").first.inner_text())


def test_an_upload_leads_to_the_form(opened):
    page = opened(1280, 720)
    # how do I try my own clip
    button = page.locator("[data-part=open-form]")
    assert button.inner_text() == "Upload"
    assert not page.locator("#video").is_visible()
    button.click()
    page.locator("#video").wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    page.click("#settings button >> nth=0")
    page.get_by_label("ascent steps", exact=True).wait_for()
    page.locator("#ask").evaluate("(form) => { form.scrollTop = form.scrollHeight; }")
    for expanded in ("true", "false"):  # it leads there from anywhere, and from there it closes
        button.click()
        assert button.get_attribute("aria-expanded") == expanded
        if expanded == "true":
            assert page.evaluate(PARTS_IN_SIGHT, ["#video button"]) == []
            assert page.evaluate("document.activeElement.closest('#video') !== null")


def test_a_phone_shows_the_headline_and_the_picture_first(opened):
    page = opened(390, 844)
    wanted = [".mv-question", ".mv-outcome", "[data-part=picture]", "[data-part=open-form]"]
    assert page.evaluate(PARTS_IN_SIGHT, wanted) == []
    assert page.locator(".mv-twin").is_hidden()  # both views have no room
    bar = page.locator("#top").bounding_box()
    assert (bar["x"], bar["width"]) == (0, 390)  # nothing shows beside the bar
    tops = [page.locator(f"[data-part={name}]").bounding_box()["y"] for name in
            ("picture", "controls")]  # fmt: skip
    assert tops == sorted(tops)
    page.locator("#open-menu").click()
    assert page.get_by_role("link", name="Learn").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("link", name="Learn").is_visible()
    page.locator("#open-menu").click()
    page.locator("#open-examples").click()
    assert page.locator("#open-menu").get_attribute("aria-expanded") == "false"
    page.locator("#close-form").click()
    page.locator("#open-menu").click()
    page.locator("#open-files").click()
    chooser = page.locator("#open").locator("xpath=..").locator("input[type=file]")
    chooser.set_input_files(assets() / "examples" / "harmed.macd")
    page.locator(".mv-question", has_text="hat").wait_for()
    for menu in ("#open-menu", "#open-files"):  # they covered what was opened
        page.locator(f"{menu}[aria-expanded=false]").wait_for(state="attached")
    page.get_by_role("button", name="Masked", exact=True).click()
    assert page.evaluate("() => document.querySelector('.mv-canvas').width > 0")
    page.locator("[data-part=open-form]").click()
    form = page.locator("#ask").bounding_box()
    assert form["y"] < 10
    page.locator("#close-form").click()
    assert not page.locator("#ask").is_visible()
    page.evaluate(
        """() => {
          const stop = document.querySelector("#stop"); // of the form, which is closed
          stop.disabled = false;
          stop.addEventListener("click", () => { window.pressed = true; });
          document.querySelector(".mv-stop").hidden = false;
        }"""
    )
    page.locator(".mv-stop").click()
    assert page.evaluate("window.pressed")


def test_what_goes_on_can_be_stopped_where_it_is_seen(bare):
    trace = traced(objects=3, steps=3)
    page = show(bare, trace, 390)
    stop = page.locator(".mv-stop")
    running = payload(trace, status("ascent", 0.5, "Step 1 of 3", running=True))
    page.evaluate("(data) => window.viewer.update(data)", running)
    assert not stop.is_visible()  # nothing there stops it
    page.evaluate("window.viewer.host.stop = () => { window.stopped = true; }; 0")
    page.evaluate("(data) => window.viewer.update(data)", running)
    assert page.evaluate(PARTS_IN_SIGHT, [".mv-stop", ".mv-question"]) == []
    page.evaluate("document.body.style.paddingBottom = '2000px'; scrollTo(0, 400)")
    assert page.evaluate(PARTS_IN_SIGHT, [".mv-stop", ".mv-message"]) == []  # beside what was asked
    stop.click()
    assert page.evaluate("window.stopped")
    for _ in range(2):  # what is still computed meanwhile tells of no more time
        assert page.locator(".mv-message").inner_text().startswith("Stopping")
        assert stop.is_disabled()
        page.evaluate("(data) => window.viewer.update(data)", running)
    page.evaluate("(data) => window.viewer.update(data)", payload(trace))
    assert not stop.is_visible()
    page.evaluate("(data) => window.viewer.update(data)", running)
    assert page.locator(".mv-message").inner_text() == "Step 1 of 3"
    assert stop.is_enabled()


def test_what_stands_for_an_answer_says_why_there_is_none(bare):
    """A run that ended before, and one without answers."""
    data = payload(traced(objects=2, steps=3))
    texts = []
    for ended in (True, False):
        one = data["trace"] | {"answers": {}}
        page = show_data(bare, data | {"trace": one | ({"final": None} if ended else {})})
        texts.append(page.locator(".mv-no-answer").inner_text().split(".")[0])
    assert texts == ["The run ended before an answer was decoded", "No answer was decoded"]


def test_while_a_run_goes_on_nothing_stands_that_is_of_another_or_of_its_end(bare):
    data = payload(traced(objects=2, steps=3))
    page = show_data(bare, data)
    page.evaluate("document.querySelector('.mv-fold-why').open = true")
    told = page.locator(".mv-mechanism")
    assert told.is_visible()
    running = payload(traced(objects=3), status("ascent", 0.5, "Step 1 of 3", running=True))
    another = running["trace"] | {"answers": {}, "final": None, "run": "another"}
    page.evaluate("(data) => window.viewer.update(data)", running | {"trace": another})
    assert not told.is_visible()
    assert not page.locator(".mv-no-answer").is_visible()
    page.evaluate("(data) => window.viewer.update(data)", data)
    assert told.is_visible()


def values_of(page, track):
    """What a line of the strengths says, read off by the axis beside it."""
    return page.evaluate(
        """(track) => {
          const plot = document.querySelector("[data-plot=objects]");
          const ticks = [...plot.querySelectorAll("text[text-anchor=end]")].map((text) =>
            [Number(text.textContent.replace("−", "-")), Number(text.getAttribute("y")) - 4])
            .filter(([value]) => !isNaN(value)); // the end of the other axis has a name
          const [[a, y], [b, z]] = [ticks[0], ticks[ticks.length - 1]];
          const line = plot.querySelector(`[data-track="${track}"] .mv-line-whole`);
          return line.getAttribute("points").split(" ").map((point) => Number(point.split(",")[1]))
            .map((at) => a + (b - a) * (at - y) / (z - y));
        }""",
        track,
    )


def test_the_lines_follow_the_stored_strengths(bare):
    trace = traced(objects=3)
    page = show(bare, trace)
    data = payload(trace)
    one = data["trace"]
    for altered in (False, True):
        if altered:
            for i, step in enumerate(one["steps"]):
                step["strength"][1] = 0.75 + 0.02 * (i % 3) - 0.015 * i
            one["final"]["strength"][1], one["final"]["level"][1] = 0.61, 0.0
            page = show_data(bare, data)
        for k in range(3):
            stored = [s["strength"][k] for s in one["steps"]] + [one["final"]["strength"][k]]
            expected = [r - one["r0"] for r in stored]
            assert values_of(page, k) == pytest.approx(expected, abs=0.004)
    tags = page.locator("[data-plot=objects] .mv-line-tag").all_text_contents()
    assert f"2 {trace.tracks[1].label} → 0" in tags
    page.get_by_label("Ascent step", exact=True).fill("0")
    tags = page.locator("[data-plot=objects] .mv-line-tag").all_text_contents()
    assert f"2 {trace.tracks[1].label} → 0.75" in tags  # before the rule has switched it


def test_one_step_is_drawn_as_arrows_and_no_frame_mask_has_no_lane(bare):
    trace = traced(objects=3, steps=1)
    data = payload(trace)
    data["trace"]["mask"]["frame_mask"] = "off"
    page = show_data(bare, data)
    ends = page.locator("[data-plot=objects] .mv-arrow-line").evaluate_all(
        "(all) => all.map((arrow) => Number(arrow.dataset.end))"
    )
    margins = trace.counterfactual.strength - trace.options.ascent.r0
    assert ends == pytest.approx(margins.tolist(), abs=1e-6)
    assert page.locator("[data-plot=frames]").count() == 0
    assert page.locator(".mv-levels-key").inner_text().count("outside") == 0


def test_the_winner_changes_as_alpha_moves(bare):
    page = show(bare, examples()[0].load_trace())
    best = page.locator("[data-part=answers] .mv-bars-score .mv-bar-best .mv-bar-name")
    assert best.inner_text() == AFTER
    assert page.locator(".mv-bars-video .mv-bar-best .mv-bar-name").inner_text() == BEFORE
    page.evaluate("window.viewer.stage.draw = () => { throw new Error('drawn again'); }; 0")
    page.evaluate("window.kept = document.querySelector('.mv-bars-score li')")
    page.locator(".mv-live input").first.fill("0")
    assert best.inner_text() == BEFORE
    assert page.locator(".mv-candidates .mv-top .mv-piece").inner_text().startswith(BEFORE)
    assert page.evaluate("window.kept.isConnected")  # what has changed is laid out again, no more


def test_renewed_children_are_those_that_were_given(bare):
    kept = bare.evaluate(
        """([dom, before, after]) => {
          const place = document.createElement("div"), fresh = document.createElement("div");
          [place.innerHTML, fresh.innerHTML] = [before, after];
          const first = place.firstElementChild;
          (0, eval)(`(${dom})`).renew(place, [...fresh.childNodes]);
          return [place.innerHTML, place.firstElementChild === first];
        }""",
        [
            bundle(JS / "dom.js"),
            '<p class="a" hidden>one <b>two</b></p><i>three</i>four<u>five</u>',
            after := '<p title="t">one<b class="c">2</b> six</p>three<i>four</i>',
        ],
    )
    assert kept == [after, True]


def test_the_clip_plays_by_itself_until_it_is_touched(new_tab, bare):
    page = show(new_tab(reduced_motion="no-preference"), traced(objects=2, steps=3))
    page.evaluate("window.viewer.tick = () => {}")  # time stands still
    assert page.evaluate("window.viewer.state.playing")
    page.locator("[data-part=trajectory] h3").click()
    assert not page.evaluate("window.viewer.state.playing")
    other = payload(traced(objects=3, steps=3))["trace"] | {"run": "another"}
    page.evaluate("(trace) => window.viewer.load(trace)", other)
    assert not page.evaluate("window.viewer.state.playing")
    still = show(bare, traced(objects=2, steps=3))
    assert not still.evaluate("window.viewer.state.playing")  # less motion was asked for


def test_the_switch_shows_either_view_or_both_in_step(bare):
    page = show(bare, examples()[0].load_trace())
    twin = page.locator(".mv-twin")
    picture = """(which) => document.querySelector(which).toDataURL()"""
    assert twin.is_visible()
    sizes = [page.locator(at).bounding_box() for at in ("[data-part=picture]", ".mv-twin")]
    assert sizes[0]["width"] == pytest.approx(sizes[1]["width"], abs=1)
    both = page.evaluate(picture, ".mv-twin")
    page.get_by_label("Frame", exact=True).fill("6")
    assert page.evaluate(picture, ".mv-twin") != both
    page.get_by_role("button", name="Masked", exact=True).click()
    assert twin.is_hidden()
    masked = page.evaluate(picture, "[data-part=picture]")
    page.get_by_role("button", name="Video", exact=True).click()
    assert page.evaluate(picture, "[data-part=picture]") != masked


def test_the_first_screen_answers(page):
    page.wait_for_selector(".mv-token")
    text = page.locator(".mv-mechanism").inner_text()
    assert re.match(r"The [a-z, ]+ (was|were) masked", text)
    change = r"(loses|gains) \d+\.\d logits"
    assert re.search(rf"“{AFTER}” {change} and “{BEFORE}” {change}", text)
    outcome = page.locator(".mv-outcome")
    assert re.sub(r"\s+", " ", outcome.inner_text()) == f"Baseline: {BEFORE} ✗ → MACD: {AFTER} ✓"
    wrong = outcome.locator(".mv-wrong").get_attribute("title")
    assert wrong == f"wrong: the true answer is {AFTER}"
    views = page.locator(".mv-bars-views .mv-bar-list")
    assert views.locator("h4").all_inner_texts() == ["Given the video", "Given the masked video"]

    strip = page.locator(".mv-controls")
    if not strip.locator(".mv-draw").count():
        strip.get_by_role("button", name="Compare with random masks").click()
    strip.locator(".mv-draw").first.wait_for()
    said = strip.locator(".mv-controls-text").inner_text()
    pattern = rf"(\d+|None) of the 20 random masks of the same area chooses? “{AFTER}”"
    same = int(re.match(pattern, said)[1].replace("None", "0"))
    assert "adding +" in said
    draws = strip.locator(".mv-draw")
    assert draws.count() == 23
    titles = [draw.get_attribute("title") for draw in draws.all()]
    assert sum(title == f"random mask: {AFTER}" for title in titles) == same
    names = ("masking every object", "the reversed gradient", "a blank video")
    assert [title.split(":")[0] for title in titles[20:]] == list(names)


@pytest.mark.long
def test_the_tour_and_the_legend_explain(page):
    page.wait_for_selector(".mv-token")
    counter = page.get_by_role("button", name="Masked", exact=True)
    assert counter.get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="Tour", exact=True).press("Enter")
    tour = page.get_by_role("dialog", name="Tour")
    titles = []
    for _ in range(5):
        titles.append(tour.locator(".mv-tour-title").inner_text())
        assert page.locator(".mv-spot").count() == 1
        if len(titles) == 3:
            assert counter.get_attribute("aria-pressed") == "true"
        if len(titles) < 5:
            tour.get_by_role("button", name="Next").press("Enter")
    names = ("Objects", "Gradient", "Mask", "Two views", "Answer")
    assert titles == [f"{i} of 5 · {name}" for i, name in enumerate(names, 1)]
    page.keyboard.press("Escape")
    assert not tour.is_visible()
    assert page.locator(".mv-spot").count() == 0
    assert counter.get_attribute("aria-pressed") == "false"  # as it was before

    page.locator(".mv-legend > summary").click()
    meanings = page.locator(".mv-legend dd").all_inner_texts()
    assert any("so the ascent masks it" in meaning for meaning in meanings)
    assert not [meaning for meaning in meanings if "undefined" in meaning]
    page.locator(".mv-terms > summary").click()
    listed = page.locator(".mv-terms dt").all_inner_texts()
    assert listed == [term.name for term in terms()]
