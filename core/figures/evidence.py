"""A token's evidence map over frames: under V, under V_d, and their difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import (
    as_image,
    bare_axes,
    choose_frames,
    escape_mathtext,
    plain,
    short,
    small,
    token_name,
    transparent,
)
from macd_studio.core.report.evidence import extent
from macd_studio.core.types import Pixels, Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

VIEWS = ("V", "V_d", "V − V_d")
STRONGEST = 99.5
"""Percentile of a map's magnitudes that is drawn at full strength: a few cells lie far above."""
LEVELS = (0.15, 0.35, 0.65, 1.0)
"""Shares of the strongest at which the printed map changes its grey."""
DIVERGING = [[0, "rgba(179,88,6,.9)"], [0.5, "rgba(255,255,255,0)"], [1, "rgba(33,102,172,.9)"]]


@dataclass(frozen=True, eq=False)
class EvidenceFigure:
    """frames: n pictures (H, W, 3) at times (n,), seconds. values: (3, n, R, C) of VIEWS.

    corners: x0 y0 x1 y1 of a map in shares of the picture. strongest: of all views.
    """

    title: str
    unit: str
    frames: tuple[Pixels, ...]
    times: tuple[float, ...]
    values: NDArray[np.float32]
    corners: tuple[float, float, float, float]
    strongest: float

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the cells across and down, in shares of the picture."""
        rows, columns = self.values.shape[2:]
        x0, y0, x1, y1 = self.corners
        across = x0 + (x1 - x0) * (np.arange(columns) + 0.5) / columns
        return across, y0 + (y1 - y0) * (np.arange(rows) + 0.5) / rows


def measure(trace: Trace, kind: str = "", index: int = -1, frames: Any = None) -> EvidenceFigure:
    """kind: of the maps, the first by default. index: of the token's evidence in the trace, from 0.

    frames: indices from 0. Raises OptionError for what the trace does not hold.
    """
    count = len(trace.evidence)
    if isinstance(index, bool) or not isinstance(index, int) or not -count <= index < count:
        raise OptionError(
            f"the trace holds the evidence of {count} tokens",
            "Measure it first: python -m core evidence FILE.macd --out NEW.macd",
        )
    one = trace.evidence[index]
    kinds = list(dict.fromkeys(m.kind for m in one.maps))
    chosen = kind or kinds[0]
    if chosen not in kinds:
        raise OptionError(f"the trace holds no map {chosen!r}", f"Choose one of {', '.join(kinds)}")
    at = choose_frames(trace, frames)
    values = np.stack(
        [one.map(chosen).values, one.map(chosen, "counterfactual").values, one.difference(chosen)]
    )
    target = one.target
    rather = (
        "" if target.against_text is None else f" rather than {token_name(target.against_text)}"
    )
    name = f"{chosen}: {token_name(target.text)}{rather}, token {target.index + 1}"
    x0, y0, x1, y1 = extent(trace)
    return EvidenceFigure(
        title=f"{short(name, 60)} of {short(target.answer)}",
        unit="share of attention a cell" if chosen == "attention" else "logits a cell",
        frames=tuple(small(trace.frames[i]) for i in at),
        times=tuple(float(trace.times[i]) for i in at),
        values=values[:, list(at)],
        corners=(x0, y0, x1, y1),
        strongest=float(np.percentile(np.abs(values[:2]), STRONGEST)) or 1.0,
    )


def plotly(numbers: EvidenceFigure) -> go.Figure:
    """A row a frame, a column a view; blue speaks for the token, orange against it."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    rows = len(numbers.frames)
    figure = make_subplots(
        rows=rows, cols=3, column_titles=list(VIEWS), horizontal_spacing=0.02,
        vertical_spacing=0.03, row_titles=[f"{t:.2f} s" for t in numbers.times],
    )  # fmt: skip
    across, down = numbers.centres()
    for row, frame in enumerate(numbers.frames):
        for column in range(3):
            as_image(frame, row + 1, column + 1, figure)
            figure.add_trace(
                go.Heatmap(
                    x=across.tolist(), y=down.tolist(), z=numbers.values[column, row].tolist(),
                    zmin=-numbers.strongest, zmax=numbers.strongest, colorscale=DIVERGING,
                    showscale=row == column == 0, colorbar={"title": numbers.unit},
                    hovertemplate="%{z:.3g}<extra></extra>",
                ),
                row=row + 1, col=column + 1,
            )  # fmt: skip
    height = max(200, 230 * rows)
    return transparent(figure, title=plain(numbers.title), height=height + 80)


def matplotlib(numbers: EvidenceFigure) -> Figure:
    """The evidence maps in greys: the darker, the stronger.

    Edges solid for the token, dashed against it.
    """
    from matplotlib.figure import Figure

    rows = len(numbers.frames)
    figure = Figure(figsize=(6.0, 1.75 * rows + 0.7), layout="constrained")
    grid = figure.subplots(rows, 3, squeeze=False)
    across, down = numbers.centres()
    drawn: Any = None
    for row, frame in enumerate(numbers.frames):
        faded = 255 - ((255 - frame @ np.array([0.299, 0.587, 0.114])) * 0.45)
        picture = np.repeat(faded[..., None], 3, -1).astype(np.uint8)
        for column, axes in enumerate(grid[row]):
            bare_axes(axes, picture)
            share = numbers.values[column, row] / numbers.strongest
            drawn = axes.contourf(
                across, down, np.abs(share).clip(0, 1), LEVELS, cmap="Greys", vmin=-0.3, vmax=1.0,
                alpha=0.8,
            )  # fmt: skip
            for sign, style in ((1, "-"), (-1, "--")):
                if (sign * share > LEVELS[0]).any():
                    axes.contour(
                        across, down, sign * share, [LEVELS[0]], colors="black", linewidths=0.8,
                        linestyles=style,
                    )  # fmt: skip
            axes.set(xlim=(0, 1), ylim=(1, 0))
            if not row:
                axes.set_title(VIEWS[column], fontsize="medium")
            if not column:
                axes.set_ylabel(f"{numbers.times[row]:.2f} s")
    bar = figure.colorbar(drawn, ax=grid, shrink=0.8)
    bar.set_ticklabels([f"{level * numbers.strongest:.2g}" for level in LEVELS])
    bar.set_label(f"|{numbers.unit}|")
    figure.suptitle(escape_mathtext(numbers.title), fontsize="medium")
    return figure
