"""The flags that say who works: one worker in this process, or actors of Ray."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Number

if TYPE_CHECKING:
    from macd_studio.evals.engine import Engine


def add(parser: argparse.ArgumentParser) -> None:
    """--engine, --workers, --address, --gpus-per-worker."""
    parser.add_argument(
        "--engine", choices=("process", "ray"), help="ray where several workers are wanted"
    )
    parser.add_argument("--workers", type=int, default=1, help="more than one run on Ray")
    parser.add_argument("--address", help="of a running Ray cluster, or auto")
    parser.add_argument("--gpus-per-worker", type=float, help="GPUs of each worker on Ray")


def check(args: argparse.Namespace) -> None:
    """Raises OptionError for flags that do not fit together; imports no torch."""
    Number(0, 1024, whole=True).read(args.workers, "workers")
    Number(0, 64, optional=True).read(args.gpus_per_worker, "gpus-per-worker")
    if args.engine == "process":
        extra = {"workers": args.workers > 1, "address": args.address, "gpus-per-worker":
                 args.gpus_per_worker}  # fmt: skip
        for name, value in extra.items():
            if value:
                raise OptionError(f"--{name} needs Ray", "Give --engine ray, or leave it out")


def on_ray(args: argparse.Namespace) -> bool:
    """Whether Ray is asked for, by name or by a flag that needs it."""
    return args.engine == "ray" or (
        args.engine is None
        and (args.workers > 1 or bool(args.address) or args.gpus_per_worker is not None)
    )


def find(args: argparse.Namespace) -> Engine | None:
    """The engine; None for one worker in this process. Raises OptionError without Ray."""
    check(args)
    if not on_ray(args):
        return None
    from macd_studio.evals.ray_engine import import_ray, ray_engine

    import_ray()
    return ray_engine(max(1, args.workers), args.address, args.gpus_per_worker or 0.0)
