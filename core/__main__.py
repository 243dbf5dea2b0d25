"""`python -m core trace VIDEO QUESTION`, `compare VIDEO QUESTION`, `show FILE.macd` and `plan`.

Exit codes: 0 done, 2 bad input, 130 interrupted. Progress and errors go to stderr.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import MacdError, OptionError, TraceError
from core.methods import METHODS
from core.options import (
    PRESETS,
    VCD_PRESETS,
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    DetectOptions,
    MaskOptions,
    RunOptions,
    VideoOptions,
)
from core.question import clean_question
from core.types import Progress
from core.video import read_clip

if TYPE_CHECKING:
    from core.backbones import VideoLM
    from core.detect import Detector
    from core.types import Clip, Trace


COMPARED = ["baseline", "macd", "vcd", "sid", "tcd"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.command == "plan":
            _plan(args)
            return 0
        trace = _show(args) if args.command == "show" else _trace(args)
        _print(trace, args)
        if args.command != "show" and args.out:
            _save(trace, args.out)
    except MacdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m core", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    trace = commands.add_parser("trace", help="run MACD on one clip and one question")
    compare = commands.add_parser("compare", help="run several methods on them")
    compare.add_argument(
        "--methods",
        type=lambda told: told.split(","),
        default=COMPARED,
        metavar="NAME,…",
        help=f"all, or of {', '.join(METHODS)}; baseline and macd are always among them"
        f" (default: {','.join(COMPARED)})",
    )
    for command in (trace, compare):
        _add_run(command)
    show = commands.add_parser("show", help="print the summary of a saved trace")
    show.add_argument("file", metavar="FILE.macd")
    for command in (trace, compare, show):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    _add_plan(commands)
    return parser


def _add_plan(commands: Any) -> None:
    plan = commands.add_parser("plan", help="what a backbone takes, without loading it")
    plan.add_argument("--backbone", default="toyworld", help="toyworld or a listed hub id")
    plan.add_argument("--frames", type=int, default=8, help="frames sampled (default: 8)")
    plan.add_argument(
        "--frame-size", type=int, default=280, metavar="PIXELS",
        help="side of the square frames, where the family lets it vary (default: 280)",
    )  # fmt: skip
    plan.add_argument("--steps", type=int, default=1, help="ascent steps (default: 1)")
    plan.add_argument("--json", action="store_true", help="print one JSON object")


def _plan(args: argparse.Namespace) -> None:
    from core.plan import describe, plan

    found = plan(args.backbone, args.frames, args.frame_size, args.steps)
    print(json.dumps(found) if args.json else describe(found))


def _add_run(trace: argparse.ArgumentParser) -> None:
    trace.add_argument("video", metavar="VIDEO")
    trace.add_argument("question", metavar="QUESTION")
    trace.add_argument("--backbone", default="toyworld", help="toyworld, a folder or a hub id")
    trace.add_argument(
        "--detector",
        default="toyworld",
        help="toyworld, yolo11n … yolo11x-seg, rt-detr, d-fine, grounding-dino, a file or folder",
    )
    trace.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    defaults = RunOptions()
    numbers: list[tuple[str, type, Any, str]] = [
        ("--frames", int, defaults.video.frames, "frames sampled for the backbone"),
        ("--start", float, 0.0, "start of the range, seconds"),
        ("--end", float, None, "end of the range, seconds"),
        (
            "--confidence",
            float,
            defaults.detect.confidence,
            "what starts a track; weaker continue it",
        ),
        ("--steps", int, defaults.ascent.steps, "ascent steps"),
        ("--eta", float, defaults.ascent.eta, "ascent step size"),
        ("--tau", float, defaults.ascent.tau, "dead band around r0"),
        ("--alpha", float, None, "contrast strength, instead of the preset's"),
        ("--beta", float, None, "plausibility head, instead of the preset's"),
        ("--max-tokens", int, defaults.decode.max_tokens, "longest answer"),
        ("--temperature", float, defaults.decode.temperature, "for sample and vote"),
        ("--top-p", float, defaults.decode.top_p, "for sample and vote"),
        ("--length-penalty", float, defaults.decode.length_penalty, "of beam search"),
        ("--beams", int, defaults.decode.beams, "beam width"),
        ("--samples", int, defaults.decode.samples, "samples that vote"),
        ("--seed", int, 0, "seed"),
    ]
    for flag, kind, default, text in numbers:
        shown = "" if default is None else f" (default: {default})"
        trace.add_argument(flag, type=kind, default=default, help=text + shown)
    masks = defaults.mask
    words: list[tuple[str, tuple[str, ...], str, str]] = [
        ("--fill", ("mean", "black", "blur", "noise", "additive"), masks.fill, "masked pixels"),
        ("--fusion", ("max", "confidence", "average"), masks.fusion, "how masks join"),
        ("--frame-mask", ("outside", "whole", "off"), masks.frame_mask, "what a frame mask hides"),
        ("--mask-shape", ("outline", "box"), masks.shape, "outline: where the detector gives one"),
        ("--levels", ("three", "continuous"), defaults.ascent.levels, "what strengths become"),
        ("--memory", ("normal", "low"), "normal", "low: slower, with fewer activations kept"),
        ("--gradient", ("exact", "base", "half"), "exact", "base, half: cheaper approximations"),
        ("--preset", tuple(PRESETS), "toyworld", "α and β: the paper's by benchmark, or our own"),
        ("--vcd", tuple(VCD_PRESETS), "code", "which of VCD's published defaults"),
    ]
    for flag, choices, word, text in words:
        trace.add_argument(flag, choices=choices, default=word, help=f"{text} (default: {word})")
    trace.add_argument("--swept", action="store_true", help="sweep masks over time")
    trace.add_argument("--search", default="greedy", choices=("greedy", "sample", "beam", "vote"))
    trace.add_argument("--out", type=Path, metavar="FILE.macd", help="save the trace")


def _trace(args: argparse.Namespace) -> Trace:
    options = RunOptions(
        video=VideoOptions(frames=args.frames, start=args.start, end=args.end),
        detect=DetectOptions(confidence=args.confidence),
        mask=MaskOptions(
            fill=args.fill,
            fusion=args.fusion,
            frame_mask=args.frame_mask,
            swept=args.swept,
            shape=args.mask_shape,
        ),
        ascent=AscentOptions(
            steps=args.steps,
            eta=args.eta,
            tau=args.tau,
            levels=args.levels,
            memory=args.memory,
            gradient=args.gradient,
        ),
        contrast=_contrast(args),
        decode=DecodeOptions(
            search=args.search,
            max_tokens=args.max_tokens,
            temperature=args.temperature,
            top_p=args.top_p,
            beams=args.beams,
            length_penalty=args.length_penalty,
            samples=args.samples,
            seed=args.seed,
        ),
        vcd=VCD_PRESETS[args.vcd],
        seed=args.seed,
    )
    methods: list[str] = args.methods if args.command == "compare" else []
    _check_out(args.out)
    clean_question(args.question)
    gc.disable()  # until the models are loaded: collecting amid the imports costs half a second
    with ThreadPoolExecutor(1) as beside:
        # the video is decoded in a process of its own while this one imports torch
        clip = beside.submit(read_clip, args.video, options.video)
        print("  video   Reading the video", file=sys.stderr, flush=True)
        if (error := _failed_early(clip)) is not None:
            raise error
        from core.pipeline import run

        trace = None
        loading = Progress()
        lm, detector = partial(_load_lm, args, loading), partial(_load_detector, args)
        told = ""
        for event in run(
            clip.result, args.question, lm, detector, options, methods=methods, loading=loading
        ):
            loaded = event.fraction if event.stage == "load" and event.fraction < 1 else 0
            if event.stage == "decode":  # an answer grows token by token; the summary has it whole
                event = replace(event, message=event.message.split(":")[0])
            percent = f", {10 * int(10 * loaded)} %" if loaded else ""
            line = f"  {event.stage:<7} {event.message}{percent}"
            if event.stage not in ("video", "done") and line != told:
                print(line, file=sys.stderr, flush=True)
            told, trace = line, event.trace
    assert trace is not None
    return trace


def _save(trace: Trace, out: Path) -> None:
    from core.bundle import save

    save(trace, out)
    print(f"  saved   {out} ({out.stat().st_size / 1000:.0f} kB)", file=sys.stderr)


def _contrast(args: argparse.Namespace) -> ContrastOptions:
    preset = PRESETS[args.preset]
    return ContrastOptions(
        alpha=preset.alpha if args.alpha is None else args.alpha,
        beta=preset.beta if args.beta is None else args.beta,
    )


def _failed_early(clip: Future[Clip]) -> BaseException | None:
    """What is wrong with a file that is no video at all, known at once and before torch is."""
    try:
        return clip.exception(timeout=0.3)
    except FutureTimeout:
        return None


def _load_lm(args: argparse.Namespace, progress: Progress) -> VideoLM:
    from core.backbones import load_backbone

    lm = load_backbone(args.backbone, args.device, progress)
    gc.enable()
    return lm


def _load_detector(args: argparse.Namespace) -> Detector:
    from core.backbones.base import device_of
    from core.detect import load_detector

    return load_detector(args.detector, device_of(args.device).type)


def _check_out(out: Path | None) -> None:
    if out is not None and not out.absolute().parent.is_dir():
        raise OptionError(f"there is no folder for {str(out)!r}", "Create it or choose another")
    if out is not None and out.is_dir():
        raise OptionError(f"{str(out)!r} is a folder", "Name a file, such as clip.macd")


def _show(args: argparse.Namespace) -> Trace:
    from core.bundle import load

    if Path(args.file).is_dir():
        raise TraceError(f"{args.file!r} is a folder", "Choose a .macd file")
    return load(args.file)


def _print(trace: Trace, args: argparse.Namespace) -> None:
    from core import summary

    if args.json:
        print(json.dumps(summary.as_json(trace), ensure_ascii=False, allow_nan=False))
    elif args.command == "compare" or len(trace.answers) > 2:
        print(summary.as_table(trace))
    else:
        print(summary.as_text(trace))


if __name__ == "__main__":
    sys.exit(main())
