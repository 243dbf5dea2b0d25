"""What a person does with the page."""

import re

import av
import pytest

from macd_studio.core.system.shipped import assets
from macd_studio.viewer import JS, bundle
from tests.browser.conftest import open_files

ENDED = """(question) => {
  const token = document.querySelector('.mv-strip[data-method=macd] .mv-token:last-child');
  const masks = document.querySelector('.mv-badge').textContent.includes('masks only');
  return document.querySelector('.mv-question').textContent === question
    && (masks || token && token.textContent === '<|im_end|>')
    && !document.querySelector('#run').disabled;
}"""


def open_form(page):
    """The form is folded away after a run."""
    fold = page.locator("#open-form[aria-expanded=false]")
    if fold.count():
        fold.click()


def run(page, question="Is there a dog in the video?"):
    """Runs the form's clip."""
    open_form(page)
    page.fill("#question textarea", question)
    page.click("#run")
    page.wait_for_function(ENDED, arg=question)


def upload(page, path):
    open_form(page)
    page.set_input_files("#video input[type=file]", path)
    page.get_by_text(path.name[-4:]).first.wait_for()
    page.locator(".strip:visible, #clip-error:visible").first.wait_for()  # the form begins anew
    page.wait_for_timeout(500)


def open_plot(page):
    page.locator("#strengths > button").click()
    page.wait_for_selector("#strengths-plot .js-plotly-plot")


def canvas_pixels(page):
    return page.evaluate("document.querySelector('.mv-canvas').toDataURL()")


def test_first_paint_shows_an_example(page):
    page.wait_for_selector(".mv-token")
    assert page.locator(".mv-object").count() >= 1
    assert page.locator(".mv-question").inner_text()
    loaded = page.evaluate("performance.getEntriesByType('resource').map((r) => r.name)")
    assert not [name for name in loaded if "plotly" in name]  # it comes when a plot is opened
    open_plot(page)


def test_the_whole_way(page, toy_mp4, tmp_path):
    upload(page, toy_mp4)
    page.wait_for_function("() => !document.querySelector('#question textarea').value")
    run(page)
    labels = page.locator(".mv-object-name").all_inner_texts()
    assert {t.split()[0] for t in labels} == {"dog", "cup"}
    assert page.locator(".mv-strip[data-method=baseline] .mv-token").first.inner_text() == "yes"

    # scrub with the keyboard; layers change the picture
    page.locator(".mv-root").focus()
    before = canvas_pixels(page)
    page.keyboard.press("ArrowRight")
    assert "frame 2 of 8" in page.locator(".mv-stage .mv-caption").inner_text()
    assert canvas_pixels(page) != before
    for layer in ("Soft masks", "Levels", "Masked"):
        before = canvas_pixels(page)
        page.get_by_role("button", name=layer, exact=True).click()
        assert canvas_pixels(page) != before, layer

    # an object, by number, is marked in rail and lanes
    page.locator(".mv-root").focus()
    page.keyboard.press("1")
    assert page.locator(".mv-object[aria-pressed=true]").count() == 1
    assert page.locator(".mv-lane.mv-dim").count() == 1

    # a token shows its candidates under both views
    page.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    table = page.locator(".mv-candidates").inner_text()
    assert "V_d" in table
    assert "← chosen" in table

    # moving α scores the stored logits anew: at 0 it must say what the baseline says
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    assert "α 0, β 0.1" in page.locator(".mv-table .mv-note").inner_text()
    assert page.locator(".mv-strip[data-method=macd] .mv-turned").count() == 0

    with page.expect_download() as download:
        open_files(page).click("#export")
    assert download.value.suggested_filename == "toy.html"

    # save, reopen: the same picture without a run
    with page.expect_download() as download:
        open_files(page).click("#save")
    saved = tmp_path / "saved.macd"
    download.value.save_as(saved)
    from macd_studio.core.traces.bundle import load

    assert load(saved).answers["baseline"].text == "yes"
    page.reload()
    page.wait_for_selector(".mv-token")
    with page.expect_file_chooser() as chooser:
        open_files(page).click("#open")
    chooser.value.set_files(saved)
    page.locator(".mv-question", has_text="Is there a dog in the video?").wait_for()
    page.wait_for_function(
        "document.querySelectorAll('.mv-object-name').length === 2 &&"
        " document.querySelector('.mv-question').textContent.includes('dog')"
    )


@pytest.mark.long
def test_methods_stand_side_by_side(page, toy_mp4):
    upload(page, toy_mp4)
    page.click("#settings button >> nth=0")
    page.click("#compare button >> nth=0")
    for name in ("VCD", "SID", "TCD", "Reversed signs", "Random places, same area", "Blank video"):
        page.get_by_label(name, exact=True).check()
    run(page, "What is in the video?")
    page.wait_for_selector(".mv-methods tr[data-method=blank]")
    rows = page.locator(".mv-methods tbody tr")
    assert rows.count() == 8
    said = rows.nth(1).inner_text()
    assert any(word in said for word in ("agrees", "changed"))
    assert "fixed" not in page.locator(".mv-compare").inner_text()
    assert "base prefill" in page.locator(".mv-compare").inner_text()
    assert page.locator(".mv-multiples").count() >= 6

    def second_view(index):
        return page.evaluate(
            "(i) => document.querySelectorAll('.mv-compare canvas')[i].toDataURL()", index
        )

    first, second = second_view(0), second_view(1)
    page.locator(".mv-compare .mv-screens select").nth(0).select_option("blank")
    page.locator(".mv-compare .mv-screens select").nth(1).select_option("tcd")
    assert second_view(0) != first
    assert second_view(1) != second
    before = second_view(1)
    page.locator(".mv-root").focus()
    page.keyboard.press("ArrowRight")
    assert second_view(1) != before
    assert "left out" in page.locator(".mv-compare .mv-screens").inner_text()


@pytest.mark.long
def test_names_and_questions_are_text(page, tmp_path, toy_mp4):
    import shutil

    hostile = "<img src=x onerror=alert(1)> ${7*7} {{7*7}} `x` \\ </script>"
    page.on("dialog", lambda d: pytest.fail("a script ran"))
    clip = tmp_path / "<img src=x onerror=alert(1)>${7*7}.mp4"
    shutil.copy(toy_mp4, clip)
    page.set_input_files("#video input[type=file]", clip)
    page.wait_for_timeout(1000)
    run(page, hostile)
    assert page.locator(".mv-question").inner_text() == hostile
    assert page.locator(".mv-root img").count() == 0


def test_a_gradient_of_zero_looks_unlike_a_small_one(bare):
    said = bare.evaluate(
        f"[0, 1e-9, -2].map((g) => ({bundle(JS / 'text.js')}).gradientText(g, false))"
    )
    assert said == ["∂L/∂r = 0 exactly: does not move it", "∂L/∂r +1.0e−9", "∂L/∂r −2.000"]


def unfold(page, *panels):
    for panel in panels:
        page.locator(panel).first.evaluate("(d) => { d.open = true; }")


OF_TIME = re.compile(
    r"\bframes?\b(?! mask)|\bframe group|\bclip speed|\bmoves\b|\b\d+ of \d+ frames|\d\.\d\d s\b"
    r"|\bthe video\b(?! V)|\btracks?\b",
    re.IGNORECASE,
)
"""Of what is said of a run, words that have no sense where a picture was asked about."""


@pytest.mark.long
def test_an_uploaded_picture_is_masked_and_answered_and_nothing_speaks_of_time(page, tmp_path):
    path = tmp_path / "classroom.png"
    with av.open(str(assets() / "everyday" / "examples" / "classroom.mp4")) as source:
        next(source.decode(video=0)).to_image().save(path)
    upload(page, path)
    page.locator("#knows").get_by_text("Model: everyday").wait_for()
    assert page.locator("#run").inner_text() == "Run"
    assert page.locator(".strip-frame:visible").count() == 0
    run(page, "Is there a car?")
    assert not page.locator(".mv-badge").is_visible()  # the model knows cars
    assert page.locator(".mv-stage .mv-caption").inner_text().startswith("the picture")
    assert page.locator(".mv-object").count() >= 2
    assert page.locator(".mv-stage").get_by_role("button", name="Picture", exact=True).is_visible()
    for name in ("Loop", "Save film", "What moves"):
        assert page.locator(".mv-root").get_by_role("button", name=name).count() == 0
    page.locator(".mv-stage").get_by_text("Masked", exact=True).click()

    unfold(page, ".mv-evidence", ".mv-enough", ".mv-whatif")
    page.locator(".mv-evidence").get_by_role("button", name="Measure", exact=True).click()
    page.wait_for_selector(".mv-heats canvas")
    kinds = page.locator(".mv-evidence select").first.inner_text()
    assert "Input × gradient" in kinds
    assert page.get_by_role("button", name="Look for it", exact=True).is_enabled()
    said = page.locator(".mv-root").inner_text().splitlines()
    of_the_model = "knows only the drawn toy world"
    found = [z for z in said if OF_TIME.search(z) and of_the_model not in z]
    assert "\n".join(found) == ""
