"""The soak run's visitors fire the page's own events; the server is the browser tests'."""

import random
from collections import Counter

import pytest

from bench.soak import QUESTIONS, Material, visit
from bench.visitor import Visitor
from macd_studio.macd_ui.examples import examples

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_a_visitor_runs_changes_and_opens(server, toy_mp4):
    with Visitor(server, random.Random(0)) as visitor:
        visitor.fill(visitor.upload(toy_mp4), elem_id="video")
        visitor.event("upload")
        visitor.fill(None, elem_id="example")
        visitor.fill(QUESTIONS[1], elem_id="question")
        shown = visitor.event("run")
        assert shown["status"]["stage"] == "done"
        assert shown["trace"]["question"] == QUESTIONS[1]
        assert shown["trace"]["clip"] == toy_mp4.name
        edit = {"kind": "frames", "track": 0, "level": 0.25}
        changed = visitor.event("act", {"do": "edit", "run": visitor.run_id, "edit": edit})
        assert not changed["status"].get("error")
        other = examples()[2]
        visitor.fill(visitor.upload(other.trace), elem_id="open")
        assert visitor.event("reopen")["trace"]["question"] == other.question


@pytest.mark.long
def test_what_visitors_do_is_counted(server, toy_mp4):
    done = sum(
        (visit(server, seed, Material([toy_mp4], [examples()[0].trace])) for seed in (6, 8)),
        Counter(),
    )
    assert done["run"] == 2
    assert not done["failed"]
