"""The rating study in a real browser: whole sessions, lost connections, keys, touch, blinding."""

import re
import signal
from pathlib import Path

import pytest

from macd_studio.ratings.store import Study
from tests.browser.conftest import free_port, serve
from tests.patience import PATIENCE_MS, PATIENCE_S
from tests.ratings.studies import known, make_study

SHOWN = (
    "task => (document.body.dataset.item ?? '') !== task"
    " || !document.getElementById('review').hidden"
)
SAVED = "() => document.getElementById('saved').textContent.startsWith('All saved')"
WAITING = "() => document.getElementById('saved').textContent.includes('not saved yet')"
CLIPS = 6
ARMS = ("macd", "random-elsewhere", "mask-all")
TELLING = ("macd", "random", "mask-all", "mask_all", "known", "gold", "repeat", "clip-", "arm",
           "reversed", "counterfactual", "gradient")  # fmt: skip


class Place:
    """A server with a study, which can be killed and started again."""

    def __init__(self, folder, **plan):
        self.path = make_study(folder, **plan)
        self.organiser_code = make_study.last.organiser
        self.port = free_port()
        self.start()

    def start(self):
        self.process, self.url = serve(self.port, MACD_STUDY=str(self.path), MACD_ONLY_STUDY="1")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)

    def link(self, page="rate", code=None):
        if code is None:
            with Study(self.path) as study:
                (code,) = study.invite(1)
        return f"{self.url}{page}#{code}"

    def rows(self, sql, *values):
        with Study(self.path, write=False) as study:
            return [tuple(r) for r in study.rows(sql, *values)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    gold = (known(1), known(2), known(3, training=True))
    served = Place(tmp_path_factory.mktemp("study"), clips=CLIPS, arms=ARMS, gold=gold, repeat=0.2)
    yield served
    served.end()


def begin(page):
    """Consents, and waits for the first item."""
    page.check("#consent")
    page.click("#begin")
    return wait_for_item(page, "")


def wait_for_item(page, before):
    page.wait_for_function(SHOWN, arg=before)
    return None if page.is_visible("#review") else page.evaluate("document.body.dataset.item")


def rate_item(page, task, ratings):
    """By keys alone; gives the next item, None after the last."""
    for side, rating in enumerate(ratings):
        if side:
            page.keyboard.press("Tab")
        page.keyboard.press(str(rating))
    page.keyboard.press("Enter")
    return wait_for_item(page, task)


def saved(page):
    page.wait_for_function(SAVED)


def listen(page):
    """Everything that the browser receives from now on, as (address, headers, body)."""
    received = []

    def pass_on(route):
        response = route.fetch()
        received.append((route.request.url, response.headers, response.body()))
        route.fulfill(response=response)

    page.route("**/*", pass_on)
    return received


@pytest.mark.long
def test_a_whole_session_tells_no_arm(place, new_tab):
    page = new_tab("about:blank")
    received = listen(page)
    page.goto(place.link())
    task, seen = begin(page), 0
    while task is not None:
        seen += 1
        page.keyboard.press("z")
        task = rate_item(page, task, (1 + seen % 5, 2))
    saved(page)
    assert seen == 1 + CLIPS + 2 + 1
    pictures = [len(b) for url, _, b in received if "/media/" in url]
    assert len(pictures) >= 3 * seen
    assert len(set(pictures)) == 1
    for url, headers, body in received:
        if "/static/" in url or url.split("#")[0].endswith("/rate"):
            continue  # the same for everybody, whatever is shown
        text = (url + str(headers)).lower().encode() + body.lower()
        for word in TELLING:
            assert word.encode() not in text, (url, word)
    html = page.content().lower()
    assert not [w for w in ("macd", "random", "gold", "known") if w in html]
    addresses = {re.sub(r"[0-9a-f]{32}", "ID", url.split("#")[0]) for url, _, _ in received}
    assert addresses == {
        f"{place.url}rate", f"{place.url}rate/api/session", f"{place.url}rate/api/events",
        f"{place.url}rate/api/item/ID", *(f"{place.url}rate/api/media/ID/{w}" for w in
                                         ("clip", "0", "1")),
        *(f"{place.url}rate/static/{n}" for n in (
            "rate.js", "session.js", "queue.js", "player.js", "keys.js", "view.js", "tasks.js",
            "loader.js", "messages.js", "ending.js", "kept.js", "screening.js", "study.css")),
    }  # fmt: skip
    served = [body for url, _, body in received if "/static/" in url]
    assert not [w for w in ARMS[1:] if any(w.encode() in body for body in served)]


@pytest.mark.long
def test_the_organiser_sees_progress_and_the_traces(place, new_tab):
    page = new_tab(place.link("organise", place.organiser_code))
    page.wait_for_selector("#study:not([hidden])")
    assert "arms macd" in page.inner_text("#summary")
    page.click("#invite-form button")
    page.wait_for_selector("#links:not([hidden])")
    link = page.inner_text("#links").strip()
    rater = new_tab(link)
    task = begin(rater)
    page.click("[data-state=paused]")
    page.wait_for_function("() => document.getElementById('state').textContent === 'paused'")
    rater.keyboard.press("4")
    saved(rater)  # what is on the screen is still taken
    page.click("[data-state=open]")
    page.wait_for_function("() => document.getElementById('state').textContent === 'open'")
    with page.expect_download() as download:
        page.get_by_role("button", name="Events as CSV").click()
    assert task in Path(download.value.path()).read_text()
    page.goto(place.url)
    page.wait_for_selector(".mv-token")  # the page with the traces


@pytest.mark.long
def test_what_cannot_be_sent_waits_in_the_browser(place, new_tab):
    """Offline, answers of 500 and 507: shown as unsaved, sent again; a closed tab loses nothing."""
    link = place.link()
    page = new_tab(link)
    task = begin(page)
    answers = iter([None, 500, 507, 404])
    page.route("**/rate/api/events", lambda route: (
        route.abort() if (status := next(answers, None)) is None
        else route.fulfill(status=status, json={"error": "no"})))  # fmt: skip
    page.keyboard.press("2")
    page.wait_for_function(WAITING)
    assert "not saved yet" in page.locator(".tick").first.inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("5")
    assert place.rows("SELECT * FROM events WHERE task = ? AND kind = 'rate'", task) == []
    other = page.context.new_page()  # closed before anything could be sent
    page.close()
    other.set_default_timeout(PATIENCE_MS)
    other.goto(link)
    saved(other)
    stored = place.rows(
        "SELECT side, old, new FROM events WHERE task = ? AND kind = 'rate' ORDER BY id", task
    )
    assert stored == [(0, None, 2), (1, None, 5)]
    assert wait_for_item(other, "") == task
    assert other.locator("[aria-checked=true]").all_inner_texts() == ["2", "5"]


@pytest.mark.long
def test_the_tick_comes_only_after_the_commit(place, new_tab):
    page = new_tab(place.link())
    task = begin(page)
    saved(page)
    held, released = [], []
    page.route(
        "**/rate/api/events",
        lambda route: route.continue_() if released else held.append(route),
    )
    page.keyboard.press("3")
    page.wait_for_function(WAITING)
    assert "saved ✓" not in page.locator(".tick").first.inner_text()
    while not held:
        page.wait_for_timeout(20)
    assert place.rows("SELECT * FROM events WHERE task = ? AND kind = 'rate'", task) == []
    released.append(True)
    held[0].continue_()
    page.wait_for_function("() => document.querySelector('.tick').textContent.includes('saved ✓')")
    assert place.rows("SELECT new FROM events WHERE task = ? AND kind = 'rate'", task) == [(3,)]


@pytest.mark.long
def test_undo_skip_flag_and_the_keys(place, new_tab):
    page = new_tab(place.link(), reduced_motion="no-preference")
    task = begin(page)
    for key in ("2", "4", "u"):
        page.keyboard.press(key)
    saved(page)
    assert page.locator("[aria-checked=true]").all_inner_texts() == ["2"]
    page.keyboard.press("Enter")  # the other mask is not rated yet
    assert "Rate mask B first" in page.inner_text("#banner")
    page.keyboard.press("f")
    page.keyboard.type("the clip stutters 5 u s")
    page.get_by_role("button", name="Flag", exact=True).click()
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("3")  # not meant for the item behind
    page.keyboard.press("Escape")
    page.keyboard.press("Space")
    assert page.inner_text("#play") == "Play"
    page.keyboard.press("l")
    page.keyboard.press("z")
    assert page.get_attribute("#slow", "aria-pressed") == "true"
    assert page.locator("#views.zoomed").count() == 1
    page.keyboard.press("p")
    assert page.is_visible("#resting")
    page.click("#resume")
    page.keyboard.press("s")
    wait_for_item(page, task)
    saved(page)
    stored = place.rows("SELECT kind, new, note FROM events WHERE task = ? ORDER BY id", task)
    assert stored == [
        ("shown", None, None), ("rate", 2, None), ("rate", 4, None), ("undo", 2, None),
        ("flag", None, "the clip stutters 5 u s"), ("skip", None, None)]  # fmt: skip
    page.keyboard.press("u")  # nothing to undo here: back to the item before
    page.wait_for_function("task => document.body.dataset.item === task", arg=task)


@pytest.mark.long
def test_by_touch_on_a_phone(place, new_tab):
    how = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = new_tab(place.link(), **how)
    page.locator("#consent").tap()
    page.locator("#begin").tap()
    task = wait_for_item(page, "")
    page.locator(".scale").nth(0).get_by_text("4").tap()
    page.locator(".scale").nth(1).get_by_text("2").tap()
    saved(page)
    assert "look again" in page.inner_text("#feedback") or "yes." in page.inner_text("#feedback")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    for button in page.locator("button:visible").all():
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 44, button.inner_text()
    page.locator(".scale").nth(0).get_by_text("1").tap()  # its reasons stand above the other mask
    above = page.locator(".reasons").first.bounding_box()["y"]
    assert above < page.locator(".view").nth(2).bounding_box()["y"]
    page.locator(".scale").nth(0).get_by_text("4").tap()
    page.locator("#next").tap()
    wait_for_item(page, task)
    assert page.evaluate("scrollY") == 0  # the next question is in view
    saved(page)
    stored = place.rows("SELECT new FROM events WHERE task = ? AND kind = 'rate'", task)
    assert stored == [(4,), (2,), (1,), (4,)]


@pytest.mark.long
def test_nothing_stands_in_the_way_of_a_screen_reader(place, new_tab):
    from axe_playwright_python.sync_playwright import Axe

    page = new_tab(place.link())
    page.locator("h1:visible").wait_for()
    assert Axe().run(page).response["violations"] == []
    begin(page)
    page.keyboard.press("4")
    saved(page)
    page.keyboard.press("Tab")
    assert (
        page.evaluate("document.activeElement.closest('[role=radiogroup]').ariaLabel") == "Mask B"
    )
    names = [v["id"] for v in Axe().run(page).response["violations"]]
    assert names == []
    organiser = new_tab(place.link("organise", place.organiser_code))
    organiser.wait_for_selector("#study:not([hidden])")
    assert [v["id"] for v in Axe().run(organiser).response["violations"]] == []


@pytest.mark.long
def test_a_break_is_proposed_after_twenty_minutes(place, browser):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.clock.install()
    page.goto(place.link())
    begin(page)
    page.clock.run_for(19 * 60 * 1000)
    assert not page.is_visible("#break")
    page.clock.run_for(2 * 60 * 1000)
    page.wait_for_selector("#break:not([hidden])")
    page.click("#break-done")
    assert not page.is_visible("#break")
    context.close()
