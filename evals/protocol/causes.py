"""Where two protocols differ, question by question: named causes, in the order they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from macd_studio.core.methods import find_method, own_part
from macd_studio.core.options import OWN_CONTRAST
from macd_studio.evals.protocol.bounds import ClipGiven, ItemGiven, Protocol
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.inputs import STATED

ANNOTATION, CLIP, FRAMES, SIZE, FIT = "annotation", "clip file", "frames", "size", "fit"
DECODING, PROCESSOR, TOKENIZER, TEMPLATE = "decoding", "processor", "tokenizer", "template"
WEIGHTS, QUANTISED, DTYPE, DEVICE = "weights", "quantisation", "dtype", "device"
GENERATION, SEARCH, SEED, CONTRAST = "generation", "search", "seed", "α and β"
METHOD, OPTIONS, DETECTOR, VERSIONS, CODE = "method", "options", "detector", "versions", "code"
ORDER = (
    ANNOTATION, CLIP, FRAMES, SIZE, FIT, DECODING, PROCESSOR, TOKENIZER, TEMPLATE, WEIGHTS,
    QUANTISED, DTYPE, DEVICE, VERSIONS, CODE, GENERATION, SEARCH, SEED, METHOD, CONTRAST, OPTIONS,
    DETECTOR,
)  # fmt: skip
"""Of causes by which answers differ: the order in which they are shown and switched."""
SEARCHES = ("search", "temperature", "top_p", "beams", "length_penalty", "samples")
SEEDS = ("seed", "decode.seed", "mask.fill_seed")
FIRST_TOKEN_ONLY = ("keep",)
"""Options of decoding that change what is kept and no answer."""
OF_OBJECTS = ("mask", "ascent", "detect", "track")
"""Options that only a method with masks depends on."""


CAUSE_OF = {
    "model": WEIGHTS, "frames": FRAMES, "fps": FRAMES, "size": SIZE, "fit": FIT,
    "prompts": TEMPLATE, "dtype": DTYPE, "device": DEVICE, "seed": SEED, "search": SEARCH,
    "temperature": SEARCH, "max_tokens": GENERATION, "alpha": CONTRAST, "beta": CONTRAST,
    "transformers": VERSIONS, "torch": VERSIONS, "arguments": OPTIONS,
}  # fmt: skip
"""What a figure may state of itself → the cause where two statements differ."""


@dataclass(frozen=True)
class Differences:
    """causes: question → the names of what differs in what its answers were computed from.

    details: name → what differs, in words. unknown: whether one of the two has no protocol, so that
    causes are those that both state, and others may differ, too.
    """

    causes: Mapping[str, frozenset[str]]
    details: Mapping[str, str]
    unknown: bool = False


def differences(a: Figure, b: Figure, ids: Iterable[str]) -> Differences:
    """What differs for each of these questions, which both figures answer."""
    details: dict[str, str] = {}
    if a.protocol is None or b.protocol is None:
        return _stated_differences(a, b, ids)
    first, second = _Side(a), _Side(b)
    of_all = _of_all(first, second, details)
    causes = {}
    for name in ids:
        found = set(of_all)
        one, other = first.items.get(name), second.items.get(name)
        if one is not None and other is not None:
            _of_question(one, other, first, second, found, details)
            if one.by is not None and other.by is not None:
                models = (first.protocol.models[one.by], second.protocol.models[other.by])
                found |= _of_models(*models, first.with_objects or second.with_objects, details)
                if models[0].get("processor") == models[1].get("processor"):
                    found = _by_versions(found, details)
            if one.prompt != other.prompt and not found & {ANNOTATION, TEMPLATE, FRAMES, VERSIONS}:
                found.add(TEMPLATE)
                details.setdefault(TEMPLATE, "the prompts differ")
        causes[name] = frozenset(found)
    named = frozenset().union(*causes.values()) if causes else frozenset()
    return Differences(causes, {n: text for n, text in details.items() if n in named})


def statements(figure: Figure) -> dict[str, str]:
    """Of STATED what the figure says; what it does not say is left out."""
    said = {"over": figure.over, **figure.said}
    if figure.parser.judge is not None:
        said["rule"] = figure.parser.name
    if figure.protocol is None:
        return {n: said[n] for n in STATED if said.get(n)}
    setting = figure.protocol.setting
    options = setting.get("options", {})
    video, decode = (options.get(z, {}) for z in ("video", "decode"))
    model: Mapping[str, Any] = next(iter(figure.protocol.models), {})
    method = figure.protocol.methods.get(figure.method, {})
    own = {
        "model": model.get("name"),
        "frames": None if setting.get("fps") else len(video.get("at", ())) or video.get("frames"),
        "fps": setting.get("fps"),
        "size": setting.get("side"),
        "fit": video.get("fit"),
        "prompts": "" if figure.drawn else "published" if setting.get("published") else "bare",
        "dtype": model.get("dtype"),
        "device": model.get("device"),
        "seed": options.get("seed"),
        "search": decode.get("search"),
        "temperature": decode.get("temperature") if decode.get("search") == "sample" else None,
        "max_tokens": decode.get("max_tokens"),
        "alpha": method.get("alpha"),
        "beta": method.get("beta"),
        "transformers": model.get("versions", {}).get("transformers"),
        "torch": model.get("versions", {}).get("torch"),
    }
    said |= {n: _text(v) for n, v in own.items() if v is not None and v != ""}
    return {n: said[n] for n in STATED if said.get(n)}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def same(a: str, b: str) -> bool:
    """Whether two values say the same, 8 and 8.0 alike."""
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-9)
    except ValueError:
        return a.strip().lower() == b.strip().lower()


def _stated_differences(a: Figure, b: Figure, ids: Iterable[str]) -> Differences:
    """By what both state, where a protocol is missing; prompts are compared question by question.

    A seed counts where either samples.
    """
    details: dict[str, str] = {}
    first, second = statements(a), statements(b)
    sampled = any(_samples(z) for z in (first, second))
    for name, cause in CAUSE_OF.items():
        one, other = first.get(name), second.get(name)
        if one is None or other is None or same(one, other) or (cause == SEED and not sampled):
            continue
        text = f"as stated, {name} {_short(one)} → {_short(other)}"
        details[cause] = f"{details[cause]}; {text}" if cause in details else text
    of_all = frozenset(details)
    causes = {}
    for name in ids:
        one, other = a.prompts.get(name), b.prompts.get(name)
        causes[name] = of_all
        if one is not None and other is not None and one != other:
            causes[name] = of_all | {TEMPLATE}
            details[TEMPLATE] = "the prompts differ"
    return Differences(causes, details, unknown=True)


def _samples(stated: Mapping[str, str]) -> bool:
    return stated.get("search") == "sample" or not same(stated.get("temperature", "0"), "0")


def _by_versions(found: set[str], details: dict[str, str]) -> set[str]:
    """Pictures that differ are an effect of packages, where these differ and no file does."""
    effects = found & {PROCESSOR, DECODING}
    if VERSIONS not in found or not effects:
        return found
    text = "; pictures differ by it"
    if text not in details[VERSIONS]:
        details[VERSIONS] += text
    return found - effects


class _Side:
    def __init__(self, figure: Figure) -> None:
        assert figure.protocol is not None
        self.protocol: Protocol = figure.protocol
        self.method = figure.method
        self.items = {i.id: i for i in self.protocol.items}
        method = find_method(self.method)
        self.second_views, self.with_objects = method.second_views, method.needs_objects
        self.view = own_part(method.view)
        self.options = _flat(self.protocol.setting.get("options", {}))

    def contrast(self, name: str) -> Any:
        """α or β, None where it is not recorded."""
        return self.protocol.methods.get(self.method, {}).get(name)

    def clip(self, item: ItemGiven) -> ClipGiven:
        return self.protocol.clips[item.clip]


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {}
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _of_all(a: _Side, b: _Side, details: dict[str, str]) -> set[str]:
    """Causes that hold for every question: options, method, α and β, seed, detector, code."""
    found: set[str] = set()

    def note(cause: str, one: Any, other: Any, name: str = "") -> None:
        if one != other:
            found.add(cause)
            text = f"{f'{name} ' if name else ''}{_short(one)} → {_short(other)}"
            details[cause] = f"{details[cause]}; {text}" if cause in details else text

    note(METHOD, a.method, b.method)
    if a.second_views and b.second_views:
        for name, letter in (("alpha", "α"), ("beta", "β")):
            note(CONTRAST, a.contrast(name), b.contrast(name), letter)
    objects = a.with_objects or b.with_objects
    names = dict.fromkeys([*a.options, *b.options])
    for name in names:
        one, other = a.options.get(name), b.options.get(name)
        top, _, last = name.rpartition(".")
        if one == other or name.startswith("video.") or last in ("alpha", "beta", "lazy"):
            continue
        if name in SEEDS:
            note(SEED, one, other, name)
        elif top == "decode" and last in SEARCHES:
            note(SEARCH, one, other, last)
        elif top == "decode" and last not in FIRST_TOKEN_ONLY:
            note(GENERATION, one, other, last)
        elif top.split(".")[0] in OF_OBJECTS and not objects:
            continue
        elif top.split(".")[0] in {*OWN_CONTRAST} - {a.view, b.view}:
            continue
        else:
            note(OPTIONS, one, other, name)
    one, other = a.protocol.setting, b.protocol.setting
    note(SEED, one.get("seed", 0), other.get("seed", 0), "of the clips")
    note(FIT, a.options.get("video.fit"), b.options.get("video.fit"))
    if objects:
        note(DETECTOR, one.get("detector"), other.get("detector"))
    note(CODE, a.protocol.made_by.get("code"), b.protocol.made_by.get("code"))
    return found


def _of_question(
    one: ItemGiven, other: ItemGiven, a: _Side, b: _Side, found: set[str], details: dict[str, str]
) -> None:
    """Causes by what this question's answers were computed from."""

    def note(cause: str, text: str) -> None:
        found.add(cause)
        details.setdefault(cause, text)

    if one.asked != other.asked:
        note(ANNOTATION, "questions or options are worded otherwise")
    if one.around != other.around:
        note(TEMPLATE, "the text around the questions")
    first, second = a.clip(one), b.clip(other)
    if not first.times or not second.times:
        return
    if first.clip != second.clip:
        note(CLIP, "the files' hashes")
    same_frames = first.times == second.times and first.frames == second.frames
    if not same_frames:
        note(FRAMES, f"{len(first.times)} → {len(second.times)}, such as at"
             f" {_times(first)} → {_times(second)} s")  # fmt: skip
    if first.source and second.source and first.source[:2] != second.source[:2]:
        note(SIZE, "{}×{} → {}×{}".format(*first.source[:2], *second.source[:2]))
    elif same_frames and first.clip == second.clip and first.source != second.source:
        note(DECODING, "the same frames of the same file were decoded otherwise")
    elif first.source == second.source and first.read != second.read and FIT not in found:
        note(PROCESSOR, "it made other pictures of the same ones")


def _of_models(
    one: Mapping[str, Any], other: Mapping[str, Any], objects: bool, details: dict[str, str]
) -> set[str]:
    found: set[str] = set()

    def note(cause: str, *fields: str) -> None:
        values = [[m.get(f, "") for f in fields] for m in (one, other)]
        if values[0] != values[1]:
            found.add(cause)
            shown = next(
                f"{_short(x)} → {_short(y)}" for x, y in zip(*values, strict=True) if x != y
            )
            details.setdefault(cause, shown)

    note(PROCESSOR, "processor")
    note(TOKENIZER, "tokenizer")
    note(TEMPLATE, "template")
    note(GENERATION, "generation")
    note(WEIGHTS, "weights", "adapter", "config")
    note(QUANTISED, "quantised")
    note(DTYPE, "dtype")
    note(DEVICE, "device", "device_name")
    packages = [dict(m.get("versions", {})) for m in (one, other)]
    for package in dict.fromkeys([*packages[0], *packages[1]]):
        if package in ("ultralytics", "trackers", "supervision") and not objects:
            continue
        x, y = (p.get(package, "not stated") for p in packages)
        if x != y:
            found.add(VERSIONS)
            text = f"{package} {x} → {y}"
            told = details.get(VERSIONS, "")
            if text not in told:
                details[VERSIONS] = f"{told}; {text}" if told else text
    return found


def _times(clip: ClipGiven) -> str:
    shown = ", ".join(f"{t:g}" for t in clip.times[:3])
    return f"{shown}, …" if len(clip.times) > 3 else shown


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text or "–"
    return text if len(text) <= 40 else f"{text[:12]}…"
