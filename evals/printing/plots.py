"""Figures → SVG by matplotlib: where a method helps, where it hurts, and how evidence matters."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from macd_studio.core.text.words import visible
from macd_studio.evals.printing.figures import SIGNIFICANT, survives, title

Figures = dict[str, Any]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8c8c8c")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.hashsalt": "macd",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def _panels(
    names: Sequence[str], height: float, draw: Callable[[Any, str], None], legend: bool = False
) -> str:
    """A panel for each name, at most three side by side, as SVG.

    height: of a row of panels, inches. draw: what fills the panel of a name. legend: below all.
    """
    with plt.rc_context(STYLE):
        columns = min(3, len(names))
        rows = -(-len(names) // columns)
        fig, axes = plt.subplots(
            rows, columns, figsize=(10, rows * height), squeeze=False, sharey=not legend,
            layout="constrained",
        )  # fmt: skip
        for ax in axes.flat[len(names) :]:
            ax.set_visible(False)
        for ax, name in zip(axes.flat, names, strict=False):
            draw(ax, name)
        if legend:
            axes[0][0].set_ylabel("right, %")
            handles, labels = axes[0][0].get_legend_handles_labels()
            fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        else:
            axes[0][0].invert_yaxis()
        out = io.StringIO()
        fig.savefig(out, format="svg", metadata={"Date": None, "Creator": "MACD Studio"})
        plt.close(fig)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _interval(ax: Any, y: int, ends: Sequence[float], change: float | None) -> None:
    """An estimate with its interval; coloured and square where its change is significant."""
    middle, low, high = ends
    colour = "#777777" if change is None else "#D55E00" if change < 0 else "#0072B2"
    ax.plot([low, high], [y, y], color=colour, lw=2, solid_capstyle="butt")
    ax.plot(middle, y, "o" if change is None else "s", color=colour, ms=5)


def _by_method(ax: Any, methods: Sequence[str], head: str, name: str) -> None:
    ax.set_yticks(range(len(methods)), [title(m) for m in methods])
    ax.set_title(head, fontsize=9, loc="left")
    ax.set_xlabel(name)
    ax.grid(axis="x", color="#eeeeee")
    ax.set_axisbelow(True)


def forest(figures: Figures, line: str = "", band: str = "") -> str:
    """Change in the share of right answers against the baseline, with 95 % intervals, as SVG.

    A method that a regime lacks has an empty row there. line, band: methods whose estimate, and
    whose interval, is marked over all rows.
    """
    regimes = figures["regimes"]
    every = [part["methods"] for part in regimes.values()]
    named = dict.fromkeys(m for part in every for m in part)
    methods = [m for m in named if any("delta" in part.get(m, {}) for part in every)]

    def draw(ax: Any, regime: str) -> None:
        part = regimes[regime]
        for y, method in enumerate(methods):
            one = part["methods"].get(method, {})
            if "delta" in one:
                ends = [100 * z for z in one["delta"]]
                _interval(ax, y, ends, ends[0] if survives(one) else None)
        ax.axvline(0, color="#999999", lw=0.8)
        if line:
            ax.axvline(100 * part["methods"][line]["delta"][0], color="#333333", lw=0.8, ls=":")
        if band:
            _, low, high = part["methods"][band]["delta"]
            ax.axvspan(100 * low, 100 * high, color="#E69F00", alpha=0.18, lw=0)
        base = 100 * part["methods"]["baseline"]["right"][0]
        head = f"{regime}\nbaseline {base:.1f} %, n = {part['n']}"
        _by_method(ax, methods, head, "change, points")

    return _panels(list(regimes), 0.9 + 0.24 * len(methods), draw)


def accuracies(report: Figures) -> str:
    """Accuracy of each method with its 95 % interval, a panel for all questions and each split.

    report: of `evals.scoring.report.make_report`. A square and a colour mark a change against the
    baseline that is significant after Holm's correction.
    """
    methods, compared = report["methods"], report.get("compared", {})

    def draw(ax: Any, split: str) -> None:
        of = {m: z if split == "all" else z["splits"][split] for m, z in report["scores"].items()}
        for y, method in enumerate(methods):
            change = compared.get(method, {}).get(split)
            p = change and change["p_holm"]
            sure = p is not None and p < SIGNIFICANT
            if of[method]["interval"] is None:  # no answer is counted
                continue
            ends = (of[method]["accuracy"], *of[method]["interval"])
            _interval(ax, y, ends, change["change"] if sure else None)
        ax.set_xlim(-2, 102)
        _by_method(ax, methods, _plain(f"{split}, n = {of[methods[0]]['n']}"), "accuracy, %")

    splits = ["all", *next(iter(report["scores"].values()))["splits"]]
    return _panels(splits, 0.9 + 0.26 * len(methods), draw)


def _plain(text: str) -> str:
    """A name as matplotlib draws it as it is: a dollar sign would begin a formula."""
    return visible(text).replace("$", "\\$")


def by_level(figures: Figures, methods: tuple[str, ...]) -> str:
    """Share of right answers by level of evidence, one panel a regime, as SVG."""
    regimes = {k: v["levels"] for k, v in figures["regimes"].items() if v["levels"]}

    def draw(ax: Any, regime: str) -> None:
        levels = regimes[regime]
        for i, method in enumerate(methods):
            shares = [part["methods"][method]["right"] for part in levels.values()]
            if any(z[0] != z[0] for z in shares):  # NaN: it does not apply here
                continue
            x = [k + 0.05 * (i - len(methods) / 2) for k in range(len(levels))]
            y = [100 * s[0] for s in shares]
            error = [
                [max(0, 100 * (s[0] - s[1])) for s in shares],
                [max(0, 100 * (s[2] - s[0])) for s in shares],
            ]
            ax.errorbar(x, y, error, **_line(i, method))
        ax.set_xticks(range(len(levels)), list(levels))
        ax.set_ylim(0, 102)
        ax.set_title(regime, fontsize=9, loc="left")
        ax.grid(axis="y", color="#eeeeee")

    return _panels(list(regimes), 2.6, draw, legend=True)


def _line(i: int, method: str) -> dict[str, Any]:
    """How the line of the i-th method is drawn."""
    style = {"color": COLOURS[i], "marker": MARKS[i], "ms": 4, "lw": 1.2}
    return style | {"label": title(method)}


def reliability(figures: Figures, methods: tuple[str, ...]) -> str:
    """Share of right answers by the probability of the answer, one panel a regime, as SVG."""
    regimes = {
        k: v["methods"]
        for k, v in figures["regimes"].items()
        if any("calibration" in f for f in v["methods"].values())
    }

    def draw(ax: Any, regime: str) -> None:
        ax.plot([0, 100], [0, 100], color="#999999", lw=0.8)
        for i, method in enumerate(methods):
            bins = regimes[regime][method].get("calibration", {}).get("bins", [])
            means, shares = ([100 * z[k] for z in bins] for k in (0, 1))
            ax.plot(means, shares, **_line(i, method))
        ax.set_title(_plain(regime), fontsize=9, loc="left")
        ax.set_xlabel("probability of the answer, %")
        ax.set_ylim(-2, 102)
        ax.grid(color="#eeeeee")

    return _panels(list(regimes), 3.0, draw, legend=True)
