"""Draws docs/training/curve.svg from the training log: `python -m toyworld.training_curve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from macd_studio.commands import need_checkout

TRAINING = Path(__file__).resolve().parents[1] / "docs" / "training"
LOSSES = {"answer": ("answers", "#0072B2"), "question": ("questions", "#D55E00")}
KINDS = {"present": "-", "absent": "--", "animal": "-.", "motion": ":", "caption": (0, (5, 1))}
MODES = {"consistent": "#0072B2", "breaking": "#D55E00"}


def stage_two(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of stage two, with the steps of a training that continues another one after its.

    >>> first, second = {"stage": "done", "step": 5}, {"stage": "all", "step": 2}
    >>> stage_two([first, {"stage": "all", "step": 0, "continues": "first"}, second])
    [{'stage': 'done', 'step': 5}, {'stage': 'all', 'step': 7}]
    """
    before, last, kept = 0, 0, []
    for row in rows:
        if "continues" in row:
            before = last
        elif row["stage"] in ("all", "done"):
            last = before + row["step"]
            kept.append(row | {"step": last})
    return kept


def draw(log: Path = TRAINING / "backbone.jsonl", out: Path = TRAINING / "curve.svg") -> None:
    """Losses of stage two, and exact answers as habit has it and against it, by step."""
    rows = stage_two([json.loads(line) for line in log.read_text().splitlines()])
    with plt.rc_context({"svg.hashsalt": "macd", "svg.fonttype": "none", "font.size": 9}):
        fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
        losses = [r for r in rows if "answer" in r]
        for key, (name, colour) in LOSSES.items():
            left.plot(
                [r["step"] for r in losses], [r[key] for r in losses], color=colour, label=name
            )
        left.set(yscale="log", xlabel="step of stage two", ylabel="loss, nats per token")
        measured = [r for r in rows if "accuracy" in r]
        for mode, colour in MODES.items():
            for kind, dash in KINDS.items():
                shares = [100 * r["accuracy"][mode][kind] for r in measured]
                steps = [r["step"] for r in measured]
                right.plot(steps, shares, color=colour, ls=dash, label=f"{kind}, {mode}")
        right.set(xlabel="step of stage two", ylabel="exactly right, %", ylim=(0, 102))
        for ax in (left, right):
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color="#eeeeee")
        left.legend(frameon=False)
        right.legend(frameon=False, fontsize=7, ncols=2, loc="lower right")
        fig.savefig(out, metadata={"Date": None})
        plt.close(fig)


if __name__ == "__main__":
    need_checkout("toyworld.training_curve")
    draw()
