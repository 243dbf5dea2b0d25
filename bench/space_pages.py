"""What `bench.space_check` does on a Space's page as a visitor, a reader of the course, a rater."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from bench.server import ROOT
from bench.space import WAIT_S, Space
from macd_studio.ratings.store import Study

SAVED = "() => document.getElementById('saved').textContent.startsWith('All saved')"
SETTLED = """([changes, level]) => document.querySelectorAll('.mv-edits li').length === changes
  && document.querySelector('.mv-object .mv-level').innerText.trim().startsWith(level)
  && !document.querySelector('.mv-whatif .mv-segments button').disabled"""
OPEN_ITEM = "task => document.body.dataset.item && document.body.dataset.item !== task"


@contextmanager
def visit(page: Page) -> Iterator[Page]:
    """A page that is closed in the end, and in which no script failed meanwhile."""
    page.set_default_timeout(1000 * WAIT_S)
    problems: list[str] = []
    page.on("pageerror", lambda e: problems.append(str(e)))
    try:
        yield page
        assert not problems, problems[0]
    finally:
        page.close()


def open_form(page: Any) -> None:
    """Unfolds the form, which is folded away after a run."""
    fold = page.locator("#open-form[aria-expanded=false]")
    if fold.count():
        fold.click()


def run(page: Any, question: str, method: str = "") -> None:
    """Asks a question about the form's clip, and waits for the answer of MACD and of `method`."""
    open_form(page)
    if method:
        page.click("#settings button >> nth=0")
        page.click("#compare button >> nth=0")
        page.get_by_label(method, exact=True).check()
    page.locator("#question textarea").fill(question)
    page.locator("#run").click()
    page.wait_for_function(
        """(question) => document.querySelector('.mv-question').textContent === question
          && document.querySelector('.mv-strip[data-method=macd] .mv-token')
          && !document.querySelector('#run').disabled""",
        arg=question,
    )


def rescore(page: Page) -> str:
    """Moves α to 0 on the shown run: MACD's first token is the baseline's. Gives that token."""
    base, macd = (
        page.locator(f".mv-strip[data-method={m}] .mv-token").first for m in ("baseline", "macd")
    )
    wanted = base.inner_text()
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    shown = macd.inner_text().rpartition("→ ")[2]
    assert shown == wanted, f"{shown!r} instead of {wanted!r}"
    return wanted


def change_level(page: Page) -> str:
    """Sets the first object of the shown run to another level by hand, and takes it back."""
    page.locator(".mv-whatif > summary").click()
    page.locator(".mv-object").first.click()
    level = page.locator(".mv-object .mv-level").first
    before = level.inner_text().split()[0]
    wanted = "1 masked" if before == "0" else "0 kept"
    page.locator(".mv-edit-object").get_by_role("button", name=wanted).click()
    page.wait_for_function(SETTLED, arg=[1, wanted[0]])
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function(SETTLED, arg=[0, before])
    return f"{before} to {wanted[0]} and back"


def compare(page: Page, question: str) -> str:
    """Runs another method beside; gives how many answers stand side by side."""
    run(page, question, "VCD")
    page.wait_for_selector(".mv-methods tr[data-method=vcd]")
    return f"{page.locator('.mv-methods tbody tr').count()} answers"


def learn(page: Page, space: Space) -> str:
    """Predicts in the course's first chapter that asks, and sees what is behind it."""
    with visit(page):
        page.goto(f"{space.url}learn")
        page.wait_for_selector("#chapters a")
        chapter = page.locator("#chapters a").nth(1)
        title = chapter.inner_text()
        chapter.click()
        page.wait_for_selector(".ln-predict")
        assert not page.locator(".ln-explanation").count(), "the answer stands before the question"
        page.locator("form:not(.ln-locked) .ln-options input").first.check()
        page.locator("form:not(.ln-locked) .ln-sure input").first.check()
        page.locator("form:not(.ln-locked) .ln-main-button").click()
        page.wait_for_selector(".ln-explanation")
    return " ".join(title.split())


def study_file(space: Space) -> Path:
    """Where the Space keeps the study that it serves."""
    return space.writable[0] / "study.db"


def make_study(space: Space) -> dict[str, str]:
    """A study of the shipped examples where the Space may write; for `Space(prepare=…)`."""
    command(space, "create", "--examples")
    return {"MACD_STUDY": str(study_file(space)), "MACD_ONLY_STUDY": "1"}


def command(space: Space, what: str, *more: str) -> str:
    """`python -m ratings`, on the Space's study; gives what it prints."""
    words = [sys.executable, "-m", "ratings", what, str(study_file(space)), *more]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def rate(page: Page, space: Space) -> str:
    """Consents and rates one screen by keys; both ratings must be in the study's file."""
    code = command(space, "invite").strip().rpartition("#")[2]
    space.give_away()
    with visit(page):
        page.goto(f"{space.url}rate#{code}")
        page.check("#consent")
        page.click("#begin")
        page.wait_for_function(OPEN_ITEM, arg="")
        item = page.evaluate("document.body.dataset.item")
        for key in ("2", "Tab", "4", "Enter"):
            page.keyboard.press(key)
        page.wait_for_function(OPEN_ITEM, arg=item)
        page.wait_for_function(SAVED)
        assert page.request.get(space.url).url == f"{space.url}rate", "the page is shown to raters"
    with Study(study_file(space), write=False) as study:
        rows = study.rows("SELECT new FROM events WHERE kind = 'rate' ORDER BY id")
    stored = [int(row["new"]) for row in rows]
    assert stored == [2, 4], f"the study holds {stored}"
    return "2 ratings stored"
