"""What came out: the viewer, the strength trajectories, saving and reopening."""

from __future__ import annotations

from typing import Any

import gradio as gr

from macd_ui.viewer import viewer_component


class ViewPanel:
    """The viewer fills the panel; the rest is folded or small."""

    def __init__(self, first: dict[str, Any] | None, plot: Any) -> None:
        self.viewer = viewer_component(first)
        with gr.Accordion("Strength trajectories", open=True, elem_id="strengths"):
            self.plot = gr.Plot(plot, show_label=False, container=False, elem_id="strengths-plot")
            with gr.Row():
                self.keep = {
                    kind: gr.Button(
                        f"Save {kind.upper()}", size="sm", min_width=80, elem_id=f"plot-{kind}"
                    )
                    for kind in ("svg", "png", "json")
                }


class FilePanel:
    """Save the trace on show as a file or a page of its own, or open a saved one."""

    def __init__(self, shown: str | None) -> None:
        with gr.Row():
            self.save = gr.DownloadButton(
                "Save trace",
                value=shown,
                interactive=shown is not None,
                size="sm",
                min_width=90,
                elem_id="save",
            )
            self.export = gr.DownloadButton(
                "Save as HTML", interactive=False, size="sm", min_width=90, elem_id="export"
            )
            self.open = gr.UploadButton(
                "Open trace",
                file_types=[".macd"],
                type="filepath",
                size="sm",
                min_width=90,
                elem_id="open",
            )
