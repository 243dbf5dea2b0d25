"""What handlers compute before the device's turn: a row for each, and its hostile case."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from macd_studio.core.beside import MakeLimits
from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.objects.exporting import export_beside
from macd_studio.macd_ui import session_view
from macd_studio.macd_ui.serving import before
from macd_studio.macd_ui.serving.before import COMPUTED, ON_DEVICE
from macd_studio.viewer import standalone
from macd_studio.viewer.exporting import page_beside
from tests.core.test_bundle import content, rebuilt, trace  # noqa: F401 - fixtures
from tests.opening import EXAMPLE
from tests.patience import PATIENCE_S
from tests.security.test_trace_bomb import OPENED

ROOT = Path(__file__).parents[2]
MODULES = (
    "actions", "api", "changes", "clips", "fetching", "files", "forms", "handlers", "jobs",
    "questions", "random_clips", "runs", "session_view", "traces",
)  # fmt: skip
"""Whatever handles an event or a download, in macd_ui."""
SOURCES = ("macd_studio.core", "macd_studio.viewer", "macd_studio.toyworld")


def called(source):
    """The functions of the core, the viewer and the toy world that a module calls, by full name."""
    tree, names = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(SOURCES):
            place = node.module.removeprefix("macd_studio.")
            names |= {one.asname or one.name: f"{place}.{one.name}" for one in node.names}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            to = node.func
            if isinstance(to, ast.Name) and to.id in names and to.id[0].islower():
                found.add(names[to.id])
            elif isinstance(to, ast.Attribute) and isinstance(to.value, ast.Name):
                if to.value.id in names and to.attr[0].islower():
                    found.add(f"{names[to.value.id]}.{to.attr}")
    return found


def without_row(source):
    """Those that have no row, and do not wait for the device."""
    rows = {name for row in COMPUTED for name in row.names}
    return sorted(called(source) - rows - ON_DEVICE)


@pytest.mark.parametrize("module", MODULES)
def test_whatever_a_handler_calls_before_the_queue_has_a_row(module):
    source = (ROOT / "macd_ui" / f"{module}.py").read_text(encoding="utf-8")
    assert not without_row(source), "give them a row in macd_ui/serving/before.py, with its measure"


def test_a_function_without_a_row_is_found():
    source = "def f():\n    from macd_studio.core.plan import weigh\n    weigh(1)\n"
    assert without_row(source) == ["core.plan.weigh"]
    assert without_row("from macd_studio.core.traces import bundle\nbundle.melt(1)") == [
        "core.traces.bundle.melt"
    ]


def test_every_row_is_of_something_that_is_called():
    texts = [(ROOT / "macd_ui" / f"{m}.py").read_text(encoding="utf-8") for m in MODULES]
    found = set().union(*map(called, texts))
    assert {n for row in COMPUTED for n in row.names} <= found
    assert found >= ON_DEVICE


def test_the_document_holds_the_rows():
    told = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert before.table() in told, "python -m macd_ui.serving.costs prints it"


MEASURED = """
import json, sys, time
import numpy as np
from macd_studio.core.errors import MacdError
from macd_studio.core.traces.bundle import load, pack
from macd_studio.core.traces.summary import as_json
from macd_studio.macd_ui.clips import filmstrip_value
from macd_studio.viewer import identity, payload, standalone, status
import PIL.WebPImagePlugin

def peak(field):
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) for x in lines if x.startswith(field + ":")) / 1000

what, path = sys.argv[1:]
trace = None if what in ("load", "strip") else load(path)
if what == "strip":
    from types import SimpleNamespace
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (24, 1080, 1920, 3), dtype=np.uint8)
    clip = SimpleNamespace(name="x", duration=1.0, times=np.arange(24.0), frames=frames,
                           size=(1920, 1080))
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")
idle, began = peak("VmRSS"), time.process_time()
try:
    made = {
        "load": lambda: load(path) and None,
        "strip": lambda: filmstrip_value(clip, 600.0),
        "shown": lambda: payload(trace, status()),
        "html": lambda: standalone(trace),
        "summary": lambda: as_json(trace),
        "identity": lambda: identity(trace),
        "packed": lambda: pack(trace),
    }[what]()
    said = "made"
except MacdError as error:
    said = str(error)
seconds = time.process_time() - began
print(json.dumps({"said": said, "mb": peak("VmHWM") - idle, "seconds": seconds}))
"""


def measure(what, path):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, what, str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


CASES = {
    ("load", "everything"): 300, ("shown", "everything"): 700, ("html", "everything"): 900,
    ("summary", "everything"): 300, ("identity", "everything"): 300, ("packed", "everything"): 600,
    ("shown", "most candidates"): 600, ("strip", ""): 300,
}  # fmt: skip
SHORT = (("summary", "everything"),)


@pytest.mark.parametrize(
    ("what", "name"),
    [c if c in SHORT else pytest.param(*c, marks=pytest.mark.long) for c in CASES],
)
def test_the_worst_of_a_row_is_bounded(content, tmp_path, what, name):  # noqa: F811
    path = tmp_path / "large.macd"
    path.write_bytes(rebuilt(content, OPENED[name]) if name else b"")
    found = measure(what, path)
    print(what, name, found)
    assert found["said"] == "made"  # else nothing was measured
    assert found["mb"] <= CASES[what, name]
    assert found["seconds"] <= 100


def test_a_plot_of_millions_of_points_is_not_drawn():
    """With as many steps and objects as a file can hold, drawing would take minutes."""
    drawn = []

    class Stub(SimpleNamespace):
        def figure(self, name):
            drawn.append(name)
            return name

    session, step = SimpleNamespace(plot_open=True), SimpleNamespace(gradient=(1.0,))
    for tracks, steps in ((40, 200), (400, 10_000)):
        trace = Stub(tracks=(0,) * tracks, steps=(step,) * steps, counterfactual=1)  # noqa: F811
        session_view.plot(session, trace)
    assert drawn == ["strengths"]
    assert session_view.plot(session, trace) == {"plot": None}


def test_an_export_beside_the_server_is_the_same(trace, content):  # noqa: F811
    from macd_studio.core.objects.export import exported

    for format in ("json", "png"):
        assert export_beside(content, format, "tracks") == exported(trace, format, "tracks")


def test_an_export_ends_at_its_clock_and_when_nobody_waits(content):  # noqa: F811
    with pytest.raises(OptionError, match="memory"):
        export_beside(EXAMPLE.read_bytes(), "png", "tracks", limits=MakeLimits(memory_bytes=10**6))
    with pytest.raises(Cancelled):
        export_beside(content, "png", "tracks", lambda: True)
    with pytest.raises(OptionError, match="ask for another copy"):
        export_beside(b"PK no trace", "png", "tracks")


def test_a_page_beside_the_server_is_the_same(trace, content):  # noqa: F811
    from macd_studio.core.traces.bundle import unpack

    assert page_beside(content) == standalone(unpack(content)).encode()


def test_a_page_ends_at_its_clock_and_when_nobody_waits(content):  # noqa: F811
    with pytest.raises(OptionError, match=r"takes more than 600 MB of memory or 0\.001 s"):
        page_beside(EXAMPLE.read_bytes(), limits=MakeLimits(seconds=0.001))
    with pytest.raises(Cancelled):
        page_beside(content, lambda: True)
    with pytest.raises(OptionError):
        page_beside(b"PK no trace")
