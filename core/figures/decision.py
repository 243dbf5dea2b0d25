"""Which token is chosen over α and β, read off the exact points where the choice flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import flip_points, plausibility_mask
from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import (
    COLOURS,
    contrast_answer,
    escape_mathtext,
    plain,
    short,
    token_index,
    token_name,
    transparent,
)
from macd_studio.core.macd import Head
from macd_studio.core.types import Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

LARGEST_ALPHA, LARGEST_BETA = 5.0, 1.0
"""Ends of the axes, or those of the answer's own α and β where they lie beyond."""
STEPS = 201, 101
"""Columns and rows."""


@dataclass(frozen=True, eq=False)
class Decision:
    """Which token is chosen at each α and β."""

    method: str
    index: int
    """Place of the token in the answer, from 0."""
    alphas: NDArray[np.float64]
    """(A,), rising from 0."""
    betas: NDArray[np.float64]
    """(B,), rising from 0."""
    choice: NDArray[np.int64]
    """(B, A) index into `tokens` of the token that is chosen."""
    tokens: tuple[str, ...]
    """Texts of tokens, in the order of the share of the plane that they take."""
    here: tuple[float, float]
    """The answer's own α and β."""

    @property
    def title(self) -> str:
        """What the plane is about."""
        return f"token {self.index + 1} of {short(self.method, 28)}"


def measure(trace: Trace, answer: str | None = None, token: int | None = None) -> Decision:
    """answer: whose token; token: its index from 0, by default the first that differs.

    Raises OptionError for an answer whose rule is not the linear one.
    """
    contrasted = contrast_answer(trace, answer)
    index = token_index(trace, contrasted, token)
    step = contrasted.tokens[index]
    if contrasted.rule != "linear" or not step.others:
        raise OptionError(
            f"the rule {contrasted.rule!r} of {contrasted.method!r} is not the linear one",
            "Choose an answer of the linear rule",
        )
    alphas = np.linspace(0, max(LARGEST_ALPHA, contrasted.alpha), STEPS[0])
    betas = np.linspace(0, max(LARGEST_BETA, contrasted.beta), STEPS[1])
    places = np.empty((len(betas), len(alphas)), np.int64)
    head: Head = "raw" if contrasted.head == "raw" else "probability"
    for row, beta in zip(places, betas, strict=True):
        inside = np.flatnonzero(plausibility_mask(step.base, float(beta), head))
        repeats = step.repeats and step.repeats.among(inside)
        views = step.base[inside], step.others[0][inside]
        flips = flip_points(*views, 0.0, float(alphas[-1]), repeats)
        starts = np.array([alpha for alpha, _ in flips])
        row[:] = inside[[i for _, i in flips]][np.searchsorted(starts, alphas, "right") - 1]
    won, choice, shares = np.unique(places, return_inverse=True, return_counts=True)
    order = np.argsort(-shares, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Decision(
        method=contrasted.method,
        index=index,
        alphas=alphas,
        betas=betas,
        choice=rank[choice].reshape(places.shape),
        tokens=tuple(short(token_name(step.texts[won[i]])) for i in order),
        here=(contrasted.alpha, contrasted.beta),
    )


def plotly(numbers: Decision) -> go.Figure:
    """A plane in one colour a token, and where the answer stands on it."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for k, token in enumerate(numbers.tokens):
        colour = COLOURS[k % len(COLOURS)]
        figure.add_trace(
            go.Heatmap(
                x=numbers.alphas.tolist(),
                y=numbers.betas.tolist(),
                z=[[k if c == k else None for c in row] for row in numbers.choice.tolist()],
                colorscale=[[0, colour], [1, colour]],
                showscale=False,
                hoverongaps=False,
                name=plain(token),
                hovertemplate="α %{x:.3f}, β %{y:.2f}<extra>" + plain(token) + "</extra>",
            )
        )
        mark = {"color": colour, "symbol": "square", "size": 12}
        figure.add_trace(
            go.Scatter(x=[None], y=[None], mode="markers", marker=mark, name=plain(token))
        )
    figure.add_trace(
        go.Scatter(
            x=[numbers.here[0]],
            y=[numbers.here[1]],
            mode="markers",
            name="this answer",
            marker={"color": "#ffffff", "size": 11, "line": {"color": "#000000", "width": 2}},
        )
    )
    figure.update_xaxes(title_text="α", range=[0, float(numbers.alphas[-1])])
    figure.update_yaxes(title_text="β", range=[0, float(numbers.betas[-1])])
    return transparent(figure, title=plain(numbers.title))


def matplotlib(numbers: Decision) -> Figure:
    """The decision boundary in greys, the edges drawn and the tokens named."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(3.6, 2.8), layout="constrained")
    axes = figure.add_subplot()
    n = len(numbers.tokens)
    greys = [str(0.95 - 0.7 * k / max(1, n - 1)) for k in range(n)]
    axes.set_facecolor(greys[0])
    for k in range(1, n):  # areas as paths, so that the figure stays vector
        here = (numbers.choice == k).astype(float)
        axes.contourf(numbers.alphas, numbers.betas, here, [0.5, 1.5], colors=[greys[k]])
        axes.contour(numbers.alphas, numbers.betas, here, [0.5], colors="black", linewidths=0.7)
    axes.plot(*numbers.here, "o", markerfacecolor="white", markeredgecolor="black", clip_on=False)
    axes.set(xlim=(0, numbers.alphas[-1]), ylim=(0, numbers.betas[-1]), xlabel="α", ylabel="β")
    axes.set_title(escape_mathtext(numbers.title), fontsize="medium")
    patches = [
        Patch(facecolor=grey, edgecolor="black", label=escape_mathtext(token))
        for grey, token in zip(greys, numbers.tokens, strict=True)
    ]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return figure
