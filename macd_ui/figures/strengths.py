"""How the strengths moved during the ascent, with the query loss under them (plotly)."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.types import Trace
from viewer.constants import COLOURS

DASHES = ("solid", "dash", "dot", "dashdot")
LABEL_CHARACTERS = 28
GREY = "#888888"
LABEL_PX = 17


def strengths_figure(trace: Trace | None) -> go.Figure | None:
    """Strength − r0 by step, one line per object; a heat strip of the frame groups; the query loss.

    None where there was no ascent. Differences are drawn, not strengths: with η = 0.01 they are
    far too small to see on a scale from 0 to 1, and only their sign decides. The first traces of
    the figure are the objects, in the order of the tracks.
    """
    if trace is None or not trace.steps or trace.counterfactual is None:
        return None
    ascent = trace.options.ascent
    r0, tau = ascent.r0, ascent.tau
    counterfactual, steps = trace.counterfactual, list(range(len(trace.steps) + 1))
    one = len(trace.steps) == 1
    groups = len(trace.groups) if len(counterfactual.frame_strength) else 0
    lines = max(120, LABEL_PX * len(trace.tracks))
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
    moved = np.array([s.strength for s in trace.steps] + [counterfactual.strength]) - r0
    for k, track in enumerate(trace.tracks):
        name = _plain(f"{track.id} {track.label}")
        level = f"{counterfactual.level[k]:.3g}"
        colour = COLOURS[k % len(COLOURS)]
        _line(figure, steps, moved[:, k], name, colour, DASHES[k // 7 % 4])
        short = name if len(name) <= LABEL_CHARACTERS else f"{name[: LABEL_CHARACTERS - 1]}…"
        acts = any(s.gradient[k] for s in trace.steps)
        end = f"{short} {moved[-1, k]:+.2g}" if acts else f"{short} cannot act"
        ends.append((float(moved[-1, k]), f"{end} → {level}", colour))
    longest = max((len(text) for _, text, _ in ends), default=0)
    _label_ends(figure, ends, steps[-1] + 0.5, lines)
    if tau:
        figure.add_hrect(-tau, tau, fillcolor="#888888", opacity=0.15, line_width=0, row=1, col=1)
    figure.add_hline(0, line={"color": "#888888", "width": 1}, row=1, col=1)
    band = f", dead band ± {tau:g}" if tau else ""
    near = "" if ascent.gradient == "exact" else "approximate gradient · "
    figure.update_yaxes(title_text="strength − r0", row=1, col=1, exponentformat="power")
    if groups:
        _heat_strip(figure, trace, r0, steps, rows["frames"])
    figure.update_xaxes(dtick=1 if len(steps) < 13 else None, range=[-0.5, steps[-1] + 0.5])
    if one:
        loss = trace.steps[0].loss
        caption = (
            f"{near}one step, only the sign decides<br>r0 {r0:g}{band} · query loss {loss:.3f}"
        )
        figure.update_xaxes(title_text=caption, row=len(rows), col=1)
    else:
        _loss_row(figure, trace, steps[:-1], rows["loss"])
        caption = f"{near}ascent step · r0 {r0:g}{band}"
        figure.update_xaxes(title_text=caption, row=rows["loss"], col=1)
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#7a838c"},
        margin={"l": 100, "r": max(170, 16 + 7 * longest), "t": 12, "b": 64},
        height=round(sum(heights.values()) * (1 + 0.06 * len(rows))) + 96,
    )
    grid = {"gridcolor": "rgba(128,128,128,.18)", "zeroline": False}
    figure.update_xaxes(**grid)
    figure.update_yaxes(**grid)
    return figure


def _heat_strip(figure: go.Figure, trace: Trace, r0: float, steps: list[int], row: int) -> None:
    """Frame groups by step, coloured by strength − r0, with margin and level at the right end."""
    counterfactual = trace.counterfactual
    assert counterfactual is not None
    moved = (
        np.array([s.frame_strength for s in trace.steps] + [counterfactual.frame_strength]).T - r0
    )
    top = float(np.abs(moved).max()) or 1.0
    names = [f"frames {g[0] + 1}–{g[-1] + 1}" if len(g) > 1 else f"frame {g[0] + 1}"
             for g in trace.groups]  # fmt: skip
    figure.add_trace(
        go.Heatmap(
            x=steps,
            y=names,
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
    for g, name in enumerate(names):
        figure.add_annotation(
            x=steps[-1] + 0.5,
            y=name,
            text=f"{moved[g, -1]:+.2g} → {counterfactual.frame_level[g]:.3g}",
            font={"color": GREY, "size": 12},
            showarrow=False,
            xanchor="left",
            xshift=6,
            row=row,
            col=1,
        )
    figure.update_yaxes(autorange="reversed", row=row, col=1)


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


def _loss_row(figure: go.Figure, trace: Trace, steps: list[int], row: int) -> None:
    figure.add_trace(
        go.Scatter(
            x=steps,
            y=[s.loss for s in trace.steps],
            mode="lines+markers",
            line={"color": GREY},
            showlegend=False,
            name="query loss",
        ),
        row=row,
        col=1,
    )
    figure.update_yaxes(title_text="query loss", row=row, col=1)


def _label_ends(
    figure: go.Figure, ends: list[tuple[float, str, str]], x: float, height: int
) -> None:
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
            xshift=6,
            row=1,
            col=1,
        )


def _plain(text: str) -> str:
    """Plotly reads a little markup in hover texts; a label must stay text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%", "％")
