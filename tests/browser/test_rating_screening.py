"""The question before the first screen, by keyboard alone at a phone's width; and erasing."""

import pytest

from macd_studio.ratings.screening import Screening
from macd_studio.ratings.store import Study
from tests.browser.test_rating import begin, saved, wait_for_item
from tests.browser.test_rating_ways import TOLD, Place, tab_of
from tests.ratings.studies import make_study

ASKED = Screening("Do you see colours?", ("some of them", "all of them"), 2, "SORRY-1",
                  "https://panel.example/out")  # fmt: skip
PHONE = {"viewport": {"width": 360, "height": 740}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = make_study(tmp_path_factory.mktemp("study"), 2, screening=ASKED)
    served = Place(path)
    served.organiser = f"{served.server.url}/organise#{make_study.last.organiser}"
    yield served
    served.server.end()


def answer(page, keys):
    """Consents, and answers by these keys alone; the question has the focus first."""
    page.check("#consent")
    page.click("#begin")
    page.wait_for_selector("#screening:not([hidden])")
    assert page.evaluate("document.activeElement.id") == "screening-question"
    for key in keys:
        page.keyboard.press(key)


def test_who_fails_gets_their_own_code_and_no_item(place, new_tab):
    page = new_tab(place.link(), **PHONE)
    answer(page, ("Tab", "Space"))
    labels = page.locator("#screening label")
    assert labels.all_inner_texts() == ["some of them", "all of them"]
    for box in (one.bounding_box() for one in (*labels.all(), page.locator("#screening-answer"))):
        assert box["height"] >= 44
        assert box["x"] + box["width"] <= 360
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not page.is_visible("#items-button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#completion:not([hidden])")
    assert page.inner_text("#completion-code") == "SORRY-1"
    assert page.get_attribute("#return-link", "href") == "https://panel.example/out"
    assert "cannot take part" in page.inner_text("#end-text")
    page.reload()
    page.wait_for_selector("#completion:not([hidden])")
    assert "cannot take part" in page.inner_text("#end-text")
    assert not page.is_visible("#items-button")
    kinds = place.stored("SELECT kind, new FROM events ORDER BY id DESC LIMIT 2")
    assert kinds == [("screening", 1), ("consent", None)]


def test_who_passes_rates_and_the_same_key_twice_is_one_rating(place, new_tab):
    page = new_tab(place.link(), **PHONE)
    answer(page, ("Enter",))  # nothing chosen: still asked
    assert page.is_visible("#screening")
    for key in ("Tab", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    task = wait_for_item(page, "")
    for key in ("4", "4", "Tab", "2", "2"):
        page.keyboard.press(key)
    saved(page)
    rated = "SELECT side, old, new FROM events WHERE task = ? AND kind = 'rate' ORDER BY id"
    assert place.stored(rated, task) == [(0, None, 4), (1, None, 2)]


@pytest.mark.long
def test_an_answer_that_is_not_saved_yet_waits_for_the_server(place, new_tab):
    page = new_tab(place.link())
    page.route("**/rate/api/events", lambda route: route.abort())
    answer(page, ("Tab", "ArrowDown", "Enter"))
    page.wait_for_function(TOLD, arg="Not saved yet")
    assert page.is_disabled("#screening-answer")
    page.reload()
    page.wait_for_selector("#screening:not([hidden])")
    assert page.locator("#screening input").nth(1).is_checked()
    assert page.is_disabled("#screening-answer")
    page.unroute("**/rate/api/events")
    wait_for_item(page, "")


@pytest.mark.long
def test_another_tab_goes_on_too(place, new_tab):
    link = place.link()
    one = new_tab(link)
    answer(one, ())
    two = tab_of(one, link)
    two.wait_for_selector("#screening:not([hidden])")
    one.bring_to_front()
    for key in ("Tab", "ArrowDown", "Enter"):
        one.keyboard.press(key)
    task = wait_for_item(one, "")
    two.bring_to_front()
    two.reload()
    assert wait_for_item(two, "") == task


@pytest.mark.long
def test_the_organiser_erases_a_rater_after_a_question(place, new_tab):
    with Study(place.path) as study:
        (code,) = study.invite(1)
        name = study.rater_of(code).name
    rater = new_tab(f"{place.server.url}/rate#{code}")
    answer(rater, ("Tab", "ArrowDown", "Enter"))
    wait_for_item(rater, "")
    rater.keyboard.press("3")
    saved(rater)
    page = new_tab(place.organiser)
    button = page.get_by_role("button", name=f"Erase {name}")
    asked = []

    def refuse(dialog):
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", refuse)
    button.click()
    assert "cannot be taken back" in asked[0]
    assert place.stored("SELECT count(*) FROM events WHERE kind = 'erased'") == [(0,)]
    page.once("dialog", lambda dialog: dialog.accept())
    button.click()
    button.wait_for(state="detached")
    assert "Erased on request: 1." in page.inner_text("#summary")
    assert place.stored("SELECT count(*) FROM events WHERE kind = 'erased'")[0][0] >= 4
    rater.keyboard.press("4")
    rater.wait_for_function(TOLD, arg="opens no study")


@pytest.mark.long
def test_the_question_is_no_obstacle_to_a_screen_reader(place, new_tab):
    from axe_playwright_python.sync_playwright import Axe

    page = new_tab(place.link())
    answer(page, ())
    assert [v["id"] for v in Axe().run(page).response["violations"]] == []
    assert page.get_by_role("radiogroup", name="Do you see colours?").count() == 1
    assert page.get_by_role("radio", name="all of them").count() == 1


@pytest.mark.long
def test_a_study_without_a_question_begins_at_once(tmp_path, new_tab):
    plain = Place(make_study(tmp_path, 1))
    try:
        page = new_tab(plain.link())
        assert begin(page)
        assert not page.is_visible("#screening")
    finally:
        plain.server.end()
