"""Examples say how they were chosen, and a bad index costs no more than its own rows."""

import json

import pytest

from macd_studio.macd_ui.examples import examples_in

ROW = {"title": "A title", "question": "Is it?", "truth": "It is.", "video": "a.mp4"}


@pytest.mark.parametrize(
    ("counts", "ending"),
    [
        ({}, "It is."),
        ({"tries": 1200}, "the first of 1,200 drawn clips that shows it."),
        ({"tries": True}, "It is."),
        ({"tries": -1}, "It is."),
        ({"tries": "7"}, "It is."),
    ],
)
def test_the_message_says_how_an_example_was_chosen(tmp_path, counts, ending):
    (tmp_path / "a.mp4").touch()
    (tmp_path / "index.json").write_text(json.dumps([ROW | counts, {"title": "no video"}]))
    (example,) = examples_in(tmp_path)
    assert ending in example.message
    assert ("Chosen by its outcome" in example.message) == ("first of" in ending)
