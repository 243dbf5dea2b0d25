"""Ways in and out of the page: links, keys, dropping a file, pictures, access."""

import json

import pytest

from macd_studio.macd_ui.examples import examples
from macd_studio.viewer import identity
from tests.browser.test_page import open_plot


@pytest.mark.long
def test_a_link_opens_its_example(page, server):
    wanted = examples()[1]
    page.goto(f"{server}{wanted.link}")
    page.wait_for_function(
        "(q) => (document.querySelector('.mv-question') || {}).textContent === q"
        " && document.querySelector('#question textarea').value === q",
        arg=wanted.question,
    )
    page.locator(".mv-reproduce > summary").click()
    assert f"{server}{wanted.link}" in page.locator(".mv-reproduce").inner_text()


@pytest.mark.long
def test_a_trace_dropped_on_the_viewer_opens(page):
    import base64

    page.wait_for_selector(".mv-token")
    other = examples()[2]
    content = base64.b64encode(other.trace.read_bytes()).decode()
    page.evaluate(
        """([name, content]) => {
          const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
          const given = new DataTransfer();
          given.items.add(new File([bytes], name));
          document.querySelector('.mv-root').dispatchEvent(
            new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true }));
        }""",
        [other.trace.name, content],
    )
    page.wait_for_function(
        "(q) => document.querySelector('.mv-question').textContent === q", arg=other.question
    )


@pytest.mark.long
def test_keys(page):
    page.wait_for_selector(".mv-token")
    root = page.locator(".mv-root")
    root.focus()
    pressed = lambda name: page.get_by_role("button", name=name, exact=True).get_attribute(  # noqa: E731
        "aria-pressed"
    )
    for key, name in (("m", "Soft masks"), ("c", "Masked"), ("b", "Boxes"), ("l", "Loop")):
        before = pressed(name)
        page.keyboard.press(key)
        assert pressed(name) != before, key
    page.keyboard.press("?")
    assert page.locator(".mv-help").is_visible()
    assert "choose an object" in page.locator(".mv-help").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator(".mv-help").is_visible()
    page.keyboard.press("1")
    assert page.locator(".mv-object[aria-pressed=true]").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".mv-object[aria-pressed=true]").count() == 0
    # without loop, playing ends at the last frame
    page.get_by_label("Speed").select_option("4")
    root.focus()
    page.keyboard.press("Space")
    page.wait_for_function(
        "document.querySelector('.mv-caption').textContent.startsWith('frame 8')"
        " && document.querySelector('.mv-play').getAttribute('aria-label') === 'Play'"
    )


@pytest.mark.long
def test_an_object_lights_up_everywhere(page):
    open_plot(page)
    page.wait_for_selector("#strengths-plot .scatterlayer .trace")
    page.locator(".mv-object").first.hover()
    page.wait_for_function("document.querySelectorAll('.mv-lane.mv-lit').length === 1")
    opacity = page.evaluate(
        "[...document.querySelectorAll('#strengths-plot .scatterlayer .trace')]"
        ".map((t) => t.style.opacity)"
    )
    assert opacity[0] == "1"
    assert opacity[1] == "0.2"


@pytest.mark.long
def test_pictures_can_be_taken_away(page, tmp_path):
    open_plot(page)
    page.wait_for_selector("#strengths-plot .main-svg")
    kept = {}
    for button, name in (
        (page.get_by_role("button", name="Save PNG").first, "frame-1.png"),
        (page.locator("#plot-svg"), "strengths.svg"),
        (page.locator("#plot-png"), "strengths.png"),
        (page.locator("#plot-json"), "strengths.json"),
    ):
        with page.expect_download() as download:
            button.click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
        kept[name] = (tmp_path / name).read_bytes()
    from PIL import Image

    for name in ("frame-1.png", "strengths.png"):
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 200
    assert kept["strengths.svg"].startswith(b"<svg")
    assert b"scatterlayer" in kept["strengths.svg"]
    assert len(json.loads(kept["strengths.json"])["data"]) >= 2


CHOSEN = """([question, title, message]) =>
  document.querySelector('.mv-question').textContent === question
  && document.querySelector('#example input').value === title
  && document.querySelector('.mv-about').textContent === message"""
"""An example is on show, with the form that asks for it and what is said of it."""
STAYS = f"""(wanted) => {{
  if (!({CHOSEN})(wanted)) window.heldSince = null;
  else window.heldSince ??= performance.now();
  return window.heldSince !== null && performance.now() - window.heldSince > 3000;
}}"""
"""It has been on show for a while: nothing that was on its way replaced it."""


def about(index):
    """What `CHOSEN` looks for."""
    example = examples()[index]
    return [example.question, example.title, example.message]


def choose(page, index):
    page.locator("#example input").click()
    title = examples()[index].title
    page.locator("[role=option]").filter(has_text=title).first.click()
    page.wait_for_function(CHOSEN, arg=about(index))


def test_back_and_forward_lead_from_one_chosen_run_to_the_next(page):
    page.wait_for_selector(".mv-token")
    first = page.url
    choose(page, 1)
    assert f"#run={identity(examples()[1].load_trace())}" in page.url
    choose(page, 2)
    for move, index in ((page.go_back, 1), (page.go_back, 0), (page.go_forward, 1)):
        move()
        page.wait_for_function(CHOSEN, arg=about(index))
        if index == 0:
            assert page.url == first
    page.go_forward()  # of several moves in a row the last one counts
    page.go_back()
    page.go_back()
    page.go_forward()
    page.wait_for_function(STAYS, arg=about(1))
    assert f"#run={identity(examples()[1].load_trace())}" in page.url
    assert page.locator(".mv-token").count() > 0
    assert page.locator("#open-error").is_hidden()
