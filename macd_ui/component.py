"""Builds the gr.HTML that holds the viewer.

The template is static and has no placeholder: Gradio evaluates templates as code, so data reaches
the page only as `props.value`, and the script writes it with textContent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.viewer import bundle

PAGE = Path(__file__).parent / "js" / "page.js"
"""Mounts the viewer; with what is part of the page, but not of an exported one."""


def viewer_script() -> str:
    """The script that runs once the component is mounted; Gradio passes the named variables."""
    return f"{bundle(PAGE)}.mountPage({{ element, props, trigger, watch }});"


def viewer_component(value: dict[str, Any] | None = None) -> gr.HTML:
    """A viewer showing `value` (see viewer/payload.py)."""
    return gr.HTML(
        value=value or {},
        html_template='<div class="mv-host"></div>',
        js_on_load=viewer_script(),
        apply_default_css=False,
        elem_id="viewer",
        padding=False,
    )
