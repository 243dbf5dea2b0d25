"""The course, opened from disk with the network off: by keyboard, resumed, on a phone, checked."""

import json
import re
from decimal import Decimal
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe

from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.chapters import HERE, read_strings
from macd_studio.macd_ui.learn.lessons import quiz
from macd_studio.macd_ui.learn.site import Site
from macd_studio.viewer.bundle import bundle

SIZES = [(390, 844), (1440, 1000)]


@pytest.fixture
def open_course(new_tab, course):
    """Opens pages without a network."""

    def opened(size=SIZES[1], at="", **how):
        viewport = {"width": size[0], "height": size[1]}
        how = {"reduced_motion": "no-preference"} | how
        page = new_tab(course + at, strict="file:", offline=True, viewport=viewport, **how)
        page.wait_for_selector("#chapters a", state="attached")  # the scripts follow the address
        return page

    return opened


def names(page):
    links = page.locator("#chapters a")
    return [links.nth(i).get_attribute("href")[1:] for i in range(links.count())]


def settled(page):
    """All data of the chapter has come."""
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.ln-note')]"
        ".some((n) => n.textContent.startsWith('Loading'))"
    )


def reload(page, address=None):
    """Loads the page again with what it stored, by another address if one is given.

    In a context without a profile Chromium now and then gives a file that is loaded again the
    storage of an earlier moment (seen with a page of three lines); with a profile it never did.
    """
    kept = json.dumps(page.evaluate("() => ({ ...localStorage })"))
    page.add_init_script(
        f"if (self === top) {{ localStorage.clear(); Object.assign(localStorage, {kept}); }}"
    )
    page.reload() if address is None else page.goto(address)


def tab_to(page, selector, back=False):
    """Presses Tab until the focus is on what matches."""
    for _ in range(400):
        if page.evaluate("(s) => Boolean(document.activeElement?.matches(s))", selector):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"Tab does not reach {selector}")


def predict(page):
    """Locks in the next open prediction by keyboard: the second answer, 70 %."""
    tab_to(page, "form:not(.ln-locked) .ln-options input")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    tab_to(page, ".ln-sure input")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")


def stored(page):
    return json.loads(page.evaluate("localStorage.getItem('macd-learn')"))


def serious(page):
    # without preload: axe would ask for the style sheet, which the page's policy forbids
    found = Axe().run(page, options={"preload": False}).response["violations"]
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in found]


def test_every_sum_of_the_quiz_adds_up_as_it_is_printed(bare):
    script = bundle(HERE / "js" / "quiz.js")
    texts = read_strings("en")
    sums = 0
    for part in quiz().values():
        for item in (row for row in part if row["kind"] == "contrast"):
            told = bare.evaluate(
                f"([item, texts]) => ({script}).explain(item, (name, values = {{}}) =>"
                " texts[name].replace(/\\{(\\w+)\\}/g, (all, key) => values[key] ?? all))",
                [item, texts],
            ).replace("−", "-")
            found = re.search(
                r"leads “.*” by (\S+), behind the masks by (\S+): so its score leads by (\S+)"
                r" \+ (\S+) · \((\S+) - (\S+)\) = (\S+)\.$", told
            )  # fmt: skip
            if found is None:
                continue
            sums += 1
            lead, behind, again, alpha, first, second, score = map(Decimal, found.groups())
            assert (again, first, second) == (lead, lead, behind)
            assert score == lead + alpha * (lead - behind), told
            token = item["answers"]["macd"]["tokens"][0]
            counter, texts_of = token["counter"], token["texts"]
            best = token["base"].index(max(token["base"]))
            assert counter is not None
            changes = item["answers"]["macd"]["text"] != texts_of[best].strip()
            assert (score < 0) == changes, told
    assert sums >= 5


def answered(page):
    """Opens the page again with every prediction made."""
    made = {n: {"choice": 0, "confidence": 0.5, "right": False} for n in names(page)}
    state = json.dumps(stored(page) | {"answers": made})
    page.evaluate("(text) => localStorage.setItem('macd-learn', text)", state)
    reload(page)
    page.wait_for_selector("#chapters a", state="attached")
    assert stored(page)["answers"].keys() == made.keys()


def test_a_step_that_tells_an_answer_waits_for_the_task_that_asks_it(open_course):
    page = open_course(at="#04-lean")
    answered(page)
    settled(page)
    told = page.get_by_text("changes the log odds of")
    shares = page.get_by_text("choices repair the answer")
    told.wait_for(state="attached")
    assert not told.is_visible()
    assert not shares.is_visible()
    assert not page.locator(".ln-live .mv-occlusion:visible, .ln-live .mv-choices:visible").count()
    looked = page.locator(".ln-step", has_text="Does a right answer show that the model looked?")
    looked.locator("input").first.check()
    looked.get_by_role("button").click()
    told.wait_for()
    assert not shares.is_visible()
    page.locator(".ln-choose button").click()
    shares.wait_for()
    reload(page)
    shares.wait_for()  # what was done stays done
    assert told.is_visible()


CUT = """() => {
  const inside = (one, all) => one.left >= all.left - 1 && one.right <= all.right + 1;
  return [...document.querySelectorAll(".ln-plot")].flatMap((plot) =>
    [...plot.querySelectorAll("text")]
      .filter((text) => !inside(text.getBoundingClientRect(), plot.getBoundingClientRect()))
      .map((text) => text.textContent));
}"""


@pytest.mark.parametrize("size", SIZES)
def test_no_label_of_a_chart_is_cut(open_course, size):
    page = open_course(size)
    answered(page)
    page.evaluate("(n) => { location.hash = n; }", "07-honest")
    page.locator(".ln-plot").first.wait_for()
    assert page.evaluate(CUT) == []
    assert page.locator(".ln-plot text").count() > 8


@pytest.mark.long
def test_a_phone_shows_the_names_of_the_chapters(open_course):
    page = open_course()
    assert page.locator("#chapters .ln-name").first.is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    summary = page.locator("#chapters summary")
    assert "Before you start" in summary.inner_text()
    page.locator("#chapters .ln-name").first.wait_for(state="hidden")
    summary.click()
    shown = page.locator("#chapters .ln-name")
    assert shown.count() == 11
    for i in range(11):
        box = shown.nth(i).bounding_box()
        assert box["width"] > 40
        assert box["x"] + box["width"] <= 390
    page.locator("#chapters a").nth(3).click()
    page.get_by_role("heading", name="Logits, softmax").wait_for()
    assert "Logits, softmax" in summary.inner_text()
    assert page.locator(
        "#chapters .ln-name"
    ).first.is_hidden()  # folded again: the text is in sight
    page.set_viewport_size({"width": 1200, "height": 844})
    page.locator("#chapters .ln-name").first.wait_for()


def test_a_prediction_comes_first_and_a_reload_goes_on(open_course):
    page = open_course()
    chapters = names(page)
    page.evaluate("(n) => { location.hash = n; }", chapters[1])
    page.wait_for_selector(".ln-predict")
    assert page.locator(".ln-explanation, .ln-step").count() == 0
    page.click(".ln-main-button")
    assert "how sure" in page.inner_text(".ln-error")
    predict(page)
    page.wait_for_selector(".ln-explanation:not(:empty)")
    settled(page)
    answer = stored(page)["answers"][chapters[1]]
    assert (answer["choice"], answer["confidence"]) == (1, 0.7)
    slider = page.locator(".ln-step input[type=range]").first
    slider.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    assert page.locator(".ln-finished").count() == 1
    reload(page, page.url.partition("#")[0])  # without the chapter in the address
    page.wait_for_selector(".ln-explanation:not(:empty)")
    assert page.url.endswith(f"#{chapters[1]}")
    assert page.locator(".ln-options input:enabled").count() == 0
    assert page.locator(".ln-finished").count() == 1


def test_scores_of_predictions(bare):
    """Brier score and reliability against values worked out by hand."""
    given = [(0.9, True), (0.9, False), (0.5, True), (0.99, True)]
    found = bare.evaluate(
        f"(rows) => {{ const m = {bundle(HERE / 'js' / 'score.js')};"
        " const locked = rows.map(([confidence, right]) => ({ confidence, right }));"
        " return [m.brier(locked), m.brier([]), m.reliability(locked), m.softmax([1, 1])]; }",
        given,
    )
    assert found[0] == pytest.approx((0.01 + 0.81 + 0.25 + 0.0001) / 4)
    assert found[1] is None
    assert found[2] == [
        {"confidence": 0.5, "n": 1, "right": 1},
        {"confidence": 0.9, "n": 2, "right": 1},
        {"confidence": 0.99, "n": 1, "right": 1},
    ]
    assert found[3] == [0.5, 0.5]


def test_what_guessing_gets(bare):
    """Against all outcomes counted one by one: two questions of three answers, one of two."""
    options = [3, 3, 2]
    outcomes = [sum(x == 0 for x in row) for row in product(*map(range, options))]
    for right in range(4):
        found = bare.evaluate(
            f"([o, n]) => ({bundle(HERE / 'js' / 'score.js')}).guessing(o, n)", [options, right]
        )
        assert found["mean"] == pytest.approx(sum(outcomes) / len(outcomes))
        as_many = sum(n >= right for n in outcomes) / len(outcomes)
        assert found["share"] == pytest.approx(as_many)


def test_a_quiz_plays_and_tells_the_truth_once_it_is_answered(open_course):
    page = open_course(at="#08-new-clips", reduced_motion="reduce")
    items = page.locator(".ln-item")
    items.first.wait_for()
    kinds = [item["kind"] for item in quiz()["after"]]
    assert items.count() == len(kinds)
    first = items.first
    picture = first.locator("img").first
    assert picture.get_attribute("src") == quiz()["after"][0]["frames"][0]
    first.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "(src) => document.querySelector('.ln-item img').src !== src",
        arg=picture.get_attribute("src"),
    )
    first.get_by_role("button", name="Pause").click()
    clear = first.locator(".ln-edge-clear")
    assert clear.is_hidden()
    first.get_by_role("button", name="Show what is drawn").click()
    assert clear.is_visible()
    levels = items.nth(kinds.index("levels"))
    assert levels.locator(".ln-boxes-over b").count() == 3
    assert levels.locator(".ln-edge-counter").is_hidden()
    assert "True answer" not in page.inner_text("main")
    for _ in kinds:
        predict(page)
    assert levels.locator(".ln-edge-counter").is_visible()
    assert page.locator(".ln-edge-clear:visible").count() == kinds.count("contrast")
    told = page.locator(".ln-explanation")
    for i, item in enumerate(quiz()["after"]):
        assert told.nth(i).inner_text().startswith(item["drawn"])
    page.evaluate("() => { location.hash = 'results'; }")
    page.get_by_text("Guessing gets").first.wait_for()
    tile = page.locator(".ln-scores > div").nth(2).inner_text()
    answers, asked = stored(page)["answers"], Site().questions()
    right = [a["right"] for a in answers.values()]
    assert right == [a["choice"] == asked[key].right for key, a in answers.items()]
    mean = sum(1 / len(i.get("options", "abc")) for i in quiz()["after"])  # contrast has three
    assert f"{sum(right)} of {len(kinds)} right" in tile
    assert f"Guessing gets {mean:.1f} right on average; {sum(right)} or more in" in tile


@pytest.mark.parametrize("size", [SIZES[0], pytest.param(SIZES[1], marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    ["06-hurts", *(pytest.param(n, marks=pytest.mark.long) for n in ("01-sees", "03-logits"))],
)
def test_a_chapter_opens_on_a_real_clip_above_its_prediction(open_course, size, name):
    page = open_course(size, at=f"#{name}")
    opening = page.locator(".ln-opening")
    viewer = opening.locator(".mv-root")
    viewer.wait_for()
    assert opening.locator("h2").first.inner_text() == "A real clip"
    assert opening.locator(".ln-task").count() == 0
    above, below = (page.locator(s).bounding_box()["y"] for s in (".ln-opening", ".ln-predict"))
    assert above < below
    tab_to(page, ".ln-opening .mv-root *")
    viewer.focus()
    page.keyboard.press("ArrowRight")
    opening.get_by_text("frame 2 of 4").wait_for()
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert stored(page)["answers"] == {}


def test_real_clips_tell_their_truth_and_have_a_score_of_their_own(open_course):
    page = open_course(at="#09-real-clips", reduced_motion="reduce")
    items = quiz()["real"]
    page.locator(".ln-item").nth(len(items) - 1).wait_for()
    assert page.locator(".ln-item").count() == len(items) == 10
    assert page.get_by_role("button", name="Show what is drawn").count() == 0
    assert serious(page) == []
    assert "True answer" not in page.inner_text("main")
    for _ in items:
        predict(page)  # that it stays as it is
    told = page.locator(".ln-explanation")
    for i, item in enumerate(items):
        assert told.nth(i).inner_text().startswith(item["drawn"])
    page.evaluate("() => { location.hash = 'results'; }")
    page.get_by_text("Guessing gets").first.wait_for()
    tile = page.locator(".ln-scores > div", has_text="On real clips").inner_text()
    same = sum(item["outcome"] == "same" for item in items)
    assert f"{same} of 10 right" in tile
    # the list is in the course's order, and counts clips as the chapter does
    page.evaluate("""() => {
      const kept = JSON.parse(localStorage.getItem("macd-learn"));
      const some = Object.entries(kept.answers).filter(([id]) => !id.endsWith("/0")).reverse();
      kept.answers = Object.fromEntries(some);
      localStorage.setItem("macd-learn", JSON.stringify(kept));
    }""")
    reload(page)
    page.get_by_text("Guessing gets").first.wait_for()
    rows = page.locator(".ln-table th[scope=row]").all_inner_texts()
    assert rows == [f"On real clips, Clip {n} of 10" for n in range(2, 11)]


@pytest.mark.parametrize(
    "kept",
    [
        "nonsense",
        '{"edition": "another", "at": "", "done": {}, "answers": {"04-lean":'
        ' {"choice": 0, "right": true, "confidence": 0.5}}}',
        pytest.param('{"edition": 3}', marks=pytest.mark.long),
        pytest.param("null", marks=pytest.mark.long),
    ],
)
def test_damaged_storage_costs_the_resume_only(open_course, kept):
    page = open_course()
    page.evaluate("(text) => localStorage.setItem('macd-learn', text)", kept)
    reload(page)
    page.wait_for_selector("h1")
    assert stored(page)["answers"] == {}


def test_a_class_predicts_by_hands_and_a_choice_of_objects_is_kept(open_course):
    page = open_course(at="#04-lean")
    page.get_by_label("A class answers, by a show of hands").check()
    hands = page.locator(".ln-count input")
    reveal = page.locator(".ln-predict .ln-main-button")
    reveal.click()
    assert "Count the hands first" in page.locator(".ln-error").inner_text()
    hands.first.fill("3")
    for _ in range(4):
        page.get_by_role("button", name="One hand more").nth(1).click()
    page.get_by_role("button", name="One hand less").first.click()
    reveal.click()
    kept = stored(page)["answers"]["04-lean"]
    assert (kept["choice"], kept["counts"]) == (1, [2, 4, 0])
    assert kept["confidence"] == pytest.approx(4 / 6)
    assert "4 of 6 hands were right." in page.inner_text(".ln-predict .ln-result")
    trace = Site().examples["subsets"].trace
    choose = page.locator(".ln-choose")
    assert choose.locator("table").count() == 0  # nothing is shown before a choice
    choose.locator("input").first.check()
    choose.get_by_role("button").click()
    chosen = [trace.choice_map.objects[0]]
    assert list(stored(page)["chosen"].values()) == [chosen]
    layer = trace.choice_map.layer(True)
    rows = choose.locator("tbody tr")
    assert rows.count() == len(layer)
    assert rows.locator(".ln-good").count() == sum(s.answer == trace.truth for s in layer)
    marked = [bool(row.locator("small").count()) for row in rows.all()]
    assert marked == [list(s.objects) == chosen for s in layer]  # not every one that holds it
    own = trace.choice_map.of(chosen, True)
    assert f"The answer is “{own.answer}”." in choose.locator(".ln-result").inner_text()
    reload(page)
    choose.locator("table").wait_for()  # chosen once
    assert choose.locator("input:enabled").count() == 0


# what a reader presses for each goal, once the focus is in the widget
KEYS = {
    "all-frames": [("input[type=range]", "ArrowRight", 8)],
    "faded": [("input[type=range]", "End", 1), (".ln-buttons button", "Enter", 1)],
    "flip": [("input[type=range]", "End", 1)],
    "second-view": [(".ln-range-counter:enabled", "End", 1)],
    "constant": [(".ln-widget > div > div > .ln-slider > input", "End", 1)],
    "object": [(".mv-object", "Enter", 1)],
    "revealed": [(".ln-lean input", "Space", 1), (".ln-widget > .ln-button", "Enter", 1)],
    "chosen": [(".ln-choose input", "Space", 1), (".ln-choose > button", "Enter", 1)],
    "counterfactual": [(".mv-root", "c", 1)],
    "every-token": [(".ln-strip:nth-of-type(3) .ln-chip", "Enter", 0)],
    "frames": [(".mv-root", "ArrowRight", 8)],
    "token": [(".mv-token", "Enter", 1)],
    "same-answer": [("input[type=range]", "End", 1)],
    "three": [("select", "ArrowDown", 1)],
    "judged": [],
}


def do_task(page, step, goal):
    """Reaches a step's goal by keys alone."""
    if goal == "every-token":
        chips = step.locator(".ln-strip").nth(1).locator(".ln-chip")
        for i in range(chips.count()):
            chips.nth(i).focus()
            page.keyboard.press("Enter")
    elif goal == "judged":
        selects = step.locator("select")
        for i in range(selects.count()):
            selects.nth(i).focus()
            page.keyboard.press("ArrowDown")
        step.locator("button").last.focus()
        page.keyboard.press("Enter")
    elif goal == "three":
        step.locator("select").focus()
        for key in ("Home", "End", "Home", "ArrowDown"):
            page.keyboard.press(key)
    else:
        for selector, key, times in KEYS[goal]:
            step.locator(selector).first.focus()
            for _ in range(times):
                page.keyboard.press(key)


def walk(page, course_data, look):
    """The whole path by keyboard; `look` is called in each chapter once it is done."""
    for chapter in course_data["chapters"]:
        page.wait_for_function(
            "(t) => document.querySelector('h1').textContent === t", arg=chapter["title"]
        )
        settled(page)
        quiz = page.locator("form.ln-predict").count()
        for _ in range(quiz):
            predict(page)
        settled(page)
        steps = page.locator(".ln-step")
        for i, step in enumerate(chapter["steps"]):
            if step["done"] == "guessed":  # from disk, no model can run
                assert steps.nth(i).locator(".ln-task").count() == 0
            elif step["done"]:
                do_task(page, steps.nth(i), step["done"])
                steps.nth(i).locator(".ln-finished").wait_for()
        look(chapter["name"])
        tab_to(page, ".ln-turn-next")
        page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('h1').textContent === 'Your results'")
    settled(page)
    look("results")


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_the_whole_path_by_keyboard(open_course, size):
    page = open_course(size)
    data = Site(folders=[SHIPPED]).course()

    seen = {}

    def look(name):
        width = page.evaluate("document.documentElement.scrollWidth")
        seen[name] = [*serious(page), *([f"{width} px wide"] if width > size[0] else [])]

    walk(page, data, look)
    assert not {name: found for name, found in seen.items() if found}
    assert list(seen) == [*(c["name"] for c in data["chapters"]), "results"]
    done = page.locator("#chapters .ln-done").count()
    assert done == len(data["chapters"])
    assert "Brier score" in page.inner_text("main")
    asked = sum(1 for c in data["chapters"] if c["prediction"])
    assert len(stored(page)["answers"]) > asked
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as JSON").focus()
        page.keyboard.press("Enter")
    content = json.loads(saved.value.path().read_text())
    assert content["answers"] == stored(page)["answers"]
    again = page.get_by_role("button", name="Start again")
    again.focus()
    page.keyboard.press("Enter")
    assert stored(page)["answers"], "one press deletes nothing"
    page.keyboard.press("Enter")
    page.wait_for_function("() => !document.querySelector('.ln-done')")
    assert stored(page)["answers"] == {}


@pytest.mark.long
def test_a_chapter_is_fit_for_a_phone_in_the_dark(open_course):
    page = open_course(SIZES[0], color_scheme="dark", reduced_motion="reduce")
    page.evaluate("(n) => { location.hash = n; }", names(page)[2])
    page.wait_for_selector(".ln-predict")
    predict(page)
    settled(page)
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[0][0]
    for plot in page.locator(".ln-plot:visible").all():
        assert plot.bounding_box()["width"] > 300
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(27, 31, 36)"
    for target in page.locator("main button:visible:not(.mv-term), main select:visible").all():
        assert target.bounding_box()["height"] >= 44


def test_a_term_explains_itself_by_keyboard(open_course):
    page = open_course()
    page.evaluate("(n) => { location.hash = n; }", names(page)[1])
    tip = page.locator(".mv-tip:popover-open")
    tab_to(page, "main .mv-term")
    term = page.locator("main .mv-term:focus")
    assert tip.inner_text().startswith(f"{term.inner_text()} ")
    assert tip.get_attribute("id") == term.get_attribute("aria-describedby")
    page.keyboard.press("Escape")
    assert tip.count() == 0


@pytest.mark.long
def test_the_app_serves_it_and_links_both_ways(page, server):
    page.click("#lead a[href='learn/']")
    page.wait_for_url(f"{server}learn/**")
    page.evaluate("() => { location.hash = '04-lean'; }")
    page.wait_for_selector(".ln-predict")
    predict(page)
    assert "?example=" in page.get_attribute("#home", "href")
    page.click(".ln-out a")
    page.wait_for_url("**?example=*")
    page.wait_for_selector(".mv-token")
