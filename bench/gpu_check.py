"""Runs every family on CUDA with random weights: what it computes, what it takes, what it holds.

`make gpu-check`. Nothing is downloaded. The embedded model runs the shipped examples again
(`bench.gpu_shipped`). Of every family the same weights of a few layers are run on the CPU in
float32 and on the device in float32 and bfloat16, and compared (`compare`); the whole model is run
in bfloat16 and measured (`check`). `bench.deep` follows. What was found is kept in
bench/results/gpu.json, and the tables go into docs/backbones.md and docs/bench.md. `--device cpu`
takes the same way on a CPU, with two layers of each kind and few words, and keeps nothing. Exit
codes: 0 all families ran and agree, 1 one did not, 2 there is no such device.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench import deep, gpu_shipped
from bench.__main__ import GPU, write
from bench.counted import peak_bytes
from bench.gpu_shipped import ALLOWED
from bench.markdown import replaced, table
from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.catalogue import planned
from macd_studio.core.backbones.dimensions import DIMENSIONS
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.random_weights import build, depth_of, with_depth
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.decoding.answers import decode
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.macd import weighted
from macd_studio.core.options import AscentOptions, DecodeOptions, RunOptions
from macd_studio.core.planning.plan import QUESTION, sample_clip, sample_tracks
from macd_studio.core.rules import Linear
from macd_studio.core.types import AscentStep
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import masked_view
from macd_studio.core.whatif.occlusion import measure

Float64 = NDArray[np.float64]
Backbone = HfVideoLM | UniversalVLM
DOCS = Path(__file__).parents[1] / "docs" / "backbones.md"
BEGIN, END = "<!-- gpu -->", "<!-- end of gpu -->"
NOT_YET = "Not run on a GPU yet."
MODELS = {
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": 1.0,
    "Qwen/Qwen2-VL-2B-Instruct": 1.0,
    "Qwen/Qwen3-VL-2B-Instruct": 1.0,
    "Qwen/Qwen2.5-VL-3B-Instruct": 1.0,
    "OpenGVLab/InternVL3-8B-hf": 1 / 3,
    "Qwen/Qwen3.5-0.8B": 1.0,
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": 1.0,
}
"""One of every family with code of its own, two without, and the share of its layers that is
built."""


@dataclass(frozen=True)
class Tolerance:
    """logits: largest difference over the largest logit; gradient: norm of the difference over the
    norm. A level may differ where its gradient is below `gradient` of the largest, and a token
    where the scores of both are closer than `logits`: nothing after it is compared."""

    logits: float
    gradient: float


TOLERANCES = {
    torch.float32: Tolerance(logits=1e-3, gradient=1e-2),
    torch.bfloat16: Tolerance(logits=0.1, gradient=0.3),
}
"""Against float32 on the CPU. bfloat16 keeps 8 bits, and the gradient goes through every layer."""
TOKENS, FRAMES, SIDE = 8, 8, 280
RUNS = 3
"""Measured runs of a stage on CUDA, after one that loads its kernels."""


def main(argv: Sequence[str] | None = None) -> int:
    """Checks the families; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, help="by default runs/gpu-check.json, or what is kept")
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--only", choices=list(MODELS), help="one model and nothing else")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        print("error: there is no CUDA device here. Try --device cpu.", file=sys.stderr)
        return 2
    whole = args.device == "cuda" and args.only is None and args.frames == FRAMES
    out = args.out or (GPU if whole else Path("runs/gpu-check.json"))
    report: dict[str, Any] = {"machine": _machine(args.device), "frames": args.frames}
    before = _deep_before(out, report["machine"]["name"])
    for part, found in _parts(args.device, args.frames, args.only):
        report |= {part: [*before, found] if part == "deep" else found}
        write(out, report)  # what comes after may fail
    print(json.dumps(report, indent=1))
    if whole:
        DOCS.write_text(with_table(DOCS.read_text(), report))
    wrong = [m for m in report["models"].values() if "error" in m]
    wrong += [one for one in report.get("shipped", {}).values() if not one.get("holds")]
    return 1 if wrong else 0


def _parts(device: str, frames: int, only: str | None) -> Iterator[tuple[str, Any]]:
    """The parts of the report, each as far as it is known."""
    if only is None:
        yield "shipped", {dtype: _tried(gpu_shipped.measure, device, dtype) for dtype in ALLOWED}
    models: dict[str, Any] = {}
    for name, share in MODELS.items():
        if only not in (None, name):
            continue
        print(f"  {name}", file=sys.stderr, flush=True)
        models[name] = _tried(_checked, name, device, share, frames)
        _forget(device)
        yield "models", models
    if only is None and device == "cuda":
        yield "deep", deep.measure()


def _tried(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What it returns, or its error: the rest of the report is still of interest."""
    try:
        return measure(*arguments)
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _checked(name: str, device: str, share: float, frames: int) -> dict[str, Any]:
    found = check(name, device, share, frames)
    found["agreement"] = agreement = compare(name, device, frames)
    assert all(one["holds"] for one in agreement.values()), f"CPU and device: {agreement}"
    return found


def _deep_before(file: Path, name: str) -> list[dict[str, float]]:
    """What `bench.deep` measured on GPUs of this name before: hosts are not equally fast."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    same = kept.get("machine", {}).get("name") == name
    return kept.get("deep", []) if same else []


def check(name: str, device: str, share: float, frames: int) -> dict[str, Any]:
    """One model: milliseconds and peak GB of each stage. Raises AssertionError where one is off."""
    dimensions = DIMENSIONS[name]
    vision, full, decoder = depth_of(dimensions)
    dtype = torch.bfloat16
    if device == "cpu":
        dtype = torch.float32  # as loading does; few CPUs are quick in bfloat16
        dimensions = {**dimensions, "text": dimensions["text"] | {"vocab_size": 1024}}
        depth = 2, min(full, 2), max(3, min(full, 2))
    else:
        depth = round(vision * share), full, round(decoder * share)
    torch.manual_seed(0)
    with torch.no_grad():
        lm = build(name, with_depth(dimensions, *depth), device, dtype)
        _draw(lm, device)
    stages: dict[str, Any] = {}

    def staged(stage: str, call: Callable[..., Any], make: Callable[[], Any] | None = None) -> Any:
        result, stages[stage] = _measured(lm, device, call, make)
        return result

    clip, tracks = sample_clip(frames, SIDE), sample_tracks(frames)
    _case(lm, clip, tracks, "normal").base  # noqa: B018 - warms the device up
    encoded = staged("encode", lambda: lm.encode(clip, QUESTION))
    assert encoded.video.device.type == device
    base = staged("prefill", lambda: lm.prefill(encoded, encoded.video))
    last: dict[str, AscentStep] = {}
    for memory in ("normal", "low"):
        last[memory] = staged(f"ascent_{memory}", _step, partial(_read, lm, clip, tracks, memory))
    case = _read(lm, clip, tracks, "normal")
    _assert_same_slopes(last["normal"], last["low"])
    whole = replace(
        case.counterfactual(case.options.mask),
        level=np.ones(len(tracks)),
        frame_level=np.ones(len(encoded.groups)),
    )
    others = staged("second_view", lambda: masked_view(case, whole, case.options.mask).states)
    others_of = [others]
    if "prune" in lm.capabilities:
        prune = Prune(1, 0.5)
        others_of.append([staged("pruned_view", lambda: case.prefill(encoded.video, prune))])
    options = DecodeOptions(max_tokens=TOKENS)
    # one candidate: drawn weights leave thousands open, and each would be recorded with its text
    rule = Linear(replace(case.options.contrast, beta=1.0))
    decoded = staged("decode", lambda: list(decode(lm, base, others, rule, options)))
    for second in others_of:
        assert len(list(decode(lm, base, second, rule, replace(options, max_tokens=2)))) > 0
    _assert_crop_repeats(lm, base, others)
    answer = [decoded[0].token, decoded[0].token]
    masks, gradient = case.masks(case.options.mask), last["normal"].gradient
    staged("occlusion", lambda: measure(lm, masks, base, answer, gradient, whole.level))
    is_whole = share == 1 and device == "cuda" and frames == FRAMES
    for kind, memory in (("macd", "normal"), ("macd_low_memory", "low")):
        staged(kind, partial(_macd, lm, clip, tracks, memory))
        plan = planned(name) if is_whole else None
        stages[kind]["planned_peak_gb"] = plan[f"{kind}_peak_gb"] if plan else None
    stages["decode"]["ms_per_token"] = round(stages["decode"]["ms"] / len(decoded), 2)
    layers = dict(zip(("vision", "vision_full", "decoder"), depth, strict=True))
    return {"parameters": lm.info.parameters, "layers": layers, "stages": stages}


@dataclass(frozen=True, eq=False)
class Computed:
    """What one device computes of one case. logits: (V,) of the first token; gradient: of all
    strengths; levels: of all; tokens: MACD's, with the scores (V,) that each was chosen by."""

    logits: Float64
    gradient: Float64
    levels: Float64
    tokens: list[int]
    scores: list[Float64]


def compare(name: str, device: str, frames: int = FRAMES) -> dict[str, dict[str, Any]]:
    """CPU in float32 against the device by dtype, on the same weights of a few layers."""
    dimensions = DIMENSIONS[name]
    _, full, _ = depth_of(dimensions)
    dimensions = {**dimensions, "text": dimensions["text"] | {"vocab_size": 1024}}
    if "vocab_size_per_layer_input" in dimensions["text"]:
        dimensions["text"]["vocab_size_per_layer_input"] = 1024
    torch.manual_seed(0)
    with torch.no_grad():
        lm = build(name, with_depth(dimensions, 2, min(full, 2), 2), "cpu", torch.float32)
        _draw(lm, "cpu")
    reference = _compute(lm, frames)
    found = {}
    for dtype, tolerance in TOLERANCES.items():
        moved = deepcopy(lm.model).to(device=device, dtype=dtype)
        info = replace(lm.info, device=device, dtype=str(dtype))
        again = _compute(type(lm)(moved, lm.processor, info), frames)
        found[str(dtype).removeprefix("torch.")] = difference(reference, again, tolerance)
    return found


def difference(one: Computed, two: Computed, allowed: Tolerance) -> dict[str, Any]:
    """How far `two` is from `one`: relative differences, and what is equal of how many."""
    logits = float(np.abs(one.logits - two.logits).max() / np.abs(one.logits).max())
    slope = float(np.linalg.norm(one.gradient - two.gradient) / np.linalg.norm(one.gradient))
    clear = np.abs(one.gradient) > allowed.gradient * np.abs(one.gradient).max()
    same = one.levels == two.levels
    equal, tied = 0, False
    for a, b, scores in zip(one.tokens, two.tokens, one.scores, strict=False):
        if a != b:
            gap = float((scores[a] - scores[b]) / np.abs(scores[np.isfinite(scores)]).max())
            tied = gap <= allowed.logits
            break
        equal += 1
    whole = equal == len(one.tokens) == len(two.tokens)
    return {
        "logits": logits,
        "gradient": slope,
        "levels": f"{int(same.sum())} of {len(same)}",
        "tokens": f"{equal} of {len(one.tokens)}",
        "holds": bool(
            logits <= allowed.logits
            and slope <= allowed.gradient
            and same[clear].all()
            and (whole or tied)
        ),
    }


def _compute(lm: Backbone, frames: int) -> Computed:
    clip, tracks = sample_clip(frames, SIDE), sample_tracks(frames)
    case = _case(lm, clip, tracks, "normal")
    mask = case.options.mask
    step = case.ascent(mask)[-1]
    levels = case.counterfactual(mask)
    whole = replace(levels, level=np.ones(len(tracks)), frame_level=0 * levels.frame_level)
    others = masked_view(case, whole, mask).states
    rule = Linear(case.options.contrast)
    steps = list(decode(lm, case.base, others, rule, replace(_GREEDY, keep=1024)))
    scores = []
    for one in steps:
        row = np.full(int(case.base.logits.shape[-1]), -np.inf)
        row[one.candidates] = weighted(
            one.base, one.others, rule.weigh(one.base, one.others, one.index), one.candidates
        )
        scores.append(row)
    return Computed(
        to_host(case.base.logits[0]).astype(np.float64),
        np.concatenate([step.gradient, step.frame_gradient]),
        np.concatenate([levels.level, levels.frame_level]),
        [one.token for one in steps],
        scores,
    )


_GREEDY = DecodeOptions(max_tokens=TOKENS)


def with_table(text: str, report: dict[str, Any] | None = None) -> str:
    """The document with the tables of a report between their marks; without one: not run yet."""
    return replaced(text, BEGIN, END, NOT_YET if report is None else _tables(report))


def _tables(report: dict[str, Any]) -> str:
    machine = report["machine"]
    told = (
        f"{machine['name']}, {machine['date']}, torch {machine['torch']}, transformers"
        f" {machine['transformers']}, random weights, {report['frames']}"
        f" frames of {SIDE} × {SIDE}; times are medians of {RUNS} runs after one that is not"
        " measured. Peaks are those of PyTorch's allocator, less what the check itself holds."
    )
    rows = []
    for name, found in report["models"].items():
        if "error" in found:
            rows.append([f"`{name}`", found["error"], "", "", "", ""])
            continue
        macd, stages = found["stages"]["macd"], found["stages"]
        plan = macd.get("planned_peak_gb")
        rows.append([
            f"`{name}`",
            *(f"{one['logits']:.0e}, {one['gradient']:.0e}, {one['levels']}, {one['tokens']}"
              for one in found["agreement"].values()),
            f"{macd['ms']:.0f}",
            f"{stages['decode']['ms_per_token']:.0f}",
            f"{macd['peak_gb']:.1f} GB, {f'{plan:.1f} GB' if plan else '–'}",
        ])  # fmt: skip
    models = table(
        "model | float32: logits, gradient, levels, tokens | bfloat16: the same |"
        " MACD, ms | ms a token | peak, planned", rows,
    )  # fmt: skip
    return "\n\n".join([told, models, gpu_shipped.told(report["shipped"])])


def _case(lm: Backbone, clip: Any, tracks: Any, memory: str) -> MethodContext:
    options = RunOptions(ascent=AscentOptions(memory=memory))  # type: ignore[arg-type]
    return MethodContext(lm, lm.encode(clip, QUESTION), tracks, options)


def _read(lm: Backbone, clip: Any, tracks: Any, memory: str) -> MethodContext:
    """A case whose video was read, and nothing else."""
    case = _case(lm, clip, tracks, memory)
    _ = case.base
    return case


def _step(case: MethodContext) -> AscentStep:
    return case.ascent(case.options.mask)[-1]


def _macd(lm: Backbone, clip: Any, tracks: Any, memory: str) -> ViewBatch:
    """What `core.planning.plan` plans: reading under both views."""
    case = _case(lm, clip, tracks, memory)
    masked = replace(case.counterfactual(case.options.mask), level=np.ones(len(tracks)))
    return ViewBatch(lm, case.base, masked_view(case, masked, case.options.mask).states)


def _draw(lm: Backbone, device: str) -> None:
    """Weights of a size that keeps activations finite through every layer."""
    generator = torch.Generator(device).manual_seed(0)
    for weight in lm.model.parameters():
        if weight.ndim > 1:
            weight.normal_(std=weight[0].numel() ** -0.5 / 2, generator=generator)


def _assert_same_slopes(normal: AscentStep, low: AscentStep) -> None:
    """bfloat16 rounds differently with and without a cache: signs and sizes, not bits."""
    a, b = (np.concatenate([s.gradient, s.frame_gradient]) for s in (normal, low))
    assert np.isfinite(a).all(), "the gradient is not finite"
    assert np.isfinite(b).all(), "the gradient is not finite with low memory"
    assert np.linalg.norm(a - b) <= 0.2 * np.linalg.norm(a), f"low memory differs: {a} and {b}"


def _assert_crop_repeats(lm: Backbone, base: Any, others: Any) -> None:
    pair = ViewBatch(lm, base, others)
    pair.step([5])
    first = pair.video_logits().values
    pair.crop(0)
    pair.step([5])
    again = pair.video_logits().values
    assert np.allclose(first, again, rtol=0.05, atol=0.05), "a cropped cache steps differently"


def _measured(
    lm: Backbone, device: str, call: Callable[..., Any], make: Callable[[], Any] | None = None
) -> tuple[Any, dict[str, Any]]:
    """What a stage gives, its milliseconds, and the peak of the weights and of all it makes.

    make: builds what `call` is given, anew for each run, where a second one would find it cached.
    """
    result: list[Any] = []
    spent: list[float] = []
    peak = 0
    for _ in range(1 + RUNS if device == "cuda" else 1):
        result.clear()
        given = [] if make is None else [make()]
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held, began = torch.cuda.memory_allocated(), time.perf_counter()
            result.append(call(*given))
            torch.cuda.synchronize()
            spent.append(time.perf_counter() - began)
            weights = sum(p.untyped_storage().nbytes() for p in lm.model.parameters())
            peak = torch.cuda.max_memory_allocated() - held + weights
        else:
            began = time.perf_counter()
            peak = peak_bytes(lm.model, lambda: result.append(call(*given)))  # noqa: B023
            spent.append(time.perf_counter() - began)
    median = 1000 * statistics.median(spent[-RUNS:])
    return result[0], {"ms": round(median, 1), "peak_gb": round(peak / 1e9, 3)}


def _machine(device: str) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    return {
        "device": device,
        "name": name or "unknown",
        "torch": torch.__version__.split("+")[0],
        "transformers": version("transformers"),
        "date": datetime.date.today().isoformat(),
    }


def _forget(device: str) -> None:
    if device == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
