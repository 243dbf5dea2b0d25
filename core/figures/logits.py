"""What the second views take from each chosen token: its logit under the video minus under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.figures.style import (
    COLOURS,
    GREYS,
    bars_in_greys,
    contrast_answer,
    escape_mathtext,
    plain,
    short,
    token_name,
    transparent,
)
from macd_studio.core.repeats import penalised
from macd_studio.core.types import Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

AXIS = "logit under V − under the second view"


@dataclass(frozen=True, eq=False)
class Contrast:
    """Of S tokens and N second views. difference: (N, S), z − z′ of the chosen token.

    instead: what the video alone prefers, None where it is the chosen one.
    """

    method: str
    tokens: tuple[str, ...]
    instead: tuple[str | None, ...]
    difference: NDArray[np.float64]

    @property
    def labels(self) -> list[str]:
        """The tokens, with what the video alone prefers."""
        pairs = zip(self.tokens, self.instead, strict=True)
        return [token if other is None else f"{token} (V: {other})" for token, other in pairs]

    @property
    def views(self) -> list[str]:
        """The second views: V′, V″, …"""
        return [f"V − V{'′' * (k + 1)}" for k in range(len(self.difference))]


def measure(trace: Trace, answer: str | None = None) -> Contrast:
    """answer: whose tokens; see `contrast_answer`."""
    contrasted = contrast_answer(trace, answer)
    rows, instead = [], []
    for step in contrasted.tokens:
        at = int(np.flatnonzero(step.candidates == step.token)[0])
        best = int(penalised(step.base, step.repeats).argmax())
        rows.append([float(step.base[at]) - float(other[at]) for other in step.others])
        instead.append(None if best == at else short(token_name(step.texts[best])))
    tokens = tuple(short(token_name(step.text)) for step in contrasted.tokens)
    return Contrast(short(contrasted.method, 28), tokens, tuple(instead), np.array(rows).T)


def plotly(numbers: Contrast) -> go.Figure:
    """Bars, one group a token."""
    import plotly.graph_objects as go

    places = list(range(len(numbers.tokens)))
    figure = go.Figure(
        [
            go.Bar(x=places, y=row.tolist(), name=view, marker={"color": COLOURS[k]})
            for k, (view, row) in enumerate(zip(numbers.views, numbers.difference, strict=True))
        ]
    )
    figure.update_xaxes(tickvals=places, ticktext=[plain(label) for label in numbers.labels])
    figure.update_xaxes(title_text=plain(f"token of {numbers.method}"))
    figure.update_yaxes(title_text=AXIS, zerolinecolor="#888888")
    return transparent(figure, barmode="group", showlegend=len(numbers.views) > 1)


def matplotlib(numbers: Contrast) -> Figure:
    """The logits of both views in greys and hatches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(3.3, 0.55 * len(numbers.tokens)), 2.6), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(numbers.tokens))
    rows = dict(zip(numbers.views, numbers.difference, strict=True))
    bars_in_greys(axes, rows, 0.8 / len(rows))
    axes.axhline(0, color=GREYS[0], linewidth=0.8)
    axes.set_xticks(
        places, [escape_mathtext(label) for label in numbers.labels], rotation=30, ha="right"
    )
    axes.tick_params(axis="x", labelsize="small")
    axes.set_ylabel(AXIS.replace(" −", "\n−"))  # in one line it is longer than the axis
    axes.set_xlabel(escape_mathtext(f"token of {numbers.method}"))
    if len(numbers.views) > 1:
        axes.legend(frameon=False)
    return figure
