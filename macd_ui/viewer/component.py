"""Builds the gr.HTML that holds the viewer.

The template is static and has no placeholder: Gradio evaluates templates as code, so data reaches
the page only as `props.value`, and the script writes it with textContent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

HERE = Path(__file__).parent
RESTORE = HERE.parent / "restore.js"
"""Part of the page but not of an exported one, which has no server to come back to."""
SCRIPTS = (
    "dom.js",
    "masks.js",
    "rescore.js",
    "keep.js",
    "plot.js",
    "stage.js",
    "rail.js",
    "flips.js",
    "ledger.js",
    "tokens.js",
    "compare.js",
    "whatif.js",
    "viewer.js",
)

_MOUNT = """
const host = element.querySelector(".mv-host") || element;
const viewer = new Viewer(host, (action) => trigger("submit", action));
const restorer = new TabRestorer(viewer);
const show = () => {
  viewer.attach(element.querySelector(".mv-host") || element);
  viewer.update(props.value);
  restorer.observe(props.value);
};
window.macdSavePlot = savePlot;
watch("value", show);
show();
"""


def script() -> str:
    """The viewer's JavaScript as one text, without the mount."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)


def style() -> str:
    """The viewer's CSS."""
    return (HERE / "viewer.css").read_text(encoding="utf-8")


def viewer_component(value: dict[str, Any] | None = None) -> gr.HTML:
    """A viewer showing `value` (see payload.py)."""
    return gr.HTML(
        value=value or {},
        html_template='<div class="mv-host"></div>',
        js_on_load="\n".join((script(), RESTORE.read_text(encoding="utf-8"), _MOUNT)),
        apply_default_css=False,
        elem_id="viewer",
        padding=False,
    )
