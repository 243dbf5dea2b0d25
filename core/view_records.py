"""What a second view is, as plain data: for the trace, its readers and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True)
class View:
    """Base of the records. kind: its name in a trace file."""

    kind: ClassVar[str] = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values with the kind, without what is None; `view_from` reads them."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        return {"kind": self.kind} | values


@dataclass(frozen=True)
class NoView(View):
    """The video alone."""

    kind = "none"


@dataclass(frozen=True)
class MaskedView(View):
    """The video behind masks.

    level: (K,) of the objects; frame_level: (G,) of the frame groups, empty without a frame mask.
    boxes: (K, T) boxes or None where a track is lost, if they are not those of the tracks. random:
    how a random placement came out, see `core.masking.random_masks`. frames: those left in, if not
    all.
    """

    kind = "masks"
    level: tuple[float, ...] = ()
    frame_level: tuple[float, ...] = ()
    swept: bool = False
    frame_mask: str = "outside"
    boxes: tuple[tuple[tuple[float, ...] | None, ...], ...] | None = None
    random: Mapping[str, Any] | None = None
    frames: tuple[int, ...] | None = None


@dataclass(frozen=True)
class NoisedView(View):
    """The video under noise. scale: of the whole clip; or over "global", "object" or "frame" a
    trained one: level (K,), frame_level (G,).
    """

    kind = "noise"
    scale: float | None = None
    over: str | None = None
    level: tuple[float, ...] | None = None
    frame_level: tuple[float, ...] | None = None


@dataclass(frozen=True)
class FramesView(View):
    """Some of the sampled frames."""

    kind = "frames"
    frames: tuple[int, ...] = ()


@dataclass(frozen=True)
class PrunedTokensView(View):
    """All pixels, but few vision tokens from one decoder layer on.

    ratio: share of them that stay; grid: vision tokens by temporal patch, row and column.
    """

    kind = "pruned"
    layer: int = 0
    ratio: float = 1.0
    grid: tuple[int, int, int] = (1, 1, 1)


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
    caption: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The name is stored as its kind."""
        return {"kind": self.name} | ({"caption": self.caption} if self.caption else {})


KINDS: dict[str, type[View]] = {
    k.kind: k
    for k in (
        NoView, MaskedView, NoisedView, FramesView, PrunedTokensView, BlankView, NoVideoView
    )
}  # fmt: skip


def view_from(values: Mapping[str, Any]) -> View:
    """The record that `as_dict` wrote, from values that have been checked."""
    kind = KINDS.get(values.get("kind", "none"))
    if kind is None:
        return OtherView(values["kind"], values.get("caption", ""))
    names = {f.name for f in fields(kind)}
    return kind(**{n: _frozen(v) for n, v in values.items() if n in names})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
