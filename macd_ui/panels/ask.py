"""What to look at and what to ask: example or file, question, settings, Run and Stop."""

from __future__ import annotations

import gradio as gr

from core.backbones.catalogue import CATALOGUE
from core.methods import METHODS
from core.options import SWEEPS, RunOptions
from macd_ui.examples import Example
from macd_ui.forms import FILLS, FRAME_MASKS, FUSIONS, LEVELS, SHAPES
from macd_ui.settings import EMBEDDED, ServerSettings

ALWAYS = ("baseline", "macd")
VIDEO_TYPES = [".mp4", ".mov", ".webm", ".mkv", ".avi", ".m4v", ".mpg", ".ts", ".gif"]


_NOTE = """
element.setAttribute("aria-live", "polite");
const show = () => {
  const text = (props.value || {}).text || "";
  const line = element.querySelector(".note");
  if (line.textContent !== text) line.textContent = text;
  line.hidden = !text;
};
watch("value", show);
show();
"""


class AskPanel:
    """Widgets by name in `fields`; every one of them is an input of a run.

    first: the example on show when the page opens. note: says where the form differs from what is
    shown; its text reaches the page as text, never as a template. settings: which models visitors
    may choose.
    """

    def __init__(
        self, examples: list[Example], first: Example | None, settings: ServerSettings
    ) -> None:
        defaults = RunOptions()
        self.examples = gr.Dropdown(
            choices=[(e.title, i) for i, e in enumerate(examples)],
            value=None if first is None else examples.index(first),
            label="Example",
            elem_id="example",
            visible=bool(examples),
        )
        self.video = gr.File(
            label="Or your own clip",
            file_types=VIDEO_TYPES,
            type="filepath",
            height=150,
            elem_id="video",
        )
        self.question = gr.Textbox(
            value=first.question if first else "",
            label="Question",
            placeholder="Is there a dog in the video?",
            lines=2,
            max_lines=4,
            elem_id="question",
        )
        with gr.Row():
            self.run = gr.Button("Run", variant="primary", min_width=90, elem_id="run")
            self.stop = gr.Button("Stop", interactive=False, min_width=90, elem_id="stop")
        self.note = gr.HTML(
            value={"text": ""},
            html_template='<p class="note"></p>',
            js_on_load=_NOTE,
            apply_default_css=False,
            elem_id="differs",
            padding=False,
        )
        with gr.Accordion("Compare methods", open=False, elem_id="compare"):
            methods = gr.CheckboxGroup(
                [(m.title, m.name) for m in METHODS.values() if m.name not in ALWAYS],
                label="Beside the baseline and MACD",
                elem_id="methods",
            )
            search = gr.Dropdown(
                [
                    ("greedy", "greedy"),
                    ("nucleus sampling", "sample"),
                    ("beam search", "beam"),
                    ("self-consistency vote", "vote"),
                ],
                value=defaults.decode.search,
                label="search",
            )
            seed = gr.Number(0, label="seed", precision=0)
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            with gr.Row():
                alpha = gr.Number(defaults.contrast.alpha, label="α contrast", step=0.1)
                beta = gr.Number(defaults.contrast.beta, label="β head", step=0.01)
            with gr.Row():
                steps = gr.Number(
                    defaults.ascent.steps, label="ascent steps", precision=0, info=_paper("steps")
                )
                eta = gr.Number(
                    defaults.ascent.eta, label="η step size", step=0.01, info=_paper("eta")
                )
                tau = gr.Number(defaults.ascent.tau, label="τ dead band", step=0.0001)
            with gr.Row():
                frames = gr.Number(defaults.video.frames, label="frames", precision=0)
                confidence = gr.Number(
                    defaults.detect.confidence,
                    label="detector confidence",
                    step=0.1,
                    info=_paper("confidence"),
                )
            fill = gr.Dropdown(list(FILLS), value=defaults.mask.fill, label="fill of masks")
            frame_mask = gr.Dropdown(
                list(FRAME_MASKS), value=defaults.mask.frame_mask, label="frame mask"
            )
            shape = gr.Dropdown(
                list(SHAPES),
                value=defaults.mask.shape,
                label="shape of masks",
                info="outlines come from a detector that segments, such as yolo11n-seg",
            )
            fusion = gr.Dropdown(list(FUSIONS), value=defaults.mask.fusion, label="fusion of masks")
            levels = gr.Dropdown(list(LEVELS), value=defaults.ascent.levels, label="levels")
            swept = gr.Checkbox(defaults.mask.swept, label="sweep masks over time")
            low_memory = gr.Checkbox(False, label="less memory, more time")
            gradient = gr.Dropdown(
                [
                    ("exact", "exact"),
                    ("≈ on the plain video", "base"),
                    ("≈ on half-size frames", "half"),
                ],
                value=defaults.ascent.gradient,
                label="gradient",
                info="≈ costs less and often gives other signs; MACD is defined by the exact one",
            )
            backbone, detector = _listed(settings) if settings.public else _free()
        self.fields = {
            "example": self.examples,
            "video": self.video,
            "question": self.question,
            "methods": methods,
            "search": search,
            "seed": seed,
            "alpha": alpha,
            "beta": beta,
            "steps": steps,
            "eta": eta,
            "tau": tau,
            "frames": frames,
            "confidence": confidence,
            "fill": fill,
            "frame_mask": frame_mask,
            "shape": shape,
            "fusion": fusion,
            "levels": levels,
            "swept": swept,
            "low_memory": low_memory,
            "gradient": gradient,
            "backbone": backbone,
            "detector": detector,
        }


def _free() -> tuple[gr.Dropdown, gr.Textbox]:
    """Backbone and detector of a private page: any that can be loaded."""
    backbone = gr.Dropdown(
        [("toyworld · embedded", EMBEDDED), *((m.label, m.hub_id) for m in CATALOGUE)],
        value=EMBEDDED,
        allow_custom_value=True,
        label="Backbone",
        info="parameters and memory in bfloat16; a folder or another hub id can be typed",
        elem_id="backbone",
    )
    detector = gr.Textbox(
        EMBEDDED,
        label="Detector",
        info="toyworld, yolo11n … yolo11x-seg, rt-detr, d-fine, grounding-dino, or a file",
        elem_id="detector",
    )
    return backbone, detector


def _listed(settings: ServerSettings) -> tuple[gr.Dropdown, gr.Dropdown]:
    """Those that a public page offers."""
    labels = {m.hub_id: m.label for m in CATALOGUE} | {EMBEDDED: "toyworld · embedded"}
    backbone = gr.Dropdown(
        [(labels.get(name, name), name) for name in settings.backbones],
        value=EMBEDDED,
        label="Backbone",
        elem_id="backbone",
    )
    detector = gr.Dropdown(
        list(settings.detectors), value=EMBEDDED, label="Detector", elem_id="detector"
    )
    return backbone, detector


def _paper(name: str) -> str:
    """What the paper tried."""
    return f"paper: {', '.join(map(str, SWEEPS[name]))}"
