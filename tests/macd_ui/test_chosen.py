"""How an example was chosen: told with its counts, and its clips that were not chosen."""

import json

import pytest

from macd_studio.core.embedded import AUTO, DRAWN
from macd_studio.core.media.video import read_clip
from macd_studio.macd_ui import chosen, sentences
from macd_studio.macd_ui.chosen import MAX_BYTES, Search, search_of
from macd_studio.macd_ui.examples import SHIPPED, Example, examples_in
from macd_studio.macd_ui.forms import form_values
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.random_clips import RandomClip
from macd_studio.toyworld.example_draws import searched_case
from tests.macd_ui.test_form import FORM

COUNTS = {"clips": 4000, "errs": 400, "repairs": 3, "watched": 90, "spoils": 2, "any_mask": 1,
          "seed": 2026, "numbers": [7, 8, 3001]}  # fmt: skip


ROW = {"search": "search.json", "draws": {"random-place": [34, 200]}}


def written(folder, **other):
    (folder / "search.json").write_text(json.dumps(COUNTS | other))
    return search_of(ROW, folder)


def test_the_counts_are_told_as_they_were_saved(tmp_path):
    search = written(tmp_path)
    text = search.payload()["more"]
    for part in ("1 of 4,000 drawn clips", "errs in 400", "repairs 3", "spoils 2 of 90",
                 "In 1 of the 3", "34 of 200 random-place masks"):  # fmt: skip
        assert part in text
    assert search.payload()["button"] == "A typical clip"


def test_the_shipped_opening_example_is_told_with_its_search():
    first, *others = examples_in(SHIPPED)
    assert first.search is not None
    assert first.name == "repaired"
    assert f"1 of {first.search.clips:,} drawn clips" in first.search.payload()["more"]
    assert all(example.search is None for example in others)
    assert "Chosen by its outcome" not in first.message
    assert all("Chosen by its outcome, the first of" in example.message for example in others)


@pytest.mark.parametrize(
    "other",
    [
        {"clips": -1}, {"errs": "4"}, {"numbers": []}, {"numbers": [1.5]}, {"numbers": [10**9]},
        {"numbers": 5}, {"spoils": True}, {"seed": None},
    ],
)  # fmt: skip
def test_a_search_that_is_not_as_it_should_be_is_left_out(tmp_path, other):
    assert written(tmp_path) is not None
    assert written(tmp_path, **other) is None


def test_what_an_index_names_stays_in_its_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "search.json").write_text(json.dumps(COUNTS))
    for name in ("../search.json", str(tmp_path / "search.json"), "none.json", "", 5, None):
        assert search_of({"search": name}, tmp_path / "in") is None
    assert search_of({"search": "search.json", "draws": [1]}, tmp_path) is None
    (tmp_path / "search.json").write_text(json.dumps(COUNTS | {"x": "x" * MAX_BYTES}))
    assert search_of(ROW, tmp_path) is None


def test_a_typical_clip_is_one_of_all_repairs(tmp_path, monkeypatch):
    search, drawn = written(tmp_path), set()
    monkeypatch.setattr(chosen, "write_clip", lambda spec, folder, name: drawn.add(name) or name)
    for _ in range(60):
        search.draw(tmp_path)
    assert drawn == {"repair-7", "repair-8", "repair-3001"}


@pytest.mark.long
def test_a_typical_clip_is_drawn_as_a_file(tmp_path):
    one = Search(**COUNTS | {"numbers": (7,)}).draw(tmp_path)
    case = searched_case(7)
    assert (one.question, one.truth) == (case.question, case.truth)
    assert read_clip(one.video).title == DRAWN


def test_a_typical_clip_runs_with_the_settings_of_the_search(store, make_video, monkeypatch):
    search = Search(**COUNTS | {"numbers": tuple(COUNTS["numbers"])})
    example = Example("t", "is it?", "", make_video(), None, "yes", search=search)
    handlers = make_handlers(store, [example])

    def drawn(self, folder):
        video = make_video("repair-7.mp4")
        return RandomClip(7, str(video), "Is there a dog in the video?", "yes", "One of 3.")

    monkeypatch.setattr(Search, "draw", drawn)
    values = FORM | {"video": None, "example": 0, "alpha": 3.0, "methods": ["vcd"]}
    updates = list(handlers.runs.typical(values, "me"))
    form = next(u for u in updates if "question" in u)
    expected = form_values() | {"methods": [], "backbone": AUTO, "detector": AUTO}
    assert {name: form[name] for name in expected} == expected
    session = store.sessions.open("me")
    assert (session.trace.truth, session.trace.answers["macd"].alpha) == ("yes", 1.0)
    assert not any(u.get("tally") for u in updates)  # the count of random draws is of those
    shown = updates[-1]["viewer"]["trace"]
    assert shown["chosen"] == {
        "text": sentences.CHOSEN_AT_RANDOM,
        "more": "One of 3.",
        "button": "A typical clip",
    }


def test_a_page_without_a_search_says_so(store, make_video):
    handlers = make_handlers(store, [Example("t", "is it?", "", make_video(), None, "yes")])
    *_, last = handlers.runs.typical(FORM, "me")
    assert "No search was saved" in last["viewer"]["status"]["error"]
