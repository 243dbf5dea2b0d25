"""What several commands over a saved trace have in common. Imports no torch."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from macd_studio import __version__
from macd_studio.core.words import visible_json


def add_version(parser: argparse.ArgumentParser) -> None:
    """--version: prints the version of the project and ends."""
    parser.add_argument("--version", action="version", version=f"macd-studio {__version__}")


def add_model(command: argparse.ArgumentParser) -> None:
    """The flags of a command that loads what made the trace."""
    command.add_argument(
        "--backbone", help="what made the trace; must be named unless it is the embedded one"
    )
    command.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")


def add_target(command: argparse.ArgumentParser, text: str) -> None:
    """--out of a command that makes a new trace of a saved one."""
    command.add_argument("--out", type=Path, metavar="NEW.macd", help=text)


def print_json(value: Any) -> None:
    """One JSON object, in ASCII where the output knows nothing else."""
    wide = (sys.stdout.encoding or "").lower().startswith("utf")
    print(visible_json(json.dumps(value, ensure_ascii=not wide, allow_nan=False)))
