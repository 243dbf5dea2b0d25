"""protocol.json of anybody → checked values. What is too large or of another form is refused."""

# ruff: noqa: RUF009  (`stored` makes a field, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macd_studio.core.description import (
    COUNT,
    LINE,
    NAME,
    TEXT,
    ByName,
    Stored,
    Table,
    build,
    stored,
)
from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.validation import Many, Maybe, Number
from macd_studio.evals.benchmarks.layout import place, read_json

NAME_OF_FILE, KIND, VERSION = "protocol.json", "macd-studio protocol", 1
LARGEST_MB = 64
"""A protocol of 100,000 questions takes about 40."""
MAX_ITEMS = 100_000
MAX_CLIPS = 100_000
REMEDY = "Give the --out folder of `python -m evals run`"


class _Sized:
    """[width, height, hash] of pictures."""

    def read(self, value: Any, path: str) -> tuple[int, int, str]:
        """The three."""
        if not isinstance(value, list) or len(value) != 3:
            raise OptionError(f"{path} is not a size and a hash", REMEDY)
        width, height = (COUNT.read(v, path) for v in value[:2])
        return int(width or 0), int(height or 0), NAME.read(value[2], path)


@dataclass(frozen=True)
class ClipGiven(Stored):
    """What a processor was given of a clip; empty where no answer was computed."""

    key: str = stored(LINE, "the clip's name")
    clip: str = stored(NAME, "hash of its file", "")
    frames: tuple[int, ...] | None = stored(
        Maybe(Many(COUNT)), "numbers of the sampled frames", None
    )
    times: tuple[float, ...] = stored(Many(Number(-1e6, 1e9)), "their times, seconds", ())
    source: tuple[int, int, str] | None = stored(Maybe(_Sized()), "given to the processor", None)
    read: tuple[int, int, str] | None = stored(Maybe(_Sized()), "read by the model", None)


@dataclass(frozen=True)
class ItemGiven(Stored):
    """What a question's answer was computed from.

    clip, partner, by: places in the protocol's lists.
    """

    id: str = stored(LINE, "of the question")
    clip: int = stored(COUNT, "its clip")
    by: int | None = stored(Maybe(COUNT), "the model that answered", None)
    partner: int | None = stored(Maybe(COUNT), "the clip that it was compared with", None)
    kind: str = stored(NAME, "of the question", "")
    truth: str = stored(TEXT, "the right answer", "")
    asked: str = stored(NAME, "hash of question and options", "")
    around: str = stored(NAME, "hash of the text around them", "")
    prompt: str = stored(NAME, "hash of the whole prompt", "")
    tokens: int | None = stored(Maybe(COUNT), "length of the prompt", None)
    cluster: str = stored(LINE, "what was drawn with it", "")
    group: str = stored(LINE, "the group that it belongs to", "")


_METHOD = Table({
    "alpha": Maybe(Number(-1e6, 1e6)), "beta": Maybe(Number(-1e6, 1e6)), "from": LINE,
    "failed": Many(LINE, 0, MAX_ITEMS), "left_out": Many(LINE, 0, MAX_ITEMS),
})  # fmt: skip
_MODEL = Table({
    **{n: LINE for n in ("name", "family", "revision", "weights", "adapter", "quantised", "dtype",
                         "device", "device_name", "processor", "tokenizer", "template",
                         "generation", "config")},
    "versions": ByName(NAME),
})  # fmt: skip


class _Items:
    def __init__(self, kind: type[Any], most: int) -> None:
        self.kind, self.most = kind, most

    def read(self, value: Any, path: str) -> tuple[Any, ...]:
        """The objects."""
        if not isinstance(value, list) or len(value) > self.most:
            raise OptionError(f"{path} is no list of at most {self.most:,} entries", REMEDY)
        return tuple(build(self.kind, v, f"{path}[{i}]") for i, v in enumerate(value))


_SOURCE = Table({
    "detector": LINE, "boxes": NAME, "detect": Table({}), "masks": NAME, "methods": ByName(_METHOD),
})  # fmt: skip


@dataclass(frozen=True)
class Protocol(Stored):
    """What a run's figures depend on."""

    kind: str = stored(NAME, "what the file is")
    version: int = stored(COUNT, "of its form")
    made_by: dict[str, Any] = stored(ByName(LINE), "version and code", dict)
    benchmark: dict[str, Any] = stored(
        Table({"name": NAME, "asked": COUNT, "questions": COUNT, "content": NAME}),
        "questions and their files", dict,
    )  # fmt: skip
    scoring: dict[str, Any] = stored(
        Table({"rule": LINE, "source": LINE, "over": NAME, "held_out": COUNT, "failed": COUNT}),
        "how answers became a figure", dict,
    )  # fmt: skip
    setting: dict[str, Any] = stored(Table({}), "options and models", dict)
    methods: dict[str, Any] = stored(ByName(_METHOD), "α and β of each", dict)
    sources: dict[str, Any] = stored(
        ByName(_SOURCE, name=LINE), "of objects, of a study of detectors", dict
    )
    models: tuple[dict[str, Any], ...] = stored(Many(_MODEL, 0, 256), "who answered", ())
    clips: tuple[ClipGiven, ...] = stored(_Items(ClipGiven, MAX_CLIPS), "what was shown", tuple)
    items: tuple[ItemGiven, ...] = stored(_Items(ItemGiven, MAX_ITEMS), "what was asked", tuple)


def read_protocol(path: Path) -> Protocol:
    """The protocol of a file. Raises BenchmarkError, before a large file is read."""
    value = read_json(path, REMEDY, LARGEST_MB)
    try:
        protocol = build(Protocol, value, "")
    except OptionError as error:
        raise BenchmarkError(f"{place(path)}: {error.cause}", REMEDY) from None
    if protocol.kind != KIND or protocol.version != VERSION:
        raise BenchmarkError(
            f"{place(path)} is no protocol of version {VERSION}", "Run the evaluation again"
        )
    clips, models = len(protocol.clips), len(protocol.models)
    if any(
        max(i.clip, i.partner or 0) >= clips or (i.by is not None and i.by >= models)
        for i in protocol.items
    ):
        raise BenchmarkError(f"{place(path)} names a clip or a model that it does not hold", REMEDY)
    return protocol
