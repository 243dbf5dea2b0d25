"""Several visitors of one server: who waits, what is theirs, and what remains when they go."""

import json
import os
import re
import signal
import time

import pytest

from macd_studio.core.traces.bundle import load
from tests.browser.conftest import free_port, open_files, serve
from tests.browser.test_page import open_form, run, upload
from tests.patience import PATIENCE_MS

SOON_MS = PATIENCE_MS
MESSAGE = """() => [...document.querySelectorAll('.mv-message, .mv-about')]
    .map((e) => e.textContent).join('')
  || [...document.querySelectorAll('.mv-error')].map((e) => e.textContent).join(' ').trim()"""
"""What the page says; an error stands where the action was."""


def says(page, pattern):
    page.wait_for_function(
        f"(p) => new RegExp(p).test(({MESSAGE})())", arg=pattern, timeout=SOON_MS
    )
    return page.evaluate(MESSAGE)


def notes(page, pattern):
    page.wait_for_function(
        "(p) => new RegExp(p).test(document.querySelector('#differs').textContent.trim())",
        arg=pattern, timeout=SOON_MS,
    )  # fmt: skip


def long_run(page):
    """Starts the longest run that can be asked for; stop it."""
    page.wait_for_selector(".mv-token")
    open_form(page)
    page.click("#settings button >> nth=0")
    for field, value in (("frames", "64"), ("ascent steps", "200")):
        page.get_by_label(field, exact=True).fill(value)
        page.keyboard.press("Tab")
    page.click("#run")
    says(page, "step [0-9]+")


def files(folder):
    """All but the settings of ultralytics, which are the server's own."""
    found = (p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir())
    return sorted(str(p) for p in found if "ultralytics" not in p.parts)


def ends(condition, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.mark.long
def test_a_second_tab_sees_its_place_and_can_stop_while_it_waits(page, browser, server):
    long_run(page)
    context = browser.new_context(reduced_motion="reduce")
    second = context.new_page()
    second.goto(server)
    second.wait_for_selector(".mv-token")
    question = second.locator(".mv-question").inner_text()
    open_form(second)
    second.click("#run")
    told = says(second, "Waiting: ")
    assert re.match(r"Waiting: 1 run before yours(, about \d+ s)?$", told)
    second.click("#stop")
    says(second, "Stopped while waiting")
    second.wait_for_function("!document.querySelector('#run').disabled")
    assert second.locator(".mv-question").inner_text() == question
    assert second.locator(".mv-token").count() > 0

    # a tab that is closed while it waits gives its place to the next one
    open_form(second)
    second.click("#run")
    says(second, "Waiting: 1 run")
    third = context.new_page()
    third.goto(server)
    third.wait_for_selector(".mv-token")
    open_form(third)
    third.click("#run")
    says(third, "Waiting: 2 runs")
    second.close()
    says(third, "Waiting: 1 run")
    page.click("#stop")
    says(page, "stopped during gradient ascent")
    third.wait_for_function("!document.querySelector('#run').disabled", timeout=SOON_MS)
    assert "Waiting" not in third.evaluate(MESSAGE)
    context.close()


@pytest.mark.long
def test_a_download_that_is_gone_is_told_on_the_page(browser, server):
    page = browser.new_context().new_page()  # whose console may tell of the 404
    page.set_default_timeout(PATIENCE_MS)
    page.goto(server)
    page.wait_for_selector(".mv-token")
    page.route("**/files/**", lambda r: r.fulfill(status=404, body="no longer keeps this run"))
    open_files(page).click("#export")
    told = page.locator("#open-error:visible")  # also where the form is closed
    told.wait_for()
    assert told.inner_text() == "no longer keeps this run"
    page.unroute("**/files/**")
    page.route("**/files/**", lambda r: r.abort())
    open_files(page).click("#save")
    page.locator("#open-error", has_text="The server cannot be reached").wait_for()
    page.unroute("**/files/**")
    with page.expect_download():
        open_files(page).click("#save")
    told.wait_for(state="hidden")
    assert page.locator(".mv-token").count() > 0
    page.context.close()


@pytest.mark.long
def test_a_run_that_the_server_has_lost_is_saved_and_opened_from_the_browsers_copy(
    browser, server, tmp_path
):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()  # whose console may tell of the 404
    page.set_default_timeout(PATIENCE_MS)
    page.goto(server)
    page.wait_for_selector(".mv-token")

    def of_another_server(route):
        asked = route.request.post_data_json
        if isinstance(asked.get("event_data"), dict) and "run" in asked["event_data"]:
            asked["event_data"]["run"] = "lost"
        route.continue_(post_data=json.dumps(asked))

    page.route("**/queue/join*", of_another_server)
    page.locator(".mv-whatif > summary").click()
    page.locator(".mv-object").first.click()
    other = page.locator(".mv-edit-object .mv-segments button[aria-pressed=false]")
    other.first.click()
    told = page.locator(".mv-whatif .mv-error", has_text="no longer keeps the run")
    told.wait_for()
    assert page.locator(".mv-token").count() > 0
    with page.expect_download() as download:
        open_files(page).click("#save")
    download.value.save_as(tmp_path / "copy.macd")
    assert load(tmp_path / "copy.macd").question == page.locator(".mv-question").inner_text()
    page.unroute("**/queue/join*")
    told.get_by_role("button", name="Open the copy of this browser").click()
    told.wait_for(state="hidden")
    other.first.click()
    page.locator(".mv-edits li").first.wait_for()
    page.context.close()


@pytest.fixture
def own_server(tmp_path):
    """Starts servers on one port with a temporary folder of their own and a short grace."""
    folder, port, running = tmp_path / "tmp", free_port(), []
    folder.mkdir()

    def start():
        process, url = serve(port, TMPDIR=str(folder), MACD_GRACE_S="1", GRADIO_TEMP_DIR="")
        running.append(process)
        return process, url

    yield folder, start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait(60)


def visit(browser, url, clip):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(SOON_MS)
    page.goto(url)
    page.wait_for_selector(".mv-token")
    upload(page, clip)
    return context, page


@pytest.mark.long
def test_nothing_of_a_visitor_remains(browser, own_server, toy_mp4):
    folder, start = own_server
    process, url = start()

    # a tab that is closed, here in the middle of a run
    context, page = visit(browser, url, toy_mp4)
    run(page)
    assert any(toy_mp4.name in f for f in files(folder))
    assert not any(f.endswith((".macd", ".html")) for f in files(folder))
    open_form(page)
    page.click("#run")
    context.close()
    assert ends(lambda: all(f.endswith("/lock") for f in files(folder))), files(folder)

    # a killed server: the next one that starts cleans up
    context, _ = visit(browser, url, toy_mp4)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    context.close()
    assert any(toy_mp4.name in f for f in files(folder))
    process, url = start()
    assert all(f.endswith("/lock") for f in files(folder)), files(folder)
    assert len(files(folder)) == 1

    for number in (signal.SIGTERM, signal.SIGINT):
        context, _ = visit(browser, url, toy_mp4)
        process.send_signal(number)
        assert process.wait(60) == 0
        context.close()
        assert not [n for n in os.listdir(folder) if n.startswith("macd-")], number
        assert not files(folder), number
        if number == signal.SIGTERM:
            process, url = start()
