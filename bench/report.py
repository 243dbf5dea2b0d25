"""docs/bench.md and docs/bench.svg from the measured figures: `python -m bench.report`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from bench import history
from bench.__main__ import GPU, RESULTS, VLLM, WORKERS
from bench.memory import CASES, key_of
from bench.report_server import server_lines
from macd_studio.core.text.numbers import with_interval

DOCS = Path(__file__).parents[1] / "docs"
Rows = dict[str, str]
TRUE_SIZE = "Qwen2.5-VL-3B at its true size, 8 frames of 280²: counted, not timed"
COUNTED = (
    "FLOPs of the deep model follow exactly from four shallow ones of the true width; a test holds"
    " that against a direct count."
)
DEEP = (
    "Random weights in bfloat16, 8 frames of 280², reading and 32 tokens: `make bench ARGS=deep`."
    " On the CPU one run each, so that differences of a fifth mean nothing; on a GPU"
    " (`make gpu-check`, {}) medians of 5, the least and the largest. Peak memory is the bytes of"
    " tensors that live at once, weights included. Beside it what the paper reports for trained"
    " weights on an A100, with other frames and answers."
)
SLOWER = (
    "Ratios of times that grew by more than a tenth since they were measured before, on a processor"
    " of that name with as many cores: all are in"
    " [bench/results/history.jsonl](../bench/results/history.jsonl)."
)
CHEAPER = (
    "Embedded backbone, 200 drawn clips, true boxes, 95 % interval over clips. By chance alone"
    " about 50 % of objects and, with one of four groups hidden, 62 % of frame groups would agree:"
    " on this model neither approximation can replace the exact gradient."
)
PLAIN = ("_ms", "_s", "_kb", "_mb", "_gb", "_count", "_percent")
"""Ends of the names of figures that are no ratios."""
COARSE = (
    "The same clips and questions, `--dtype bfloat16` beside float32: the embedded backbone's"
    " trained weights, 95 % interval over clips."
)
SAME = {
    "objects": "levels of objects",
    "frames": "levels of frame groups",
    "baseline": "plain answers, every token",
    "macd": "MACD's answers, every token",
}
BARS: dict[str, Rows] = {
    "time over plain decoding": {
        "MACD, 1 step": "e2e_macd1_over_base_t8_cpu",
        "MACD, 3 steps": "e2e_macd3_over_base_cpu",
        "VCD": "e2e_vcd_over_base_cpu",
        "SID": "e2e_sid_over_base_cpu",
        "TCD": "e2e_tcd_over_base_cpu",
    },
    "MACD over plain, by frames": {
        "8": "e2e_macd1_over_base_t8_cpu",
        "16": "e2e_macd1_over_base_t16_cpu",
        "32": "e2e_macd1_over_base_t32_cpu",
    },
    "FLOPs over a prefill, 3B": {
        "MACD, 1 step": "flops_macd1_over_base_3b",
        "MACD, 3 steps": "flops_macd3_over_base_3b",
        "late objects only": "flops_macd1_late_object_over_base_3b",
        "≈ gradient, base": "flops_macd1_base_gradient_over_base_3b",
        "≈ gradient, half": "flops_macd1_half_gradient_over_base_3b",
    },
}
TABLES: dict[str, Rows] = {
    "Time, embedded backbone, CPU: method over plain decoding of the same clip": {
        **{f"{n}, 8 frames: time": k for n, k in BARS["time over plain decoding"].items()},
        "MACD, 1 step, 16 frames: time": "e2e_macd1_over_base_t16_cpu",
        "MACD, 1 step, 32 frames: time": "e2e_macd1_over_base_t32_cpu",
        "a whole run with video, detection and both answers, over video and plain decoding":
            "whole_run_over_plain_decoding_cpu",
        "ascent with 20 objects over 1": "ascent_k20_over_k1_cpu",
        "ascent with low memory over normal": "ascent_low_over_normal_memory_time_cpu",
        "second view that differs in the last quarter of 16 frames, shared over read whole":
            "view_late_object_shared_over_whole_cpu",
        "a token under two views over one": "token2_over_1_cpu",
        "MACD through the universal adapter over the family's own code":
            "e2e_universal_over_own_cpu",
        "SmolVLM2-256M behind the universal adapter: a token under two views over one":
            "universal_token_two_views_over_one",
        "LLaVA-OneVision-0.5B: a view with one of 4 frames masked, the others taken over, over"
        " read whole": "universal_view_shared_over_whole",
        "five methods together over one by one": "compare5_over_separate",
    },
    "Evidence for a token, embedded backbone, CPU, 8 frames": {
        "gradient map over a forward pass: time": "evidence_gradient_over_forward_cpu",
        "gradient map over a forward pass: FLOPs": "evidence_gradient_over_forward_flops",
        "occlusion of 8 objects over 8 forward passes: time":
            "evidence_occlusion8_over_forwards_cpu",
        "what is enough, first bound after, s": "enough_first_bound_s",
        "what is enough, all 256 sets of 8 pieces read after, s": "enough_256_views_s",
        "a second question on a clip, detection and frames kept, over the first":
            "second_question_over_first_cpu",
    },
    "Every choice of objects, embedded backbone, CPU, 8 frames, 6 objects: 64 subsets": {
        "64 subsets read in batches over 64 single views: time": "choices64_over_single_cpu",
        "Qwen2.5-VL, random weights, the same of 4 objects: time": "choices16_over_single_qwen_cpu",
        "the whole map with its answers, s": "choices64_map_s",
    },
    "Peak memory, embedded backbone, CPU: tensors that live at once, weights included": {
        "MACD, 1 step": "memory_macd1_over_base_cpu",
        "MACD, 3 steps": "memory_macd3_over_base_cpu",
        "MACD, 1 step, low memory": "memory_macd1_low_over_base_cpu",
        "VCD": "memory_vcd_over_base_cpu",
        "SID": "memory_sid_over_base_cpu",
        "activations an ascent step keeps, low memory over normal":
            "ascent_low_over_normal_memory_activations",
    },
    TRUE_SIZE: {
        **{f"{n}: FLOPs over the base prefill": k
           for n, k in BARS["FLOPs over a prefill, 3B"].items()},
        "20 objects over one: FLOPs": "flops_k20_over_k1_3b",
    },
    "One run, embedded models, 8 frames of a 4 s clip: milliseconds": {
        "reading the video": "stage_video_ms",
        "detecting": "stage_detect_ms",
        "tracking": "stage_track_ms",
        "encoding": "stage_encode_ms",
        "base prefill": "stage_prefill_ms",
        "ascent": "stage_ascent_ms",
        "second view": "stage_views_ms",
        "a token of an answer": "stage_token_ms",
    },
    "From nothing to the page: a clean clone, empty caches, `make bench ARGS=start`": {
        "the clone with its history, MB": "start_clone_mb",
        "the installed environment, MB": "start_environment_mb",
        "cloning, s": "start_clone_s",
        "installing, s": "start_install_s",
        "`make run` after it, until the page answers, s": "start_serve_s",
        "all of it, s": "start_whole_s",
    },
    "Reading and the page": {
        "16 frames of a 20 s 720p clip, over plain sequential PyAV": "decode16_over_pyav",
        "trace file of 8 frames, kB": "trace_kb_8_frames",
        "first paint, warm, s": "page_load_to_paint_s",
        "page with everything that the first view loads, kB": "page_load_total_kb",
        "the model in the browser, loaded by the first change, compressed, MB":
            "browser_download_mb",
        "scrubbing, from script to paint, ms": "page_scrub_paint_ms",
        "moving α or β, from script to paint, ms": "page_rescore_paint_ms",
        "the same with an evidence map, ms": "page_rescore_heat_paint_ms",
        "click to the first boxes, s": "page_boxes_s",
        "click to the whole trace, s": "page_full_trace_s",
        "a real clip of 12 s with YOLO11n, click to the first boxes, s": "real_clip_first_boxes_s",
        "a real clip of 12 s with YOLO11n, click to the masks (no answer), s": "real_clip_full_s",
        "a run's time as the page estimates it once the clip is read, off by, median, %":
            "estimate_off_median_percent",
        "the same, the most, %": "estimate_off_most_percent",
        "detection over ultralytics' own batched predict": "detect_over_ultralytics",
        "the same, ultralytics with as many threads": "detect_over_ultralytics_same_threads",
        "first paint of the course with the model in the page, over without it":
            "browser_course_first_paint_over_without",
    },
}  # fmt: skip
COLUMNS: dict[str, tuple[Sequence[str], Mapping[str, Sequence[str]]]] = {
    "A process on the CPU, models of true size with random weights, 8 frames": (
        ("run", "GB", "over what is planned", "s to the first token", "time over float32"),
        {
            f"{name.partition('/')[2]}, {kind.replace('_', ' ')}, {dtype}": [
                f"{key_of(name, kind, dtype)}_{end}" for end in ("gb", "over_planned", "s")
            ] + [
                f"{key_of(name, kind, dtype)}_over_float32"
                if dtype == "bfloat16" and (name, kind, "float32") in CASES else ""
            ]
            for name, kind, dtype in CASES
        },
    ),
    "Changes that headless Chromium computes by WebAssembly; WebGPU was not tried": (
        ("what", "two threads (COOP and COEP headers)", "one thread (a plain file server)"),
        {
            what: [f"browser_{name}_{key}" for name in ("two_threads", "one_thread")]
            for what, key in {
                "first change with loading, s": "first_s",
                "a level, ms": "change_ms",
                "a change with an ascent, ms": "gradient_ms",
                "first change of the next visit, s": "next_visit_s",
                "memory that all of it takes, MB": "memory_mb",
            }.items()
        },
    ),
}  # fmt: skip
"""Tables of more than one figure a row: their heads, and the figures; "" where there is none."""
WHOLE: Rows = {
    "MACD, 1 step: time": "e2e_macd1_over_base_3b",
    "MACD, 3 steps: time": "e2e_macd3_over_base_3b",
    "MACD, 1 step, 20 objects: time": "e2e_macd1_k20_over_base_3b",
    "MACD, 1 step, low memory: time": "e2e_macd1_low_memory_over_base_3b",
    "≈ gradient, base: time": "e2e_macd1_base_gradient_over_base_3b",
    "≈ gradient, half: time": "e2e_macd1_half_gradient_over_base_3b",
    "late objects only: time": "e2e_macd1_late_object_over_base_3b",
    "a token under two views over one": "token2_over_1_3b",
    "MACD, 1 step: peak memory": "memory_macd1_over_base_3b",
    "MACD, 1 step, low memory: peak memory": "memory_macd1_low_memory_over_base_3b",
}
LAZY = (
    "`make bench ARGS=lazy`: every regime of the drawn benchmark, the processor's time of one"
    " thread. Open: questions with a token that a contrast could change. The bound is 1 + open"
    " share × (MACD over plain − 1) + 0.05."
)
LAZY_RATIOS = {"options": "short answers", "captions": "captions"}


def lazy_lines(figures: dict[str, Any]) -> list[str]:
    """The section on lazy runs; figures: what `bench.lazy` measured, if it did."""
    lines = ["", "## Lazy runs over plain decoding", ""]
    if "lazy_answers" not in figures:
        return [*lines, "not measured"]
    answers, equal = int(figures["lazy_answers"]), int(figures["lazy_equal_answers"])
    lines += [
        f"{LAZY} {int(figures['lazy_questions'])} questions; weights"
        f" `{figures['lazy_weights']}`. Equal tokens in {equal} of {answers} answers by MACD and"
        " VCD at several α and β, greedy and sampled; ties among the others:"
        f" {int(figures['lazy_ties'])}. Where contrast was needed, a lazy run took"
        f" {_shown(figures, 'lazy_over_full_where_open')} of the time of a complete one (median).",
        "",
        "| MACD, 1 step, α 1, β 0.1 | questions open | complete | lazy | bound |",
        "|---|---|---|---|---|",
    ]
    for name, title in LAZY_RATIOS.items():
        for key, what in (("", "decoding alone"), ("run_", "with reading and detection")):
            cells = (f"full_macd1_{key}over_base", f"lazy_macd1_{key}over_base",
                     f"lazy_macd1_{key}bound")  # fmt: skip
            shown = " | ".join(_shown(figures, f"{cell}_{name}") for cell in cells)
            open_share = 100 * float(figures.get(f"lazy_open_share_{name}", float("nan")))
            lines.append(f"| {title}, {what} | {open_share:.1f} % | {shown} |")
    return [*lines, "", "![Open share, cost and accuracy by β](lazy.svg)"]


def lazy_sweep(figures: dict[str, Any]) -> dict[float, dict[str, float]]:
    """β → what was measured there: open, tokens, reads, right."""
    found: dict[float, dict[str, float]] = {}
    for key, value in figures.items():
        if key.startswith("lazy_beta_"):
            beta, name = key.removeprefix("lazy_beta_").split("_")
            found.setdefault(float(beta), {})[name] = value
    return dict(sorted(found.items()))


def draw_lazy(figures: dict[str, Any]) -> None:
    """docs/lazy.svg: shares and accuracy, and the cost in prompts read, over β."""
    sweep = lazy_sweep(figures)
    if not sweep:
        return
    betas = list(sweep)
    shares = {"questions open": "open", "tokens open": "tokens", "right answers": "right"}
    with plt.rc_context({"svg.hashsalt": "macd", "svg.fonttype": "none", "font.size": 9}):
        fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
        styles = (("#0072B2", "-", "o"), ("#56B4E9", "--", "s"), ("#009E73", ":", "^"))
        for (label, key), (colour, line, mark) in zip(shares.items(), styles, strict=True):
            values = [100 * sweep[beta][key] for beta in betas]
            ax.plot(betas, values, line, color=colour, marker=mark, label=f"{label}, %")
        cost = ax.twinx()
        reads = [sweep[beta]["reads"] for beta in betas]
        cost.plot(betas, reads, "-.", color="#D55E00", marker="d", label="prompts read (right)")
        ax.set_xscale("log")
        ax.set_xticks(betas, [f"{beta:g}" for beta in betas])
        ax.minorticks_off()
        ax.set_xlabel("β, the plausibility cut (MACD, 1 step, α 1)")
        ax.set_ylim(0, 102)
        cost.set_ylim(0, 4.08)
        handles = [h for one in (ax, cost) for h in one.get_legend_handles_labels()[0]]
        fig.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
        fig.savefig(DOCS / "lazy.svg", metadata={"Date": None})
        plt.close(fig)


PAPER = {
    "MACD, 1 step: time": "1.36×",
    "MACD, 3 steps: time": "1.53×",
    "MACD, 1 step: peak memory": "1.62×",
}


def workers_lines(figures: dict[str, Any] | None) -> list[str]:
    """The section on workers; figures: what `bench.workers` wrote, None where it did not run."""
    lines = ["", "## Evaluation: workers and sharing", ""]
    if figures is None:
        return [*lines, "not measured"]
    at = figures["machine"]
    lines += [
        f"`python -m bench.workers`: {figures['questions']} questions on {figures['clips']} drawn"
        " clips, answered by baseline, VCD, MACD and with every object masked, embedded models,"
        f" {figures['threads']} thread a worker, medians of {figures['runs']} runs in turn, on"
        f" {at['cores']} cores of an {at['processor']}, {at['date']}.",
        "",
        "| what | figure |",
        "|---|---|",
    ]
    rows = {
        "two workers on Ray over one, each on a core of its own": figures["two_over_one"],
        "two workers on Ray over one, free to use all cores": figures["two_over_one_any_core"],
        "four methods together over one by one, questions a second": figures["sharing"],
    }
    return lines + [
        f"| {name} | {'not measured' if value is None else f'{value:.2f}×'} |"
        for name, value in rows.items()
    ]


def page(
    figures: dict[str, Any],
    workers: dict[str, Any] | None = None,
    server: dict[str, Any] | None = None,
    gpu: dict[str, Any] | None = None,
) -> str:
    """The figures as Markdown; a figure that was not measured says so."""
    machine, last = figures["machine"], ", ".join(figures.get("last", ["nothing"]))
    lines = [
        "# What is measured",
        "",
        f"`make bench`, medians of runs taken in turn, on {machine['cores']} cores of an"
        f" {machine['processor']}, Python {machine['python']}, {machine['date']}. Ratios carry"
        " further than times; every figure is in"
        " [bench/results/latest.json](../bench/results/latest.json).",
        "",
        f"On that day: {last}; the other parts earlier. Hosts of one kind are"
        " not equally fast: re-scoring 64 tokens of 512 candidates took 7.0 ms on one and 3.5 ms on"
        " another, so only times of one part may be held against each other.",
        "",
        "![Time and FLOPs as ratios](bench.svg)",
    ]
    lines += ["", "## Slower than at the last measurement", "", SLOWER, "", history.table()]
    for title, rows in TABLES.items():
        lines += ["", f"## {title}", "", "| what | figure |", "|---|---|"]
        lines += [f"| {name} | {_shown(figures, key)} |" for name, key in rows.items()]
        lines += ["", COUNTED] if title == TRUE_SIZE else []
    for title, (heads, table) in COLUMNS.items():
        lines += ["", f"## {title}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for name, keys in table.items():
            row = [_shown(figures, key) if key else "–" for key in keys]
            lines.append(f"| {name} | {' | '.join(row)} |")
    lines += lazy_lines(figures)
    lines += workers_lines(workers)
    lines += server_lines(server)
    lines += ["", "## How often a cheaper gradient leads to the same level", "", CHEAPER]
    lines += ["", "| gradient | objects | frame groups |", "|---|---|---|"]
    for kind, name in (("base", "on the plain video"), ("half", "on frames of half the size")):
        cells = [_share(figures, f"agreement_{kind}_{what}") for what in ("objects", "frames")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "## bfloat16 on a CPU over float32", "", COARSE]
    lines += ["", "| the same | share |", "|---|---|"]
    lines += [f"| {name} | {_share(figures, f'agreement_bfloat16_{what}')} |"
              for what, name in SAME.items()]  # fmt: skip
    there = gpu.get("deep", []) if gpu else []
    told = "not measured"
    if gpu and there:
        told = f"{gpu['machine']['name']}, {gpu['machine']['date']}, {len(there)} runs of it"
    lines += ["", "## Qwen2.5-VL-3B, the whole of it, over plain decoding", "", DEEP.format(told)]
    lines += ["", "| what | on the CPU | on a GPU | paper |", "|---|---|---|---|"]
    for name, key in WHOLE.items():
        on_gpu = f"{key.removesuffix('_3b')}_gpu"
        ends = sorted(there, key=lambda one: float(one[on_gpu]))[:: max(1, len(there) - 1)]
        shown = dict.fromkeys(_shown(one, on_gpu) for one in ends or [{}])
        cells = [_shown(figures, f"{key}_cpu"), " to ".join(shown)]
        lines.append(f"| {name} | {' | '.join(cells)} | {PAPER.get(name, '–')} |")
    return "\n".join([*lines, ""])


def _shown(figures: dict[str, Any], key: str) -> str:
    if key not in figures:
        return "not measured"
    plain = key.endswith(PLAIN) or key.startswith("trace_kb")
    value = float(figures[key])
    if plain:
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    return f"{value:.2f}×"


def _share(figures: dict[str, Any], key: str) -> str:
    if key not in figures:
        return "not measured"
    ends = [figures[k] for k in (key, f"{key}_low", f"{key}_high")]
    return with_interval(ends, ".0f", unit=" %")


def draw(figures: dict[str, Any]) -> None:
    """One bar a ratio, the number at its end, a line at 1."""
    machine = figures["machine"]
    with plt.rc_context({"svg.hashsalt": "macd", "svg.fonttype": "none", "font.size": 9}):
        fig, axes = plt.subplots(1, len(BARS), figsize=(11, 2.4), layout="constrained")
        for ax, (title, keys) in zip(axes, BARS.items(), strict=True):
            names = [n for n, key in keys.items() if key in figures]
            values = [figures[keys[n]] for n in names]
            ax.barh(names, values, color="#56B4E9")
            for y, value in enumerate(values):
                ax.text(value, y, f" {value:.2f}×", va="center")
            ax.axvline(1, color="#555555", lw=0.8)
            ax.set_xlim(0, 1.3 * max([*values, 1]))
            ax.invert_yaxis()
            ax.set_title(title, fontsize=9, loc="left")
            ax.spines[["top", "right"]].set_visible(False)
        where = f"{machine['cores']} cores of {machine['processor']}"
        fig.supxlabel(f"times: embedded backbone, {where}; FLOPs: Qwen2.5-VL-3B, counted")
        fig.savefig(DOCS / "bench.svg", metadata={"Date": None})
        plt.close(fig)


def main() -> None:
    """Writes both."""
    figures = json.loads(RESULTS.read_text())
    draw(figures)
    draw_lazy(figures)
    others = [json.loads(f.read_text()) if f.exists() else None for f in (WORKERS, VLLM, GPU)]
    (DOCS / "bench.md").write_text(page(figures, *others), encoding="utf-8")


if __name__ == "__main__":
    main()
