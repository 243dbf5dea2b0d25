"""What `import core` offers: its names, what they import, and that they are the project's own."""

import html
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.errors import (
    BackboneNotFound,
    DetectorError,
    MacdError,
    OptionError,
    QuestionError,
    VideoError,
)
from macd_studio.core.options import AscentOptions, RunOptions
from macd_studio.core.traces.bundle import load, save
from macd_studio.viewer.notebook import viewer_frame
from tests.patience import PATIENCE_S
from tests.small_trace import small_trace

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "assets" / "examples"
QUESTION = "Which animal is in the video?"


def test_the_exports_are_these():
    assert macd.__all__ == [
        "MacdError",
        "RunOptions",
        "Trace",
        "__version__",
        "choices",
        "compare",
        "decoder",
        "enough",
        "evidence",
        "export_tracks",
        "load",
        "record",
        "save",
        "trace",
        "wrap",
    ]
    assert set(macd.__all__) <= set(dir(macd))
    for name in macd.__all__:
        assert getattr(macd, name) is not None
    assert (macd.load, macd.save) == (load, save)
    assert macd.RunOptions is RunOptions
    assert issubclass(macd.MacdError, Exception)
    with pytest.raises(AttributeError, match="no attribute 'traec'"):
        macd.traec  # noqa: B018


@pytest.mark.parametrize(("call", "said"), [
    (lambda t: macd.evidence("run.macd"), "a str is not a trace. Open a file first"),
    (lambda t: macd.enough(None), "a NoneType is not a trace"),
    (lambda t: macd.choices(EXAMPLES), "a PosixPath is not a trace"),
    (lambda t: macd.save("run.macd", t), "a str is not a trace. Give the trace first"),
    (lambda t: macd.trace(np.zeros((8, 9, 9, 3)), "?"), "a ndarray is not a clip"),
    (lambda t: macd.trace("a.mp4", "?", frames=4), "is one of video: video={'frames': …}"),
    (lambda t: macd.trace("a.mp4", "?", alpha=4), "is one of contrast: contrast={'alpha': …}"),
    (lambda t: macd.trace("a.mp4", "?", floor=4), "no option 'floor'. Choose one of ascent"),
    (lambda t: macd.trace("a.mp4", "?", ascnet={}), "Did you mean ascent"),
    (lambda t: macd.load("."), "'.' is a folder"),
])  # fmt: skip
def test_slips_of_a_script_are_named_with_a_remedy(call, said):
    with pytest.raises(MacdError, match=re.escape(said)):
        call(small_trace())


HEAVY = ("torch", "transformers", "matplotlib", "gradio", "plotly")
LIGHT = f"""
import sys
def loaded():
    return [name for name in {HEAVY!r} if name in sys.modules]
import macd_studio as macd
assert not loaded(), loaded()
assert "numpy" not in sys.modules
trace = macd.load(sys.argv[1])
trace.to_dict()
macd.Trace, macd.RunOptions, macd.MacdError, macd.record, macd.trace, macd.compare
assert not loaded(), loaded()
macd.save(trace, sys.argv[2])
try:
    macd.trace("nothing.mp4", "Is there a dog?")
except macd.MacdError:
    pass
else:
    raise AssertionError("a file that is not there was read")
assert not loaded(), loaded()
"""


def test_importing_and_loading_take_neither_torch_nor_plots(tmp_path):
    out = tmp_path / "again.macd"
    words = [sys.executable, "-c", LIGHT, str(EXAMPLES / "repaired.macd"), str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert macd.load(out).question == macd.load(EXAMPLES / "repaired.macd").question


def test_options_are_given_whole_or_by_their_parts():
    from macd_studio.core.options import read_options

    whole = RunOptions(ascent=AscentOptions(steps=3))
    assert read_options(None, {"ascent": {"steps": 3}}) == whole
    assert read_options(None, {"ascent": AscentOptions(steps=3)}) == whole
    assert read_options(whole, {}) is whole


BAD = [
    ({"question": ""}, QuestionError),
    ({"backbone": "no such folder"}, BackboneNotFound),
    ({"detector": "yolo1"}, DetectorError),
    ({"device": "abacus"}, OptionError),
    ({"methods": "mcad"}, OptionError),
    ({"ascent": {"stpes": 3}}, OptionError),
    ({"ascend": {"steps": 3}}, OptionError),
    ({"options": RunOptions(), "seed": 1}, OptionError),
    ({"options": {"seed": 1}}, OptionError),
    ({}, VideoError),
]


@pytest.mark.parametrize(("changes", "error"), BAD)
def test_what_cannot_be_run_is_refused(changes, error):
    words = {"question": QUESTION} | changes
    with pytest.raises(error):
        macd.trace("there-is-none.mp4", **words)
    assert issubclass(error, MacdError)


def test_a_notebook_shows_the_viewer():
    spoilt = '"><script>alert(1)</script>'
    trace = replace(small_trace(), question=spoilt)
    shown = trace._repr_html_()
    assert shown == viewer_frame(trace)
    (srcdoc,) = re.findall(r'srcdoc="([^"]*)"></iframe>$', shown)
    from macd_studio.viewer.export import standalone

    assert html.unescape(srcdoc) == standalone(trace)
    before = shown[: shown.index("srcdoc")]
    assert shown.count("<") == 2  # the frame's own tags: the page's stand as text in srcdoc
    assert 'sandbox="allow-scripts allow-downloads"' in before
