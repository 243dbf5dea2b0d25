"""What the figures share: colours, line styles, safe texts, frames; the answer and token shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from macd_studio.core.errors import OptionError
from macd_studio.core.media.webp import picture_uri
from macd_studio.core.types import Answer, Pixels, Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go

Backend = Literal["plotly", "matplotlib"]

COLOURS = (
    "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#F0E442",
    "#8DD3C7", "#FB8072", "#BEBADA", "#B3DE69", "#A6761D", "#FCCDE5", "#7F7F7F",
    "#80B1D3", "#E7298A", "#66A61E", "#BC80BD", "#FDB462", "#CCEBC5",
)  # fmt: skip
"""Of objects, by track. Okabe-Ito first, neighbours of unlike lightness; then further ones that
stay distinct from these."""
DASHES = ("solid", "dash", "dot", "dashdot")
GREYS = ("#000000", "#8c8c8c", "#4d4d4d", "#b3b3b3")
MARKS = ("o", "s", "^", "D", "v", "x")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++")
"""Lines and areas are distinguished without any colour by these: grey, mark and hatch."""
GREY = "#888888"


def plain(text: str) -> str:
    """Plotly reads a little markup in its texts; a label must stay text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%", "％")


def escape_mathtext(text: str) -> str:
    """Matplotlib reads TeX between dollar signs; a label must stay text."""
    return text.replace("$", r"\$")


def token_name(text: str) -> str:
    """A token with its blanks and ends visible, as the page shows it."""
    return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") or "∅"


def short(text: str, most: int = 14) -> str:
    """A label of bounded length.

    >>> short("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def transparent(figure: go.Figure, **layout: Any) -> go.Figure:
    """The figure in the page's look: no ground of its own, so that it fits dark and light."""
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#7a838c"},
        **layout,
    )
    return figure


def bars_in_greys(axes: Any, rows: Mapping[str, NDArray[np.float64]], width: float) -> None:
    """Matplotlib bars in groups, told apart by grey and hatch. rows: by label, a value a group."""
    for k, (label, row) in enumerate(rows.items()):
        axes.bar(
            np.arange(len(row)) + (k - (len(rows) - 1) / 2) * width, row, width, label=label,
            facecolor=("#bfbfbf", "#ffffff", "#7f7f7f")[k % 3], edgecolor=GREYS[0],
            hatch=HATCHES[k % len(HATCHES)],
        )  # fmt: skip


def contrast_answer(trace: Trace, name: str | None) -> Answer:
    """The answer of that name, which must have a second view; MACD's or else the first by default.

    Raises OptionError where there is none.
    """
    several = {n: a for n, a in trace.answers.items() if any(t.others for t in a.tokens)}
    if not several:
        raise OptionError(
            "no answer in this trace was contrasted with a second view", "Run one that is"
        )
    chosen = name if name is not None else ("macd" if "macd" in several else next(iter(several)))
    if chosen not in several:
        raise OptionError(
            f"there is no answer {chosen!r} with a second view",
            f"Choose one of {', '.join(several)}",
        )
    return several[chosen]


def token_index(trace: Trace, answer: Answer, index: int | None) -> int:
    """The token of that index from 0; by default the first that another answer does not share.

    The other is "baseline", or else the first of one view. Raises OptionError for one out of range.
    """
    if index is not None:
        if not 0 <= index < len(answer.tokens):
            raise OptionError(
                f"there is no token {index}", f"Choose from 0 to {len(answer.tokens) - 1}"
            )
        return index
    plain = [a for a in trace.answers.values() if not any(t.others for t in a.tokens)]
    other = trace.answers.get("baseline") or next(iter(plain), None)
    pairs = zip(answer.tokens, other.tokens if other else (), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.token != b.token), 0)


MOST = 4
"""Frames of a figure where none are named."""
SIDE = 320
"""Long side of a frame in a figure, pixels."""


def choose_frames(trace: Trace, frames: Any = None) -> tuple[int, ...]:
    """Indices from 0: the named ones, or up to MOST at equal distances; raises OptionError."""
    count = len(trace.frames)
    if frames is None:
        return tuple(np.unique(np.linspace(0, count - 1, min(MOST, count)).round().astype(int)))
    chosen = tuple(frames) if isinstance(frames, list | tuple | range) else (frames,)
    for index in chosen:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise OptionError(f"there is no frame {index!r}", f"Choose from 0 to {count - 1}")
    if not chosen:
        raise OptionError("no frame was named", f"Choose from 0 to {count - 1}")
    return chosen


def small(frame: Pixels) -> Pixels:
    """The picture (H, W, 3), its long side at most SIDE pixels."""
    scale = SIDE / max(frame.shape[:2])
    if scale >= 1:
        return frame
    height, width = (max(1, round(scale * n)) for n in frame.shape[:2])
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS))


def of_content(trace: Trace, frames: Pixels) -> Pixels:
    """Model frames (T, h, w, 3) without their padding."""
    assert trace.model_frames is not None
    x0, y0, x1, y1 = trace.model_frames.content
    return frames[:, y0:y1, x0:x1]


def as_image(frame: Pixels, row: int, column: int, figure: go.Figure) -> None:
    """Puts a picture into a subplot whose axes run from 0 to 1, y downwards."""
    import plotly.graph_objects as go

    height, width = frame.shape[:2]
    figure.add_trace(
        go.Image(source=picture_uri(frame), x0=0.5 / width, y0=0.5 / height, dx=1 / width,
                 dy=1 / height, hoverinfo="skip"),
        row=row, col=column,
    )  # fmt: skip
    axis: dict[str, Any] = {
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }
    figure.update_xaxes(**axis, range=[0, 1], constrain="domain", row=row, col=column)
    shape = {
        "scaleanchor": figure.get_subplot(row, column).yaxis.anchor,
        "scaleratio": height / width,
    }
    figure.update_yaxes(**axis, range=[1, 0], **shape, row=row, col=column)


def bare_axes(axes: Any, frame: Pixels) -> None:
    """Matplotlib axes with a picture over 0 … 1, y downwards, without ticks."""
    height, width = frame.shape[:2]
    axes.imshow(frame, extent=(0, 1, 1, 0), aspect=height / width, interpolation="antialiased")
    axes.set(xticks=[], yticks=[])
