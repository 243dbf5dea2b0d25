"""What the viewer and the course show while each control is used once is what was kept of it."""

from difflib import unified_diff
from itertools import islice

import pytest

from tests.browser.crawl import CHAPTERS, SHOWN, VIEWERS, WINDOW, chapter, viewer
from tests.samples import sampled

TOLD = 40  # lines of a difference


def held(name, lines):
    kept = (SHOWN / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found = list(islice(unified_diff(kept, lines, "kept", "now", n=1, lineterm=""), TOLD))
    assert not found, "\n".join([
        "", *found, "", f"If this is as it should be: python -m tests.browser.crawl {name}",
    ])  # fmt: skip


@pytest.mark.parametrize("name", sampled(VIEWERS, ["measured"]))
def test_the_viewer_shows_what_it_showed(new_tab, name):
    held(name, viewer(new_tab(folds="", **WINDOW), name))


@pytest.mark.parametrize("name", sampled(CHAPTERS, ["05-contrast"]))
def test_a_chapter_shows_what_it_showed(new_tab, course, name):
    held(name, chapter(new_tab(folds="", **WINDOW), course, name))
