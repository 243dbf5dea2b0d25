"""The page's bar and foot, and what of it comes as a file."""

from __future__ import annotations

import gradio as gr

from macd_studio.core.pages.frame import template
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


_BAR = template("""\
<header class="top-bar"><h1>{{ words.TITLE }}</h1><p class="top-question">{{ words.LEAD }}</p>
{#- #}<p class="top-model" data-part="model"></p>
{#- #}<button type="button" class="top-open" id="open-form" data-part="open-form"
 aria-controls="ask" aria-expanded="false">{{ words.UPLOAD }}</button>
{#- #}<button type="button" id="open-menu" aria-expanded="false">{{ words.MENU }}</button>
{#- #}<button type="button" id="open-examples" aria-controls="ask" aria-expanded="false">
{{- words.EXAMPLES }}</button><nav aria-label="{{ words.FURTHER }}">
{%- for text, to in links.items() %}<a href="{{ to }}">{{ text }}</a>{% endfor %}</nav>
{#- #}<button type="button" id="open-files" aria-controls="bar" aria-expanded="false">
{{- words.FILES }}</button>
{#- #}<button type="button" id="scheme" aria-label="{{ words.SCHEME }}"
 title="{{ words.SCHEME }}">◐</button></header>""")
_FOOT = template("""\
<footer class="foot">{% for text, to in links.items() %}<a href="{{ to }}">{{ text }}</a>
{%- if not loop.last %} · {% endif %}{% endfor %}</footer>""")


def page_bar(links: dict[str, str]) -> None:
    """Name, question, model, the way to a clip of one's own, links (words → address), scheme."""
    bar = _BAR(words=sentences, links=links)
    gr.HTML(str(bar), apply_default_css=False, padding=False, elem_id="lead")


def page_foot(links: dict[str, str]) -> None:
    """What else there is to read. links: words → address."""
    gr.HTML(str(_FOOT(links=links)), apply_default_css=False, elem_id="foot")
