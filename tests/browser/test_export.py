"""The exported page, opened from disk without a network."""

from dataclasses import replace

import pytest

from macd_ui.viewer import standalone
from tests.core.test_bundle import make_trace

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)> ${7*7} {{7*7}} `x` \\ </script> DATA SCRIPT STYLE"


def test_it_opens_from_disk_and_shows_hostile_strings_as_text(browser, tmp_path):
    trace = make_trace(tmp_path)
    macd = trace.answers["macd"]
    first = replace(macd.tokens[0], text=HOSTILE)
    trace = replace(
        trace,
        question=HOSTILE,
        tracks=tuple(replace(t, label=HOSTILE) for t in trace.tracks),
        warnings=(HOSTILE,),
        answers=trace.answers | {"macd": replace(macd, tokens=(first, *macd.tokens[1:]))},
    )
    path = tmp_path / "trace.html"
    path.write_text(standalone(trace), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    problems = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("dialog", lambda d: problems.append("a script ran"))
    page.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:")) else problems.append(r.url),
    )
    page.goto(path.as_uri())
    assert page.locator(".mv-question").inner_text() == HOSTILE
    assert HOSTILE in page.locator(".mv-notes").inner_text()
    assert HOSTILE in page.locator(".mv-object-name").first.inner_text()
    assert page.locator(".mv-root img").count() == 0
    page.locator(".mv-root").focus()
    page.keyboard.press("ArrowRight")
    assert "frame 2 of 4" in page.locator(".mv-stage .mv-caption").inner_text()
    context.close()
    assert not problems
