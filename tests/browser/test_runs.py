"""Runs of one tab: listed, pinned, shown again, two beside each other; evidence on demand."""

import json

import pytest

from macd_studio.macd_ui.examples import examples
from macd_studio.viewer import JS, bundle, identity
from tests.browser.conftest import open_files
from tests.browser.states import show, traced
from tests.browser.test_page import run, upload

HISTORY = JS.parents[1] / "macd_ui" / "js" / "history.js"
ANSWERS = HISTORY.with_name("answers.js")


def test_tokens_are_aligned_by_the_longest_common_part(bare):
    def aligned(first, second):
        given = json.dumps([first, second])
        return bare.evaluate(f"({bundle(JS / 'align.js')}).alignTokens(...{given})")

    assert aligned(["a", "b"], ["a", "b"]) == [[0, 0], [1, 1]]
    assert aligned(["yes", "."], ["no", "."]) == [[0, 0], [1, 1]]
    assert aligned(["a", "dog", "."], ["."]) == [[0, None], [1, None], [2, 0]]
    assert aligned([], ["x"]) == [[None, 0]]
    assert aligned(["a", "big", "dog"], ["a", "dog", "runs"]) == [
        [0, 0], [1, None], [2, 1], [None, 2]]  # fmt: skip
    near = bare.evaluate(
        f"[0.2, 1.4, 9].map((t) => ({bundle(JS / 'compare.js')}).nearestFrame([0, 1, 2], t))"
    )
    assert near == [0, 1, 2]


def test_the_other_run_is_shown_at_the_same_time_as_this_one(bare):
    page = show(bare, traced(objects=2, steps=3))
    page.evaluate("""() => { const { trace } = viewer.state;
        viewer.panels.beside.show({ ...trace, times: trace.times.map((t) => t / 2) });
        viewer.state.set({ frame: 1 }); }""")
    captions = page.locator(".mv-beside figcaption").all_inner_texts()
    assert [text.split(" of")[0] for text in captions] == ["frame 2", "frame 3"]


def test_runs_of_another_login_or_tab_are_not_listed(bare):
    listed = bare.evaluate("""async ([history, users]) => {
        const { RunHistory } = eval(history), run = Object.create(RunHistory.prototype);
        window.gradio_config = { username: "ada" };
        const all = users.map(([user, tab], i) => ({ key: i, user, tab, shownAt: Date.now() }));
        Object.defineProperty(run, "tab", { value: "t" });
        Object.assign(run, { runs: new Map(), draw() {}, records: { all: async () => all } });
        await run.read();
        return [...run.runs.keys()];
    }""", [bundle(HISTORY), [["ada", "t"], ["bob", "t"], ["", "t"], ["ada", "u"]]])  # fmt: skip
    assert listed == [0]


def test_the_oldest_run_makes_room_a_pinned_one_for_a_pinned_one(bare):
    removed = bare.evaluate("""async (history) => {
        const { RunHistory } = eval(history), list = Object.create(RunHistory.prototype);
        const gone = [], records = { put: async () => {}, remove: async (key) => gone.push(key) };
        Object.assign(list, { runs: new Map(), draw() {}, records });
        for (let key = 0; key < 26; key++) {
          const run = { key, pinned: key % 2 === 1 };
          list.runs.set(key, run);
          await list.keep(run, "");
        }
        return gone;
    }""", bundle(HISTORY))  # fmt: skip
    assert removed == [0, 1]  # of 13 with a pin and 13 without, 12 stay of either


def test_a_run_stays_in_the_list_as_it_was_before_a_change_by_hand(bare):
    kept = bare.evaluate("""(history) => {
        const { RunHistory, isOneRun } = eval(history), list = Object.create(RunHistory.prototype);
        Object.defineProperty(list, "tab", { value: "t" });
        Object.assign(list, { runs: new Map(), draw() {}, quietly() {} });
        const trace = { run: "r", backbone: "b", answers: { macd: {} }, frames: ["f"], edits: [] };
        const show = (more) => {
          list.observe({ status: {}, trace: { ...trace, ...more }, files: null });
          return list.shown;
        };
        const edits = [[], [1], [1, 2], []];
        const keys = edits.map((edits, i) => show(i === 1 ? { edits, frames: [] } : { edits }));
        const told = (run) => [run.key, run.trace.edits.length, run.trace.frames];
        const runs = [...list.runs.values()].map(told);
        const one = keys.map((key) => isOneRun(key, keys[0]));
        return { keys, runs, one, two: isOneRun("a", "b") };
    }""", bundle(HISTORY))  # fmt: skip
    first, changed, again, undone = kept["keys"]
    assert (first, changed) == (undone, again)
    assert first != changed
    assert kept["runs"] == [[changed, 2, ["f"]], [first, 0, ["f"]]]  # the newest is last
    assert (kept["one"], kept["two"]) == ([True] * 4, False)


def test_an_answer_to_one_of_several_questions_is_marked_where_the_truth_is_known(bare):
    cells = bare.evaluate("""(answers) => {
        const { AnswerTable } = eval(answers), table = new AnswerTable();
        const given = [true, false, null].map((right, i) => [i, { title: "", text: "yes", right }]);
        const row = { question: "", clip: "", run: "", answers: Object.fromEntries(given) };
        table.load({ rows: [row], of: 1 });
        return [...table.root.querySelectorAll("td")].map((cell) => cell.textContent);
    }""", bundle(ANSWERS))  # fmt: skip
    assert cells[:3] == ["yes ✓", "yes ✗", "yes"]


def rows(page):
    return page.locator(".mv-history-list li")


def press(page, name, row):
    """By the keyboard."""
    button = rows(page).nth(row).get_by_text(name, exact=True)
    button.focus()
    page.keyboard.press("Enter")


def open_file(page, path):
    with page.expect_file_chooser() as chooser:
        open_files(page).click("#open")
    chooser.value.set_files(path)


@pytest.mark.long
def test_two_opened_files_stand_beside_each_other(page):
    page.wait_for_selector(".mv-token")
    first, second = examples()[1], examples()[2]
    for example in (first, second):
        open_file(page, example.trace)
        page.wait_for_function(
            "(q) => document.querySelector('.mv-question').textContent === q"
            " && [...document.querySelectorAll('.mv-history-list li')]"
            ".some((row) => row.ariaCurrent === 'true' && row.textContent.includes(q.slice(0, 9)))",
            arg=example.question,
        )
    page.locator(".mv-history > summary").focus()
    page.keyboard.press("Enter")
    assert rows(page).count() == 3  # the first example too
    press(page, "Beside", 1)
    assert page.locator(".mv-beside").is_visible()
    said = page.locator(".mv-beside").inner_text()
    assert first.question in said
    assert second.question in said
    # frames move together
    captions = page.locator(".mv-beside figcaption")
    page.locator(".mv-root").focus()
    for frame in (2, 3):
        page.keyboard.press("ArrowRight")
        assert [t.split(" of")[0] for t in captions.all_inner_texts()] == [f"frame {frame}"] * 2
    other = page.locator(".mv-beside canvas").nth(1)
    assert other.evaluate("(c) => c.getContext('2d').getImageData(5, 5, 1, 1).data[3]") == 255
    assert page.locator(".mv-aligned tr").count() == 2

    # a pinned run stands first, and comes back after a reload
    press(page, "Pin", 1)
    assert rows(page).first.get_by_text("Pin", exact=True).get_attribute("aria-pressed") == "true"
    assert first.question[:20] in rows(page).first.inner_text()
    page.wait_for_timeout(500)
    page.reload()
    page.wait_for_function("document.querySelectorAll('.mv-history-list li').length >= 2")
    page.locator(".mv-history > summary").click()
    page.wait_for_selector(".mv-history-list [aria-pressed=true]")
    assert first.question[:20] in rows(page).first.inner_text()
    press(page, "Show", 0)
    page.wait_for_function(
        "(q) => document.querySelector('.mv-question').textContent === q", arg=first.question
    )


def test_a_link_to_a_run_that_is_not_here_says_so(page, server):
    page.goto("about:blank")
    page.goto(f"{server}#run=0123456789abcdef")
    page.wait_for_selector("#open-error:visible")
    assert "is not here, so another one is shown" in page.locator("#open-error").inner_text()
    there = identity(examples()[3].load_trace())
    page.evaluate("(run) => { location.hash = `run=${run}&frame=3`; }", there)
    page.wait_for_function(f"window.location.hash.includes('{there}')")
    page.wait_for_function(
        "(q) => document.querySelector('.mv-caption').textContent.startsWith('frame 3')"
        " && document.querySelector('.mv-question').textContent === q",
        arg=examples()[3].question,
    )
    assert page.locator("#open-error").is_hidden()


def test_the_drawer_opens_and_closes_beside_the_viewer_and_over_it(page):
    page.wait_for_selector(".mv-token")
    ask, viewer = page.locator("#ask"), page.locator("#viewer")
    beside = viewer.bounding_box()
    assert ask.bounding_box()["x"] + ask.bounding_box()["width"] <= beside["x"]
    page.click("#close-form")
    assert ask.is_hidden()
    assert viewer.bounding_box()["width"] > beside["width"] + 300
    assert page.evaluate("document.activeElement.id") == "open-form"
    page.set_viewport_size({"width": 390, "height": 844})
    page.click("#open-menu")  # the bar has no room for all of it
    page.click("#open-examples")
    assert ask.bounding_box()["y"] < 10
    assert page.evaluate("document.activeElement.closest('#example') !== null")
    page.locator("#question textarea").focus()
    page.keyboard.press("Escape")
    assert ask.is_hidden()


@pytest.mark.long
def test_evidence_is_measured_on_demand_by_the_keyboard(page, tmp_path):
    page.wait_for_selector(".mv-token")
    page.locator(".mv-evidence > summary").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Nothing was measured").wait_for()
    kind = page.get_by_label("Attention", exact=True)
    ticked = kind.screenshot()
    kind.evaluate("(box) => { box.checked = false; }")
    assert kind.screenshot() != ticked  # the tick is seen
    kind.evaluate("(box) => { box.checked = true; }")
    assert "about" not in page.locator(".mv-evidence-ask .mv-note").first.inner_text()
    page.get_by_role("button", name="Measure", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".mv-heats canvas:visible")
    # from now on the server knows what such maps take
    page.wait_for_function("document.querySelector('.mv-evidence-ask').innerText.includes('about')")
    assert page.get_by_label("Kind of map").locator("option").count() == 3
    # an object and a region are knocked out; the maps stay
    page.locator(".mv-root").focus()
    page.keyboard.press("1")
    page.get_by_role("button", name="Knock out 1").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.mv-knock-outs li').length === 1")
    page.get_by_label("Region").fill("0,0,0.5,1")
    page.get_by_role("button", name="Knock out the region").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.mv-knock-outs li').length === 2")
    assert page.get_by_label("Kind of map").locator("option").count() == 3
    # what cannot be is said beside it
    page.get_by_label("Region").fill("nonsense")
    page.get_by_role("button", name="Knock out the region").click()
    page.wait_for_selector(".mv-evidence .mv-error:visible")
    assert "is not a box" in page.locator(".mv-evidence .mv-error").inner_text()
    # a region that is drawn is written down
    page.get_by_role("button", name="Mark it").click()
    canvas = page.locator("[data-part=picture]")
    box = canvas.bounding_box()
    wide, high = box["width"], box["height"]
    canvas.hover(position={"x": 0.25 * wide, "y": 0.25 * high})  # where it lies by then
    page.mouse.down()
    canvas.hover(position={"x": 0.75 * wide, "y": 0.5 * high})
    page.mouse.up()
    drawn = list(map(float, page.get_by_label("Region").input_value().split(",")))
    assert drawn == pytest.approx([0.25, 0.25, 0.75, 0.5], abs=0.02)
    with page.expect_download() as download:
        open_files(page).click("#save")
    saved = tmp_path / "measured.macd"
    download.value.save_as(saved)
    from macd_studio.core.traces.bundle import load

    (one,) = load(saved).evidence
    assert len(one.knock_outs) == 2


@pytest.mark.long
def test_what_is_enough_is_looked_for_and_other_sets_are_read(page):
    page.wait_for_selector(".mv-token")
    page.locator(".mv-enough > summary").click()
    panel = page.locator(".mv-enough")
    borders = [
        panel.locator(kind).first.evaluate("(e) => getComputedStyle(e).border")
        for kind in ("input[type=number]", "select")
    ]
    assert borders[0] == borders[1]  # not a browser's own
    panel.get_by_text("at most 32 views").wait_for()
    panel.get_by_role("button", name="Look for it").click()
    panel.get_by_text("certified: no smaller set does it").first.wait_for()
    page.wait_for_function("() => !document.querySelector('.mv-enough input').disabled")
    assert "at most 32 views, about" in panel.inner_text()  # it was timed
    panel.get_by_role("button", name="All", exact=True).click()
    panel.locator("td input").first.click()
    panel.get_by_role("button", name="Read these alone").click()
    page.wait_for_function(
        "() => document.querySelector('.mv-enough-answer').textContent.includes('lead')"
        " && !document.querySelector('.mv-enough input').disabled"
    )
    assert panel.get_by_text("certified: no smaller set does it").count()


@pytest.mark.long
def test_regions_are_offered_where_the_object_was_not_detected(page, toy_mp4):
    upload(page, toy_mp4)
    run(page, "Is there a zebra in the video?")
    page.wait_for_selector(".mv-regions:visible")
    page.get_by_role("button", name="Equal cells").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelectorAll('.mv-object').length > 8"
        " && !document.querySelector('#run').disabled"
    )
    assert "row 1, column 1" in page.locator(".mv-rail").inner_text()


@pytest.mark.long
def test_several_questions_are_asked_of_one_clip(page, toy_mp4):
    upload(page, toy_mp4)
    page.locator("#several button").first.click()
    asked = [
        "Is there a dog in the video?",
        "Is there a cup in the video?",
        "What is in the video?",
    ]
    page.fill("#questions textarea", "\n".join(asked))
    page.click("#ask-all")
    table = page.locator(".several-answers")
    table.get_by_text("3 of 3 questions about").wait_for()
    assert page.locator(".mv-history-list li").count() == len(asked) + 1
    said = page.locator(".mv-history-list").text_content()
    assert all(question in said for question in asked)
    assert page.locator("#question textarea").input_value() == asked[-1]
    assert table.locator("tbody th").all_inner_texts() == asked
    assert table.bounding_box()["y"] >= 0  # in sight at the end
    table.get_by_label(f"Show: {asked[0]}").click()
    page.wait_for_function(
        "(q) => document.querySelector('.mv-question').textContent === q", arg=asked[0]
    )
