"""What of a token's evidence is measured; validated at construction. Imports no torch."""

# ruff: noqa: RUF009  (`choice` and others make fields, as `dataclasses.field` does)
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.kinds import find_kind
from macd_studio.core.validation import (
    Checked,
    Part,
    choice,
    flag,
    number,
    shown,
    text,
    texts,
    whole,
)

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

Answers = Literal["macd", "baseline"]
DEFAULT_KINDS = ("gradient", "attention", "occlusion")
NO_MAP = ("nothing was measured of this token yet", "Choose a kind of map")
"""Knock-outs and the lens stand beside a map: cause and remedy where there is none."""
MAX_PATCHES = 16
SMALLEST_SIDE = 0.01
"""Of a box, in shares of the frame."""

Options = TypeVar("Options", bound=Checked)
Box = tuple[float, float, float, float]
_LAYERS = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,63}")
_PATCHES = re.compile(r"([0-9]{1,2})x([0-9]{1,2})")


@dataclass(frozen=True)
class EvidenceOptions(Checked):
    """A token, what speaks for it, and how that is measured. Tokens and layers count from 1.

    knock_out: ids of tracks. boxes: x0,y0,x1,y1 in shares of the source frame.
    """

    token: int = whole(1, 1, 8192, "the answer's token, counted from 1")
    answer: Answers = choice("macd", Answers, "the answer that the token belongs to")
    against: str = text("", 200, "another candidate: evidence for the token rather than for it")
    kinds: tuple[str, ...] = texts(
        16,
        40,
        "kinds of maps: gradient, attention, occlusion (by object), occlusion-grid (by patch);"
        " the first three by default",
    )
    layers: str = text(
        "", 300, "decoder layers whose attention is averaged, as in 1-3,8; empty: all"
    )
    patches: str = text("4x4", 8, "rows and columns of the patches of occlusion-grid")
    knock_out: tuple[str, ...] = texts(20, 12, "objects that the answer cannot attend to, by id")
    boxes: tuple[str, ...] = texts(20, 100, "blocked regions, x0,y0,x1,y1 in shares of the frame")
    knock_out_layers: str = text("", 20, "decoder layers to block, such as 3-6; empty: all")
    lens: bool = flag(True, "the token's probability as read out after each layer")
    sanity: bool = flag(True, "compare each map with that of a head of random weights")
    curves: bool = flag(False, "score each map by insertion and deletion, beside random orders")
    maps: bool = flag(
        True, "measure maps; otherwise knock-outs and the lens alone, beside maps of before"
    )
    low_memory: bool = flag(False, "keep few activations for the gradient, and compute them again")

    def check_together(self) -> None:
        """Raises OptionError for kinds, layers, patches or boxes that cannot be read."""
        for kind in self.kinds:
            find_kind(kind)
        self.patch_grid()
        self.regions()
        self.track_ids()
        read_layers(self.layers, None)
        read_layers(self.knock_out_layers, None)

    def answer_of(self, trace: Trace) -> Answers:
        """The answer whose token is meant: without ascent there is none of MACD."""
        return self.answer if self.answer in trace.answers else "baseline"

    def check_of(self, trace: Trace) -> None:
        """Raises OptionError for what no model can measure of this trace."""
        answer = self.answer_of(trace)
        _check_token(trace, answer, self.token)
        for track in self.track_ids():
            if track not in [t.id for t in trace.tracks]:
                listed = ", ".join(f"{t.id} ({t.label})" for t in trace.tracks)
                raise OptionError(
                    f"there is no object {track}",
                    f"Choose one of {listed}" if listed else "The trace has no objects",
                )
        before = ((e.target.answer, e.target.index + 1) for e in trace.evidence)
        if not self.maps and (answer, self.token) not in before:
            raise OptionError(*NO_MAP)

    @property
    def chosen_kinds(self) -> tuple[str, ...]:
        """The kinds to measure, each once."""
        if not self.maps:
            return ()
        return tuple(dict.fromkeys(self.kinds)) or DEFAULT_KINDS

    def patch_grid(self) -> tuple[int, int]:
        """Rows and columns."""
        match = _PATCHES.fullmatch(self.patches)
        rows, columns = (int(n) for n in match.groups()) if match else (0, 0)
        if not (1 <= rows <= MAX_PATCHES and 1 <= columns <= MAX_PATCHES):
            raise OptionError(
                f"patches is {shown(self.patches)}",
                f"Write ROWSxCOLUMNS, each from 1 to {MAX_PATCHES}, such as 4x4",
            )
        return rows, columns

    def track_ids(self) -> tuple[int, ...]:
        """Ids of the objects to knock out."""
        for name in self.knock_out:
            if not name.isascii() or not name.isdigit():
                raise OptionError(
                    f"knock_out is {shown(name)}", "Give an object's number as `show` prints it"
                )
        return tuple(dict.fromkeys(int(name) for name in self.knock_out))

    def regions(self) -> tuple[Box, ...]:
        """The boxes as numbers."""
        return tuple(_box(one) for one in self.boxes)


@dataclass(frozen=True)
class EnoughOptions(Checked):
    """A token of the model's answer to the video, and how its smallest evidence is looked for.

    boxes: x0,y0,x1,y1 in shares of the source frame. keep: pieces, each as ID, ID:FRAMES,
    background or background:FRAMES, and regions as box1, box2 …; FRAMES count from 1, as in 3-5.
    """

    token: int = whole(1, 1, 8192, "the answer's token, counted from 1")
    same: Literal["answer", "token"] = choice(
        "answer", Literal["answer", "token"], "what must stay: the whole answer, or the token alone"
    )
    margin: float = number(0.0, 0.0, 1000.0, "the token's lead that must be kept", "logits")
    spans: int = whole(0, 0, 64, "runs that the frames are cut into; 0: as many as 8 pieces allow")
    boxes: tuple[str, ...] = texts(20, 100, "further regions, x0,y0,x1,y1 in shares of the frame")
    budget: int = whole(512, 2, 100_000, "sets of pieces that are read at most")
    search: bool = flag(True, "look for the smallest sets; otherwise read what is asked for alone")
    keep: tuple[str, ...] = texts(
        64,
        100,
        "pieces given which alone the model's answer is read: an object's id, background or box1,"
        " with frames if not all, as in 2:1-4",
    )

    def check_together(self) -> None:
        """Raises OptionError for boxes or pieces that cannot be read, or where nothing is asked."""
        self.regions()
        self.kept()
        if not self.search and not self.keep:
            raise OptionError("nothing is asked for", "Name pieces to keep, or search")

    def regions(self) -> tuple[Box, ...]:
        """The boxes as numbers."""
        return tuple(_box(one) for one in self.boxes)

    def kept(self) -> tuple[tuple[str, tuple[int, int] | None], ...]:
        """Name and first and last frame, from 0, of each piece to keep; None for all frames."""
        return tuple(_piece(one) for one in self.keep)

    def check_of(self, trace: Trace) -> None:
        """Raises OptionError for what no model can measure of this trace."""
        _check_token(trace, "baseline", self.token)


def _check_token(trace: Trace, answer: str, token: int) -> None:
    steps = trace.answers[answer].tokens
    if token > len(steps):
        raise OptionError(
            f"the {answer} answer has no token {token}",
            f"Choose from 1 to {len(steps)}" if steps else "Choose another answer",
        )


_PIECE = re.compile(r"([0-9]{1,9}|background|box[0-9]{1,2})(?::([0-9]{1,4})(?:-([0-9]{1,4}))?)?")


def _piece(written: str) -> tuple[str, tuple[int, int] | None]:
    match = _PIECE.fullmatch(written.strip())
    if match is None:
        raise OptionError(
            f"{shown(written)} is not a piece",
            "Give an object's id, background or box1, and frames, as in 2:3-6",
        )
    name, first, last = match.groups()
    if first is None:
        return name, None
    frames = int(first) - 1, int(last or first) - 1
    if not 0 <= frames[0] <= frames[1]:
        raise OptionError(f"{shown(written)} has no frames", "Give them from 1 on, as in 2:3-6")
    return name, frames


def read_enough_options(values: Mapping[str, Any]) -> EnoughOptions:
    """From untrusted values by name. Raises OptionError for an unknown one, or one out of range.

    >>> read_enough_options({"keep": "2:3-6"}).kept()
    (('2', (2, 5)),)
    """
    return _read(EnoughOptions(), "enough", values, ("boxes", "keep"))


def read_evidence_options(values: Mapping[str, Any]) -> EvidenceOptions:
    """From untrusted values by name. Raises OptionError for an unknown one, or one out of range.

    >>> read_evidence_options({"knock_out": [2], "kinds": "gradient"}).track_ids()
    (2,)
    """
    return _read(EvidenceOptions(), "evidence", values, ("knock_out", "boxes", "kinds"))


def _read(
    default: Options, path: str, values: Mapping[str, Any], several: Sequence[str]
) -> Options:
    values = {name: _texts(v) if name in several else v for name, v in values.items()}
    options: Options = Part(default).read(values, path)
    return options


def _texts(value: Any) -> Any:
    """One or several, numbers among them, as the texts that the command line gives."""
    if isinstance(value, str | int):
        return (str(value),)
    if not isinstance(value, Sequence):
        return value
    joined = [",".join(map(str, v)) if isinstance(v, list | tuple) else v for v in value]
    return tuple(str(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in joined)


def _box(written: str) -> Box:
    try:
        x0, y0, x1, y1 = (float(part) for part in written.split(","))
    except ValueError:
        x0 = y0 = x1 = y1 = float("nan")
    sound = 0 <= x0 <= x1 - SMALLEST_SIDE <= 1 and 0 <= y0 <= y1 - SMALLEST_SIDE <= 1
    if not (sound and x1 <= 1 and y1 <= 1):  # NaN is not
        raise OptionError(
            f"{shown(written)} is not a box in the frame",
            "Give x0,y0,x1,y1 in shares of the frame, such as 0.1,0.2,0.5,0.9",
        )
    return x0, y0, x1, y1


def read_layers(written: str, depth: int | None) -> tuple[int, ...]:
    """Layers counted from 1, such as "1-3,8", as rising indices from 0; all where none is named.

    depth: how many there are; None where it is not known yet. Raises OptionError.

    >>> read_layers("3,1-2", 4), read_layers("", 2)
    ((0, 1, 2), (0, 1))
    """
    if not written:
        return tuple(range(depth or 0))
    if not _LAYERS.fullmatch(written):
        raise OptionError(f"layers are {shown(written)}", "Write numbers or ranges, such as 1-3,8")
    chosen: set[int] = set()
    for part in written.split(","):
        first, _, last = part.partition("-")
        chosen |= set(range(int(first), int(last or first) + 1))
    if not chosen or min(chosen) < 1 or (depth is not None and max(chosen) > depth):
        most = f" to {depth}" if depth is not None else ""
        raise OptionError(
            f"there is no layer {shown(written)}", f"Choose layers from 1{most or ' on'}"
        )
    return tuple(sorted(n - 1 for n in chosen))
