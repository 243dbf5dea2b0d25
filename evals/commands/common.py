"""What commands share: who works (this process or actors of Ray), the folder, messages."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions
from macd_studio.core.validation import Maybe, Number
from macd_studio.evals.benchmarks import FILES, open_files

if TYPE_CHECKING:
    from macd_studio.evals.protocol.inputs import Questions
    from macd_studio.evals.running.engine import Engine


SIDE_BY_SIDE = 4
"""Clips that are worked on at once where a server holds the backbone."""


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """--engine, --workers, --address, --gpus-per-worker, --concurrency."""
    parser.add_argument(
        "--engine", choices=("process", "ray"), help="ray where several workers are wanted"
    )
    parser.add_argument("--workers", type=int, default=1, help="more than one run on Ray")
    parser.add_argument("--address", help="of a running Ray cluster, or auto")
    parser.add_argument("--gpus-per-worker", type=float, help="GPUs of each worker on Ray")
    parser.add_argument(
        "--concurrency", type=int, metavar="N",
        help=f"clips that are worked on at once where a server holds the backbone, which batches"
        f" their requests (default: {SIDE_BY_SIDE})",
    )  # fmt: skip


def check_engine_flags(args: argparse.Namespace) -> None:
    """Raises OptionError for flags that do not fit together; imports no torch."""
    Number(0, 1024, whole=True).read(args.workers, "workers")
    Maybe(Number(0, 64)).read(args.gpus_per_worker, "gpus-per-worker")
    Maybe(Number(1, 256, whole=True)).read(args.concurrency, "concurrency")
    remote = is_remote(str(getattr(args, "backbone", "")))
    if args.concurrency and not remote:
        raise OptionError(
            "--concurrency needs a backbone that a server holds",
            "Name one, vllm:http://HOST:PORT, or take --workers",
        )
    if remote and on_ray(args):
        raise OptionError(
            "Ray is for models that are loaded here", "Take --concurrency for a server's"
        )
    if args.engine == "process":
        extra = {"workers": args.workers > 1, "address": args.address, "gpus-per-worker":
                 args.gpus_per_worker}  # fmt: skip
        for name, value in extra.items():
            if value:
                raise OptionError(f"--{name} needs Ray", "Give --engine ray, or leave it out")


def for_reader(options: RunOptions, backbone: str) -> RunOptions:
    """The options for a backbone: of a server, which gives no gradient, slopes by differences."""
    if not is_remote(backbone) or options.ascent.gradient != "exact":
        return options
    return replace(options, ascent=replace(options.ascent, gradient="difference"))


def on_ray(args: argparse.Namespace) -> bool:
    """Whether Ray is asked for, by name or by a flag that needs it."""
    return args.engine == "ray" or (
        args.engine is None
        and (args.workers > 1 or bool(args.address) or args.gpus_per_worker is not None)
    )


def find_engine(args: argparse.Namespace) -> Engine | None:
    """The engine; None for one worker in this process. Raises OptionError without Ray."""
    check_engine_flags(args)
    if is_remote(str(getattr(args, "backbone", ""))):
        from macd_studio.evals.running.engine import side_by_side

        return side_by_side(args.concurrency or SIDE_BY_SIDE)
    if not on_ray(args):
        return None
    from macd_studio.evals.running.ray_engine import import_ray, ray_engine

    import_ray()
    return ray_engine(max(1, args.workers), args.address, args.gpus_per_worker or 0.0)


def add_questions(parser: argparse.ArgumentParser, when: str, also: str = "") -> None:
    """--benchmark and --data: the questions that answers of others belong to."""
    parser.add_argument("--benchmark", choices=tuple(FILES), help=when)
    parser.add_argument("--data", type=Path, help=f"its folder{also}")


def questions_of(args: argparse.Namespace) -> Questions | None:
    """The questions of --benchmark, None without. Raises OptionError and BenchmarkError."""
    from macd_studio.evals.protocol.inputs import Questions

    if args.benchmark is None:
        return None
    benchmark = open_files(args.benchmark, args.data, videos=False)
    return Questions(
        args.benchmark,
        {i.id: i for i in benchmark.everything},
        {i.id: benchmark.cluster(i) for i in benchmark.everything},
        {i.id: benchmark.group(i) for i in benchmark.everything},
    )


def both(text: str) -> tuple[str, str]:
    """One value for both sides, or two with a comma."""
    first, comma, second = text.partition(",")
    return first.strip(), (second if comma else first).strip()
