"""`python -m core probe vllm:http://HOST:PORT`: what a server that holds a backbone can do."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from macd_studio.core.backbones.remote_address import read_address


def add_probe(commands: Any) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "probe",
        help="what a vLLM server can do for a run, and what starting it otherwise would add",
    )
    command.add_argument("backbone", metavar="vllm:http://HOST:PORT[/MODEL]")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def probe(args: argparse.Namespace) -> None:
    """Asks the server about a drawn clip, and prints what was found."""
    read_address(args.backbone)  # raises before torch is imported
    from macd_studio.core.backbones.remote.reader import open_server

    server = open_server(args.backbone).server
    if args.json:
        errors = {"error": server.error, "video_error": server.video_error}
        print(json.dumps(asdict(server) | errors))
    else:
        print("\n".join(server.lines()))
