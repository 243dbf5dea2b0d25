"""What came out: the viewer, the strength trajectories, saving and reopening."""

from __future__ import annotations

from typing import Any

import gradio as gr

from macd_studio.macd_ui.component import viewer_component
from macd_studio.macd_ui.panels.ask import error_line, mounted


class ViewPanel:
    """The viewer fills the panel; the rest is folded or small."""

    def __init__(self, first: dict[str, Any] | None) -> None:
        self.viewer = viewer_component(first)
        with gr.Accordion("Strength trajectories", open=False, elem_id="strengths") as accordion:
            self.strengths = accordion
            self.plot = gr.Plot(show_label=False, container=False, elem_id="strengths-plot")
            with gr.Row():
                self.keep = {
                    kind: gr.Button(
                        f"Save {kind.upper()}", size="sm", min_width=80, elem_id=f"plot-{kind}"
                    )
                    for kind in ("svg", "png", "json")
                }


_DOWNLOAD = """
async (viewer, note) => {
  const address = ((viewer || {}).files || {}).KIND;
  if (!address) return note;
  let answer;
  try {
    answer = await fetch(new URL(address, document.baseURI));
  } catch {
    return { text: "The server cannot be reached." };
  }
  if (!answer.ok) return { text: await answer.text() };
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name ? name[1] : "trace";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  return note;
}
"""


def download(kind: str) -> str:
    """The script that saves the shown trace's file of a kind, "trace" or "page".

    Takes the viewer's value and the note, gives the note; a refusal's words are shown there.
    """
    return _DOWNLOAD.replace("KIND", kind)


class FilePanel:
    """Above the viewer: fold the form, save the trace on show or open a saved one.

    answers: the table of several questions.
    """

    def __init__(self, shown: bool) -> None:
        with gr.Row(elem_id="bar"):
            gr.HTML(
                '<button type="button" class="mv-fold" id="fold" aria-controls="ask"'
                ' aria-expanded="true">Hide the form</button>',
                apply_default_css=False,
                padding=False,
                elem_id="fold-host",
            )
            self.save = gr.Button(
                "Save trace", interactive=shown, size="sm", min_width=90, elem_id="save"
            )
            self.export = gr.Button(
                "Save as HTML", interactive=shown, size="sm", min_width=90, elem_id="export"
            )
            self.open = gr.UploadButton(
                "Open trace",
                file_types=[".macd"],
                type="filepath",
                size="sm",
                min_width=90,
                elem_id="open",
            )
        error_line("open-error")
        self.answers = mounted("answers", "mountAnswers", {})
