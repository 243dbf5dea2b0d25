"""The whole method on one page: V with its tracks, M, V_d, the strengths, and the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import score as contrast_score
from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import (
    COLOURS,
    GREYS,
    as_image,
    bare_axes,
    bars_in_greys,
    choose_frames,
    escape_mathtext,
    of_content,
    plain,
    short,
    small,
    token_index,
    token_name,
)
from macd_studio.core.figures.style import transparent as transparent_figure
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.repeats import penalised
from macd_studio.core.types import Pixels, Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

CANDIDATES = 4
"""Tokens whose logits are drawn."""
ROWS = ("V", "M", "V_d")


@dataclass(frozen=True, eq=False)
class Overview:
    """Of n frames, K objects and C candidates of one token of MACD's answer."""

    question: str
    times: tuple[float, ...]
    pictures: tuple[tuple[Pixels, ...], ...]
    """For each row of ROWS, n pictures (H, W, 3)."""
    boxes: NDArray[np.float32]
    """(n, K, 4) in shares of the picture, NaN where an object is not seen."""
    names: tuple[str, ...]
    margin: NDArray[np.float64]
    level: NDArray[np.float64]
    """`margin` and `level`: (K,) of the objects."""
    tokens: tuple[str, ...]
    logits: NDArray[np.float64]
    """(3, C), under V, under V_d, and the score."""
    index: int
    answers: tuple[str, str]
    """The baseline's answer and MACD's."""

    @property
    def title(self) -> str:
        """Question and both answers."""
        before, after = (short(answer, 24) for answer in self.answers)
        return f"{short(self.question, 60)}  {before} → {after}"


def measure(trace: Trace, frames: Any = None, token: int | None = None) -> Overview:
    """frames, token: indices from 0; by default the first token that differs from the baseline.

    Raises OptionError where the trace holds no finished MACD answer.
    """
    counterfactual, macd, read = trace.counterfactual, trace.answers.get("macd"), trace.model_frames
    baseline = trace.answers.get("baseline")
    if (
        counterfactual is None
        or macd is None
        or read is None
        or baseline is None
        or not macd.tokens
    ):
        raise OptionError("the trace holds no finished answer of MACD", "Run the clip to its end")
    at = choose_frames(trace, frames)
    drawn = draw_masks(trace.tracks, len(read.pixels), read.size, trace.mask, read.content)
    confidence = [t.confidence for t in trace.tracks]
    mask = combine_masks(
        drawn,
        counterfactual.level,
        counterfactual.frame_level,
        trace.groups,
        confidence,
        trace.mask,
    )
    grey = np.repeat((255 * mask).round().astype(np.uint8)[..., None], 3, -1)
    shown = next((second.shown for second in macd.second_views), None)
    counter = read.pixels if shown is None else shown
    index = token_index(trace, macd, token)
    step = macd.tokens[index]
    other = next(iter(step.others), step.base)
    best = np.argsort(-step.base, kind="stable")[:CANDIDATES]
    own = int(np.flatnonzero(step.candidates == step.token)[0])
    kept = best if own in best else np.array([*best[:-1], own])
    score = penalised(contrast_score(step.base, other, macd.alpha, 0), step.repeats)
    boxes = np.full((len(at), len(trace.tracks), 4), np.nan, np.float32)
    for k, track in enumerate(trace.tracks):
        boxes[:, k] = track.boxes[list(at)]
    rows = trace.frames, of_content(trace, grey), of_content(trace, counter)
    return Overview(
        question=trace.question,
        times=tuple(float(trace.times[i]) for i in at),
        pictures=tuple(tuple(small(row[i]) for i in at) for row in rows),
        boxes=boxes,
        names=tuple(f"{t.id} {t.label}" for t in trace.tracks),
        margin=counterfactual.margin,
        level=counterfactual.level,
        tokens=tuple(short(token_name(step.texts[i])) for i in kept),
        logits=np.array([step.base[kept], other[kept], score[kept]], np.float64),
        index=index,
        answers=(baseline.text, macd.text),
    )


NUMBERS = ("logit given V", "logit given V_d", "(1+α)·V − α·V_d")


def plotly(numbers: Overview) -> go.Figure:
    """Frames by column; below, the margins of the objects and the logits of the token."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    n = len(numbers.times)
    left = max(1, n // 2)
    spans: list[Any] = [{"colspan": left}] + [None] * (left - 1)
    spans += ([{"colspan": n - left}] + [None] * (n - left - 1)) if n > 1 else []
    rows = [[{} for _ in range(n)] for _ in ROWS] + ([spans] if n > 1 else [[{}], [{}]])
    figure = make_subplots(
        rows=len(rows), cols=n, specs=rows, vertical_spacing=0.05, horizontal_spacing=0.02,
        row_heights=[1, 1, 1] + [1.2] * (len(rows) - 3), row_titles=list(ROWS),
        column_titles=[f"{t:.2f} s" for t in numbers.times],
    )  # fmt: skip
    for row, pictures in enumerate(numbers.pictures):
        for column, picture in enumerate(pictures):
            as_image(picture, row + 1, column + 1, figure)
    for column, boxes in enumerate(numbers.boxes):
        for k, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
            if np.isfinite(x0):
                figure.add_shape(
                    type="rect", x0=x0, y0=y0, x1=x1, y1=y1, row=1, col=column + 1,
                    line={"color": COLOURS[k % len(COLOURS)], "width": 2},
                )  # fmt: skip
    names = [plain(name) for name in numbers.names]
    figure.add_trace(
        go.Bar(
            x=numbers.margin.tolist(), y=names, orientation="h", showlegend=False,
            marker={"color": [COLOURS[k % len(COLOURS)] for k in range(len(names))]},
            text=[f"level {level:g}" for level in numbers.level], name="strength − r0",
        ),
        row=4, col=1,
    )  # fmt: skip
    place = (4, left + 1) if n > 1 else (5, 1)
    across = list(range(len(numbers.tokens)))  # names may be numbers, or equal once shortened
    for name, values, colour in zip(NUMBERS, numbers.logits, COLOURS[5:], strict=False):
        figure.add_trace(
            go.Bar(x=across, y=values.tolist(), name=name,
                   marker={"color": colour}),
            row=place[0], col=place[1],
        )  # fmt: skip
    figure.update_xaxes(title_text="strength − r0", row=4, col=1)
    figure.update_yaxes(autorange="reversed", row=4, col=1)
    figure.update_xaxes(
        title_text=f"token {numbers.index + 1}", row=place[0], col=place[1],
        tickvals=across, ticktext=[plain(t) for t in numbers.tokens],
    )  # fmt: skip
    legend = {"orientation": "h", "y": -0.1}
    height = 170 * 3 + 260 * (len(rows) - 3) + 90
    return transparent_figure(
        figure, title=plain(numbers.title), height=height, legend=legend, barmode="group"
    )


def matplotlib(numbers: Overview) -> Figure:
    """The overview in greys: objects by the dash of their box, bars by hatch."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    n = len(numbers.times)
    height, width = numbers.pictures[0][0].shape[:2]
    wide = 6.4
    cell = wide / n * height / width
    figure = Figure(figsize=(wide, 3 * cell + 2.6), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[3 * cell, 2.2])
    above, below = parts
    grid = above.subplots(3, n, squeeze=False)
    dashes = ("-", "--", ":", "-.")
    for row, pictures in enumerate(numbers.pictures):
        for column, picture in enumerate(pictures):
            axes = grid[row][column]
            luminance = (picture @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
            bare_axes(axes, np.repeat(luminance[..., None], 3, -1))
            if not row:
                axes.set_title(f"{numbers.times[column]:.2f} s", fontsize="small")
                for k, (x0, y0, x1, y1) in enumerate(numbers.boxes[column].tolist()):
                    if np.isfinite(x0):
                        for colour, thick in (("white", 2.4), ("black", 1.0)):
                            box = Rectangle(
                                (x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour,
                                linewidth=thick, linestyle=dashes[k % 4] if thick < 2 else "-",
                            )  # fmt: skip
                            axes.add_patch(box)
                        axes.text(x0, y0, numbers.names[k].split()[0], fontsize="x-small",
                                  va="bottom", color="black", backgroundcolor="white")  # fmt: skip
            if not column:
                axes.set_ylabel(ROWS[row])
    strengths, logits = below.subplots(1, 2)
    places = np.arange(len(numbers.names))
    strengths.barh(places, numbers.margin, color="#bfbfbf", edgecolor="black")
    labels = [
        escape_mathtext(f"{short(name, 18)} → {level:g}")
        for name, level in zip(numbers.names, numbers.level, strict=True)
    ]
    strengths.set_yticks(places, labels, fontsize="small")
    strengths.invert_yaxis()
    strengths.axvline(0, color=GREYS[0], linewidth=0.8)
    strengths.set_xlabel("strength − r0")
    strengths.locator_params(axis="x", nbins=3)
    bars_in_greys(
        logits, dict(zip(map(escape_mathtext, NUMBERS), numbers.logits, strict=True)), 0.27
    )
    logits.set_xticks(
        range(len(numbers.tokens)), [escape_mathtext(t) for t in numbers.tokens], fontsize="small"
    )
    logits.set_xlabel(f"token {numbers.index + 1}")
    logits.legend(
        frameon=False, fontsize="x-small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3,
        columnspacing=0.8, handlelength=1.2,
    )  # fmt: skip
    figure.suptitle(escape_mathtext(numbers.title), fontsize="medium")
    return figure
