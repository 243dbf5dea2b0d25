"""A study of a folder of clips by one command, rated to the end in a browser, with reasons."""

import shutil

import pytest

from macd_studio.core.system.shipped import assets
from macd_studio.ratings.cli import main as create_by
from macd_studio.ratings.events import REASONS
from macd_studio.ratings.report import figures
from macd_studio.ratings.store import Study
from tests.browser.conftest import free_port
from tests.browser.test_rating import Place, begin, saved, wait_for_item


@pytest.mark.long
def test_a_folder_of_clips_is_rated_to_the_end_with_reasons(tmp_path, new_tab, capsys):
    """One command makes the study; two raters go through it by keys and clicks."""
    examples, folder = assets() / "examples", tmp_path / "clips"
    folder.mkdir()
    names = ("repaired", "harmed", "unchanged")
    for name in names:
        shutil.copy(examples / f"{name}.mp4", folder)
    path = tmp_path / "study.db"
    words = f"create {path} --clips {folder} --detector toyworld --device cpu --seed 1 --repeat 0"
    question = "Which animal is in the video?"
    assert create_by([*words.split(), "--question", question]) == 0
    assert "3 items of 3 stay" in capsys.readouterr().out
    place = Place.__new__(Place)
    place.path, place.port = path, free_port()
    place.start()
    try:
        page = new_tab(place.link())
        task, pressed = begin(page), []
        while task is not None:
            page.keyboard.press("2")
            reasons = page.locator("#views .reasons:visible")
            assert reasons.count() == 1
            page.keyboard.press("m")
            page.keyboard.press("w")
            page.keyboard.press("w")  # taken back
            reasons.get_by_role("button", name="misses it at times").click()
            pressed += ["missed", "lost"]
            page.keyboard.press("Tab")
            page.evaluate("document.querySelectorAll('.scale')[1].querySelector('button').focus()")
            page.keyboard.press("4")
            page.keyboard.press("o")  # no reason is asked for
            assert page.locator("#views .reasons:visible").count() == 1
            page.locator("#next").click()
            task = wait_for_item(page, task)
        saved(page)
        with Study(path, write=False) as study:
            report = figures(study, 50)
        rows = report["reasons"].values()
        assert sum(r["low"] for r in rows) == 3
        given = {w: sum(r["given"][w] for r in rows) for w in REASONS}
        assert given == {w: pressed.count(w) for w in REASONS}
        assert sum(r["without"] for r in rows) == 0
    finally:
        place.end()
