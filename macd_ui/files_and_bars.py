"""The page's bar and foot, and what of it comes as a file."""

from __future__ import annotations

from html import escape

import gradio as gr

from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.panels import mounted

_DOWNLOAD = """
async (viewer, note) => {
  const address = ((viewer || {}).files || {}).KIND;
  if (!address) return note;
  const refused = (words) => {  // the form, which holds the note, may be closed
    const line = document.getElementById("open-error");
    if (line) [line.textContent, line.hidden] = [words, !words];
    return note;
  };
  const answer = await fetch(new URL(address, document.baseURI)).catch(() => null);
  const lost = "KIND" === "trace" && (!answer || answer.status === 404);
  const copy = lost && window.macdCopy ? await window.macdCopy().catch(() => null) : null;
  if (!copy && !answer) return refused("UNREACHABLE");
  if (!copy && !answer.ok) return refused(await answer.text());
  refused("");
  const name = copy ? null : /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(copy ? new Blob([copy.content]) : await answer.blob());
  link.download = copy ? copy.name : name ? name[1] : "trace";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  return note;
}
"""


def download(kind: str) -> str:
    """The script that saves the shown trace's file of a kind, "trace" or "page".

    Takes the viewer's value and the note, gives the note; why it was refused is told above the run.
    """
    return _DOWNLOAD.replace("KIND", kind).replace("UNREACHABLE", sentences.OUT_OF_REACH)


class FilePanel:
    """In the bar: save the trace on show or open a saved one.

    answers: the table of several questions.
    """

    def __init__(self, shown: bool) -> None:
        with gr.Row(elem_id="bar"):
            self.save = gr.Button(
                sentences.SAVE_TRACE, interactive=shown, size="sm", min_width=60, elem_id="save"
            )
            self.export = gr.Button(
                sentences.SAVE_PAGE, interactive=shown, size="sm", min_width=60, elem_id="export"
            )
            self.open = gr.UploadButton(
                sentences.OPEN_TRACE,
                file_types=[".macd"],
                type="filepath",
                size="sm",
                min_width=60,
                elem_id="open",
            )

    def place_answers(self) -> None:
        """Places the table above the viewer."""
        self.answers = mounted("answers", "mountAnswers", {})


def page_bar(links: dict[str, str]) -> None:
    """Name, question, model, the way to a clip of one's own, links (words → address), scheme."""
    leads = "".join(f'<a href="{escape(to)}">{escape(words)}</a>' for words, to in links.items())
    gr.HTML(
        f'<header class="top-bar"><h1>{escape(sentences.TITLE)}</h1>'
        f'<p class="top-question">{escape(sentences.LEAD)}</p>'
        '<p class="top-model" data-part="model"></p>'
        f'<button type="button" class="top-open" id="open-form" data-part="open-form"'
        f' aria-controls="ask" aria-expanded="false">{escape(sentences.UPLOAD)}</button>'
        f'<button type="button" id="open-examples" aria-controls="ask" aria-expanded="false">'
        f"{escape(sentences.EXAMPLES)}</button>"
        f'<nav aria-label="{escape(sentences.FURTHER)}">{leads}</nav>'
        f'<button type="button" id="scheme" aria-label="{escape(sentences.SCHEME)}"'
        f' title="{escape(sentences.SCHEME)}">◐</button></header>',
        apply_default_css=False,
        padding=False,
        elem_id="lead",
    )


def page_foot(links: dict[str, str]) -> None:
    """What else there is to read. links: words → address."""
    leads = " · ".join(f'<a href="{escape(to)}">{escape(words)}</a>' for words, to in links.items())
    gr.HTML(f'<footer class="foot">{leads}</footer>', apply_default_css=False, elem_id="foot")
