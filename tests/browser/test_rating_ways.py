"""Ways through the rating page: back to items, other tabs, Back, pairs, participants, a phone."""

import pytest

from macd_studio.ratings.create import StudyPlan, create_study
from macd_studio.ratings.store import Study
from macd_studio.viewer import JS, bundle
from tests.browser.test_rating import begin, rate_item, saved, wait_for_item
from tests.patience import PATIENCE_MS
from tests.ratings.killable import Server
from tests.ratings.studies import make_study, source

QUEUE = JS.parents[1] / "ratings" / "page" / "queue.js"
TOLD = "words => document.getElementById('banner').textContent.includes(words)"
OPENED = "task => document.body.dataset.item === task"


def test_more_than_ten_events_that_wait_are_sent_in_their_order(bare):
    sent = bare.evaluate(
        f"""async () => {{
          const {{ Queue }} = {bundle(QUEUE)}, sent = [];
          const queue = new Queue("study", async (events) => {{
            sent.push(...events.map(({{ count }}) => count));
            return {{ outcomes: events.map(({{ uuid }}) => ({{ uuid, committed: true }})) }};
          }}, () => {{}});
          for (let i = 0; i < 12; i++) queue.add({{ kind: "rate" }});
          await queue.flush();
          return sent;
        }}"""
    )
    assert sent == list(range(12))


def test_items_are_numbered_after_the_training_and_open_as_far_as_they_were_reached(bare):
    listed = bare.evaluate(
        f"""() => {{
          const {{ listItems }} = {bundle(QUEUE.with_name("tasks.js"))}, list = document.body;
          const tasks = [[2, 4], [5, null], [null, null], [null, null]].map((ratings, i) => (
            {{ kind: i ? "item" : "training", ratings, preference: null, done: i < 2 }}));
          listItems(list, tasks, 1, () => {{}});
          return [...list.children].map(({{ textContent, disabled, ariaCurrent }}) => (
            `${{textContent}}${{disabled ? ", closed" : ""}}${{ariaCurrent ? ", now" : ""}}`));
        }}"""
    )
    assert listed == ["Training 1: 2 · 4", "1: 5 · –, now", "2: not yet", "3: not yet, closed"]


class Place:
    """A server of one study and nothing else."""

    def __init__(self, path):
        self.path = path
        self.server = Server(path)
        self.server.start()

    def link(self):
        with Study(self.path) as study:
            (code,) = study.invite(1)
        return f"{self.server.url}/rate#{code}"

    def stored(self, sql, *values):
        with Study(self.path, write=False) as study:
            return [tuple(row) for row in study.rows(sql, *values)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    served = Place(make_study(tmp_path_factory.mktemp("study"), 3))
    yield served
    served.server.end()


def tab_of(page, url):
    other = page.context.new_page()
    other.set_default_timeout(PATIENCE_MS)
    other.goto(url)
    return other


def test_any_own_item_can_be_changed_until_the_end_is_confirmed(place, new_tab):
    page = new_tab(place.link())
    first = task = begin(page)
    while task is not None:
        task = rate_item(page, task, (2, 4))
    assert page.is_visible("#review")
    assert page.locator("#review-list button").all_inner_texts() == [
        "1: 2 · 4", "2: 2 · 4", "3: 2 · 4"]  # fmt: skip
    page.click("#review-list button >> nth=0")
    page.wait_for_function(OPENED, arg=first)
    assert page.locator("[aria-checked=true]").all_inner_texts() == ["2", "4"]
    page.keyboard.press("5")
    page.keyboard.press("Enter")
    page.wait_for_selector("#review:not([hidden])")
    assert page.locator("#review-list button").first.inner_text() == "1: 5 · 4"
    page.go_back()  # the item before, not out of the study
    page.wait_for_function(OPENED, arg=first)
    page.keyboard.press("u")  # what was given when the item was open before is no step of now
    page.wait_for_function(TOLD, arg="nothing to undo")
    page.click("#items-button")
    page.locator("#items-list button").nth(2).click()
    page.wait_for_function("task => document.body.dataset.item !== task", arg=first)
    page.keyboard.press("s")
    page.wait_for_selector("#review:not([hidden])")
    assert page.locator("#review-list button").nth(2).inner_text() == "3: cannot judge"
    page.click("#finish")
    page.wait_for_selector("#end:not([hidden])")
    saved(page)
    page.reload()
    page.wait_for_selector("#end:not([hidden])")
    assert not page.is_visible("#items-button")
    rated = place.stored(
        "SELECT old, new, conflict FROM events WHERE task = ? AND kind = 'rate' ORDER BY id", first
    )
    assert rated == [(None, 2, 0), (None, 4, 0), (2, 5, 0)]
    assert place.stored("SELECT count(*) FROM events WHERE kind = 'finish'") == [(1,)]


@pytest.mark.long
def test_tabs_follow_the_newest(place, new_tab):
    link = place.link()
    one = new_tab(link)
    task = begin(one)
    two = tab_of(one, link)
    assert wait_for_item(two, "") == task
    after = rate_item(one, task, (3, 1))
    two.wait_for_function(OPENED, arg=after)  # the other tab goes on too
    one.keyboard.press("4")
    two.wait_for_function(
        "() => document.querySelector('[aria-checked=true]')?.textContent === '4'"
    )
    two.keyboard.press("Tab")
    two.keyboard.press("2")
    one.wait_for_function("() => document.querySelectorAll('[aria-checked=true]').length === 2")
    saved(one)
    saved(two)
    conflicts = place.stored("SELECT count(*) FROM events WHERE conflict = 1")
    assert conflicts == [(0,)]


@pytest.mark.long
def test_back_leads_to_the_item_before_and_never_out(place, new_tab):
    page = new_tab("about:blank")
    page.goto(place.link())
    first = begin(page)
    second = rate_item(page, first, (1, 5))
    page.evaluate("location.assign(location.href)")  # the link once more: not a way back
    page.wait_for_timeout(300)
    assert page.evaluate("document.body.dataset.item") == second
    assert "close the tab" not in page.locator("#banner").inner_text()
    page.go_back()
    page.wait_for_function(OPENED, arg=first)
    for _ in range(3):
        page.go_back()
        page.wait_for_function(TOLD, arg="close the tab")
    assert page.url.startswith(place.server.url)
    assert page.locator("[aria-checked=true]").all_inner_texts() == ["1", "5"]


@pytest.mark.long
def test_a_message_wipes_no_other_s(place, new_tab):
    page = new_tab(place.link())
    begin(page)
    saved(page)
    page.route("**/rate/api/events", lambda route: route.abort())
    page.keyboard.press("2")
    page.wait_for_function(TOLD, arg="Not saved yet")
    page.keyboard.press("Enter")
    banner = page.inner_text("#banner")
    assert "Rate mask B first" in banner
    assert "Not saved yet" in banner
    page.keyboard.press("Tab")
    page.keyboard.press("3")
    assert "Rate mask B" not in page.inner_text("#banner")
    assert "Not saved yet" in page.inner_text("#banner")


@pytest.mark.long
def test_a_rater_who_has_rated_everything_learns_that_the_study_was_closed(tmp_path, new_tab):
    place = Place(make_study(tmp_path, 2))
    try:
        page = new_tab(place.link())
        task = begin(page)
        while task:
            task = rate_item(page, task, (3, 4))
        saved(page)
        with Study(place.path) as study:
            study.control("closed")
        page.reload()
        page.get_by_text("The study is closed").wait_for()
        assert not page.is_visible("#finish")
        assert "What you gave is saved" in page.inner_text("#end")
    finally:
        place.server.end()


@pytest.mark.long
def test_a_flag_is_of_the_item_on_the_screen(tmp_path, new_tab):
    """While the next one is waited for, and if it comes while the note is written."""
    place = Place(make_study(tmp_path, 4))
    try:
        page = new_tab(place.link())
        task = begin(page)
        page.wait_for_load_state("networkidle")  # the second item is there too
        page.route("**/rate/api/item/**", lambda route: route.abort())
        page.route("**/rate/api/events", lambda route: route.abort())
        task = rate_item(page, task, (3, 4))
        for key in ("3", "Tab", "4", "Enter"):
            page.keyboard.press(key)
        page.wait_for_function(TOLD, arg="the next item is asked for again")
        page.wait_for_function(TOLD, arg="Not saved yet")
        assert page.inner_text("#banner").count("cannot be reached") == 1
        page.click("#flag")
        page.keyboard.type("it flickers")
        page.unroute("**/rate/api/item/**")
        page.unroute("**/rate/api/events")
        page.wait_for_function("task => document.body.dataset.item !== task", arg=task)
        page.get_by_role("button", name="Flag", exact=True).click()
        page.wait_for_function(TOLD, arg="Flagged for the organiser")
        saved(page)
        assert place.stored("SELECT task FROM events WHERE kind = 'flag'") == [(task,)]
    finally:
        place.server.end()


@pytest.mark.long
def test_a_closed_study_says_so_and_promises_nothing(tmp_path, new_tab):
    place = Place(make_study(tmp_path, 6))
    try:
        page = new_tab(place.link())
        task = begin(page)
        saved(page)
        with Study(place.path) as study:
            study.control("paused")
        page.reload()
        page.wait_for_function(TOLD, arg="is asked for again")
        with Study(place.path) as study:
            study.control("closed")
        page.get_by_text("closed and takes no more ratings").wait_for()
        told = page.inner_text("body")
        assert "You can close this page." in told
        wrong = ("later", "asked for again", "Come back", "I am finished", "Go back to any item")
        wrong += ("What you gave",)  # nothing was
        assert not [w for w in wrong if w in told]
        assert not page.is_visible("#items-button")
        with Study(place.path) as study:
            study.control("open")
        assert wait_for_item(page, "") == task  # where the organiser opens it again
    finally:
        place.server.end()


@pytest.mark.long
def test_pairs_by_keys_and_by_clicks(tmp_path, new_tab):
    place = Place(make_study(tmp_path, 3, scale="pairs"))
    try:
        page = new_tab(place.link())
        first = task = begin(page)
        assert "better" in page.inner_text("#criterion-of-pairs")
        assert not page.is_visible("#criterion")
        page.keyboard.press("?")
        told = page.inner_text("#help")
        assert "no difference" in told
        assert not [w for w in ("after a 1 or 2", "reasons", "other mask", "rate the") if w in told]
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        assert "Say which mask is better first" in page.inner_text("#banner")
        given = []
        for press, stored in ((lambda: page.keyboard.press("1"), 1),
                              (lambda: page.get_by_role("radio", name="No difference").click(), 0),
                              (lambda: page.keyboard.press("2"), 2)):  # fmt: skip
            press()
            saved(page)
            given.append((task, stored))
            page.keyboard.press("Enter")
            task = wait_for_item(page, task)
        assert page.locator("#review-list button").all_inner_texts() == [
            "1: A is better", "2: No difference", "3: B is better"]  # fmt: skip
        page.click("#review-list button >> nth=0")
        page.wait_for_function(OPENED, arg=first)
        page.keyboard.press("2")
        page.keyboard.press("u")
        saved(page)
        rows = place.stored("SELECT task, old, new FROM events WHERE kind = 'prefer' ORDER BY id")
        assert rows == [(t, None, n) for t, n in given] + [(first, 1, 2), (first, 2, 1)]
    finally:
        place.server.end()


@pytest.mark.long
def test_a_participant_comes_by_a_link_and_gets_a_completion_code(tmp_path, new_tab):
    place = Place(make_study(tmp_path, 2))
    try:
        with Study(place.path) as study:
            study.complete_with("DONE77", "https://panel.example/back")
            code = study.recruit()
        link = f"{place.server.url}/rate?participant=P-1#{code}"
        page = new_tab(link)
        page.wait_for_selector("#instructions:not([hidden])")
        assert "The id in your link is kept" in page.inner_text("#instructions-text")
        task = begin(page)
        while task is not None:
            task = rate_item(page, task, (2, 3))
        page.click("#finish")
        page.wait_for_selector("#completion:not([hidden])")
        assert page.inner_text("#completion-code") == "DONE77"
        assert page.get_attribute("#return-link", "href") == "https://panel.example/back"
        again = new_tab(link)  # another device
        again.wait_for_selector("#completion:not([hidden])")
        bad = new_tab(f"{place.server.url}/rate?participant=a%20b#{code}")
        bad.wait_for_function(TOLD, arg="id is not one")
        assert place.stored("SELECT count(*) FROM raters") == [(1,)]
    finally:
        place.server.end()


@pytest.mark.long
@pytest.mark.parametrize(("scale", "wanted"), [
    ("ratings", ["Rated 4 to 5", "Rated 1 to 2"]),
    ("pairs", ["The better mask", "The worse mask"])])  # fmt: skip
def test_the_organiser_confirms_what_is_proposed_after_seeing_it(tmp_path, new_tab, scale, wanted):
    path = tmp_path / "s.db"
    made = create_study(
        path, [source(1), source(2)], StudyPlan(seed=1, repeat=0.0, proposed=2, scale=scale)
    )
    place = Place(path)
    try:
        page = new_tab(f"{place.server.url}/organise#{made.organiser}")
        page.wait_for_selector("#proposed:not([hidden])")
        one = page.locator(".proposal").first
        captions = one.locator("figcaption").all_inner_texts()
        assert [c.split(":")[0] for c in captions[1:]] == wanted
        assert one.get_by_role("button", name="Hidden").is_disabled()
        one.get_by_role("button", name="Show the pictures").click()
        one.get_by_role("button", name="Hidden").click()
        one.locator("[data-role=gold][aria-pressed=true]").wait_for()
        with Study(path) as study:
            assert list(study.confirmed().values()) == ["gold", ""]
        page.reload()
        page.locator(".proposal [data-role=gold][aria-pressed=true]").wait_for()
    finally:
        place.server.end()
