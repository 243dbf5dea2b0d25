"""`python -m toyworld export FORMAT FOLDER [--n CLIPS]`: the drawn world as a benchmark's files."""

from __future__ import annotations

import sys
from pathlib import Path

from macd_studio.commands import parser as command_line


def main(argv: list[str] | None = None) -> int:
    """Parses and runs; returns the exit code."""
    from macd_studio.toyworld.export import FORMATS, export

    parser = command_line("toyworld", __doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("export", help="write clips and annotations as published")
    command.add_argument("format", choices=tuple(FORMATS))
    command.add_argument("folder", type=Path)
    command.add_argument("--n", type=int, default=4, help="clips a split or task, 1 to 999")
    args = parser.parse_args(argv)
    if not 1 <= args.n <= 999:
        print(f"error: --n is {args.n}. Choose a number from 1 to 999.", file=sys.stderr)
        return 2
    try:
        written = export(args.format, args.folder, args.n)
    except OSError as error:
        print(
            f"error: {args.folder} cannot be written ({error.strerror}). Choose another folder.",
            file=sys.stderr,
        )
        return 2
    print(f"{len(written)} files in {args.folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
