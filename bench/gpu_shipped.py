"""The shipped examples on another device, by the embedded model's trained weights.

A part of `make gpu-check`. The traces were recorded on a CPU in float32. Of each the ascent, the
levels and both answers are computed again on the device, in float32 and in bfloat16, and held
against what it recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.markdown import table
from macd_studio.core.backbones.load import load_backbone
from macd_studio.core.methods import METHODS
from macd_studio.core.run.order import run_method
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Answer, Trace
from macd_studio.core.views.context import MethodContext

ALLOWED = {"float32": 1e-3, "bfloat16": 0.3}
"""Largest norm of a difference of gradients over the norm, of the last step."""


def measure(device: str, dtype: str, paths: list[Path] | None = None) -> dict[str, Any]:
    """Counts over the examples, and the largest difference of a gradient, in a numbers' format."""
    files = paths or sorted((assets() / "examples").glob("*.macd"))
    lm = load_backbone("toyworld", device, dtype=dtype)  # type: ignore[arg-type]
    found = [again(load(path), lm) for path in files]
    levels, tokens, slopes = zip(*found, strict=True)
    worst = max(slopes)
    return {
        "examples": len(files),
        "levels": sum(levels),
        "tokens": sum(tokens),
        "gradient": worst,
        "holds": all(levels) and all(tokens) and worst <= ALLOWED[dtype],
    }


def again(trace: Trace, lm: Any) -> tuple[bool, bool, float]:
    """Whether levels and answers are those of the trace, and the difference of the gradient."""
    recorded, mask = trace.counterfactual, trace.options.mask
    assert recorded is not None
    assert trace.model_frames is not None
    encoded = lm.encode_frames(trace.model_frames, trace.question)
    context = MethodContext(lm, encoded, trace.tracks, trace.options)
    step, before = context.ascent(mask)[-1], trace.steps[-1]
    new, old = (np.concatenate([s.gradient, s.frame_gradient]) for s in (step, before))
    made = context.counterfactual(mask)
    levels = np.array_equal(made.level, recorded.level)
    frames = np.array_equal(made.frame_level, recorded.frame_level)
    answers = [
        _tokens(run_method(context, METHODS[name])) == _tokens(trace.answers[name])
        for name in ("baseline", "macd")
    ]
    return levels and frames, all(answers), float(np.linalg.norm(new - old) / np.linalg.norm(old))


def _tokens(answer: Answer) -> list[int]:
    return [step.token for step in answer.tokens]


def told(found: dict[str, dict[str, Any]]) -> str:
    """What was found of each precision, as a table in Markdown."""
    rows = []
    for dtype, one in found.items():
        if "error" in one:
            rows.append([dtype, one["error"], "", ""])
        else:
            shares = [f"{one[what]} of {one['examples']}" for what in ("levels", "tokens")]
            rows.append([dtype, *shares, f"{one['gradient']:.0e}"])
    return (
        "The shipped examples, which a CPU recorded, by the embedded model on this GPU:\n\n"
        + table("dtype | levels equal | answers equal | gradient, largest difference", rows)
    )
