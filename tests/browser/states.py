"""The viewer without a server: traces that a screen finds hard, and a page that holds one.

`shown` mounts the viewer as the page does and notes what it would send.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from macd_studio.core.options import AscentOptions, RunOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.viewer import JS, bundle, payload, style
from tests.conftest import write_video
from tests.fakes import BoxDetector, ByteLM

WIDTHS = (390, 820, 1440, 2560)
HEIGHT = 900
STEPS = 10
LONG_NAME = "traffic light with a rather long name"
NAMES = ("dog", "ball", "cup", "car", "bird", "chair", LONG_NAME)


def many_boxes():
    """Fourteen boxes in two rows, with names that come twice."""
    names = [NAMES[k % len(NAMES)] for k in range(14)]
    corners = [(0.02 + 0.14 * (k % 7), 0.05 + 0.5 * (k // 7)) for k in range(14)]
    return tuple(
        (name, round(0.95 - 0.02 * k, 2), (x, y, x + 0.11, y + 0.35))
        for k, (name, (x, y)) in enumerate(zip(names, corners, strict=True))
    )


@cache
def traced(objects=14, steps=STEPS):
    """A run of the fake model with that many objects, steps of ascent and three more methods."""
    options = RunOptions(
        video=VideoOptions(frames=4), ascent=AscentOptions(steps=steps, eta=0.05, tau=0.05)
    )
    with TemporaryDirectory() as folder:
        video = write_video(Path(folder) / "v.mp4")
        *_, last = run(
            video, "Is there a dog in the video?", ByteLM,
            lambda: BoxDetector(many_boxes()[:objects]), options,
            methods=("vcd", "tcd", "blank"),
        )  # fmt: skip
    trace = last.trace
    assert len(trace.tracks) == objects
    assert len(trace.steps) == steps
    return replace(trace, truth=trace.answers["baseline"].text)


PAPER = {"light": "#fff", "dark": "#1b1f24"}


def page_of(data, scheme="light"):
    """A document that holds the viewer with a page around it that would send its actions."""
    text = json.dumps(data).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Viewer</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{style()}
body {{ margin: 0; padding: 12px; background: {PAPER[scheme]}; }}
h1 {{ position: absolute; clip-path: inset(50%); }}
</style></head>
<body class="{scheme}"><main><h1>Viewer</h1><div id="viewer"></div></main>
<script>
const host = {{ send: (action) => window.sent.push(action) }};
window.sent = [];
window.viewer = new ({bundle(JS / "viewer.js")}).Viewer(document.getElementById("viewer"), host);
window.viewer.update({text});
for (const part of document.querySelectorAll("details.mv-fold")) part.open = true;
</script></body></html>"""


def unfold_all(page):
    """Opens everything of the viewer that folds."""
    page.evaluate(
        """() => {
          for (const part of document.querySelectorAll(".mv-root details")) part.open = true;
        }"""
    )


def show(page, trace, width=1440, scheme="light", **more):
    """The viewer with this trace in a window of that width; more: see `viewer.payload`."""
    return show_data(page, payload(trace, **more), width, scheme)


def show_data(page, data, width=1440, scheme="light"):
    """The viewer with a payload."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.goto("about:blank")  # nothing stays of what was shown before
    page.set_content(page_of(data, scheme))
    page.wait_for_function(
        "[...window.viewer.stage.images.values()].every((image) => image.complete)"
    )
    return page
