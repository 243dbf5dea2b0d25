"""The form in a browser: filmstrip, folding, errors in their place, draws, access."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from tests.browser.conftest import open_files
from tests.browser.test_page import ENDED, open_form, run, upload
from tests.samples import sampled

OURS = [["#lead"], ["#bar"], ["#strip"], ["#knows"], ["#tally"], ["#viewer"]]
"""What this project draws; the widgets around it are Gradio's own."""


STRINGS = Path(__file__).parents[2] / "macd_ui" / "js" / "strings.js"


def strip(page, path):
    upload(page, path)
    page.wait_for_selector(".strip-frame")


def findings(page):
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    found = Axe().run(page, context={"include": OURS}, options=options)
    return [
        (v["id"], [n["html"][:120] for n in v["nodes"][:4]]) for v in found.response["violations"]
    ]


@pytest.mark.long
def test_the_page_explains_itself_and_leads_on(page):
    page.wait_for_selector(".mv-token")
    lead = page.locator("#lead")
    assert lead.locator("p").first.inner_text().endswith("?")
    assert not any(word in lead.inner_text() for word in ("logit", "gradient", "decoding"))
    links = {
        a.inner_text(): a.get_attribute("href") for a in page.locator("#lead a, #foot a").all()
    }
    assert links["Paper"] == "https://arxiv.org/abs/2602.01740"
    assert {"Learn", "Docs", "Source", "Gallery"} <= set(links)
    for name in ("Learn", "Docs", "Source", "Gallery"):
        assert page.request.get(f"{page.url}{links[name]}").ok


def tab_to(page, selector, most=12):
    """Presses Tab until what is wanted is in focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
    raise AssertionError(f"{most} times Tab do not lead to {selector}")


@pytest.mark.long
def test_a_clip_is_trimmed_picked_and_answered(new_tab, server, make_video):
    """With the keyboard alone, from the first Tab on the page to what the answer means."""
    page = new_tab(server, folds="", viewport={"width": 1440, "height": 1000})
    page.on("filechooser", lambda chooser: None)  # the browser asks this test from now on
    page.wait_for_selector(".mv-headline")
    tab_to(page, "#open-form")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('#video') !== null")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(make_video(frames=48, size=(320, 240)))
    page.wait_for_selector(".strip-frame", state="attached")
    assert "what that misses, neither knows" in page.locator(".knows-host").text_content()
    summary = page.locator(".strip-summary")
    assert summary.inner_text() == "8 evenly spaced frames of the whole clip."
    tab_to(page, ".mv-fold-strip > summary")
    page.keyboard.press("Enter")
    tab_to(page, ".strip-frame")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert summary.inner_text() == "2 frames picked by hand of the whole clip."
    tab_to(page, "input[aria-label=End]")
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    assert summary.inner_text().startswith("1 frame picked by hand of 0.00 s to ")
    tab_to(page, "#question textarea")
    page.keyboard.type("Is there a cup?")
    tab_to(page, "#run")
    assert page.locator("#run").inner_text() == "Run"
    page.keyboard.press("Enter")
    page.wait_for_selector("#columns:not(.drawer)")
    page.wait_for_function(
        "document.querySelector('.mv-question').textContent === 'Is there a cup?'"
        " && !document.querySelector('#run').disabled"
    )
    headline = page.locator(".mv-headline")
    assert "cup" in headline.inner_text()
    assert " hidden, the model" in headline.locator(".mv-without").inner_text()
    assert headline.locator(".mv-meaning").inner_text()
    assert page.locator(".mv-outcome").inner_text()
    for part in (".mv-outcome", ".mv-without", ".mv-meaning"):  # in sight, without scrolling
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 1000
    assert page.locator(".mv-stage .mv-caption").inner_text().startswith("frame 1 of 1")

    # the drawer is closed; Enter opens it again, where the question can be typed
    assert not page.locator("#ask").is_visible()
    assert page.evaluate("document.activeElement.id") == "open-form"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Is there a bike?")
    page.keyboard.press("Enter")  # as in any field of one line
    page.wait_for_function(ENDED, arg="Is there a bike?")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    for selector in (".mv-fold-measure > summary", ".mv-reproduce > summary"):
        tab_to(page, selector, 80)
        page.keyboard.press("Enter")
    assert "--at 0." in page.locator(".mv-reproduce").inner_text()


@pytest.mark.long
def test_random_draws_are_counted_in_the_tab(page):
    page.wait_for_selector(".mv-token")
    for number in (1, 2):
        open_form(page)
        page.click("#draw")
        page.wait_for_function(
            "(n) => document.querySelector('.tally-draw').textContent.includes(`${n} draw`)",
            arg=number,
        )
    open_form(page)
    rows = page.locator(".tally tbody tr").all()
    assert [row.locator("th").inner_text() for row in rows][:2] == ["Baseline", "MACD"]
    for row in rows[:2]:
        assert sum(int(cell.inner_text()) for cell in row.locator("td").all()) == 2
    assert page.locator(".mv-right, .mv-wrong").count() >= 1  # the truth is in the trace
    page.get_by_role("button", name="Start counting again").click()
    assert not page.locator(".tally").is_visible()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1440, 2560])
def test_the_form_is_accessible_and_fits(page, server, make_video, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{server}?__theme={scheme}")
    page.wait_for_selector(".mv-token")
    strip(page, make_video(frames=24, size=(320, 240)))
    page.locator(".strip-frame").nth(3).click()
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.click("#close-form")
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


@pytest.mark.long
def test_words_are_chips_that_one_edits_before_the_run(page):
    page.wait_for_selector(".mv-token")
    open_form(page)
    chips = page.locator("#words .token")
    assert not page.locator("#words").is_visible()
    page.locator("#settings > button").click()
    detector = page.locator("#detector input, #detector textarea").first
    detector.fill("grounding-dino")
    page.locator("#words").wait_for(state="visible")
    page.locator("#question textarea").fill("Is the man in the red jacket near an owl?")
    page.wait_for_function("document.querySelectorAll('#words .token').length === 3")
    assert [t.strip() for t in chips.all_inner_texts()] == ["man", "red jacket", "owl"]
    chips.first.locator(".token-remove").click()
    entry = page.locator("#words input").first
    entry.fill("smoke plume")
    entry.press("Enter")
    page.locator("#question textarea").fill("Is there an elk?")
    page.wait_for_timeout(1000)
    assert [t.strip() for t in chips.all_inner_texts()] == ["red jacket", "owl", "smoke plume"]
    assert "cannot be run" not in page.locator("#differs").inner_text()  # the settings are open


@pytest.mark.parametrize("size", sampled([(36, 64), (64, 36)], [(36, 64)]))
def test_the_strip_shows_whole_pictures_and_run_stands_below_it_on_a_phone(page, make_video, size):
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    upload(page, make_video(size=size))
    page.wait_for_function("document.querySelector('.strip').style.getPropertyValue('--ratio')")
    for name in (".strip-large", ".strip-frame img"):
        picture = page.locator(name).first
        shape = picture.evaluate("(e) => e.clientWidth / e.clientHeight")
        assert picture.evaluate("(e) => getComputedStyle(e).objectFit") == "contain", name
        assert shape == pytest.approx(max(size[0] / size[1], 0.75 if "frame" in name else 1), 0.05)
    below = page.evaluate(  # nothing of the form is seen below the row
        """() => {
          const row = document.querySelector("#run").closest(".row").getBoundingClientRect();
          return innerHeight - row.bottom;
        }"""
    )
    assert below <= 1


@pytest.mark.parametrize("width", sampled([390, 1440], [390]))
def test_the_settings_show_what_is_chosen_whole(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.reload()
    page.locator("#settings > button").click()
    chosen = page.locator("#settings input[role=combobox]")
    chosen.last.wait_for()
    cut = chosen.evaluate_all(
        "(all) => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.value)"
    )
    assert chosen.count() > 5
    assert cut == []
    style = chosen.last.evaluate("(e) => getComputedStyle(e).textOverflow")
    assert style == "ellipsis"  # the line of a model on the hub is longer than the form is wide


FOLD = STRINGS.with_name("fold.js")
DRAWER = """<button id="open-form"></button><div id="columns"><div id="ask">
<textarea id="question"></textarea>
<button id="run">Run</button><p id="run-progress" hidden></p></div><div id="viewer"></div></div>"""


@pytest.mark.parametrize("width", sampled([390, 1440], [390]))
def test_what_is_done_for_the_form_is_told_in_it(bare, width):
    """A download has no stage: its share is the whole bar, and the drawer stays open on a phone."""
    bare.set_viewport_size({"width": width, "height": 844})
    bare.set_content(DRAWER)
    source = FOLD.read_text(encoding="utf-8")
    bare.evaluate(
        """async (source) => {
          const file = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
          window.form = new (await import(file)).Form();
          window.form.show(true);
          window.tell = (status) => {
            const idle = { stage: "", fraction: 0, error: "", where: "", running: true };
            window.form.observe({ ...idle, ...status }, [["video", ""], ["load", ""]]);
            const line = document.getElementById("run-progress");
            return [line.textContent, line.style.getPropertyValue("--fraction"), window.form.open];
          };
        }""",
        source,
    )
    told = bare.evaluate("tell({ message: 'half', fraction: 0.5, where: 'form' })")
    assert told == ["half", "0.5", True]
    bare.evaluate("tell({ running: false })")
    told = bare.evaluate("tell({ message: 'a run', stage: 'load', fraction: 0.5 })")
    assert told == ["a run", "0.75", width > 1099]  # which is seen behind the drawer


def test_an_error_of_the_form_goes_away_with_what_caused_it(bare):
    bare.set_content(
        DRAWER.replace(
            '<button id="run">',
            '<div id="video"><button>×</button></div><p id="clip-error"></p><p id="run-error"></p>'
            '<button id="run">',
        )
    )
    bare.evaluate(
        """async (source) => {
          const file = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
          window.form = new (await import(file)).Form();
          form.show(true);
        }""",
        FOLD.read_text(encoding="utf-8"),
    )

    def errors():
        return [bare.locator(f"#{part}-error").inner_text() for part in ("clip", "run")]

    def fail(where):
        bare.evaluate(
            "(where) => form.observe({ running: false, stage: '', fraction: 0, message: '', where,"
            " error: 'wrong' }, [])", where,
        )  # fmt: skip
        return errors()

    assert fail("form") == ["", "wrong"]
    bare.locator("#question").fill("Is there a dog?")
    assert errors() == ["", ""]
    assert fail("clip") == ["wrong", ""]
    bare.locator("#question").fill("Is there a cup?")  # which mends no clip
    bare.locator("#run").click()
    assert errors() == ["wrong", ""]
    bare.locator("#video button").click()
    assert errors() == ["", ""]


BAD_VIDEOS = {"empty.mp4": "is empty", "broken.mp4": "not a readable video",
              "a.tiff": "TIFF picture, which is not read here",
              "a.heic": "HEIC, which is not read here"}  # fmt: skip


@pytest.mark.long
def test_every_input_tells_what_is_wrong_beside_it_and_forgets_it_when_it_is_mended(
    page, tmp_path, toy_mp4
):
    page.wait_for_selector(".mv-token")
    run_error, clip_error = page.locator("#run-error"), page.locator("#clip-error")
    toast = page.locator(".toast-body")
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "broken.mp4").write_bytes(b"no video" * 50)
    Image.new("RGB", (90, 60), (200, 30, 30)).save(tmp_path / "a.tiff")
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 200)
    take_away = page.locator("#video button[aria-label='Clear']")
    for name, said in BAD_VIDEOS.items():
        page.set_input_files("#video input[type=file]", tmp_path / name)
        clip_error.get_by_text(said).wait_for()
        take_away.click()
        clip_error.wait_for(state="hidden")
    page.set_input_files("#video input[type=file]", tmp_path / "broken.mp4")
    clip_error.get_by_text("not a readable video").wait_for()
    take_away.click()
    page.set_input_files("#video input[type=file]", toy_mp4)
    page.wait_for_selector(".strip-frame")
    assert clip_error.is_hidden()

    page.fill("#question textarea", "")
    page.click("#run")
    run_error.get_by_text("the question is blank").wait_for()
    page.fill("#question textarea", "Is there a dog in the video?")
    run_error.wait_for(state="hidden")

    page.click("#settings button >> nth=0")
    fields = {
        page.get_by_label("frames", exact=True): ("0", "Choose a whole number from 1 to 256"),
        page.get_by_label("ascent steps", exact=True): ("", "is empty. Type a number"),
        page.locator("#detector textarea, #detector input").first: (
            "/no/such.pt", "there is no detector file",
        ),
    }  # fmt: skip
    for field, (bad, said) in fields.items():
        good = field.input_value()
        field.fill(bad)
        page.keyboard.press("Tab")
        page.click("#run")
        run_error.get_by_text(said).wait_for()
        field.fill(good)
        page.keyboard.press("Tab")
        run_error.wait_for(state="hidden")
    (tmp_path / "bad.json").write_text("{")
    page.set_input_files("#tracks input[type=file]", tmp_path / "bad.json")
    page.locator("#tracks").get_by_text("bad").wait_for()
    page.click("#run")
    run_error.get_by_text("is not whole JSON").wait_for()
    page.locator("#tracks button[aria-label='Clear']").click()
    run_error.wait_for(state="hidden")

    page.click("#compare button >> nth=0")
    page.set_input_files("#counterpart input[type=file]", tmp_path / "broken.mp4")
    page.locator("#counterpart").get_by_text("broken").wait_for()
    page.click("#run")
    run_error.get_by_text("the partner clip: the file is not a readable video").wait_for()
    page.locator("#counterpart button[aria-label='Clear']").click()
    run_error.wait_for(state="hidden")

    (tmp_path / "bad.macd").write_bytes(b"nonsense")
    with page.expect_file_chooser() as chooser:
        open_files(page).click("#open")
    chooser.value.set_files(tmp_path / "bad.macd")
    page.locator("#open-error").get_by_text("is not a trace").wait_for()
    assert toast.count() == 0
    run(page, "Is there a dog in the video?")
    assert page.locator(".form-error:visible").count() == 0
    assert page.locator(".mv-error:visible").count() == 0


def test_the_run_on_show_is_of_another_clip(page, toy_mp4):
    another = page.locator(".mv-another")
    assert not another.is_visible()
    page.set_input_files("#video input[type=file]", toy_mp4)
    another.wait_for()
    assert Path(toy_mp4).name in another.inner_text()


def test_enter_in_the_question_runs_it(page):
    open_form(page)
    question = page.locator("#question textarea")
    question.fill("Is there a hat?")
    question.press("Enter")
    page.wait_for_function(ENDED, arg="Is there a hat?")


def test_a_run_that_never_reached_the_server_is_told(new_tab, server):
    page = new_tab(server)
    page.wait_for_selector(".mv-token")
    open_form(page)
    page.locator("#run").wait_for()
    page.context.set_offline(True)
    error = page.locator("#run-error")
    question = page.locator("#question textarea").input_value()
    page.locator("#question textarea").press("Enter")
    error.filter(has_text="was not started").wait_for()
    page.context.set_offline(False)  # Gradio loads the page anew, or does not
    told = page.get_by_text(re.compile(r"The server is back|Press Run to start it again")).first
    told.wait_for()
    assert page.locator("#question textarea").input_value() == question
