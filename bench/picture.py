"""Draws docs/bench.svg from the measured ratios: `python -m bench.picture`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from bench.__main__ import RESULTS

OUT = Path(__file__).parents[1] / "docs" / "bench.svg"
GROUPS = {
    "time over baseline": {
        "MACD, 1 step": "e2e_macd1_over_base_cpu",
        "MACD, 3 steps": "e2e_macd3_over_base_cpu",
        "VCD": "e2e_vcd_over_base_cpu",
        "SID": "e2e_sid_over_base_cpu",
        "TCD": "e2e_tcd_over_base_cpu",
    },
    "MACD over baseline, by frames": {
        "8": "e2e_macd1_over_base_t8_cpu",
        "16": "e2e_macd1_over_base_t16_cpu",
        "32": "e2e_macd1_over_base_t32_cpu",
    },
    "ascent, over the plain one": {
        "5 objects, not 1": "ascent_k5_over_k1_cpu",
        "20 objects, not 1": "ascent_k20_over_k1_cpu",
        "low memory: time": "ascent_low_over_normal_memory_time_cpu",
        "low memory: activations": "ascent_low_over_normal_memory_activations",
    },
}


def draw() -> None:
    """One bar a ratio, the number at its end, a line at 1."""
    found = json.loads(RESULTS.read_text())
    machine = found["machine"]
    with plt.rc_context({"svg.hashsalt": "macd", "svg.fonttype": "none", "font.size": 9}):
        fig, axes = plt.subplots(1, len(GROUPS), figsize=(11, 2.4), layout="constrained")
        for ax, (title, keys) in zip(axes, GROUPS.items(), strict=True):
            names = [n for n, key in keys.items() if key in found]
            values = [found[keys[n]] for n in names]
            ax.barh(names, values, color="#56B4E9")
            for y, value in enumerate(values):
                ax.text(value, y, f" {value:.2f}×", va="center")
            ax.axvline(1, color="#555555", lw=0.8)
            ax.set_xlim(0, 1.3 * max([*values, 1]))
            ax.invert_yaxis()
            ax.set_title(title, fontsize=9, loc="left")
            ax.spines[["top", "right"]].set_visible(False)
        fig.supxlabel(f"embedded backbone, {machine['cores']} cores of {machine['processor']}")
        fig.savefig(OUT, metadata={"Date": None})
        plt.close(fig)


if __name__ == "__main__":
    draw()
