"""Figures → SVG by matplotlib: where a method helps, where it hurts, and how evidence matters."""

from __future__ import annotations

import io
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from macd_studio.core.words import visible
from macd_studio.evals.figures import SIGNIFICANT, survives, title

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


def forest(figures: Figures) -> str:
    """Change in the share of right answers against the baseline, with 95 % intervals, as SVG."""
    regimes = figures["regimes"]
    every = [part["methods"] for part in regimes.values()]
    methods = [m for m in every[0] if any("delta" in part[m] for part in every)]
    with plt.rc_context(STYLE):
        columns = min(3, len(regimes))
        rows = -(-len(regimes) // columns)
        height = rows * (0.9 + 0.24 * len(methods))
        fig, axes = plt.subplots(
            rows, columns, figsize=(10, height), squeeze=False, sharey=True, layout="constrained"
        )
        for ax in axes.flat[len(regimes) :]:
            ax.set_visible(False)
        for ax, (regime, part) in zip(axes.flat, regimes.items(), strict=False):
            for y, method in enumerate(methods):
                if "delta" not in part["methods"][method]:
                    continue
                d, low, high = (100 * z for z in part["methods"][method]["delta"])
                sure = survives(part["methods"][method])
                colour = "#777777" if not sure else "#D55E00" if d < 0 else "#0072B2"
                ax.plot([low, high], [y, y], color=colour, lw=2, solid_capstyle="butt")
                ax.plot(d, y, "s" if sure else "o", color=colour, ms=5)
            ax.axvline(0, color="#999999", lw=0.8)
            ax.set_yticks(range(len(methods)), [title(m) for m in methods])
            base = 100 * part["methods"]["baseline"]["right"][0]
            ax.set_title(
                f"{regime}\nbaseline {base:.1f} %, n = {part['n']}", fontsize=9, loc="left"
            )
            ax.set_xlabel("change, points")
            ax.grid(axis="x", color="#eeeeee")
            ax.set_axisbelow(True)
        axes[0][0].invert_yaxis()
        return _svg(fig)


def accuracies(report: Figures) -> str:
    """Accuracy of each method with its 95 % interval, a panel for all questions and each split.

    report: of `evals.scoring.report.make_report`. A square and a colour mark a change against the
    baseline that is significant after Holm's correction.
    """
    methods, compared = report["methods"], report.get("compared", {})
    splits = ["all", *next(iter(report["scores"].values()))["splits"]]
    with plt.rc_context(STYLE):
        columns = min(3, len(splits))
        rows = -(-len(splits) // columns)
        height = rows * (0.9 + 0.26 * len(methods))
        fig, axes = plt.subplots(
            rows, columns, figsize=(10, height), squeeze=False, sharey=True, layout="constrained"
        )
        for ax in axes.flat[len(splits) :]:
            ax.set_visible(False)
        for ax, split in zip(axes.flat, splits, strict=False):
            for y, method in enumerate(methods):
                scores = report["scores"][method]
                part = scores if split == "all" else scores["splits"][split]
                change = compared.get(method, {}).get(split)
                sure = change is not None and change["p_holm"] < SIGNIFICANT
                colour = "#777777"
                if sure:
                    colour = "#D55E00" if change["change"] < 0 else "#0072B2"
                ax.plot(part["interval"], [y, y], color=colour, lw=2, solid_capstyle="butt")
                ax.plot(part["accuracy"], y, "s" if sure else "o", color=colour, ms=5)
            n = report["scores"][methods[0]]
            n = n if split == "all" else n["splits"][split]
            ax.set_yticks(range(len(methods)), [title(m) for m in methods])
            ax.set_xlim(-2, 102)
            ax.set_title(_plain(f"{split}, n = {n['n']}"), fontsize=9, loc="left")
            ax.set_xlabel("accuracy, %")
            ax.grid(axis="x", color="#eeeeee")
            ax.set_axisbelow(True)
        axes[0][0].invert_yaxis()
        return _svg(fig)


def _plain(text: str) -> str:
    """A name as matplotlib draws it as it is: a dollar sign would begin a formula."""
    return visible(text).replace("$", "\\$")


def by_level(figures: Figures, methods: tuple[str, ...]) -> str:
    """Share of right answers by level of evidence, one panel a regime, as SVG."""
    regimes = {k: v for k, v in figures["regimes"].items() if v["levels"]}
    with plt.rc_context(STYLE):
        columns = min(3, len(regimes))
        rows = -(-len(regimes) // columns)
        fig, axes = plt.subplots(
            rows, columns, figsize=(10, 2.6 * rows), squeeze=False, layout="constrained"
        )
        for ax in axes.flat[len(regimes) :]:
            ax.set_visible(False)
        for ax, (regime, part) in zip(axes.flat, regimes.items(), strict=False):
            levels = list(part["levels"])
            for i, method in enumerate(methods):
                shares = [part["levels"][z]["methods"][method]["right"] for z in levels]
                if any(z[0] != z[0] for z in shares):  # NaN: it does not apply here
                    continue
                x = [k + 0.05 * (i - len(methods) / 2) for k in range(len(levels))]
                y = [100 * s[0] for s in shares]
                error = [
                    [max(0, 100 * (s[0] - s[1])) for s in shares],
                    [max(0, 100 * (s[2] - s[0])) for s in shares],
                ]
                ax.errorbar(
                    x,
                    y,
                    error,
                    color=COLOURS[i],
                    marker=MARKS[i],
                    ms=4,
                    lw=1.2,
                    label=title(method),
                )
            ax.set_xticks(range(len(levels)), levels)
            ax.set_ylim(0, 102)
            ax.set_title(regime, fontsize=9, loc="left")
            ax.grid(axis="y", color="#eeeeee")
        axes[0][0].set_ylabel("right, %")
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        return _svg(fig)


def reliability(figures: Figures, methods: tuple[str, ...]) -> str:
    """Share of right answers by the probability of the answer, one panel a regime, as SVG."""
    regimes = {
        k: v["methods"]
        for k, v in figures["regimes"].items()
        if any("calibration" in f for f in v["methods"].values())
    }
    with plt.rc_context(STYLE):
        columns = min(3, len(regimes))
        rows = -(-len(regimes) // columns)
        fig, axes = plt.subplots(
            rows, columns, figsize=(10, 3.0 * rows), squeeze=False, layout="constrained"
        )
        for ax in axes.flat[len(regimes) :]:
            ax.set_visible(False)
        for ax, (regime, part) in zip(axes.flat, regimes.items(), strict=False):
            ax.plot([0, 100], [0, 100], color="#999999", lw=0.8)
            for i, method in enumerate(methods):
                bins = part[method].get("calibration", {}).get("bins", [])
                ax.plot(
                    [100 * mean for mean, _, _ in bins],
                    [100 * share for _, share, _ in bins],
                    color=COLOURS[i],
                    marker=MARKS[i],
                    ms=4,
                    lw=1.2,
                    label=title(method),
                )
            ax.set_title(_plain(regime), fontsize=9, loc="left")
            ax.set_xlabel("probability of the answer, %")
            ax.set_ylim(-2, 102)
            ax.grid(color="#eeeeee")
        axes[0][0].set_ylabel("right, %")
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        return _svg(fig)


def _svg(fig: Any) -> str:
    out = io.StringIO()
    fig.savefig(out, format="svg", metadata={"Date": None, "Creator": "MACD Studio"})
    plt.close(fig)
    text = out.getvalue()
    return text[text.index("<svg") :]
