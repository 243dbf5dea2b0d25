"""The page's settings: which option each stands for, and their values → options.

Choices, ranges, defaults and help come from the option classes. No widget is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions, options_from
from macd_studio.core.validation import Choice, Flag, Number, Rule, help_of, rule_of
from macd_studio.macd_ui.strip import video_options

DEFAULTS = RunOptions()


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
        value = self._field.default
        return value == self.word if self.word is not None else value

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
        if isinstance(self.rule, Number) and (value is None or isinstance(value, bool | str)):
            raise OptionError(f"{self.name.replace('_', ' ')} is empty", "Type a number")
        return value

    def value_of(self, options: RunOptions) -> Any:
        """The widget's value for the option as it is in `options`; `read` gives it back."""
        value = getattr(getattr(options, self.part) if self.part else options, self.field)
        return value == self.word if self.word is not None else value


SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting(
            "search",
            "decode",
            "search",
            "search",
            {
                "sample": "nucleus sampling",
                "beam": "beam search",
                "vote": "self-consistency vote",
            },
        ),
        Setting("seed", "", "seed", "seed"),
        Setting("alpha", "contrast", "alpha", "α contrast strength"),
        Setting("beta", "contrast", "beta", "β plausibility cut"),
        Setting("steps", "ascent", "steps", "ascent steps"),
        Setting("eta", "ascent", "eta", "η step size"),
        Setting("tau", "ascent", "tau", "τ dead band"),
        Setting("frames", "video", "frames", "frames"),
        Setting("confidence", "detect", "confidence", "detector confidence"),
        Setting("fill", "mask", "fill", "mask fill"),
        Setting("frame_mask", "mask", "frame_mask", "frame mask"),
        Setting("shape", "mask", "shape", "mask shape"),
        Setting("fusion", "mask", "fusion", "mask fusion"),
        Setting("levels", "ascent", "levels", "levels"),
        Setting("strengths", "ascent", "strengths", "strengths"),
        Setting("swept", "mask", "swept", "sweep masks over time"),
        Setting("low_memory", "ascent", "memory", "low-memory mode (slower)", word="low"),
        Setting(
            "gradient",
            "ascent",
            "gradient",
            "gradient",
            {"base": "≈ on the plain video", "half": "≈ on half-size frames"},
        ),
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
    options = options_from(nested)
    return replace(options, video=video_options(options.video, values.get("sampling")))


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
        if options["decode.seed"] is None:
            options["decode.seed"] = options["seed"]
    if before["decode.seed"] == before["seed"] and after["decode.seed"] == after["seed"]:
        del before["decode.seed"], after["decode.seed"]  # told once
    return [
        f"{labels.get(name, name)} {_in_words(value)} instead of {_in_words(before.get(name))}"
        for name, value in after.items()
        if value != before.get(name)
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
