"""docs/bench.md from the measured figures: `python -m bench.report`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.__main__ import GPU, RESULTS, VLLM, WORKERS
from bench.lazy import BETAS
from bench.markdown import table
from bench.memory import CASES, key_of
from macd_studio.core.text.numbers import with_interval

DOCS = Path(__file__).parents[1] / "docs"
Rows = dict[str, str]
TRUE_SIZE = "Qwen2.5-VL-3B at its true size, 8 frames of 280²: counted, not timed"
COUNTED = (
    "FLOPs of the deep model follow exactly from four shallow ones of the true width; a test holds"
    " that against a direct count."
)
DEEP = (
    "Random weights in bfloat16, 8 frames of 280², prefill and 32 tokens. On the CPU"
    " (`make bench ARGS=deep`) one run each, so differences of a fifth mean nothing; on a GPU"
    " (`make gpu-check`, {}) the least and the largest median of 5. Peak memory as above. The"
    " paper: trained weights on an A100, other frames and answers."
)
SLOWER = (
    "Ratios of times that grew by more than a tenth when they were measured again, on the same"
    " processor and number of cores."
)
CHEAPER = (
    "Embedded backbone, 200 drawn clips, true boxes, 95 % interval over clips. By chance about 50 %"
    " of objects and, with one of four groups hidden, 62 % of frame groups agree: here neither"
    " approximation can replace the exact gradient."
)
PLAIN = ("_ms", "_s", "_kb", "_mb", "_gb", "_count", "_percent")
"""Ends of the names of figures that are no ratios."""
COARSE = (
    "The same clips and questions, `--dtype bfloat16` against float32, embedded backbone, 95 %"
    " interval over clips."
)
SAME = {
    "objects": "levels of objects",
    "frames": "levels of frame groups",
    "baseline": "plain answers, every token",
    "macd": "MACD's answers, every token",
}
TIMES = {
    "MACD, 1 step": "e2e_macd1_over_base_t8_cpu",
    "MACD, 3 steps": "e2e_macd3_over_base_cpu",
    "VCD": "e2e_vcd_over_base_cpu",
    "SID": "e2e_sid_over_base_cpu",
    "TCD": "e2e_tcd_over_base_cpu",
}
FLOPS = {
    "MACD, 1 step": "flops_macd1_over_base_3b",
    "MACD, 3 steps": "flops_macd3_over_base_3b",
    "late objects only": "flops_macd1_late_object_over_base_3b",
    "≈ gradient, base": "flops_macd1_base_gradient_over_base_3b",
    "≈ gradient, half": "flops_macd1_half_gradient_over_base_3b",
}
TABLES: dict[str, Rows] = {
    "Time, embedded backbone, CPU: method over plain decoding of the same clip": {
        **{f"{n}, 8 frames: time": k for n, k in TIMES.items()},
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
        **{f"{n}: FLOPs over the base prefill": k for n, k in FLOPS.items()},
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
        "the first command that computes a trace, once the page has answered, s":
            "start_first_trace_s",
        "the same command again, s": "start_next_trace_s",
    },
    "Reading and the page": {
        "trace file of 8 frames, kB": "trace_kb_8_frames",
        "first paint, warm, s": "page_load_to_paint_s",
        "page with everything that the first view loads, kB": "page_load_total_kb",
        "the model in the browser, loaded by the first change, compressed, MB":
            "browser_download_mb",
        "scrubbing, from script to paint, ms": "page_scrub_paint_ms",
        "moving α or β, from script to paint, ms": "page_rescore_paint_ms",
        "click to the first boxes, s": "page_boxes_s",
        "click to the whole trace, s": "page_full_trace_s",
        "a real clip of 12 s with YOLO11n, click to the first boxes, s": "real_clip_first_boxes_s",
        "a real clip of 12 s with YOLO11n, click to the masks (no answer), s": "real_clip_full_s",
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
    "`make bench ARGS=lazy`: every regime of the drawn benchmark, processor time of one thread."
    " Open: with a token that a contrast could change. Bound: 1 + open share × (MACD over plain −"
    " 1) + 0.05."
)
LAZY_RATIOS = {"options": "short answers", "captions": "captions"}
UNKNOWN = "not measured"
PAPER = {
    "MACD, 1 step: time": "1.36×",
    "MACD, 3 steps: time": "1.53×",
    "MACD, 1 step: peak memory": "1.62×",
}
SERVER = (
    "`make vllm-check`, as in [remote.md](remote.md#measured); models other than the embedded one"
    " are tiny, of random weights. All figures:"
    " [bench/results/vllm.json](../bench/results/vllm.json)."
)
OFF = (
    "log p: largest difference of log-probabilities within 3 nats of the best, for the same pixels"
    " (in the common way rounded to 8 bits here, too), and against unrounded frames. Same sign: of"
    " the decided slopes, those with the sign of the exact gradient."
)
Figures = dict[str, Any]


def _section(title: str, *parts: str) -> list[str]:
    """A heading, then the parts with empty lines between."""
    return [line for part in (f"## {title}", *parts) for line in ("", part)]


def lazy_lines(figures: Figures) -> list[str]:
    """The section on lazy runs; figures: what `bench.lazy` measured, if it did."""
    title = "Lazy runs over plain decoding"
    if "lazy_answers" not in figures:
        return _section(title, UNKNOWN)
    answers, equal = int(figures["lazy_answers"]), int(figures["lazy_equal_answers"])
    told = (
        f"{LAZY} {int(figures['lazy_questions'])} questions; weights"
        f" `{figures['lazy_weights']}`. Equal tokens in {equal} of {answers} answers by MACD and"
        f" VCD at several α and β, greedy and sampled; ties among the others:"
        f" {int(figures['lazy_ties'])}. Where contrast was needed, a lazy run took"
        f" {_shown(figures, 'lazy_over_full_where_open')} of a complete one's time (median)."
    )
    rows = []
    for name, regime in LAZY_RATIOS.items():
        for key, what in (("", "decoding alone"), ("run_", "with reading and detection")):
            cells = (f"full_macd1_{key}over_base", f"lazy_macd1_{key}over_base",
                     f"lazy_macd1_{key}bound")  # fmt: skip
            share = 100 * float(figures.get(f"lazy_open_share_{name}", float("nan")))
            shown = [_shown(figures, f"{cell}_{name}") for cell in cells]
            rows.append([f"{regime}, {what}", f"{share:.1f} %", *shown])
    ends = []
    for beta in (BETAS[0], BETAS[-1]):
        share, reads = (figures[f"lazy_beta_{beta}_{name}"] for name in ("open", "reads"))
        ends.append(f"at β {beta:g} {100 * share:.1f} % and {reads:.2f}")
    return _section(
        title, told,
        table("MACD, 1 step, α 1, β 0.1 | questions open | complete | lazy | bound", rows),
        f"Questions open and prompts read: {', '.join(ends)}; an open question is read four times,"
        " another once.",
    )  # fmt: skip


def workers_lines(figures: Figures | None) -> list[str]:
    """The section on workers; figures: what `bench.workers` wrote, None where it did not run."""
    title = "Evaluation: workers and sharing"
    if figures is None:
        return _section(title, UNKNOWN)
    told = (
        f"`python -m bench.workers`: {figures['questions']} questions on {figures['clips']} drawn"
        f" clips by four methods, embedded models, {figures['threads']} thread a worker, medians of"
        f" {figures['runs']} runs, {_where(figures)}."
    )
    rows = {
        "two workers on Ray over one, each on a core of its own": figures["two_over_one"],
        "two workers on Ray over one, free to use all cores": figures["two_over_one_any_core"],
        "four methods together over one by one, questions a second": figures["sharing"],
    }
    shown = ((name, UNKNOWN if z is None else f"{z:.2f}×") for name, z in rows.items())
    return _section(title, told, table("what | figure", shown))


def _where(measured: Figures) -> str:
    at = measured["machine"]
    return f"{at['cores']} cores of an {at['processor']}, {at['date']}"


def server_lines(figures: Figures | None) -> list[str]:
    """The section on servers; figures: what `bench.vllm_check` wrote, None where it did not."""
    title = "A model that a server holds"
    if figures is None:
        return _section(title, UNKNOWN)
    rows = [
        (name, way, ways[way])
        for name, ways in figures["models"].items()
        for way in ("exact", "common")
        if way in ways
    ]
    places: dict[str, list[str]] = {}
    for name, model in figures["models"].items():
        places.setdefault(_where(model), []).append(name)
    measured = "; ".join(
        where if len(places) == 1 else f"{', '.join(names)} on {where}"
        for where, names in places.items()
    )
    heads = "model | way | log p | unrounded | slopes decided | same sign | requests a question |"
    shown = table(f"{heads} time, server over here", (_server_row(*row) for row in rows))
    return _section(title, SERVER, OFF, shown, *_at_once(rows), f"Measured: {measured}.")


def _server_row(name: str, way: str, found: Figures) -> list[object]:
    reads, signs, tokens = found["reads"], found["signs"], found["tokens"]
    equal = reads if way == "exact" else reads.get("rounded", {})
    timed = tokens["timed"]
    return [
        name,
        way,
        f"{equal['log_p']:.1e}" if "log_p" in equal else UNKNOWN,
        "–" if way == "exact" else f"{reads['log_p']:.1e}",
        f"{signs['decided']} of {signs['strengths']}",
        signs["same_sign"],
        f"{tokens['requests'] / tokens['questions']:.0f}",
        f"{timed['server'] / timed['local']:.1f}×",
    ]


def _at_once(rows: Sequence[tuple[str, str, Figures]]) -> Sequence[str]:
    """What a question took where several were asked together, of the models that were."""
    told = []
    for name, way, found in rows:
        timed, together = found["tokens"]["timed"], found["tokens"]["together"]
        if together["questions"]:
            alone = timed["server"] / timed["questions"]
            seconds = together["seconds"] / together["questions"]
            told.append(
                f"{name}, {way}: {seconds:.2f} s instead of {alone:.2f} s"
                f" ({together['questions']} questions, {together['at_once']} at once)"
            )
    return [f"A question on the server, several at once: {'; '.join(told)}."] if told else []


def page(
    figures: Figures,
    workers: Figures | None = None,
    server: Figures | None = None,
    gpu: Figures | None = None,
) -> str:
    """The figures as Markdown; a figure that was not measured says so."""
    machine, last = figures["machine"], ", ".join(figures.get("last", ["nothing"]))
    lines = [
        "# What is measured",
        "",
        f"`make bench`: medians of runs taken in turn, {machine['cores']} cores of an"
        f" {machine['processor']}, Python {machine['python']}, {machine['date']} ({last}; the other"
        " parts earlier). Compare ratios, and times of one part alone: two hosts of one kind"
        " differed by a factor of two. Every figure:"
        " [bench/results/latest.json](../bench/results/latest.json).",
    ]
    lines += _section("Slower than at the last measurement", SLOWER, _grown(figures))
    for title, rows in TABLES.items():
        shown = table("what | figure", ((n, _shown(figures, key)) for n, key in rows.items()))
        lines += _section(title, shown, *([COUNTED] if title == TRUE_SIZE else []))
    for title, (heads, several) in COLUMNS.items():
        cells = ((name, *(_shown(figures, key) if key else "–" for key in keys))
                 for name, keys in several.items())  # fmt: skip
        lines += _section(title, table(" | ".join(heads), cells))
    lines += lazy_lines(figures) + workers_lines(workers) + server_lines(server)
    kinds = {"base": "on the plain video", "half": "on frames of half the size"}
    same = [
        (name, *(_share(figures, f"agreement_{kind}_{what}") for what in ("objects", "frames")))
        for kind, name in kinds.items()
    ]
    lines += _section("How often a cheaper gradient leads to the same level", CHEAPER,
                      table("gradient | objects | frame groups", same))  # fmt: skip
    same = [(n, _share(figures, f"agreement_bfloat16_{what}")) for what, n in SAME.items()]
    lines += _section("bfloat16 on a CPU over float32", COARSE, table("the same | share", same))
    there = gpu.get("deep", []) if gpu else []
    told = UNKNOWN
    if gpu and there:
        told = f"{gpu['machine']['name']}, {gpu['machine']['date']}, {len(there)} runs of it"
    whole = []
    for name, key in WHOLE.items():
        on_gpu = f"{key.removesuffix('_3b')}_gpu"
        ends = sorted(there, key=lambda one: float(one[on_gpu]))[:: max(1, len(there) - 1)]
        both = " to ".join(dict.fromkeys(_shown(one, on_gpu) for one in ends or [{}]))
        whole.append((name, _shown(figures, f"{key}_cpu"), both, PAPER.get(name, "–")))
    lines += _section("Qwen2.5-VL-3B, the whole of it, over plain decoding", DEEP.format(told),
                      table("what | on the CPU | on a GPU | paper", whole))  # fmt: skip
    return "\n".join([*lines, ""])


def _grown(figures: Figures) -> str:
    """See `bench.__main__.slower`."""
    rows = (
        (f"`{key}`", f"{one['before']:.3f}", f"{one['now']:.3f}", one["date"])
        for key, one in figures.get("slower", {}).items()
    )
    shown = table("ratio | before | now | measured before", rows)
    return shown if figures.get("slower") else "None."


def _shown(figures: Figures, key: str) -> str:
    if key not in figures:
        return UNKNOWN
    value = float(figures[key])
    if key.endswith(PLAIN) or key.startswith("trace_kb"):
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    return f"{value:.2f}×"


def _share(figures: Figures, key: str) -> str:
    if key not in figures:
        return UNKNOWN
    ends = [figures[k] for k in (key, f"{key}_low", f"{key}_high")]
    return with_interval(ends, ".0f", unit=" %")


def main() -> None:
    """Writes the document."""
    figures = json.loads(RESULTS.read_text())
    others = [json.loads(f.read_text()) if f.exists() else None for f in (WORKERS, VLLM, GPU)]
    (DOCS / "bench.md").write_text(page(figures, *others), encoding="utf-8")


if __name__ == "__main__":
    main()
