"""What a second view is, as plain data: for the trace, its readers and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from macd_studio.core.description import (
    COUNT,
    FRAME,
    LINE,
    NAME,
    PLAIN,
    REAL,
    SHARE,
    Table,
    as_object,
    build,
    stored,
)
from macd_studio.core.validation import Flag, Many, Maybe, Number, Rule, rules_of

_REALS, _FRAMES = Many(REAL), Many(FRAME)
_PLACEMENT: dict[str, Rule] = {
    "control": NAME,
    "area_ratio": REAL,
    "overlap": REAL,
    "scale": REAL,
    "unmoved": Many(COUNT),
    "tries": COUNT,
}


@dataclass(frozen=True)
class View:
    """Base of the records. kind: its name in a trace file. extra: keys that are not known here."""

    kind: ClassVar[str] = ""
    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """Plain values with the kind, without what is None; `AnyView` reads them."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        del values["extra"]
        return {"kind": self.kind} | values | dict(self.extra)


@dataclass(frozen=True)
class NoView(View):
    """The video alone."""

    kind = "none"


@dataclass(frozen=True)
class MaskedView(View):
    """The video behind masks."""

    kind = "masks"
    level: tuple[float, ...] = stored(_REALS, "(K,) of the objects", ())
    frame_level: tuple[float, ...] = stored(
        _REALS, "(G,) of the frame groups, empty without a frame mask", ()
    )
    swept: bool = stored(Flag(), "whether boxes cover what lies between frames", False)
    frame_mask: str = stored(NAME, "where the frame mask lies", "outside")
    boxes: tuple[tuple[tuple[float, ...] | None, ...], ...] | None = stored(
        Many(Many(Maybe(Many(REAL, 4, 4)))),
        "(K, T) boxes or null where a track is lost, if they are not those of the tracks",
        None,
    )
    random: Mapping[str, Any] | None = stored(
        Table(_PLACEMENT), "how a control's mask came out, see `core.masking.controls`", None
    )
    frames: tuple[int, ...] | None = stored(_FRAMES, "those left in, if not all", None)


@dataclass(frozen=True)
class NoisedView(View):
    """The video under noise: of one scale, or of trained ones."""

    kind = "noise"
    scale: float | None = stored(REAL, "of the whole clip", None)
    over: str | None = stored(NAME, "what has a scale of its own", None)
    level: tuple[float, ...] | None = stored(_REALS, "(K,) scales of the objects", None)
    frame_level: tuple[float, ...] | None = stored(_REALS, "(G,) of the frame groups", None)
    clamped: float | None = stored(
        SHARE,
        "share of its values that lay outside RGB and were clamped, as the server took frames in"
        " 8 bits; missing where the model read the noise itself",
        None,
    )


@dataclass(frozen=True)
class ShiftView(View):
    """The video under noise from its largest semantic shift on."""

    kind = "shift"
    sigma: float = stored(REAL, "standard deviation of the noise, grey levels of 255", 0.0)
    first: int | None = stored(FRAME, "first frame under noise; missing where there is none", None)
    features: str = stored(NAME, "whose features told the shift", "")
    similarity: tuple[float, ...] = stored(
        _REALS, "cosines of neighbouring frames, or of temporal patches", ()
    )


@dataclass(frozen=True)
class FramesView(View):
    """Some of the sampled frames."""

    kind = "frames"
    frames: tuple[int, ...] = stored(_FRAMES, "their indices", ())


@dataclass(frozen=True)
class PrunedTokensView(View):
    """All pixels, but few vision tokens from one decoder layer on."""

    kind = "pruned"
    layer: int = stored(COUNT, "from which on", 0)
    ratio: float = stored(REAL, "share of the vision tokens that stay", 1.0)
    grid: tuple[int, int, int] = stored(
        Many(Number(1, 2**20, whole=True), 3, 3),
        "vision tokens by temporal patch, row and column",
        (1, 1, 1),
    )


@dataclass(frozen=True)
class BlankView(View):
    """A video without content, of the channel means."""

    kind = "blank"


@dataclass(frozen=True)
class NoVideoView(View):
    """The question without any video."""

    kind = "no-video"


@dataclass(frozen=True)
class OtherView(View):
    """The record of a view that needs no fields of its own: a name, and the viewer's caption.

    Records of kinds that this version does not know are read as one, too.
    """

    name: str = ""
    caption: str = stored(LINE, "what the viewer says of it", "")

    def as_dict(self) -> dict[str, Any]:
        """The name is stored as its kind."""
        caption = {"caption": self.caption} if self.caption else {}
        return {"kind": self.name} | caption | dict(self.extra)


KINDS: dict[str, type[View]] = {
    k.kind: k
    for k in (
        NoView, MaskedView, NoisedView, ShiftView, FramesView, PrunedTokensView, BlankView,
        NoVideoView,
    )
}  # fmt: skip


class AnyView:
    """The rule of a view of any kind. Its kind may be missing; keys are those of all kinds."""

    def read(self, value: Any, path: str) -> View:
        """The record of its kind, an `OtherView` of one that is not known."""
        row = as_object(value, path)
        name = NAME.read(row.get("kind", NoView.kind), f"{path}.kind")
        kind = KINDS.get(name, OtherView)
        rest = {n: v for n, v in row.items() if n != "kind"}
        known = {n: v for n, v in rest.items() if n in rules_of(kind)}
        made: View = build(kind, known, path)
        if isinstance(made, OtherView):
            made = replace(made, name=name)
        rules = view_rules()
        extra = {
            n: rules.get(n, PLAIN).read(v, f"{path}.{n[:40]}")
            for n, v in rest.items()
            if n not in known
        }
        return replace(made, extra={n: rest[n] for n in extra})


def view_rules() -> dict[str, Rule]:
    """The rules of the fields of all kinds."""
    return {n: rule for kind in (*KINDS.values(), OtherView) for n, rule in rules_of(kind).items()}
