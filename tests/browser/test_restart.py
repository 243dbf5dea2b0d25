"""A server that goes away, and a tab that is reloaded: what was on the page comes back."""

import signal
import time

import pytest

from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.examples import examples
from tests.browser.conftest import BROKEN_OFF, QUIET, free_port, open_files, serve
from tests.browser.test_page import run, upload
from tests.browser.test_visitors import MESSAGE, long_run, notes, says
from tests.browser.test_whatif import levels, open_what_if, settled
from tests.patience import PATIENCE_MS, PATIENCE_S

QUESTION = "Is there a dog in the video?"
RESTORED = "Restored after a reload"
RECORDS = """async (read) => {
  if (!(await indexedDB.databases()).some((d) => d.name === "macd-traces")) return [];
  const finished = (request) => new Promise((done) => {
    request.onsuccess = () => done(request.result);
  });
  const database = await finished(indexedDB.open("macd-traces"));
  const records = await finished(database.transaction("tabs").objectStore("tabs").getAll());
  database.close();
  return records.map(read);
}"""
SAVED = f"() => ({RECORDS})((record) => record.savedAt)"
CONTENTS = f"() => ({RECORDS})((record) => Array.from(new Uint8Array(record.content)))"


@pytest.fixture
def restartable(tmp_path):
    """Starts and ends servers on one port; the one that runs is `restartable.process`."""

    class Restartable:
        port = free_port()
        process = None

        def start(self):
            self.process, self.url = serve(self.port, TMPDIR=str(tmp_path), GRADIO_TEMP_DIR="")
            return self.url

        def end(self, number):
            self.process.send_signal(number)
            return self.process.wait(PATIENCE_S)

    server = Restartable()
    server.start()
    yield server
    if server.process.poll() is None:
        server.end(signal.SIGKILL)


@pytest.fixture
def tab(browser, restartable):
    """A tab of its own; its console may tell of connections that were lost."""
    context = browser.new_context(reduced_motion="reduce", accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(restartable.url)
    page.wait_for_selector(".mv-token")
    yield page
    context.close()


def wait_until_saved(page, since=0):
    """Waits for the browser to hold what is on show; gives the time when that was saved."""
    until = time.monotonic() + PATIENCE_S
    while max(page.evaluate(SAVED), default=0) <= since:
        assert time.monotonic() < until, "the browser has saved nothing"
        page.wait_for_timeout(100)
    return max(page.evaluate(SAVED))


def wait_until_edit_saved(page, folder):
    """Waits for the browser to hold a trace that was changed by hand, in the only tab."""
    file, until = folder / "kept.macd", time.monotonic() + PATIENCE_S
    while True:
        (content,) = page.evaluate(CONTENTS)
        file.write_bytes(bytes(content))
        if load(file).edits:
            return
        assert time.monotonic() < until, "the browser has not saved the change"
        page.wait_for_timeout(100)


def requests_of(page):
    """A list that every address is added to which the page asks for from now on."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def tokens(page):
    return page.locator(".mv-strip[data-method=macd] .mv-token").all_inner_texts()


def wait_until_restored(page, question=QUESTION):
    page.wait_for_function(
        f"([q, said]) => ({MESSAGE})()?.startsWith(said)"
        " && document.querySelector('.mv-question')?.textContent === q",
        arg=[question, RESTORED],
    )


def change_a_level(page, changes):
    """Changes the first object's level by hand; `changes` of the trace are then listed."""
    open_what_if(page)
    first = page.locator(".mv-object").first
    if first.get_attribute("aria-pressed") == "false":  # the address keeps what was chosen
        first.click()
    other = "1 masked" if levels(page)[0] == "0" else "0 kept"
    page.locator(".mv-edit-object").get_by_role("button", name=other).click()
    settled(page, changes)
    return levels(page)


@pytest.mark.long
def test_a_killed_server_leaves_the_run_on_the_page(restartable, tab, toy_mp4, tmp_path):
    upload(tab, toy_mp4)
    assert tab.evaluate(SAVED) == []  # an example, which the page has itself, is not kept
    run(tab, QUESTION)
    wait_until_saved(tab)
    changed = change_a_level(tab, 1)
    wait_until_edit_saved(tab, tmp_path)
    answer = tokens(tab)

    restartable.end(signal.SIGKILL)
    tab.evaluate("window.undo_stack = true")
    restartable.start()
    tab.wait_for_function("!window.undo_stack")  # the page reloads by itself
    wait_until_restored(tab)
    assert tokens(tab) == answer
    assert levels(tab) == changed
    runs = tab.locator(".mv-history-list li")
    assert [("changed by hand" in run) for run in runs.all_text_contents()[:2]] == [True, False]
    assert runs.nth(1).get_by_text("Show", exact=True).is_enabled()  # nothing undoes it here
    assert tab.locator("#question textarea").input_value() == QUESTION
    assert tab.locator("#example input").input_value() == ""
    notes(tab, "upload it, or choose an example")

    with tab.expect_download() as download:
        open_files(tab).click("#save")
    download.value.save_as(tmp_path / "saved.macd")
    trace = load(tmp_path / "saved.macd")
    assert trace.question == QUESTION
    assert trace.clip.name == toy_mp4.name
    assert len(trace.edits) == 1
    change_a_level(tab, 2)
    assert not tab.errors


@pytest.mark.long
def test_a_question_that_was_not_asked_yet_outlives_the_server(restartable, tab, toy_mp4):
    upload(tab, toy_mp4)
    tab.fill("#question textarea", "Is there a red cup?")
    tab.wait_for_timeout(500)
    restartable.end(signal.SIGTERM)
    tab.evaluate("() => { window.before = true; Date.now = () => performance.now() + 1e13; }")
    restartable.start()
    tab.wait_for_function("!window.before")
    tab.wait_for_selector("#run-error:visible")
    said = tab.locator("#run-error").inner_text()
    assert "of the form only the question is left" in said
    assert tab.locator("#question textarea").input_value() == "Is there a red cup?"
    tab.reload()  # it is said once, and a reload alone forgets no server
    tab.wait_for_selector(".mv-token")
    tab.wait_for_timeout(1000)
    assert tab.locator("#run-error").is_hidden()
    assert not tab.errors


@pytest.mark.long
def test_a_reload_shows_the_run_again_and_a_new_tab_does_not(browser, page, server):
    page.wait_for_selector(".mv-token")
    first = page.locator(".mv-question").inner_text()
    run(page, QUESTION)
    saved = wait_until_saved(page)
    answer = tokens(page)
    page.reload()
    wait_until_restored(page)
    assert tokens(page) == answer
    saved = wait_until_saved(page, saved)
    assert page.locator("#example input").input_value() == examples()[0].title

    other = page.context.new_page()  # another tab of the same browser
    other.goto(server)
    other.wait_for_selector(".mv-token")
    run(other, "Is there a cup in the video?")
    until = time.monotonic() + PATIENCE_S
    while len(page.evaluate(SAVED)) < 2:  # one for each tab
        assert time.monotonic() < until, "the other tab has saved nothing"
        page.wait_for_timeout(100)
    page.reload()
    wait_until_restored(page)  # each its own
    other.close()

    third = page.context.new_page()
    asked = requests_of(third)
    third.goto(server)
    third.wait_for_selector(".mv-token")
    third.wait_for_timeout(1500)
    assert not [url for url in asked if "healthz" in url]
    assert third.locator(".mv-question").inner_text() == first
    third.close()
    run(page, "Is there a cat in the video?")  # about the clip that the form holds again


@pytest.mark.long
def test_a_reload_keeps_what_a_link_or_a_visitor_asks_for(page, server):
    page.wait_for_selector(".mv-token")
    run(page, QUESTION)
    saved = wait_until_saved(page)
    other = examples()[2]
    asked = requests_of(page)
    page.goto(f"{server}{other.link}")  # the link counts more than what was shown before
    page.wait_for_function(
        "(q) => document.querySelector('.mv-question')?.textContent === q", arg=other.question
    )
    page.wait_for_timeout(1500)
    assert not [url for url in asked if "healthz" in url]  # what restoring begins with
    assert page.locator(".mv-question").inner_text() == other.question
    saved = wait_until_saved(page, saved)
    run(page, QUESTION)  # but a run that was started from there is not lost
    wait_until_saved(page, saved)
    page.reload()
    wait_until_restored(page)


@pytest.mark.long
def test_a_reload_during_a_run_says_what_became_of_it_and_keeps_the_form(
    new_tab, server, make_video
):
    page = new_tab(server)  # the form opens by itself after the reload; `page` would open it too
    page.wait_for_selector(".mv-token")
    clip = make_video(frames=48, size=(320, 240))
    upload(page, clip)
    page.fill("#question textarea", "Is there a red cup?")
    long_run(page)
    page.reload()
    page.wait_for_selector("#run-error:visible")
    said = page.locator("#run-error").inner_text()
    assert "Reloading the page stopped the run that asked “Is there a red cup?”" in said
    page.wait_for_selector(".strip-frame")  # the clip is in the form, with its pictures
    assert page.locator("#question textarea").input_value() == "Is there a red cup?"
    page.click("#settings button >> nth=0")
    assert page.get_by_label("ascent steps", exact=True).input_value() == "200"
    assert clip.name[-4:] in page.locator("#video").inner_text()
    page.reload()  # it is said once
    page.wait_for_selector(".mv-token")
    page.wait_for_timeout(1000)
    assert page.locator("#run-error").is_hidden()


@pytest.mark.long
def test_without_storage_the_page_works_as_ever(browser, server):
    context = browser.new_context(reduced_motion="reduce")
    context.add_init_script(
        "Object.defineProperty(window, 'indexedDB', { get() { throw new Error('denied') } });"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    problems = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(server)
    page.wait_for_selector(".mv-token")
    first = page.locator(".mv-question").inner_text()
    run(page, QUESTION)
    page.wait_for_timeout(1000)
    page.reload()
    page.wait_for_selector(".mv-token")
    assert page.locator(".mv-question").inner_text() == first
    assert not [p for p in problems if not any(part in p for part in QUIET + BROKEN_OFF)]
    context.close()


@pytest.mark.long
def test_a_server_that_ends_during_a_run_shows_how_far_it_came(restartable, tab):
    run(tab, QUESTION)  # the address names this one
    long_run(tab)
    restartable.process.send_signal(signal.SIGTERM)
    said = says(tab, "What was computed is shown")
    assert said.startswith("The server was ended, and this run with it, ")
    assert "What was computed is shown" in said
    assert restartable.process.wait(PATIENCE_S) == 0
    question = tab.locator(".mv-question").inner_text()
    restartable.start()
    wait_until_restored(tab, question)
    assert tab.locator(".mv-object").count() > 0
    tab.wait_for_timeout(2000)
    assert tab.locator(".mv-question").inner_text() == question, "the run before takes its place"
    assert not tab.errors
