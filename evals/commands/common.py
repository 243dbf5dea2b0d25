"""What commands share: who works (this process or actors of Ray), the folder, messages."""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.options import RunOptions
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Number, shown

if TYPE_CHECKING:
    from macd_studio.core.backbones.local import LocalLM
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
    Number(0, 64, optional=True).read(args.gpus_per_worker, "gpus-per-worker")
    Number(1, 256, whole=True, optional=True).read(args.concurrency, "concurrency")
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


def check_folder(out: Path) -> None:
    """Raises OptionError where a folder cannot be made or written into."""
    try:
        near = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{shown(str(out), 200)} cannot be a folder ({error})", "Choose another"
        ) from None
    if not near.is_dir():
        raise OptionError(
            f"{shown(str(near), 200)} is not a folder", "Choose a folder for the results"
        )
    if not os.access(near, os.W_OK | os.X_OK):
        raise OptionError(
            f"nothing can be written in {shown(str(near), 200)}", "Choose another folder"
        )


def machine() -> str:
    """What computes, and with which versions; imports torch."""
    import platform

    import torch

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, float32"
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def say(line: str) -> None:
    """Tells of progress, beside what the command prints."""
    print(line, file=sys.stderr, flush=True)


def measure_drawn_clips(
    module: str,
    about: str | None,
    measure: Callable[[LocalLM, int, int], dict[str, Any]],
    *,
    n: int,
    seed: int,
    least: int = 1,
    argv: Sequence[str] | None = None,
) -> int:
    """The command line of a measurement on drawn clips: --n, --seed, --backbone, --out, --rows.

    measure: of a backbone, the number of clips (least to 10,000) and the first seed; its figures
    are printed and, with --out, written as JSON; its `rows`, one a clip, are written with --rows.
    Returns the exit code, 2 for what a user can mend.
    """
    parser = command_line(module, about)
    parser.add_argument("--n", type=int, default=n, help=f"clips (default: {n})")
    parser.add_argument("--seed", type=int, default=seed, help=f"of the clips (default: {seed})")
    parser.add_argument("--backbone", default="toyworld", help="toyworld, or a folder")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--rows", type=Path, help="a packed file of lines (.jsonl.gz)")
    args = parser.parse_args(argv)
    from macd_studio.core.backbones import load_backbone

    try:
        Number(least, 10_000, whole=True).read(args.n, "n")
        Number(0, 2**31, whole=True).read(args.seed, "seed")
        for path in (args.out, args.rows):
            if path:
                check_folder(path.parent)
        figures = measure(load_backbone(args.backbone), args.n, args.seed)
    except MacdError as error:
        say(f"error: {visible(str(error))}")
        return 2
    rows = figures.pop("rows", [])
    print(json.dumps(figures, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, figures)
    if args.rows:
        args.rows.parent.mkdir(parents=True, exist_ok=True)
        pack_lines(args.rows, rows)
    return 0


def pack_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows as packed lines of JSON, the same bytes for the same rows."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def finite(value: Any) -> Any:
    """Plain values with None in the place of what JSON cannot hold, NaN and infinities.

    >>> finite({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(v) for name, v in value.items()}
    return [finite(v) for v in value] if isinstance(value, list | tuple) else value


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all."""
    part = path.with_suffix(".part")
    try:
        part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
