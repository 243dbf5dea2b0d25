"""Sentences of the page that depend on what they are told."""

import errno

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions
from macd_studio.core.run.spec import RunSpec
from macd_studio.macd_ui import sentences as say
from macd_studio.macd_ui.forms import RunRequest, difference

DIFFERS = "The form differs from what is shown:"
CASES = [
    (say.of_error(OptionError("the value is b", "Do c")), "The value is b. Do c."),
    (say.of_error(OptionError("clip.mp4 is b", "Do c")), "clip.mp4 is b. Do c."),
    (say.of_error(OSError(errno.ENOSPC, "")), say.FULL_DISK),
    (say.of_error(OSError(errno.EDQUOT, "")), say.FULL_DISK),
    (say.of_error(OSError(errno.EACCES, "")), None),
    (say.of_error(ValueError("secret")), None),
    (say.run_ended("complete", 60), ""),
    (say.run_ended("cancelled"), "This run was cancelled. What was computed is shown."),
    (say.run_ended("stopped: detect"),
     "This run was stopped while objects were looked for. What was computed is shown."),
    (say.run_ended("stopped: load", None, True),
     "The server was ended, and this run with it, while the backbone was loaded. What was computed"
     " is shown. Press Run to start it again once the server is back."),
    (say.run_ended("cancelled", 60),
     "Stopped: this server gives each run 60 s, and this one took longer."
     " What was computed is shown."),
    (say.place_in_queue(0, 9.0), "Waiting until the models are ready"),
    (say.place_in_queue(3, 0.2), "Waiting: 3 runs before yours, about 1 s"),
    (say.with_time("Decoding", 0.1, 9.0), "Decoding · about 1 s left"),
    (say.with_time("Decoding", None, 7.6), "Decoding · 8 s so far"),
    (say.with_time("Decoding", None, 0.9), "Decoding"),
    (say.stopped_by_reload(" ")[0], "reloading the page stopped the run"),
    (say.shortened("x" * 81), "x" * 79 + "…"),
    (say.shortened(" a\n b "), "a b"),
    (say.other_settings([], False), ""),
    (say.other_settings(["a"], True),
     f"{DIFFERS} Run would use a and leave out the changes made by hand."),
    (say.other_settings(list("abcd"), False), f"{DIFFERS} Run would use a, b, c, d."),
    (say.other_settings(list("abcdef"), False), f"{DIFFERS} Run would use a, b, c, d, and 2 more."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_each_case_has_its_sentence(text, wanted):
    assert text == wanted


def test_a_form_is_compared_with_what_is_shown_in_that_order():
    options = RunOptions(seed=3)
    shown = RunRequest("a.mp4", "1", RunSpec("why?", RunOptions(), ("vcd",), "A", "/x/old.pt"))
    asked = RunRequest("a.mp4", "1", RunSpec("why?", options, ("tcd",), "B", "/y/new.pt"))
    assert difference(shown, asked) == (
        f"{DIFFERS} Run would use backbone B instead of A, detector /y/new.pt instead of /x/old.pt,"
        " also TCD, not VCD, and 1 more."
    )
    asked = RunRequest("a.mp4", "1", RunSpec("why?", options, ("vcd",), "A", "/y/old.pt"))
    assert difference(shown, asked) == f"{DIFFERS} Run would use seed 3 instead of 0."
    early = RunRequest("a.mp4", "1", RunSpec("why?", RunOptions(), ("vcd",), "", ""))  # stopped
    assert difference(early, asked) == f"{DIFFERS} Run would use seed 3 instead of 0."
    other = RunRequest("b.mp4", "2", RunSpec(""))
    assert difference(shown, other) == (
        "Shown: a.mp4 · “why?”. Run would analyse b.mp4 · no question."
    )
    assert difference(shown, None) == (
        "Shown: a.mp4 · “why?”. The form does not hold this clip: upload it, or choose an example."
    )
