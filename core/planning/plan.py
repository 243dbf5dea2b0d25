"""What a listed backbone takes, known before anything is downloaded: parameters, FLOPs, memory.

The pipeline's own passes run at the true dimensions on tensors without values
(`core.planning.dry_run`), in bfloat16, the embedded backbone in float32. A peak is the bytes of all
tensors that live at once, weights included; the context of the driver and what the allocator wastes
are added in `fits` only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from macd_studio.core.backbones.dimensions import DIMENSIONS, Dimensions, dimensions_in
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.load import adapter_of, load_backbone
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.backbones.random_weights import build, depth_of, with_depth
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.backbones.weights import held_bytes, quantisable
from macd_studio.core.backbones.weights_options import Weights
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, PlanOptions, RunOptions
from macd_studio.core.planning.dry_run import dry_run, tensors_in
from macd_studio.core.run.order import decoding_views
from macd_studio.core.system.cost import AliveBytes
from macd_studio.core.system.machine import free_gb
from macd_studio.core.types import SEEN, Clip, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import masked_view

QUESTION = "What is in the video?"
SIDE, FRAMES = 280, 8
GPUS_GB = (8, 12, 16, 24, 48, 80)
CONTEXT_GB, WASTE = 0.5, 1.05
"""What the driver keeps for itself, and how much more than it needs an allocator holds."""
BY_READING = AscentOptions(gradient="difference")
READS_AN_OBJECT = BY_READING.reads(1, 0) - BY_READING.reads(0, 0)
KINDS = ("baseline", "macd", "macd_low_memory", "vcd")
QUANTISED: tuple[Weights, ...] = ("int8", "nf4")


class Peaks(TypedDict):
    """GB by kind of run. fits: for each size of GPU in GB, which kinds of run fit it."""

    baseline_peak_gb: float
    macd_peak_gb: float
    macd_low_memory_peak_gb: float
    vcd_peak_gb: float
    fits: dict[str, dict[str, bool]]


class Held(Peaks):
    """With quantised weights. packed_gb: of them, what is 8 or 4 bits a number."""

    weights_gb: float
    packed_gb: float


class Plan(Peaks):
    """Sizes in 10⁹ bytes, FLOPs in 10¹². frame_size: (H, W) that the model sees.

    parameters: how many weights. reads: of the video for one step by reading alone, with the two
    objects of the plan and a frame mask.
    held: the same by QUANTISED, with activations in the dtype of the unquantised model.
    """

    backbone: str
    frames: int
    frame_size: tuple[int, int]
    steps: int
    reads: int
    prompt_tokens: int
    parameters: int
    weights_gb: float
    prefill_tflops: float
    macd_tflops: float
    held: dict[str, Held]


def plan(
    name: str = "toyworld", frames: int = FRAMES, frame_size: int = SIDE, steps: int = 1
) -> Plan:
    """Plans a listed backbone, the one of a folder, or "toyworld"; takes seconds, little memory.

    frame_size: side of the square frames in pixels, rounded to what the family can; InternVL and
    SmolVLM see frames of one size only. A pass costs a part that depends on no depth, and the same
    for every further layer of a kind, so a few shallow models determine the deep one. Raises
    BackboneNotFound or UnsupportedBackbone for one that cannot be planned, and OptionError for a
    number out of range.
    """
    PlanOptions(frames, frame_size, steps)  # raises where one is out of range
    clip = sample_clip(frames, frame_size)
    if name == "toyworld":
        return _plan(name, _weigh(_embedded, clip, steps), frames, steps)
    if Path(name).is_dir():
        return _plan(name, _extrapolate(name, dimensions_in(name), clip, steps), frames, steps)
    if name not in DIMENSIONS:
        raise UnsupportedBackbone(
            f"the dimensions of {name!r} are not known here",
            "Choose a folder with the model's config.json, or one of"
            f" {', '.join(['toyworld', *DIMENSIONS])}",
        )
    return _plan(name, _extrapolate(name, DIMENSIONS[name], clip, steps), frames, steps)


def _plan(name: str, counts: _Counts, frames: int, steps: int) -> Plan:
    peaks = {kind: counts["weights"] + counts[f"{kind} bytes"] for kind in KINDS}
    return Plan(
        backbone=name,
        frames=frames,
        frame_size=(round(counts["height"]), round(counts["width"])),
        steps=steps,
        reads=BY_READING.reads(len(sample_tracks(frames)), round(counts["groups"])),
        prompt_tokens=round(counts["tokens"]),
        parameters=round(counts["parameters"]),
        weights_gb=round(counts["weights"] / 1e9, 3),
        **_peaks(peaks),
        prefill_tflops=round(counts["baseline flops"] / 1e12, 3),
        macd_tflops=round(counts["macd flops"] / 1e12, 3),
        held={weights: _held(counts, weights) for weights in QUANTISED},
    )


def _peaks(peaks: dict[str, float]) -> Peaks:
    """Bytes by kind → the fields of a plan that follow."""
    by_kind: Any = {f"{kind}_peak_gb": round(peaks[kind] / 1e9, 3) for kind in KINDS}
    fits = {
        str(size): {kind: peaks[kind] / 1e9 * WASTE + CONTEXT_GB <= size for kind in KINDS}
        for size in GPUS_GB
    }
    made: Peaks = by_kind | {"fits": fits}
    return made


def _held(counts: _Counts, weights: str) -> Held:
    """A pass holds one unpacked matrix of nf4; of int8 its inputs stay for the way back."""
    packed, plain = counts[f"{weights} packed"], counts[f"{weights} plain"]
    peaks = {kind: packed + plain + counts[f"{kind} bytes"] for kind in KINDS}
    if weights == "nf4":
        peaks = {kind: value + counts["largest"] for kind, value in peaks.items()}
    else:
        peaks["macd"] += counts["inputs"]
    return Held(
        weights_gb=round((packed + plain) / 1e9, 3),
        packed_gb=round(packed / 1e9, 3),
        **_peaks(peaks),
    )


class LazyCost(TypedDict):
    """FLOPs in 10¹² of a lazy run of MACD, docs/methods.md, up to the first token's logits.

    nothing_open: no token could change by contrast. everything_open: a token of every question
    could. expected: the mean over questions of which open_share are open; both None where no share
    was given.
    """

    nothing_open: float
    everything_open: float
    open_share: float | None
    expected: float | None


def lazy_cost(estimate: Plan, open_share: float | None = None) -> LazyCost:
    """The range of a lazy run. open_share: of questions, [0, 1]; `evals run` reports it."""
    least, most = estimate["prefill_tflops"], estimate["macd_tflops"]
    expected = None if open_share is None else round(least + open_share * (most - least), 6)
    return LazyCost(
        nothing_open=least, everything_open=most, open_share=open_share, expected=expected
    )


def describe(estimate: Plan, open_share: float | None = None) -> str:
    """A plan for people, in lines. open_share: see `lazy_cost`."""
    height, width = estimate["frame_size"]
    by_reading = estimate["prefill_tflops"] * (2 + estimate["reads"] * estimate["steps"])
    lines = [
        f"{estimate['backbone']}: {_short(estimate['parameters'] / 1e9)} B parameters,"
        f" {_short(estimate['weights_gb'])} GB of weights",
        f"{estimate['frames']} frames of {width} × {height}, {estimate['prompt_tokens']} tokens,"
        f" {_short(estimate['prefill_tflops'])} TFLOPs to read them;"
        f" MACD with {estimate['steps']} ascent step(s) {_short(estimate['macd_tflops'])} TFLOPs",
        f"by reading alone (--gradient difference): {estimate['reads']} readings a step with"
        f" {len(sample_tracks(1))} objects, {READS_AN_OBJECT} more for each further one; about"
        f" {_short(by_reading)} TFLOPs",
        _lazy_line(lazy_cost(estimate, open_share)),
    ]
    for weights, one in (("as-is", estimate), *estimate["held"].items()):
        lines += ["", f"{f'peak memory, {weights}':<22}{'GB':>8}   fits a GPU of, GB"]
        for kind in KINDS:
            peak = one[f"{kind}_peak_gb"]  # type: ignore[literal-required]
            fitting = [size for size, kinds in one["fits"].items() if kinds[kind]]
            title = kind.replace("_", " ")
            lines.append(f"{title:<22}{peak:>8.2f}   {', '.join(fitting) or 'none of them'}")
    return "\n".join(lines)


def _lazy_line(cost: LazyCost) -> str:
    least, most = cost["nothing_open"], cost["everything_open"]
    line = (
        f"lazy: {_short(least)} TFLOPs where no token is open to contrast, {_short(most)} where one"
        f" is{f' ({most / least:.2f}×)' if least else ''}"
    )
    if cost["expected"] is None or cost["open_share"] is None:
        return f"{line}; --open-share gives the mean"
    return (
        f"{line}; with {100 * cost['open_share']:g} % of the questions open"
        f" {_short(cost['expected'])} ({cost['expected'] / least:.2f}×) on average"
    )


def _short(value: float) -> str:
    """Two decimals, of small figures two digits.

    >>> _short(8.287), _short(0.00734)
    ('8.29', '0.0073')
    """
    return f"{value:.2f}" if value >= 0.1 or not value else f"{value:.2g}"


# how it is counted

_Counts = dict[str, float]


def _extrapolate(name: str, dimensions: Dimensions, clip: Clip, steps: int) -> _Counts:
    """Every count is linear in the layers of each kind."""
    target = depth_of(dimensions)
    grouped, windowed = "group" in dimensions, "fullatt_block_indexes" in dimensions["vision"]
    full = min(1, target[1]) if grouped or windowed else target[1]
    start = (2, full, 1 if grouped else max(3, target[1]))

    def weigh(depth: tuple[int, int, int]) -> _Counts:
        shallow = with_depth(dimensions, *depth)
        return _weigh(lambda: build(name, shallow, "meta", torch.bfloat16), clip, steps)

    first = weigh(start)
    total = dict(first)
    for kind, (have, want) in enumerate(zip(start, target, strict=True)):
        if have != want:
            deeper = weigh((*start[:kind], have + 1, *start[kind + 1 :]))  # type: ignore[arg-type]
            for key, value in deeper.items():
                total[key] += (want - have) * (value - first[key])
    return total


def _weigh(make: Callable[[], HfVideoLM | UniversalVLM], clip: Clip, steps: int) -> _Counts:
    """Counts of one model, everything at its own depth."""
    with dry_run("meta") as device:
        lm = make()
        parameters = list(lm.model.parameters())
        encoded = lm.encode(clip, QUESTION)
        counts: _Counts = {
            "parameters": sum(p.numel() for p in parameters),
            "weights": sum(p.untyped_storage().nbytes() for p in parameters),
            "tokens": encoded.input_ids.shape[1],
            "groups": len(encoded.groups),
            "height": encoded.video.shape[2],
            "width": encoded.video.shape[3],
        }
        del encoded
        matrices = quantisable(lm.model)
        itemsize = lm.model.dtype.itemsize
        for weights in QUANTISED:
            held = held_bytes(lm.model, itemsize, weights)
            counts |= {f"{weights} packed": held.packed, f"{weights} plain": held.plain}
        counts["largest"] = max(m.weight.numel() for m in matrices.values()) * itemsize
        for kind in KINDS:
            meter = _Meter()
            device.watch = meter.see
            try:
                with _inputs_kept(matrices.values()) as inputs:
                    read_once(kind, lm, clip, steps)
            finally:
                device.watch = None
            counts |= {f"{kind} bytes": meter.alive.peak, f"{kind} flops": meter.flops}
            if kind == "macd":
                counts["inputs"] = sum(inputs) / steps
    return counts


@contextmanager
def _inputs_kept(matrices: Iterable[nn.Module]) -> Iterator[list[int]]:
    """While inside, the list grows by the bytes that each matrix reads on a way that is gone back.

    An unquantised layer whose weights are frozen keeps nothing of it.
    """
    sizes: list[int] = []

    def note(_: Any, inputs: tuple[Tensor, ...]) -> None:
        if torch.is_grad_enabled() and inputs[0].requires_grad:
            sizes.append(inputs[0].numel() * inputs[0].element_size())

    handles = [m.register_forward_pre_hook(note) for m in matrices]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()


def read_once(kind: str, lm: LocalLM, clip: Clip, steps: int) -> None:
    """Reads one clip as a kind of run does, up to the first token's logits."""
    options = RunOptions(
        ascent=AscentOptions(steps=steps, memory="low" if kind == "macd_low_memory" else "normal")
    )
    encoded = lm.encode(clip, QUESTION)
    context = MethodContext(lm, encoded, sample_tracks(len(clip.frames)), options)
    if kind == "baseline":
        ViewBatch(lm, context.base, [])
    elif kind == "vcd":
        views = decoding_views(context, METHODS["vcd"])
        ViewBatch(lm, views.base, views.others)
    else:
        counterfactual = context.counterfactual(options.mask)
        # an object that is left alone would make the view cheaper
        masked = replace(counterfactual, level=np.ones(len(context.tracks)))
        ViewBatch(lm, context.base, masked_view(context, masked, options.mask).states)


def _embedded() -> HfVideoLM:
    lm = load_backbone("toyworld", "cpu")
    assert isinstance(lm, HfVideoLM)
    model = lm.model.to("meta")
    model.tie_weights()  # moving to fake tensors makes two of the one table
    return adapter_of(lm.info.family)(model, lm.processor, lm.info)


def sample_clip(frames: int, side: int) -> Clip:
    """A random clip of square frames, one per second."""
    pictures = np.random.default_rng(0).integers(0, 256, (frames, side, side, 3), dtype=np.uint8)
    times = np.arange(frames, dtype=np.float64) + 0.5
    none = np.zeros((0, side, side, 3), np.uint8)
    return Clip(pictures, times, none, np.zeros(0), "", "0" * 64, float(frames), (side, side))


def sample_tracks(frames: int) -> tuple[Track, ...]:
    """Two still objects, of a sixteenth of the frame each."""
    state = np.full(frames, SEEN, np.int8)
    boxes = np.array([[0.1, 0.1, 0.35, 0.35], [0.6, 0.5, 0.85, 0.75]], np.float32)
    return tuple(
        Track(k + 1, "object", 0.9, np.tile(box, (frames, 1)), state, frames)
        for k, box in enumerate(boxes)
    )


class _Meter:
    """Counts FLOPs, and the bytes of every tensor from the operation that makes it on."""

    def __init__(self) -> None:
        self.alive, self.flops = AliveBytes(), 0

    def see(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """Takes one operation into account."""
        self.flops += _flops(func, args, kwargs, out)
        input_storages = {t.untyped_storage()._cdata for t in tensors_in(args, kwargs)}
        for tensor in tensors_in(out):
            if tensor.untyped_storage()._cdata not in input_storages:
                self.alive.add(tensor)


def _flops(func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> int:
    packet = func.overloadpacket
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    way_back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    if packet is attention:
        query, key, value = (_of_heads(z, args[0].shape[1]) for z in args[:3])
        return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]
    if packet is way_back:
        slope, query, key, value = (_of_heads(z, args[1].shape[1]) for z in args[:4])
        return int(sdpa_backward_flop_count(slope, query, key, value))  # type: ignore[no-untyped-call]
    count = flop_registry.get(packet)
    return int(count(*args, **kwargs, out_val=out)) if count else 0


def _of_heads(tensor: Tensor, heads: int) -> tuple[int, ...]:
    """The shape with as many heads as the queries have; keys are shared by several."""
    batch, _, length, width = tensor.shape
    return batch, heads, length, width


# what a plan means on this machine's CPU: memory of the process, and the least time

OWN_GB = 0.8
"""What the process holds besides tensors: Python, torch and transformers, once imported."""
MATRIX, TRIED_S = 1024, 0.3
"""Side of the matrices whose products are timed, and for how long."""
CpuDtype = Literal["float32", "bfloat16"]


def on_cpu(estimate: Plan, dtype: CpuDtype = "float32") -> dict[str, float]:
    """GB that a process of the command line takes at most, by kind of run.

    The bytes of all tensors that live at once, in that dtype, and OWN_GB. `python -m bench memory`
    holds it against processes with random weights.
    """
    planned = 4 if estimate["backbone"] == "toyworld" else 2
    scale = getattr(torch, dtype).itemsize / planned
    return {
        kind: round(estimate[f"{kind}_peak_gb"] * scale + OWN_GB, 3)  # type: ignore[literal-required]
        for kind in KINDS
    }


def tflops_a_second(dtype: CpuDtype = "float32") -> float:
    """What this process's threads compute in products of matrices, 10¹² operations a second.

    The best of several within TRIED_S seconds, so that another program's work counts less.
    """
    one = torch.ones(MATRIX, MATRIX, dtype=getattr(torch, dtype))
    best, until = float("inf"), time.perf_counter() + TRIED_S
    with torch.inference_mode():
        while best == float("inf") or time.perf_counter() < until:
            began = time.perf_counter()
            one @ one
            best = min(best, time.perf_counter() - began)
    return 2 * MATRIX**3 / best / 1e12


def describe_on_cpu(estimate: Plan, rate: float, dtype: CpuDtype = "float32") -> str:
    """For people, in lines. rate: see `tflops_a_second`.

    Every operation of a run at the rate of a large product of matrices is the least that it can
    take; a run spends more.
    """
    tflops = {"baseline": estimate["prefill_tflops"], "macd": estimate["macd_tflops"]}
    free = free_gb(torch.device("cpu"))
    lines = [
        f"on this CPU, {dtype}, {torch.get_num_threads()} threads, at most {1e3 * rate:.0f}"
        f" GFLOPs a second{'' if free is None else f', {free:.1f} GB free'}",
        f"{'memory of the process':<22}{'GB':>8}   s to the first token, at least",
    ]
    for kind, held in on_cpu(estimate, dtype).items():
        least = f"{tflops[kind] / rate:.3g}" if kind in tflops else ""
        lines.append(f"{kind.replace('_', ' '):<22}{held:>8.2f}   {least}".rstrip())
    return "\n".join(lines)
