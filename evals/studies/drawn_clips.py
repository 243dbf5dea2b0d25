"""The command line of the studies that measure a backbone on drawn clips."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Number
from macd_studio.evals.running.output import check_folder, pack_lines, say, write_json

if TYPE_CHECKING:
    from macd_studio.core.backbones.local import LocalLM


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
