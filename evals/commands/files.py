"""`python -m evals run BENCHMARK --data FOLDER`: a benchmark of video files."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import OptionError
from core.methods import find_methods
from core.objects.detect import check_detector
from core.options import PRESETS, ContrastOptions, RunOptions, options_from
from core.validation import Number
from core.words import count, visible
from evals.commands import engine_flags

if TYPE_CHECKING:
    from evals.engine import Engine
    from evals.rows import Setting
    from evals.traces import Kept

CONSTANT = "yes-bias"
METHODS = ("baseline", "vcd", "sid", "macd", "mask-all", CONSTANT)
FLAGS = ("data", "limit", "frames", "sample_fps", "frame_size", "prompts", "rule", "options",
         "save_traces")  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What only benchmarks of video files take."""
    group = parser.add_argument_group("benchmarks of video files")
    group.add_argument("--data", type=Path, help="the benchmark's folder (docs/benchmarks.md)")
    group.add_argument("--limit", type=int, help="at most about so many questions of each split")
    group.add_argument("--frames", type=int, help="frames sampled of each clip")
    group.add_argument("--sample-fps", type=float, help="frames sampled a second instead")
    group.add_argument("--frame-size", type=int, help="sampled frames are resized to this side")
    group.add_argument(
        "--prompts", choices=("published", "bare"), help="which text surrounds the questions"
    )
    group.add_argument("--rule", help="scoring rule of the headline")
    group.add_argument(
        "--save-traces",
        choices=("wrong", "changed", "all"),
        help="keep traces of wrong answers, of those that differ from the baseline's, or of all",
    )
    group.add_argument(
        "--options", help='options of the method as JSON, such as \'{"ascent": {"steps": 3}}\''
    )


def refuse_flags(args: argparse.Namespace) -> None:
    """Raises OptionError where one of them is given for the drawn world."""
    for name in FLAGS:
        if getattr(args, name) is not None:
            raise OptionError(
                f"--{name.replace('_', '-')} is for benchmarks of video files",
                "Leave it out, or export the drawn world: python -m toyworld export",
            )


def check(args: argparse.Namespace, methods: list[str]) -> None:
    """Raises OptionError for what cannot be run; imports no torch."""
    find_methods(methods)
    for name, low, high, whole in (
        ("limit", 1, 1e6, True), ("frames", 1, 256, True), ("sample_fps", 0.01, 60, False),
        ("frame_size", 28, 2048, True),
    ):  # fmt: skip
        rule = Number(low, high, whole, optional=True)
        rule.read(getattr(args, name), f"--{name.replace('_', '-')}")
    if args.frames is not None and args.sample_fps is not None:
        raise OptionError("--frames and --sample-fps exclude each other", "Give one of them")
    if (args.alpha is None) != (args.beta is None):
        raise OptionError("only one of α and β is given", "Give both, or neither")
    if args.alpha is not None:
        ContrastOptions(args.alpha, args.beta)
    check_detector(args.detector)
    engine_flags.check(args)


def run_options(args: argparse.Namespace, max_tokens: int) -> RunOptions:
    """The options of a run, those given as JSON over the defaults. Raises OptionError."""
    try:
        values = json.loads(args.options) if args.options else {}
    except ValueError as error:
        raise OptionError(f"--options is not JSON ({error})", "Give an object") from None
    options = options_from(values)
    if "max_tokens" not in values.get("decode", {}):
        options = replace(options, decode=replace(options.decode, max_tokens=max_tokens))
    if args.frames is not None:
        options = replace(options, video=replace(options.video, frames=args.frames))
    return options


def setting_of(args: argparse.Namespace, max_tokens: int) -> Setting:
    """What the run is about."""
    from evals.rows import Setting

    return Setting(
        args.benchmark,
        run_options(args, max_tokens),
        args.backbone,
        args.detector,
        data=str(args.data),
        fps=args.sample_fps,
        side=args.frame_size,
        published=args.prompts != "bare",
    )


def run(args: argparse.Namespace) -> int:
    """Answers, scores and reports. What is missing is said before a model is loaded."""
    from evals.__main__ import _check_folder, _machine, _say
    from evals.benchmarks import FILES, open_files
    from evals.scoring.score import check_rule

    named = [m for m in args.methods.split(",") if m]
    methods = [m.name for m in find_methods(["baseline", *(named or METHODS)])]
    if args.alpha is not None and CONSTANT in methods:
        if named:
            raise OptionError(
                f"{CONSTANT} is tuned on a split, and α and β are given for all questions",
                "Leave --alpha and --beta out, or the method",
            )
        methods.remove(CONSTANT)
    check(args, methods)
    _check_folder(args.out)
    if args.boxes == "truth":
        raise OptionError(f"{args.benchmark} has no true boxes", "Leave --boxes out")
    assert args.benchmark in FILES
    published = args.prompts != "bare"
    # the files are checked here, the sampling by the setting
    checked = open_files(args.benchmark, args.data, published=published)
    check_rule(checked, args.rule)
    engine = engine_flags.find(args)
    for note in checked.check_sizes():
        _say(f"note: {visible(note)}")
    setting = setting_of(args, checked.max_tokens)
    report = answer_files(setting, methods, args.out, engine, args.limit, contrast(args), args.rule,
                          args.save_traces)  # fmt: skip
    from evals.scoring.files import write
    from evals.scoring.show import markdown

    report["machine"] = _machine()
    write(report, args.out)
    print(visible(markdown(report)))
    print(f"written to {args.out}: report.md, report.json, report.html", file=sys.stderr)
    return 0


def contrast(args: argparse.Namespace) -> tuple[float, float] | None:
    """α and β as given, else the paper's for the benchmark where it has some; None to choose."""
    if args.alpha is not None:
        return args.alpha, args.beta
    return None


def answer_files(
    setting: Setting,
    methods: list[str],
    out: Path,
    engine: Engine | None,
    limit: int | None,
    fixed_contrast: tuple[float, float] | None,
    rule: str | None = None,
    keep: Kept | None = None,
) -> dict[str, Any]:
    """The report of a run as plain data: answers of every method, scored and compared.

    fixed_contrast: α and β of every method; None: they and the constants of "yes-bias" are chosen
    on a fifth of the clips, which is then left out of the score. keep: which answers' traces are
    kept in out/traces.
    """
    from evals.__main__ import _say
    from evals.answer import ONE_VIEW
    from evals.benchmarks.files import FileBenchmark
    from evals.constant import answers_by_first, tune, with_constants
    from evals.run import DERIVED, Contrasts, choose, complete, plan, ticking
    from evals.scoring.files import TRACES
    from evals.scoring.report import make_report
    from evals.traces import TraceKeeper

    benchmark = setting.open()
    assert isinstance(benchmark, FileBenchmark)
    rows, n = out / "rows", limit or 10**9
    constants: dict[str, float] = {}
    if fixed_contrast is not None:
        contrasts: Contrasts = dict.fromkeys(methods, fixed_contrast)
        how, split = "given", "all"
    else:
        tried = plan(benchmark, setting, "choose", n, methods, None)
        rows_by_key = complete(tried, setting, rows, engine, ticking("choosing α and β", _say))
        asked = benchmark.items("choose", n)
        contrasts = choose(asked, rows_by_key, tried)
        constants = tune(
            asked, {w.item.id: rows_by_key[w.key] for w in tried if w.method == "baseline"}
        )
        how, split = "chosen for each method on a fifth of the clips, which is not scored", "test"
    planned = plan(benchmark, setting, split, n, methods, contrasts)  # type: ignore[arg-type]
    items = benchmark.items(split, n)  # type: ignore[arg-type]
    if not items:
        raise OptionError(
            f"no clip is left to score of {count(len(benchmark.everything), 'question')}",
            "Give α and β by --alpha and --beta, or a larger --limit",
        )
    asked_methods = [m for m in methods if m not in DERIVED]
    keeper = keep and TraceKeeper(
        keep, setting, benchmark, asked_methods, out / TRACES, out / "tracks", rule, _say
    )
    take = {"take": keeper.take} if keeper else {}
    rows_by_key = complete(planned, setting, rows, engine, ticking("answering", _say), **take)
    answers = {(w.item.id, w.method): rows_by_key[w.key] for w in planned}
    if CONSTANT in methods:
        texts = answers_by_first([answers[i.id, "baseline"] for i in items])
        for i in items:
            row = with_constants(i, answers[i.id, "baseline"], constants, texts)
            answers[i.id, CONSTANT] = row
    report = make_report(benchmark, items, answers, methods, rule)
    return report | {
        "contrasts": {m: list(contrasts[m]) for m in asked_methods if m not in ONE_VIEW},
        "how_chosen": how,
        "split": split,
        "backbone": setting.backbone,
        "detector": setting.detector,
        "prompts": "published" if setting.published else "bare",
        "sampling": {"frames": setting.options.video.frames, "fps": setting.fps,
                     "size": setting.side},
        "published_contrast": _published(benchmark.name),
        "content": setting.content(benchmark),
        "setting": setting.as_dict(),
        "constants": constants,
    }  # fmt: skip


def _published(name: str) -> list[float] | None:
    """The paper's α and β for a benchmark, to compare with those of the run."""
    preset = PRESETS.get(name)
    return None if preset is None else [preset.alpha, preset.beta]
