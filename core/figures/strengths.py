"""How the strengths moved during the ascent, with the query loss under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import (
    COLOURS,
    DASHES,
    GREY,
    GREYS,
    MARKS,
    escape_mathtext,
    plain,
    short,
    transparent,
)
from macd_studio.core.types import Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

LABEL_CHARACTERS = 28
LABEL_PX = 17


@dataclass(frozen=True, eq=False)
class Strengths:
    """Of N ascent steps, K objects and G frame groups (none where the frame mask is off)."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    moved: NDArray[np.float64]
    """(N + 1, K), strength − r0 before each step and at the end."""
    frames: NDArray[np.float64]
    """(N + 1, G) the same of frame groups."""
    level: NDArray[np.float64]
    frame_level: NDArray[np.float64]
    """`level` and `frame_level`: (K,) and (G,), what the strengths became."""
    acts: tuple[bool, ...]
    """(K,) whether any gradient was not zero."""
    loss: NDArray[np.float64]
    """(N,) query loss before each step, nats."""
    r0: float
    tau: float
    """`r0` and `tau`: strength at the start, and the dead band around it."""
    approximate: bool

    @property
    def steps(self) -> list[int]:
        """0 … N."""
        return list(range(len(self.moved)))

    @property
    def caption(self) -> tuple[str, str]:
        """What the horizontal axis is, in one or two lines."""
        band = f", dead band ± {self.tau:g}" if self.tau else ""
        near = "approximate gradient · " if self.approximate else ""
        if len(self.loss) > 1:
            return f"{near}ascent step · r0 {self.r0:g}{band}", ""
        end = f"r0 {self.r0:g}{band} · query loss {self.loss[0]:.3f} with every strength at r0"
        return f"{near}one step, only the sign decides", end


def has_ascent(trace: Trace) -> bool:
    """Whether there is anything to draw."""
    return bool(trace.steps) and trace.counterfactual is not None


def measure(trace: Trace) -> Strengths:
    """Raises OptionError where there was no ascent.

    Differences are measured, not strengths: with η = 0.01 they are far too small to see on a scale
    from 0 to 1, and only their sign decides.
    """
    counterfactual = trace.counterfactual
    if not trace.steps or counterfactual is None:
        raise OptionError("this trace holds no ascent", "Run it with objects and masks")
    options = trace.options.ascent
    r0 = options.r0
    groups = trace.groups if len(counterfactual.frame_strength) else ()
    return Strengths(
        names=tuple(f"{t.id} {t.label}" for t in trace.tracks),
        groups=tuple(
            f"frames {g[0] + 1}–{g[-1] + 1}" if len(g) > 1 else f"frame {g[0] + 1}" for g in groups
        ),
        moved=np.array([s.strength for s in trace.steps] + [counterfactual.strength]) - r0,
        frames=np.array([s.frame_strength for s in trace.steps] + [counterfactual.frame_strength])
        - r0,
        level=counterfactual.level,
        frame_level=counterfactual.frame_level,
        acts=tuple(any(s.gradient[k] for s in trace.steps) for k in range(len(trace.tracks))),
        loss=np.array([s.loss for s in trace.steps]),
        r0=r0,
        tau=options.tau,
        approximate=options.gradient != "exact",
    )


def plotly(numbers: Strengths) -> go.Figure:
    """A line an object; a heat strip of the frame groups; the query loss of several steps.

    The first traces of the figure are the objects, in the order of the tracks.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    steps, one, groups = numbers.steps, len(numbers.loss) == 1, len(numbers.groups)
    lines = max(120, LABEL_PX * len(numbers.names))
    heights = {"objects": lines, "frames": 24 * groups, "loss": 0 if one else 70}
    rows = {name: i for i, name in enumerate((n for n in heights if heights[n]), 1)}
    figure = make_subplots(
        rows=len(rows),
        cols=1,
        shared_xaxes=True,
        row_heights=[h for h in heights.values() if h],
        vertical_spacing=0.06,
    )
    ends: list[tuple[float, str, str]] = []
    for k, track_name in enumerate(numbers.names):
        name, last = plain(track_name), float(numbers.moved[-1, k])
        colour = COLOURS[k % len(COLOURS)]
        figure.add_trace(
            go.Scatter(
                x=steps, y=numbers.moved[:, k].tolist(), mode="lines+markers", name=name,
                line={"color": colour, "dash": DASHES[k // 7 % 4]}, showlegend=False,
                hovertemplate="step %{x}: %{y:+.3g}<extra>" + name + "</extra>",
            ),
            row=1, col=1,
        )  # fmt: skip
        label = short(name, LABEL_CHARACTERS)
        end = f"{label} {last:+.2g}" if numbers.acts[k] else f"{label} stays at r0"
        ends.append((last, f"{end} → {numbers.level[k]:.3g}", colour))
    longest = max((len(text) for _, text, _ in ends), default=0)
    _label_ends(figure, ends, steps[-1] + 0.5, lines)
    if tau := numbers.tau:
        figure.add_hrect(-tau, tau, fillcolor=GREY, opacity=0.15, line_width=0, row=1, col=1)
    figure.add_hline(0, line={"color": GREY, "width": 1}, row=1, col=1)
    figure.update_yaxes(title_text="strength − r0", row=1, col=1, exponentformat="power")
    if groups:
        _heat_strip(figure, numbers, rows["frames"])
    figure.update_xaxes(dtick=1 if len(steps) < 13 else None, range=[-0.5, steps[-1] + 0.5])
    if not one:
        figure.add_trace(
            go.Scatter(
                x=steps[:-1], y=numbers.loss.tolist(), mode="lines+markers", line={"color": GREY},
                showlegend=False, name="query loss",
            ),
            row=rows["loss"], col=1,
        )  # fmt: skip
        figure.update_yaxes(title_text="query loss", row=rows["loss"], col=1)
    caption = "<br>".join(filter(None, numbers.caption))
    figure.update_xaxes(title_text=caption, row=len(rows), col=1)
    transparent(
        figure,
        margin={"l": 100, "r": max(170, 16 + 7 * longest), "t": 12, "b": 64},
        height=round(sum(heights.values()) * (1 + 0.06 * len(rows))) + 96,
    )
    grid = {"gridcolor": "rgba(128,128,128,.18)", "zeroline": False}
    figure.update_xaxes(**grid)
    figure.update_yaxes(**grid)
    return figure


def matplotlib(numbers: Strengths) -> Figure:
    """The strengths in greys: objects by mark and dash, frame groups by lightness."""
    from matplotlib.figure import Figure

    heights = {
        "objects": 2.2,
        "frames": 0.22 * len(numbers.groups),
        "loss": 0.8 if len(numbers.loss) > 1 else 0.0,
    }
    panels = {name: height for name, height in heights.items() if height}
    figure = Figure(figsize=(4.2, sum(panels.values()) + 0.9), layout="constrained")
    grid = figure.subplots(
        len(panels),
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": list(panels.values())},
    )
    axes = dict(zip(panels, grid[:, 0], strict=True))
    above = axes["objects"]
    for k, name in enumerate(numbers.names):
        above.plot(
            numbers.steps,
            numbers.moved[:, k],
            label=escape_mathtext(f"{short(name, LABEL_CHARACTERS)} → {numbers.level[k]:.3g}"),
            color=GREYS[k % len(GREYS)],
            marker=MARKS[k % len(MARKS)],
            linestyle=("-", "--", ":", "-.")[k // 2 % 4],
        )
    above.axhline(0, color=GREY, linewidth=0.8)
    if numbers.tau:
        above.axhspan(-numbers.tau, numbers.tau, color=GREY, alpha=0.15, linewidth=0)
    above.set_ylabel("strength − r0")
    if numbers.names:
        above.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize="small")
    if "frames" in axes:
        top = float(np.abs(numbers.frames).max()) or 1.0
        places = range(len(numbers.groups))
        axes["frames"].pcolormesh(
            numbers.steps, places, numbers.frames.T, cmap="Greys", vmin=-top, vmax=top,
            shading="nearest", edgecolors="white",
        )  # fmt: skip
        axes["frames"].set_yticks(places, numbers.groups, fontsize="small")
        axes["frames"].invert_yaxis()
    if "loss" in axes:
        axes["loss"].plot(numbers.steps[:-1], numbers.loss, color=GREYS[0], marker="o")
        axes["loss"].set_ylabel("query loss")
    below = grid[-1, 0]
    below.set_xlabel("\n".join(filter(None, numbers.caption)))
    below.xaxis.get_major_locator().set_params(integer=True)
    return figure


def _heat_strip(figure: go.Figure, numbers: Strengths, row: int) -> None:
    """Frame groups by step, coloured by strength − r0, with margin and level at the right end."""
    import plotly.graph_objects as go

    moved, steps = numbers.frames.T, numbers.steps
    top = float(np.abs(moved).max()) or 1.0
    figure.add_trace(
        go.Heatmap(
            x=steps,
            y=list(numbers.groups),
            z=moved.tolist(),
            colorscale="Cividis",
            zmin=-top,
            zmax=top,
            showscale=False,
            xgap=2,
            ygap=2,
            hovertemplate="%{y}, step %{x}: %{z:+.3g}<extra></extra>",
        ),
        row=row,
        col=1,
    )
    for g, name in enumerate(numbers.groups):
        figure.add_annotation(
            x=steps[-1] + 0.5,
            y=name,
            text=f"{moved[g, -1]:+.2g} → {numbers.frame_level[g]:.3g}",
            font={"color": GREY, "size": 12},
            showarrow=False,
            xanchor="left",
            xshift=6,
            row=row,
            col=1,
        )
    figure.update_yaxes(autorange="reversed", row=row, col=1)


def _label_ends(
    figure: go.Figure, ends: list[tuple[float, str, str]], x: float, height: int
) -> None:
    """Names each line at its right end, pushed apart where they would overlap."""
    if not ends:
        return
    values = [y for y, _, _ in ends]
    span = (max(*values, 0.0) - min(*values, 0.0)) or 1.0
    gap, last = span * LABEL_PX / height, -np.inf
    names = []
    for y, text, colour in sorted(ends, key=lambda e: e[0]):
        last = max(y, last + gap)
        names.append(
            {
                "x": x, "y": last, "xref": "x", "yref": "y", "text": text, "showarrow": False,
                "font": {"color": colour, "size": 12}, "xanchor": "left", "xshift": 6,
            }
        )  # fmt: skip
    # one by one, each would copy those before it
    figure.layout.annotations = (*figure.layout.annotations, *names)
