"""A list of questions about the form's clip."""

from __future__ import annotations

import gradio as gr

from macd_studio.macd_ui.questions import MOST


class QuestionsPanel:
    """Folded away until it is needed. list: one question a line; ask: runs them in turn."""

    def __init__(self) -> None:
        with gr.Accordion("Several questions", open=False, elem_id="several"):
            self.list = gr.Textbox(
                label="One question on each line",
                info=f"up to {MOST}; objects are looked for, and the video is read, once for all",
                lines=3,
                max_lines=MOST,
                elem_id="questions",
            )
            self.ask = gr.Button("Ask all", size="sm", min_width=90, elem_id="ask-all")
