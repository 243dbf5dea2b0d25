"""What handlers compute before the device's turn: a row for each, and its hostile case."""

import ast
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.measurements import MAX_MAPPED
from macd_studio.core.options import AscentOptions
from macd_studio.core.report.export import export_beside
from macd_studio.core.system.beside import ProcessLimits
from macd_studio.macd_ui import session_view
from macd_studio.macd_ui.serving import file_costs as before
from macd_studio.macd_ui.serving.file_costs import COMPUTED
from macd_studio.macd_ui.session_view import MAX_LINES, MAX_POINTS
from macd_studio.macd_ui.settings import LIMITS, ServerSettings
from macd_studio.viewer import standalone
from macd_studio.viewer.exporting import page_beside
from tests.core.test_bundle import content, flat_webp, rebuilt, trace  # noqa: F401 - fixtures
from tests.opening import EXAMPLE
from tests.patience import PATIENCE_S
from tests.security.test_trace_bomb import MAX_CANDIDATES, OPENED, frames, many_candidates, npy

ROOT = Path(__file__).parents[2]
ON_DEVICE = frozenset({"core.evidence.enough.enough_events", "core.evidence.run.evidence_events"})
"""Functions that handlers call when their turn on the device has come."""
MODULES = (
    "actions", "api", "changes", "chosen", "clips", "files", "forms", "handlers",
    "jobs", "questions", "random_clips", "runs", "session_view", "traces",
)  # fmt: skip
"""Whatever handles an event or a download, in macd_ui."""
NAMES = "macd_studio.core.embedded"
"""Names of models, and which of two: nothing there computes."""
SOURCES = ("macd_studio.core", "macd_studio.viewer", "macd_studio.toyworld")


def called(source):
    """The functions of the core, the viewer and the toy world that a module calls, by full name."""
    tree, names = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(SOURCES):
            if node.module == NAMES:
                continue
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
    assert not without_row(source), (
        "give them a row in macd_ui/serving/file_costs.py, with its measure"
    )


def test_the_row_of_the_choice_map_is_of_the_largest_one():
    row = before.DEVICE[0]
    views, frames, objects = (int(n) for n in re.findall(r"\d+", row.hostile))
    assert views == (2 << MAX_MAPPED) + 1  # with and without frame mask, and MACD's own levels
    assert frames == LIMITS["video.frames"]
    assert objects > MAX_MAPPED
    assert row.seconds < ServerSettings(public=True).time_limit_s


def test_the_row_of_reading_alone_is_of_the_longest_ascent():
    row = before.DEVICE[1]
    steps, views, frames, objects = (int(n) for n in re.findall(r"\d+", row.hostile))
    assert steps == LIMITS["ascent.steps"]
    assert frames == LIMITS["video.frames"]
    assert objects == LIMITS["track.max_tracks"]
    # the embedded model reads frames in pairs, each with a strength
    assert views == AscentOptions(gradient="difference").reads(objects, frames // 2)
    assert f"ended after {ServerSettings(public=True).time_limit_s:g} s" in row.ended


def test_every_row_is_of_something_that_is_called():
    texts = [(ROOT / "macd_ui" / f"{m}.py").read_text(encoding="utf-8") for m in MODULES]
    found = set().union(*map(called, texts))
    assert {n for row in COMPUTED for n in row.names} <= found
    assert found >= ON_DEVICE


def test_the_document_holds_the_rows():
    told = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert before.table(before.DEVICE, "on the device") in told
    section = " ".join(told.split("### Before the device's turn")[1].split("\n### ")[0].split())
    heaviest = sorted(before.COMPUTED, key=lambda row: -row.mb)[:3]
    for row in [*heaviest, *(r for r in before.COMPUTED if "trace, for" in r.what)]:
        assert f"{row.mb:,.0f} MB and {row.seconds:g} s" in section, row.what


MEASURED = """
import json, sys, time
import numpy as np
from macd_studio.core.errors import MacdError
from macd_studio.core.traces.bundle import load, pack
from macd_studio.core.report.summary import as_json
from macd_studio.macd_ui.clips import filmstrip_value
from macd_studio.macd_ui.api import rescored
from macd_studio.macd_ui.session_view import plot
from macd_studio.viewer import identity, payload, standalone, status
import plotly.graph_objects
import PIL.WebPImagePlugin

def peak(field):
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) for x in lines if x.startswith(field + ":")) / 1000

what, path = sys.argv[1:]
trace = None if what in ("load", "strip") else load(path)
from types import SimpleNamespace
if what == "strip":
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (24, 1080, 1920, 3), dtype=np.uint8)
    clip = SimpleNamespace(name="x", duration=1.0, count=24, times=np.arange(24.0), frames=frames,
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
        "rescored": lambda: rescored(trace, 1.0, 0.1),
        "plot": lambda: plot(SimpleNamespace(plot_open=True), trace)["plot"].data,
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


def noise_webp(side, seed):
    """A picture that takes about a byte a pixel, and long to encode."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 255, (200, 3), np.uint8)
    out = io.BytesIO()
    picture = Image.fromarray(colours[rng.integers(0, 200, (side, side))])
    picture.save(out, "WEBP", lossless=True, quality=0, method=0)
    return out.getvalue()


def most_noise(members, manifest):
    """Model frames and one second view of nearly 39 megapixels, all to be encoded."""
    side, count = 1170, 14
    frames(16, count, models=side, views=1)(members, manifest)
    for i in range(count):
        members[f"model/{i:04d}.webp"] = noise_webp(side, i)
        members[f"shown0_0/{i:04d}.webp"] = noise_webp(side, count + i)


def most_objects(tracks=4096, times=200, steps=0):
    """As many boxes as the arrays of a file can hold; so many steps of an ascent."""

    def change(members, manifest):
        old = ("shown", "frames/", "model/", "arrays/step", "arrays/final")
        for name in [n for n in members if n.startswith(old)]:
            del members[name]
        for i in range(times):
            members[f"frames/{i:04d}.webp"] = members[f"model/{i:04d}.webp"] = flat_webp(16)
        arrays = {
            "times": np.arange(times, dtype=float),
            "boxes": np.tile(np.float32([0, 0, 0.3, 0.7]), (tracks, times, 1)),
            "state": np.ones((tracks, times), np.int8),
        }
        for name in ("strength", "margin", "level"):
            arrays |= {f"final_{name}": np.full(tracks, 0.5)}
            arrays |= {f"final_frame_{name}": np.full(times, 0.5)}
        if steps:
            arrays["step_loss"] = np.ones(steps)
            for name in ("strength", "gradient"):
                arrays |= {f"step_{name}": np.full((steps, tracks), np.float32(0.3))}
                arrays |= {f"step_frame_{name}": np.full((steps, times), np.float32(0.3))}
        members |= {f"arrays/{name}.npy": npy(array) for name, array in arrays.items()}
        manifest["model_frames"]["content"] = [0, 0, 16, 16]
        manifest["counts"] = {"frames": times, "tracks": tracks, "groups": times}
        manifest["groups"] = [[i] for i in range(times)]
        one = manifest["tracks"][0]
        manifest["tracks"] = [one | {"id": i, "label": f"thing {i}"} for i in range(tracks)]
        for answer in manifest["answers"]:
            blank = {"view": {"kind": "blank"}, "shown": False}
            answer["second_views"] = [blank for _ in answer["second_views"]]

    return change


def of_macd(members, manifest):
    """The most candidates, in the answer that is scored anew."""
    many_candidates(MAX_CANDIDATES)(members, manifest)
    manifest["answers"][0]["method"] = "macd"


HOSTILE = OPENED | {
    "most noise": most_noise,
    "most objects": most_objects(),
    "most points": most_objects(MAX_LINES, 16, MAX_POINTS // (MAX_LINES + 16)),
    "candidates of MACD": of_macd,
}
ROWS = {
    "load": "opening a trace", "strip": "the strip of a clip", "plot": "the plot of the strengths",
    "shown": "pictures, constants and flip maps of a trace, for the viewer",
    "html": "a trace as one page of HTML", "summary": "a trace's summary, or its file",
    "identity": "a trace's summary, or its file", "packed": "a trace's summary, or its file",
    "rescored": "scoring answers anew",
}  # fmt: skip
"""What is measured → the row that tells it."""
CASES = {
    ("load", "everything"): 300, ("shown", "everything"): 700, ("html", "everything"): 900,
    ("summary", "everything"): 300, ("identity", "everything"): 300, ("packed", "everything"): 600,
    ("shown", "most candidates"): 600, ("strip", ""): 300, ("shown", "most noise"): 600,
    ("shown", "most objects"): 600, ("summary", "most objects"): 600,
    ("plot", "most points"): 300, ("rescored", "candidates of MACD"): 300,
}  # fmt: skip
SHORT = (("rescored", "candidates of MACD"),)


@pytest.mark.parametrize(
    ("what", "name"), [c if c in SHORT else pytest.param(*c, marks=pytest.mark.long) for c in CASES]
)
def test_the_worst_of_a_row_is_bounded(content, tmp_path, what, name):  # noqa: F811
    """Ten times what the row tells, for slow and busy machines, and at least five seconds."""
    path = tmp_path / "large.macd"
    path.write_bytes(rebuilt(content, HOSTILE[name]) if name else b"")
    found = measure(what, path)
    print(what, name, found)
    (row,) = (row for row in COMPUTED if row.what == ROWS[what])
    assert found["said"] == "made"  # else nothing was measured
    assert found["mb"] <= CASES[what, name]
    assert found["seconds"] <= 10 * max(row.seconds, 0.5)


def test_a_plot_of_millions_of_points_is_not_drawn():
    """With as many steps and objects as a file can hold, drawing would take minutes."""
    drawn = []

    class Stub(SimpleNamespace):
        def figure(self, name):
            drawn.append(name)
            return name

    session, step = SimpleNamespace(plot_open=True), SimpleNamespace(gradient=(1.0,))
    most = MAX_POINTS // (MAX_LINES + 16)
    for tracks, groups, steps in (
        (MAX_LINES, 16, most), (MAX_LINES, 16, most + 1), (MAX_LINES + 1, 16, 1),
        (1, MAX_POINTS, 1),
    ):  # fmt: skip
        trace = Stub(  # noqa: F811
            tracks=(0,) * tracks, groups=((0,),) * groups, steps=(step,) * steps, counterfactual=1
        )
        session_view.plot(session, trace)
    assert drawn == ["strengths"]
    assert session_view.plot(session, trace) == {"plot": None}


def test_an_export_beside_the_server_is_the_same(trace, content):  # noqa: F811
    from macd_studio.core.report.export import exported

    for format in ("json", "png"):
        assert export_beside(content, format, "tracks") == exported(trace, format, "tracks")


def test_an_export_ends_at_its_clock_and_when_nobody_waits(content):  # noqa: F811
    with pytest.raises(OptionError, match="memory"):
        export_beside(
            EXAMPLE.read_bytes(), "png", "tracks", limits=ProcessLimits(memory_bytes=10**6)
        )
    with pytest.raises(Cancelled):
        export_beside(content, "png", "tracks", lambda: True)
    with pytest.raises(OptionError, match="ask for another copy"):
        export_beside(b"PK no trace", "png", "tracks")


def test_a_page_beside_the_server_is_the_same(trace, content):  # noqa: F811
    from macd_studio.core.traces.bundle import unpack

    assert page_beside(content) == standalone(unpack(content)).encode()


def test_a_page_ends_at_its_clock_and_when_nobody_waits(content):  # noqa: F811
    with pytest.raises(OptionError, match=r"takes more than 600 MB of memory or 0\.001 s"):
        page_beside(EXAMPLE.read_bytes(), limits=ProcessLimits(seconds=0.001))
    with pytest.raises(Cancelled):
        page_beside(content, lambda: True)
    with pytest.raises(OptionError):
        page_beside(b"PK no trace")
