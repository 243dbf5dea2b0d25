"""Every sentence of the page, word for word in each of its cases."""

import errno
import re
from dataclasses import replace
from pathlib import Path

import pytest

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.options import RunOptions
from macd_studio.core.run.spec import RunSpec
from macd_studio.macd_ui import sentences as say
from macd_studio.macd_ui.chosen import Search
from macd_studio.macd_ui.forms import RunRequest, difference
from macd_studio.viewer import JS

ROOT = Path(__file__).parents[2] / "macd_ui"
DIFFERS = "The form differs from what is shown:"
REMEDIES = "Start|Open|undo|Let|Add|Choose|draw|Check|Close|Reload|from a web server"
"""How the sentences begin that say what to do."""
DRAWN = "A. B. Chosen by its outcome: number"
SEARCH = Search(5450, 543, 176, 1, 0, 123, 7, (50, 307))
TOLD = (
    "Chosen to show the mechanism: 1 of 5,450 drawn clips. The model errs in 543; MACD repairs 176"
    " of these and spoils 0 of 1 right answer that were tried. In 123 of the 176 more than half of"
    " the random masks do the same."
)
CASES = [
    (say.of_error(OptionError("the value is b", "Do c")), "The value is b. Do c."),
    (say.of_error(OptionError("clip.mp4 is b", "Do c")), "clip.mp4 is b. Do c."),
    (say.of_error(OSError(errno.ENOSPC, "")), say.FULL_DISK),
    (say.of_error(OSError(errno.EDQUOT, "")), say.FULL_DISK),
    (say.of_error(OSError(errno.EACCES, "")), None),
    (say.of_error(ValueError("secret")), None),
    (say.of_stop(Cancelled("stopped while waiting", "Nothing was computed")),
     "Stopped while waiting. Nothing was computed."),
    (say.unforeseen(False),
     "Something unforeseen went wrong. Try again; the server's log has the details."),
    (say.unforeseen(True),
     "Something unforeseen went wrong. Reload the page and try again; if it happens again, tell"
     " whoever runs this server at what time."),
    (say.run_ended("complete"), ""),
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
    (say.place_in_queue(0, None), "Waiting until the models are ready"),
    (say.place_in_queue(0, 9.0), "Waiting until the models are ready"),
    (say.place_in_queue(1, None), "Waiting: 1 run before yours"),
    (say.place_in_queue(3, 0.2), "Waiting: 3 runs before yours, about 1 s"),
    (say.place_in_queue(3, 8.6), "Waiting: 3 runs before yours, about 9 s"),
    (say.place_to_open(1, 0.2), "Waiting: 1 file before yours, about 1 s"),
    (say.place_to_open(2, 3.4), "Waiting: 2 files before yours, about 3 s"),
    (say.waiting_for_gpu(7), "Waiting for a GPU · about 7 s of your GPU quota"),
    (say.cost_of_run(7), "A run takes about 7 s of your GPU quota."),
    (say.with_time("Decoding", 4.2, 9.0), "Decoding · about 4 s left"),
    (say.with_time("Decoding", 0.1, 9.0), "Decoding · about 1 s left"),
    (say.with_time("Decoding", None, 7.6), "Decoding · 8 s so far"),
    (say.with_time("Decoding", None, 1.0), "Decoding · 1 s so far"),
    (say.with_time("Decoding", None, 0.9), "Decoding"),
    (say.stopped_by_reload("Is it\nthere?"), (
        "reloading the page stopped the run that asked “Is it there?”",
        "Press Run to start it again",
    )),
    (say.stopped_by_reload(" ")[0], "reloading the page stopped the run"),
    (say.shortened("x" * 81), "x" * 79 + "…"),
    (say.shortened(" a\n b "), "a b"),
    (say.no_such_example("x" * 99), f"There is no example {'x' * 60!r}; another one is shown."),
    (say.other_settings([], False), ""),
    (say.other_settings([], True), f"{DIFFERS} Run would leave out the changes made by hand."),
    (say.other_settings(["a", "b"], False), f"{DIFFERS} Run would use a, b."),
    (say.other_settings(["a"], True),
     f"{DIFFERS} Run would use a and leave out the changes made by hand."),
    (say.other_settings(list("abcd"), False), f"{DIFFERS} Run would use a, b, c, d."),
    (say.other_settings(list("abcdef"), False), f"{DIFFERS} Run would use a, b, c, d, and 2 more."),
    (say.run_name("a.mp4", " is  it\n so? "), "a.mp4 · “is it so?”"),
    (say.run_name("a.mp4", "  "), "a.mp4 · no question"),
    (say.run_name("a.mp4", "x" * 80), f"a.mp4 · “{'x' * 80}”"),
    (say.run_name("a.mp4", "x" * 81), f"a.mp4 · “{'x' * 79}…”"),
    (say.chosen_from(SEARCH), TOLD),
    (say.chosen_from(replace(SEARCH, masks=(("x", 3, 200), ("y", 4, 9)))),
     f"{TOLD} Here 3 of 200 x masks and 4 of 9 y masks do."),
    (say.example_message("A", "B.", 0), "A. B."),
    (say.example_message("A", "B.", 1200), f"{DRAWN} 1,200 of the clips drawn for it."),
    (say.model_facts(2.5, 6.04, 16.2, "MIT", 5, "D"),
     "2.5 B parameters · needs 6.0 of 16 GB of memory · MIT · first run downloads 5 GB."
     " Detector: D."),
    (say.with_share("Downloading D", 0.424), "Downloading D: 42 %"),
    (say.with_share("Looking for D", 0), "Looking for D"),
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
    other = RunRequest("b.mp4", "2", RunSpec(""))
    assert difference(shown, other) == (
        "Shown: a.mp4 · “why?”. Run would analyse b.mp4 · no question."
    )
    assert difference(shown, None) == (
        "Shown: a.mp4 · “why?”. The form does not hold this clip: upload it, or choose an example."
    )


def test_a_refusal_of_the_models_in_the_browser_says_what_to_do():
    """A cause and, after a full stop, a colon or a semicolon, a remedy."""
    scripts = {path.name: path.read_text() for path in JS.glob("*.js")}
    strings = "".join(path.read_text() for path in (JS / "strings").glob("*.js"))
    refusals = r"new Refused\((?:TEXT\.)?(\w+)|TEXT\.(engine\w+)"
    asking = "".join(scripts[f"{name}.js"] for name in ("bench", "edits", "engine", "worker"))
    names = {name for pair in re.findall(refusals, asking) for name in pair if name}
    assert names >= {"needsServer", "engineNotHere", "engineUnreachable", "isMaskedAlready"}
    for name in names:
        sentence = re.search(rf'\b{name}(?:: "| =[^`]*`)(.*?)["`][,;]\n', strings)
        assert sentence, name
        assert re.search(rf"[.:;] ({REMEDIES})\b.*\.$", sentence[1]), sentence[1]


def test_no_case_is_left_out():
    """Each function of the catalogue whose sentence depends on something stands in CASES."""
    source = Path(__file__).read_text()
    text = (ROOT / "sentences.py").read_text()
    parts = re.split(r"^def ", text, flags=re.M)[1:]
    branching = [p.partition("(")[0] for p in parts if re.search(r"\bif\b", p.partition('"""')[2])]
    assert len(branching) >= 7
    assert [name for name in branching if f"say.{name}(" not in source] == []
