"""The page's widgets: the form, several questions, files, and the viewer. No events here.

The template of the viewer is static and has no placeholder: Gradio evaluates templates as code, so
data reaches the page only as `props.value`, and the script writes it with textContent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.core.backbones.catalogue import CATALOGUE
from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.embedded import AUTO, EMBEDDED, EVERYDAY
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.registry import DETECTORS, named, reads_words
from macd_studio.core.text.phrases import noun_phrases
from macd_studio.core.types import Trace
from macd_studio.core.validation import Choice, Number, Text, rule_within
from macd_studio.macd_ui import random_clips, sentences
from macd_studio.macd_ui.examples import Example
from macd_studio.macd_ui.forms import (
    MAX_WORDS,
    SETTINGS,
    STANDARD_METHODS,
    SWEEPS,
    Setting,
    form_values,
)
from macd_studio.macd_ui.models import first_segmenter
from macd_studio.macd_ui.questions import MOST
from macd_studio.macd_ui.session_view import settings_of
from macd_studio.macd_ui.settings import ServerSettings
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


FORM = Path(__file__).parent / "js" / "form.js"
"""The scripts of the form's own parts."""
TRACK_TYPES = [".json", ".xml", ".zip", ".png", ".txt", ".csv", ".tsv"]
VIDEO_TYPES = ["video", "image", ".mp4", ".mov", ".webm", ".mkv", ".avi", ".m4v", ".mpg", ".mpeg",
               ".ts", ".mts", ".m2ts", ".3gp", ".flv", ".wmv", ".asf", ".ogv", ".gif",
               ".png", ".jpg", ".jpeg", ".webp", ".bmp",
               ".tif", ".tiff", ".heic", ".heif", ".avif", ".zip"]  # fmt: skip
"""Of the file chooser. What of these is not read is told beside the field, with what to do."""


_NOTE = """
element.setAttribute("aria-live", "polite");
const show = () => {
  const text = (props.value || {}).text || "";
  const line = element.querySelector(".note");
  if (line.textContent !== text) line.textContent = text;
  line.hidden = !text;
  const detail = (props.value || {}).other || null;  // of which clip the run on show is not
  document.dispatchEvent(new CustomEvent("macd-other-clip", { detail }));
};
watch("value", show);
show();
"""


class AskPanel:
    """Widgets by name in `fields`; every one of them is an input of a run.

    opening: the example on show when the page opens, with its trace, whose settings the form has.
    note: says where the form differs from what is
    shown. cost: what a run takes of a visitor's GPU quota, where there is one. settings: which
    models visitors may choose. strip: the filmstrip of an uploaded clip; sampling: what is chosen
    on it. knows: what the chosen backbone knows; real: chooses larger models. draw, tally: random
    draws, and who was right about them. typical:
    draws one of the clips that MACD repairs in the search for an example. wanted: the example that
    the page's address names, "" for none.
    """

    def __init__(
        self,
        examples: list[Example],
        opening: tuple[Example, Trace] | None,
        settings: ServerSettings,
    ) -> None:
        first, trace = opening or (None, None)
        values = form_values() if trace is None else settings_of(trace)

        def widget(name: str, info: str | None = None) -> gr.components.Component:
            return widget_of(SETTINGS[name], values[name], info)

        gr.HTML(
            f'<div class="drawer-head"><h2>{sentences.FORM}</h2>'
            f'<button type="button" id="close-form" aria-label="{sentences.HIDE_FORM}"'
            f' title="{sentences.HIDE_FORM}">×</button></div>',
            apply_default_css=False,
            padding=False,
        )
        self.examples = gr.Dropdown(
            choices=_listed_examples(examples),
            value=None if first is None else examples.index(first),
            label=sentences.EXAMPLE,
            elem_id="example",
            visible=bool(examples),
        )
        self.wanted = gr.Textbox(visible="hidden", elem_id="wanted")
        self.draw = gr.Button(
            sentences.RANDOM_DRAW, elem_id="draw", visible=random_clips.can_draw()
        )
        self.typical = gr.Button(visible="hidden", elem_id="typical")  # the viewer's presses it
        self.video = gr.File(
            label=sentences.OWN_CLIP,
            file_types=VIDEO_TYPES,
            type="filepath",
            height=150,
            elem_id="video",
        )
        error_line("clip-error")
        self.strip = mounted("strip", "mountStrip", {}, sent=True)
        self.sampling = mounted("sampling", "mountSampling", {})
        self.question = gr.Textbox(
            value=first.question if first else "",
            label=sentences.QUESTION,
            placeholder=sentences.QUESTION_HINT,
            lines=1,  # Enter runs; of several lines it would begin another
            max_lines=4,
            elem_id="question",
        )
        phrases = list(noun_phrases(first.question)) if first else []
        self.words = gr.Dropdown(
            phrases,
            value=phrases,
            multiselect=True,
            allow_custom_value=True,
            max_choices=MAX_WORDS,
            label=sentences.WORDS,
            info=sentences.WORDS_HELP,
            visible=reads_words(str(values.get("detector", AUTO))),
            elem_id="words",
        )
        with gr.Row():
            self.run = gr.Button(sentences.RUN, variant="primary", min_width=90, elem_id="run")
            self.stop = gr.Button(sentences.STOP, interactive=False, min_width=90, elem_id="stop")
        error_line("run-error")
        progress_line("run-progress")
        self.knows = mounted("knows", "mountKnows", {})
        self.real = gr.Button("", visible=False, size="sm", elem_id="real")
        self.tally = mounted("tally", "mountTally", {})
        self.cost = _line("cost", visible=settings.gpu_quota)
        self.note = _line("differs")
        widgets: dict[str, gr.components.Component] = {}

        def group(title: str, *rows: tuple[str, ...]) -> None:
            """The settings of a group, a row each, with their defaults."""
            _heading(sentences.GROUPS[title])
            for row in rows:
                with gr.Row():
                    widgets.update({n: widget(n, _info(n)) for n in row})

        with gr.Accordion(sentences.SETTINGS, open=False, elem_id="settings"):
            self.reset = gr.Button(sentences.RESET, size="sm", elem_id="reset")
            _heading(sentences.GROUPS["models"])
            backbone, detector = _listed(settings) if settings.public else _free(settings)
            self.segmenter = _segmenters(settings)
            group("answer", ("alpha", "beta"), ("search", "max_tokens"), ("seed",))
            group("clip", ("frames", "frame_rate"))
            widgets["frames"].elem_id = "frames"
            group("objects", ("confidence",))
            tracks = _file(sentences.TRACKS, TRACK_TYPES, "tracks")
            self.sheet = gr.HTML("", elem_id="tracks-sheet")
            with gr.Row():
                widgets["tracks_fps"] = widget("tracks_fps", sentences.TRACKS_FPS_HELP)
                widgets["tracks_start"] = widget("tracks_start")
            with gr.Row():
                widgets |= {n: widget(n) for n in ("tracks_first", "tracks_columns")}
            widgets["tracks_source"] = widget("tracks_source", sentences.TRACKS_SOURCE_HELP)
            widgets["tracks_source"].elem_id = "tracks-source"
            group("masks", ("shape",), ("fill", "frame_mask"), ("fusion", "levels"), ("swept",))
            group("ascent", ("steps", "eta", "tau"), ("strengths", "gradient"), ("low_memory",))
            with gr.Accordion(sentences.COMPARE, open=False, elem_id="compare"):
                methods = gr.CheckboxGroup(
                    [(m.title, m.name) for m in METHODS.values() if m.name not in STANDARD_METHODS],
                    value=values.get("methods", []),
                    label=sentences.METHODS,
                    elem_id="methods",
                )
                counterpart = _file(sentences.PARTNER, VIDEO_TYPES, "counterpart")
        self.fields = {
            "example": self.examples,
            "video": self.video,
            "sampling": self.sampling,
            "question": self.question,
            "methods": methods,
            **widgets,
            "backbone": backbone,
            "detector": detector,
            "tracks": tracks,
            "counterpart": counterpart,
            "words": self.words,
        }


def _listed_examples(examples: list[Example]) -> list[tuple[str, int]]:
    """Titles with their numbers: clips of a camera first, then those that are drawn."""
    order = sorted(range(len(examples)), key=lambda i: examples[i].is_drawn)
    return [(examples[i].title, i) for i in order]


def _file(label: str, kinds: list[str], name: str) -> gr.File:
    """A place for a file that goes with the clip."""
    return gr.File(label=label, file_types=kinds, type="filepath", height=110, elem_id=name)


_FORM_PART = """
globalThis.macdForm ??= { parts: new Promise((done) => { globalThis.macdFormGiven = done; }) };
const give = globalThis.macdFormGiven;
globalThis.macdForm.parts.then((parts) => parts.MOUNT({ element, props, trigger, watch }));
"""
"""Waits for the scripts of the form, which one of its parts brings for all."""


def mounted(name: str, mount: str, value: dict[str, Any], sent: bool = False) -> gr.HTML:
    """A part of the form, whose script writes data as text only. sent: it brings that script."""
    return gr.HTML(
        value=value,
        html_template=f'<div class="{name}-host"></div>',
        js_on_load=_FORM_PART.replace("MOUNT", mount) + (f"give({bundle(FORM)});" if sent else ""),
        apply_default_css=False,
        elem_id=name,
        padding=False,
    )


def error_line(name: str) -> None:
    """Where the page puts an error that belongs here; empty until there is one."""
    gr.HTML(
        f'<p class="mv-error form-error" id="{name}" role="alert" hidden></p>',
        apply_default_css=False,
        padding=False,
    )


def progress_line(name: str) -> None:
    """Where the page says how far a run is; hidden while none is under way.

    Screen readers hear the viewer's own message, so not this one too.
    """
    gr.HTML(
        f'<p class="form-progress" id="{name}" aria-hidden="true" hidden></p>',
        apply_default_css=False,
        padding=False,
    )


def _line(name: str, visible: bool = True) -> gr.HTML:
    """A line whose text reaches the page as text, never as a template."""
    return gr.HTML(
        value={"text": ""},
        html_template='<p class="note"></p>',
        js_on_load=_NOTE,
        apply_default_css=False,
        elem_id=name,
        padding=False,
        visible=visible,
    )


PAPER = ("steps", "eta", "confidence")
"""Settings whose values in the paper are named."""
STEPS = {
    "frame_rate": 1,
    "tracks_fps": 1,
    "tracks_start": 0.1,
    "alpha": 0.1,
    "beta": 0.01,
    "eta": 0.01,
    "tau": 0.0001,
    "confidence": 0.1,
}
"""By how much the arrows of a number change it."""


def widget_of(setting: Setting, value: Any, info: str | None = None) -> gr.components.Component:
    """The widget of a setting; info: below its label."""
    match rule_within(setting.rule):
        case Number(whole=True):
            return gr.Number(value, label=setting.label, precision=0, info=info)
        case Number():
            step = STEPS[setting.name]
            return gr.Number(value, label=setting.label, step=step, info=info)
        case Choice() if setting.word is None:
            return gr.Dropdown(setting.choices, value=value, label=setting.label, info=info)
        case Text():
            return gr.Dropdown(
                [value] if value else [], value=value, label=setting.label, info=info,
                allow_custom_value=True,
            )  # fmt: skip
        case _:
            return gr.Checkbox(value, label=setting.label, info=info)


def _free(settings: ServerSettings) -> tuple[gr.Dropdown, gr.Textbox]:
    """Backbone and detector of a private page: any that can be loaded."""
    backbone = gr.Dropdown(
        [
            *((sentences.EMBEDDED_MODELS[name], name) for name in (AUTO, EVERYDAY, EMBEDDED)),
            *((name, name) for name in settings.backbones if is_remote(name)),
            *((m.label, m.hub_id) for m in CATALOGUE),
        ],
        value=AUTO,
        allow_custom_value=True,
        label=sentences.BACKBONE,
        info=sentences.BACKBONE_HELP,
        elem_id="backbone",
    )
    detector = gr.Textbox(
        AUTO,
        label=sentences.DETECTOR,
        info=sentences.DETECTOR_HELP,
        elem_id="detector",
    )
    return backbone, detector


def _listed(settings: ServerSettings) -> tuple[gr.Dropdown, gr.Dropdown]:
    """Those that a public page offers."""
    labels = {m.hub_id: m.label for m in CATALOGUE} | sentences.EMBEDDED_MODELS
    backbone = gr.Dropdown(
        [(labels.get(name, name), name) for name in settings.backbones],
        value=AUTO,
        label=sentences.BACKBONE,
        elem_id="backbone",
    )
    detector = gr.Dropdown(
        list(settings.detectors), value=AUTO, label=sentences.DETECTOR, elem_id="detector"
    )
    return backbone, detector


def _segmenters(settings: ServerSettings) -> gr.Dropdown:
    """Those that a public page offers; elsewhere any that can be loaded."""
    names = settings.segmenters if settings.public else named("points")
    return gr.Dropdown(
        [(DETECTORS[n].facts if n in DETECTORS else n, n) for n in names],
        value=first_segmenter(settings),
        allow_custom_value=not settings.public,
        label=sentences.SEGMENTER,
        info=sentences.SEGMENTER_HELP,
        elem_id="segmenter",
    )


HELP = {"shape": sentences.SHAPE_HELP, "gradient": sentences.GRADIENT_HELP}
"""Settings of which more is said than their default."""


def _info(name: str) -> str:
    """A setting's default, and what the paper tried or the setting means."""
    setting = SETTINGS[name]
    more = sentences.paper_values(SWEEPS[name]) if name in PAPER else HELP.get(name)
    rule = setting.rule
    default = setting.default
    if isinstance(rule, Choice) and setting.word is None:
        default = dict((word, shown) for shown, word in setting.choices)[default]
    elif isinstance(default, bool):
        default = "on" if default else "off"
    return sentences.default_value(default, more)


def _heading(text: str) -> None:
    """The title of a group of options."""
    gr.HTML(f'<h3 class="options-group">{text}</h3>', apply_default_css=False, padding=False)


class QuestionsPanel:
    """Folded away until it is needed. list: one question a line; ask: runs them in turn."""

    def __init__(self) -> None:
        with gr.Accordion(sentences.SEVERAL, open=False, elem_id="several"):
            self.list = gr.Textbox(
                label=sentences.ONE_A_LINE,
                info=sentences.several_help(MOST),
                lines=3,
                max_lines=MOST,
                elem_id="questions",
            )
            self.ask = gr.Button(sentences.ASK_ALL, size="sm", min_width=90, elem_id="ask-all")


class ViewPanel:
    """The viewer fills the panel; the rest is folded or small."""

    def __init__(self, first: dict[str, Any] | None) -> None:
        self.viewer = viewer_component(first)
        with gr.Accordion(sentences.TRAJECTORIES, open=False, elem_id="strengths") as accordion:
            self.strengths = accordion
            self.plot = gr.Plot(show_label=False, container=False, elem_id="strengths-plot")
            with gr.Row():
                self.save_plot = {
                    kind: gr.Button(
                        sentences.save_plot(kind), size="sm", min_width=80, elem_id=f"plot-{kind}"
                    )
                    for kind in ("svg", "png", "json")
                }
