"""The page's settings → options; what a run of the form would compute, and where that differs.

Choices, ranges, defaults and help come from the option classes. No widget is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.registry import reads_words
from macd_studio.core.options import RunOptions, VideoOptions, options_from
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.text.phrases import prompt_of
from macd_studio.core.text.question import clean_question
from macd_studio.core.types import Trace
from macd_studio.core.validation import (
    Choice,
    Flag,
    Many,
    Maybe,
    Number,
    Part,
    Rule,
    Text,
    help_of,
    refuse_unknown,
    rule_of,
    rule_within,
)
from macd_studio.macd_ui import sentences

DEFAULTS = RunOptions()
MAX_WORDS = 20
"""That a detector is asked for at once."""
CHOSEN = ("start", "end", "at")
"""The options of `VideoOptions` that are chosen on a strip."""


@dataclass(frozen=True)
class Setting:
    """A widget for an option.

    part, field: where RunOptions keeps it. label: beside the widget. names: choices → how they are
    shown, for those whose word is not enough. word: the choice that a checkbox stands for.
    """

    name: str
    part: str
    field: str
    label: str
    names: Mapping[str, str] | None = None
    word: str | None = None

    @property
    def _field(self) -> Field[Any]:
        owner = getattr(RunOptions(), self.part) if self.part else RunOptions()
        return next(f for f in fields(owner) if f.name == self.field)

    @property
    def rule(self) -> Rule:
        """What the option may be."""
        return rule_of(self._field)

    @property
    def help(self) -> str:
        """What the option does."""
        return help_of(self._field)

    @property
    def default(self) -> Any:
        """The widget's value for the option's default."""
        return self._shown(self._field.default)

    def _shown(self, value: Any) -> Any:
        """The widget's value: 0 for a number that is left out, as an empty field sends it."""
        if self.word is not None:
            return value == self.word
        return 0 if value is None and self._may_be_empty else value

    @property
    def _may_be_empty(self) -> bool:
        return isinstance(self.rule, Maybe)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """(shown, word) of an option that is one of a few words."""
        assert isinstance(self.rule, Choice)
        return [((self.names or {}).get(word, word), word) for word in self.rule.among]

    def read(self, value: Any) -> Any:
        """The widget's value as the option takes it; an empty field is an OptionError."""
        if self.word is not None:
            return self.word if value else self._field.default
        if isinstance(self.rule, Flag):
            return bool(value)
        if isinstance(self.rule, Text):
            return (value or "").strip() if isinstance(value, str | None) else value
        if self._may_be_empty and (value is None or value == 0):
            return None
        if isinstance(rule_within(self.rule), Number) and isinstance(value, bool | str | None):
            raise OptionError(f"{self.name.replace('_', ' ')} is empty", "Type a number")
        return value

    def value_of(self, options: RunOptions) -> Any:
        """The widget's value for the option as it is in `options`; `read` gives it back."""
        part = getattr(options, self.part) if self.part else options
        return self._shown(getattr(part, self.field))


_SEARCHES = {
    "sample": "nucleus sampling", "beam": "beam search", "vote": "self-consistency vote",
}  # fmt: skip
_GRADIENTS = {
    "base": "≈ on the plain video",
    "half": "≈ on half-size frames",
    "difference": "by reading alone",
}
SWEEPS: dict[str, tuple[float | str, ...]] = {
    "confidence": (0.3, 0.5, 0.7),
    "steps": (1, 3),
    "eta": (0.01, 0.5),
    "fusion": ("max", "confidence", "average"),  # the paper's; "or" is this project's
    "levels": ("three", "continuous"),
    "strengths": ("per-object", "shared"),
}
"""What the paper varied in its ablations, its default first but for the detector's 0.5."""
SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("search", "decode", "search", "search", _SEARCHES),
        Setting("seed", "", "seed", "seed"),
        Setting("alpha", "contrast", "alpha", "α contrast strength"),
        Setting("beta", "contrast", "beta", "β plausibility cut"),
        Setting("steps", "ascent", "steps", "ascent steps"),
        Setting("eta", "ascent", "eta", "η step size"),
        Setting("tau", "ascent", "tau", "τ dead band"),
        Setting("frames", "video", "frames", "frames"),
        Setting("frame_rate", "video", "frame_rate", sentences.FLAGS["--frame-rate"]),
        Setting("max_tokens", "decode", "max_tokens", "longest answer, tokens"),
        Setting("confidence", "detect", "confidence", "detector confidence"),
        Setting("fill", "mask", "fill", "mask fill"),
        Setting("frame_mask", "mask", "frame_mask", "frame mask"),
        Setting("shape", "mask", "shape", "mask shape"),
        Setting("fusion", "mask", "fusion", "mask fusion"),
        Setting("levels", "ascent", "levels", "levels"),
        Setting("strengths", "ascent", "strengths", "strengths"),
        Setting("swept", "mask", "swept", "sweep masks over time"),
        Setting("low_memory", "ascent", "memory", "low-memory mode (slower)", word="low"),
        Setting("tracks_fps", "track", "file_fps", sentences.FLAGS["--tracks-fps"]),
        Setting("tracks_start", "track", "file_start", sentences.FLAGS["--tracks-start"]),
        Setting("tracks_first", "track", "file_first", sentences.FLAGS["--first-frame"]),
        Setting("tracks_columns", "track", "file_columns", sentences.FLAGS["--columns"]),
        Setting("tracks_source", "track", "file_source", sentences.FLAGS["--track-source"]),
        Setting("gradient", "ascent", "gradient", "gradient", _GRADIENTS),
    )
}
"""By the name of the widget."""


def run_options(values: Mapping[str, Any]) -> RunOptions:
    """Options from the settings by name, and from the filmstrip as `sampling`.

    Raises OptionError, naming the setting, for a bad one.
    """
    nested: dict[str, Any] = {}
    for setting in SETTINGS.values():
        owner = nested.setdefault(setting.part, {}) if setting.part else nested
        owner[setting.field] = setting.read(values[setting.name])
    nested["decode"]["seed"] = nested["seed"]
    if reads_words((values.get("detector") or "").strip()):
        nested["detect"]["prompt"] = prompt_of(read_words(values.get("words")))
    options = options_from(nested)
    return replace(options, video=video_options(options.video, values.get("sampling")))


def read_words(words: Any) -> list[str]:
    """What to look for, as the chips have it. Raises OptionError for what is no list of words."""
    read = Many(Text(100, clean=False), 0, MAX_WORDS).read(words or [], "words")
    return [clean_question(word) for word in read if word.strip()]


def video_options(options: VideoOptions, chosen: Any) -> VideoOptions:
    """The options with what was chosen on a strip, `{}` where nothing was. Raises OptionError."""
    if not chosen:
        return options
    if not isinstance(chosen, Mapping):
        raise OptionError("the choice of frames is not an object", "Reload the page")
    refuse_unknown(chosen, CHOSEN, "frames")
    read: VideoOptions = Part(options).read(dict(chosen), "video")
    return read


def form_values(options: RunOptions = DEFAULTS) -> dict[str, Any]:
    """The settings by name that stand for the options, as far as the page has a widget for them."""
    return {name: setting.value_of(options) for name, setting in SETTINGS.items()}


def differing(shown: RunOptions, requested: RunOptions) -> list[str]:
    """What a run would do otherwise than the shown one, as "α contrast strength 2 instead of 1".

    A search without a seed of its own takes the run's. Whether an answer is decoded does not count:
    the button says that.
    """
    labels = {f"{s.part}.{s.field}" if s.part else s.field: s.label for s in SETTINGS.values()}
    before, after = (_flat(options.as_dict()) for options in (shown, requested))
    for options in (before, after):
        options.pop("masks_only", None)
        options.pop("lazy", None)  # the page shows what a lazy run leaves out
        options.pop("video.max_megabytes", None)  # a bound, which changes nothing of a run
        if options["decode.seed"] is None:
            options["decode.seed"] = options["seed"]
    if before["decode.seed"] == before["seed"] and after["decode.seed"] == after["seed"]:
        del before["decode.seed"], after["decode.seed"]  # named once
    return [
        sentences.setting_changed(labels.get(name, name), _in_words(before.get(name)), _in_words(v))
        for name, v in after.items()
        if v != before.get(name)
    ]


def _flat(nested: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        inner = _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {}
        flat |= inner or {f"{above}{name}": value}
    return flat


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value)) or "none"
    if isinstance(value, int | float):
        return f"{value:g}".replace("-", "−")
    return "none" if value is None else str(value)


PARTNER_METHOD = "pair"
"""The method that a run has as well where its clip has a partner."""
STANDARD_METHODS = ("baseline", "macd")
"""Methods that every run has."""


@dataclass(frozen=True)
class RunRequest:
    """A clip and what is asked of it, as shown or as it would be run. sha256: of the clip's file.

    edited: whether it was changed by hand. whole: whether its methods can be compared; those of a
    run that was stopped cannot. partner: name and hash of the clip's partner, empty without one.
    """

    clip: str
    sha256: str
    spec: RunSpec
    edited: bool = False
    whole: bool = True
    partner: tuple[str, str] = ("", "")

    @property
    def masks_only(self) -> bool:
        """Whether no answer is asked for."""
        return self.spec.options.masks_only

    @property
    def name(self) -> str:
        """Clip and question for a sentence."""
        return sentences.run_name(self.clip, self.spec.question)

    def same_as(self, other: RunRequest) -> bool:
        """Whether clip and question are the same, whatever the file is called."""
        own, others = ((z.sha256, z.spec.question.strip()) for z in (self, other))
        return own == others


def request_of_trace(trace: Trace) -> RunRequest:
    """What a trace shows."""
    complete = trace.status == "complete" and bool(trace.answers)
    return RunRequest(
        trace.clip.name,
        trace.clip.sha256,
        RunSpec(
            trace.question,
            trace.options,
            tuple(m for m in trace.answers if m in METHODS and m not in STANDARD_METHODS),
            trace.backbone.name,
            trace.detector.name,
        ),
        bool(trace.edits),
        complete,
        _partner_of(trace),
    )


def _partner_of(trace: Trace) -> tuple[str, str]:
    """Name and hash of the clip that a trace contrasts with; empty where there is none."""
    answer = trace.answers.get(PARTNER_METHOD)
    if answer is None or not answer.second_views:
        return "", ""
    about = answer.second_views[0].view.as_dict()
    return str(about.get("file", "")), str(about.get("sha256", ""))


def with_models(request: RunRequest, models: tuple[str, str] | None) -> RunRequest:
    """The request with backbone and detector as they were asked for, where that is known."""
    if models is None:
        return request
    return replace(request, spec=replace(request.spec, backbone=models[0], detector=models[1]))


def difference(shown: RunRequest | None, requested: RunRequest | None) -> str:
    """A sentence for the page where a run would compute something else than what is shown.

    requested: None where the form holds no clip. Empty where both agree or nothing is shown.
    """
    if shown is None:
        return ""
    if requested is None:
        return sentences.no_clip_in_form(shown.name)
    if not shown.same_as(requested):
        return sentences.another_run(shown.name, requested.name)
    return sentences.other_settings(changed_settings(shown, requested), shown.edited)


def changed_settings(shown: RunRequest, requested: RunRequest) -> list[str]:
    """Models, methods and options of a run that are not those of what is shown, each in words."""
    changes, was, wanted = [], shown.spec, requested.spec
    for kind in ("backbone", "detector"):
        before, after = getattr(was, kind), getattr(wanted, kind)
        # a trace knows a file by its name alone, and one that was stopped early none
        if before and Path(before).name != Path(after).name:
            changes.append(sentences.setting_changed(kind, before, after))
    before, after = shown.partner, requested.partner
    if shown.whole and not shown.masks_only and before[1] != after[1]:
        names = (name or "none" for name, _ in (before, after))
        changes.append(sentences.setting_changed(sentences.PARTNER_NAME, *names))
    if shown.whole and requested.whole:
        added = [m for m in wanted.methods if m not in was.methods]
        left_out = [m for m in was.methods if m not in wanted.methods]
        changes += [sentences.method_added(METHODS[name].title) for name in added]
        changes += [sentences.method_left_out(METHODS[name].title) for name in left_out]
    return changes + differing(was.options, wanted.options)
