"""What building a second view gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from macd_studio.core.backbones.base import DecodeState
from macd_studio.core.views.records import NoView, View


@dataclass(frozen=True, eq=False)
class SecondView:
    """What the model is shown in addition to the video, prefilled.

    state: None where there is nothing to show. record: what it is, for the trace. video: its pixels
    (T, 3, h, w) normalised, None where it has those of the first view or none at all. base: the
    first view's state where that too is another, as under another prompt.
    """

    state: DecodeState | None = None
    record: View = NoView()  # noqa: RUF009  (frozen)
    video: Tensor | None = None
    base: DecodeState | None = None
