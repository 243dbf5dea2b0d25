"""How the strengths moved during the ascent, with the query loss under them (plotly)."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.types import Trace

COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#F0E442")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#888888"
LABEL_PX = 17


def strengths_figure(trace: Trace | None) -> go.Figure | None:
    """Strength − r0 by step, one line an object and one dotted line a frame group; loss below.

    None where there was no ascent. Differences are drawn, not strengths: with η = 0.01 they are
    far too small to see on a scale from 0 to 1, and only their sign decides.
    """
    if trace is None or not trace.steps or trace.counterfactual is None:
        return None
    r0 = float(trace.options["ascent"]["r0"])
    tau = float(trace.options["ascent"]["tau"])
    found, steps = trace.counterfactual, list(range(len(trace.steps) + 1))
    one = len(trace.steps) == 1
    figure = make_subplots(
        rows=1 if one else 2,
        cols=1,
        shared_xaxes=True,
        row_heights=None if one else [0.72, 0.28],
        vertical_spacing=0.06,
    )
    ends: list[tuple[float, str, str]] = []
    moved = np.array([s.strength for s in trace.steps] + [found.strength]) - r0
    for k, track in enumerate(trace.tracks):
        name = _plain(f"{track.id} {track.label}")
        level = f"{found.level[k]:.3g}"
        _line(figure, steps, moved[:, k], name, COLOURS[k % 7], DASHES[k // 7 % 4])
        ends.append((float(moved[-1, k]), f"{name} → {level}", COLOURS[k % 7]))
    if len(found.frame_strength):
        frames = np.array([s.frame_strength for s in trace.steps] + [found.frame_strength]) - r0
        for g, members in enumerate(trace.groups):
            name = f"frames {members[0] + 1}–{members[-1] + 1}"
            level = f"{found.frame_level[g]:.3g}"
            _line(figure, steps, frames[:, g], name, GREY, "dot")
            ends.append((float(frames[-1, g]), f"{name} → {level}", GREY))
    height = max(200, LABEL_PX * len(ends))
    _label_ends(figure, ends, steps[-1], height)
    if tau:
        figure.add_hrect(-tau, tau, fillcolor="#888888", opacity=0.15, line_width=0, row=1, col=1)
    figure.add_hline(0, line={"color": "#888888", "width": 1}, row=1, col=1)
    if one:
        loss = f"one step, only the sign decides · loss {trace.steps[0].loss:.3f}"
        figure.update_xaxes(title_text=loss, dtick=1)
    else:
        _loss_row(figure, trace, steps[:-1])
    figure.update_yaxes(title_text="strength − r0", row=1, col=1, exponentformat="power")
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#7a838c"},
        margin={"l": 92, "r": 170, "t": 12, "b": 48},
        height=height + 90 if one else round(height / 0.72) + 90,
    )
    grid = {"gridcolor": "rgba(128,128,128,.18)", "zeroline": False}
    figure.update_xaxes(**grid)
    figure.update_yaxes(**grid)
    return figure


def _line(
    figure: go.Figure, steps: list[int], values: np.ndarray, name: str, colour: str, dash: str
) -> None:
    figure.add_trace(
        go.Scatter(
            x=steps,
            y=values.tolist(),
            mode="lines+markers",
            name=name,
            line={"color": colour, "dash": dash},
            showlegend=False,
            hovertemplate="step %{x}: %{y:+.3g}<extra>" + name + "</extra>",
        ),
        row=1,
        col=1,
    )


def _loss_row(figure: go.Figure, trace: Trace, steps: list[int]) -> None:
    figure.add_trace(
        go.Scatter(
            x=steps,
            y=[s.loss for s in trace.steps],
            mode="lines+markers",
            line={"color": GREY},
            showlegend=False,
            name="query loss",
        ),
        row=2,
        col=1,
    )
    figure.update_yaxes(title_text="query loss", row=2, col=1)
    figure.update_xaxes(title_text="ascent step", row=2, col=1)
    if len(steps) < 12:
        figure.update_xaxes(dtick=1)


def _label_ends(figure: go.Figure, ends: list[tuple[float, str, str]], x: int, height: int) -> None:
    """Names each line at its right end, pushed apart where they would overlap."""
    if not ends:
        return
    values = [y for y, _, _ in ends]
    span = (max(*values, 0.0) - min(*values, 0.0)) or 1.0
    gap, last = span * LABEL_PX / height, -np.inf
    for y, text, colour in sorted(ends, key=lambda e: e[0]):
        last = max(y, last + gap)
        figure.add_annotation(
            x=x,
            y=last,
            text=text,
            font={"color": colour, "size": 12},
            showarrow=False,
            xanchor="left",
            xshift=10,
            row=1,
            col=1,
        )


def _plain(text: str) -> str:
    """Plotly reads a little markup in hover texts; a label must stay text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%", "％")
