"""`python -m evals run BENCHMARK --data FOLDER`: a benchmark of video files."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from macd_studio.core.embedded import backbone_for, detector_for
from macd_studio.core.errors import OptionError
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import OWN_CONTRAST, Fit, RunOptions
from macd_studio.core.text.words import count, visible
from macd_studio.core.validation import Maybe, Number
from macd_studio.evals.benchmarks import SHIPPED
from macd_studio.evals.benchmarks.base import FIT, evaluation_options
from macd_studio.evals.commands.common import check_engine_flags, find_engine, for_reader
from macd_studio.evals.running.contrasts import CONSTANT, MethodPlan, read_contrasts, refuse_lazy
from macd_studio.evals.running.output import (
    EXIT,
    check_folder,
    count_failures,
    failures_line,
    machine,
    say,
    tell_replaced,
)
from macd_studio.evals.scoring.score import OVER

if TYPE_CHECKING:
    from macd_studio.evals.benchmarks.files import FileBenchmark
    from macd_studio.evals.running.engine import Engine
    from macd_studio.evals.running.rows import Row, Setting
    from macd_studio.evals.scoring.kept_traces import Kept
    from macd_studio.evals.scoring.score import Over

METHODS = ("baseline", "vcd", "sid", "macd", "mask-all", CONSTANT)
FLAGS = ("data", "limit", "frames", "sample_fps", "frame_size", "fit", "max_seconds",
         "max_megabytes", "prompts", "rule", "over", "options", "save_traces")  # fmt: skip

GIVE_CONTRAST = "Give α and β by --alpha and --beta, or by --preset, and leave yes-bias out"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What only benchmarks of video files take."""
    group = parser.add_argument_group("benchmarks of video files")
    group.add_argument("--data", type=Path, help="the benchmark's folder (docs/benchmarks.md)")
    group.add_argument("--limit", type=int, help="at most about so many questions of each split")
    group.add_argument("--frames", type=int, help="frames sampled of each clip")
    group.add_argument("--sample-fps", type=float, help="frames sampled a second instead")
    group.add_argument("--frame-size", type=int, help="sampled frames are resized to this side")
    group.add_argument(
        "--fit",
        choices=get_args(Fit),
        help=f"{FIT}, the default: frames as the model's own processor resizes them; pad: their"
        " shape is kept",
    )
    group.add_argument("--max-seconds", type=float, help="longest video that is read")
    group.add_argument("--max-megabytes", type=float, help="largest video file that is read")
    group.add_argument(
        "--prompts", choices=("published", "bare"), help="which text surrounds the questions"
    )
    group.add_argument("--rule", help="scoring rule of the headline")
    group.add_argument(
        "--over", choices=OVER, help="what accuracies are shares of (default: all questions)"
    )
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


def check(args: argparse.Namespace) -> None:
    """Raises OptionError for what cannot be run; imports no torch."""
    for name, low, high, whole in (
        ("limit", 1, 1e6, True), ("frames", 1, 256, True), ("sample_fps", 0.01, 60, False),
        ("frame_size", 28, 2048, True),
    ):  # fmt: skip
        rule = Maybe(Number(low, high, whole))
        rule.read(getattr(args, name), f"--{name.replace('_', '-')}")
    if args.frames is not None and args.sample_fps is not None:
        raise OptionError("--frames and --sample-fps exclude each other", "Give one of them")
    args.backbone, args.detector = backbone_for(args.backbone, ""), detector_for(args.detector, "")
    check_detector(args.detector)
    check_engine_flags(args)
    args.data = args.data or SHIPPED.get(args.benchmark)


def run_options(args: argparse.Namespace, benchmark: type[FileBenchmark]) -> RunOptions:
    """The options of a run: flags, over those given as JSON, over the benchmark's own.

    Raises OptionError.
    """
    values = _json_options(args.options)
    options = for_reader(evaluation_options(values, benchmark.limits), args.backbone)
    options = replace(options, lazy=getattr(args, "lazy", False) or options.lazy)
    if "max_tokens" not in values.get("decode", {}):
        options = replace(options, decode=replace(options.decode, max_tokens=benchmark.max_tokens))
    if args.frames is not None:
        options = replace(options, video=replace(options.video, frames=args.frames))
    for name in ("fit", "max_seconds", "max_megabytes"):
        if (value := getattr(args, name)) is not None:
            options = replace(options, video=replace(options.video, **{name: value}))
    return options


def _json_options(text: str | None) -> dict[str, Any]:
    """The JSON of --options. Raises OptionError, also for α and β, which have flags."""
    try:
        values = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise OptionError(f"--options is not JSON ({error})", "Give an object") from None
    parts = values if isinstance(values, dict) else {}
    for place in (parts, *(parts.get(name) for name in OWN_CONTRAST)):
        contrast = place.get("contrast") if isinstance(place, dict) else None
        if isinstance(contrast, dict) and {"alpha", "beta"} & set(contrast):
            raise OptionError(
                "α and β in --options have no effect here",
                "Give --alpha and --beta, or write them by the method: --methods vcd:alpha=1",
            )
    return values


def setting_of(args: argparse.Namespace) -> Setting:
    """What the run is about."""
    from macd_studio.evals.benchmarks import file_benchmark
    from macd_studio.evals.running.rows import Setting

    return Setting(
        args.benchmark,
        run_options(args, file_benchmark(args.benchmark)),
        args.backbone,
        args.detector,
        data=str(args.data),
        fps=args.sample_fps,
        side=args.frame_size,
        published=args.prompts != "bare",
        held=args.weights,
        offload=args.offload,
        dtype=args.dtype,
    )


def run(args: argparse.Namespace) -> int:
    """Answers, scores and reports. What is missing is said before a model is loaded."""
    from macd_studio.evals.benchmarks import FILES, open_files
    from macd_studio.evals.scoring.score import check_rule

    check(args)
    asked = asked_methods(args)
    lazy = args.lazy or bool(_json_options(args.options).get("lazy"))
    refuse_lazy(asked, RunOptions(lazy=lazy))
    check_folder(args.out)
    if args.boxes == "truth":
        raise OptionError(f"{args.benchmark} has no true boxes", "Leave --boxes out")
    assert args.benchmark in FILES
    published = args.prompts != "bare"
    # the files are checked here, the sampling by the setting
    checked = open_files(args.benchmark, args.data, published=published)
    check_rule(checked, args.rule)
    engine = find_engine(args)
    for note in checked.check_sizes():
        say(f"note: {visible(note)}")
    setting = setting_of(args)
    report = answer_files(setting, asked, args.out, engine, args.limit, args.rule,
                          args.save_traces, args.over or "all")  # fmt: skip
    from macd_studio.evals.scoring.report import write
    from macd_studio.evals.scoring.show import markdown

    report["machine"] = machine()
    tell_replaced(args.out, report)
    write(report, args.out)
    print(visible(markdown(report)))
    print(
        f"written to {args.out}: report.md, report.json, report.html, protocol.json",
        file=sys.stderr,
    )
    if failed := failures_line(report["failures"]):
        print(f"error: {visible(failed)}", file=sys.stderr)
        return EXIT
    return 0


def asked_methods(args: argparse.Namespace) -> MethodPlan:
    """The methods of the run, the baseline first, and where α and β of each come from.

    Without --methods nothing is tuned where α and β are given: the constant is left out then.
    """
    given = args.alpha is not None or args.preset is not None
    default = [m for m in METHODS if m != CONSTANT or not given]
    options = evaluation_options(_json_options(args.options))
    return read_contrasts(
        args.methods, ["baseline"], default, args.alpha, args.beta, args.preset, options
    )


def answer_files(
    setting: Setting,
    asked: MethodPlan,
    out: Path,
    engine: Engine | None,
    limit: int | None,
    rule: str | None = None,
    keep: Kept | None = None,
    over: Over = "all",
) -> dict[str, Any]:
    """The report of a run as plain data: answers of every method, scored and compared.

    Also writes protocol.json into out.

    asked: the methods; where α and β, or the constants of "yes-bias", have to be chosen for any,
    that is done on a fifth of the clips, which is then left out of the score of all. keep: which
    answers' traces are kept in out/traces.
    """
    from macd_studio.evals.benchmarks.base import Item, Split
    from macd_studio.evals.benchmarks.files import FileBenchmark
    from macd_studio.evals.protocol.bounds import NAME_OF_FILE
    from macd_studio.evals.protocol.record import make_protocol
    from macd_studio.evals.running.output import write_json
    from macd_studio.evals.running.run import choose, complete, plan, ticking
    from macd_studio.evals.scoring import TRACES
    from macd_studio.evals.scoring.kept_traces import TraceKeeper
    from macd_studio.evals.scoring.report import make_report
    from macd_studio.evals.statistics.constant import answers_by_first, tune, with_constants

    benchmark = setting.open()
    assert isinstance(benchmark, FileBenchmark)
    rows, n = out / "rows", limit or 10**9
    methods, contrasts = list(asked.methods), dict(asked.given)
    constants: dict[str, float] = {}
    split: Split = "all"
    choosing: list[Item] = []
    computed: list[Row] = []
    if asked.tuned:
        split = "test"
        choosing = benchmark.items("choose", n)
        if not choosing:
            raise OptionError(
                f"of {count(len(benchmark.everything), 'question')} none is among the fifth on"
                " which α and β are chosen",
                GIVE_CONTRAST,
            )
        of = [m for m in methods if m in asked.tuned or m == "baseline"]
        tried = plan(benchmark, setting, "choose", n, of, None)
        rows_by_key = complete(tried, setting, rows, engine, ticking("choosing α and β", say))
        computed += rows_by_key.values()
        contrasts |= choose(choosing, rows_by_key, tried)
        if CONSTANT in asked.tuned:
            of_baseline = {w.item.id: rows_by_key[w.key] for w in tried if w.method == "baseline"}
            constants = tune(choosing, of_baseline)
    planned = plan(benchmark, setting, split, n, methods, contrasts)
    items = benchmark.items(split, n)
    if not items:
        raise OptionError(
            f"no clip is left to score of {count(len(benchmark.everything), 'question')}",
            GIVE_CONTRAST,
        )
    of_the_model = [m for m in methods if m != CONSTANT]
    keeper = keep and TraceKeeper(
        keep, setting, benchmark, of_the_model, out / TRACES, out / "tracks", rule, say
    )
    take = {"take": keeper.take} if keeper else {}
    rows_by_key = complete(planned, setting, rows, engine, ticking("answering", say), **take)
    computed += rows_by_key.values()
    answers = {(w.item.id, w.method): rows_by_key[w.key] for w in planned}
    if CONSTANT in methods:
        texts = answers_by_first([answers[i.id, "baseline"] for i in items])
        for i in items:
            row = with_constants(i, answers[i.id, "baseline"], constants, texts)
            answers[i.id, CONSTANT] = row
    report = make_report(benchmark, items, answers, methods, rule, over)
    held_out = len(choosing)
    where = f"a fifth of the clips ({count(held_out, 'question')}), which is not scored"
    report |= {
        "contrasts": {m: list(contrasts[m]) for m in asked.sources},
        "contrast_sources": asked.sources,
        "how_chosen": asked.how(where),
        "held_out": held_out,
        "failures": count_failures(computed),
        "split": split,
        "backbone": setting.backbone,
        "detector": setting.detector,
        "prompts": "published" if setting.published else "bare",
        "sampling": {"frames": setting.options.video.frames, "fps": setting.fps,
                     "size": setting.side, "fit": setting.options.video.fit},
        "content": setting.content(benchmark),
        "setting": setting.as_dict(),
        "constants": constants,
    }  # fmt: skip
    write_json(out / NAME_OF_FILE, make_protocol(benchmark, setting, items, answers, report))
    return report
